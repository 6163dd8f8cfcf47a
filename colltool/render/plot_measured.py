"""Measured and modelled time (or busbw) over size, drawn on a sheet: a panel a series, the errors of the model below it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError
from colltool.base.formatting import percent, whole_percent
from colltool.calibration.results import Calibration
from colltool.diagnosis.results import Diagnosis, SeriesHealth, Validation
from colltool.render.plot_axes import draw_panel, explain_pens, pens_for
from colltool.render.plot_panels import MAX_PANELS, Panel, What, calibration_panels, judged_panels
from colltool.render.plot_style import SOFT, Sheet, add_legend, entitle, labelled, letters
from colltool.render.subject import on_fabric
from colltool.render.subjects.doctor import verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 7: 3, 8: 4, 9: 3}
_MOST_ON_A_PAGE = 4


def draw_calibration(result: Calibration, sheet: Sheet, what: What) -> None:
    """Every series with the fit through it and the points left out.

    Raises:
        ColltoolError: no series.
    """
    _draw(calibration_panels(result, what, _most(sheet)), _calibrated(result), sheet, what)


def draw_validation(result: Validation, sheet: Sheet, what: What) -> None:
    """Every series with the price of each point.

    Raises:
        ColltoolError: no series.
    """
    _draw(judged_panels(result.series, what, _most(sheet)), _validated(result), sheet, what)


def draw_diagnosis(result: Diagnosis, sheet: Sheet) -> None:
    """The measured busbw of every series beside the expected one.

    Raises:
        ColltoolError: no series.
    """
    judged = [one.judged for one in result.series]
    _draw(judged_panels(judged, "busbw", _most(sheet)), _diagnosed(result), sheet, "busbw")


def say_calibration(result: Calibration, what: What) -> str:
    """The picture in words."""
    return _said(calibration_panels(result, what), _calibrated(result), what)


def say_validation(result: Validation, what: What) -> str:
    """The picture in words."""
    return _said(judged_panels(result.series, what), _validated(result), what)


def say_diagnosis(result: Diagnosis) -> str:
    """The picture in words: what each series reaches, and the verdict."""
    reached = "; ".join(map(_reached, result.series))
    return f"Measured busbw beside what is expected, over message size: {reached}. {_diagnosed(result)}."


def _reached(one: SeriesHealth) -> str:
    kinds = (("large", one.large), ("small", one.small))
    shares = [f"{kind} messages {whole_percent(share)} of expected" for kind, share in kinds if share is not None]
    return f"{one.judged.series.title}: {', '.join(shares) or 'not judged'}"


def _diagnosed(result: Diagnosis) -> str:
    return f"{on_fabric(result.assumed.fabric, result.assumed.overrides)}: {verdict(result)}"


def _calibrated(result: Calibration) -> str:
    return f"{result.fabric.name}, tier {result.tier}: measured and fitted"


def _validated(result: Validation) -> str:
    return f"{result.fabric}: measured and predicted, mean error {percent(result.mape)}"


def _said(panels: Sequence[Panel], title: str, what: What) -> str:
    return f"{title}. {what} over message size: " + "; ".join(f"{panel.title}: {panel.subtitle}" for panel in panels)


def _most(sheet: Sheet) -> int:
    return _MOST_ON_A_PAGE if sheet.paged else MAX_PANELS


def _draw(panels: Sequence[Panel], title: str, sheet: Sheet, what: What) -> None:
    if not panels:
        raise ColltoolError("there is no series to plot", argument="plot", fix="give logs with at least one row")
    columns = 1 if sheet.paged else _COLUMNS.get(len(panels), 4)
    rows = -(-len(panels) // columns)
    width = 4.2 * columns if columns > 1 else sheet.width
    figure = sheet.figure
    grid = figure.add_gridspec(rows, columns)
    pens = pens_for(panels)
    for i, panel in enumerate(panels):
        halves = grid[i // columns, i % columns].subgridspec(2, 1, height_ratios=(3, 1), hspace=0)
        main = figure.add_subplot(halves[0])
        strip = figure.add_subplot(halves[1], sharex=main)
        draw_panel(main, strip, panel, pens, what)
        _entitle(main, panel, letters(width / columns) - 12)
        if i % columns == 0:
            main.set_ylabel(what)
            strip.set_ylabel("time error")
        if i + columns >= len(panels):
            strip.set_xlabel("message size")
    explain_pens(figure.axes[0], panels, pens)
    lines = add_legend(figure, width, labelled(figure))
    entitle(figure, title, width)
    figure.set_size_inches(width, 3.7 * rows + 0.6 + 0.18 * lines)


def _entitle(main: Axes, panel: Panel, count: int) -> None:
    main.set_title(f"{shorten(panel.title, count, placeholder=' ...')}\n", loc="left", fontweight="bold")
    text = shorten(panel.subtitle, int(1.1 * count), placeholder=" ...")
    main.annotate(text, (0, 1), (0, 5), "axes fraction", "offset points", color=SOFT)
