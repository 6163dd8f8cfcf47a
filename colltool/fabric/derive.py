"""What follows from a fabric: diameter, bisection, link and switch counts, and the sizing of fat-trees and rails.

Nothing here is priced. A tier whose endpoints are whole domains of R ranks exists R times in parallel, once for each position
inside a domain with its own port; those copies are called planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from colltool.errors import ColltoolError
from colltool.fabric.model import ClosTier, Fabric, FullMeshTier, LatticeTier, Level, StarTier, Tier
from colltool.fabric.sizing import FatTree, RailPods, fat_tree_for, rail_pods


@dataclass(frozen=True)
class TierFacts:
    """One tier of a fabric; ``links`` and ``switches`` are of one domain of it, all planes included.

    Attributes:
        endpoints: what the tier joins: ranks, or domains of the tier below.
        planes: ranks in one endpoint, so parallel copies of the tier.
        ranks: ranks of one domain, ``endpoints * planes``.
        domains: such domains in the fabric.
        diameter_links: links on the longest shortest path between two endpoints.
        bisection_Bps: bytes/s, one way, that cross the middle of a domain, all planes together.
        neighbours: endpoints or switches that one plane of an endpoint has a link to (an inner one, on a mesh).
        links: cables; without ``sizing`` the uplinks of a Clos count as links of the port's rate.
        switches: one for a star, however many chips share its ports; 0 where there are none, None when the
            file does not give the radix that decides.
    """

    name: str
    topology: str
    endpoints: int
    planes: int
    ranks: int
    domains: int
    diameter_links: int
    bisection_Bps: float
    neighbours: int
    links: int
    switches: int | None
    sizing: RailPods | None = None
    fat_tree: FatTree | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FabricFacts:
    """A fabric: its tiers, innermost first, and the totals over all domains; ``switches`` None when a tier's are."""

    name: str
    ranks: int
    tiers: tuple[TierFacts, ...]
    links: int
    switches: int | None


def fabric_facts(fabric: Fabric) -> FabricFacts:
    """The derived facts of every tier and their totals."""
    tiers, planes = [], 1
    for tier in fabric.tiers:
        tiers.append(tier_facts(tier, planes=planes, domains=fabric.ranks // (planes * tier.endpoints)))
        planes *= tier.endpoints
    links = sum(facts.links * facts.domains for facts in tiers)
    switches = [facts.switches * facts.domains for facts in tiers if facts.switches is not None]
    total = sum(switches) if len(switches) == len(tiers) else None
    return FabricFacts(fabric.name, fabric.ranks, tuple(tiers), links, total)


def tier_facts(tier: Tier, *, planes: int = 1, domains: int = 1) -> TierFacts:
    """The derived facts of one tier, whose endpoints hold ``planes`` ranks each and of which there are ``domains``."""
    sizing, notes = _sizing(tier, planes)
    return TierFacts(
        name=tier.name,
        topology=tier.topology,
        endpoints=tier.endpoints,
        planes=planes,
        ranks=tier.endpoints * planes,
        domains=domains,
        diameter_links=diameter_links(tier),
        bisection_Bps=bisection_Bps(tier) * planes,
        neighbours=neighbours(tier),
        links=_links(tier, planes, sizing),
        switches=_switches(tier, planes, sizing),
        sizing=sizing,
        fat_tree=_comparable_fat_tree(tier, planes, sizing),
        notes=(*_plane_notes(planes), *notes),
    )


def neighbours(tier: Tier) -> int:
    """Endpoints, or switches, that an endpoint has a link to; parallel ports count once.

    Star and Clos 1; full mesh N - 1; lattice Σ min(d_i - 1, 2), because d = 1 has no link, d = 2 one (direct and wraparound
    are the same), d >= 3 two. An endpoint on the rim of a mesh has fewer. Source: Collectives Explainer Series part 02 §1.
    """
    match tier:
        case LatticeTier():
            return sum(min(d - 1, 2) for d in tier.shape)
        case FullMeshTier():
            return tier.size - 1
        case StarTier() | ClosTier():
            return 1


def diameter_links(tier: Tier) -> int:
    """Links on the longest shortest path between two endpoints; 0 for a single endpoint.

    Torus Σ floor(d_i/2), mesh Σ (d_i - 1), full mesh 1, star 2, Clos 2 for every level that a pair of the tier can meet at.
    Source: Collectives Explainer Series part 02 appendix B.
    """
    if tier.endpoints == 1:
        return 0
    match tier:
        case LatticeTier(topology="torus"):
            return sum(d // 2 for d in tier.shape)
        case LatticeTier():
            return sum(d - 1 for d in tier.shape)
        case FullMeshTier():
            return 1
        case StarTier():
            return 2
        case ClosTier():
            return 2 * max(1, len(reached_levels(tier)))


def bisection_Bps(tier: Tier) -> float:
    """Bytes/s, one way, across the worst cut of one plane into two halves (floor and ceil of an odd number).

    Lattice: an axis is cut, N/d lines of 2 links on a torus axis of d >= 3, else of 1; the axis with the fewest links, which
    is the longest one (on a torus of threes and twos, one of two). Full mesh
    floor(N/2)·ceil(N/2)·BW. Star floor(N/2)·BW. Clos floor(N/2)·BW/s, with s the largest ratio of the boundaries between the
    halves: a ratio compares a boundary with the endpoints below it, so the tightest one holds and ratios do not multiply.
    All times the parallel ports. Source: Collectives Explainer Series part 02 §3.6 and §4.2 (lattices), part 03 §1 (Clos).
    """
    rate, half = tier.bandwidth * tier.ports, tier.endpoints // 2
    match tier:
        case LatticeTier():
            return rate * _cut_links(tier)
        case FullMeshTier():
            return rate * half * (tier.endpoints - half)
        case StarTier():
            return rate * half
        case ClosTier():
            return rate * half / max((level.oversubscription for level in reached_levels(tier)), default=1.0)


def reached_levels(tier: ClosTier) -> tuple[Level, ...]:
    """The levels that a pair of the tier's endpoints can meet at: up to the first that joins them all; () without levels."""
    levels = tier.levels or ()
    below = [level.group for level in levels if level.group < tier.size]
    return levels[: len(below) + 1]


def _cut_links(tier: LatticeTier) -> int:
    """Links across the middle of the axis where they are fewest."""
    wraps = tier.topology == "torus"
    return min((prod(tier.shape) // d * (2 if wraps and d > 2 else 1) for d in tier.shape if d > 1), default=0)


def _lattice_links(tier: LatticeTier) -> int:
    """Links of a lattice: per line of an axis d - 1, and one more for the wraparound of a torus axis of d >= 3."""
    wraps = tier.topology == "torus"
    return sum(prod(tier.shape) // d * (d if wraps and d > 2 else d - 1) for d in tier.shape)


def _links(tier: Tier, planes: int, sizing: RailPods | None) -> int:
    """Cables of one domain; without ``sizing`` the uplinks of a Clos are counted as links of the port's rate, N/s each level."""
    copies = planes * tier.ports
    match tier:
        case LatticeTier():
            return copies * _lattice_links(tier)
        case FullMeshTier():
            return copies * tier.size * (tier.size - 1) // 2
        case StarTier():
            return copies * tier.size
        case ClosTier() if sizing is not None:
            return copies * tier.size + sizing.cables
        case ClosTier():
            ports = copies * tier.size
            return ports + sum(ceil(ports / level.oversubscription) for level in reached_levels(tier)[1:])


def _switches(tier: Tier, planes: int, sizing: RailPods | None) -> int | None:
    match tier:
        case LatticeTier() | FullMeshTier():
            return 0
        case StarTier():
            return 1
        case ClosTier() if sizing is not None:
            return sizing.switches
        case ClosTier():
            return 1 if planes == 1 and len(reached_levels(tier)) < 2 else None


def _sizing(tier: Tier, planes: int) -> tuple[RailPods | None, tuple[str, ...]]:
    """The rails of a Clos that has a ``sizing`` block; a block that does not fit its tier is a note, not an error."""
    if not isinstance(tier, ClosTier) or tier.sizing is None:
        return None, ()
    block, levels = tier.sizing, tier.levels or ()
    if len(reached_levels(tier)) > 2:
        return None, ("sizing covers two levels, and this tier has more",)
    if block.rails * block.nics_per_rail != planes * tier.ports:
        nics = block.rails * block.nics_per_rail
        return None, (f"sizing has {nics} NICs per endpoint, the tier {planes * tier.ports} ports",)
    ratio = levels[1].oversubscription if len(levels) > 1 else 1.0
    try:
        sizing = rail_pods(tier.size, block.rails, block.nics_per_rail, block.radix, ratio)
    except ColltoolError as error:
        return None, (f"sizing: {error.what}; {error.fix}" if error.fix else f"sizing: {error.what}",)
    fits = sizing.down_ports // block.nics_per_rail
    if levels and levels[0].group != fits:
        told = f"a leaf has down-ports for {fits} endpoints, the level '{levels[0].name}' says {levels[0].group}"
        return sizing, (*sizing.notes, told)
    return sizing, sizing.notes


def _comparable_fat_tree(tier: Tier, planes: int, sizing: RailPods | None) -> FatTree | None:
    """For a Clos without counts of its own: the fat-tree that would join the same ports without oversubscription."""
    if not isinstance(tier, ClosTier) or sizing is not None or len(reached_levels(tier)) < 2:
        return None
    return fat_tree_for(tier.size * planes * tier.ports)


def _plane_notes(planes: int) -> tuple[str, ...]:
    if planes == 1:
        return ()
    return (f"bisection and links count {planes} planes, one for each rank of an endpoint with its own port",)
