"""Which results can be plotted, and their views by name; the first is the default."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.sensitivity import Sensitivity
from colltool.analysis.sweep import Sweep
from colltool.base.errors import ColltoolError, either
from colltool.calibration.calibrate import Calibration
from colltool.diagnosis.results import Diagnosis, Validation
from colltool.estimate.results import Breakdown, Crossover
from colltool.render.plot import choices, fits, sizes, times
from colltool.render.plot.chart import Chart
from colltool.traces.results import TraceComparison
from colltool.training.plan import Plan

ChartOf = Callable[[Any, bool], Chart]
"""Makes the chart of a result; True is for a page, which has room for fewer panels."""


def _over_size(chart: Callable[..., Chart]) -> dict[str, ChartOf]:
    return {what: partial(chart, what=what) for what in ("time", "busbw")}


VIEWS: dict[type, dict[str, ChartOf]] = {
    Sweep: {"map": choices.map_chart, "busbw": choices.lines_chart},
    Comparison: {"busbw": choices.comparison_chart},
    Sensitivity: {"spread": choices.sensitivity_chart},
    Breakdown: {"phases": times.breakdown_chart},
    Plan: {"step": times.plan_chart},
    Plans: {"step": times.plans_chart},
    Crossover: {"sizes": sizes.crossover_chart},
    TraceComparison: {"calls": times.trace_chart},
    Diagnosis: {"busbw": fits.diagnosis_chart},
    Calibration: _over_size(fits.calibration_chart),
    Validation: _over_size(fits.validation_chart),
}


def chart_of(result: Any, view: str = "", *, paged: bool = False) -> Chart:
    """The chart of a result; raises a ColltoolError for one that has no plot, no such view, or nothing to draw."""
    views = VIEWS.get(type(result))
    if views is None:
        raise ColltoolError(
            f"{type(result).__name__} has no picture",
            argument="plot",
            fix=f"take its tables: {either(shell='--format html', python='to_html()')}",
        )
    if view and view not in views:
        raise ColltoolError(f"a plot cannot show '{view}'", argument="plot_what", fix=f"write {' or '.join(views)}")
    return views[view or next(iter(views))](result, paged)
