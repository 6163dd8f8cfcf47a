"""What a fabric's network is made of and costs, and what one failure takes down: tables and lines for
``fabric show`` and ``fabric size``, and the prices of its file in words.

A ``BillLine`` is one kind of part of a level: ``count``, ``price`` of each, ``cost`` and ``power_W`` of all, each None
where it is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.base.formatting import format_money, format_power, short_percent
from colltool.fabric.bill import Bill, BillLine, Cost
from colltool.fabric.failures import Failure
from colltool.fabric.library import PARTS, Prices
from colltool.render.blocks import Block, Column, Columns, Lines, Table, label, number
from colltool.render.documents import Document, derived

PLURAL = {"nic": "NICs", "cable": "cables", "optic": "optics", "switch": "switches"}
"""The kinds of parts, in the order of the table's columns."""


# --- the bill


class _BillLevel(NamedTuple):
    """A row of the table: the parts of a level."""

    tier: str
    level: str
    lines: dict[str, BillLine]  # by the kind of part

    @property
    def cost(self) -> float | None:
        """The sum over parts with a price. None if there are none, or one of them has no count: a sum
        without it would look like the whole."""
        costs = [line.cost for line in self.lines.values() if line.price is not None]
        known = [cost for cost in costs if cost is not None]
        if not known or len(known) < len(costs):
            return None
        return sum(known)

    @property
    def power_W(self) -> float | None:
        """The sum over parts whose power is known. None if there are none."""
        powers_W = [line.power_W for line in self.lines.values() if line.power_W is not None]
        if not powers_W:
            return None
        return sum(powers_W)


def _count_column(part: str) -> Column[_BillLevel]:
    """How many parts of a kind a level has: 0 without a line of it, empty where it is not counted."""
    return number(
        part,
        PLURAL[part],
        "{:,}".format,
        get=lambda row: row.lines[part].count if part in row.lines else 0,
    )


_BILL: Columns[_BillLevel] = (
    label("tier", drop=1),
    label("level"),
    *map(_count_column, PLURAL),
    number("cost", "cost", format_money),
    number("power_W", "power", format_power, drop=2),
)


def bill_blocks(bill: Bill) -> Iterator[Block]:
    """The table of what the network is made of, and lines on what it costs; neither where it is not known."""
    lines_of: dict[tuple[str, str], dict[str, BillLine]] = {}
    for line in bill.lines:
        lines_of.setdefault((line.tier, line.level), {})[line.part] = line
    levels = [_BillLevel(tier, level, lines) for (tier, level), lines in lines_of.items()]
    title = "what it is made of"
    if bill.cost:
        title += f", in {bill.cost.currency}"
    if levels:
        yield Table(_BILL, levels, title=title).without_empty()
    if bill.cost:
        yield Lines("what it costs", list(_cost_lines(bill, bill.cost)))


def _cost_lines(bill: Bill, cost: Cost) -> Iterator[str]:
    """The sum of the parts, their power, and both over some years."""
    parts = "-: no price given"
    if cost.parts is not None:
        parts = format_money(cost.parts, cost.currency) + _left_out(bill, "price", "cost")
    yield f"parts {parts}"
    power = "-: no watts given"
    if cost.power_W is not None:
        power = format_power(cost.power_W)
        if cost.energy_per_year is not None:
            power += f", {format_money(cost.energy_per_year, cost.currency)} a year"
        power += _left_out(bill, "watts", "power_W")
    yield f"power {power}"
    if cost.total is not None and cost.total != cost.parts:
        yield f"{format_money(cost.total, cost.currency)} over {cost.years:g} years"


def _left_out(bill: Bill, unit: str, field: str) -> str:
    """The parts that a sum leaves out: ``, without NICs, cables: no watts given``; empty if none. ``field`` is that of
    the lines which is summed, ``unit`` the word for what a file gives of it."""
    not_given: dict[str, None] = {}
    uncounted: dict[str, None] = {}
    for line in bill.lines:
        if getattr(line, field) is None:
            parts = uncounted if line.count is None else not_given
            parts[PLURAL[line.part]] = None
    text = ""
    if not_given:
        text = f", without {', '.join(not_given)}: no {unit} given"
    if uncounted:
        text += f", without {', '.join(uncounted)}: not counted"
    return text


class BillDocument(Document, of=Bill):
    """The parts of a network, and what they cost."""

    parts: list[BillLine] = derived("lines")
    cost: Cost | None
    notes: list[str]


def prices_text(prices: Prices) -> str:
    """``prices in USD: switch 30,000 (1.7 kW), cable 200, power 0.1/kWh, 4 years``."""
    parts = []
    for part in PARTS:
        costs = prices.of(part)
        if costs is None:
            continue
        text = part
        text += " -" if costs.price is None else f" {format_money(costs.price)}"
        if costs.draws is not None:
            text += f" ({format_power(costs.draws)})"
        parts.append(text)
    if prices.power is not None:
        parts.append(f"power {prices.power:g}/kWh")
    if prices.years is not None:
        parts.append(f"{prices.years:g} years")
    if prices.copper:
        parts.append(f"copper to {', '.join(prices.copper)}")
    if prices.tiers:
        parts.append(f"only {', '.join(prices.tiers)}")
    return f"prices in {prices.currency}: {', '.join(parts) or 'none'}"


# --- failures


_FAILURES: Columns[Failure] = (
    label("tier", drop=1),
    label("part", get=lambda row: "all switches" if row.part == "switches" else row.part),
    label("level", drop=2),
    number("count", "of", "{:,}".format, drop=3),
    number("nics", "ports dark", "{:,}".format, drop=4),
    number("endpoints", "endpoints hit", "{:,}".format, drop=5),
    number("ranks", "ranks hit", "{:,}".format),
    number("share", "each loses", short_percent),
    label(
        "beyond",
        "of its traffic",
        drop=6,
        get=lambda row: f"beyond its {row.beyond}" if row.beyond else "all",
    ),
    number("cut_off", "cut off", "{:,}".format),
)


def failure_blocks(failures: Sequence[Failure], *, ranks: bool = True) -> list[Block]:
    """The table of failures, where there are any; without ``ranks`` where the endpoints are not
    ranks."""
    if not failures:
        return []
    table = Table(_FAILURES, failures, title="what one failure takes down, at most")
    if not ranks:
        table = table.without("ranks")
    return [table.without_empty("tier")]
