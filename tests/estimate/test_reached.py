"""``library.reached``: published figures beside the model, by nodes and by rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import clos, fabric, star
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.library import Efficiency
from colltool.fabric.model import Fabric

POINTS = [{"nodes": 4, "share": 1.0}, {"nodes": 16, "share": 0.8}, {"nodes": 64, "share": 0.5}]
M = 64e6


def reached(**more: Any) -> dict[str, Any]:
    return {"algorithm": "multi-rail-ring", "primitives": ["all_reduce"], **more}


def nodes(count: int, **more: Any) -> Fabric:
    library = {"name": "nccl", "gpu": "hopper", "cpu": "intel", "reached": [reached(**more)]}
    return fabric(star(8, 0.8, 400.0), clos(count, alpha=5.0, bw=50.0), library=library)


def ring(where: Fabric, **asked: Any) -> Any:
    return colltool.price(where, "ar", size=M, algorithms="multi-rail-ring", **asked).best


@swept(
    ("count", "share"), [(2, 1.0), (4, 1.0), (8, 0.9), (16, 0.8), (32, 0.65), (64, 0.5), (128, 0.5)]
)
def test_a_share_by_nodes_is_linear_in_the_logarithm_and_ends_flat(
    count: int, share: float
) -> None:
    own = Efficiency.model_validate(reached(share=POINTS))
    assert own.share_on(count) == pytest.approx(share)
    row, plain = ring(nodes(count, share=POINTS)), ring(nodes(count))
    assert (row.bandwidth_s, row.alpha_s) == (plain.bandwidth_s, plain.alpha_s)
    assert row.bandwidth_s + row.software_s == pytest.approx(plain.bandwidth_s / share)
    assert row.total_s == pytest.approx(plain.total_s + row.software_s)
    assert any(f"{share:.1%} of the bandwidth" in note for note in row.notes) == (share < 1)


@given(
    st.lists(
        st.tuples(st.integers(1, 10_000), st.floats(0.01, 1)),
        min_size=1,
        max_size=6,
        unique_by=lambda one: one[0],
    ),
    st.integers(1, 20_000),
)
def test_a_share_lies_between_its_neighbours(points: list[tuple[int, float]], count: int) -> None:
    own = Efficiency.model_validate(
        reached(share=[{"nodes": n, "share": share} for n, share in points])
    )
    assert (
        min(share for _, share in points) - 1e-12
        <= own.share_on(count)
        <= max(share for _, share in points) + 1e-12
    )


def test_a_figure_can_hold_under_some_protocols_alone() -> None:
    """Of two that fit the first counts; a tier without protocols of these names has none."""
    ways = [
        {"name": "LL", "alpha": "1us", "bandwidth": "10GB/s"},
        {"name": "Simple", "alpha": "9us", "bandwidth": "50GB/s"},
    ]
    library = {
        "name": "nccl",
        "reached": [reached(share=0.5, protocols=["Simple"]), reached(share=0.9)],
    }
    inside, across = star(8, 0.8, 400.0), clos(8, alpha=5.0, bw=50.0)
    with_protocols = fabric(inside, {**across, "protocols": ways}, library=library)
    for where, size, share in (
        (with_protocols, 1e3, "90.0%"),
        (with_protocols, 1e9, "50.0%"),
        (fabric(inside, across, library=library), M, "90.0%"),
    ):
        best = colltool.price(where, "ar", size=size, algorithms="multi-rail-ring").best
        assert any(f"reaches {share} of the bandwidth" in note for note in best.notes)


def test_a_start_is_paid_for_each_rank_once_a_call() -> None:
    row, plain = ring(nodes(4, startup_per_rank="2us")), ring(nodes(4))
    assert row.overhead_s == plain.overhead_s
    assert row.software_s == pytest.approx(32 * 2e-6)
    assert any("takes 64 us to start" in note for note in row.notes)


@swept("size", [1e3, 1e6, 1e9, 4e9])
def test_a_rise_goes_with_the_root_of_the_size(size: float) -> None:
    where, plain = nodes(4, rise_per_rank="10us"), nodes(4)
    row, base = (
        colltool.price(one, "ar", size=size, algorithms="multi-rail-ring").best
        for one in (where, plain)
    )
    assert row.software_s == pytest.approx(32 * 10e-6 * (size / 1e9) ** 0.5)
    assert row.bandwidth_s == base.bandwidth_s
    assert row.alpha_s + row.overhead_s + row.bandwidth_s + row.software_s == pytest.approx(
        row.total_s
    )
    assert sum(phase.bandwidth_s for phase in row.phases) == pytest.approx(row.bandwidth_s)
    (many,) = colltool.price(
        where, "ar", size=np.array([size, 2 * size]), algorithms="multi-rail-ring"
    ).results
    assert many.total_s[0] == pytest.approx(row.total_s)
    optimal = colltool.price(
        where, "ar", size=size, algorithms="multi-rail-ring", pipelining="optimal"
    ).best
    assert optimal.total_s == pytest.approx(row.total_s)


def test_a_winner_that_rises_slowly_is_found_exactly() -> None:
    library = {
        "name": "nccl",
        "reached": [{"algorithm": "in-network", "primitives": ["ar"], "rise_per_rank": "100us"}],
    }
    can = {"reduce": True, "multicast": True, "alpha_switch": "0.2us"}
    where = fabric(star(8, 0.8, 400.0, in_network=can), library=library)
    found = colltool.crossover(where, "ar", algorithms=["ring", "in-network"])
    sizes = [one.bytes for one in found.pairs[0].crossings]
    assert len(sizes) == 2, "in-network below and above, ring between"
    for size in sizes:
        ring, switched = (
            colltool.price(where, "ar", size=size, algorithms=name).best
            for name in ("ring", "in-network")
        )
        assert ring.total_s == pytest.approx(switched.total_s)
    assert [one.algorithm for one in found.winners] == ["in-network", "ring", "in-network"]


def test_only_of_what_it_names_and_only_with_its_library() -> None:
    where = nodes(16, share=0.5)
    plain = nodes(16)
    for asked in ({"ideal": True}, {"library": "all"}, {"library": "rccl"}):
        assert ring(where, **asked).total_s == ring(plain, **asked).total_s
    gathers = [
        colltool.price(one, "ag", size=M, algorithms="multi-rail-ring").best.total_s
        for one in (where, plain)
    ]
    assert gathers[0] == gathers[1]
    assert (
        colltool.price(where, "ar", size=M, algorithms="ring").best
        == colltool.price(plain, "ar", size=M, algorithms="ring").best
    )


def test_of_a_composition_by_its_choices() -> None:
    library = {
        "name": "nccl",
        "reached": [reached(algorithm="hierarchical:ring/double-binary-tree", share=0.5)],
    }
    where = fabric(star(8, 0.8, 400.0), clos(4, alpha=5.0, bw=50.0), library=library)
    for spec, factor in (
        ("hierarchical:ring/double-binary-tree", 2),
        ("hierarchical:ring/ring", 1),
    ):
        row, plain = (
            colltool.price(where, "ar", size=M, algorithms=spec, library=one).best
            for one in (None, "all")
        )
        assert row.bandwidth_s + row.software_s == pytest.approx(factor * plain.bandwidth_s)


@swept(
    ("entry", "words"),
    [
        (reached(algorithm="multi-rial-ring"), "did you mean 'multi-rail-ring'"),
        (reached(algorithm="hierarchical:ring/rign"), "did you mean 'ring'"),
        (reached(algorithm="hierarchical:"), "ends where a name is due"),
        (reached(share=1.5), "from 0.000001 to 1"),
        (reached(share=[]), "a list such as"),
        (reached(primitives=[]), "a list of primitives"),
        (reached(startup_per_rank=5), "a time"),
    ],
)
def test_what_it_cannot_be(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(ColltoolError) as refused:
        fabric(star(8), library={"name": "nccl", "reached": [entry]})
    assert words in str(refused.value)


def test_a_ring_with_a_rank_on_each_node_is_one_rail_of_the_library_s() -> None:
    where, plain = nodes(16, share=POINTS), nodes(16)
    row, bare = (
        colltool.price(of, "ar", size=M, ranks=16, stride=8, algorithms="ring").best
        for of in (where, plain)
    )
    assert row.bandwidth_s + row.software_s == pytest.approx(bare.bandwidth_s / 0.8)  # 16 nodes
    assert any("80.0% of the bandwidth" in note for note in row.notes)


def test_figures_from_inside_a_node_say_nothing_of_a_rank_on_each() -> None:
    where, plain = nodes(16, algorithm="ring", share=0.5), nodes(16)
    inside, across = {"ranks": 8}, {"ranks": 16, "stride": 8}

    def wire(of: Fabric, group: dict[str, int]) -> float:
        best = colltool.price(of, "ar", size=M, algorithms="ring", **group).best
        return float(best.bandwidth_s + best.software_s)

    assert wire(where, inside) == pytest.approx(2 * wire(plain, inside))
    assert wire(where, across) == wire(plain, across)


KNOTS = [(64, 1e6, 100e-6), (64, 16e6, 400e-6), (256, 1e6, 300e-6), (256, 64e6, 900e-6)]


def measured_on(count: int) -> Fabric:
    points = [
        {"ranks": ranks, "size": f"{size:g}B", "time": f"{seconds!r}s"}
        for ranks, size, seconds in KNOTS
    ]
    return nodes(count, software=points)


@swept(
    ("count", "size", "wanted"),
    [
        (8, 1e6, 100e-6),  # as measured
        (8, 8.5e6, 250e-6),  # straight between two sizes
        (8, 1e3, 100e-6),  # below and above them the nearest
        (8, 1e9, 400e-6),
        (2, 16e6, 400e-6),  # fewer ranks than measured: the nearest
        (128, 64e6, 900e-6),  # more
        (16, 1e6, 200e-6),  # 128 ranks, half of the way from 64 to 256 by the logarithm
        (16, 64e6, 650e-6),
    ],
)
def test_a_measured_time_is_used_where_it_was_measured_and_held_outside(
    count: int, size: float, wanted: float
) -> None:
    row, plain = (
        colltool.price(one, "ar", size=size, algorithms="multi-rail-ring").best
        for one in (measured_on(count), nodes(count))
    )
    assert row.software_s == pytest.approx(wanted)
    assert row.total_s == pytest.approx(plain.total_s + wanted)
    assert (row.bandwidth_s, row.overhead_s) == (plain.bandwidth_s, plain.overhead_s)
    held = any("nearest measurement used" in note for note in row.notes)
    first, last = (1e6, 16e6) if count <= 8 else (1e6, 64e6)
    assert held == (not (first <= size <= last and 8 <= count <= 32))
    (many,) = colltool.price(
        measured_on(count), "ar", size=np.array([size, 2e6]), algorithms="multi-rail-ring"
    ).results
    assert many.software_s[0] == pytest.approx(wanted)


def test_a_law_is_held_outside_of_what_it_was_fitted_to() -> None:
    where = nodes(
        4, rise_per_rank="10us", measured={"smallest": "512MiB", "largest": "16GiB", "ranks": [16]}
    )
    for size, at in ((1e6, 2**29), (1e9, 1e9), (1e12, 2**34)):
        row = colltool.price(where, "ar", size=size, algorithms="multi-rail-ring").best
        assert row.software_s == pytest.approx(16 * 10e-6 * (at / 1e9) ** 0.5)


def test_crossovers_are_exact_on_every_piece() -> None:
    points = [
        {"ranks": 8, "size": "1MB", "time": "5us"},
        {"ranks": 8, "size": "4MB", "time": "80us"},
    ]
    library = {
        "name": "nccl",
        "reached": [{"algorithm": "in-network", "primitives": ["ar"], "software": points}],
    }
    can = {"reduce": True, "multicast": True, "alpha_switch": "0.2us"}
    where = fabric(star(8, 0.8, 400.0, in_network=can), library=library)
    found = colltool.crossover(where, "ar", algorithms=["ring", "in-network"])
    for one in found.pairs[0].crossings:
        ring, switched = (
            colltool.price(where, "ar", size=one.bytes, algorithms=name).best
            for name in ("ring", "in-network")
        )
        assert ring.total_s == pytest.approx(switched.total_s)
    edges = [
        (winner.from_bytes, winner.to_bytes or 1e12, winner.algorithm) for winner in found.winners
    ]
    for low, high, name in edges:
        assert colltool.price(where, "ar", size=(low * high) ** 0.5).best.algorithm == name
    assert [name for _, _, name in edges] == ["in-network", "ring", "in-network"]


def test_what_is_known_of_a_part_holds_inside_a_composition() -> None:
    points = [{"ranks": 8, "size": "1MB", "time": "50us"}]
    library = {
        "name": "nccl",
        "collnet": True,
        "reached": [{"algorithm": "in-network", "primitives": ["ar"], "software": points}],
    }
    can = {"reduce": True, "multicast": True, "alpha_switch": "0.2us"}
    where = fabric(
        star(8, 0.8, 400.0, in_network=can),
        clos(4, alpha=5.0, bw=50.0, in_network=can),
        library=library,
    )
    for spec, wanted in (
        ("hierarchical:in-network/in-network", 50e-6),
        ("hierarchical:ring/in-network", 0.0),
    ):
        assert colltool.price(
            where, "ar", size=M, algorithms=spec
        ).best.software_s == pytest.approx(wanted)
    assert colltool.price(
        where, "ar", size=M, ranks=8, algorithms="in-network"
    ).best.software_s == pytest.approx(50e-6)
