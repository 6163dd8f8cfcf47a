"""``fabric size``: the switches and cables of a Clos, level by level, their cost and failures.

The public functions are for networks of any topology; those of other topologies are in ``direct``. A
plan is what was sized: levels of switches of one radix, on one or several rails (networks apart).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from colltool.base.formatting import (
    counted,
)
from colltool.fabric.bill import Bill
from colltool.fabric.direct_sized import DirectSized
from colltool.fabric.failures import Failure
from colltool.fabric.results import FabricSized
from colltool.network.sizing.size_clos import ClosLevel, ClosPlan
from colltool.network.sizing.size_direct import DirectPlan
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    label,
    later,
    number,
)
from colltool.render.dispatch import View, listed
from colltool.render.documents import Document, derived
from colltool.render.views.fabric_bill import BillDocument, bill_blocks, failure_blocks

_FIRST_NOTES = 2  # shown without --all

_COLUMNS: Columns[ClosLevel] = (
    label("name", "level"),
    number("switches"),
    number("per_rail", "on a rail", drop=4),
    number("least", "by ports alone", drop=5),
    number("down_ports", "down"),
    number("up_ports", "up"),
    number("oversubscription", "down/up", "{:.4g}".format, drop=2),
    number("cables", "cables below"),
    number("parallel", "to each below", drop=3),
)


def _table(result: FabricSized) -> Table:
    return levels_table(_COLUMNS, result.plan, result.bill)


def levels_table(columns: Columns[Any], plan: ClosPlan | DirectPlan, bill: Bill) -> Table:
    """The levels of a plan, with the optics on the cables of each."""
    optics = optics_of(bill)
    last: Column[Any] = number("optics", drop=1, get=lambda level: optics.get(level.name, 0))
    title = f"switches of {plan.radix} ports"
    if plan.rails > 1:
        title += f", on {plan.rails} rails"
    return Table((*columns, last), plan.levels, title=title)


def optics_of(bill: Bill) -> dict[str, int]:
    """Transceivers by level, on the cables below it; copper has none."""
    return {line.level: line.count or 0 for line in bill.lines if line.part == "optic"}


def _blocks(result: FabricSized) -> Iterator[Block]:
    return sized_blocks(result, _summary(result), _table(result), _totals(result.plan))


def sized_blocks(
    result: FabricSized | DirectSized, summary: str, table: Table, totals: Iterable[str]
) -> Iterator[Block]:
    """The blocks of a sized network of any topology.

    Args:
        summary: the answer, without its full stop.
        table: the levels.
        totals: lines on the network as a whole.
    """
    yield Headline(f"{summary}.")
    yield table
    yield Lines("in all", list(totals))
    if result.bill.cost:
        yield from bill_blocks(result.bill)
    yield from map(later, failure_blocks(result.failures, ranks=False))
    notes = (*result.plan.notes, *result.bill.notes)
    yield from listed("notes", notes, first=_FIRST_NOTES)


def sized_text(switches: int, kinds: str, cables: int, ports: int) -> str:
    """``544 switches (288 leaf, 256 spine) and 18,432 cables for 9,216 ports``; ``kinds`` is what stands in
    brackets."""
    switches_text = "1 switch" if switches == 1 else f"{switches:,} switches"
    cables_text = "1 cable" if cables == 1 else f"{cables:,} cables"
    ports_text = "1 port" if ports == 1 else f"{ports:,} ports"
    return f"{switches_text} ({kinds}) and {cables_text} for {ports_text}"


def _totals(plan: ClosPlan) -> Iterator[str]:
    """Lines on the plan as a whole: cables, oversubscription, paths, what is left over, and the depth
    of a reduction tree."""
    on_rail = " on a rail" if plan.rails > 1 else ""
    cables = f"{counted(plan.levels[0].cables, 'cable')} to endpoints"
    # a single switch has none to others
    if plan.cables:
        cables = f"{counted(plan.cables, 'cable')} between switches and {cables}"
    yield cables
    if len(plan.levels) > 1:
        yield f"oversubscription from the endpoints to the top: {plan.oversubscription:.4g}:1"
        path_ends = "leaves"
        if plan.pods > 1:
            path_ends = f"pods, in {counted(plan.planes, 'plane')}"
        yield f"{counted(plan.paths, 'equal path')} between {path_ends}"
    if plan.pods > 1:
        yield f"{plan.pods} pods{on_rail}"
    if plan.spare_ports:
        yield f"{counted(plan.spare_ports, 'down-port')} of the leaves left over"
    # what SHARP and its like would need
    tree = f"a reduction tree of such switches has {counted(plan.tree_levels, 'level')}{on_rail}"
    if plan.least_levels < plan.tree_levels:
        tree += (
            f"; {plan.least_levels} is what {plan.radix} ports could join without uplinks,"
            f" ceil(log_{plan.radix} N)"
        )
    yield tree


class SizedLevelDocument(Document):
    """A level of switches, with the optics on its cables."""

    name: str
    switches: int
    per_rail: int
    least: int
    down_ports: int
    up_ports: int
    oversubscription: float
    cables: int
    parallel: int
    optics: int


def levels_with_optics(
    result: FabricSized | DirectSized, level_document: type[Document]
) -> Iterator[dict[str, Any]]:
    """The documents of a network's levels, each with its optics."""
    optics = optics_of(result.bill)
    for level in result.plan.levels:
        yield level_document.of(level, optics=optics.get(level.name, 0))


class FabricSizeDocument(Document, at="plan"):
    """A Clos for a number of endpoints."""

    endpoints: int = derived("endpoints")
    ports_per_endpoint: int = derived("ports_per_endpoint")
    rails: int
    radix: int
    ports: int
    spare_ports: int
    switches: int
    cables: int
    oversubscription: float
    pods: int
    planes: int
    paths: int
    tree_levels: int
    least_levels: int
    levels: list[SizedLevelDocument] = derived(
        lambda result: levels_with_optics(result, SizedLevelDocument)
    )
    notes: list[str]
    failures: list[Failure] = derived("failures")
    bill: BillDocument = derived("bill")


def _summary(result: FabricSized) -> str:
    plan = result.plan
    levels = ", ".join(f"{level.switches:,} {level.name}" for level in plan.levels)
    cables = plan.cables + plan.levels[0].cables
    return sized_text(plan.switches, levels, cables, plan.ports)


VIEWS = {FabricSized: View("fabric-size", _blocks, FabricSizeDocument.of, _table, _summary)}
