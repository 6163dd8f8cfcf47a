"""What a network is made of, what that costs and draws: the bill of a fabric, or of a Clos that was sized."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from colltool.fabric.derive import TierFacts, fabric_facts
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.plans import ClosPlan
from colltool.fabric.prices import Prices
from colltool.fabric.topology import kind_of

HOURS_A_YEAR = 8766.0  # with leap years


@dataclass(frozen=True)
class BillLine:
    """So many of one part; ``count``, ``cost`` and ``power_W`` None where what decides is not given."""

    tier: str
    level: str
    part: str
    count: int | None
    price: float | None
    cost: float | None
    power_W: float | None


@dataclass(frozen=True)
class Cost:
    """What a network costs.

    Attributes:
        currency: of all money here.
        parts: price of all parts.
        power_W: what they draw.
        energy_per_year: money for that energy in a year; None where the file gives no ``power``.
        years: as the file gives them; None where it does not.
        total: the parts, and the energy of those years where both are known.
    """

    currency: str
    parts: float
    power_W: float
    energy_per_year: float | None
    years: float | None
    total: float


@dataclass(frozen=True)
class Bill:
    """The parts of a network, level by level; ``cost`` None without prices, or where a priced part cannot be counted."""

    lines: tuple[BillLine, ...]
    cost: Cost | None
    notes: tuple[str, ...] = ()


class _Counted(NamedTuple):
    """One level of switches, with the cables that enter it and the NICs at their ends."""

    tier: str
    level: str
    switches: int | None
    cables: int
    nics: int = 0


def cost_of(fabric: Fabric) -> Cost | None:
    """What the network of a fabric costs by its own ``prices``, to be held against a step time.

    Args:
        fabric: any; never changed, and no time depends on its prices.

    Returns:
        Money in the file's currency and watts, the same for every group and every job on the fabric. Counted are the file's
        ``tiers``, else all but the innermost, or the only one. None where the file gives no prices of parts, or prices one whose
        number nothing decides (the switches of a Clos without ``sizing``).
    """
    return bill_of(fabric).cost if fabric.prices else None


def bill_of(fabric: Fabric) -> Bill:
    """The parts of a fabric's tiers that are bought by the piece."""
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
    """The parts of a Clos that was sized."""
    levels = [one.name for one in plan.levels]
    elsewhere = [name for name in (prices.copper if prices else None) or () if name not in levels]
    notes = [f"copper names {', '.join(elsewhere)}, the levels here are {', '.join(levels)}"] if elsewhere else []
    return _bill(_stages("", plan, 1), prices, notes)


def _stages(tier: str, plan: ClosPlan, domains: int) -> Iterator[_Counted]:
    for index, one in enumerate(plan.levels):
        nics = 0 if index else plan.ports * domains
        yield _Counted(tier, one.name, one.switches * domains, one.cables * domains, nics)


def _levels_of(tier: Tier, facts: TierFacts) -> Iterable[_Counted]:
    """The levels of a tier, in all its domains."""
    kind = kind_of(tier)
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
    if prices and all(line.price is None for line in lines):
        notes.append("prices has none of the parts that are counted: switch, cable, optic, nic")
    return Bill(tuple(lines), _cost(lines, prices) if prices else None, tuple(notes))


def _lines(one: _Counted, prices: Prices | None) -> Iterator[BillLine]:
    copper = (prices.copper if prices else None) or ()
    optics = 0 if one.level in copper or one.tier in copper else 2 * one.cables
    counts = {"nic": one.nics, "cable": one.cables, "optic": optics, "switch": one.switches}
    for part, count in counts.items():
        if count == 0:
            continue
        each = prices.of(part) if prices else None
        known = each is not None and count is not None
        yield BillLine(
            tier=one.tier,
            level=one.level,
            part=part,
            count=count,
            price=each.price if each else None,
            cost=each.price * count if known and each and count else None,
            power_W=each.draws * count if known and each and count else None,
        )


def _cost(lines: Iterable[BillLine], prices: Prices) -> Cost | None:
    """The sum; None where nothing is priced, or a priced part is not counted."""
    priced = [line for line in lines if line.price is not None]
    if not priced or any(line.count is None for line in priced):
        return None
    parts, power = sum(line.cost or 0.0 for line in priced), sum(line.power_W or 0.0 for line in priced)
    energy = None if prices.power is None else power / 1e3 * HOURS_A_YEAR * prices.power
    years = prices.years
    return Cost(
        currency=prices.currency,
        parts=parts,
        power_W=power,
        energy_per_year=energy,
        years=years,
        total=parts + (energy * years if energy is not None and years is not None else 0.0),
    )
