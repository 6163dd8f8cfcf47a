"""The links of a tier between its endpoints and the switches that are known one by one; those that
are alike stand together.

Endpoints are numbered from 0, and switches follow them: as the prices have them, so that rank and
number are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple, assert_never

from colltool.fabric.model import Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.group import Axis
from colltool.network.wires import DragonflyWires, GraphWires, HyperXWires


class Joined(NamedTuple):
    """Links of nodes to their counterparts or, with ``all_pairs``, of all to all others; bytes/s
    and seconds of each."""

    one: range
    other: range
    Bps: float
    alpha_s: float
    all_pairs: bool = False

    def each(self) -> Iterator[Joined]:
        """Link by link."""
        pairs = (
            product(self.one, self.other)
            if self.all_pairs
            else zip(self.one, self.other, strict=True)
        )
        for a, b in pairs:
            if a < b or self.one != self.other:
                yield Joined(range(a, a + 1), range(b, b + 1), self.Bps, self.alpha_s)


def switch_count(tier: Tier) -> int:
    """Of those that are numbered."""
    match wires := capabilities_of(tier).wires(tier.endpoints):
        case GraphWires():
            return wires.nodes - wires.endpoints
        case HyperXWires():
            return prod(wires.shape) if wires.hosts else 0
        case DragonflyWires():
            return wires.groups * (wires.switches + wires.spines)
        case None:
            return 0
        case _:
            assert_never(wires)


def joined_by_links(tier: Tier) -> Iterator[Joined]:
    """All links of a tier that is no star or Clos, each once."""
    kind, count = capabilities_of(tier), tier.endpoints
    rate, alpha_s = tier.bandwidth * tier.ports, kind.reached[0].alpha_s
    match wires := kind.wires(count):
        case None if kind.joined_by == "pair_links":
            yield Joined(range(count), range(count), rate, alpha_s, all_pairs=True)
        case None:
            yield from (Joined(one, other, rate, alpha_s) for one, other in _lattice(kind.axes))
        case GraphWires():
            yield from _graph(wires)
        case HyperXWires():
            if wires.hosts:
                yield from _ports(count, wires.hosts, rate, alpha_s)
            yield from _hyperx(wires, count if wires.hosts else 0)
        case DragonflyWires():
            yield from _ports(count, wires.hosts, rate, alpha_s)
            yield from _dragonfly(wires, count)
        case _:
            assert_never(wires)


def _ports(count: int, hosts: int, rate_Bps: float, alpha_s: float) -> Iterator[Joined]:
    """Endpoints stand ``hosts`` to a switch; α is of two at one of them, half of it on the way
    in."""
    for at in range(count // hosts):
        switch = range(count + at, count + at + 1)
        yield Joined(
            range(at * hosts, (at + 1) * hosts), switch, rate_Bps, alpha_s / 2, all_pairs=True
        )


def _lattice(axes: Sequence[Axis]) -> Iterator[tuple[range, range]]:
    """Neighbours along each axis, whole rows at once; the first axis runs fastest."""
    count = prod(axis.size for axis in axes)
    for at, axis in enumerate(axes):
        stride = prod(one.size for one in axes[:at])
        block = stride * axis.size
        for start in range(0, count if axis.size > 1 else 0, block):
            first, end = range(start, start + stride), start + block
            yield range(start, end - stride), range(start + stride, end)
            if axis.is_ring:
                yield range(end - stride, end), first
            elif axis.twist:
                for last, rank in zip(range(end - stride, end), first, strict=True):
                    to = _shifted(rank, axes, axis.twist)
                    yield range(last, last + 1), range(to, to + 1)


def _shifted(rank: int, axes: Sequence[Axis], by: Sequence[int]) -> int:
    """Where so many places on along each axis lead."""
    found, stride = 0, 1
    for axis, more in zip(axes, by, strict=True):
        found += (rank // stride + more) % axis.size * stride
        stride *= axis.size
    return found


def _graph(wires: GraphWires) -> Iterator[Joined]:
    """Parallel links as one of their bandwidth: InfraGraph has one edge between two components."""
    rates, alphas = Counter[tuple[int, int]](), dict[tuple[int, int], float]()
    for a, b, rate, alpha_s in wires.edges:
        if a < b:
            rates[a, b] += rate  # type: ignore[assignment]  # a Counter adds up floats as well
            alphas[a, b] = max(alpha_s, alphas.get((a, b), 0.0))
    for (a, b), rate in rates.items():
        yield Joined(range(a, a + 1), range(b, b + 1), rate, alphas[a, b])


def _hyperx(wires: HyperXWires, first: int) -> Iterator[Joined]:
    """Every line along an axis, a full mesh of its nodes; these are numbered from ``first``."""
    stride, nodes = 1, prod(wires.shape)
    for size, rate, alpha_s in zip(wires.shape, wires.Bps, wires.alpha_s, strict=True):
        for node in range(nodes if size > 1 else 0):
            if node // stride % size == 0:
                line = range(first + node, first + node + (size - 1) * stride + 1, stride)
                yield Joined(line, line, rate, alpha_s, all_pairs=True)
        stride *= size


def _dragonfly(wires: DragonflyWires, first: int) -> Iterator[Joined]:
    """Leaves or switches are numbered from ``first``, group by group, spines after all of them."""
    spines_from = first + wires.groups * wires.switches
    gateways = spines_from if wires.spines else first
    for group in range(wires.groups):
        own = range(first + group * wires.switches, first + (group + 1) * wires.switches)
        spines = range(spines_from + group * wires.spines, spines_from + (group + 1) * wires.spines)
        if spines or len(own) > 1:
            yield Joined(own, spines or own, wires.local_Bps, wires.local_alpha_s, all_pairs=True)
        for other in range(group + 1, wires.groups):
            ends = (
                (wires.gateway(group, other, cable), wires.gateway(other, group, cable))
                for cable in range(wires.cables)
            )
            for (here, there), cables in Counter(ends).items():
                a, b = (
                    gateways + group * wires.gateways + here,
                    gateways + other * wires.gateways + there,
                )
                yield Joined(
                    range(a, a + 1),
                    range(b, b + 1),
                    cables * wires.global_Bps,
                    wires.global_alpha_s,
                )
