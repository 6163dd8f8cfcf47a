"""What ``calibrate`` returns: frozen records in SI units."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.result import Result
from colltool.fabric.model import Fabric
from colltool.measurements.series import Series, Skipped


class FittedProtocol(NamedTuple):
    """One protocol of one series as the fit sees it.

    Args:
        name: as the fabric file lists it.
        launch_overhead_s, alpha_s, bandwidth_Bps: its three numbers.
        copy_Bps: at which a rank moves its own share M/N; None where the data show no such time.
        eta_beta: bandwidth as a share of the stated line rate; None without one.
        ci95: 95% interval of each number that the data determine, by field name.
        tied: fields that the data cannot separate from others, each held at a stated value.
    """

    name: str
    launch_overhead_s: float
    alpha_s: float
    bandwidth_Bps: float
    copy_Bps: float | None
    eta_beta: float | None
    ci95: dict[str, tuple[float, float]]
    tied: tuple[str, ...]


class Candidate(NamedTuple):
    """Algorithms that were tried together, and their mean absolute relative error on unseen sizes; None with too few."""

    algorithms: tuple[str, ...]
    cv_mape: float | None


class Residual(NamedTuple):
    """One measured size beside the fit; ``relative_error`` = fitted/measured - 1. ``used`` is False for what was left out."""

    bytes: float
    measured_s: float
    fitted_s: float
    relative_error: float
    algorithm: str
    protocol: str
    used: bool


class ExcludedSize(NamedTuple):
    """A size that the fit leaves out, and why."""

    bytes: float
    reason: str


class FittedSeries(NamedTuple):
    """The fit of one series. ``mape`` and ``worst`` (signed) over the points used, ``cv_mape`` on
    unseen sizes: each by a fit without it and its like, those off the curve by the fit; None where two sizes are all there is.

    ``algorithms`` won against ``candidates``; ``confidence`` says in words how sure that is.
    """

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


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """A fabric that has met measurements. ``text`` is its file; ``notes`` what a reader should know of the fit."""

    subject: ClassVar[str] = "calibrate"
    fabric: Fabric
    tier: str
    series: tuple[FittedSeries, ...]
    notes: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    text: str
    path: str = ""
    overrides: tuple[tuple[str, str], ...] = ()
