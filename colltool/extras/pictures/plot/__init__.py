"""Results as PNG, SVG or PDF pictures (:func:`picture`), and as inline ``<svg>`` elements of a page
(:func:`page_svg`). Needs matplotlib, an optional extra.

:data:`VIEWS` says which results can be plotted, and how: a function makes a :class:`.panels.Chart`
of the result, and ``panels`` draws it. No pyplot, no display, no matplotlibrc of the user: the same
result always gives the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from colltool.analysis.compare import Comparison
from colltool.analysis.jobs import Plans
from colltool.analysis.sensitivity import Sensitivity
from colltool.analysis.sweep import Sweep
from colltool.base.errors import ColltoolError, clipped, either
from colltool.base.extras import needs_extra
from colltool.calibration.calibrate import Calibration
from colltool.diagnosis.results import Diagnosis, Validation
from colltool.diagnosis.trace_results import TraceComparison
from colltool.estimate.results import Breakdown, Crossover
from colltool.extras.pictures.plot import fits, step_charts, sweep_charts
from colltool.extras.pictures.plot.breakdown_chart import breakdown_chart
from colltool.extras.pictures.plot.comparison_chart import comparison_chart
from colltool.extras.pictures.plot.crossover_chart import crossover_chart
from colltool.extras.pictures.plot.look import STYLE
from colltool.extras.pictures.plot.page import GlyphOutlines, inline_svg
from colltool.extras.pictures.plot.panels import Chart, draw_chart
from colltool.extras.pictures.plot.sensitivity_chart import sensitivity_chart
from colltool.extras.pictures.plot.trace_chart import trace_chart
from colltool.training.plan import Plan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ChartOf = Callable[[Any, bool], Chart]
"""Makes the chart of a result; True is for a page, which has room for fewer panels."""


def _time_and_busbw(chart: Callable[..., Chart]) -> dict[str, ChartOf]:
    """The two views of a chart over message size."""
    return {quantity: partial(chart, quantity=quantity) for quantity in ("time", "busbw")}


VIEWS: dict[type, dict[str, ChartOf]] = {
    Sweep: {"map": sweep_charts.map_chart, "busbw": sweep_charts.lines_chart},
    Comparison: {"busbw": comparison_chart},
    Sensitivity: {"spread": sensitivity_chart},
    Breakdown: {"phases": breakdown_chart},
    Plan: {"step": step_charts.plan_chart},
    Plans: {"step": step_charts.plans_chart},
    Crossover: {"sizes": crossover_chart},
    TraceComparison: {"calls": trace_chart},
    Diagnosis: {"busbw": fits.diagnosis_chart},
    Calibration: _time_and_busbw(fits.calibration_chart),
    Validation: _time_and_busbw(fits.validation_chart),
}
"""Which results can be plotted, and their views by name; the first is the default."""

# No dates or versions, so that the same plot is the same file.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def chart_of(result: Any, view: str = "", *, paged: bool = False) -> Chart:
    """Return the chart of a result; ``view`` is a name in :data:`VIEWS`, empty for the first. ColltoolError for a
    result that has no plot, no such view, or nothing to draw."""
    views = VIEWS.get(type(result))
    if views is None:
        fix = f"take its tables: {either(shell='--format html', python='to_html()')}"
        raise ColltoolError(f"{type(result).__name__} has no picture", argument="plot", fix=fix)
    if view and view not in views:
        raise ColltoolError(
            f"a plot cannot show '{view}'", argument="plot_what", fix=f"write {' or '.join(views)}"
        )
    return views[view or next(iter(views))](result, paged)


def picture(result: Any, suffix: str, view: str = "") -> bytes:
    """The bytes of a picture file with such a suffix (``.png``); ``view`` is one of :data:`VIEWS`, the
    first by default."""
    suffix = suffix.lower()
    buffer = BytesIO()
    with drawn(result, view) as figure:
        figure.savefig(buffer, format=suffix[1:], metadata=_METADATA[suffix])
    return buffer.getvalue()


@contextmanager
def drawn(result: Any, view: str = "", *, paged: bool = False) -> Iterator[Figure]:
    """Draw a result and yield the figure; save it inside the ``with``, where the style is set. On a page its text
    is drawn as outlines, which need no font."""
    need_matplotlib("a plot")
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), catch_warnings():
        filterwarnings("ignore", "Glyph .* missing from font")  # a box is drawn instead
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        if paged:
            matplotlib.rcParams["svg.fonttype"] = "path"
        figure = Figure(layout="constrained")
        FigureCanvasAgg(figure)
        draw_chart(chart_of(result, view, paged=paged), figure, paged=paged)
        yield figure


def need_matplotlib(what: str, extra: str = "plot", argument: str = "plot") -> None:
    """Raise a ColltoolError if matplotlib is missing or does not load: ``what`` needs it, ``extra``
    brings it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise needs_extra(extra, what, "matplotlib", argument=argument) from error
    except ValueError as error:  # a bad MPLBACKEND or matplotlibrc
        cause = clipped(str(error), 200)
        fix = "mend its settings: matplotlibrc"
        backend = os.environ.get("MPLBACKEND")
        if backend:
            cause = f"MPLBACKEND={clipped(backend)} names none of its backends"
            fix = "leave it out of the environment: unset MPLBACKEND"
        raise ColltoolError(
            f"{what} needs matplotlib, which does not load: {cause}", argument=argument, fix=fix
        ) from error


def check_plot(path: Path) -> None:
    """Raise a ColltoolError, before any long work, if the plot could not be written afterwards."""
    if path.suffix.lower() not in _METADATA:
        suffix = f"'{path.suffix}'" if path.suffix else "no suffix"
        fix = f"end the name in {', '.join(_METADATA)}, such as {path.stem or 'fit'}.png"
        raise ColltoolError(
            f"{path} has {suffix}, which is no format of a plot", argument="plot", fix=fix
        )
    need_matplotlib("a plot")
    folder = path.parent
    if not os.path.isdir(folder):
        raise ColltoolError(
            f"cannot write {path}: no such folder",
            argument="plot",
            fix=f"create it: mkdir -p {folder}",
        )
    # a file that is there is written over, a new one needs the folder's permission only
    is_new = not os.path.exists(path)
    writable = os.access(folder, os.W_OK) and (is_new or os.access(path, os.W_OK))
    if os.path.isdir(path) or not writable:
        raise ColltoolError(
            f"cannot write {path}",
            argument="plot",
            fix="name a file in a folder that you can write to",
        )


def page_svg(
    result: Any,
    view: str = "",
    prefix: str = "fig",
    *,
    extra: str = "plot",
    letters: GlyphOutlines | None = None,
) -> str:
    """The plot of a result as one ``<svg>`` element for an HTML page: no background or title,
    panels in one column.

    Colours of text, lines and paper are CSS custom properties (:data:`PAGE_COLOURS`) that default
    to light ones. ``extra``: which the error says to install when matplotlib is missing. ``prefix``
    and ``letters``: see :func:`inline_svg`.
    """
    need_matplotlib("a picture", extra)
    buffer = BytesIO()
    with drawn(result, view, paged=True) as figure:
        figure.savefig(buffer, format="svg", metadata=_METADATA[".svg"], transparent=True)
    return inline_svg(buffer.getvalue(), chart_of(result, view).alt, prefix, letters)


# by this name the core asks for it
shared_letters = GlyphOutlines
