"""InfraGraph out: its own package takes it and finds the links that the fabric has; read back, it
is the fabric that went out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from small import clos, dragonfly, fabric, full_mesh, graph, hyperx, mesh, star, torus
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.extras.interop.infragraph import infragraph
from colltool.fabric.dumps.read import import_dumps
from colltool.fabric.load import load_fabric
from colltool.fabric.topology import capabilities_of
from colltool.network.links import TierRanks
from colltool.network.tier_links import links_of
from colltool.network.wires import DragonflyWires, GraphWires


def graph_of(text: str) -> object:
    """The network that InfraGraph's own package makes of a file."""
    service = pytest.importorskip("infragraph.infragraph_service")
    from infragraph import Infrastructure

    made = Infrastructure()
    made.deserialize(text)
    running = service.InfraGraphService()
    running.set_graph(made)
    return running.get_networkx_graph()


def accelerators(graph: object) -> list[str]:
    return [node for node in graph.nodes if ".xpu." in node]  # type: ignore[attr-defined]


@swept(
    ("of", "links"),
    [
        (fabric(star(4)), 4),
        (fabric(full_mesh(5)), 10),
        (fabric(torus(4, 3)), 24),
        (fabric(torus(2, 3)), 9),
    ],
)
def test_a_node_has_the_links_of_its_tier(of: colltool.Fabric, links: int) -> None:
    graph = graph_of(infragraph(of))
    assert len(accelerators(graph)) == of.ranks
    assert len({frozenset(edge) for edge in graph.edges}) == links  # type: ignore[attr-defined]


def test_every_accelerator_reaches_every_other_over_leaf_and_spine() -> None:
    import networkx

    of = fabric(star(2), clos(6, (2, 1.0), (6, 2.0, 2.0)))
    graph = graph_of(infragraph(of))
    assert len(accelerators(graph)) == 12
    assert networkx.is_connected(networkx.Graph(graph))


@pytest.mark.parametrize("name", ["dgx-h100", "mi300x-cluster"])
def test_read_back_it_is_the_fabric_that_went_out(name: str, tmp_path: Path) -> None:
    went = load_fabric(name)
    file = tmp_path / "network.json"
    file.write_text(infragraph(went))
    came = load_fabric(yaml.safe_load(import_dumps(["infragraph", str(file)])))
    assert came.ranks == went.ranks
    for there, back in zip(went.tiers, came.tiers, strict=True):
        assert back.endpoints == there.endpoints
        assert back.bandwidth * back.ports == pytest.approx(there.bandwidth * there.ports)


ROUTED = [
    fabric(torus(4, 3, 2)),
    fabric(mesh(2, 4, 3)),
    fabric(torus(4, 8) | {"twist": True}),
    fabric(
        graph(
            (0, 1),
            {"between": [1, 2], "links": 2},
            (2, 3),
            (3, 0),
            (0, 2),
            {"between": [3, 4], "alpha": "2us"},
        )
    ),
    fabric(graph((0, "a"), (1, "a"), ("a", "b"), (2, "b"), (3, "b"))),
    fabric(hyperx(3, 4, links=[{"bandwidth": "50GB/s"}, {"bandwidth": "30GB/s", "alpha": "2us"}])),
    fabric(star(2), hyperx(3, 2, hosts=2, links=[{"alpha": "0.3us"}, {"alpha": "0.2us"}])),
    fabric(star(2), dragonfly(2, 3, 4)),
    fabric(dragonfly(2, 3, 3, spines=2, cables=2)),
    fabric(star(2), full_mesh(3), torus(3, 2)),
]
NAMES = [
    "torus",
    "mesh",
    "twisted",
    "graph",
    "graph of switches",
    "hyperx",
    "hyperx of switches",
    "dragonfly",
    "dragonfly+",
    "nested",
]


def accelerator(of: colltool.Fabric, rank: int) -> str:
    return "node.{}.xpu.{}".format(*divmod(rank, of.tiers[0].endpoints))


def microseconds(_one: str, _other: str, edge: dict[str, str]) -> float:
    return float(edge["latency"].split()[0]) if "latency" in edge else 0.0


@swept("of", ROUTED)
def test_ways_are_as_long_as_those_of_messages(of: colltool.Fabric) -> None:
    """The least latency between any two in InfraGraph's own graph is that of a message, by the
    links that prices run on."""
    import networkx

    net, tier = graph_of(infragraph(of)), of.tiers[-1]
    kind, every = capabilities_of(tier), np.arange(tier.endpoints)
    alphas_s = [one.alpha_s for one in kind.reached]
    wires = kind.wires(tier.endpoints)
    model = links_of(
        kind.joined_by, TierRanks(tier.endpoints), axes=kind.axes, alphas_s=alphas_s, wires=wires
    )
    ends = [accelerator(of, rank) for rank in every * (of.ranks // tier.endpoints)]
    found, due = [], []
    for start, end in enumerate(ends):
        to = networkx.single_source_dijkstra_path_length(net, end, weight=microseconds)
        found.append([to[other] for other in ends])
        due.append(model.latency(np.full(len(ends), start), every)[0] * (every != start) * 1e6)
    if isinstance(wires, DragonflyWires):  # whose latency is the longest way's, at each distance
        found, due = [np.max(found)], [np.max(due)]
    np.testing.assert_allclose(found, due, rtol=1e-9)


@swept("of", [ROUTED[3], *ROUTED[5:9]])
def test_cuts_are_those_of_the_prices(of: colltool.Fabric) -> None:
    """As much can leave the endpoints of each in InfraGraph's own graph, by max-flow; of two
    switches cuts are coarser."""
    import networkx

    tier = of.tiers[-1]
    wires = capabilities_of(tier).wires(tier.endpoints)
    assert wires is not None
    inside, net = of.ranks // tier.endpoints, networkx.Graph()
    for one, other, edge in graph_of(infragraph(of)).edges(data=True):  # type: ignore[attr-defined]
        port = wires.has_ports and {"xpu", "nic"} & {
            part.split("_")[0] for part in f"{one}.{other}".split(".")
        }
        rate = (
            float(edge["bandwidth"].split()[0])
            if "bandwidth" in edge and not port
            else float("inf")
        )
        net.add_edge(one, other, capacity=rate)
    for cut in wires.cuts():
        tried = net.copy()
        for rank in range(of.ranks):
            side = "here" if cut.first <= rank // inside < cut.after else "there"
            tried.add_edge(side, accelerator(of, rank), capacity=float("inf"))
        assert networkx.maximum_flow_value(tried, "here", "there") * 1e9 == pytest.approx(cut.Bps)


def read_back(of: colltool.Fabric, folder: Path, like: str | None = None) -> colltool.Fabric:
    file = folder / "network.json"
    file.write_text(infragraph(of))
    return load_fabric(yaml.safe_load(import_dumps(["infragraph", str(file)], like=like)))


def test_a_graph_read_back_has_the_same_links_and_price(tmp_path: Path) -> None:
    went = load_fabric("dgx-1v")
    came = read_back(went, tmp_path, like="dgx-1v")
    ours, theirs = (capabilities_of(one.tiers[0]).wires(8) for one in (went, came))
    assert isinstance(ours, GraphWires)
    assert isinstance(theirs, GraphWires)
    assert sorted(ours.edges) == sorted(theirs.edges)
    prices = [
        colltool.price(one, "ar", size="64MB", ideal=True).best.total_s for one in (went, came)
    ]
    assert prices[0] == prices[1]


@swept(
    ("of", "why"),
    [
        (ROUTED[4], "is no star: no switch joins all accelerators"),
        (
            fabric(hyperx(3, 3, links=[{"bandwidth": "47.2GB/s"}, {"bandwidth": "31.5GB/s"}])),
            "links of 31.5, 47.2 GB/s",
        ),
        (
            fabric(graph((0, "a"), (1, "a"), (0, 1))),
            "some links join accelerators directly, without a switch",
        ),
        (ROUTED[7], "both have hosts"),
        (ROUTED[9], "without a switch"),
    ],
)
def test_what_is_not_read_back_says_why(of: colltool.Fabric, why: str, tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match=why):
        read_back(of, tmp_path, like="dgx-1v")


def test_too_many_links_are_refused_and_a_star_is_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colltool.extras.interop.infragraph.MAX_EDGES", 14)
    infragraph(fabric(star(2), full_mesh(5)))
    with pytest.raises(ColltoolError, match="more than 14 edges"):
        infragraph(fabric(star(2), full_mesh(6)))
    assert json.loads(infragraph(fabric(star(2))))["instances"] == [
        {"name": "node", "device": "node", "count": 1}
    ]
