"""The fit of each measured series, as results and plots show it."""

from typing import NamedTuple

from colltool.calibration.protocol_fit import ExcludedSize
from colltool.calibration.select import Candidate
from colltool.calibration.serialise import FittedProtocol
from colltool.logs.series import Series


class Residual(NamedTuple):
    """A measured size against the fit; ``relative_error`` is fitted/measured - 1, ``used`` is False
    for sizes left out."""

    bytes: float
    measured_s: float
    fitted_s: float
    relative_error: float
    algorithm: str
    protocol: str
    used: bool


class FittedSeries(NamedTuple):
    """The fit of one series. ``mape`` and ``worst`` (signed) are over the sizes used; ``cv_mape``
    is cross-validated, None with only two sizes. ``confidence`` says in words how clearly
    ``algorithms`` beat ``candidates``."""

    series: Series
    algorithms: tuple[str, ...]
    confidence: str
    candidates: tuple[Candidate, ...]
    protocols: tuple[FittedProtocol, ...]
    residuals: tuple[Residual, ...]
    left_out: tuple[ExcludedSize, ...]
    mape: float
    worst: float
    cv_mape: float | None
