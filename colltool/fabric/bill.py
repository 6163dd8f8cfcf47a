"""The parts of a fabric's network, and what they cost: :func:`bill_of`; of a network that was sized
without a fabric: :func:`bill_of_plan`.

Parts are switches, cables, optics and NICs, counted level by level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from colltool.fabric.library import PARTS, PartPrice, Prices
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.size_clos import ClosPlan
from colltool.network.sizing.size_direct import DirectPlan

HOURS_A_YEAR = 365.25 * 24


@dataclass(frozen=True)
class BillLine:
    """One kind of part; None: not known, such as a count without a radix. Money is in the currency of the
    prices."""

    tier: str  # empty of a network that was sized without a fabric
    level: str
    part: str  # one of ``library.PARTS``
    count: int | None
    price: float | None  # of one
    cost: float | None  # of all
    power_W: float | None  # of all


@dataclass(frozen=True)
class Cost:
    """What a network costs, in ``currency``; None: unknown."""

    currency: str
    parts: float | None  # all that have a price
    power_W: float | None  # all whose watts are known
    energy_per_year: float | None  # its price
    years: float | None
    total: float | None  # parts plus the energy of ``years``, if known
    unpriced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bill:
    """The parts of a network, level by level; no ``cost`` without prices, or where a priced part
    cannot be counted."""

    lines: tuple[BillLine, ...]
    cost: Cost | None
    notes: tuple[str, ...] = ()


class _LevelParts(NamedTuple):
    """How many parts one level of a tier has, in all domains; ``cables``: those that enter it from below;
    ``switches`` None: not known."""

    tier: str
    level: str
    switches: int | None
    cables: int
    nics: int = 0


def cost_of(fabric: Fabric) -> Cost | None:
    """Return the cost of a fabric's network by its own ``prices``: of the tiers that they name, else
    of all but the innermost.

    None without prices of parts, or if a priced part cannot be counted (the switches of a Clos
    without ``sizing``).
    """
    return bill_of(fabric).cost


def bill_of(fabric: Fabric) -> Bill:
    """Return the parts of the tiers that are bought by the piece, with their cost."""
    prices = fabric.prices
    # all but the innermost; a single tier counts
    outer = tuple(tier.name for tier in fabric.tiers[1:] or fabric.tiers)
    bought = (prices and prices.tiers) or outer
    parts: list[_LevelParts] = []
    for tier, facts in zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True):
        if tier.name in bought:
            parts += _parts_of_tier(tier, facts)
    notes = []
    for name in dict.fromkeys(level.tier for level in parts if level.switches is None):
        notes.append(
            f"{name}: switches are not counted without their radix; give the tier sizing: {{rails: 8,"
            " nics_per_rail: 1, radix: 64}"
        )
    return _bill(parts, prices, notes)


def bill_of_plan(plan: ClosPlan | DirectPlan, prices: Prices | None) -> Bill:
    """Return the parts of a network that was sized without a fabric, with their cost."""
    levels = [level.name for level in plan.levels]
    copper = (prices and prices.copper) or ()
    elsewhere = [name for name in copper if name not in levels]
    notes = []
    if elsewhere:
        notes.append(
            f"copper names {', '.join(elsewhere)}, the levels here are {', '.join(levels)}"
        )
    return _bill(_parts_of_plan("", plan, domains=1), prices, notes)


def _parts_of_plan(tier: str, plan: ClosPlan | DirectPlan, domains: int) -> list[_LevelParts]:
    """The parts of a plan, level by level; the NICs count at the lowest."""
    parts = []
    # the plan counts the ports of a NIC in each plane, of which there are ``split``
    nics = plan.ports // plan.split * domains
    for level in plan.levels:
        parts.append(
            _LevelParts(
                tier=tier,
                level=level.name,
                switches=level.switches * domains,
                cables=level.cables * domains,
                nics=nics,
            )
        )
        nics = 0
    return parts


def _parts_of_tier(tier: Tier, facts: TierFacts) -> list[_LevelParts]:
    """The parts of a tier, level by level, in all its domains."""
    capabilities = capabilities_of(tier)
    name = tier.name
    domains = facts.domains
    links = facts.links * domains
    ports = facts.planes * tier.ports * tier.endpoints * domains
    if facts.sizing is not None:
        return _parts_of_plan(name, facts.sizing, domains)
    if capabilities.joined_by != "switches":
        nics = ports if capabilities.has_ports else 0
        return [_LevelParts(name, name, (facts.switches or 0) * domains, links, nics)]
    # the NICs behind a trunk belong to the tier below
    if capabilities.trunk_Bps is not None:
        return [_LevelParts(name, "trunk", switches=0, cables=tier.endpoints * domains)]
    leaf, *above = capabilities.reached
    if facts.switches is not None:
        return [_LevelParts(name, leaf.name, facts.switches * domains, links, ports)]
    parts = [_LevelParts(name, leaf.name, switches=None, cables=ports, nics=ports)]
    for level in above:
        uplinks = ceil(ports / level.oversubscription)
        parts.append(_LevelParts(name, level.name, switches=None, cables=uplinks))
    return parts


def _bill(levels: Iterable[_LevelParts], prices: Prices | None, notes: list[str]) -> Bill:
    """The bill of the parts of all levels, in their order; ``notes`` may get one more."""
    lines: list[BillLine] = []
    for level in levels:
        lines += _lines(level, prices)
    cost = None
    if prices is not None:
        cost = _cost(lines, prices)
        if all(line.price is None and line.power_W is None for line in lines):
            notes.append("prices has none of the parts that are counted: switch, cable, optic, nic")
    return Bill(tuple(lines), cost, tuple(notes))


def _lines(level: _LevelParts, prices: Prices | None) -> Iterator[BillLine]:
    """A line for each kind of part that a level has: two optics for each cable that is not of copper."""
    counts = {
        "nic": level.nics,
        "cable": level.cables,
        "optic": 2 * level.cables,
        "switch": level.switches,
    }
    if prices is not None and {level.level, level.tier}.intersection(prices.copper or ()):
        counts["optic"] = 0
    for part, count in counts.items():
        if count == 0:
            continue
        each = PartPrice()
        if prices is not None:
            each = prices.of(part) or each
        yield BillLine(
            tier=level.tier,
            level=level.level,
            part=part,
            count=count,
            price=each.price,
            cost=_product(count, each.price),
            power_W=_product(count, each.draws),
        )


def _product(count: float | None, each: float | None) -> float | None:
    """A product; None where a factor is not known."""
    if count is None or each is None:
        return None
    return count * each


def _cost(lines: Sequence[BillLine], prices: Prices) -> Cost | None:
    """The sums of what is known. None where nothing is, or a priced part is not counted."""
    priced = [line for line in lines if line.price is not None]
    watts = [line.power_W for line in lines if line.power_W is not None]
    if not (priced or watts) or any(line.count is None for line in priced):
        return None
    parts = None
    if priced:
        parts = sum(line.cost or 0.0 for line in priced)
    power_W = None
    if watts:
        power_W = sum(watts)
    energy = None
    if prices.power is not None and power_W is not None:
        energy = power_W / 1e3 * HOURS_A_YEAR * prices.power
    known = [cost for cost in (parts, _product(energy, prices.years)) if cost is not None]
    unpriced = {line.part for line in lines if line.price is None}
    return Cost(
        currency=prices.currency,
        parts=parts,
        power_W=power_W,
        energy_per_year=energy,
        years=prices.years,
        total=sum(known) if known else None,
        unpriced=tuple(part for part in PARTS if part in unpriced),
    )
