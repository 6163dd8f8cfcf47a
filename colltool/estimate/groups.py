"""A group placed on a fabric: the tiers it spans, what formulas may know of it, and the library
that runs there.

:func:`place` makes a :class:`PlacedGroup` of :class:`Span`, one for each tier on which the group has
more than one endpoint. :func:`tier_group` and :func:`flat_group` turn these into what formulas read:
a :class:`~colltool.network.group.Group` and its path classes, for one tier or for all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import gcd
from typing import Any, TypeVar

from colltool.algorithms.libraries import FROM_HOPPER, Feature, Running
from colltool.base.arrays import exponential
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Number, Primitive, ceil_div
from colltool.estimate.assumptions import ModelOptions
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
from colltool.fabric.tier_media import scope_of
from colltool.fabric.topology import capabilities_of, routed
from colltool.machines.factor import MeasuredMachine
from colltool.network.group import Group, Topology, sizes_of
from colltool.network.twisted import diameter_of

Value = TypeVar("Value")
GroupView = tuple[Group, PathClasses]
"""A group as formulas see it, and its path classes."""


@dataclass(frozen=True)
class Span:
    """A tier that the group spans.

    Args:
        endpoints: of the tier that have members of the group.
        ranks_inside: members behind each of these.
        occupancy: how the members sit on the endpoints.
        at_once: groups on its switches at the same time (interleaved siblings, and one per rank of
            an endpoint).
        behind: ranks of any group behind each endpoint.
        views: cache of :func:`tier_group`.
    """

    tier: Tier
    endpoints: int
    ranks_inside: int
    occupancy: Occupancy = PACKED
    at_once: int = 1
    behind: int = 1
    views: dict[tuple[ModelOptions, bool, bool], GroupView] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @cached_property
    def position(self) -> TierPosition:
        return TierPosition(
            self.tier, self.endpoints, self.ranks_inside, self.behind, occupancy=self.occupancy
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
        """State without what was worked out, which the other process works out again."""
        return self.__dict__ | {"worked_out": {}}

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made at its first use on this group."""
        if key not in self.worked_out:
            self.worked_out[key] = make()
        found: Value = self.worked_out[key]
        return found

    @cached_property
    def ranks(self) -> int:
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
        first = self.spans[0]
        inside = first.kind.joins == "accelerators" and not self.one_a_node
        return first.endpoints if inside else 1

    @cached_property
    def one_a_node(self) -> bool:
        """Whether no innermost domain holds two members, so that the group lies on the network
        alone."""
        return self.spans[0].tier.name != self.fabric.tiers[0].name


class SameFabric:
    """A cache key by identity: equal fabrics are different keys."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    def __hash__(self) -> int:
        return id(self.fabric)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameFabric) and self.fabric is other.fabric


def place(
    fabric: Fabric, group: AnyGroup = None, stride: int = 1, *, alone: bool = False
) -> PlacedGroup:
    """Put a group on a fabric: ``group`` is a number of ranks (None: as many as fit the stride), or
    a spec with the rest."""
    spec = group if isinstance(group, GroupSpec) else GroupSpec(group, stride, alone)
    if type(spec.stride) is int and type(spec.ranks) in (int, type(None)):
        return _placed_once(SameFabric(fabric), spec)
    # other types cannot be cache keys, and are refused in words
    return _placed(fabric, spec)


# cached, as every price on a fabric places its group anew
@lru_cache(maxsize=64)
def _placed_once(where: SameFabric, spec: GroupSpec) -> PlacedGroup:
    return _placed(where.fabric, spec)


def _placed(fabric: Fabric, spec: GroupSpec) -> PlacedGroup:
    """Where a group sits: the tiers that it spans, with how its members sit on each."""
    fabric = fabric.with_mpi_post()
    stops = fill_tiers(fabric, spec)
    spans: list[Span] = []
    slices: list[tuple[str, tuple[int, ...]]] = []
    open_axes: list[bool] = []
    # ranks of the fabric behind an endpoint, and those of the group
    inside = 1
    members = 1
    for tier, stop in zip(fabric.tiers, stops, strict=True):
        if stop.members > 1:
            spans.append(_span(tier, stop, spec, inside, members))
        axes = capabilities_of(stop.tier).part(stop.members, stop.stride) or ()
        if axes:
            slices.append((stop.tier.name, sizes_of(axes)))
        open_axes += opened(capabilities_of(tier).axes, axes)
        inside *= tier.endpoints
        members *= stop.members
    domains = tuple(first_domains(fabric, fabric.ranks if spec.ranks is None else spec.ranks))
    if len(set(domains)) > 1:
        members = sum(domains)
    else:
        # as many in each: an even group
        domains = ()
    placement = GroupPlacement(
        members,
        spec.stride,
        tuple(stop.members for stop in stops),
        spec.alone,
        slices=tuple(slices),
        in_order=spec.in_order,
        domains=domains,
        open_axes=tuple(open_axes),
    )
    return PlacedGroup(fabric, placement, tuple(spans), fabric.launch_overhead)


def _span(tier: Tier, stop: TierShare, spec: GroupSpec, inside: int, members: int) -> Span:
    """A group's part of a tier, with ``inside`` ranks behind an endpoint, ``members`` of them of
    the group."""
    kind = capabilities_of(tier)
    rails = kind.sizing.rails if kind.sizing is not None and len(kind.classes) > 1 else 1
    if inside % rails:
        rails = 1
    # siblings that are at work keep their ports
    siblings = 1
    if spec.alone and inside != members:
        senders = min(members, rails // gcd(spec.stride, rails))
        siblings = max(1, inside // rails * senders // members)
    # groups at the same time on the switches of a rail
    if spec.alone:
        at_once = ceil_div(members, rails)
    elif spec.stride == 1:
        at_once = ceil_div(members, rails) * stop.stride
    else:
        at_once = ceil_div(inside, rails) * stop.stride
    occupancy = Occupancy(stop.stride, siblings, spec.alone)
    return Span(stop.tier, stop.members, members, occupancy, at_once, behind=inside)


def by_links(placed: PlacedGroup) -> bool:
    """Whether a group's messages are put on links one by one, for one value of each number at a
    time."""
    return bool(placed.domains) or routed(span.tier for span in placed.spans)


def check_by_class(fabric: Fabric, group: AnyGroup) -> None:
    """Refuse a group by links, where many values of a number are priced at once."""
    placed = place(fabric, group)
    if by_links(placed):
        why = "its domains differ in size" if placed.domains else "a tier is routed link by link"
        values = argument_text("vary", [f"{fabric.tiers[-1].name}.bandwidth=50GB/s,100GB/s"])
        raise ColltoolError(
            f"{fabric.name} has no spread of prices: {why}",
            argument="fabric",
            fix=f"a sweep prices value by value: {values}",
        )


def tier_group(
    span: Span, readings: ModelOptions, *, scale_out: bool, leaders: bool = False
) -> GroupView:
    """The group of one phase on one tier. With ``leaders``, one rank of each endpoint takes
    part."""
    key = (readings, scale_out, leaders)
    if key in span.views:
        return span.views[key]
    tier = span.tier
    kind = span.kind
    idle_nics = span.ranks_inside if leaders else 1
    position = span.position if idle_nics == 1 else replace(span.position, nics=idle_nics)
    paths = tier_paths(position, readings)
    hardware = paths.in_switch
    wires = position.wires
    group = Group(
        ranks=span.endpoints,
        topology=tier.topology,
        axes=kind.part(span.endpoints, span.occupancy.stride) or (),
        scale_out=scale_out or kind.joins == "hosts",
        switch=kind.operations,
        switch_levels=hardware.levels if hardware else 1,
        switch_groups=max(1, span.at_once // idle_nics),
        switch_room=hardware.limits.groups if hardware and hardware.limits else None,
        tree_beta=readings.tree_beta,
        posts_cost=tier.post is not None,
        one_port=readings.ports == "one",
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
    inner, *_, outer = placed.spans
    axes = outer.kind.part(outer.endpoints, outer.occupancy.stride) or ()
    positions = [span.position for span in placed.spans]
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
    tiers = [span.tier for span in placed.spans]
    if placed.domains:
        return "uneven_tiers"
    if routed(tiers):
        return "routed_tiers"
    return "lattice_tiers" if any(capabilities_of(tier).axes for tier in tiers) else "tiers"


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
    return tier_group(span, ModelOptions(), scale_out=scale_out)[0]


def running_on(fabric: Fabric) -> Running | None:
    """The fabric's library; None if any may run.

    NCCL's NVLS is off if the fabric says so or its GPUs predate Hopper; CollNet is off unless the
    fabric says it is on.
    """
    facts = fabric.library_facts
    if facts is None or facts.name == "all":
        return None
    off: list[Feature] = []
    if not facts.collnet:
        off.append("collnet")
    if facts.nvls is False or (facts.gpu is not None and facts.gpu not in FROM_HOPPER):
        off.append("nvls")
    return Running(facts.name, frozenset(off))


def as_read(fabric: Fabric, readings: ModelOptions) -> Fabric:
    """A fabric without its machine's rows where the readings leave these out."""
    if readings.numbers == "measured" and not readings.ideal:
        return fabric
    return fabric.without_machine()


def machine_factor(
    placed: PlacedGroup, primitive: Primitive, readings: ModelOptions
) -> Callable[[Number], Number] | None:
    """exp(d) at a size: what a measured machine takes over wires, contention and library (layer 4).
    None for 1."""
    machine = placed.fabric.machine
    if machine is None or readings.ideal or readings.numbers != "measured":
        return None
    return placed.once(("machine", primitive), lambda: _factor_by_size(machine, placed, primitive))


def _factor_by_size(
    machine: MeasuredMachine, placed: PlacedGroup, primitive: Primitive
) -> Callable[[Number], Number] | None:
    """The measured machine's time over the price, by size. None where nothing was measured there."""
    scope = scope_of(placed.fabric, [span.tier.name for span in placed.spans])
    if machine.sigma(primitive, scope, placed.ranks, 1e6) is None:
        return None
    home = placed.fabric.measured_fabric
    if machine.file and home is not None:
        from colltool.estimate.ordered_factor import ordered_factor

        ordered = ordered_factor(SameFabric(home), primitive, scope)
        if ordered is not None:
            return lambda size: exponential(ordered.d(placed.ranks, size))
    return lambda size: exponential(machine.d(primitive, scope, placed.ranks, size))


def library_of(fabric: Fabric) -> str:
    """The name of the fabric's library; empty if any may run."""
    return "" if fabric.library_name == "all" else fabric.library_name


def library_runs(placed: PlacedGroup, primitive: Primitive) -> tuple[str, ...]:
    """What the outermost tier lists as run by the library; empty: anything."""
    return placed.spans[-1].tier.runs(primitive)
