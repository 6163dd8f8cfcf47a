"""Who may be called the fastest: what somebody can run; references, idealised and hypothetical
schedules stand behind."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from small import Tier, clos, fabric, full_mesh, gb, mesh, star, switch, torus, us
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.estimate.results import Winner
from colltool.fabric.model import Fabric

pytestmark = pytest.mark.usefixtures("datasheet")

PRIMITIVES = ("ar", "ag", "rs", "a2a", "bc", "reduce")
READINGS: list[dict[str, Any]] = [
    {},
    {},
    {"tree_beta": 1.0},
    {"ideal": True},
    {"placement": "scattered"},
    {"phases": "pipelined"},
    {"ring_alpha": "worst"},
    {"phases": "sequential", "tree_beta": 1.3},
]


def some_tier(draw: Random) -> Tier:
    """A tier of any kind, with a switch that computes or not, with protocols or not."""
    alpha, bandwidth = 10 ** draw.uniform(-1, 1.5), 10 ** draw.uniform(0.5, 3)
    more: dict[str, Any] = {"eta": {"alpha": draw.uniform(1, 2), "beta": draw.uniform(0.3, 1)}}
    kind = draw.choice(["star", "star", "clos", "full_mesh", "torus", "mesh"])
    if kind in ("star", "clos") and draw.random() < 0.5:
        more["in_network"] = switch(
            draw.uniform(0.1, 2), reduce=draw.random() < 0.7, all_to_all=draw.random() < 0.3
        )
    if draw.random() < 0.4:
        names = ["Simple", *draw.sample(["LL", "LL128"], draw.randint(0, 2))]
        more["protocols"] = [
            {
                "name": name,
                "launch_overhead": us(draw.uniform(0, 30)),
                "alpha": us(alpha * draw.uniform(0.2, 2)),
                "bandwidth": gb(bandwidth * draw.uniform(0.1, 1)),
            }
            for name in names
        ]
    size = draw.choice([2, 3, 4, 8])
    match kind:
        case "star":
            return star(size, alpha, bandwidth, **more)
        case "full_mesh":
            return full_mesh(size, alpha, bandwidth, **more)
        case "clos":
            ratio = draw.choice([1.0, 2.0, 4.0])
            return clos(2 * size, (2, alpha), (2 * size, 3 * alpha, ratio), bw=bandwidth, **more)
        case _:
            shape = draw.choice([(2, 2), (4,), (4, 2), (3, 3)])
            return (torus if kind == "torus" else mesh)(*shape, alpha=alpha, bw=bandwidth, **more)


def some_fabric(draw: Random) -> Fabric:
    return fabric(
        *(some_tier(draw) for _ in range(draw.randint(1, 3))),
        launch_overhead=us(draw.choice([0.0, 5.0, 20.0])),
    )


def at(winners: tuple[Winner, ...], size: float) -> Winner:
    (found,) = (
        one
        for one in winners
        if one.from_bytes <= size and (one.to_bytes is None or size < one.to_bytes)
    )
    return found


@swept("seed", range(120), most=15)
def test_the_map_of_winners_says_what_price_says(seed: int) -> None:
    draw = Random(seed)
    where, primitive, model = (
        some_fabric(draw),
        PRIMITIVES[seed % len(PRIMITIVES)],
        draw.choice(READINGS),
    )
    winners = colltool.crossover(where, primitive, **model).winners
    for size in (10 ** draw.uniform(0, 12) for _ in range(30)):
        best, found = colltool.price(where, primitive, size=size, **model).best, at(winners, size)
        # the same price but for rounding
        if (found.algorithm, found.protocol) != (best.title, best.protocol):
            named = colltool.price(
                where, primitive, size=size, algorithms=found.algorithm, **model
            ).best
            assert named.total_s == pytest.approx(best.total_s, rel=1e-9), (size, found, best.title)


@swept("seed", range(60), most=9)
def test_nothing_that_may_lead_is_faster_than_the_best(seed: int) -> None:
    """Every composition of what somebody ships, tried one by one: what a hypothetical part hid in
    0.2.0."""
    draw = Random(1000 + seed)
    where, model = some_fabric(draw), {"tree_beta": draw.choice([1.0, 2.0])}
    size = 10 ** draw.uniform(2, 9)
    priced = colltool.price(where, "ar", size=size, **model)
    assert all(row.selectable for row in priced.results[: len(priced.leading)])
    if len(where.tiers) != 2 or not priced.leading:
        return
    names = (
        "ring",
        "double-binary-tree",
        "direct",
        "two-shot",
        "recursive-halving",
        "rabenseifner",
        "in-network",
        "dim-ring",
        "multi-ring",
        "dim-ring-bidirectional",
        "pat",
    )
    for inner in names:
        for outer in names:
            try:
                row = colltool.price(
                    where, "ar", size=size, algorithms=f"hierarchical:{inner}/{outer}", **model
                ).best
            except ColltoolError:
                continue
            assert not row.selectable or row.total_s >= priced.best.total_s * (1 - 1e-12), row.title


def test_a_hypothetical_tree_hides_no_composition() -> None:
    """Two phases of NVLink and InfiniBand without switches that reduce: direct inside, two-shot
    outside."""
    textbook = {
        "launch_overhead": "0us",
        "nvlink.alpha": "1us",
        "ib.levels.leaf.alpha": "2us",
        "ib.eta.beta": "0.8",
    }
    switches = {"nvlink.in_network.reduce": "false", "ib.in_network.reduce": "false"}
    plain = colltool.load_fabric("dgx-h100", textbook | switches | {"library": "all"})
    found = colltool.price(plain, "ar", ranks=64, size=10e6, tree_beta=1)
    assert found.best.spec == "hierarchical:direct/two-shot"
    assert found.best.total_s == pytest.approx(110.1e-6, rel=1e-3)
    assert (
        colltool.breakdown(plain, "ar", ranks=64, size=10e6, tree_beta=1).price.best.title
        == found.best.title
    )
    assert (
        at(colltool.crossover(plain, "ar", ranks=64, tree_beta=1).winners, 10e6).algorithm
        == found.best.title
    )


def test_an_idealised_schedule_is_priced_and_never_leads() -> None:
    """dim-rabenseifner at 1 MB: 11.2 us by its formula, 24.2 executed; the winner is multi-ring."""
    found = colltool.price("torus512", "ar", size=1e6)
    row = next(row for row in found.others if row.algorithm == "dim-rabenseifner")
    assert row.status == "idealised"
    assert row.total_s < found.best.total_s
    assert found.best.algorithm == "multi-ring"
    (executed,) = colltool.verify("torus512", "ar", ranks=64, algorithms="dim-rabenseifner").results
    assert executed.verdict == "idealised"
    assert executed.time_s is not None
    assert executed.time_s[1] > 1.5 * executed.time_s[0]


def test_where_nobody_ships_anything_references_lead() -> None:
    found = colltool.price(fabric(mesh(4, 4)), "bc", size=1e6)
    assert found.leading == ()
    assert found.best.status == "reference"
    assert colltool.crossover(fabric(mesh(4, 4)), "bc").winners[0].algorithm == found.best.title


def test_a_root_in_the_middle_of_a_mesh_is_not_taken_for_granted() -> None:
    """Nobody ships a broadcast on a mesh: the first of the references stays one from rank 0, in a
    corner."""
    for primitive in ("bc", "reduce"):
        priced = colltool.price("mesh512", primitive, size="1MB")
        assert priced.best.algorithm == "multi-chain"
        assert {"dim-chain", "dim-chain-middle"} <= {row.algorithm for row in priced.others}
        small = colltool.price("mesh512", primitive, size="1KB")
        # half as deep, and yet not first
        assert min(small.others, key=lambda row: row.total_s).algorithm == "dim-chain-middle"


def test_what_is_named_is_compared_whatever_its_status() -> None:
    """256 B on 256 ranks: 510 hops of a ring against 16 of a textbook tree, which no library
    runs."""
    named = colltool.price(
        "star512", "ar", size=256, ranks=256, algorithms=["ring", "tree"], ideal=True
    )
    assert [row.algorithm for row in named.results] == ["tree", "ring"]
    assert named.best.status == "reference"
    assert named.best.total_s == pytest.approx(16 * 0.5e-6, rel=1e-3)
    assert named.leading == named.results
    assert not named.others
    assert [row.algorithm for row in named.runnable] == ["ring"]
    everything = colltool.price("star512", "ar", size=256, ranks=256, ideal=True)
    assert "tree" in {row.algorithm for row in everything.others}
    assert all(row.selectable for row in everything.leading)


def test_an_idealised_schedule_leads_where_it_is_named() -> None:
    found = colltool.price(
        "torus512", "ar", size=1e6, algorithms=["multi-ring", "dim-rabenseifner"]
    )
    assert (found.best.algorithm, found.best.status) == ("dim-rabenseifner", "idealised")


def test_a_composition_without_its_parts_means_what_the_user_can_run() -> None:
    """`hierarchical` names no choice inside: NCCL's come first, and a choice that is spelled out
    leads."""
    family = colltool.price("dgx-h100", "ar", ranks=64, size="1MB", algorithms=["hierarchical"])
    assert all(row.selectable for row in family.leading)
    assert family.others
    faster = min(family.others, key=lambda row: row.total_s)
    assert faster.total_s < family.best.total_s
    spelled = colltool.price(
        "dgx-h100", "ar", ranks=64, size="1MB", algorithms=["ring", faster.spec]
    )
    assert spelled.best.spec == faster.spec


def test_sweeps_and_crossovers_compare_what_is_named() -> None:
    cells = colltool.sweep("star512", "ar", sizes=[256, "1GB"], algorithms=["ring", "tree"]).cells
    assert [cell.algorithm for cell in cells] == ["tree", "ring"]
    found = colltool.crossover("star512", "ar", algorithms=["ring", "tree"])
    assert [winner.algorithm for winner in found.winners] == ["tree", "ring"]
    assert found.winners[1].from_bytes == pytest.approx(found.pairs[0].crossings[0].bytes)


@swept("seed", range(40), most=15)
def test_the_map_of_named_winners_says_what_price_says(seed: int) -> None:
    draw = Random(2000 + seed)
    where = fabric(
        star(draw.choice([8, 12, 64]), 10 ** draw.uniform(-1, 1), 10 ** draw.uniform(1, 3))
    )
    names = draw.sample(["ring", "tree", "one-shot", "two-shot", "double-binary-tree"], 3)
    winners = colltool.crossover(where, "ar", algorithms=names).winners
    for size in (10 ** draw.uniform(0, 11) for _ in range(10)):
        best = colltool.price(where, "ar", size=size, algorithms=names).best
        again = colltool.price(where, "ar", size=size, algorithms=at(winners, size).algorithm).best
        assert again.total_s == pytest.approx(best.total_s, rel=1e-9)
