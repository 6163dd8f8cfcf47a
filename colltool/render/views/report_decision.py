"""What a report says first: its title, the verdict in words, and the picture of it.

The page (:mod:`colltool.render.page`) and the screen (``report``) ask for :func:`report_title`,
:func:`answers` and :func:`chart_of`. The words on collectives and steps are in
``report_collectives`` and ``report_steps``; what the fabrics cost and what the verdict risks follow
in ``report_costs`` and ``report_risks``. ``report.result_of(type)`` is the first result of a type, None without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.report import Exhibit, Report
from colltool.analysis.sweep import Sweep
from colltool.diagnosis.results import Diagnosis
from colltool.diagnosis.trace_results import TraceComparison
from colltool.estimate.results import Breakdown
from colltool.render.views.doctor_answer import diagnosed
from colltool.render.views.plan_answer import answer as plan_answer
from colltool.render.views.report_collectives import (
    compared_collectives,
    compared_in_title,
    fastest_in_title,
    priced_in_title,
    reference_time,
)
from colltool.render.views.report_steps import (
    compared_step_in_title,
    compared_steps,
    fastest_step_in_title,
    step_in_title,
)
from colltool.render.views.trace_answer import trace_headline
from colltool.serving.results import Served, ServeList
from colltool.training.plan import Plan

# --- the title


def report_title(report: Report) -> str:
    """``nvl72: all-reduce up to 1.9x faster than dgx-b200 above 329 MB; training step 12% faster``.

    Of one or two fabrics it is about the first; of more each part names its winner. The names alone
    where no result says anything.
    """
    several = len(report.titles) > 2
    parts = _winners(report) if several else _about_the_first(report)
    text = "; ".join(filter(None, parts))
    if not text:
        return " against ".join(report.titles)
    if several:
        return text
    return f"{report.titles[0]}: {text}"


def _winners(report: Report) -> Iterator[str]:
    """Which of three fabrics and more has the shortest step, and the fastest collective."""
    plans = report.result_of(Plans)
    if plans:
        yield fastest_step_in_title(report, plans)
    comparison = report.result_of(Comparison)
    if comparison:
        yield fastest_in_title(report, comparison)


def _about_the_first(report: Report) -> Iterator[str]:
    """What one fabric takes; or, of two, how the first does beside the other."""
    if len(report.titles) == 1:
        plan = report.result_of(Plan)
        if plan:
            yield step_in_title(plan)
        breakdown = report.result_of(Breakdown)
        if breakdown:
            yield priced_in_title(report, breakdown)
    comparison = report.result_of(Comparison)
    if comparison:
        yield compared_in_title(report, comparison)
    plans = report.result_of(Plans)
    if plans:
        yield compared_step_in_title(plans)


# --- the verdict


def answers(report: Report) -> Iterator[str]:
    """The verdict: a sentence or two for each question, those of a job first."""
    # a comparison has the price that a breakdown beside it has, and compared plans have the plan
    repeated: set[type] = set()
    if report.result_of(Comparison) is not None:
        repeated.add(Breakdown)
    if report.result_of(Plans) is not None:
        repeated.add(Plan)
    # False sorts before True
    for section in sorted(report.sections, key=lambda section: section.key != "job"):
        for exhibit in section.exhibits:
            kind = type(exhibit.result)
            if kind in _ANSWERS and kind not in repeated:
                yield from _ANSWERS[kind](report, exhibit.result)


def _step(_: Report, plan: Plan) -> Iterator[str]:
    yield plan_answer(plan)


def _serving(_: Report, served: Served | ServeList) -> Iterator[str]:
    yield f"Serving: {_with_full_stop(served.summary())}"


def _benchmarks(_: Report, diagnosis: Diagnosis) -> Iterator[str]:
    yield f"Benchmarks: {_with_full_stop(diagnosed(diagnosis))}"


def _traced_job(_: Report, traces: TraceComparison) -> Iterator[str]:
    yield f"The traced job: {_with_full_stop(trace_headline(traces))}"


def _with_full_stop(text: str) -> str:
    """A sentence with one full stop at its end, whether it had one or not."""
    return f"{text.rstrip('.')}."


# Of each type of result; types without an answer are shown as exhibits only.
_ANSWERS: dict[type, Callable[[Report, Any], Iterable[str]]] = {
    Breakdown: reference_time,
    Comparison: compared_collectives,
    Plan: _step,
    Plans: compared_steps,
    Served: _serving,
    ServeList: _serving,
    Diagnosis: _benchmarks,
    TraceComparison: _traced_job,
}


# --- the picture


def chart_of(report: Report) -> Exhibit | None:
    """The exhibit whose chart is drawn beside the verdict: the comparison of the fabrics, else the
    sweep of the one fabric over ranks. None where neither has a chart."""
    first_of: dict[type, Exhibit] = {}
    for section in report.sections:
        for exhibit in section.exhibits:
            # None: without a chart
            if exhibit.view is not None:
                first_of.setdefault(type(exhibit.result), exhibit)
    return first_of.get(Comparison) or first_of.get(Sweep)
