"""``plan`` of Chakra traces: the time of the step, what of it is exposed communication, tier by
tier and call by call.

:func:`_blocks` is the screen. A trace is of one rank; ``result.world`` is how many there were in all,
None where no trace says it. The step is that of the ``slowest`` rank, whose calls and tiers are listed; ``exposed_s`` is
what of them no compute hides.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.base.formatting import counted, format_time, percent, size_text
from colltool.diagnosis.plan_traces import PlannedTraceCall, TierTime, TracePlan
from colltool.render.blocks import Block, Columns, Headline, Lines, Table, label, later, number
from colltool.render.dispatch import View, context, fabric_of
from colltool.render.documents import derived, or_null
from colltool.render.shared_documents import OnFabricDocument
from colltool.render.views.trace import axes_text
from colltool.render.views.trace_graphs import (
    ReplayedDocument,
    graph_name,
    graphs_table,
    recorded_lines,
)

_MOST_ROWS = 8  # shown without --all
_COLLECTIVES: Columns[PlannedTraceCall] = (
    label("primitive", "primitive", attrgetter("label")),
    number("group_size", "ranks"),
    label("stride", drop=4, get=lambda call: axes_text(call.axes)),
    label("tiers", drop=3, get=lambda call: "+".join(call.tiers)),
    number("calls"),
    number("bytes", "bytes per call", size_text),
    label("algorithm", drop=2),
    number("each_s", "each", format_time),
    number("total_s", "total", format_time),
    number("exposed_s", "exposed", format_time),
)
_TIERS: Columns[TierTime] = (
    label("tier", "outermost tier"),
    number("calls"),
    number("total_s", "total", format_time),
    number("exposed_s", "exposed", format_time),
    number("share", "of the step", percent),
)


def _title(result: TracePlan) -> str:
    """``4 traces of 16 ranks on dgx-h100``."""
    traces = counted(len(result.ranks), "trace")
    if result.world:
        traces += f" of {result.world} ranks"
    return f"{traces} on {fabric_of(result)}"


def _answer(result: TracePlan) -> str:
    """The step of the slowest rank, what of it is exposed communication, and what has no price."""
    slowest = result.slowest
    text = f"{_title(result)}: a step takes {format_time(result.step_s)}"
    if slowest.recorded_s:
        text += f" ({format_time(slowest.recorded_s)} as recorded)"
    text += f", and {format_time(result.control_step_s)} with a free network."
    text += f" Exposed communication is {percent(result.network_share)} of it"
    # tiers are listed the most exposed first
    if len(result.tiers) > 1 and result.exposed_s:
        text += f", mostly on {result.tiers[0].tier}"
    text += "."
    if slowest.unpriced:
        text += f" {counted(slowest.unpriced, 'call')} could not be priced and stay as recorded."
    return text


def _facts(result: TracePlan) -> Iterator[str]:
    """What the step's time rests on, and what is not in it."""
    yield (
        f"compute takes {format_time(result.compute_s)} on {graph_name(result.slowest)}, the slowest,"
        " as recorded"
    )
    if not result.compute_s:
        yield "no compute node on the GPU has a duration, so nothing hides communication"
    yield "ranks do not wait for each other: pipeline bubbles and stragglers are not in the step"
    # below 0 where no trace says how many ranks there are
    missing = (result.world or 0) - len(result.ranks)
    if missing > 0:
        yield f"{counted(missing, 'rank')} without a trace may be slower"


def _table(result: TracePlan) -> Table:
    columns = (*context(fabric=result.fabric), *_COLLECTIVES, *context(result.overrides))
    return Table(columns, result.collectives)


def _blocks(result: TracePlan) -> list[Block]:
    """The answer, then the tiers and calls of the slowest rank; what the step rests on is for ``--all``."""
    calls = _table(result)._replace(title="collectives of the slowest rank", first=_MOST_ROWS)
    more: list[Block] = [
        Lines("the step", tuple(_facts(result))),
        graphs_table(result.ranks),
        *recorded_lines(result.ranks),
    ]
    return [
        Headline(_answer(result)),
        Table(_TIERS, result.tiers, title="by tier"),
        calls,
        *map(later, more),
    ]


class PlanTracesDocument(OnFabricDocument):
    """The time of a step as traces have it."""

    library: str | None = or_null("library")
    recorded_s: float = derived("slowest.recorded_s")
    world: int | None
    step_s: float
    control_step_s: float
    exposed_s: float
    network_share: float
    compute_s: float
    tiers: list[TierTime]
    collectives: list[PlannedTraceCall]
    slowest: ReplayedDocument
    ranks: list[ReplayedDocument]


VIEWS = {TracePlan: View("plan-traces", _blocks, PlanTracesDocument.of, _table, _answer)}
