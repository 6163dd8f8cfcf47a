"""The cut bound: the least time in which any schedule can do a collective on the wires that a group
has.

Wires of known capacity separate some ranks from the others, and each primitive must move some bytes
across. No algorithm, route or count enters, so any price below the bound is wrong. Latency,
launches and contention are ignored; oversubscription counts.

A member has the ports or links of one endpoint on each tier that the group spans, and only members
forward messages. Active sibling groups keep their share of common uplinks. If placement is unknown,
no leaf is cut off.

Source: aggregating an element over P domains takes P - 1 messages between them, and distributing it
P - 1 more (P. Patarasuk and X. Yuan, J. Parallel Distrib. Comput. 69, 2009); all else counts what a
side has and what it must learn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from operator import add
from typing import Any, NamedTuple, assert_never

from colltool.base.arrays import largest, least
from colltool.base.primitives import AR, P2P, Number, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup, Span
from colltool.fabric.topology import capabilities_of
from colltool.network.group import Axis, sizes_of
from colltool.network.twisted import links_across
from colltool.network.wires import CutSide


class Side(NamedTuple):
    """A part of the group: its ranks, and the bytes/s that can leave (or enter) it."""

    ranks: int
    Bps: Any


class Cut(NamedTuple):
    """A partition of the group.

    Args:
        sides: one of each kind of part.
        parts: how many in all, 0 if the sides do not make up the group.
        total_Bps: out of all parts together.
        computes: switches between the parts reduce or multicast.
    """

    sides: tuple[Side, ...]
    parts: int = 0
    total_Bps: Any = 0.0
    computes: bool = False


class CutBound:
    """The cut bound of a primitive on a placed group, computed on demand.

    ``placed`` is the group before any protocol: the fastest one's wires count. ``tree_beta`` below
    2 means that a rank drives proportionally more ports.
    """

    def __init__(self, placed: PlacedGroup, primitive: Primitive, readings: ModelOptions) -> None:
        self.placed = placed
        self.primitive = primitive
        self.readings = readings

    @cached_property
    def per_byte(self) -> Any:
        """Seconds per byte of M."""
        found = []
        for cut in cuts(self.placed, self.primitive, self.readings):
            # a pair may lie inside a side that is no part of a whole partition
            if cut.parts or self.primitive is not P2P:
                found.append(_seconds(self.primitive, cut, self.placed.ranks))
        return largest(*found) * self.readings.tree_beta / 2

    def seconds(self, size: Number) -> Number:
        found: Number = self.per_byte * size
        return found


def cut_bound_of(placed: PlacedGroup, primitive: Primitive, readings: ModelOptions) -> CutBound:
    whole = placed.origin or placed
    key = ("cut bound", primitive, readings.placement, readings.tree_beta)
    return whole.once(key, lambda: CutBound(whole, primitive, readings))


def _seconds(primitive: Primitive, cut: Cut, ranks: int) -> Any:
    # which two ranks is not known, but that no part holds both
    if primitive is P2P:
        return 1.0 / largest(*(side.Bps for side in cut.sides))
    by_side = [_crossing(primitive, side.ranks, ranks) / side.Bps for side in cut.sides]
    # each part but the first is added to the sum, and then gets it
    if primitive is AR and cut.parts and not cut.computes:
        by_side.append(2 * (cut.parts - 1) / cut.total_Bps)
    return largest(*by_side)


def _crossing(primitive: Primitive, inside: int, ranks: int) -> float:
    """Bytes, in units of M, that must leave or enter a side, whichever is more.

    All-to-all: each rank inside has M/N for each rank outside. All-gather: a side of m ranks has
    m/N of the result and lacks the rest, and vice versa; reduce-scatter is its mirror. Reductions
    and broadcasts cross each side once.
    """
    outside = ranks - inside
    match primitive:
        case Primitive.ALL_TO_ALL:
            return inside * outside / ranks
        case Primitive.ALL_GATHER | Primitive.REDUCE_SCATTER:
            return max(inside, outside) / ranks
        case Primitive.ALL_REDUCE | Primitive.BROADCAST | Primitive.REDUCE | Primitive.P2P:
            return 1.0
        case _:
            assert_never(primitive)


def cuts(placed: PlacedGroup, primitive: Primitive, readings: ModelOptions) -> Iterator[Cut]:
    """Single ranks, the domains of each tier, its leaves, and halves of its lattices."""
    rates = [_rate(span, primitive) for span in placed.spans]
    wires = []
    for number, (span, rate) in enumerate(zip(placed.spans, rates, strict=True)):
        ports = _ports(span, rate, () if number else placed.domains)
        wires.append([rate * count for count in ports])
    for number, (span, rate) in enumerate(zip(placed.spans, rates, strict=True)):
        # a domain's members also have their ports on all tiers further out
        beyond = [sum(tiers) for tiers in zip(*wires[number + 1 :], strict=True)] or [0.0] * 3
        poorest, richest, mean = map(add, wires[number], beyond)
        computes = any(
            {"reduce", "multicast"} & outer.kind.operations for outer in placed.spans[number:]
        )
        domains = placed.domains if number else ()
        sides = []
        for ranks in sorted(set(domains)) or [span.ranks_inside]:
            sides += [Side(ranks, ranks * poorest), Side(ranks, ranks * richest)]
        parts = len(domains) or placed.ranks // span.ranks_inside
        yield Cut(tuple(sides), parts, placed.ranks * mean, computes)
        if readings.placement == "packed":
            yield from _leaves(placed, span, rate, beyond[1], computes=computes)
        yield from _halves(span, rate, beyond[1])
        yield from _routed(span, beyond[1])


def _rate(span: Span, primitive: Primitive) -> Any:
    """Bytes/s of an endpoint's parallel ports or one link, under the fastest protocol."""
    tier = span.tier
    lines = [protocol.line for protocol in tier.protocols_for(primitive).values()] or [1.0]
    return max(lines) * capabilities_of(tier).rate_Bps


def _ports(span: Span, rate: Any, domains: Sequence[int] = ()) -> tuple[Any, Any, Any]:
    """Ports or links of the member with the fewest, with the most, and of all on average;
    ``domains``: those that differ."""
    kind = span.kind
    match kind.joined_by:
        case "switches" | "tiers":
            return 1.0, 1.0, 1.0
        case "pair_links":
            return _links_to_peers(domains or (span.endpoints,))
        case "routes":
            wires = span.position.wires
            alone = [cut.Bps / rate for cut in _wire_cuts(span) if cut.after - cut.first == 1]
            if not alone or (wires is not None and wires.has_ports):
                return 1.0, 1.0, 1.0
            return min(alone), max(alone), sum(alone) / len(alone)
        case "neighbour_links":
            fewest = most = mean = 0.0
            for axis in _axes(span):
                if axis.closed:
                    fewest += 2
                    most += 2
                    mean += 2.0
                else:
                    # the ends of a line have only one link
                    fewest += 1
                    most += min(axis.size - 1, 2)
                    mean += 2 * (axis.size - 1) / axis.size
            return fewest, most, mean
        case _:
            assert_never(kind.joined_by)


def _links_to_peers(domains: Sequence[int]) -> tuple[float, float, float]:
    mean = sum(members * (members - 1) for members in domains) / sum(domains)
    return min(domains) - 1.0, max(domains) - 1.0, mean


def _axes(span: Span) -> list[Axis]:
    """The lattice axes on which the group has more than one endpoint; empty elsewhere."""
    axes = span.kind.part(span.endpoints, span.occupancy.stride) or ()
    return [axis for axis in axes if axis.size > 1]


def _leaves(
    placed: PlacedGroup, span: Span, rate: Any, beyond: Any, *, computes: bool
) -> Iterator[Cut]:
    """The domains of each Clos level: g endpoints share uplinks of g ports over s, but never send
    faster than their ports.

    The last domain may hold fewer of the group's endpoints. Ports on tiers beyond lead out too.
    """
    # under its fastest protocol, when a trunk is shared by more
    faster = rate / span.kind.rate_Bps
    as_fast = span.tier.model_copy(update={"bandwidth": span.tier.bandwidth * faster})
    for below, above in pairwise(capabilities_of(as_fast).classes):
        endpoints = span.occupancy.members(below.group)
        if endpoints >= span.endpoints:
            return
        ports = endpoints * span.ranks_inside * span.occupancy.ports(below.group)
        uplinks = ports * rate / above.oversubscription
        leaves = _ranks_of_leaves(placed, span, endpoints)
        sides = []
        out = 0.0
        for ranks, count in leaves.items():
            side = Side(ranks, least(ranks * rate, uplinks) + ranks * beyond)
            sides.append(side)
            out += count * side.Bps
        copies = 1 if placed.domains else placed.ranks // (span.endpoints * span.ranks_inside)
        yield Cut(tuple(sides), copies * sum(leaves.values()), copies * out, computes)


def _ranks_of_leaves(placed: PlacedGroup, span: Span, endpoints: int) -> dict[int, int]:
    """Number of leaves by how many of the group's ranks are behind one; a leaf has ``endpoints``
    ports."""
    if placed.domains:
        firsts = range(0, len(placed.domains), endpoints)
        return Counter(sum(placed.domains[first : first + endpoints]) for first in firsts)
    full, rest = divmod(span.endpoints, endpoints)
    leaves = {endpoints * span.ranks_inside: full}
    if rest:
        leaves[rest * span.ranks_inside] = 1
    return leaves


def _wire_cuts(span: Span) -> Iterator[CutSide]:
    """Cuts of a routed tier; with a stride only its ranks one by one."""
    wires = span.position.wires
    for cut in wires.cuts() if wires else ():
        if cut.after - cut.first == 1 or span.occupancy.stride == 1:
            yield cut


def _routed(span: Span, beyond: Any) -> Iterator[Cut]:
    """The first endpoints of a routed tier against the rest, plus ports on tiers beyond."""
    for cut in _wire_cuts(span):
        ranks = (cut.after - cut.first) * span.ranks_inside
        yield Cut((Side(ranks, cut.Bps * span.ranks_inside + ranks * beyond),))


def _halves(span: Span, rate: Any, beyond: Any) -> Iterator[Cut]:
    """A lattice cut in half across each axis: each line leads out once, or twice in a ring, plus
    ports on tiers beyond.

    A twisted torus is also cut at every twist along the axis.
    """
    axes = _axes(span)
    nodes = prod(sizes_of(axes))
    for number, axis in enumerate(axes):
        ranks = axis.size // 2 * (nodes // axis.size) * span.ranks_inside
        links = links_across(axes, number) * span.ranks_inside
        yield Cut((Side(ranks, links * rate + ranks * beyond),))
