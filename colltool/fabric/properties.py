"""Facts that follow from a fabric: diameter, bisection, links and switches, the sizing of a Clos:
:func:`fabric_facts`. What the parts cost: :mod:`colltool.fabric.bill`.

A tier whose endpoints are whole domains of R ranks exists R times in parallel, once for each
position inside a domain with its own port; those copies are called planes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from colltool.base.errors import ColltoolError
from colltool.base.formatting import counted
from colltool.base.primitives import Primitive
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.fat_tree import FatTree, fat_tree_for
from colltool.network.sizing.size_clos import LEVELS, ClosPlan, clos_plan
from colltool.network.sizing.wiring import Grouping, max_down


@dataclass(frozen=True)
class LevelFacts:
    """One level of a Clos and the oversubscription of the boundary below it."""

    name: str
    group: int  # endpoints under one switch or pod
    oversubscription: float  # bandwidth of all endpoints below over that of the uplinks that enter
    # downlinks of the switches below over their uplinks; the product up to here is the total
    uplinks: float


@dataclass(frozen=True)
class TierFacts:
    """One tier; ``links`` and ``switches`` are of one domain of it, all planes included."""

    name: str
    topology: str
    endpoints: int  # ranks, or domains of the tier below
    planes: int  # ranks in one endpoint, so parallel copies of the tier
    ranks: int  # of one domain
    domains: int  # in the fabric
    diameter_links: int  # on the longest shortest path between two endpoints
    bisection_Bps: float  # one way, across the middle of a domain, all planes
    # endpoints or switches that one plane of an endpoint has a link to (an inner one, on a mesh)
    neighbours: int
    links: int  # cables; without ``sizing`` the uplinks of a Clos count as links of the port's rate
    # one for a star, however many chips share its ports; None without the radix that decides
    switches: int | None
    sizing: ClosPlan | None = None
    # for a Clos without counts of its own: what would join the same ports without oversubscription
    fat_tree: FatTree | None = None
    notes: tuple[str, ...] = ()
    levels: tuple[LevelFacts, ...] = ()
    misfits: tuple[str, ...] = ()  # where ``sizing`` disagrees with the tier; among the notes too


@dataclass(frozen=True)
class FabricFacts:
    """Tiers innermost first, and totals over all domains; ``switches`` None when a tier's are."""

    name: str
    ranks: int
    tiers: tuple[TierFacts, ...]
    links: int
    switches: int | None


def fabric_facts(fabric: Fabric) -> FabricFacts:
    """Return the facts of a fabric, tier by tier and in all."""
    tiers = []
    # ranks in an endpoint of the tier so far
    planes = 1
    places = prod(tier.endpoints for tier in fabric.tiers)
    for tier in fabric.tiers:
        tiers.append(tier_facts(tier, planes=planes, domains=places // (planes * tier.endpoints)))
        planes *= tier.endpoints
    links = 0
    # None as soon as those of one tier are not known
    switches: int | None = 0
    for facts in tiers:
        links += facts.links * facts.domains
        if switches is not None and facts.switches is not None:
            switches += facts.switches * facts.domains
        else:
            switches = None
    return FabricFacts(fabric.name, fabric.ranks, tuple(tiers), links, switches)


def tier_facts(tier: Tier, *, planes: int = 1, domains: int = 1) -> TierFacts:
    """Return the facts of a tier with ``planes`` ranks per endpoint that exists ``domains`` times."""
    capabilities = capabilities_of(tier)
    # a network for each port of each rank in an endpoint
    copies = planes * tier.ports
    levels = tuple(_level_facts(capabilities))
    sizing, misfits = _sizing(capabilities, levels, planes)
    diameter = capabilities.diameter_links
    fat_tree = None
    if sizing is None:
        links = capabilities.links(copies)
        switches = capabilities.switches(planes)
        is_plain = capabilities.trunk_Bps is None and capabilities.planes is None
        if capabilities.joined_by == "switches" and is_plain and len(capabilities.reached) > 1:
            fat_tree = fat_tree_for(copies * tier.endpoints)
    else:
        links = sizing.ports + sizing.cables
        switches = sizing.switches
        # as long as the plan is high, where the tier does not say
        if not levels:
            diameter *= len(sizing.levels)
    return TierFacts(
        name=tier.name,
        topology=tier.topology,
        endpoints=tier.endpoints,
        planes=planes,
        ranks=sum(tier.uneven) or tier.endpoints * planes,
        domains=domains,
        diameter_links=diameter,
        bisection_Bps=capabilities.bisection_of(planes),
        neighbours=capabilities.neighbours,
        links=links,
        switches=switches,
        sizing=sizing,
        fat_tree=fat_tree,
        notes=(*_notes(capabilities, planes), *(sizing.notes if sizing else ()), *misfits),
        levels=levels,
        misfits=misfits,
    )


def _level_facts(capabilities: TierCapabilities[Tier]) -> Iterator[LevelFacts]:
    """The levels with names of their own, bottom up; none of a tier that is one class."""
    below = 1.0
    for level in capabilities.classes if capabilities.named else ():
        ratio = level.oversubscription
        yield LevelFacts(level.name, level.group, ratio, ratio / below)
        below = ratio


def _notes(capabilities: TierCapabilities[Tier], planes: int) -> Iterator[str]:
    """Remarks on what the counts of a tier include."""
    if capabilities.tier.uneven:
        yield f"links, switches and bisection are those of {planes} ranks in each domain"
    if planes > 1:
        yield f"bisection and links count {planes} planes, one per rank of an endpoint"
    yield from _rim_notes(capabilities)
    yield from _cube_notes(capabilities)
    if capabilities.bisection_note:
        yield capabilities.bisection_note


def _sizing(
    capabilities: TierCapabilities[Tier], levels: tuple[LevelFacts, ...], planes: int
) -> tuple[ClosPlan | None, tuple[str, ...]]:
    """The plan of a Clos that has a ``sizing`` block, and notes on where the two disagree. None without a
    block, and where the block cannot be planned: then the notes say why.

    ``levels``: of the tier, bottom up; empty without any.
    """
    tier = capabilities.tier
    block = capabilities.sizing
    if block is None:
        return None, ()
    # of an endpoint
    nics = block.rails * block.nics_per_rail
    reached = levels[: len(capabilities.reached)]
    if nics != planes * tier.ports:
        return None, (f"sizing has {nics} NICs per endpoint, the tier {planes * tier.ports} ports",)
    if len(reached) > len(LEVELS):
        return None, (f"sizing covers {len(LEVELS)} levels, and this tier has more",)
    # Downlinks over uplinks of each hop that is built. A leaf has its uplinks even if a group of this
    # size needs no spine; without a second level it has none.
    hops = [max(level.uplinks, 1.0) for level in levels[1 : max(2, len(reached))]]
    down = max_down(hops[0], block.radix) if hops else block.radix
    # endpoints under one leaf: one of 64 ports at 1:1 has 32 down, 16 endpoints with 2 NICs each
    room = down // block.nics_per_rail
    # the NICs of one endpoint fill a leaf: a leaf for each endpoint, whatever group the level states
    leaf_per_endpoint = bool(levels) and room == 1 < levels[0].group
    # how many ports a leaf has down, and leaves a pod, as the tier's levels have it; else left open
    grouping = Grouping()
    if leaf_per_endpoint:
        grouping = Grouping(leaf_down=block.nics_per_rail)
    elif levels:
        grouping = Grouping(leaf_down=levels[0].group * block.nics_per_rail)
        if len(reached) == len(LEVELS):
            grouping = grouping._replace(leaves_in_pod=reached[1].group // reached[0].group)
    names: Sequence[str] = LEVELS
    if len(levels) > len(hops):
        names = [level.name for level in levels]
    # planes of each NIC, which are planned as rails of their own
    split = capabilities.plane_count
    try:
        plan = clos_plan(
            tier.endpoints,
            nics * split,
            block.radix,
            rails=block.rails * split,
            levels=len(hops) + 1 if levels else None,
            hops=hops,
            names=names,
            wanted=grouping,
        )
    except ColltoolError as error:
        return None, (f"sizing: {'; '.join(filter(None, (error.what, error.fix)))}",)
    # the tier's leaf may have another number of endpoints than one of this radix has room for
    misfits: tuple[str, ...] = ()
    if levels and levels[0].group != room:
        leaf = levels[0]
        misfit = (
            f"a leaf of {block.radix} ports has room for {counted(room, 'endpoint')}, the level"
            f" '{leaf.name}' has {leaf.group}"
        )
        if leaf_per_endpoint:
            misfit += f": counted with a leaf for each; levels.{leaf.name}.group=1 prices it so too"
        misfits = (misfit,)
    return replace(plan, split=split), misfits


def _rim_notes(capabilities: TierCapabilities[Tier]) -> Iterator[str]:
    """A note on how many endpoints of a mesh have how many neighbours, as those on a face, an edge or a
    corner have fewer; none where all are alike. Of 3x3, one has 4, four have 3, and the four corners 2."""
    # Endpoints by their neighbours on the axes so far: of the first 3, one has 2 and two have 1.
    endpoints_with = {0: 1}
    for axis in capabilities.axes:
        # places along the axis by their neighbours on it
        if axis.closed:
            places_with = {2: axis.size}
        elif axis.size == 1:
            places_with = {0: 1}
        else:
            places_with = {2: axis.size - 2, 1: 2}
        on_more_axes: Counter[int] = Counter()
        for neighbours, endpoints in endpoints_with.items():
            for more, places in places_with.items():
                on_more_axes[neighbours + more] += endpoints * places
        endpoints_with = on_more_axes
    descending = sorted(endpoints_with.items(), reverse=True)
    counts = [f"{count} with {neighbours}" for neighbours, count in descending if count]
    if len(counts) > 1:
        yield f"neighbours: {', '.join(counts)}"


def _cube_notes(capabilities: TierCapabilities[Tier]) -> Iterator[str]:
    """A note on what can replace a failed cube; none without cubes. Source: Zu et al., "Resiliency at
    Scale: Managing Google's TPUv4", NSDI 2024."""
    tier = capabilities.tier
    cube = capabilities.cube
    if not cube:
        return
    note = (
        f"{tier.endpoints // cube} cubes of {cube}: optical switches can put another in the place"
        " of a failed one"
    )
    if tier.max_size is not None:
        spare = (tier.max_size - tier.endpoints) // cube
        spare_text = f"room for {spare} more" if spare else "no room for any other"
        note += f"; max_size has {spare_text}"
    yield note


def basis_of(fabric: Fabric) -> str:
    """Return what a fabric's numbers are based on: ``hypothetical`` or ``announced`` hardware, a
    ``datasheet`` (no library was measured for all-reduce on any tier), those of another machine (``as
    dgx-b200``), or ``measured``."""
    if fabric.hypothetical:
        return "hypothetical"
    if fabric.announced:
        return "announced"
    if not any(tier.protocols_for(Primitive.ALL_REDUCE) for tier in fabric.tiers):
        return "datasheet"
    if fabric.measured_on:
        return f"as {fabric.measured_on}"
    return "measured"
