"""Distance classes: what a message meets between two ranks, from the same leaf to across the spine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import Any, NamedTuple

from colltool.algorithms.lattice_paths import busiest_link
from colltool.base.arrays import anywhere, least
from colltool.base.primitives import Primitive
from colltool.estimate.readings import Readings
from colltool.estimate.sits import PACKED, Sits
from colltool.fabric.capabilities import cable_s
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import InNetwork, Limits
from colltool.fabric.topology import capabilities_of
from colltool.sizing.size_clos import levels_under

Flows = Callable[[int], float]


class Boundary(NamedTuple):
    """Uplinks between two levels: the ``ports`` of ``endpoints`` below share uplinks thinned out by ``oversubscription``."""

    endpoints: int
    ports: int
    oversubscription: float


class Level(NamedTuple):
    """One distance class.

    Args:
        tier, name: where a pair of this class meets.
        span: endpoints (or ranks, in a flat reach) under one domain of this class.
        alpha_s: α of the pair, seconds, without η.
        eta_alpha: >= 1.
        bandwidth_Bps: of an endpoint's port, or of one link; all parallel ports together, without η.
        eta_beta: in (0, 1].
        boundaries: uplinks that a message of this class crosses inside its tier.
        thinned: those of them that are oversubscribed; others carry whatever the endpoints below can send.
        dedicated: every pair has a link of its own.
        energy: J a bit; where one rank of several sends for all, its share; None where the tier gives none.
        cable_s: what cables have in α.
        post_s: what each further message takes of those that one rank posts at once, seconds, without η.
        crowd: of a lattice, what its busiest link carries of messages between all pairs for each byte that an endpoint sends; 1
            where every endpoint has a port of its own, or where that is less.
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

    def share(self, flows: Flows) -> Any:
        """min(1, g/(s·f)) over the boundaries crossed, with ``flows(g)`` messages leaving each domain of g at once."""
        if not self.thinned:
            return 1.0
        return least(1.0, *(b.ports / (b.oversubscription * flows(b.endpoints)) for b in self.thinned))


class View(NamedTuple):
    """What one rank sees: (class, peers) nearest first, and how many ranks of its own domain of g endpoints send at once."""

    peers: tuple[tuple[Level, int], ...]
    flows: Flows


class InSwitch(NamedTuple):
    """In-network hardware that covers the reach: α per switch passed (without η), the η_β of what has one of its own, and what
    it refuses."""

    alpha_s: float
    levels: int
    own_eta: Mapping[Primitive, float]
    limits: Limits | None = None


@dataclass(frozen=True)
class Reach:
    """The distance classes of a group of consecutive ranks, or of equally spaced ones, nearest first.

    ``levels`` serve hops and rounds; ``peer_levels`` count peers. They differ under scattered placement, where every hop may
    cross the whole tier but the number of peers in one's own leaf is still known. ``unit`` ranks stay together then: the
    domain that is one endpoint of the outermost tier. A reach serves many algorithms: what follows from it is worked out once.
    """

    ranks: int
    levels: tuple[Level, ...]
    peer_levels: tuple[Level, ...]
    scattered: bool
    unit: int = 1
    in_switch: InSwitch | None = None

    @cached_property
    def in_a_phase(self) -> "Reach":
        """As a phase of another collective meets it: the switches' own η_β are of whole collectives."""
        if self.in_switch is None or not self.in_switch.own_eta:
            return self
        return replace(self, in_switch=self.in_switch._replace(own_eta={}))

    def top(self) -> Level:
        """The nearest class that holds the whole group."""
        return self._used[-1]

    def used(self) -> tuple[Level, ...]:
        """The classes that pairs of the group fall in."""
        return self._used

    def hops(self) -> tuple[tuple[Level, int], ...]:
        """(class, hops) of one closed ring through all ranks: a packed ring leaves each domain once."""
        return self._hops

    def block(self, size: int) -> Level:
        """The nearest class in which aligned blocks of that many ranks never cross a domain's edge."""
        for level in self._used:
            if level.span % size == 0:
                return level
        return self._used[-1]

    def met(self, apart: int, far: Level) -> tuple[Level, ...]:
        """The classes in which pairs so many ranks apart can meet, the farthest first: some share a domain of a nearer one.

        Without nearer ones of the same tier: they have the same ports, and fewer uplinks on the way.
        """
        if far.tier == self.levels[0].tier:
            return (far,)
        inner = takewhile(lambda level: level.tier != far.tier, self._used)
        return (far, *(level for level in inner if level.span > apart))

    def views(self) -> tuple[View, ...]:
        """How the group looks to a rank of a full domain, and to one of the last, perhaps emptier, domain."""
        return self._views

    @cached_property
    def _used(self) -> tuple[Level, ...]:
        top = next(number for number, level in enumerate(self.levels) if level.span >= self.ranks)
        return self.levels[: top + 1]

    @cached_property
    def _hops(self) -> tuple[tuple[Level, int], ...]:
        counts, domains = [], self.ranks
        for level in self._used:
            above = -(-self.ranks // level.span)
            counts.append((level, domains - above if above > 1 else domains))
            domains = above
        return tuple((level, count) for level, count in counts if count)

    @cached_property
    def _views(self) -> tuple[View, ...]:
        first, last = self._view(full=True), self._view(full=False)
        return (first,) if first.peers == last.peers else (first, last)

    def _view(self, *, full: bool) -> View:
        counts, near = [], 1
        for level in self.peer_levels:
            inside = self._own_domain(level.span, full=full)
            counts.append((level, inside - near))
            near = inside
        return View(tuple((level, n) for level, n in counts if n), partial(self._own_domain, full=full))

    def _own_domain(self, span: int, *, full: bool) -> int:
        """Ranks of the group in one's own domain of that many endpoints."""
        if self.scattered and span > self.unit:
            total = self.peer_levels[-1].span // self.unit
            return self.unit * max(1, -(-(self.ranks // self.unit) * (span // self.unit) // total))
        if full or span >= self.ranks:
            return min(span, self.ranks)
        return self.ranks % span or span


def _eta(tier: Tier, readings: Readings) -> tuple[float, float]:
    return (1.0, 1.0) if readings.ideal else (tier.eta.alpha, tier.eta.beta)


def _tier_levels(tier: Tier, inside: int, readings: Readings, nics: int, sits: Sits) -> tuple[Level, ...]:
    """A tier's classes. ``inside`` members make one endpoint; ``nics`` ports of an endpoint are there for each one that sends.

    Sibling groups send as the group does, each over its own ports, so that uplinks leave each group its members' part of them.
    """
    kind = capabilities_of(tier)
    eta_alpha, eta_beta = _eta(tier, readings)
    bandwidth, dedicated = tier.bandwidth * tier.ports, kind.joined_by == "pair_links"
    levels: list[Level] = []
    boundaries: tuple[Boundary, ...] = ()
    beyond = 1
    for one in kind.classes:
        if levels:
            below = levels[-1].span
            boundaries += (Boundary(below, below * nics * sits.ports(beyond), one.oversubscription),)
        beyond = one.group
        levels.append(
            Level(
                tier=tier.name,
                name=one.name,
                span=sits.members(one.group) * inside,
                alpha_s=one.alpha_s,
                eta_alpha=eta_alpha,
                bandwidth_Bps=bandwidth,
                eta_beta=eta_beta,
                boundaries=boundaries,
                thinned=tuple(boundary for boundary in boundaries if anywhere(boundary.oversubscription > 1)),
                dedicated=dedicated,
                energy=None if tier.energy is None else tier.energy / nics,
                cable_s=cable_s(one.cable_m),
                post_s=tier.post or 0.0,
            )
        )
    return tuple(levels)


def _placed(levels: tuple[Level, ...], readings: Readings) -> tuple[Level, ...]:
    """Scattered: any hop of the tier may cross all of it."""
    return levels[-1:] if readings.placement == "scattered" else levels


def tier_reach(tier: Tier, ranks: int, readings: Readings, idle_nics: int = 1, sits: Sits = PACKED) -> Reach:
    """The reach of a group on one tier alone, counted in the endpoints that are its own."""
    levels = _tier_levels(tier, 1, readings, idle_nics, sits)
    spec, scattered = capabilities_of(tier).in_network, readings.placement == "scattered"
    in_switch = None
    if spec is not None:
        spanned = tier.endpoints if scattered else min(ranks * sits.stride, tier.endpoints)
        in_switch = _in_switch(spec, levels, ranks, readings, _only_height(tier, spanned))
    return Reach(ranks, _placed(levels, readings), levels, scattered, in_switch=in_switch)


def _only_height(tier: Tier, endpoints: int) -> int:
    """Levels of switches under so many endpoints of a tier with one distance class: those that its sizing takes, else 1."""
    kind = capabilities_of(tier)
    if kind.levels or kind.sizing is None:
        return 1
    block = kind.sizing
    return levels_under(tier.endpoints, block.rails, block.nics_per_rail, block.radix, endpoints)


def _in_switch(spec: InNetwork, levels: tuple[Level, ...], ranks: int, readings: Readings, only: int) -> InSwitch:
    """The aggregation tree is no taller than the levels that the group spans, nor than the switches' own limit.

    The way through it is as long as from one endpoint to another: each pass has its part of that cable.
    """
    spanned = 1 + next(i for i, level in enumerate(levels) if level.span >= ranks)
    if readings.placement == "scattered":
        spanned = len(levels)
    only_level = len(levels) == 1
    height = (spec.levels or only) if only_level else min(spec.levels or spanned, spanned)
    passes = 2 * height  # up and down again
    alpha_s = spec.alpha_switch + levels[spanned - 1].cable_s / passes
    return InSwitch(alpha_s, height, {} if readings.ideal else spec.own_eta, spec.limits)


def _crowd(tier: Tier, endpoints: int, sits: Sits) -> float:
    """Of a lattice: f(d) of its busiest axis over what an endpoint sends."""
    axes = capabilities_of(tier).part(endpoints, sits.stride) or ()
    return max([1.0, *(busiest_link(axis) * endpoints / (endpoints - 1) for axis in axes)])


def flat_reach(tiers: Sequence[tuple[Tier, Sits]], ranks: int, readings: Readings) -> Reach:
    """The reach of a flat group over several tiers, counted in ranks."""
    placed: list[Level] = []
    counted: list[Level] = []
    inside = 1
    for tier, sits in tiers:
        unit = inside
        inside *= sits.members(tier.endpoints)
        levels = _tier_levels(tier, unit, readings, 1, sits)
        if tier is not tiers[-1][0]:  # its switches may join more endpoints than a domain has
            levels = tuple(level._replace(span=min(level.span, inside)) for level in levels)
        placed += _placed(levels, readings)
        counted += levels
    tier, sits = tiers[-1]
    placed[-1] = placed[-1]._replace(crowd=_crowd(tier, ranks // unit, sits))
    return Reach(ranks, tuple(placed), tuple(counted), readings.placement == "scattered", unit)
