"""Numbers of the documents that need no row of their own: what ``--set``, ``sweep``, ``crossover``
and readings already say."""

from __future__ import annotations

from math import isqrt, sqrt
from typing import Any

import pytest
from small import fabric, star, torus
from swept import swept

import colltool
from colltool.algorithms.executor import run
from colltool.algorithms.lattice import busiest_link
from colltool.algorithms.program import program_maker
from colltool.base.primitives import AR
from colltool.network.arrays import Floats, Indices
from colltool.network.group import Axis, Group
from tests.wiring import Ports


def seconds(where: Any, primitive: str, algorithm: str, size: Any, **more: Any) -> float:
    (row,) = colltool.price(where, primitive, size=size, algorithms=algorithm, **more).results
    return float(row.total_s)


def test_ring_against_tree_by_three_approximations() -> None:
    """64 ranks, 1 us, 100 GB/s: 1.07 and 1.28 MB by two chapters, N α BW 6.4 MB; exactly 1.14
    MB."""
    (pair,) = colltool.crossover(fabric(star(64)), "ar", algorithms=["ring", "tree"]).pairs
    sizes = {name: size / 1e6 for name, size in pair.approximations.items()}
    expected = {"N*alpha*BW/log2N": 1.067, "N*alpha*BW/(log2N-1)": 1.28, "N*alpha*BW": 6.4}
    assert sizes == pytest.approx(expected, rel=1e-3)
    assert pair.crossings[0].bytes / 1e6 == pytest.approx(1.14, rel=0.005)
    assert sizes["N*alpha*BW/(log2N-1)"] / (pair.crossings[0].bytes / 1e6) == pytest.approx(
        1.12, abs=0.01
    )


@swept(
    ("ranks", "segments", "tree_beta", "n_alpha", "n_beta"),
    [(4, 1, 1, 4, 2), (512, 1, 1, 18, 9), (4, 1, 2, 4, 3), (64, 24, 2, 35, 2.375)],
)
def test_the_double_binary_tree_in_segments(
    ranks: int, segments: int, tree_beta: float, n_alpha: float, n_beta: float
) -> None:
    """At c = 1 as the chapter has it, n_α = 2 lg N + P - 1 and lg N + P - 1 over P; at c = 2 as it
    is executed."""
    where = fabric(star(ranks, alpha=1.0, bw=1.0))
    reading = {"ideal": True, "pipelining": segments, "tree_beta": tree_beta}
    (row,) = colltool.price(
        where, "ar", size=1e9, algorithms="double-binary-tree", **reading
    ).results
    assert (float(row.alpha_s) * 1e6, float(row.bandwidth_s)) == pytest.approx((n_alpha, n_beta))
    if tree_beta == 2:
        (one,) = colltool.verify(
            where, "ar", algorithms="double-binary-tree", segments=segments
        ).results
        assert (one.n_alpha[1], one.n_beta[1]) == (n_alpha, pytest.approx(n_beta))


@swept(("alpha_in", "alpha_out", "best"), [(0.5, 0.5, 12), (0.5, 2.0, 6), (2.0, 0.5, 24)])
def test_the_best_split_of_two_tiers_is_a_sweep(
    alpha_in: float, alpha_out: float, best: int
) -> None:
    """L* = sqrt(N α_in/α_out) domains: of 144 ranks 12, with 44 hops where a flat ring has 286."""
    tiers = [
        {"name": "inner", **star(2, alpha=alpha_in)},
        {"name": "outer", **star(144, alpha=alpha_out)},
    ]
    where = {"schema": "colltool.fabric/1", "name": "two", "tiers": tiers}
    sizes = [size for size in range(2, 73) if 144 % size == 0]
    found = colltool.sweep(
        where,
        "ar",
        ranks=144,
        sizes=[1],
        algorithms="hierarchical:ring/ring",
        vary=f"inner.size={','.join(map(str, sizes))}",
        ideal=True,
    )
    totals = {144 // size: cell.total_s for size, cell in zip(sizes, found.cells, strict=True)}
    assert min(totals, key=totals.__getitem__) == best == round(sqrt(144 * alpha_in / alpha_out))
    if alpha_in == alpha_out:
        assert best == isqrt(144)
        assert totals[12] / (alpha_in * 1e-6) == pytest.approx(44, rel=1e-3)
        assert seconds(
            fabric(star(144, alpha=0.5)), "ar", "ring", 1, ideal=True
        ) / 0.5e-6 == pytest.approx(286, rel=1e-3)


@swept(
    ("primitive", "algorithm"),
    [("ar", "dim-ring"), ("bc", "dim-chain-bidirectional"), ("a2a", "shortest-path")],
)
def test_the_best_shape_of_a_torus_is_a_sweep(primitive: str, algorithm: str) -> None:
    """Of the shapes of 512 ranks the cube: the least Σ d_i, and the least max d_i of an
    all-to-all."""
    shapes = "8x8x8,16x8x4,32x4x4,64x8x1,512x1x1"
    found = colltool.sweep(
        "torus512", primitive, sizes=["16MB"], vary=f"torus.shape={shapes}", algorithms=algorithm
    )
    totals = [cell.total_s for cell in found.cells]
    assert totals == sorted(totals)
    assert totals[0] < totals[1]


def test_the_loss_of_a_torus_that_is_not_twisted_is_an_eta() -> None:
    """TPU v4: an all-to-all gains up to 1.63x where the torus is twisted; the plain one is at η_β
    0.61 of it."""
    times = [
        seconds(
            fabric(torus(4, 4, 8, eta={"alpha": 1.0, "beta": beta})), "a2a", "shortest-path", "1GB"
        )
        for beta in (1.0, round(1 / 1.63, 4))
    ]
    assert times[1] / times[0] == pytest.approx(1.63, rel=1e-3)
    # the axis of 8 sets it, the others idle half
    assert max(busiest_link(Axis(size, wrap=True)) for size in (4, 4, 8)) == 1.0


@pytest.mark.parametrize("eta", [2, 3])
def test_queues_above_four_fifths_of_the_load_are_an_eta(eta: int) -> None:
    """α of two to three times: all of a small message's time, none of a large one's."""
    tier = colltool.load_fabric("star512").tiers[0].name
    loaded = colltool.load_fabric("star512", [f"{tier}.eta.alpha={eta}"])
    small, large = (
        seconds(loaded, "ar", "ring", size) / seconds("star512", "ar", "ring", size)
        for size in (1, "1TB")
    )
    assert small == pytest.approx(eta, rel=1e-6)
    assert large == pytest.approx(1, abs=0.01)


class OneSlowPort(Ports):
    """Rank 3 takes twice as long for its bytes."""

    def loads(self, src: Indices, dst: Indices, size: Floats) -> Floats:
        loads = super().loads(src, dst, size)
        loads[[3, 3 + self.ranks]] *= 2
        return loads


def test_a_ring_runs_at_the_pace_of_its_slowest_rank() -> None:
    """Executed with one slow port every step waits for it: as if all ports were slow, which is what
    ``--set`` prices."""
    group, make = Group(8, "star"), program_maker(AR, "ring")
    assert make is not None
    even, slow = Ports(8), OneSlowPort(8)
    for network in (even, slow):
        assert run(make(group, 1), network.carry).holds
    assert slow.peak == pytest.approx(2 * even.peak)
    times = [
        seconds(fabric(star(8, alpha=1.0, bw=rate)), "ar", "ring", "16MB") for rate in (100.0, 50.0)
    ]
    assert times[1] - times[0] == pytest.approx((slow.peak - even.peak) * 16e6 / 100e9)


@swept(("size", "alone", "measured"), [("1KB", 3.1, 25), ("64KB", 4.4, 30), ("1MB", 23.1, 40)])
def test_what_small_messages_take_beyond_the_wire_is_the_launch(
    size: str, alone: float, measured: float
) -> None:
    """One message by α and β, and as NCCL was measured: a launch of 22 us is what lies between."""
    wire = fabric(star(2, alpha=3.1, bw=50.0))
    called = fabric(star(2, alpha=3.1, bw=50.0), launch_overhead="22us")
    assert seconds(wire, "p2p", "send", size) * 1e6 == pytest.approx(alone, rel=0.02)
    assert seconds(called, "p2p", "send", size) * 1e6 == pytest.approx(measured, rel=0.15)
