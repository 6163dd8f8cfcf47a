"""The links of a tier between its endpoints and its switches, which are known one by one
(:func:`link_bundles`). Links that are alike become one :class:`LinkBundle`.

Endpoints are numbered from 0, and switches follow them: the numbers that the prices use, so that
rank and number are the same. Exports of InfraGraph and of NCCL's topology use them.
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


class LinkBundle(NamedTuple):
    """Links that are alike.

    Args:
        near: nodes at one end.
        far: at the other end: the counterpart of each.
        Bps: of each link.
        alpha_s: of each link.
        all_pairs: instead, each near node has a link to each far one.
    """

    near: range
    far: range
    Bps: float
    alpha_s: float
    all_pairs: bool = False

    def each(self) -> Iterator[LinkBundle]:
        """The same, link by link."""
        pairs: Iterator[tuple[int, int]]
        if self.all_pairs:
            pairs = product(self.near, self.far)
        else:
            pairs = zip(self.near, self.far, strict=True)
        for a, b in pairs:
            # Among the same nodes each pair is there twice.
            if a < b or self.near != self.far:
                yield _single(a, b, self.Bps, self.alpha_s)


def _single(a: int, b: int, rate_Bps: float, alpha_s: float) -> LinkBundle:
    """One link between two nodes."""
    return LinkBundle(range(a, a + 1), range(b, b + 1), rate_Bps, alpha_s)


def switch_count(tier: Tier) -> int:
    """Number of switches of a tier that are known one by one; 0 of a star or Clos."""
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


def link_bundles(tier: Tier) -> Iterator[LinkBundle]:
    """All links of a tier that is no star or Clos, each once."""
    tier_kind = capabilities_of(tier)
    endpoints = tier.endpoints
    rate_Bps = tier.bandwidth * tier.ports
    alpha_s = tier_kind.reached[0].alpha_s
    match wires := tier_kind.wires(endpoints):
        case None if tier_kind.joined_by == "pair_links":
            yield LinkBundle(range(endpoints), range(endpoints), rate_Bps, alpha_s, all_pairs=True)
        case None:
            for nodes, neighbours in _lattice(tier_kind.axes):
                yield LinkBundle(nodes, neighbours, rate_Bps, alpha_s)
        case GraphWires():
            yield from _graph(wires)
        case HyperXWires() if wires.hosts:
            yield from _ports(endpoints, wires.hosts, rate_Bps, alpha_s)
            yield from _hyperx(wires, endpoints)
        case HyperXWires():
            yield from _hyperx(wires, 0)
        case DragonflyWires():
            yield from _ports(endpoints, wires.hosts, rate_Bps, alpha_s)
            yield from _dragonfly(wires, endpoints)
        case _:
            assert_never(wires)


def _ports(endpoints: int, hosts: int, rate_Bps: float, alpha_s: float) -> Iterator[LinkBundle]:
    """Endpoints at their switches, ``hosts`` each; half of the α between two at one switch is on
    the way in."""
    for number in range(endpoints // hosts):
        ends = range(number * hosts, (number + 1) * hosts)
        switch = range(endpoints + number, endpoints + number + 1)
        yield LinkBundle(ends, switch, rate_Bps, alpha_s / 2, all_pairs=True)


def _lattice(axes: Sequence[Axis]) -> Iterator[tuple[range, range]]:
    """Neighbours along each axis, whole rows at once; the first axis runs fastest.

    A ring of 4 is 0 to 2 beside 1 to 3, and 3 beside 0.
    """
    endpoints = prod(axis.size for axis in axes)
    block = 1
    for axis in axes:
        stride = block
        block *= axis.size
        if axis.size == 1:
            continue
        for start in range(0, endpoints, block):
            end = start + block
            low_end = range(start, start + stride)
            high_end = range(end - stride, end)
            yield range(start, end - stride), range(start + stride, end)
            if axis.is_ring:
                yield high_end, low_end
            elif axis.twist:
                for rank, opposite in zip(high_end, low_end, strict=True):
                    to = _shifted_rank(opposite, axes, axis.twist)
                    yield range(rank, rank + 1), range(to, to + 1)


def _shifted_rank(rank: int, axes: Sequence[Axis], by: Sequence[int]) -> int:
    """The rank that lies ``by`` places further along each axis, around its end: in a 4x2, rank 3 by
    (1, 1) is rank 4."""
    shifted = 0
    stride = 1
    for axis, places in zip(axes, by, strict=True):
        shifted += (rank // stride + places) % axis.size * stride
        stride *= axis.size
    return shifted


def _graph(wires: GraphWires) -> Iterator[LinkBundle]:
    """Links of a graph, each in both directions there; parallel ones as one of their bandwidth:
    InfraGraph has one edge between two components."""
    rates_Bps: dict[tuple[int, int], float] = {}
    alphas_s: dict[tuple[int, int], float] = {}
    for a, b, rate_Bps, alpha_s in wires.edges:
        if a < b:
            rates_Bps[a, b] = rates_Bps.get((a, b), 0) + rate_Bps
            alphas_s[a, b] = max(alpha_s, alphas_s.get((a, b), 0.0))
    for (a, b), rate_Bps in rates_Bps.items():
        yield _single(a, b, rate_Bps, alphas_s[a, b])


def _hyperx(wires: HyperXWires, numbered_from: int) -> Iterator[LinkBundle]:
    """Every line along an axis, a full mesh of its nodes; these are numbered from ``numbered_from``."""
    nodes = prod(wires.shape)
    stride = 1
    for size, rate_Bps, alpha_s in zip(wires.shape, wires.Bps, wires.alpha_s, strict=True):
        for node in range(nodes):
            if size > 1 and node // stride % size == 0:
                line = range(
                    numbered_from + node, numbered_from + node + (size - 1) * stride + 1, stride
                )
                yield LinkBundle(line, line, rate_Bps, alpha_s, all_pairs=True)
        stride *= size


def _dragonfly(wires: DragonflyWires, numbered_from: int) -> Iterator[LinkBundle]:
    """Links in each group and cables between groups. Switches, or leaves where a group has spines, are
    numbered from ``numbered_from``, group by group, spines after all of them."""
    spines_from = numbered_from + wires.groups * wires.switches
    # cables end at spines where there are some
    gateways_from = spines_from if wires.spines else numbered_from
    for group in range(wires.groups):
        leaves = range(
            numbered_from + group * wires.switches, numbered_from + (group + 1) * wires.switches
        )
        spines = range(spines_from + group * wires.spines, spines_from + (group + 1) * wires.spines)
        if spines or len(leaves) > 1:
            yield LinkBundle(
                leaves, spines or leaves, wires.local_Bps, wires.local_alpha_s, all_pairs=True
            )
        for other in range(group + 1, wires.groups):
            # Several cables between the same two gateways are one link of their bandwidth.
            ends: Counter[tuple[int, int]] = Counter()
            for cable in range(wires.cables):
                near_gateway = wires.gateway(group, other, cable)
                far_gateway = wires.gateway(other, group, cable)
                ends[near_gateway, far_gateway] += 1
            for (near_gateway, far_gateway), cables in ends.items():
                a = gateways_from + group * wires.gateways + near_gateway
                b = gateways_from + other * wires.gateways + far_gateway
                yield _single(a, b, cables * wires.global_Bps, wires.global_alpha_s)
