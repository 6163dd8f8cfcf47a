"""Predictors that need no file: colltool's own prices as they ship, and plainer models next to
it. :data:`PREDICTORS` has them by name; each answers a published row or, with None, does not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from colltool.base.primitives import parse_primitive
from colltool.calibration.predictions import Predicted
from colltool.calibration.published import PublishedRow
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.library_pick import with_library_choice
from colltool.estimate.machine_factor import as_read
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.estimate.results import Price
from colltool.fabric.load import load_fabric

Predictor = Callable[[PublishedRow], Predicted | None]
"""What a predictor answers for a row; None if nothing."""


def _price(row: PublishedRow, readings: ModelOptions) -> Price:
    """The price of a row, with what the library picks first."""
    fabric = as_read(load_fabric(row.source.machine), readings)
    group = GroupSpec(row.ranks)
    priced = price(fabric, parse_primitive(row.collective), float(row.bytes), group, readings)
    return with_library_choice([priced], fabric, readings, required=False)[0]


def _colltool(row: PublishedRow) -> Predicted:
    """colltool's price and interval, as the table of rows has them."""
    return Predicted(row.price_s, row.low_s, row.high_s)


def _nccl(row: PublishedRow) -> Predicted | None:
    """The time that NCCL's tuning model gives to what it picks. None where it has no model."""
    library = _price(row, ModelOptions()).library
    pick = library.pick if library else None
    if pick is None or pick.seconds is None:
        return None
    return Predicted(float(pick.seconds))


def _fastest(readings: ModelOptions, row: PublishedRow) -> Predicted:
    """The price of what leads under these options of the model."""
    return Predicted(float(_price(row, readings).best.total_s))


PREDICTORS: dict[str, Predictor] = {
    "colltool": _colltool,
    "nccl": _nccl,
    # without a measured number
    "datasheet": partial(_fastest, ModelOptions(numbers="datasheet")),
    # latency and bandwidth of the links alone
    "alpha-beta": partial(_fastest, ModelOptions(ideal=True)),
}
"""Predictors by the name that the command line takes."""
