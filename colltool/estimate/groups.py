"""Which tiers a group of ranks spans: it fills them innermost first, in whole domains; with a stride, every so many-th rank."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import Any, TypeVar

from colltool.algorithms.group import Group, Topology
from colltool.estimate.assumptions import Readings
from colltool.estimate.group_spec import PACKED, AnyGroup, GroupPlacement, GroupSpec, Occupancy
from colltool.estimate.path_classes import PathClasses, flat_paths, tier_paths
from colltool.estimate.placement import TierShare, fill_tiers
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of

Kept = TypeVar("Kept")
Seen = tuple[Group, PathClasses]
"""A group as formulas see it, and the distances between its ranks."""


@dataclass(frozen=True)
class Span:
    """A tier of the group: how many of the tier's endpoints it takes, how many of its ranks stand behind each, and how they sit.

    ``at_once`` groups run on its switches at the same time: those that are interleaved, and one for each rank of an endpoint.
    ``seen`` keeps the groups that :func:`tier_group` made of it: every algorithm of every phase asks for them.
    """

    tier: Tier
    endpoints: int
    ranks_inside: int
    occupancy: Occupancy = PACKED
    at_once: int = 1
    seen: dict[tuple[Readings, bool, bool], Seen] = field(default_factory=dict, init=False, compare=False, repr=False)


@dataclass(frozen=True)
class PlacedGroup:
    """A group on its fabric, under one protocol.

    Args:
        placement: who is in it.
        spans: the tiers it takes more than one endpoint of, innermost first.
        overhead_s: paid once a call.
        local_copy_Bps: the rate at which a rank moves its own share; None where that takes no time.
        protocol: empty where the tiers list none; ``bare`` is the group before one.
    """

    fabric: Fabric
    placement: GroupPlacement
    spans: tuple[Span, ...]
    overhead_s: float
    local_copy_Bps: float | None = None
    protocol: str = ""
    bare: "PlacedGroup | None" = field(default=None, compare=False, repr=False)
    worked_out: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What ``make`` works out of the group, kept for whoever asks by the same key again."""
        if key not in self.worked_out:
            self.worked_out[key] = make()
        found: Kept = self.worked_out[key]
        return found

    @property
    def ranks(self) -> int:
        return self.placement.ranks

    @property
    def sizes(self) -> tuple[int, ...]:
        """Endpoints per spanned tier, innermost first; their product is the rank count."""
        return tuple(span.endpoints for span in self.spans)

    @property
    def nodes(self) -> int:
        """Domains of accelerators, where the innermost tier is one; else every rank is a node."""
        return self.ranks // self.ranks_per_node

    @property
    def ranks_per_node(self) -> int:
        first = self.spans[0]
        inside = capabilities_of(first.tier).joins == "accelerators" and not self.one_a_node
        return first.endpoints if inside else 1

    @property
    def one_a_node(self) -> bool:
        """Whether no domain of the innermost tier holds two of its ranks: the group lies on the network alone."""
        return self.spans[0].tier.name != self.fabric.tiers[0].name


def place(fabric: Fabric, group: AnyGroup = None, stride: int = 1, *, alone: bool = False) -> PlacedGroup:
    """Put a group on a fabric.

    Args:
        fabric: where.
        group: how many ranks, all that the stride leaves of the fabric when None; or the whole of who is in it.
        stride: from one member to the next, in ranks; the sibling groups in between run at the same time.
        alone: they are idle.

    Raises:
        ColltoolError: fewer than 2 ranks, more than the fabric has, a stride that leaves domains uneven, or a number that leaves
            one half full; the message names the nearest that fit.
    """
    who = group if isinstance(group, GroupSpec) else GroupSpec(group, stride, alone)
    plain = type(who.stride) is int and type(who.ranks) in (int, type(None))  # else it is refused in words
    return _kept(SameFabric(fabric), who) if plain else _placed(fabric, who)


class SameFabric:
    """A fabric as a key: the very same one, however equal others are."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    def __hash__(self) -> int:
        return id(self.fabric)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameFabric) and self.fabric is other.fabric


@lru_cache(maxsize=64)
def _kept(where: SameFabric, who: GroupSpec) -> PlacedGroup:
    return _placed(where.fabric, who)


def _placed(fabric: Fabric, who: GroupSpec) -> PlacedGroup:
    stops = fill_tiers(fabric, who)
    spans, inside, members = [], 1, 1
    for tier, stop in zip(fabric.tiers, stops, strict=True):
        if stop.members > 1:
            occupancy = Occupancy(stop.stride, _beside(tier, inside, members, who), who.alone)
            behind = members if who.alone or who.stride == 1 else inside
            at_once = -(-behind // _rails(tier, inside)) * (1 if who.alone else stop.stride)
            spans.append(Span(stop.tier, stop.members, members, occupancy, at_once))
        inside *= tier.endpoints
        members *= stop.members
    return PlacedGroup(fabric, _seats(who, members, stops), tuple(spans), fabric.launch_overhead)


def _seats(who: GroupSpec, ranks: int, stops: Sequence[TierShare]) -> GroupPlacement:
    axes = [(stop.tier.name, capabilities_of(stop.tier).part(stop.members, stop.stride) or ()) for stop in stops]
    slices = tuple((name, tuple(axis.size for axis in part)) for name, part in axes if part)
    return GroupPlacement(ranks, who.stride, tuple(stop.members for stop in stops), who.alone, slices, who.in_order)


def _beside(tier: Tier, inside: int, members: int, who: GroupSpec) -> int:
    if inside == members or not who.alone:
        return 1  # siblings that are at work keep their ports
    rails = _rails(tier, inside)
    used = min(members, rails // gcd(who.stride, rails))
    return max(1, inside // rails * used // members)


def _rails(tier: Tier, inside: int) -> int:
    kind = capabilities_of(tier)
    rails = kind.sizing.rails if kind.sizing is not None and len(kind.classes) > 1 else 1
    return 1 if inside % rails else rails


def tier_group(span: Span, readings: Readings, *, scale_out: bool, leaders: bool = False) -> Seen:
    """The group that one phase runs on: a tier alone. With ``leaders``, one rank of each endpoint takes part."""
    key = (readings, scale_out, leaders)
    if key not in span.seen:
        span.seen[key] = _tier_group(span, readings, scale_out, span.ranks_inside if leaders else 1)
    return span.seen[key]


def _tier_group(span: Span, readings: Readings, scale_out: bool, idle_nics: int) -> Seen:
    tier, kind = span.tier, capabilities_of(span.tier)
    reach = tier_paths(tier, span.endpoints, readings, idle_nics, span.occupancy)
    hardware = reach.in_switch
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
    )
    return group, reach


def flat_group(placed: PlacedGroup, readings: Readings) -> Seen:
    """The whole group seen flat: on its only tier, or over several."""
    return placed.once(("flat", readings), lambda: _flat_group(placed, readings))


def _flat_group(placed: PlacedGroup, readings: Readings) -> Seen:
    if len(placed.spans) == 1:
        span = placed.spans[0]
        return tier_group(span, readings, scale_out=placed.one_a_node)
    tiers = tuple((span.tier, span.occupancy) for span in placed.spans)
    lattice = any(capabilities_of(tier).axes for tier, _ in tiers)
    topology: Topology = "lattice_tiers" if lattice else "tiers"
    group = Group(
        ranks=placed.ranks,
        topology=topology,
        tree_beta=readings.tree_beta,
        posts_cost=all(tier.post is not None for tier, _ in tiers),
        one_port=readings.ports == "one",
    )
    return group, flat_paths(tiers, placed.ranks, readings)


def alone_on(tier: Tier, endpoints: int, inside: int, stride: int, *, scale_out: bool) -> Group:
    """The group that so many endpoints of a tier make, every ``stride``-th, each with so many ranks ``inside``."""
    return tier_group(Span(tier, endpoints, inside, Occupancy(stride)), Readings(), scale_out=scale_out)[0]
