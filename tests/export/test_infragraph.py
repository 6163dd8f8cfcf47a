"""InfraGraph out: its own package takes it and finds the links that the fabric has; read back, it is the fabric that went out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from small import clos, fabric, full_mesh, star, torus

import colltool
from colltool.base.errors import ColltoolError
from colltool.export.infragraph import infragraph
from colltool.fabric.load import load_fabric
from colltool.imports.read import imported

service = pytest.importorskip("infragraph.infragraph_service")


def graph_of(text: str) -> object:
    """The network that InfraGraph's own package makes of a file."""
    from infragraph import Infrastructure

    made = Infrastructure()
    made.deserialize(text)
    running = service.InfraGraphService()
    running.set_graph(made)
    return running.get_networkx_graph()


def accelerators(graph: object) -> list[str]:
    return [node for node in graph.nodes if ".xpu." in node]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("of", "links"),
    [
        (fabric(star(4)), 4),
        (fabric(full_mesh(5)), 10),
        (fabric(torus(4, 3)), 24),
        (fabric(torus(2, 3)), 9),
    ],
    ids=["star", "full mesh", "torus", "a pair and a ring"],
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
    came = load_fabric(yaml.safe_load(imported(["infragraph", str(file)])))
    assert came.ranks == went.ranks
    for there, back in zip(went.tiers, came.tiers, strict=True):
        assert back.endpoints == there.endpoints
        assert back.bandwidth * back.ports == pytest.approx(there.bandwidth * there.ports)


def test_what_is_not_written_says_so() -> None:
    with pytest.raises(ColltoolError, match="is not written"):
        infragraph(fabric(star(4), torus(2, 2)))
    assert json.loads(infragraph(fabric(star(2))))["instances"] == [{"name": "node", "device": "node", "count": 1}]
