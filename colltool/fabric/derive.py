"""What follows from a fabric: diameter, bisection, link and switch counts, and the sizing of fat-trees and rails.

Nothing here is priced. A tier whose endpoints are whole domains of R ranks exists R times in parallel, once for each position
inside a domain with its own port; those copies are called planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from colltool.errors import ColltoolError
from colltool.fabric.kind import Kind
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.sizing import FatTree, RailPods, fat_tree_for, rail_pods
from colltool.fabric.topology import kind_of


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
        fat_tree: for a Clos without counts of its own, the one that would join the same ports without oversubscription.
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
    kind, copies = kind_of(tier), planes * tier.ports
    sizing, notes = _sizing(kind, planes)
    return TierFacts(
        name=tier.name,
        topology=tier.topology,
        endpoints=tier.endpoints,
        planes=planes,
        ranks=tier.endpoints * planes,
        domains=domains,
        diameter_links=kind.diameter_links,
        bisection_Bps=kind.bisection_Bps * planes,
        neighbours=kind.neighbours,
        links=kind.links(copies) if sizing is None else copies * tier.endpoints + sizing.cables,
        switches=kind.switches(planes) if sizing is None else sizing.switches,
        sizing=sizing,
        fat_tree=fat_tree_for(copies * tier.endpoints) if sizing is None and kind.as_fat_tree else None,
        notes=(*_plane_notes(planes), *_rim_notes(kind), *notes),
    )


def _sizing(kind: Kind[Tier], planes: int) -> tuple[RailPods | None, tuple[str, ...]]:
    """The rails of a Clos that has a ``sizing`` block; a block that does not fit its tier is a note, not an error."""
    tier, block, levels = kind.tier, kind.sizing, kind.levels
    if block is None:
        return None, ()
    if len(kind.reached) > 2:
        return None, ("sizing covers two levels, and this tier has more",)
    if block.rails * block.nics_per_rail != planes * tier.ports:
        nics = block.rails * block.nics_per_rail
        return None, (f"sizing has {nics} NICs per endpoint, the tier {planes * tier.ports} ports",)
    ratio = levels[1].oversubscription if len(levels) > 1 else 1.0
    try:
        sizing = rail_pods(tier.endpoints, block.rails, block.nics_per_rail, block.radix, ratio)
    except ColltoolError as error:
        return None, (f"sizing: {error.what}; {error.fix}" if error.fix else f"sizing: {error.what}",)
    fits = sizing.down_ports // block.nics_per_rail
    if levels and levels[0].group != fits:
        told = f"a leaf has down-ports for {fits} endpoints, the level '{levels[0].name}' says {levels[0].group}"
        return sizing, (*sizing.notes, told)
    return sizing, sizing.notes


def _rim_notes(kind: Kind[Tier]) -> tuple[str, ...]:
    """On a mesh those on a face, an edge or a corner have fewer neighbours than those inside."""
    places = {0: 1}  # endpoints by their neighbours on the axes so far
    for axis in kind.axes:
        inside, ends = max(axis.size - 2, 0), min(axis.size, 2)
        on_axis = {2: axis.size} if axis.is_ring else {2: inside, 1: ends} if axis.size > 1 else {0: 1}
        found: dict[int, int] = {}
        for (met, many), (more, here) in product(places.items(), on_axis.items()):
            found[met + more] = found.get(met + more, 0) + many * here
        places = found
    counts = [f"{count} with {met}" for met, count in sorted(places.items(), reverse=True) if count]
    return (f"neighbours: {', '.join(counts)}",) if len(counts) > 1 else ()


def _plane_notes(planes: int) -> tuple[str, ...]:
    if planes == 1:
        return ()
    return (f"bisection and links count {planes} planes, one for each rank of an endpoint with its own port",)
