"""The fit of each measured series, as results and plots show it."""

from typing import NamedTuple

from colltool.calibration.select import Candidate
from colltool.calibration.sentences import FitFinding
from colltool.calibration.serialise import FittedProtocol
from colltool.calibration.usable_points import ExcludedSize
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
    """The fit of one series.

    Args:
        reasons: why ``algorithms`` were chosen from ``candidates``, and how clearly they won.
        mape, worst: mean absolute and largest (signed) relative error over the sizes used.
        cv_mape: the mean error on unseen sizes, cross-validated; None with only two sizes.
    """

    series: Series
    algorithms: tuple[str, ...]
    reasons: tuple[FitFinding, ...]
    candidates: tuple[Candidate, ...]
    protocols: tuple[FittedProtocol, ...]
    residuals: tuple[Residual, ...]
    left_out: tuple[ExcludedSize, ...]
    mape: float
    worst: float
    cv_mape: float | None

    @property
    def confidence(self) -> str:
        return "; ".join(reason.words for reason in self.reasons)
