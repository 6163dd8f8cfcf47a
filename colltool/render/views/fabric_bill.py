"""The bill of a network: its parts level by level, what they cost and draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

from colltool.base.formatting import format_money, format_power
from colltool.fabric.bill import Bill, BillLine, Cost
from colltool.render.blocks import Block, Column, Lines, Table, label, number
from colltool.render.view import Document


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
        """Of its parts that have a price; None where none has, or one is not counted."""
        return _sum([line.cost for line in self.lines.values() if line.price is not None])

    @property
    def power_W(self) -> float | None:
        """Of its parts whose watts are given; None where none are."""
        return _sum([line.power_W for line in self.lines.values() if line.power_W is not None])


def _sum(several: list[float | None]) -> float | None:
    known = [one for one in several if one is not None]
    return sum(known) if several and len(known) == len(several) else None


PLURAL = {"nic": "NICs", "cable": "cables", "optic": "optics", "switch": "switches"}


def _counts(part: str) -> Column:
    return number(part, PLURAL[part], "{:,}".format, get=lambda one: one.number(part))


_COLUMNS = (
    label("tier", "tier", drop=1),
    label("level", "level"),
    *map(_counts, PLURAL),
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
    energy = "" if cost.energy_per_year is None else f", {format_money(cost.energy_per_year, cost.currency)} a year"
    parts = cost.parts if cost.parts is None else format_money(cost.parts, cost.currency)
    power = cost.power_W if cost.power_W is None else f"{format_power(cost.power_W)}{energy}"
    lines = [f"parts {_known(parts, bill, 'price', lambda line: line.cost)}"]
    lines += [f"power {_known(power, bill, 'watts', lambda line: line.power_W)}"]
    if cost.total is not None and cost.total != cost.parts:
        lines.append(f"{format_money(cost.total, cost.currency)} over {cost.years:g} years")
    return lines


def _known(total: str | None, bill: Bill, what: str, of_line: Callable[[BillLine], float | None]) -> str:
    """A sum with the parts that it leaves out: ``100 kW, without NICs, cables: no watts given``; ``-`` where it has none."""
    if total is None:
        return f"-: no {what} given"
    missing = [line for line in bill.lines if of_line(line) is None]
    for reason, lines in (
        (f"no {what} given", [line for line in missing if line.count is not None]),
        ("not counted", [line for line in missing if line.count is None]),
    ):
        if lines:
            total += f", without {', '.join(dict.fromkeys(PLURAL[line.part] for line in lines))}: {reason}"
    return total
