"""``plan --vary``: the time of a step where numbers of the fabric are uncertain.

:func:`_answer` is the headline, :func:`_blocks` the screen, :func:`_table` a row for each number. ``moved`` has the
step's time with one number at either end of its range, and ``span_s`` between the two, the largest first.
"""

from __future__ import annotations

from colltool.analysis.step_spread import PlanSpread, StepTornadoBar
from colltool.base.formatting import counted, format_time
from colltool.render.blocks import Block, Columns, Headline, Lines, Table, label, number
from colltool.render.dispatch import View, fabric_of, on_fabric
from colltool.render.documents import Document, derived, optional
from colltool.render.shared_documents import (
    MachineDocument,
    MovedNumberDocument,
    assumed_by_file,
    machine_in_use,
    mapping,
    values_set,
)
from colltool.render.views.sensitivity import quantity, rows_that_move, times_at_ends

_MOVED: Columns[StepTornadoBar] = (
    label("key", "number", path="number.key"),
    label("low", "from", get=lambda move: quantity(move.number.key, move.number.low)),
    label("high", "to", get=lambda move: quantity(move.number.key, move.number.high)),
    number("low_s", "step at low", format_time),
    number("high_s", "step at high", format_time),
    number("span_s", "difference", format_time),
)


def _answer(result: PlanSpread) -> str:
    """The step, where nine of ten samples of it lie, and the number that moves it most."""
    job = f"{on_fabric(result.job.name, result.job.overrides)} on {result.ranks} ranks"
    fabric = fabric_of(result)
    text = (
        f"{job} of {fabric} takes {format_time(result.step_s)} per step; 90% of the samples lie"
        f" between {format_time(result.p5_s)} and {format_time(result.p95_s)}."
    )
    # the first moves it most
    if not result.moved or not result.moved[0].span_s:
        return f"{text} None of these numbers changes it."
    largest = result.moved[0]
    return f"{text} It is most sensitive to {largest.number.key}: {times_at_ends(largest)}."


def _blocks(result: PlanSpread) -> list[Block]:
    """The answer, and the table of numbers that move the step; how it was sampled is for ``--all``."""
    ranges = "assumed ranges (none given)" if result.assumed else "your ranges"
    samples = f"{counted(result.samples, 'sample')} of {counted(len(result.moved), 'number')}"
    sampling = f"median {format_time(result.p50_s)}; {samples}, seed {result.seed}; {ranges}"
    table = _table(result)._replace(
        title="the step when one number changes alone", first=rows_that_move(result.moved)
    )
    return [Headline(_answer(result)), table, Lines(sampling, (), first=0)]


class MoveDocument(MovedNumberDocument, of=StepTornadoBar):
    """The step when one number changes alone."""


class PlanSensitivityDocument(Document):
    """The time of a step under numbers that vary."""

    job: str = derived("job.name")
    fabric: str
    set: dict[str, str] = optional(values_set)
    fabric_assumed: list[str] = optional(assumed_by_file)
    machine: MachineDocument | None = optional(machine_in_use)
    job_set: dict[str, str] = mapping("job.overrides")
    ranks: int
    step_s: float
    control_step_s: float
    p5_s: float
    p50_s: float
    p95_s: float
    samples: int
    seed: int
    assumed: bool
    moved: list[MoveDocument]


def _table(result: PlanSpread) -> Table:
    return Table(_MOVED, result.moved)


VIEWS = {PlanSpread: View("plan-sensitivity", _blocks, PlanSensitivityDocument.of, _table, _answer)}
