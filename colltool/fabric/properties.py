"""Facts that follow from a fabric: diameter, bisection, links and switches, and the sizing of a Clos.

A tier whose endpoints are whole domains of R ranks exists R times in parallel, once for each position inside a domain with its
own port; those copies are called planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from colltool.base.errors import ColltoolError
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.sizing.records import ClosPlan, FatTree
from colltool.sizing.size_clos import LEVELS, clos_plan, fat_tree_for
from colltool.sizing.wiring import Grouping, max_down


@dataclass(frozen=True)
class LevelFacts:
    """One level of a Clos and the oversubscription of the boundary below it.

    ``oversubscription``: bandwidth of all endpoints below over that of the uplinks that enter the level. ``uplinks``: downlinks
    of the switches below over their uplinks; the totals multiply these.
    """

    name: str
    group: int
    oversubscription: float
    uplinks: float


@dataclass(frozen=True)
class TierFacts:
    """One tier; ``links`` and ``switches`` are of one domain of it, all planes included.

    ``endpoints``: ranks, or domains of the tier below. ``planes``: ranks in one endpoint, so parallel copies of the tier.
    ``ranks``: of one domain. ``domains``: in the fabric. ``diameter_links``: on the longest shortest path between two endpoints.
    ``bisection_Bps``: bytes/s, one way, across the middle of a domain, all planes. ``neighbours``: endpoints or switches that one
    plane of an endpoint has a link to (an inner one, on a mesh). ``links``: cables; without ``sizing`` the uplinks of a Clos
    count as links of the port's rate. ``switches``: one for a star, however many chips share its ports; None when the file does
    not give the radix that decides. ``fat_tree``: for a Clos without counts of its own, the one that would join the same ports
    without oversubscription. ``misfits``: where ``sizing`` in the file disagrees with the rest of the tier; among the notes too.
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
    sizing: ClosPlan | None = None
    fat_tree: FatTree | None = None
    notes: tuple[str, ...] = ()
    levels: tuple[LevelFacts, ...] = ()
    misfits: tuple[str, ...] = ()


@dataclass(frozen=True)
class FabricFacts:
    """Tiers innermost first, and totals over all domains; ``switches`` None when a tier's are."""

    name: str
    ranks: int
    tiers: tuple[TierFacts, ...]
    links: int
    switches: int | None


def fabric_facts(fabric: Fabric) -> FabricFacts:
    tiers, planes = [], 1
    for tier in fabric.tiers:
        tiers.append(tier_facts(tier, planes=planes, domains=fabric.ranks // (planes * tier.endpoints)))
        planes *= tier.endpoints
    links = sum(facts.links * facts.domains for facts in tiers)
    switches = [facts.switches * facts.domains for facts in tiers if facts.switches is not None]
    total = sum(switches) if len(switches) == len(tiers) else None
    return FabricFacts(fabric.name, fabric.ranks, tuple(tiers), links, total)


def tier_facts(tier: Tier, *, planes: int = 1, domains: int = 1) -> TierFacts:
    """Of a tier with ``planes`` ranks per endpoint, of which there are ``domains``."""
    kind, copies = capabilities_of(tier), planes * tier.ports
    sizing, misfits = _sizing(kind, planes)
    in_planes = (f"bisection and links count {planes} planes, one per rank of an endpoint",) if planes > 1 else ()
    return TierFacts(
        name=tier.name,
        topology=tier.topology,
        endpoints=tier.endpoints,
        planes=planes,
        ranks=tier.endpoints * planes,
        domains=domains,
        diameter_links=kind.diameter_links if sizing is None or kind.levels else kind.diameter_links * len(sizing.levels),
        bisection_Bps=kind.bisection_Bps * planes,
        neighbours=kind.neighbours,
        links=kind.links(copies) if sizing is None else copies * tier.endpoints + sizing.cables,
        switches=kind.switches(planes) if sizing is None else sizing.switches,
        sizing=sizing,
        fat_tree=fat_tree_for(copies * tier.endpoints) if sizing is None and kind.as_fat_tree else None,
        notes=(*in_planes, *_rim_notes(kind), *(sizing.notes if sizing else ()), *misfits),
        levels=_levels(kind),
        misfits=misfits,
    )


def _levels(kind: TierCapabilities[Tier]) -> tuple[LevelFacts, ...]:
    below = [1.0, *(one.oversubscription for one in kind.classes)]
    return tuple(
        LevelFacts(one.name, one.group, one.oversubscription, one.oversubscription / under)
        for one, under in zip(kind.classes if kind.levels else (), below, strict=False)
    )


def _sizing(kind: TierCapabilities[Tier], planes: int) -> tuple[ClosPlan | None, tuple[str, ...]]:
    """The plan of a Clos that has a ``sizing`` block, and where the two disagree; that is a note, not an error."""
    tier, block, levels = kind.tier, kind.sizing, _levels(kind)
    if block is None:
        return None, ()
    nics, reached = block.rails * block.nics_per_rail, levels[: len(kind.reached)]
    if nics != planes * tier.ports:
        return None, (f"sizing has {nics} NICs per endpoint, the tier {planes * tier.ports} ports",)
    if len(reached) > len(LEVELS):
        return None, (f"sizing covers {len(LEVELS)} levels, and this tier has more",)
    # a leaf is bought with its uplinks, also where a group of this size needs no spine; without a second level it has none
    hops = [max(one.uplinks, 1.0) for one in levels[1 : max(2, len(reached))]]
    inside = reached[1].group // reached[0].group if len(reached) == len(LEVELS) else None
    down = levels[0].group * block.nics_per_rail if levels else None
    try:
        plan = clos_plan(
            tier.endpoints,
            nics,
            block.radix,
            rails=block.rails,
            levels=len(hops) + 1 if levels else None,
            hops=hops,
            names=[one.name for one in levels] if len(levels) > len(hops) else LEVELS,
            wanted=Grouping(leaf_down=down, leaves_in_pod=inside),
        )
    except ColltoolError as error:
        return None, (f"sizing: {error.what}; {error.fix}" if error.fix else f"sizing: {error.what}",)
    room = (max_down(hops[0], block.radix) if hops else block.radix) // block.nics_per_rail
    if levels and levels[0].group != room:
        has = f"the level '{levels[0].name}' has {levels[0].group}"
        return plan, (f"a leaf of {block.radix} ports has room for {room} endpoints, {has}",)
    return plan, ()


def _rim_notes(kind: TierCapabilities[Tier]) -> tuple[str, ...]:
    """On a mesh endpoints on a face, an edge or a corner have fewer neighbours than those inside."""
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
