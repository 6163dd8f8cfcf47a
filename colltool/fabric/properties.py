"""Facts that follow from a fabric: diameter, bisection, links and switches, the sizing of a Clos,
and the bill of all parts.

A tier whose endpoints are whole domains of R ranks exists R times in parallel, once for each
position inside a domain with its own port; those copies are called planes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.formatting import counted
from colltool.base.primitives import Primitive
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.library import PARTS, PartPrice, Prices
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.sizing.size_clos import LEVELS, ClosLevel, ClosPlan, FatTree, clos_plan, fat_tree_for
from colltool.sizing.size_direct import DirectLevel, DirectPlan
from colltool.sizing.wiring import Grouping, max_down


@dataclass(frozen=True)
class LevelFacts:
    """One level of a Clos and the oversubscription of the boundary below it.

    ``oversubscription``: bandwidth of all endpoints below over that of the uplinks that enter the
    level. ``uplinks``: downlinks of the switches below over their uplinks; the totals multiply
    these.
    """

    name: str
    group: int
    oversubscription: float
    uplinks: float


@dataclass(frozen=True)
class TierFacts:
    """One tier; ``links`` and ``switches`` are of one domain of it, all planes included.

    ``endpoints``: ranks, or domains of the tier below. ``planes``: ranks in one endpoint, so
    parallel copies of the tier.
    ``ranks``: of one domain. ``domains``: in the fabric. ``diameter_links``: on the longest
    shortest path between two endpoints.
    ``bisection_Bps``: bytes/s, one way, across the middle of a domain, all planes. ``neighbours``:
    endpoints or switches that one plane of an endpoint has a link to (an inner one, on a mesh).
    ``links``: cables; without ``sizing`` the uplinks of a Clos count as links of the port's rate.
    ``switches``: one for a star, however many chips share its ports; None when the file does not
    give the radix that decides. ``fat_tree``: for a Clos without counts of its own, the one that
    would join the same ports without oversubscription. ``misfits``: where ``sizing`` in the file
    disagrees with the rest of the tier; among the notes too.
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
    places = prod(tier.endpoints for tier in fabric.tiers)
    for tier in fabric.tiers:
        tiers.append(tier_facts(tier, planes=planes, domains=places // (planes * tier.endpoints)))
        planes *= tier.endpoints
    switches = [facts.switches * facts.domains for facts in tiers if facts.switches is not None]
    return FabricFacts(
        name=fabric.name,
        ranks=fabric.ranks,
        tiers=tuple(tiers),
        links=sum(facts.links * facts.domains for facts in tiers),
        switches=sum(switches) if len(switches) == len(tiers) else None,
    )


def tier_facts(tier: Tier, *, planes: int = 1, domains: int = 1) -> TierFacts:
    """Of a tier with ``planes`` ranks per endpoint, of which there are ``domains``."""
    kind, copies = capabilities_of(tier), planes * tier.ports
    below = [1.0, *(one.oversubscription for one in kind.classes)]
    levels = tuple(
        LevelFacts(one.name, one.group, one.oversubscription, one.oversubscription / under)
        for one, under in zip(kind.classes if kind.named else (), below, strict=False)
    )
    sizing, misfits = _sizing(kind, levels, planes)
    clos = (
        sizing is None
        and kind.joined_by == "switches"
        and kind.trunk_Bps is None is kind.planes
        and len(kind.reached) > 1
    )
    in_planes = tuple(
        [f"links, switches and bisection are those of {planes} ranks in each domain"]
        if tier.uneven
        else []
    )
    in_planes += (
        (f"bisection and links count {planes} planes, one per rank of an endpoint",)
        if planes > 1
        else ()
    )
    return TierFacts(
        name=tier.name,
        topology=tier.topology,
        endpoints=tier.endpoints,
        planes=planes,
        ranks=sum(tier.uneven) or tier.endpoints * planes,
        domains=domains,
        diameter_links=(
            kind.diameter_links
            if sizing is None or levels
            else kind.diameter_links * len(sizing.levels)
        ),
        bisection_Bps=kind.bisection_of(planes),
        neighbours=kind.neighbours,
        links=kind.links(copies) if sizing is None else sizing.ports + sizing.cables,
        switches=kind.switches(planes) if sizing is None else sizing.switches,
        sizing=sizing,
        fat_tree=fat_tree_for(copies * tier.endpoints) if clos else None,
        notes=(
            *in_planes,
            *_rim_notes(kind),
            *_cube_notes(kind),
            *filter(None, [kind.bisection_note]),
            *(sizing.notes if sizing else ()),
            *misfits,
        ),
        levels=levels,
        misfits=misfits,
    )


def _sizing(
    kind: TierCapabilities[Tier], levels: tuple[LevelFacts, ...], planes: int
) -> tuple[ClosPlan | None, tuple[str, ...]]:
    """The plan of a Clos that has a ``sizing`` block, and where the two disagree; that is a note,
    not an error."""
    tier, block, split = kind.tier, kind.sizing, kind.planes.count if kind.planes else 1
    if block is None:
        return None, ()
    nics, reached = block.rails * block.nics_per_rail, levels[: len(kind.reached)]
    if nics != planes * tier.ports:
        return None, (f"sizing has {nics} NICs per endpoint, the tier {planes * tier.ports} ports",)
    if len(reached) > len(LEVELS):
        return None, (f"sizing covers {len(LEVELS)} levels, and this tier has more",)
    # a leaf is bought with its uplinks, also where a group of this size needs no spine; without a
    # second level it has none
    hops = [max(one.uplinks, 1.0) for one in levels[1 : max(2, len(reached))]]
    inside = reached[1].group // reached[0].group if len(reached) == len(LEVELS) else None
    room = (max_down(hops[0], block.radix) if hops else block.radix) // block.nics_per_rail
    down = levels[0].group * block.nics_per_rail if levels else None
    local = (
        down is not None and room == 1 < levels[0].group
    )  # its NICs fill a leaf: one for each endpoint, whatever the level says
    try:
        plan = clos_plan(
            tier.endpoints,
            nics * split,
            block.radix,
            rails=block.rails * split,
            levels=len(hops) + 1 if levels else None,
            hops=hops,
            names=[one.name for one in levels] if len(levels) > len(hops) else LEVELS,
            wanted=(
                Grouping(leaf_down=block.nics_per_rail)
                if local
                else Grouping(leaf_down=down, leaves_in_pod=inside)
            ),
        )
    except ColltoolError as error:
        return None, (
            f"sizing: {error.what}; {error.fix}" if error.fix else f"sizing: {error.what}",
        )
    plan = replace(plan, split=split)
    if levels and levels[0].group != room:
        has = f"the level '{levels[0].name}' has {levels[0].group}"
        instead = (
            f": counted with a leaf for each; levels.{levels[0].name}.group=1 prices it so too"
            if local
            else ""
        )
        return plan, (
            (
                f"a leaf of {block.radix} ports has room for {counted(room, 'endpoint')},"
                f" {has}{instead}"
            ),
        )
    return plan, ()


def _rim_notes(kind: TierCapabilities[Tier]) -> tuple[str, ...]:
    """On a mesh endpoints on a face, an edge or a corner have fewer neighbours than those
    inside."""
    places = {0: 1}  # endpoints by their neighbours on the axes so far
    for axis in kind.axes:
        inside, ends = max(axis.size - 2, 0), min(axis.size, 2)
        on_axis = (
            {2: axis.size} if axis.closed else {2: inside, 1: ends} if axis.size > 1 else {0: 1}
        )
        found: dict[int, int] = {}
        for (met, many), (more, here) in product(places.items(), on_axis.items()):
            found[met + more] = found.get(met + more, 0) + many * here
        places = found
    counts = [f"{count} with {met}" for met, count in sorted(places.items(), reverse=True) if count]
    return (f"neighbours: {', '.join(counts)}",) if len(counts) > 1 else ()


def _cube_notes(kind: TierCapabilities[Tier]) -> tuple[str, ...]:
    """What may stand in for a failed cube. Source: Zu et al., "Resiliency at Scale: Managing
    Google's TPUv4", NSDI 2024."""
    tier, cube = kind.tier, kind.cube
    if not cube:
        return ()
    told = (
        f"{tier.endpoints // cube} cubes of {cube}: optical switches can put another in the place"
        " of a failed one"
    )
    if tier.max_size is None:
        return (told,)
    spare = (tier.max_size - tier.endpoints) // cube
    return (
        f"{told}; max_size has {f'room for {spare} more' if spare else 'no room for any other'}",
    )


HOURS_A_YEAR = 8766.0  # with leap years


@dataclass(frozen=True)
class BillLine:
    """So many of one part; None: not known, such as a count without a radix."""

    tier: str
    level: str
    part: str
    count: int | None
    price: float | None
    cost: float | None
    power_W: float | None


@dataclass(frozen=True)
class Cost:
    """What a network costs, in ``currency``; None: unknown.

    ``parts``: all that have a price. ``power_W``: all whose watts are given. ``total``: parts plus
    the energy of ``years``, if known.
    """

    currency: str
    parts: float | None
    power_W: float | None
    energy_per_year: float | None
    years: float | None
    total: float | None
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bill:
    """The parts of a network, level by level; no ``cost`` without prices, or where a priced part
    cannot be counted."""

    lines: tuple[BillLine, ...]
    cost: Cost | None
    notes: tuple[str, ...] = ()


class _Counted(NamedTuple):
    tier: str
    level: str
    switches: int | None
    cables: int
    nics: int = 0


def cost_of(fabric: Fabric) -> Cost | None:
    """What a fabric's network costs by its own ``prices``: of the ``tiers`` they name, else all but
    the innermost.

    None without prices of parts, or if one is of a part whose number is undecided (the switches of
    a Clos without ``sizing``).
    """
    return bill_of(fabric).cost if fabric.prices else None


def bill_of(fabric: Fabric) -> Bill:
    """The parts of the tiers that are bought by the piece."""
    prices, facts = fabric.prices, fabric_facts(fabric)
    named = (
        prices.tiers
        if prices and prices.tiers
        else [tier.name for tier in fabric.tiers[1:] or fabric.tiers]
    )
    counted: list[_Counted] = []
    for tier, known in zip(fabric.tiers, facts.tiers, strict=True):
        if tier.name in named:
            counted += _levels_of(tier, known)
    unknown = dict.fromkeys(one.tier for one in counted if one.switches is None)
    fix = "give the tier sizing: {rails: 8, nics_per_rail: 1, radix: 64}"
    return _bill(
        counted,
        prices,
        [f"{name}: switches are not counted without their radix; {fix}" for name in unknown],
    )


def bill_of_plan(plan: ClosPlan | DirectPlan, prices: Prices | None) -> Bill:
    levels = [one.name for one in plan.levels]
    elsewhere = [name for name in (prices.copper if prices else None) or () if name not in levels]
    notes = (
        [f"copper names {', '.join(elsewhere)}, the levels here are {', '.join(levels)}"]
        if elsewhere
        else []
    )
    return _bill(_stages("", plan, 1), prices, notes)


def _stages(tier: str, plan: ClosPlan | DirectPlan, domains: int) -> list[_Counted]:
    nics = (plan.ports // plan.split * domains, *(0 for _ in plan.levels[1:]))
    levels: Sequence[ClosLevel | DirectLevel] = plan.levels
    found = zip(levels, nics, strict=True)
    return [
        _Counted(tier, one.name, one.switches * domains, one.cables * domains, ports)
        for one, ports in found
    ]


def _levels_of(tier: Tier, facts: TierFacts) -> list[_Counted]:
    kind, links = capabilities_of(tier), facts.links * facts.domains
    ports = facts.planes * tier.ports * tier.endpoints * facts.domains
    if facts.sizing is not None:
        return _stages(tier.name, facts.sizing, facts.domains)
    if kind.joined_by != "switches":
        return [
            _Counted(
                tier.name,
                tier.name,
                (facts.switches or 0) * facts.domains,
                links,
                ports if kind.has_ports else 0,
            )
        ]
    if kind.trunk_Bps is not None:  # the NICs behind it are the tier's below
        return [_Counted(tier.name, "trunk", 0, tier.endpoints * facts.domains)]
    first, *above = kind.reached
    if facts.switches is not None:
        return [_Counted(tier.name, first.name, facts.switches * facts.domains, links, ports)]
    rising = [
        _Counted(tier.name, one.name, None, ceil(ports / one.oversubscription)) for one in above
    ]
    return [_Counted(tier.name, first.name, None, ports, ports), *rising]


def _bill(counted: Iterable[_Counted], prices: Prices | None, notes: list[str]) -> Bill:
    lines, copper = [], (prices.copper if prices else None) or ()
    for one in counted:
        optics = 0 if one.level in copper or one.tier in copper else 2 * one.cables
        counts = {"nic": one.nics, "cable": one.cables, "optic": optics, "switch": one.switches}
        for part, count in counts.items():
            if count != 0:
                each = (prices.of(part) if prices else None) or PartPrice()
                cost, power = (
                    None if count is None or of is None else count * of
                    for of in (each.price, each.draws)
                )
                lines.append(
                    BillLine(one.tier, one.level, part, count, each.price, cost=cost, power_W=power)
                )
    if prices and all(line.price is None and line.power_W is None for line in lines):
        notes.append("prices has none of the parts that are counted: switch, cable, optic, nic")
    return Bill(tuple(lines), _cost(lines, prices) if prices else None, tuple(notes))


def _cost(lines: Sequence[BillLine], prices: Prices) -> Cost | None:
    """The sums of what is known; None where nothing is, or a priced part is not counted."""
    priced, drawn = (
        [line for line in lines if line.price is not None],
        [one.power_W for one in lines if one.power_W is not None],
    )
    if not (priced or drawn) or any(line.count is None for line in priced):
        return None
    parts = sum(line.cost or 0.0 for line in priced) if priced else None
    power = sum(drawn) if drawn else None
    energy = (
        None if prices.power is None or power is None else power / 1e3 * HOURS_A_YEAR * prices.power
    )
    spent = None if energy is None or prices.years is None else energy * prices.years
    known = [one for one in (parts, spent) if one is not None]
    return Cost(
        currency=prices.currency,
        parts=parts,
        power_W=power,
        energy_per_year=energy,
        years=prices.years,
        total=sum(known) if known else None,
        unpriced=tuple(
            part
            for part in PARTS
            if any(line.part == part and line.price is None for line in lines)
        ),
    )


def basis_of(fabric: Fabric) -> str:
    """What a fabric's numbers rest on: ``measured``, ``as dgx-b200``, ``datasheet``, ``announced``
    or ``hypothetical``."""
    if fabric.hypothetical or fabric.announced:
        return "hypothetical" if fabric.hypothetical else "announced"
    if not any(tier.protocols_for(Primitive.ALL_REDUCE) for tier in fabric.tiers):
        return "datasheet"
    return f"as {fabric.measured_on}" if fabric.measured_on else "measured"
