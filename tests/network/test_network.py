"""Loads of ports and links: by hand, and lattices against routing one message after the other, hop
by hop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

import numpy as np
import pytest
from swept import swept

from colltool.algorithms.executor import Network
from colltool.algorithms.program import step
from colltool.network.group import Axis
from tests.wiring import LatticeNetwork, MeshNetwork, Ports

Place = tuple[int, ...]
Loads = dict[tuple[Place, Place], float]

SHAPES = [
    pytest.param([(1, True)], id="one rank"),
    pytest.param([(2, True)], id="pair closed"),
    pytest.param([(2, False)], id="pair open"),
    pytest.param([(3, True)], id="ring 3"),
    pytest.param([(4, True)], id="ring 4"),
    pytest.param([(5, False)], id="line 5"),
    pytest.param([(4, True), (4, True)], id="torus 4x4"),
    pytest.param([(3, True), (5, True)], id="torus 3x5"),
    pytest.param([(4, False), (3, False)], id="mesh 4x3"),
    pytest.param([(4, True), (3, False)], id="ring 4 x line 3"),
    pytest.param([(3, False), (6, True)], id="line 3 x ring 6"),
    pytest.param([(2, True), (4, True), (1, True), (3, False)], id="2x4x1x3"),
    pytest.param([(1, False), (2, True), (2, False)], id="1x2x2"),
    pytest.param([(2, True), (2, True), (4, True)], id="2x2x4"),
]


def axes_of(sizes: list[tuple[int, bool]]) -> list[Axis]:
    return [Axis(size, wrap) for size, wrap in sizes]


def place(rank: int, axes: list[Axis]) -> Place:
    """Digits of the rank, the first axis fastest."""
    out = []
    for axis in axes:
        rank, digit = divmod(rank, axis.size)
        out.append(digit)
    return tuple(out)


def ways(at: int, end: int, axis: Axis) -> list[tuple[int, int]]:
    """(direction, hops) of the shortest ways along one axis; a closed pair has one link, so one
    way."""
    if at == end:
        return []
    if axis.wrap and axis.size > 2:
        up, down = (end - at) % axis.size, (at - end) % axis.size
        return [(way, hops) for way, hops in ((1, up), (-1, down)) if hops == min(up, down)]
    return [(1, end - at)] if end > at else [(-1, at - end)]


def walk(src: Place, dst: Place, axes: list[Axis]) -> Iterator[tuple[Place, Place, float]]:
    """Every link that a message takes, and its share there."""
    here = list(src)
    for k, axis in enumerate(axes):
        found = ways(here[k], dst[k], axis)
        for way, hops in found:
            at = list(here)
            for _ in range(hops):
                before = tuple(at)
                at[k] = (at[k] + way) % axis.size
                yield before, tuple(at), 1 / len(found)
        here[k] = dst[k]


def brute_force(messages: list[tuple[int, int, float]], axes: list[Axis]) -> Loads:
    loads: Loads = defaultdict(float)
    for src, dst, size in messages:
        for start, end, share in walk(place(src, axes), place(dst, axes), axes):
            loads[start, end] += size * share
    return loads


def measured(
    net: LatticeNetwork, messages: list[tuple[int, int, float]], axes: list[Axis]
) -> Loads:
    """The loaded links by the places that they join."""
    src, dst, size = (np.array(column) for column in zip(*messages, strict=True))
    loads: Loads = {}
    for link in np.flatnonzero(out := net.loads(src, dst, size.astype(float))):
        number, rank = divmod(int(link), net.ranks)
        axis, way = divmod(number, 2)
        start = place(rank, axes)
        end = list(start)
        end[axis] += 1 if way == 0 else -1
        if axes[axis].is_ring:
            end[axis] %= axes[axis].size
        assert 0 <= end[axis] < axes[axis].size, "a load beyond the end of a line"
        loads[start, tuple(end)] = float(out[link])
    return loads


@swept("sizes", SHAPES)
def test_lattice_loads_are_those_of_routing_hop_by_hop(sizes: list[tuple[int, bool]]) -> None:
    axes = axes_of(sizes)
    n = prod(axis.size for axis in axes)
    rng = np.random.default_rng(5)
    everyone = [(a, b, 1 / n) for a in range(n) for b in range(n)]
    some = [(int(rng.integers(n)), int(rng.integers(n)), float(rng.random())) for _ in range(40)]
    for messages in (everyone, some, [(0, n - 1, 1.0)]):
        assert measured(LatticeNetwork(axes), messages, axes) == pytest.approx(
            brute_force(messages, axes)
        )


@swept("sizes", SHAPES)
def test_lattice_distance_is_the_longest_walk(sizes: list[tuple[int, bool]]) -> None:
    axes = axes_of(sizes)
    net = LatticeNetwork(axes)

    def hops(a: int, b: int) -> int:
        pairs = zip(place(a, axes), place(b, axes), axes, strict=True)
        return sum(min((found[1] for found in ways(x, y, axis)), default=0) for x, y, axis in pairs)

    for a in range(net.ranks):
        for b in range(net.ranks):
            assert net.distance(np.array([a]), np.array([b])) == hops(a, b)
    zeros, everyone = np.zeros(net.ranks, dtype=np.int64), np.arange(net.ranks)
    assert net.distance(zeros, everyone) == max(hops(0, b) for b in everyone)


def all_to_all(net: LatticeNetwork) -> np.ndarray:
    src, dst = np.divmod(np.arange(net.ranks**2), net.ranks)
    return net.loads(src, dst, np.full(len(src), 1 / net.ranks))


def test_all_to_all_on_a_4x4_torus_puts_8_chunks_on_every_link() -> None:
    loads = all_to_all(LatticeNetwork([Axis(4, True)] * 2))
    assert loads * 16 == pytest.approx(np.full(2 * 16 * 2, 8.0))


def test_the_cut_of_a_4x4_torus_by_counting() -> None:
    """8 ranks on each side: 64 chunks cross each way, over 8 links each way."""
    net = LatticeNetwork([Axis(4, True)] * 2)
    loads = all_to_all(net).reshape(2, 2, 4, 4)  # axis, direction, y, x
    upwards = loads[0, 0, :, 1].sum() + loads[0, 1, :, 0].sum()
    assert upwards * 16 == pytest.approx(64)


def test_all_to_all_on_an_8x8x8_torus_loads_every_link_with_m() -> None:
    assert all_to_all(LatticeNetwork([Axis(8, True)] * 3)) == pytest.approx(1.0)


@swept(
    ("size", "wrap", "busiest"),
    [(2, True, 1 / 2), (3, True, 1 / 3), (4, False, 1.0), (5, False, 6 / 5)],
)
def test_all_to_all_on_one_axis_by_hand(size: int, wrap: bool, busiest: float) -> None:
    assert all_to_all(LatticeNetwork([Axis(size, wrap)])).max() == pytest.approx(busiest)


def test_ports_count_both_directions_apart_and_no_switch() -> None:
    net = Ports(3)
    net.carry((step([0, 0, 1], [1, 2, 0], [0, 1, 0]),), np.array([1.0, 2.0]))
    assert list(net.total) == [3, 1, 0, 1, 1, 2]  # out of 0, 1, 2; into 0, 1, 2
    net.carry((step([0, 1, 2], 3, 0), step(3, [1, 2], 1)), np.array([1.0, 2.0]))
    assert list(net.total) == [4, 2, 1, 1, 3, 4]
    assert (net.hops, net.peak, net.busiest) == (2, 5.0, 4.0)


def test_a_full_mesh_has_a_link_for_each_pair_and_direction() -> None:
    net = MeshNetwork(3)
    net.carry((step([0, 0, 1], [1, 2, 0], 0),), np.array([2.0]))
    assert [(int(k) // 3, int(k) % 3) for k in np.flatnonzero(net.total)] == [
        (0, 1),
        (0, 2),
        (1, 0),
    ]
    net.carry((step([0, 0], [1, 1], 0),), np.array([2.0]))
    assert (net.hops, net.peak, net.busiest) == (2, 6.0, 6.0)


def test_batches_that_leave_together_share_links_and_one_wait() -> None:
    for net in (Ports(2), MeshNetwork(2), LatticeNetwork([Axis(2, False)])):
        net.carry((step(0, 1, 0, add=True), step(0, 1, 1)), np.array([1.0, 0.5]))
        assert (net.hops, net.peak, net.busiest) == (1, 1.5, 1.5)


def test_a_network_that_carried_nothing() -> None:
    net: Network = Ports(4)
    assert (net.hops, net.peak, net.busiest) == (0, 0.0, 0.0)
