"""The fit of each measured series, as results and plots show it."""

from typing import NamedTuple

from colltool.calibration.select import Candidate
from colltool.calibration.sentences import FitFinding
from colltool.calibration.serialise import FittedProtocol
from colltool.calibration.usable_points import ExcludedSize
from colltool.logs.series import Series


class Residual(NamedTuple):
    """A measured size, in bytes, against the price by the written file.

    Args:
        relative_error: fitted/measured - 1.
        algorithm, protocol: the fastest by the file, whose time ``fitted_s`` is.
        used: False for sizes that the fit left out.
    """

    bytes: float
    measured_s: float
    fitted_s: float
    relative_error: float
    algorithm: str
    protocol: str
    used: bool


class FittedSeries(NamedTuple):
    """The fit of one series, as the written file has it.

    Args:
        protocols: those of the file for this collective, small sizes first.
        residuals: every measured size, in the order of the series.
        left_out: sizes that the fit does not use, and why.
        reasons: why ``algorithms`` were chosen from ``candidates``, and how clearly they won.
        mape, worst: mean absolute and largest (signed) relative error over the sizes used.
        cv_mape: the mean error on unseen sizes, cross-validated; None where no size could be left
            out.
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
        """The reasons in words."""
        return "; ".join(reason.words for reason in self.reasons)
