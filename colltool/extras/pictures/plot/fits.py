"""Charts of measured series beside the model: those of ``calibrate``, ``validate`` and ``doctor``.

:mod:`.curves` makes the panels, a series or a collective each, and :mod:`.size_panels` draws them. ``paged`` charts
are for a page of HTML, which has room for fewer panels. ``quantity`` is the y axis: ``time`` or ``busbw``, over message
size. Each chart raises a ColltoolError without series.
"""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import ColltoolError
from colltool.base.formatting import percent, whole_percent
from colltool.calibration.calibrate import Calibration
from colltool.diagnosis.results import Diagnosis, SeriesHealth, Validation
from colltool.extras.pictures.plot.curves import (
    MAX_PANELS,
    Quantity,
    SizePanel,
    calibration_panels,
    judged_panels,
)
from colltool.extras.pictures.plot.fleet import fleet_chart
from colltool.extras.pictures.plot.panels import Chart
from colltool.extras.pictures.plot.size_panels import drawn_panels
from colltool.render.dispatch import on_fabric
from colltool.render.views.doctor_answer import diagnosed

_MAX_PANELS_PAGED = 4  # on a page, where they stand in one column
_COLUMNS = {1: 1, 2: 2, 3: 3, 4: 2, 5: 3, 6: 3, 7: 3, 8: 4, 9: 3}
"""Columns of panels in a file by the number of panels, so that the last row is as full as can be: four panels are
two rows of two."""
_MOST_COLUMNS = 4  # for more panels than those


def calibration_chart(result: Calibration, paged: bool, quantity: Quantity) -> Chart:
    """The measured series of a fit and the fitted model."""
    title = f"{result.fabric.name}, tier {result.tier}: measured and fitted"
    panels = calibration_panels(result, quantity, _max_panels(paged))
    return _chart(panels, title, paged, quantity)


def validation_chart(result: Validation, paged: bool, quantity: Quantity) -> Chart:
    """Measured series and what the fabric predicts for them."""
    title = f"{result.fabric}: measured and predicted, mean error {percent(result.mape)}"
    panels = judged_panels(result.series, quantity, _max_panels(paged))
    return _chart(panels, title, paged, quantity)


def diagnosis_chart(result: Diagnosis, paged: bool) -> Chart:
    """The matrix of a fleet's pairs; without pairs the busbw of each series. It is never the time: what is judged
    is busbw."""
    if result.fleet and result.fleet.pairs:
        return fleet_chart(result.fleet)
    fabric = on_fabric(result.assumed.fabric, result.assumed.overrides)
    title = f"{fabric}: {diagnosed(result)}"
    judged = [health.judged for health in result.series]
    panels = judged_panels(judged, "busbw", _max_panels(paged))
    reached = "; ".join(map(_reached_text, result.series))
    alt = f"Measured busbw beside what is expected, over message size: {reached}. {title}."
    return _chart(panels, title, paged, "busbw")._replace(alt=alt)


def _reached_text(health: SeriesHealth) -> str:
    """``all-reduce, 16 ranks: large messages 92% of expected, small messages 71% of expected``."""
    shares = []
    for sizes, share in (("large", health.large), ("small", health.small)):
        if share is not None:
            shares.append(f"{sizes} messages {whole_percent(share)} of expected")
    return f"{health.judged.series.title}: {', '.join(shares) or 'not judged'}"


def _max_panels(paged: bool) -> int:
    """How many panels a chart has at most, unless there are more collectives."""
    return _MAX_PANELS_PAGED if paged else MAX_PANELS


def _chart(panels: Sequence[SizePanel], title: str, paged: bool, quantity: Quantity) -> Chart:
    """Put the panels in a chart; ``alt``, the text in place of the picture, has the title of each.

    Raises:
        ColltoolError: there are no panels.
    """
    if not panels:
        raise ColltoolError(
            "there is no series to plot", argument="plot", fix="give logs with at least one row"
        )
    columns = 1 if paged else _COLUMNS.get(len(panels), _MOST_COLUMNS)
    texts = "; ".join(f"{panel.title}: {panel.subtitle}" for panel in panels)
    alt = f"{title}. {quantity} over message size: {texts}"
    return Chart(
        title,
        alt,
        drawn_panels(panels, columns, quantity),
        columns=columns,
    )
