"""``plan --links``: the links of a whole job, held to loads known by hand, to the price, and to
``contention``."""

from __future__ import annotations

import time
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.training.job_links import JobLink
from colltool.training.plan import Plan

pytestmark = pytest.mark.usefixtures("datasheet")

GB = 1e9


def fabric(*tiers: dict[str, Any]) -> dict[str, Any]:
    return {"schema": "colltool.fabric/1", "name": "small", "tiers": list(tiers)}


def star(size: int, name: str = "net", bandwidth: str = "100GB/s", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "topology": "star",
        "size": size,
        "alpha": "1us",
        "bandwidth": bandwidth,
    } | more


def torus(*shape: int, **more: Any) -> dict[str, Any]:
    return {
        "name": "torus",
        "topology": "torus",
        "shape": list(shape),
        "alpha": "1us",
        "bandwidth": "50GB/s",
    } | more


def clos(nodes: int, leaf: int, ratio: float, **more: Any) -> dict[str, Any]:
    levels = [
        {"name": "leaf", "group": leaf, "alpha": "5us"},
        {"name": "spine", "group": nodes, "alpha": "9us", "oversubscription": ratio},
    ]
    return {
        "name": "ib",
        "topology": "clos",
        "size": nodes,
        "bandwidth": "50GB/s",
        "levels": levels,
    } | more


def planned(
    where: dict[str, Any], *calls: dict[str, Any], layout: dict[str, Any] | None = None, **keys: Any
) -> Plan:
    """Plain calls alone."""
    return colltool.plan(
        {"calls": list(calls), "layout": layout or {}} | keys, where, links=True, ideal=True
    )


def sent(primitive: str, size: str = "1GB", group: str = "all", **keys: Any) -> dict[str, Any]:
    return {"primitive": primitive, "group": group, "size": size} | keys


def link(found: Plan, kind: str, tier: str = "") -> JobLink:
    assert found.links is not None
    return next(one for one in found.links.links if one.kind == kind and tier in ("", one.tier))


def held_to_the_price(found: Plan, *tiers: str) -> None:
    """The busiest link of a tier takes as long as the price has its wires busy."""
    assert found.links is not None
    assert not found.links.notes
    for wire in found.wires:
        if not tiers or wire.tier in tiers:
            busiest = max(one.busy_s for one in found.links.links if one.tier == wire.tier)
            assert busiest == pytest.approx(wire.busy_s, rel=1e-6), wire


@swept(
    ("primitive", "name", "n_beta"),
    [
        ("ar", "ring", 2 * 7 / 8),
        ("ar", "double-binary-tree", 2),
        ("ar", "recursive-doubling", 3),
        ("ar", "rabenseifner", 2 * 7 / 8),
        ("ar", "two-shot", 2 * 7 / 8),
        ("ar", "one-shot", 7),
        ("ar", "in-network", 1),
        ("ag", "ring", 7 / 8),
        ("ag", "pat", 7 / 8),
        ("rs", "in-network", 7 / 8),
        ("a2a", "pairwise", 7 / 8),
        ("a2a", "bruck", 1.5),
    ],
)
def test_a_port_carries_what_the_formula_says(primitive: str, name: str, n_beta: float) -> None:
    long = {"ar": "all_reduce", "ag": "all_gather", "rs": "reduce_scatter", "a2a": "all_to_all"}[
        primitive
    ]
    can = {"reduce": True, "multicast": True, "alpha_switch": "1us"}
    net = star(8, algorithms={long: [name]}, in_network=can)
    found = planned(
        fabric({**net, "topology": "clos"} if name == "pat" else net), sent(primitive, count=3)
    )
    busiest = link(found, "ports")
    assert found.collectives[0].sent.cost.algorithm == name
    assert busiest.bytes == pytest.approx(3 * n_beta * GB)
    assert busiest.by == (("all", pytest.approx(busiest.bytes)),)
    assert busiest.busy_s == pytest.approx(busiest.bytes / 100e9)
    held_to_the_price(found)


@swept(
    ("primitive", "name"),
    [
        ("all_reduce", "hierarchical:ring/ring"),
        ("all_reduce", "hierarchical:in-network/double-binary-tree"),
        ("all_reduce", "leader:binomial/ring"),
        ("reduce_scatter", "hierarchical:ring/ring"),
        ("all_gather", "hierarchical:ring/pat"),
        ("all_gather", "multi-rail-ring"),
        ("all_to_all", "two-level:pairwise/direct"),
        ("all_to_all", "direct"),
    ],
)
def test_tiers_carry_what_their_phases_say(primitive: str, name: str) -> None:
    inner = star(
        8,
        "nvlink",
        "400GB/s",
        in_network={"reduce": True, "multicast": True, "alpha_switch": "1us"},
    )
    found = planned(fabric(inner, clos(4, 2, 1, algorithms={primitive: [name]})), sent(primitive))
    assert found.collectives[0].sent.cost.algorithm.startswith(name.partition(":")[0])
    apart = {"leader:binomial/ring": ("ib",), "multi-rail-ring": ("ib",)}  # see below
    held_to_the_price(found, *apart.get(name, ()))
    ports = {tier: link(found, "ports", tier).bytes for tier in ("nvlink", "ib")}
    if name == "multi-rail-ring":  # the price names the slower tier alone
        assert ports == pytest.approx({"nvlink": 31 / 32 * GB, "ib": 31 / 32 * GB / 8})
    if name == "leader:binomial/ring":  # three vectors into a leader, then three out of it
        assert ports == pytest.approx({"nvlink": 3 * GB, "ib": 2 * 3 / 4 * GB})


@pytest.mark.parametrize(("name", "times"), [("dim-ring", 2), ("dim-ring-bidirectional", 1)])
def test_axes_of_a_torus_in_turn(name: str, times: float) -> None:
    """One direction scatters and the other gathers: the price waits for both, unless both work at
    once."""
    found = planned(fabric(torus(4, 4, algorithms={"all_reduce": [name]})), sent("ar"))
    axes = [link(found, f"axis {number}").busy_s for number in (1, 2)]
    assert times * sum(axes) == pytest.approx(found.wires[0].busy_s)
    assert axes[0] == pytest.approx(4 * axes[1])


def test_axes_of_a_torus_at_once() -> None:
    held_to_the_price(
        planned(fabric(torus(4, 4, algorithms={"all_reduce": ["multi-ring"]})), sent("ar"))
    )


def test_an_all_to_all_on_torus_links() -> None:
    """Bytes to each of 7 on a ring of 8: the way round is up to 4 hops, a port's neighbour link
    carries 8 of 64 eighths."""
    found = planned(fabric(torus(8)), sent("a2a"))
    assert link(found, "axis 1").bytes == pytest.approx((1 + 2 + 3 + 4 / 2) / 8 * GB)
    held_to_the_price(found)


@swept("ratio", [1, 2, 4, 8])
def test_uplinks_of_a_leaf(ratio: float) -> None:
    """All to all of 64: 32 under a leaf send half of what they have up, over 32 ports' rate divided
    by the ratio."""
    found = planned(
        fabric(
            star(8, "nvlink", "400GB/s"), clos(8, 4, ratio, algorithms={"all_to_all": ["direct"]})
        ),
        sent("a2a"),
    )
    uplinks = link(found, "leaf links")
    assert uplinks.link in ("ib leaf 0 uplinks", "ib leaf 1 uplinks")
    assert uplinks.bytes == pytest.approx(32 * GB / 2)
    assert uplinks.rate_Bps == pytest.approx(32 * 50e9 / ratio)
    held_to_the_price(found)


def test_two_dimensions_on_one_port_add_up() -> None:
    """Tensor parallelism stays in the node; replicas and stages share each NIC."""
    nodes = fabric(
        star(8, "nvlink", "400GB/s"), star(4, "ib", "50GB/s", algorithms={"all_reduce": ["ring"]})
    )
    calls = [sent("ar", "8GB", "dp"), sent("p2p", "1GB", "pp", count=5), sent("ag", "2GB", "tp")]
    found = planned(nodes, *calls, layout={"tp": 8, "dp": 2, "pp": 2})
    busiest = link(found, "ports", "ib")
    assert busiest.link in ("ib rank 0 out", "ib rank 16 in")
    assert dict(busiest.by) == pytest.approx({"dp": 8 * GB, "pp": 5 * GB})
    assert busiest.bytes == pytest.approx(13 * GB)
    assert link(found, "ports", "nvlink").by == (("tp", pytest.approx(7 / 8 * 2 * GB)),)


def job(**keys: Any) -> dict[str, Any]:
    return {
        "model": "llama3-8b",
        "sequence": 4096,
        "batch": {"global": 64, "micro": 1},
        "device": "h100",
        "stack": "megatron",
        "layout": {"tp": 8, "sp": True, "pp": 4},
        "shard": {"mode": "zero1"},
    } | keys


NODES = fabric(star(8, "nvlink", "400GB/s"), star(16, "ib", "50GB/s"))


@pytest.mark.parametrize("virtual", [1, 2])
def test_borders_of_a_pipeline(virtual: int) -> None:
    """A stage in the middle sends every chunk on and back; with virtual stages the last goes on to
    the first but once."""
    layout = {"tp": 8, "sp": True, "pp": 4, "virtual": virtual}
    found = colltool.plan(job(layout=layout), NODES, 32, links=True, ideal=True)
    border = next(one.sent.call for one in found.collectives if one.sent.call.dimension == "pp")
    busiest = link(found, "ports", "ib")
    assert busiest.link in ("ib rank 8 out", "ib rank 8 in")
    chunks = virtual * found.setup.micro_batches
    assert dict(busiest.by)["pp"] == pytest.approx(2 * chunks * border.bytes)
    ends = 2 * (chunks + (virtual - 1) * found.setup.micro_batches) * border.bytes / 2
    # two stages in the middle, and the two ends
    sent_in_all = 2 * 2 * chunks * border.bytes + 2 * ends
    assert busiest.over_mean == pytest.approx(
        2 * chunks * border.bytes / (sent_in_all / 4), rel=1e-3
    )


def test_a_tied_embedding_joins_the_first_and_the_last_stage_of_each_pipeline() -> None:
    """Also where pipelines are not outermost; a group is counted once, though both of its stages
    list it."""
    shape = {"layers": 8, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 32000, "tied": True}
    for order in (["tp", "cp", "ep", "dp", "pp"], ["tp", "pp", "dp", "cp", "ep"]):
        found = colltool.plan(
            job(model=shape, layout={"tp": 2, "pp": 4, "order": order}, overlap={"pp": True}),
            fabric(star(16, algorithms={"all_reduce": ["ring"]})),
            16,
            links=True,
            ideal=True,
        )
        call = next(
            one.sent.call for one in found.collectives if one.sent.call.dimension == "embedding"
        )
        by = dict(link(found, "ports").by)
        assert by["embedding"] == pytest.approx(call.bytes), "2(2-1)/2 M through each of its ports"
        assert by["norm"] == pytest.approx(2 * 15 / 16 * 4), "all of the job's ranks, once"


def test_every_rank_of_a_dense_job_sends_alike() -> None:
    """Without stages, the busiest port is the mean one, and the price has it as busy."""
    flat = job(layout={"tp": 8, "sp": True}, shard={"mode": "fsdp"})
    found = colltool.plan(flat, NODES, 128, links=True, ideal=True)
    held_to_the_price(found)
    assert [one.over_mean for one in found.links.links] == pytest.approx([1, 1])  # type: ignore[union-attr]


@swept(("primitive", "algorithm"), [("ar", "ring"), ("a2a", "direct"), ("ag", "direct")])
@swept("stride", [1, 8])
def test_contention_has_the_same_loads(primitive: str, algorithm: str, stride: int) -> None:
    """All groups of one dimension at once: what ``contention`` says of the layout of these
    groups."""
    long = {"ar": "all_reduce", "ag": "all_gather", "a2a": "all_to_all"}[primitive]
    runs = {"algorithms": {long: [algorithm]}}
    where = fabric(star(8, "nvlink", "400GB/s", **runs), clos(8, 4, 2, **runs))
    group = {1: "tp", 8: "dp"}[stride]
    found = planned(where, sent(primitive, "64MB", group), layout={"tp": 8, "dp": 8})
    pattern = {"kind": "cyclic" if stride > 1 else "block", "group": 8}
    layout = {"schema": "colltool.layout/1", "name": "same", "pattern": pattern}
    against = colltool.contention(
        where, layout, primitive=primitive, algorithm=algorithm, size="64MB", per_link=True
    )
    assert found.links is not None
    assert found.links.links
    loads = {one.link: one.load for one in against.links}
    for one in found.links.links:
        assert loads[one.link] == pytest.approx(one.bytes)
        assert max(
            loads[name] for name in loads if name.split()[:2] == one.link.split()[:2]
        ) == pytest.approx(one.bytes)


def test_what_is_not_counted_is_said() -> None:
    outer = fabric(
        star(8, "nvlink", "400GB/s"),
        star(4, "ib", "50GB/s", algorithms={"all_reduce": ["outer-ring"]}),
    )
    found = planned(
        outer, sent("ar"), sent("ag", group="dp", time="3ms"), layout={"tp": 8, "dp": 4}
    )
    assert found.links is not None
    assert found.links.links == ()
    assert found.links.notes == (
        "not counted: all, because no schedule is written for outer-ring",
        "not counted: dp, because their time is given and their links are unknown",
    )


def test_a_schedule_of_too_many_messages_is_said() -> None:
    for ranks in (2048, 8192):
        found = planned(fabric(star(ranks, algorithms={"all_to_all": ["pairwise"]})), sent("a2a"))
        assert found.links is not None
        assert found.links.notes == (
            f"not counted: all, because pairwise on {ranks} ranks sends too many messages to follow",
        )


def test_nobody_gets_them_unasked() -> None:
    assert colltool.plan(job(), NODES, 128).links is None


def test_512_ranks_take_seconds() -> None:
    start = time.perf_counter()
    found = colltool.plan(
        "llama3-70b", colltool.load_fabric("dgx-h100", ["ib.size=64"]), 512, links=True
    )
    assert time.perf_counter() - start < 10
    assert found.links is not None
    assert {(one.tier, one.kind) for one in found.links.links} == {
        ("nvlink", "ports"),
        ("ib", "ports"),
        ("ib", "leaf links"),
    }
