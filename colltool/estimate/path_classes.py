"""Path classes: latency and bandwidth between two ranks by how far apart they are, from the same leaf
to across the spine.

:func:`tier_paths` has the classes of a group on one tier, :func:`flat_paths` those of a group over
several. :mod:`colltool.estimate.link_cost` prices a formula's messages on them.

A *domain* of a class is a set of endpoints any two of which meet in this class or a nearer one, such
as those of a leaf; :data:`Flows` say how many of its messages leave it at once.

Of a tier are read its ``classes``, nearest first (:class:`~colltool.fabric.capabilities.DistanceClass`:
``group`` endpoints in one domain, α, and the ``oversubscription`` of the uplinks below), its rate, and the
``message_share`` of it that one message gets where ports are split into planes. Of the group's place on it
(:class:`~colltool.estimate.placement.Occupancy`): how many of so many neighbouring endpoints are
``members``, and the ``ports`` that each can use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from colltool.algorithms.binary_trees import most_edges_leaving
from colltool.algorithms.lattice import all_to_all_load
from colltool.base.arrays import anywhere, least
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive, Terms, Trees, ceil_div
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.wired import LinkNetwork, TierPosition, link_network
from colltool.fabric.capabilities import cable_s
from colltool.fabric.tier_parts import InNetwork, Limits, Planes

Flows = Callable[[int], float]
"""Number of messages that leave a domain at once and share its uplinks, by the domain's endpoints."""


def everybody(endpoints: int) -> float:
    """Every endpoint of the domain sends a message out of it."""
    return float(endpoints)


def at_most(count: float) -> Flows:
    """``count`` messages, or one per endpoint if there are fewer."""
    return lambda endpoints: min(count, endpoints)


one_alone = at_most(1)


def leaving(stride: int, ranks: int) -> Flows:
    """Every rank sends ``stride`` further, cyclically: messages leaving the busiest domain.

    Of 64 ranks in domains of 8, three ahead: 3 of a domain's 8 messages leave it.
    """

    def crossing(domain: int) -> int:
        return domain - max(0, domain - stride) - max(0, domain - (ranks - stride))

    return lambda endpoints: max(crossing(min(endpoints, ranks)), crossing(ranks % endpoints))


def tree_flows(terms: Terms, ranks: int, route: Trees) -> Flows:
    """Edges leaving a domain, half a payload each, in units of full flows of n_β·M.

    Of 8 ranks in domains of 4, both ways, 4 edges leave: where n_β is 2, as much as 1 flow.
    """

    def flows(domain: int) -> float:
        edges = most_edges_leaving(ranks, domain, both_ways=route.both_ways)
        # not 0, by which shares are divided
        return min(max(edges / 2 / terms.n_beta, 1e-9), domain)

    return flows


class Boundary(NamedTuple):
    """Uplinks between two levels."""

    endpoints: int  # below
    ports: float  # of these endpoints, which share the uplinks
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
        cable_m: metres of cable between a pair, whose delay is part of α.
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
    cable_m: float = 0.0
    post_s: float = 0.0
    crowd: float = 1.0
    planes: Planes | None = None

    def at_once(self, messages: float) -> PathClass:
        """The class for a rank that sends several messages at once, each of which may keep to a
        plane."""
        if self.planes is None:
            return self
        gain = self.planes.share_of(messages) / self.planes.share_of(1)
        # uplinks carry no more: in units of the faster ports they are fewer
        thinned = tuple(boundary._replace(ports=boundary.ports / gain) for boundary in self.thinned)
        return self._replace(bandwidth_Bps=self.bandwidth_Bps * gain, thinned=thinned)

    def share(self, flows: Flows) -> Any:
        """min(1, g/(s·f)) over the boundaries crossed, with f = ``flows(g)`` messages leaving each
        domain of g at once.

        8 ports at 2:1 have uplinks for 4: 8 messages get half a port each, 2 a whole one.
        """
        if not self.thinned:
            return 1.0
        shares = []
        for boundary in self.thinned:
            flows_carried = boundary.ports / boundary.oversubscription
            shares.append(flows_carried / flows(boundary.endpoints))
        return least(1.0, *shares)


class PeerView(NamedTuple):
    """The peers of one rank."""

    # a class and how many peers meet the rank in it, nearest first
    peers: tuple[tuple[PathClass, int], ...]
    # ranks that send at once out of the rank's own domain, by the domain's endpoints
    flows: Flows


class InSwitch(NamedTuple):
    """Switches that reduce or multicast, as a group uses them."""

    alpha_s: float  # of each switch passed, without η
    levels: int  # of switches in the aggregation tree
    switch_eta_beta: Mapping[Primitive, float]  # their own η_β, where they have one
    limits: Limits | None = None  # what they refuse


@dataclass(frozen=True)
class PathClasses:
    """The distance classes of a group of consecutive or equally spaced ranks, nearest first.

    ``levels`` and ``peer_levels`` differ under scattered placement, where any hop may cross the
    whole tier but the number of peers in one's own leaf is still known.

    Args:
        levels: classes of hops and of the partners of a round.
        peer_levels: classes by which peers are counted.
        unit: ranks that stay together under scattered placement: an endpoint of the outermost tier.
        wired: the tiers' links where a tier is routed; messages are then counted on these, not by
            class.
    """

    ranks: int
    levels: tuple[PathClass, ...]
    peer_levels: tuple[PathClass, ...]
    scattered: bool
    unit: int = 1
    in_switch: InSwitch | None = None
    wired: LinkNetwork | None = None

    @cached_property
    def in_a_phase(self) -> PathClasses:
        """The classes for a phase of another collective: the switches' own η_β are for whole
        collectives."""
        if self.in_switch is None or not self.in_switch.switch_eta_beta:
            return self
        return replace(self, in_switch=self.in_switch._replace(switch_eta_beta={}))

    def top(self) -> PathClass:
        """The farthest class in which two ranks of the group meet."""
        return self.used[-1]

    @cached_property
    def used(self) -> tuple[PathClass, ...]:
        """The classes up to the first that joins the whole group, nearest first."""
        return self.levels[: _levels_spanned(self.levels, self.ranks)]

    @cached_property
    def hops(self) -> tuple[tuple[PathClass, int], ...]:
        """(class, hops) of a closed ring through all ranks; packed, it leaves each domain once.

        32 ranks in nodes of 8 and leaves of 16: 28 hops inside nodes, 2 inside leaves, 2 across.
        """
        hops = []
        domains = self.ranks
        for level in self.used:
            above = ceil_div(self.ranks, level.span)
            count = domains - above if above > 1 else domains
            if count:
                hops.append((level, count))
            domains = above
        return tuple(hops)

    def block(self, size: int) -> PathClass:
        """The nearest class in which aligned blocks of that size never straddle domains, else the
        farthest."""
        for level in self.used:
            if level.span % size == 0:
                return level
        return self.used[-1]

    def classes_between(self, apart: int, far: PathClass) -> tuple[PathClass, ...]:
        """The classes in which pairs ``apart`` ranks from each other can meet, farthest first.

        Nearer classes of the same tier are left out: they use the same ports and cross fewer
        uplinks.
        """
        if far.tier == self.levels[0].tier:
            return (far,)
        classes = [far]
        for level in self.used:
            if level.tier == far.tier:
                break
            if level.span > apart:
                classes.append(level)
        return tuple(classes)

    @cached_property
    def views(self) -> tuple[PeerView, ...]:
        """The group as seen from a full domain, and from the last one if that is smaller.

        20 ranks in nodes of 8: 7 peers inside and 12 across; of the last 4 ranks, 3 and 16.
        """
        of_full = self._view(full=True)
        of_last = self._view(full=False)
        return (of_full,) if of_full.peers == of_last.peers else (of_full, of_last)

    def _view(self, *, full: bool) -> PeerView:
        """The peers of a rank in a full domain, or in the last one."""
        peers = []
        ranks_nearer = 1
        for level in self.peer_levels:
            ranks_inside = self._own_domain(level.span, full=full)
            if ranks_inside != ranks_nearer:
                peers.append((level, ranks_inside - ranks_nearer))
            ranks_nearer = ranks_inside
        return PeerView(tuple(peers), partial(self._own_domain, full=full))

    def _own_domain(self, span: int, *, full: bool) -> int:
        """Ranks of the group in a domain of ``span``; scattered, its even share of all units."""
        if self.scattered and span > self.unit:
            # the group's units over those of the fabric are its share of the units in the domain
            fabric_units = self.peer_levels[-1].span // self.unit
            units = (self.ranks // self.unit) * (span // self.unit)
            return self.unit * max(1, ceil_div(units, fabric_units))
        if full or span >= self.ranks:
            return min(span, self.ranks)
        return self.ranks % span or span


def _levels_spanned(levels: Sequence[PathClass], ranks: int) -> int:
    """Number of classes, nearest first, up to the first that joins this many ranks; the last one
    always does."""
    return 1 + next(number for number, level in enumerate(levels) if level.span >= ranks)


def _tier_levels(
    position: TierPosition, members_inside: int, nics: int, readings: ModelOptions
) -> tuple[PathClass, ...]:
    """A tier's classes, nearest first. ``members_inside`` ranks of the group form one endpoint, by
    which ``span`` counts; each sender has ``nics`` ports of an endpoint.

    Sibling groups send at the same time over their own ports, so uplinks are divided among groups
    by members.
    """
    tier = position.tier
    kind = position.kind
    occupancy = position.occupancy
    classes = kind.classes
    message_share = kind.message_share
    bandwidth_Bps = kind.rate_Bps * message_share
    dedicated = kind.joined_by == "pair_links"
    levels: list[PathClass] = []
    boundaries: tuple[Boundary, ...] = ()
    thinned: tuple[Boundary, ...] = ()
    for number, distance in enumerate(classes):
        # the second and further classes are reached over uplinks of the one before
        if number:
            below = levels[-1].span
            ports = below * nics * occupancy.ports(classes[number - 1].group)
            uplinks = Boundary(below, ports / message_share, distance.oversubscription)
            boundaries = (*boundaries, uplinks)
            if anywhere(distance.oversubscription > 1):
                thinned = (*thinned, uplinks)
        levels.append(
            PathClass(
                tier=tier.name,
                name=distance.name,
                span=occupancy.members(distance.group) * members_inside,
                alpha_s=distance.alpha_s,
                eta_alpha=1.0 if readings.ideal else tier.eta.alpha,
                bandwidth_Bps=bandwidth_Bps,
                eta_beta=1.0 if readings.ideal else tier.eta.beta,
                boundaries=boundaries,
                thinned=thinned,
                dedicated=dedicated,
                energy=None if tier.energy is None else tier.energy / nics,
                cable_m=distance.cable_m,
                post_s=tier.post or 0.0,
                planes=kind.planes,
            )
        )
    return tuple(levels)


def tier_paths(position: TierPosition, readings: ModelOptions) -> PathClasses:
    """The classes of a group on one tier; its ranks are counted as endpoints of this tier.

    The aggregation tree of its switches is no taller than the levels that the group spans, nor than
    the switches' limit. A tier of one class has as many levels as its sizing requires. Each switch
    pass has its part of the longest cable.
    """
    ranks = position.endpoints
    levels = _tier_levels(position, members_inside=1, nics=position.nics, readings=readings)
    scattered = readings.placement == "scattered"
    in_network = position.kind.in_network
    # on its own tier an endpoint counts as one rank
    as_ranks = position if position.members_inside == 1 else replace(position, members_inside=1)
    wired = _wired([as_ranks], ranks, readings)
    paths = PathClasses(ranks, levels[-1:] if scattered else levels, levels, scattered, wired=wired)
    if in_network is None:
        return paths
    spanned = len(levels) if scattered else _levels_spanned(levels, ranks)
    height = _switch_levels(
        in_network, position, spanned if len(levels) > 1 else None, scattered=scattered
    )
    # the cables are passed up and down again, one for each switch pass
    alpha_s = in_network.alpha_switch + cable_s(levels[spanned - 1].cable_m) / (2 * height)
    # ideal switches have no contention of their own
    switch_eta_beta = {} if readings.ideal else in_network.switch_eta_beta
    return replace(paths, in_switch=InSwitch(alpha_s, height, switch_eta_beta, in_network.limits))


def _switch_levels(
    in_network: InNetwork, position: TierPosition, spanned: int | None, *, scattered: bool
) -> int:
    """Levels of switches in the aggregation tree: as many as the group spans, at most the switches'
    limit. ``spanned`` is None on a tier of one class, whose levels follow from its sizing if at
    all."""
    tier = position.tier
    kind = position.kind
    sizing = kind.sizing
    if spanned is not None:
        return min(in_network.levels or spanned, spanned)
    if in_network.levels or kind.levels or sizing is None:
        return in_network.levels or 1
    endpoints = tier.endpoints
    if not scattered:
        endpoints = min(position.endpoints * position.occupancy.stride, endpoints)
    rails = sizing.rails * (kind.planes.count if kind.planes else 1)
    # only Clos networks of a stated radix are sized, and these modules are slow to load
    from colltool.network.sizing.size_clos import levels_under

    return levels_under(tier.endpoints, rails, sizing.nics_per_rail, sizing.radix, endpoints)


def _wired(
    positions: Sequence[TierPosition],
    ranks: int,
    readings: ModelOptions,
    domains: Sequence[int] = (),
) -> LinkNetwork | None:
    """The links of a group with a routed tier or domains that differ, whose ranks cannot be
    scattered. None for others."""
    reason = "domains differ in size" if domains else ""
    for position in reversed(positions):
        if position.kind.joined_by == "routes":
            reason = f"'{position.tier.name}' is routed link by link"
    if not reason:
        return None
    if readings.placement == "scattered":
        raise ColltoolError(
            f"{reason}, so it must be known where ranks sit",
            argument="placement",
            fix=f"leave out {argument_text('placement')}",
        )
    return link_network(tuple(positions), ranks, readings.ideal, tuple(domains))


def flat_paths(
    positions: Sequence[TierPosition], ranks: int, readings: ModelOptions, domains: Sequence[int]
) -> PathClasses:
    """The classes of a whole group over several tiers; ``domains``: members in each of the
    innermost where these differ."""
    levels_placed: list[PathClass] = []
    levels_counted: list[PathClass] = []
    scattered = readings.placement == "scattered"
    # members in a domain of the tier; unit: those behind one of its endpoints, after the loop of
    # the outermost tier
    inside = 1
    for position in positions:
        unit = inside
        inside *= position.occupancy.members(position.tier.endpoints)
        levels = _tier_levels(position, members_inside=unit, nics=1, readings=readings)
        # an inner tier's switches may join more endpoints than a domain has
        if position.tier is not positions[-1].tier:
            levels = tuple(level._replace(span=min(level.span, inside)) for level in levels)
        levels_placed += levels[-1:] if scattered else levels
        levels_counted += levels
    endpoints = len(domains) or ranks // unit
    outer = positions[-1]
    axes = outer.kind.part(endpoints, outer.occupancy.stride) or ()
    crowd = max(1.0, all_to_all_load(axes) * endpoints / (endpoints - 1))
    levels_placed[-1] = levels_placed[-1]._replace(crowd=crowd)
    return PathClasses(
        ranks,
        tuple(levels_placed),
        tuple(levels_counted),
        scattered,
        unit,
        wired=_wired(positions, ranks, readings, domains),
    )
