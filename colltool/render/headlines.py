"""What a report is about and what follows from it, in sentences: the head of its page, and its terminal's view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.report import Report
from colltool.base.formatting import format_rate, format_time, percent, title_size
from colltool.diagnosis.results import Diagnosis
from colltool.estimate.results import Breakdown
from colltool.render.dispatch import summary
from colltool.render.view import on_fabric
from colltool.render.views.compare import verdict as compared
from colltool.render.views.plan_compare import verdict as planned_on
from colltool.render.views.plan_facts import facts
from colltool.traces.results import TraceComparison
from colltool.training.plan import Plan


def report_title(result: Report) -> str:
    """What a page is about: its fabric, and what stands beside it."""
    name, (first, *others) = result.fabrics[0].name, result.titles
    own = name if first == name or not others else f"{name} with {first.removeprefix(name).strip()}"
    against = f" against {', '.join(others)}" if others else ""
    return f"{own}{against}, looked at closely on {result.ranks} ranks at {title_size(result.bytes)}"


def headlines(result: Report) -> Iterator[str]:
    """What somebody reads who reads no more: a sentence or two of what answers a question by itself, that of a job first."""
    for section in sorted(result.sections, key=lambda one: one.key != "job"):
        for one in section.exhibits:
            yield from _HEADLINES.get(type(one.result), lambda _: ())(one.result)


def _closely(result: Breakdown) -> Iterator[str]:
    price, row = result.price, result.price.best
    asked = f"{price.primitive.spoken} of {title_size(float(price.bytes))} on {price.group.spoken}"
    yield (f"{asked}: {format_time(float(row.total_s))}, {format_rate(float(row.busbw_Bps))} busbw, by {row.title}, "
           f"bound by {row.bound}")  # fmt: skip


def _planned(result: Plan) -> Iterator[str]:
    name = on_fabric(result.job.name, result.job.overrides)
    yield f"{name} on {result.ranks} ranks: {'; '.join(facts(result)[:3])}"
    if result.changes:
        best = result.changes[0]
        yield f"{name}: {best.change} gains most, {percent(best.gain)}"


def _last(result: Any) -> str:
    return summary(result).splitlines()[-1]


_HEADLINES: dict[type, Callable[[Any], Iterable[str]]] = {
    Breakdown: _closely,
    Comparison: compared,
    Plan: _planned,
    Plans: lambda result: (f"{result.plans[0].job.name}, {line}" for line in planned_on(result)),
    Diagnosis: lambda result: (f"benchmarks: {_last(result).removeprefix('verdict: ')}",),
    TraceComparison: lambda result: (f"the job that was traced: {line}" for line in summary(result).splitlines()[1:]),
}
