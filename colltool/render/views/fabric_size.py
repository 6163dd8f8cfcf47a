"""``fabric size``: the switches of a Clos level by level, and what follows from them."""

from __future__ import annotations

from dataclasses import asdict

from colltool.base.formatting import counted
from colltool.fabric.results import FabricSized
from colltool.render.blocks import Block, Headline, Lines, Table, label, later, number
from colltool.render.view import Document, View
from colltool.render.views.fabric_bill import bill_blocks, bill_document
from colltool.render.views.fabric_failures import failure_blocks, failure_documents
from colltool.sizing.records import ClosLevel, ClosPlan

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
    """Those at the cables that enter each level: none at copper."""
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
    """As ``fabric show`` has it: a line for each level, and the totals."""
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
    """The sizing of a tier: the leaves and spines of one rail by name, and every level."""
    return {
        "rails": plan.rails,
        "down_ports": plan.down_ports,
        "up_ports": plan.up_ports,
        "leaves": plan.leaves,
        "spines": plan.spines,
        "cables_per_pair": plan.cables_per_pair,
        "switches": plan.switches,
        "cables": plan.cables,
        "notes": list(plan.notes),
        "levels": [asdict(one) for one in plan.levels],
    }


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


VIEWS = {FabricSized: View("fabric-size", _blocks, _document, _table, _summary)}
