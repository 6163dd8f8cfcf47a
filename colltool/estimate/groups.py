"""A group placed on a fabric: the tiers it spans, and what formulas may know of it.

:func:`place` makes a :class:`PlacedGroup` of :class:`Span`, one for each tier on which the group has
more than one endpoint. :func:`tier_group` and :func:`flat_group` turn these into what formulas read:
a :class:`~colltool.network.group.Group` and its path classes, for one tier or for all at once.

A *member* is a rank of the group; *siblings* are the other groups among whose ranks it is interleaved,
which do the same at the same time unless the group is ``alone``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import gcd
from typing import Any, TypeVar

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import ceil_div
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.path_classes import PathClasses, flat_paths, tier_paths
from colltool.estimate.placement import (
    PACKED,
    AnyGroup,
    GroupPlacement,
    GroupSpec,
    Occupancy,
    TierShare,
    fill_tiers,
    first_domains,
    opened,
)
from colltool.estimate.wired import TierPosition, pairs_at_once
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.same_fabric import SameFabric
from colltool.fabric.topology import capabilities_of, routed
from colltool.network.group import Group, Topology, sizes_of
from colltool.network.twisted import diameter_of

Value = TypeVar("Value")
GroupView = tuple[Group, PathClasses]
"""A group as formulas see it, and its path classes."""


@dataclass(frozen=True)
class Span:
    """A tier that the group spans.

    Args:
        tier: of a lattice the slice that the group takes.
        endpoints: of the tier that have members of the group.
        members_inside: members behind each of these.
        occupancy: how the members sit on the endpoints.
        groups_at_once: groups on the same switches at the same time (interleaved siblings, and one
            per rank of an endpoint).
        ranks_behind: ranks of any group behind each endpoint.
        views: cache of :func:`tier_group`.
    """

    tier: Tier
    endpoints: int
    members_inside: int
    occupancy: Occupancy = PACKED
    groups_at_once: int = 1
    ranks_behind: int = 1
    views: dict[tuple[ModelOptions, bool, bool], GroupView] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @cached_property
    def position(self) -> TierPosition:
        """How the group sits on the tier, as link models and path classes read it."""
        return TierPosition(
            self.tier,
            self.endpoints,
            self.members_inside,
            self.ranks_behind,
            occupancy=self.occupancy,
        )

    @property
    def kind(self) -> TierCapabilities[Tier]:
        """What the tier can do."""
        return self.position.kind


@dataclass(frozen=True)
class PlacedGroup:
    """A group on its fabric, under one protocol.

    Args:
        spans: the tiers on which it takes more than one endpoint, innermost first.
        overhead_s: launch, once per call.
        local_copy_Bps: rate at which a rank copies its own share; None if free.
        protocol: empty if the tiers list none.
        origin: the group before a protocol was chosen; None for that group itself.
        worked_out: cache of :meth:`once`.
    """

    fabric: Fabric
    placement: GroupPlacement
    spans: tuple[Span, ...]
    overhead_s: float
    local_copy_Bps: float | None = None
    protocol: str = ""
    origin: PlacedGroup | None = field(default=None, compare=False, repr=False)
    worked_out: dict[Hashable, Any] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __getstate__(self) -> dict[str, Any]:
        """What another process receives: all but the cache, which it fills again."""
        return self.__dict__ | {"worked_out": {}}

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made at its first use on this group."""
        if key not in self.worked_out:
            self.worked_out[key] = make()
        value: Value = self.worked_out[key]
        return value

    @cached_property
    def ranks(self) -> int:
        """How many members the group has."""
        return self.placement.ranks

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Endpoints per spanned tier, innermost first; their product is the number of ranks where
        no domains differ."""
        return tuple([span.endpoints for span in self.spans])

    @cached_property
    def nodes(self) -> int:
        """Domains of the innermost tier if it joins accelerators; else each rank is a node."""
        return len(self.domains) or self.ranks // self.ranks_per_node

    @cached_property
    def domains(self) -> tuple[int, ...]:
        """Members in each domain of the innermost tier where these differ. Empty elsewhere."""
        return self.placement.domains

    @cached_property
    def ranks_per_node(self) -> int:
        """Members in a domain of the innermost tier, the most where these differ; 1 if each rank is
        a node."""
        innermost = self.spans[0]
        has_nodes = innermost.kind.joins == "accelerators" and not self.one_a_node
        return innermost.endpoints if has_nodes else 1

    @cached_property
    def one_a_node(self) -> bool:
        """Whether no innermost domain holds two members, so that the group lies on the network
        alone."""
        return self.spans[0].tier.name != self.fabric.tiers[0].name


def place(
    fabric: Fabric, group: AnyGroup = None, stride: int = 1, *, alone: bool = False
) -> PlacedGroup:
    """Put a group on a fabric: ``group`` is a number of ranks (None: as many as fit the stride), or
    a spec, which holds the other two as well. ``alone``: the ranks in between are idle.

    Raises:
        ColltoolError: the group does not fit the fabric.
    """
    spec = group if isinstance(group, GroupSpec) else GroupSpec(group, stride, alone)
    if type(spec.stride) is int and type(spec.ranks) in (int, type(None)):
        return _cached_placement(SameFabric(fabric), spec)
    # Other types are refused in words; True is one of them, but as a key of the cache it equals 1.
    return _placed_on_tiers(fabric, spec)


@lru_cache(maxsize=64)
def _cached_placement(same_fabric: SameFabric, spec: GroupSpec) -> PlacedGroup:
    """The placed group, and all that is kept with it: every price on a fabric places its group."""
    return _placed_on_tiers(same_fabric.fabric, spec)


def _placed_on_tiers(fabric: Fabric, spec: GroupSpec) -> PlacedGroup:
    """Where a group sits: the tiers that it spans, with how its members sit on each."""
    fabric = fabric.with_mpi_post()
    spans: list[Span] = []
    slices: list[tuple[str, tuple[int, ...]]] = []
    open_axes: list[bool] = []
    per_domain: list[int] = []
    # behind an endpoint of the tier: ranks of the fabric, and those that are members
    ranks_behind = 1
    members_inside = 1
    for tier, share in zip(fabric.tiers, fill_tiers(fabric, spec), strict=True):
        if share.members > 1:
            spans.append(_span(tier, share, spec, ranks_behind, members_inside))
        # share.tier: the slice of a lattice that the group takes, else the tier
        axes = capabilities_of(share.tier).part(share.members, share.stride) or ()
        if axes:
            slices.append((tier.name, sizes_of(axes)))
        open_axes += opened(capabilities_of(tier).axes, axes)
        per_domain.append(share.members)
        ranks_behind *= tier.endpoints
        members_inside *= share.members
    domains = tuple(first_domains(fabric, fabric.ranks if spec.ranks is None else spec.ranks))
    ranks = sum(domains)
    if len(set(domains)) < 2:
        # as many in each: an even group
        ranks = members_inside
        domains = ()
    placement = GroupPlacement(
        ranks,
        spec.stride,
        tuple(per_domain),
        spec.alone,
        slices=tuple(slices),
        in_order=spec.in_order,
        domains=domains,
        open_axes=tuple(open_axes),
    )
    return PlacedGroup(fabric, placement, tuple(spans), fabric.launch_overhead)


def _span(
    tier: Tier, share: TierShare, spec: GroupSpec, ranks_behind: int, members_inside: int
) -> Span:
    """A group's part of a tier.

    Every 4th rank, alone, on hosts of 8 GPUs and 2 rails: ranks 0 and 4 are the 2 members of a host
    (``members_inside`` of 8 ``ranks_behind``), both on rail 0. They share the host's 4 ports there:
    each has 2 (``siblings``), its own and that of an idle rank.
    """
    kind = capabilities_of(tier)
    rails = 1
    # 6 ranks do not spread evenly over 4 rails: as if all were on the same switches
    if kind.sizing and len(kind.classes) > 1 and ranks_behind % kind.sizing.rails == 0:
        rails = kind.sizing.rails
    # siblings that are at work keep their ports
    siblings = 1
    if spec.alone and ranks_behind != members_inside:
        rails_used = min(members_inside, rails // gcd(spec.stride, rails))
        ports_there = ranks_behind // rails * rails_used
        siblings = max(1, ports_there // members_inside)
    # Of each rail, with a group for each rank of an endpoint that is at work: 8 consecutive ranks
    # on 4 rails are 2 groups.
    if spec.alone or spec.stride == 1:
        groups_at_once = ceil_div(members_inside, rails)
    else:
        # with the siblings behind the same endpoints and behind those in between
        groups_at_once = ceil_div(ranks_behind, rails) * share.stride
    occupancy = Occupancy(share.stride, siblings, spec.alone)
    return Span(share.tier, share.members, members_inside, occupancy, groups_at_once, ranks_behind)


def by_links(placed: PlacedGroup) -> bool:
    """Whether a group's messages are put on links one by one, for one value of each number at a
    time."""
    return bool(placed.domains) or routed(span.tier for span in placed.spans)


def check_by_class(fabric: Fabric, group: AnyGroup) -> None:
    """Refuse a group by links, where many values of a number are priced at once."""
    placed = place(fabric, group)
    if by_links(placed):
        reason = "its domains differ in size" if placed.domains else "a tier is routed link by link"
        values = argument_text("vary", [f"{fabric.tiers[-1].name}.bandwidth=50GB/s,100GB/s"])
        raise ColltoolError(
            f"{fabric.name} has no spread of prices: {reason}",
            argument="fabric",
            fix=f"a sweep prices value by value: {values}",
        )


def tier_group(
    span: Span, readings: ModelOptions, *, scale_out: bool, leaders: bool = False
) -> GroupView:
    """The group of one phase on one tier: its ranks are the endpoints, each a rank or a domain.

    ``scale_out``: the tier joins nodes, whatever it is; ``leaders``: one rank of each endpoint takes
    part, over the NICs of all its members.
    """
    key = (readings, scale_out, leaders)
    if key in span.views:
        return span.views[key]
    tier = span.tier
    kind = span.kind
    nics_of_sender = 1
    position = span.position
    if leaders and span.members_inside > 1:
        nics_of_sender = span.members_inside
        position = replace(position, nics=nics_of_sender)
    paths = tier_paths(position, readings)
    # what reduces in switches, and the wires of a routed tier; None on other tiers
    hardware = paths.in_switch
    wires = position.wires
    group = Group(
        ranks=span.endpoints,
        topology=tier.topology,
        axes=kind.part(span.endpoints, span.occupancy.stride) or (),
        scale_out=scale_out or kind.joins == "hosts",
        switch=kind.operations,
        switch_levels=hardware.levels if hardware else 1,
        switch_groups=max(1, span.groups_at_once // nics_of_sender),
        switch_room=hardware.limits.groups if hardware and hardware.limits else None,
        tree_beta=readings.tree_beta,
        posts_cost=tier.post is not None,
        one_port=readings.ports == "one",
        # formulas count in units of what an endpoint's ports carry
        wires=None if wires is None else wires.scaled(1 / (tier.bandwidth * tier.ports)),
        stride=1 if wires is None else span.occupancy.stride,
        alone=wires is not None and span.occupancy.alone,
        links=0 if wires is None else wires.links,
        hashed=_is_hashed(span),
        pairs=pairs_at_once([position], span.endpoints),
    )
    return span.views.setdefault(key, (group, paths))


def flat_group(placed: PlacedGroup, readings: ModelOptions) -> GroupView:
    """The whole group seen as flat: on its only tier, or over several."""
    return placed.once(("flat", readings), lambda: _flat_group(placed, readings))


def _flat_group(placed: PlacedGroup, readings: ModelOptions) -> GroupView:
    """The group as one algorithm over all tiers sees it, and its paths."""
    if len(placed.spans) == 1:
        return tier_group(placed.spans[0], readings, scale_out=placed.one_a_node)
    inner = placed.spans[0]
    outer = placed.spans[-1]
    axes = outer.kind.part(outer.endpoints, outer.occupancy.stride) or ()
    positions = [span.position for span in placed.spans]
    # what is too long to follow link by link is refused by these
    if placed.domains:
        links = placed.ranks
        pairs = placed.ranks**2
    else:
        links = sum(position.wires.links for position in positions if position.wires)
        pairs = pairs_at_once(positions, placed.ranks)
    group = Group(
        ranks=placed.ranks,
        topology=_topology_over_tiers(placed),
        hops=max(1, diameter_of(axes)),
        tree_beta=readings.tree_beta,
        posts_cost=all(span.tier.post is not None for span in placed.spans),
        one_port=readings.ports == "one",
        rail_only=any(span.tier.rail_only for span in placed.spans[1:]),
        domains=placed.domains,
        hashed=any(map(_is_hashed, placed.spans)),
        spread=bool(placed.domains) and spread_inside(inner.tier, readings),
        links=links,
        pairs=pairs,
    )
    return group, flat_paths(positions, placed.ranks, readings, placed.domains)


def _topology_over_tiers(placed: PlacedGroup) -> Topology:
    """The topology of a flat group over several tiers, which decides what runs on it."""
    tiers = [span.tier for span in placed.spans]
    if placed.domains:
        return "uneven_tiers"
    if routed(tiers):
        return "routed_tiers"
    if any(capabilities_of(tier).axes for tier in tiers):
        return "lattice_tiers"
    return "tiers"


def _is_hashed(span: Span) -> bool:
    """Whether each flow of a tier is hashed to one of its planes."""
    planes = span.kind.planes
    return planes is not None and planes.spread == "ecmp"


def spread_inside(inner: Tier, readings: ModelOptions) -> bool:
    """Whether rings and trees over rails cross a domain over links of their own, as every link of a
    full mesh is there for it."""
    return capabilities_of(inner).joined_by == "pair_links" and readings.ports == "all"


def alone_on(tier: Tier, endpoints: int, inside: int, stride: int, *, scale_out: bool) -> Group:
    """The group of every ``stride``-th endpoint of a tier, each with ``inside`` ranks."""
    span = Span(tier, endpoints, inside, Occupancy(stride))
    return tier_group(span, USUAL, scale_out=scale_out)[0]
