"""Every result that has a picture: its views by name, the first the usual one, and what each is in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.sensitivity import Sensitivity
from colltool.analysis.sweep import Sweep
from colltool.base.errors import ColltoolError, either
from colltool.calibration.results import Calibration
from colltool.diagnosis.results import Diagnosis, Validation
from colltool.estimate.results import Breakdown, Crossover
from colltool.render import plot_choices as choices
from colltool.render import plot_lines as lines
from colltool.render import plot_measured as measured
from colltool.render import plot_ribbon as ribbon
from colltool.render import plot_steps as steps
from colltool.render import plot_trace as trace
from colltool.render.plot_style import Sheet
from colltool.traces.results import TraceComparison
from colltool.training.plan import Plan


class View(NamedTuple):
    """A picture of a result: drawn on a sheet, and said in a sentence or two for who cannot see it."""

    draw: Callable[[Any, Sheet], None]
    say: Callable[[Any], str]


def _over_size(draw: Callable[..., None], say: Callable[..., str]) -> dict[str, View]:
    return {what: View(partial(draw, what=what), partial(say, what=what)) for what in ("time", "busbw")}


VIEWS: dict[type, dict[str, View]] = {
    Sweep: {"map": View(choices.draw_map, choices.say_map), "busbw": View(lines.draw_lines, lines.say_lines)},
    Comparison: {"busbw": View(choices.draw_comparison, choices.say_comparison)},
    Sensitivity: {"spread": View(choices.draw_sensitivity, choices.say_sensitivity)},
    Breakdown: {"phases": View(steps.draw_breakdown, steps.say_breakdown)},
    Plan: {"step": View(steps.draw_plan, steps.say_plan)},
    Plans: {"step": View(steps.draw_plans, steps.say_plans)},
    Crossover: {"sizes": View(ribbon.draw_crossover, ribbon.say_crossover)},
    TraceComparison: {"calls": View(trace.draw_trace, trace.say_trace)},
    Diagnosis: {"busbw": View(measured.draw_diagnosis, measured.say_diagnosis)},
    Calibration: _over_size(measured.draw_calibration, measured.say_calibration),
    Validation: _over_size(measured.draw_validation, measured.say_validation),
}


def view_of(result: Any, name: str = "") -> View:
    """A view of a result; the usual one without a name.

    Raises:
        ColltoolError: a result without a picture, or without this view.
    """
    views = VIEWS.get(type(result))
    if views is None:
        raise ColltoolError(
            f"{type(result).__name__} has no picture",
            argument="plot",
            fix=f"take its tables: {either(shell='--format html', python='to_html()')}",
        )
    if name and name not in views:
        raise ColltoolError(f"a plot cannot show '{name}'", argument="plot_what", fix=f"write {' or '.join(views)}")
    return views[name or next(iter(views))]
