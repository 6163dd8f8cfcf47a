"""What ``calibrate`` and ``validate`` return: frozen records in SI units."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.result import Result
from colltool.estimate.assumptions import USUAL, Readings
from colltool.fabric.model import Fabric
from colltool.measurements.series import Series, Skipped


class Fitted(NamedTuple):
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


class LeftOut(NamedTuple):
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
    protocols: tuple[Fitted, ...]
    residuals: tuple[Residual, ...]
    left_out: tuple[LeftOut, ...]
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


class Checked(NamedTuple):
    """One measured size beside the price.

    Args:
        bytes, measured_s: the point.
        predicted_s: the fastest price among what the library ships; ``relative_error`` = predicted/measured - 1.
        algorithm, protocol: that price's; protocol is empty where the fabric lists none.
        bound: what takes most of the price: ``latency``, ``bandwidth`` or ``overhead``.
        nearest: the algorithm whose price comes nearest to the measurement, and ``nearest_error`` of that price.
        spec, nearest_spec: the text that ``--algorithm`` takes for them.
    """

    bytes: float
    measured_s: float
    predicted_s: float
    relative_error: float
    algorithm: str
    protocol: str
    busbw_measured_Bps: float
    busbw_expected_Bps: float
    bound: str
    nearest: str
    nearest_error: float
    spec: str = ""
    nearest_spec: str = ""

    @property
    def of_expected(self) -> float:
        """predicted/measured: the share of the expected bandwidth that the measurement reaches, 1 where the price is met."""
        return self.predicted_s / self.measured_s


class Regime(NamedTuple):
    """Neighbouring sizes that the price calls bound by the same thing, with their mean absolute relative error."""

    bound: str
    from_bytes: float
    to_bytes: float
    mape: float


class ValidatedSeries(NamedTuple):
    """A series judged; ``worst`` is signed; ``findings`` are sentences that the numbers support, most important first."""

    series: Series
    points: tuple[Checked, ...]
    mape: float
    worst: float
    regimes: tuple[Regime, ...]
    findings: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Validation(Result):
    """All series judged by one fabric; ``mape`` over all points; ``max_mape`` as asked for, a fraction."""

    subject: ClassVar[str] = "validate"
    fabric: str
    series: tuple[ValidatedSeries, ...]
    mape: float
    verdict: str
    skipped: tuple[Skipped, ...]
    max_mape: float | None = None
    overrides: tuple[tuple[str, str], ...] = ()
    readings: Readings = USUAL

    @property
    def holds(self) -> bool:
        """Whether every series stays within ``max_mape``."""
        return self.max_mape is None or all(one.mape <= self.max_mape for one in self.series)
