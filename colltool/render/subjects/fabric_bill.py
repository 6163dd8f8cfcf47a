"""The bill of a network: its parts level by level, what they cost and draw."""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

from colltool.fabric.bill import Bill, BillLine, Cost
from colltool.render.parts import Block, Column, Lines, Table, label, number
from colltool.render.subject import Document
from colltool.words import format_money, format_power


class _Level(NamedTuple):
    """The parts of one level in a row."""

    tier: str
    level: str
    lines: dict[str, BillLine]

    def number(self, part: str) -> int | None:
        """None also where nothing tells the number."""
        return self.lines[part].count if part in self.lines else 0

    @property
    def cost(self) -> float | None:
        """Of all its parts; None without prices, or where a priced part is not counted."""
        return _sum([line.cost for line in self.lines.values() if line.price is not None])

    @property
    def power_W(self) -> float | None:
        """As :attr:`cost`."""
        return _sum([line.power_W for line in self.lines.values() if line.price is not None])


def _sum(several: list[float | None]) -> float | None:
    known = [one for one in several if one is not None]
    return sum(known) if several and len(known) == len(several) else None


def _counts(part: str, drop: int = 0) -> Column:
    return number(part, {"switch": "switches", "nic": "NICs"}.get(part, f"{part}s"), "{:,}".format, drop,
                  get=lambda one: one.number(part))  # fmt: skip


_COLUMNS = (
    label("tier", "tier", drop=1),
    label("level", "level"),
    *map(_counts, ("nic", "cable", "optic", "switch")),
    number("cost", "cost", format_money),
    number("power_W", "power", format_power, drop=2),
)


def bill_table(bill: Bill) -> Table:
    """The parts of every level, a level a row; columns without any value left out."""
    rows: dict[tuple[str, str], dict[str, BillLine]] = {}
    for line in bill.lines:
        rows.setdefault((line.tier, line.level), {})[line.part] = line
    levels = tuple(_Level(tier, level, lines) for (tier, level), lines in rows.items())
    shown = tuple(one for one in _COLUMNS if any(one.value(level) is not None for level in levels))
    currency = f", in {bill.cost.currency}" if bill.cost else ""
    return Table(shown, levels, None, f"what it is made of{currency}")


def bill_blocks(bill: Bill) -> list[Block]:
    """The parts, and the sums where there are prices."""
    out: list[Block] = [bill_table(bill)] if bill.lines else []
    return [*out, Lines("what it costs", tuple(_sums(bill, bill.cost)))] if bill.cost else out


def bill_document(bill: Bill) -> Document:
    """As the documents of ``fabric show`` and ``fabric size`` have it."""
    return {"parts": [asdict(line) for line in bill.lines], "cost": bill.cost and asdict(bill.cost), "notes": list(bill.notes)}


def _sums(bill: Bill, cost: Cost) -> list[str]:
    """``parts 8,582,400 USD``, the power and its price, and all of it over the years that the file gives."""
    free = ", ".join(dict.fromkeys(f"{line.part}s" for line in bill.lines if line.price is None)).replace("switchs", "switches")
    lines = [f"parts {format_money(cost.parts, cost.currency)}{f', without {free}: no price given' if free else ''}"]
    if cost.power_W:
        energy = "" if cost.energy_per_year is None else f", {format_money(cost.energy_per_year, cost.currency)} a year"
        lines.append(f"power {format_power(cost.power_W)}{energy}")
    if cost.total != cost.parts:
        lines.append(f"{format_money(cost.total, cost.currency)} over {cost.years:g} years")
    return lines
