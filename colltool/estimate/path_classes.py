"""Distance classes: what a message meets between two ranks, from the same leaf to across the
spine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from colltool.algorithms.lattice import all_to_all_load
from colltool.algorithms.trees import edges_leaving
from colltool.base.arrays import anywhere, least
from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive, Terms, Trees
from colltool.estimate.assumptions import Readings
from colltool.estimate.placement import Occupancy
from colltool.estimate.wired import TierSeat, WiredTiers, wired_tiers
from colltool.fabric.capabilities import cable_s
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import Limits, Planes
from colltool.fabric.topology import capabilities_of
from colltool.sizing.size_clos import levels_under

Flows = Callable[[int], float]
"""Messages leaving a domain of so many endpoints at once, which share its uplinks."""


def everybody(endpoints: int) -> float:
    return float(endpoints)


def at_most(count: float) -> Flows:
    """So many, or one per endpoint if there are fewer."""
    return lambda endpoints: min(count, endpoints)


one_alone = at_most(1)


def leaving(stride: int, ranks: int) -> Flows:
    """Every rank sends ``stride`` further, cyclically: messages leaving the busiest domain."""

    def crossing(domain: int) -> int:
        return domain - max(0, domain - stride) - max(0, domain - (ranks - stride))

    return lambda endpoints: max(crossing(min(endpoints, ranks)), crossing(ranks % endpoints))


def tree_flows(terms: Terms, ranks: int, route: Trees) -> Flows:
    """Edges leaving a domain, half a payload each, in units of full flows of n_β·M."""
    return lambda domain: min(
        max(edges_leaving(ranks, domain, both_ways=route.both_ways) / 2 / terms.n_beta, 1e-9),
        domain,
    )


class Boundary(NamedTuple):
    """Uplinks between two levels: ``ports`` of the ``endpoints`` below share uplinks thinned by
    ``oversubscription``."""

    endpoints: int
    ports: float
    oversubscription: float


class PathClass(NamedTuple):
    """One distance class.

    Args:
        tier, name: where a pair of this class meets.
        span: endpoints (or ranks, in a flat group) in one domain of this class.
        alpha_s: of a pair, seconds, without η.
        eta_alpha: >= 1.
        bandwidth_Bps: of an endpoint's parallel ports, or of one link, without η.
        eta_beta: in (0, 1].
        boundaries: uplinks that a message of this class crosses inside its tier; ``thinned``: the
            oversubscribed ones.
        dedicated: every pair has a link of its own.
        energy: J per bit (if one rank sends for several, its share); None if the tier states none.
        cable_s: the cables' part of α.
        post_s: per further message that a rank posts at once, seconds, without η.
        planes: that its ports are split over; ``bandwidth_Bps`` is what one message gets of them.
        crowd: load of a lattice's busiest link in an all-to-all, per byte that an endpoint sends;
            at least 1, and 1 off lattices.
    """

    tier: str
    name: str
    span: int
    alpha_s: float
    eta_alpha: float
    bandwidth_Bps: float
    eta_beta: float
    boundaries: tuple[Boundary, ...] = ()
    thinned: tuple[Boundary, ...] = ()
    dedicated: bool = False
    energy: float | None = None
    cable_s: float = 0.0
    post_s: float = 0.0
    crowd: float = 1.0
    planes: Planes | None = None

    def at_once(self, messages: float) -> PathClass:
        """As a rank sees it that sends so many messages at once, each of which may keep to a
        plane."""
        if self.planes is None:
            return self
        gain = self.planes.share_of(messages) / self.planes.share_of(1)
        thinned = tuple(one._replace(ports=one.ports / gain) for one in self.thinned)
        return self._replace(bandwidth_Bps=self.bandwidth_Bps * gain, thinned=thinned)

    def share(self, flows: Flows) -> Any:
        """min(1, g/(s·f)) over the boundaries crossed, with f = ``flows(g)`` messages leaving each
        domain of g at once."""
        return (
            least(1.0, *(b.ports / (b.oversubscription * flows(b.endpoints)) for b in self.thinned))
            if self.thinned
            else 1.0
        )


class PeerView(NamedTuple):
    """What one rank sees: (class, peers) nearest first, and how many ranks of its domain of g
    endpoints send at once."""

    peers: tuple[tuple[PathClass, int], ...]
    flows: Flows


class InSwitch(NamedTuple):
    """Switches that reduce or multicast: α per switch (without η), their own η_β, and what they
    refuse."""

    alpha_s: float
    levels: int
    own_eta: Mapping[Primitive, float]
    limits: Limits | None = None


@dataclass(frozen=True)
class PathClasses:
    """The distance classes of a group of consecutive or equally spaced ranks, nearest first.

    ``levels`` serve hops and rounds; ``peer_levels`` count peers. They differ under scattered
    placement, where any hop may cross the whole tier but the number of peers in one's own leaf is
    still known; ``unit`` ranks (an endpoint of the outermost tier) then stay together. ``wired``:
    the tiers' links where a tier is routed; messages are then counted on these, not by class.
    """

    ranks: int
    levels: tuple[PathClass, ...]
    peer_levels: tuple[PathClass, ...]
    scattered: bool
    unit: int = 1
    in_switch: InSwitch | None = None
    wired: WiredTiers | None = None

    @cached_property
    def in_a_phase(self) -> PathClasses:
        """As a phase of another collective sees it: the switches' own η_β are for whole
        collectives."""
        if self.in_switch is None or not self.in_switch.own_eta:
            return self
        return replace(self, in_switch=self.in_switch._replace(own_eta={}))

    def top(self) -> PathClass:
        return self.used[-1]

    @cached_property
    def used(self) -> tuple[PathClass, ...]:
        return self.levels[
            : 1
            + next(number for number, level in enumerate(self.levels) if level.span >= self.ranks)
        ]

    @cached_property
    def hops(self) -> tuple[tuple[PathClass, int], ...]:
        """(class, hops) of a closed ring through all ranks; packed, it leaves each domain once."""
        counts, domains = [], self.ranks
        for level in self.used:
            above = -(-self.ranks // level.span)
            counts.append((level, domains - above if above > 1 else domains))
            domains = above
        return tuple((level, count) for level, count in counts if count)

    def block(self, size: int) -> PathClass:
        """The nearest class in which aligned blocks of that size never straddle domains."""
        return next((level for level in self.used if level.span % size == 0), self.used[-1])

    def met(self, apart: int, far: PathClass) -> tuple[PathClass, ...]:
        """The classes in which pairs so many ranks apart can meet, farthest first.

        Nearer classes of the same tier are left out: they use the same ports and cross fewer
        uplinks.
        """
        if far.tier == self.levels[0].tier:
            return (far,)
        inner = takewhile(lambda level: level.tier != far.tier, self.used)
        return (far, *(level for level in inner if level.span > apart))

    @cached_property
    def views(self) -> tuple[PeerView, ...]:
        """The group as seen from a full domain, and from the last one if that is smaller."""
        first, last = self._view(full=True), self._view(full=False)
        return (first,) if first.peers == last.peers else (first, last)

    def _view(self, *, full: bool) -> PeerView:
        inside = [1, *(self._own_domain(level.span, full=full) for level in self.peer_levels)]
        counts = (
            (level, far - near)
            for level, (near, far) in zip(self.peer_levels, pairwise(inside), strict=True)
        )
        return PeerView(
            tuple((level, n) for level, n in counts if n), partial(self._own_domain, full=full)
        )

    def _own_domain(self, span: int, *, full: bool) -> int:
        if self.scattered and span > self.unit:
            total = self.peer_levels[-1].span // self.unit
            return self.unit * max(1, -(-(self.ranks // self.unit) * (span // self.unit) // total))
        if full or span >= self.ranks:
            return min(span, self.ranks)
        return self.ranks % span or span


def _tier_levels(
    tier: Tier, inside: int, readings: Readings, nics: int, occupancy: Occupancy
) -> tuple[PathClass, ...]:
    """A tier's classes. ``inside`` members form one endpoint; each sender has ``nics`` ports of an
    endpoint.

    Sibling groups send at the same time over their own ports, so uplinks are divided among groups
    by members.
    """
    kind = capabilities_of(tier)
    levels: list[PathClass] = []
    boundaries: tuple[Boundary, ...] = ()
    for beyond, one in zip((None, *kind.classes), kind.classes, strict=False):
        if beyond:
            below = levels[-1].span
            ports = below * nics * occupancy.ports(beyond.group) / kind.message_share
            boundaries += (Boundary(below, ports, one.oversubscription),)
        levels.append(
            PathClass(
                tier=tier.name,
                name=one.name,
                span=occupancy.members(one.group) * inside,
                alpha_s=one.alpha_s,
                eta_alpha=1.0 if readings.ideal else tier.eta.alpha,
                bandwidth_Bps=kind.rate_Bps * kind.message_share,
                eta_beta=1.0 if readings.ideal else tier.eta.beta,
                boundaries=boundaries,
                thinned=tuple(
                    boundary for boundary in boundaries if anywhere(boundary.oversubscription > 1)
                ),
                dedicated=kind.joined_by == "pair_links",
                energy=None if tier.energy is None else tier.energy / nics,
                cable_s=cable_s(one.cable_m),
                post_s=tier.post or 0.0,
                planes=kind.planes,
            )
        )
    return tuple(levels)


def tier_paths(seat: TierSeat, readings: Readings) -> PathClasses:
    """The classes of a group on one tier, counted in its own endpoints.

    The aggregation tree of its switches is no taller than the levels that the group spans, nor than
    the switches' limit. A tier of one class has as many levels as its sizing requires. Each switch
    pass has its part of the longest cable.
    """
    tier, ranks, occupancy = seat.tier, seat.endpoints, seat.occupancy
    levels, scattered = (
        _tier_levels(tier, 1, readings, seat.nics, occupancy),
        readings.placement == "scattered",
    )
    kind = capabilities_of(tier)
    spec, block = kind.in_network, kind.sizing
    wired = _wired([seat if seat.inside == 1 else replace(seat, inside=1)], ranks, readings)
    found = PathClasses(ranks, levels[-1:] if scattered else levels, levels, scattered, wired=wired)
    if spec is None:
        return found
    spanned = (
        len(levels)
        if scattered
        else 1 + next(i for i, level in enumerate(levels) if level.span >= ranks)
    )
    if len(levels) > 1:
        height = min(spec.levels or spanned, spanned)
    elif spec.levels or kind.levels or block is None:
        height = spec.levels or 1
    else:
        endpoints = tier.endpoints if scattered else min(ranks * occupancy.stride, tier.endpoints)
        split = kind.planes.count if kind.planes else 1
        height = levels_under(
            tier.endpoints, block.rails * split, block.nics_per_rail, block.radix, endpoints
        )
    alpha_s = spec.alpha_switch + levels[spanned - 1].cable_s / (2 * height)  # up and down again
    return replace(
        found,
        in_switch=InSwitch(alpha_s, height, {} if readings.ideal else spec.own_eta, spec.limits),
    )


def _wired(
    seats: Sequence[TierSeat], ranks: int, readings: Readings, domains: Sequence[int] = ()
) -> WiredTiers | None:
    """Of a group with a routed tier or domains that differ; scattered ranks are then nowhere in
    particular."""
    reasons = [
        f"'{seat.tier.name}' is routed link by link"
        for seat in seats
        if capabilities_of(seat.tier).joined_by == "routes"
    ]
    reasons += ["domains differ in size"] if domains else []
    if reasons and readings.placement == "scattered":
        fix = f"leave out {given('placement')}"
        raise ColltoolError(
            f"{reasons[0]}, so it must be known where ranks sit", argument="placement", fix=fix
        )
    return wired_tiers(tuple(seats), ranks, readings.ideal, tuple(domains)) if reasons else None


def flat_paths(
    seats: Sequence[TierSeat], ranks: int, readings: Readings, domains: Sequence[int] = ()
) -> PathClasses:
    """The classes of a whole group over several tiers; ``domains``: members in each of the
    innermost where these differ."""
    placed: list[PathClass] = []
    counted: list[PathClass] = []
    inside, scattered = 1, readings.placement == "scattered"
    tiers = [(seat.tier, seat.occupancy) for seat in seats]
    for tier, occupancy in tiers:
        unit = inside
        inside *= occupancy.members(tier.endpoints)
        levels = _tier_levels(tier, unit, readings, 1, occupancy)
        if tier is not tiers[-1][0]:  # its switches may join more endpoints than a domain has
            levels = tuple(level._replace(span=min(level.span, inside)) for level in levels)
        placed += levels[-1:] if scattered else levels
        counted += levels
    tier, occupancy = tiers[-1]
    endpoints = len(domains) or ranks // unit
    axes = capabilities_of(tier).part(endpoints, occupancy.stride) or ()
    crowd = max(1.0, all_to_all_load(axes) * endpoints / (endpoints - 1))
    placed[-1] = placed[-1]._replace(crowd=crowd)
    return PathClasses(
        ranks,
        tuple(placed),
        tuple(counted),
        scattered,
        unit,
        wired=_wired(seats, ranks, readings, domains),
    )
