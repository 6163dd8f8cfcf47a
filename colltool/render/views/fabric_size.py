"""``fabric size``: the switches of a Clos level by level, their cost, and failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from colltool.base.formatting import counted, format_money, format_power, short_percent
from colltool.fabric.properties import Bill, BillLine, Cost
from colltool.fabric.results import FabricSized, Failure
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, later, number
from colltool.render.view import Document, View, fields
from colltool.sizing.size_clos import ClosLevel, ClosPlan

_COLUMNS = (
    label("name", "level"),
    number("switches", "switches"),
    number("per_rail", "on a rail", drop=4),
    number("least", "by ports alone", drop=5),
    number("down_ports", "down"),
    number("up_ports", "up"),
    number("oversubscription", "down/up", "{:.4g}".format, drop=2),
    number("cables", "cables below"),
    number("parallel", "to each below", drop=3),
)


def _table(result: FabricSized) -> Table:
    plan = result.plan
    optics = _optics(result)
    of_level = number("optics", "optics", drop=1, get=lambda one: optics.get(one.name, 0))
    rails = f" on {plan.rails} rails" if plan.rails > 1 else ""
    return Table(
        (*_COLUMNS, of_level), plan.levels, None, f"{plan.ports} ports of endpoints{rails}, switches of {plan.radix} ports"
    )


def _optics(result: FabricSized) -> dict[str, int]:
    """Transceivers by level, on the cables below it; copper has none."""
    return {line.level: line.count or 0 for line in result.bill.lines if line.part == "optic"}


def _blocks(result: FabricSized) -> list[Block]:
    plan = result.plan
    out: list[Block] = [Headline(f"{_switches(plan.switches)} and {counted(plan.cables + plan.levels[0].cables, 'cable')} join "
                                 f"{_summary(result)}."), _table(result), Lines("in all", tuple(_totals(plan)))]  # fmt: skip
    out += bill_blocks(result.bill) if result.bill.cost else []
    out += map(later, failure_blocks(result.failures, ranks=False))
    notes = (*plan.notes, *result.bill.notes)
    return [*out, Lines("notes", notes)] if notes else out


def _totals(plan: ClosPlan) -> list[str]:
    ends, on_rail = plan.levels[0].cables, " on a rail" if plan.rails > 1 else ""
    between = f"{plan.cables} cables between them and " if plan.cables else ""
    lines = [f"{_switches(plan.switches)}, {between}{counted(ends, 'cable')} to endpoints"]
    if len(plan.levels) > 1:
        lines.append(f"oversubscribed {plan.oversubscription:.4g}:1 against the endpoints")
        between = "pods" if plan.pods > 1 else "leaves"
        planes = f", in {counted(plan.planes, 'plane')}" if plan.pods > 1 else ""
        lines.append(f"{counted(plan.paths, 'equal path')} between {between}{planes}")
    if plan.pods > 1:
        lines.append(f"{plan.pods} pods{on_rail}")
    if plan.spare_ports:
        lines.append(f"{counted(plan.spare_ports, 'down-port')} of leaves to spare")
    tree = f"a reduction tree of such switches has {counted(plan.tree_levels, 'level')}{on_rail}"
    if plan.least_levels < plan.tree_levels:
        tree += f"; {plan.least_levels} is what {plan.radix} ports could join without uplinks, ceil(log_{plan.radix} N)"
    return [*lines, tree]


def _switches(number: int) -> str:
    return "1 switch" if number == 1 else f"{number} switches"


def plan_lines(plan: ClosPlan) -> list[str]:
    """The levels in sentences, for ``fabric show``."""
    rails = f"{plan.rails} rails, each with " if plan.rails > 1 else ""
    lines = [f"{rails}{', '.join(f'{one.per_rail} {one.name}' for one in plan.levels)} switches of {plan.radix} ports"]
    lines += [_split(one) for one in plan.levels if one.up_ports]
    for below, one in zip(plan.levels, plan.levels[1:], strict=False):
        lines.append(
            f"{counted(one.parallel, 'cable')} between a {below.name} and each {one.name} that it reaches, {one.cables} in all"
        )
    return [*lines, f"{_switches(plan.switches)} in all"]


def _split(one: ClosLevel) -> str:
    return f"{one.down_ports} ports down and {one.up_ports} up on a {one.name} switch, {one.oversubscription:.4g}:1"


def sizing_document(plan: ClosPlan) -> Document:
    names = "rails down_ports up_ports leaves spines cables_per_pair switches cables notes"
    return fields(plan, names) | {"levels": [asdict(one) for one in plan.levels]}


def _document(result: FabricSized) -> Document:
    plan = asdict(result.plan)
    notes, levels = plan.pop("notes"), plan.pop("levels")
    head = {"endpoints": result.endpoints, "ports_per_endpoint": result.ports_per_endpoint}
    optics = _optics(result)
    levels = [one | {"optics": optics.get(one["name"], 0)} for one in levels]
    rest = {"failures": failure_documents(result.failures), "bill": bill_document(result.bill)}
    return {**head, **plan, "levels": levels, "notes": list(notes), **rest}


def _summary(result: FabricSized) -> str:
    levels = ", ".join(f"{one.switches} {one.name}" for one in result.plan.levels)
    return f"{counted(result.plan.ports, 'endpoint port')}: {_switches(result.plan.switches)} ({levels})"


_FAILURES = (
    label("tier", "tier", drop=1),
    label("part", "part", get=lambda one: "all switches" if one.part == "switches" else one.part),
    label("level", "level", drop=2),
    number("count", "of", "{:,}".format, drop=3),
    number("nics", "ports dark", "{:,}".format, drop=4),
    number("endpoints", "endpoints hit", "{:,}".format, drop=5),
    number("ranks", "ranks hit", "{:,}".format),
    number("share", "each loses", short_percent),
    label("beyond", "of its traffic", drop=6, get=lambda one: f"beyond its {one.beyond}" if one.beyond else "all"),
    number("cut_off", "cut off", "{:,}".format),
)


def failure_blocks(failures: Sequence[Failure], *, ranks: bool = True) -> list[Block]:
    """The failure table; without ``ranks`` where the endpoints are not ranks."""
    table = Table(_FAILURES, tuple(failures), None, "what one failure takes down, at most")
    idle = ([] if any(one.tier for one in failures) else ["tier"]) + ([] if ranks else ["ranks"])
    return [table.without(*idle)] if failures else []


def failure_documents(failures: Sequence[Failure]) -> list[dict[str, Any]]:
    return [asdict(one) for one in failures]


class _BillLevel(NamedTuple):
    """The parts of one level."""

    tier: str
    level: str
    lines: dict[str, BillLine]

    def number(self, part: str) -> int | None:
        """None if unknown."""
        return self.lines[part].count if part in self.lines else 0

    @property
    def cost(self) -> float | None:
        """Of the priced parts; None if there are none, or one is not counted."""
        return _sum([line.cost for line in self.lines.values() if line.price is not None])

    @property
    def power_W(self) -> float | None:
        return _sum([line.power_W for line in self.lines.values() if line.power_W is not None])


def _sum(several: list[float | None]) -> float | None:
    known = [one for one in several if one is not None]
    return sum(known) if several and len(known) == len(several) else None


PLURAL = {"nic": "NICs", "cable": "cables", "optic": "optics", "switch": "switches"}


def _counts(part: str) -> Column:
    return number(part, PLURAL[part], "{:,}".format, get=lambda one: one.number(part))


_BILL = (
    label("tier", "tier", drop=1),
    label("level", "level"),
    *map(_counts, PLURAL),
    number("cost", "cost", format_money),
    number("power_W", "power", format_power, drop=2),
)


def bill_table(bill: Bill) -> Table:
    rows: dict[tuple[str, str], dict[str, BillLine]] = {}
    for line in bill.lines:
        rows.setdefault((line.tier, line.level), {})[line.part] = line
    levels = tuple(_BillLevel(tier, level, lines) for (tier, level), lines in rows.items())
    shown = tuple(one for one in _BILL if any(one.value(level) is not None for level in levels))
    currency = f", in {bill.cost.currency}" if bill.cost else ""
    return Table(shown, levels, None, f"what it is made of{currency}")


def bill_blocks(bill: Bill) -> list[Block]:
    out: list[Block] = [bill_table(bill)] if bill.lines else []
    return [*out, Lines("what it costs", tuple(_sums(bill, bill.cost)))] if bill.cost else out


def bill_document(bill: Bill) -> Document:
    return {"parts": [asdict(line) for line in bill.lines], "cost": bill.cost and asdict(bill.cost), "notes": list(bill.notes)}


def _sums(bill: Bill, cost: Cost) -> list[str]:
    energy = "" if cost.energy_per_year is None else f", {format_money(cost.energy_per_year, cost.currency)} a year"
    parts = cost.parts if cost.parts is None else format_money(cost.parts, cost.currency)
    power = cost.power_W if cost.power_W is None else f"{format_power(cost.power_W)}{energy}"
    lines = [f"parts {_known(parts, bill, 'price', lambda line: line.cost)}"]
    lines += [f"power {_known(power, bill, 'watts', lambda line: line.power_W)}"]
    if cost.total is not None and cost.total != cost.parts:
        lines.append(f"{format_money(cost.total, cost.currency)} over {cost.years:g} years")
    return lines


def _known(total: str | None, bill: Bill, what: str, of_line: Callable[[BillLine], float | None]) -> str:
    """A sum with what it leaves out: ``100 kW, without NICs, cables: no watts given``."""
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


VIEWS = {FabricSized: View("fabric-size", _blocks, _document, _table, _summary)}
