"""Bill of materials of a fabric, or of a sized Clos: parts, money, watts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from colltool.fabric.model import Fabric, Tier
from colltool.fabric.prices import PARTS, PartPrice, Prices
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.sizing.records import ClosPlan

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

    ``parts``: all that have a price. ``power_W``: all whose watts are given. ``total``: parts plus the energy of ``years``, if
    known.
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
    """The parts of a network, level by level; no ``cost`` without prices, or where a priced part cannot be counted."""

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
    """What a fabric's network costs by its own ``prices``: of the ``tiers`` they name, else all but the innermost.

    None without prices of parts, or if one is of a part whose number is undecided (the switches of a Clos without ``sizing``).
    """
    return bill_of(fabric).cost if fabric.prices else None


def bill_of(fabric: Fabric) -> Bill:
    """The parts of the tiers that are bought by the piece."""
    prices, facts = fabric.prices, fabric_facts(fabric)
    named = prices.tiers if prices and prices.tiers else [tier.name for tier in fabric.tiers[1:] or fabric.tiers]
    counted = [
        one
        for tier, known in zip(fabric.tiers, facts.tiers, strict=True)
        if tier.name in named
        for one in _levels_of(tier, known)
    ]
    unknown = dict.fromkeys(one.tier for one in counted if one.switches is None)
    fix = "give the tier sizing: {rails: 8, nics_per_rail: 1, radix: 64}"
    return _bill(counted, prices, [f"{name}: switches are not counted without their radix; {fix}" for name in unknown])


def bill_of_plan(plan: ClosPlan, prices: Prices | None) -> Bill:
    levels = [one.name for one in plan.levels]
    elsewhere = [name for name in (prices.copper if prices else None) or () if name not in levels]
    notes = [f"copper names {', '.join(elsewhere)}, the levels here are {', '.join(levels)}"] if elsewhere else []
    return _bill(_stages("", plan, 1), prices, notes)


def _stages(tier: str, plan: ClosPlan, domains: int) -> Iterator[_Counted]:
    for index, one in enumerate(plan.levels):
        nics = 0 if index else plan.ports * domains
        yield _Counted(tier, one.name, one.switches * domains, one.cables * domains, nics)


def _levels_of(tier: Tier, facts: TierFacts) -> Iterable[_Counted]:
    kind = capabilities_of(tier)
    ports = facts.planes * tier.ports * tier.endpoints * facts.domains
    if facts.sizing is not None:
        return _stages(tier.name, facts.sizing, facts.domains)
    if kind.joined_by != "switches":
        return [_Counted(tier.name, tier.name, 0, facts.links * facts.domains)]
    if facts.switches is not None:
        return [_Counted(tier.name, kind.reached[0].name, facts.switches * facts.domains, facts.links * facts.domains, ports)]
    first, *above = kind.reached
    rising = [_Counted(tier.name, one.name, None, ceil(ports / one.oversubscription)) for one in above]
    return [_Counted(tier.name, first.name, None, ports, ports), *rising]


def _bill(counted: Iterable[_Counted], prices: Prices | None, notes: list[str]) -> Bill:
    lines = [line for one in counted for line in _lines(one, prices)]
    if prices and all(line.price is None and line.power_W is None for line in lines):
        notes.append("prices has none of the parts that are counted: switch, cable, optic, nic")
    return Bill(tuple(lines), _cost(lines, prices) if prices else None, tuple(notes))


def _lines(one: _Counted, prices: Prices | None) -> Iterator[BillLine]:
    copper = (prices.copper if prices else None) or ()
    optics = 0 if one.level in copper or one.tier in copper else 2 * one.cables
    counts = {"nic": one.nics, "cable": one.cables, "optic": optics, "switch": one.switches}
    for part, count in counts.items():
        if count == 0:
            continue
        each = (prices.of(part) if prices else None) or PartPrice()
        yield BillLine(
            tier=one.tier,
            level=one.level,
            part=part,
            count=count,
            price=each.price,
            cost=_times(count, each.price),
            power_W=_times(count, each.draws),
        )


def _times(count: int | None, each: float | None) -> float | None:
    return None if count is None or each is None else count * each


def _cost(lines: Sequence[BillLine], prices: Prices) -> Cost | None:
    """The sums of what is known; None where nothing is, or a priced part is not counted."""
    priced, drawn = [line for line in lines if line.price is not None], [one.power_W for one in lines if one.power_W is not None]
    if not (priced or drawn) or any(line.count is None for line in priced):
        return None
    parts = sum(line.cost or 0.0 for line in priced) if priced else None
    power = sum(drawn) if drawn else None
    energy = None if prices.power is None or power is None else power / 1e3 * HOURS_A_YEAR * prices.power
    years = prices.years
    known = [one for one in (parts, energy * years if energy is not None and years is not None else None) if one is not None]
    return Cost(
        currency=prices.currency,
        parts=parts,
        power_W=power,
        energy_per_year=energy,
        years=years,
        total=sum(known) if known else None,
        unpriced=tuple(part for part in PARTS if any(line.part == part and line.price is None for line in lines)),
    )
