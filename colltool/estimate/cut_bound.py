"""The cut bound: the least time in which any schedule can do a collective on the wires that a group
has.

Wires of known capacity separate some ranks from the others, and each primitive must move some bytes
across. No algorithm, route or count enters, so any price below the bound is wrong. Latency,
launches and contention are ignored; oversubscription counts.

A member has the ports or links of one endpoint on each tier that the group spans, and only members
forward messages. Active sibling groups keep their share of common uplinks. If placement is unknown,
no leaf is cut off.

:func:`cut_bound_of` is the entry; :func:`cuts` lists the partitions of a group, and
:func:`_seconds_per_byte` says how long one takes at least. The wires of a routed tier name cuts of their
own (:class:`~colltool.network.wires.CutSide`): the run of endpoints from ``first`` to before ``after``, and
the bytes/s that lead out of it.

Source: aggregating an element over P domains takes P - 1 messages between them, and distributing it
P - 1 more (P. Patarasuk and X. Yuan, J. Parallel Distrib. Comput. 69, 2009); all else counts what a
side has and what it must learn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, assert_never

from colltool.base.arrays import largest, least
from colltool.base.primitives import AR, P2P, Number, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup, Span
from colltool.fabric.topology import capabilities_of
from colltool.network.group import Axis, sizes_of
from colltool.network.twisted import links_across
from colltool.network.wires import CutSide

# Bytes/s: a number, or an array with one for each sample of an uncertain fabric.
Rate = Any


class Side(NamedTuple):
    """A part of the group: its ranks, and the bytes/s that can leave (or enter) it."""

    ranks: int
    Bps: Rate


class PerMember(NamedTuple):
    """Ports of the group's members, or their bytes/s: of the member with the fewest, of that with
    the most, and on average."""

    fewest: Any
    most: Any
    mean: Any


ONE_EACH = PerMember(1.0, 1.0, 1.0)


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
    total_Bps: Rate = 0.0
    computes: bool = False


@dataclass(frozen=True, eq=False)
class CutBound:
    """The cut bound of a primitive on a placed group, computed on demand.

    Args:
        placed: the group before any protocol: the fastest one's wires count.
        readings: ``tree_beta`` below 2 means that a rank drives proportionally more ports.
    """

    placed: PlacedGroup
    primitive: Primitive
    readings: ModelOptions

    @cached_property
    def per_byte(self) -> Any:
        """Seconds per byte of M."""
        by_cut = []
        for cut in cuts(self.placed, self.primitive, self.readings):
            # a pair may lie inside a side that is no part of a whole partition
            if cut.parts or self.primitive is not P2P:
                by_cut.append(_seconds_per_byte(self.primitive, cut, self.placed.ranks))
        # the cuts count the ports that tree_beta = 2 stands for; half of it is twice the ports
        return largest(*by_cut) * self.readings.tree_beta / 2

    def seconds(self, size: Number) -> Number:
        """The bound at a size of M bytes."""
        seconds: Number = self.per_byte * size
        return seconds


def cut_bound_of(placed: PlacedGroup, primitive: Primitive, readings: ModelOptions) -> CutBound:
    """The cut bound of a group, kept with it."""
    # the wires are the same under any protocol
    origin = placed.origin or placed
    key = ("cut bound", primitive, readings.placement, readings.tree_beta)
    return origin.once(key, lambda: CutBound(origin, primitive, readings))


def _seconds_per_byte(primitive: Primitive, cut: Cut, ranks: int) -> Any:
    """Seconds per byte of M in which the bytes that must cross a cut can do so."""
    # Which two ranks send is not known, only that no part holds both: they may have the fastest way.
    if primitive is P2P:
        return 1.0 / largest(*(side.Bps for side in cut.sides))
    by_side = [_bytes_crossing(primitive, side.ranks, ranks) / side.Bps for side in cut.sides]
    # each part but the first is added to the sum, and then gets it
    if primitive is AR and cut.parts and not cut.computes:
        by_side.append(2 * (cut.parts - 1) / cut.total_Bps)
    return largest(*by_side)


def _bytes_crossing(primitive: Primitive, inside: int, ranks: int) -> float:
    """Bytes, in units of M, that must leave or enter a side, whichever is more.

    All-to-all: each rank inside has M/N for each rank outside. All-gather: a side of m ranks has
    m/N of the result and lacks the rest, and vice versa; reduce-scatter is its mirror. Of a
    reduction one partial sum of M bytes leaves a side, or the result enters it; a broadcast's
    buffer does either.
    """
    outside = ranks - inside
    match primitive:
        case Primitive.ALL_TO_ALL:
            return inside * outside / ranks
        case Primitive.ALL_GATHER | Primitive.REDUCE_SCATTER:
            return max(inside, outside) / ranks
        # _seconds_per_byte has answered for a pair
        case Primitive.ALL_REDUCE | Primitive.BROADCAST | Primitive.REDUCE | Primitive.P2P:
            return 1.0
        case _:
            assert_never(primitive)


def cuts(placed: PlacedGroup, primitive: Primitive, readings: ModelOptions) -> Iterator[Cut]:
    """The cuts around what each tier joins, through its leaves and across its lattice, from the
    inside out."""
    # of each tier, innermost first
    wires = [_wires_of_members(placed, span, primitive) for span in placed.spans]
    for number, span in enumerate(placed.spans):
        # what a tier joins also leads out by its members' ports on all tiers further out
        outward = _sum_over_tiers(wires[number:])
        beyond_Bps = _sum_over_tiers(wires[number + 1 :]).most
        computes = any(
            {"reduce", "multicast"} & outer.kind.operations for outer in placed.spans[number:]
        )
        rate = _rate(span, primitive)
        yield _cut_around_parts(placed, span, outward, computes=computes)
        if readings.placement == "packed":
            yield from _cuts_around_leaves(placed, span, rate, beyond_Bps, computes=computes)
        yield from _cuts_in_half(span, rate, beyond_Bps)
        yield from _cuts_of_routes(span, beyond_Bps)


def _cut_around_parts(placed: PlacedGroup, span: Span, wires: PerMember, *, computes: bool) -> Cut:
    """The cut around each part that a tier joins: single ranks on the innermost tier, domains
    further out.

    Which ranks have the fewest ports is not known, so a part of either kind is a side.
    """
    # only domains can be of unlike sizes
    unlike = () if span is placed.spans[0] else placed.domains
    sides = []
    for ranks in sorted(set(unlike)) or [span.members_inside]:
        sides += [Side(ranks, ranks * wires.fewest), Side(ranks, ranks * wires.most)]
    parts = len(unlike) or placed.ranks // span.members_inside
    return Cut(tuple(sides), parts, placed.ranks * wires.mean, computes)


def _wires_of_members(placed: PlacedGroup, span: Span, primitive: Primitive) -> PerMember:
    """Bytes/s of the group's members on one tier."""
    rate = _rate(span, primitive)
    # domains of unlike sizes differ in the links inside them, which are those of the innermost tier
    unlike = placed.domains if span is placed.spans[0] else ()
    return PerMember(*(rate * ports for ports in _ports_of_members(span, rate, unlike)))


def _sum_over_tiers(tiers: Sequence[PerMember]) -> PerMember:
    """What members have on several tiers together."""
    nothing = PerMember(0.0, 0.0, 0.0)
    return PerMember(*map(sum, zip(nothing, *tiers, strict=True)))


def _rate(span: Span, primitive: Primitive) -> Rate:
    """Bytes/s of an endpoint's parallel ports or one link, under the fastest protocol."""
    tier = span.tier
    # ``line``: a protocol's own bandwidth over the tier's, which files of the old form may state
    lines = [protocol.line for protocol in tier.protocols_for(primitive).values()] or [1.0]
    return max(lines) * capabilities_of(tier).rate_Bps


def _ports_of_members(span: Span, rate: Rate, domains: Sequence[int]) -> PerMember:
    """Ports or links of the group's members on a tier; ``domains``: their sizes where unlike, else
    empty."""
    kind = span.kind
    match kind.joined_by:
        case "switches" | "tiers":
            return ONE_EACH
        case "pair_links":
            return _links_to_peers(domains or (span.endpoints,))
        case "routes":
            wires = span.position.wires
            # links of single endpoints; those of ports of switches are one each
            links = [cut.Bps / rate for cut in _wire_cuts(span) if cut.after - cut.first == 1]
            if not links or (wires is not None and wires.has_ports):
                return ONE_EACH
            return PerMember(min(links), max(links), sum(links) / len(links))
        case "neighbour_links":
            return _links_to_neighbours(_axes(span))
        case _:
            assert_never(kind.joined_by)


def _links_to_peers(domains: Sequence[int]) -> PerMember:
    """Links of members that have one to each other member of their domain: in domains of 3 and 5
    at least 2, at most 4, on average (3 x 2 + 5 x 4) / 8 = 3.25."""
    mean = sum(members * (members - 1) for members in domains) / sum(domains)
    return PerMember(min(domains) - 1.0, max(domains) - 1.0, mean)


def _links_to_neighbours(axes: Sequence[Axis]) -> PerMember:
    """Links of the endpoints of a lattice: two along each axis, but one at the ends of a line. A
    ring of 4 by a line of 3: 3 in a corner, else 4, on average 2 + 2 x 2/3."""
    fewest = most = mean = 0.0
    for axis in axes:
        if axis.closed:
            fewest += 2
            most += 2
            mean += 2.0
        else:
            fewest += 1
            most += min(axis.size - 1, 2)
            mean += 2 * (axis.size - 1) / axis.size
    return PerMember(fewest, most, mean)


def _axes(span: Span) -> list[Axis]:
    """The lattice axes on which the group has more than one endpoint. Empty elsewhere."""
    axes = span.kind.part(span.endpoints, span.occupancy.stride) or ()
    return [axis for axis in axes if axis.size > 1]


def _cuts_around_leaves(
    placed: PlacedGroup, span: Span, rate: Rate, beyond_Bps: Rate, *, computes: bool
) -> Iterator[Cut]:
    """The cuts around the leaves of each Clos level: g endpoints share uplinks of g ports over s,
    but never send faster than their ports.

    A leaf of 32 ports of 50 GB/s at 2:1 lets out 16 x 50 GB/s. The last leaf may hold fewer of the
    group's endpoints. Ports on tiers further out lead out too.
    """
    # A trunk has a fixed bandwidth. Ports that are faster under the fastest protocol share it in
    # larger demands, so the oversubscription of the levels follows from that rate.
    faster = rate / span.kind.rate_Bps
    as_fast = span.tier.model_copy(update={"bandwidth": span.tier.bandwidth * faster})
    for below, above in pairwise(capabilities_of(as_fast).classes):
        endpoints = span.occupancy.members(below.group)
        if endpoints >= span.endpoints:
            return
        ports = endpoints * span.members_inside * span.occupancy.ports(below.group)
        uplinks_Bps = ports * rate / above.oversubscription
        leaves = _ranks_of_leaves(placed, span, endpoints)
        sides = []
        out_Bps = 0.0
        for ranks, count in leaves.items():
            side = Side(ranks, least(ranks * rate, uplinks_Bps) + ranks * beyond_Bps)
            sides.append(side)
            out_Bps += count * side.Bps
        # an inner tier has one such partition in each of its domains
        copies = 1 if placed.domains else placed.ranks // (span.endpoints * span.members_inside)
        yield Cut(tuple(sides), copies * sum(leaves.values()), copies * out_Bps, computes)


def _ranks_of_leaves(placed: PlacedGroup, span: Span, endpoints: int) -> dict[int, int]:
    """Number of leaves by how many of the group's ranks are behind one; a leaf has ``endpoints``
    ports. 10 nodes of 8 ranks, 4 to a leaf: two leaves of 32 ranks and one of 16."""
    if placed.domains:
        firsts = range(0, len(placed.domains), endpoints)
        return Counter(sum(placed.domains[first : first + endpoints]) for first in firsts)
    full_leaves, endpoints_left = divmod(span.endpoints, endpoints)
    leaves = {endpoints * span.members_inside: full_leaves}
    if endpoints_left:
        leaves[endpoints_left * span.members_inside] = 1
    return leaves


def _wire_cuts(span: Span) -> Iterator[CutSide]:
    """Runs of endpoints of a routed tier that its wires cut off, none elsewhere; with a stride only
    single endpoints, since a run's others belong to other groups."""
    wires = span.position.wires
    for cut in wires.cuts() if wires else ():
        if cut.after - cut.first == 1 or span.occupancy.stride == 1:
            yield cut


def _cuts_of_routes(span: Span, beyond_Bps: Rate) -> Iterator[Cut]:
    """The cuts of a routed tier that its wires name, plus ports on tiers further out."""
    for cut in _wire_cuts(span):
        ranks = (cut.after - cut.first) * span.members_inside
        yield Cut((Side(ranks, cut.Bps * span.members_inside + ranks * beyond_Bps),))


def _cuts_in_half(span: Span, rate: Rate, beyond_Bps: Rate) -> Iterator[Cut]:
    """The cuts of a lattice in half across each axis: each line along the axis leads out once, or
    twice in a ring, plus ports on tiers further out.

    A twisted torus is also cut at every twist along the axis.
    """
    axes = _axes(span)
    nodes = prod(sizes_of(axes))
    for number, axis in enumerate(axes):
        ranks = axis.size // 2 * (nodes // axis.size) * span.members_inside
        links = links_across(axes, number) * span.members_inside
        yield Cut((Side(ranks, links * rate + ranks * beyond_Bps),))
