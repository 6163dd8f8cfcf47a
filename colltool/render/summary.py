"""The title and the conclusions of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.report import Report
from colltool.base.formatting import format_rate, format_time, title_size
from colltool.diagnosis.results import Diagnosis
from colltool.estimate.results import Breakdown
from colltool.render.views.compare import verdict as compared
from colltool.render.views.doctor import diagnosed, traced
from colltool.render.views.plan import answer as planned
from colltool.render.views.plan_compare import verdict as planned_on
from colltool.traces.results import TraceComparison
from colltool.training.plan import Plan


def report_title(result: Report) -> str:
    name, (first, *others) = result.fabrics[0].name, result.titles
    own = name if first == name or not others else f"{name} with {first.removeprefix(name).strip()}"
    against = f" against {', '.join(others)}" if others else ""
    return f"{own}{against}, looked at closely on {result.ranks} ranks at {title_size(result.bytes)}"


def headlines(result: Report) -> Iterator[str]:
    """The conclusions in a sentence or two each, those of a job first."""
    for section in sorted(result.sections, key=lambda one: one.key != "job"):
        for one in section.exhibits:
            yield from _HEADLINES.get(type(one.result), lambda _: ())(one.result)


def _closely(result: Breakdown) -> Iterator[str]:
    price, row = result.price, result.price.best
    asked = f"{price.primitive.spoken} of {title_size(float(price.bytes))} on {price.group.spoken}"
    rate = format_rate(float(row.busbw_Bps))
    yield f"{asked} takes {format_time(float(row.total_s))}, {rate} busbw, by {row.title}, bound by {row.bound}"


_HEADLINES: dict[type, Callable[[Any], Iterable[str]]] = {
    Breakdown: _closely,
    Comparison: compared,
    Plan: lambda result: (planned(result),),
    Plans: lambda result: (f"{result.plans[0].job.name}, {line}" for line in planned_on(result)),
    Diagnosis: lambda result: (f"benchmarks: {diagnosed(result)}",),
    TraceComparison: lambda result: (f"the job that was traced: {traced(result)}",),
}
