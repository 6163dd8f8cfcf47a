"""Which tiers a group of ranks spans: it fills them innermost first, in whole domains."""

from dataclasses import dataclass, field

from colltool.algorithms.group import Group, Topology
from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import kind_of
from colltool.pricing.distances import Reach, flat_reach, tier_reach
from colltool.pricing.readings import Readings
from colltool.primitives import Primitive
from colltool.units import parse_count

Seen = tuple[Group, Reach]
"""A group as formulas see it, and the distances between its ranks."""


@dataclass(frozen=True)
class Span:
    """A tier of the group: how many of the tier's endpoints it takes, and how many ranks stand behind each.

    ``seen`` keeps the groups that :func:`tier_group` made of it: every algorithm of every phase asks for them.
    """

    tier: Tier
    endpoints: int
    ranks_inside: int
    seen: dict[tuple[Readings, bool, bool], Seen] = field(default_factory=dict, init=False, compare=False, repr=False)


@dataclass(frozen=True)
class Placed:
    """A group on its fabric, under one protocol.

    ``spans`` are the tiers it takes more than one endpoint of, innermost first. ``overhead_s`` is paid once a call;
    ``local_copy_Bps`` is the rate at which a rank moves its own share, None where that takes no time. ``protocol`` is empty
    where the tiers list none. ``under`` keeps what :func:`colltool.pricing.protocols.under_protocols` made of it, ``seen`` the
    group that :func:`flat_group` made.
    """

    fabric: Fabric
    ranks: int
    spans: tuple[Span, ...]
    overhead_s: float
    local_copy_Bps: float | None = None
    protocol: str = ""
    under: dict[Primitive, tuple["Placed", ...]] = field(default_factory=dict, init=False, compare=False, repr=False)
    seen: dict[Readings, Seen] = field(default_factory=dict, init=False, compare=False, repr=False)

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
        """Ranks of each node."""
        first = self.spans[0]
        inside = kind_of(first.tier).joins == "accelerators" and first.tier.name == self.fabric.tiers[0].name
        return first.endpoints if inside else 1


def place(fabric: Fabric, ranks: int | None = None) -> Placed:
    """Put a group on a fabric.

    Args:
        fabric: where.
        ranks: how many; all of the fabric when None.

    Raises:
        ColltoolError: fewer than 2, more than the fabric has, or a number that leaves a domain half full; the message names
            the nearest numbers that fit.
    """
    count = fabric.ranks if ranks is None else parse_count(ranks, "ranks")
    if count < 2:
        raise ColltoolError(
            f"a collective needs at least 2 ranks, got {count}", argument="ranks", fix=f"take 2 to {fabric.ranks}"
        )
    if count > fabric.ranks:
        what = f"{count} ranks do not fit: {fabric.name} has {fabric.ranks}"
        raise ColltoolError(what, argument="ranks", fix=f"take at most {fabric.ranks}")
    spans = _spans(fabric, count)
    if spans is None:
        raise _does_not_fit(fabric, count)
    return Placed(fabric, count, spans, fabric.launch_overhead)


def _spans(fabric: Fabric, ranks: int) -> tuple[Span, ...] | None:
    """The tiers of a group, or None where it leaves a domain or a lattice axis half full."""
    spans, inside = [], 1
    for tier in fabric.tiers:
        if ranks % inside:
            return None
        endpoints = min(tier.endpoints, ranks // inside)
        if ranks > inside * tier.endpoints:
            endpoints = tier.endpoints
        if kind_of(tier).part(endpoints) is None:
            return None
        if endpoints > 1:
            spans.append(Span(tier, endpoints, inside))
        inside *= tier.endpoints
        if ranks <= inside:
            break
    return tuple(spans)


def count_within(fabric: Fabric, most: int) -> int | None:
    """The largest number of ranks up to ``most`` that fills whole domains; None where none does."""
    return next((n for n in range(min(most, fabric.ranks), 1, -1) if _spans(fabric, n) is not None), None)


def _does_not_fit(fabric: Fabric, ranks: int) -> ColltoolError:
    below = count_within(fabric, ranks - 1)
    above = next((n for n in range(ranks + 1, fabric.ranks + 1) if _spans(fabric, n) is not None), None)
    near = " and ".join(str(n) for n in (below, above) if n is not None)
    shape = ", ".join(f"{tier.name} {kind_of(tier).extent}" for tier in fabric.tiers)
    what = f"{ranks} ranks leave a domain half full on {fabric.name} ({shape})"
    return ColltoolError(what, argument="ranks", fix=f"the nearest sizes that fill whole domains are {near}")


def tier_group(span: Span, readings: Readings, *, scale_out: bool, leaders: bool = False) -> Seen:
    """The group that one phase runs on: a tier alone. With ``leaders``, one rank of each endpoint takes part."""
    key = (readings, scale_out, leaders)
    if key not in span.seen:
        span.seen[key] = _tier_group(span, readings, scale_out, span.ranks_inside if leaders else 1)
    return span.seen[key]


def _tier_group(span: Span, readings: Readings, scale_out: bool, idle_nics: int) -> Seen:
    tier, kind = span.tier, kind_of(span.tier)
    reach = tier_reach(tier, span.endpoints, readings, idle_nics)
    group = Group(
        ranks=span.endpoints,
        topology=tier.topology,
        axes=kind.part(span.endpoints) or (),
        scale_out=scale_out or kind.joins == "hosts",
        switch=kind.operations,
        switch_levels=reach.in_switch.levels if reach.in_switch else 1,
        tree_beta=readings.tree_beta,
    )
    return group, reach


def flat_group(placed: Placed, readings: Readings) -> Seen:
    """The whole group seen flat: on its only tier, or over several."""
    if readings not in placed.seen:
        placed.seen[readings] = _flat_group(placed, readings)
    return placed.seen[readings]


def _flat_group(placed: Placed, readings: Readings) -> Seen:
    if len(placed.spans) == 1:
        span = placed.spans[0]
        return tier_group(span, readings, scale_out=span.ranks_inside == 1 and span.tier.name != placed.fabric.tiers[0].name)
    tiers = tuple(span.tier for span in placed.spans)
    lattice = any(kind_of(tier).axes for tier in tiers)
    topology: Topology = "lattice_tiers" if lattice else "tiers"
    return Group(placed.ranks, topology, tree_beta=readings.tree_beta), flat_reach(tiers, placed.ranks, readings)
