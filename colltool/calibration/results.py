"""What ``calibrate`` returns: frozen records in SI units."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.result import Result
from colltool.fabric.model import Fabric
from colltool.measurements.series import Series, Skipped


class FittedProtocol(NamedTuple):
    """One fitted protocol. ``copy_Bps``: rate at which a rank moves its own share M/N, None where not visible. ``eta_beta``:
    bandwidth over the stated line rate. ``ci95``: 95% intervals by field name. ``tied``: fields the data cannot separate, held at
    the prior."""

    name: str
    launch_overhead_s: float
    alpha_s: float
    bandwidth_Bps: float
    copy_Bps: float | None
    eta_beta: float | None
    ci95: dict[str, tuple[float, float]]
    tied: tuple[str, ...]


class Candidate(NamedTuple):
    """Algorithms tried together, and their mean absolute relative error on unseen sizes (None with too few sizes)."""

    algorithms: tuple[str, ...]
    cv_mape: float | None


class Residual(NamedTuple):
    """A measured size against the fit; ``relative_error`` is fitted/measured - 1, ``used`` is False for sizes left out."""

    bytes: float
    measured_s: float
    fitted_s: float
    relative_error: float
    algorithm: str
    protocol: str
    used: bool


class ExcludedSize(NamedTuple):
    bytes: float
    reason: str


class FittedSeries(NamedTuple):
    """The fit of one series. ``mape`` and ``worst`` (signed) are over the sizes used; ``cv_mape`` is cross-validated, None with
    only two sizes. ``confidence`` says in words how clearly ``algorithms`` beat ``candidates``."""

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
    """A calibrated fabric; ``text`` is its YAML file, ``notes`` the caveats of the fit."""

    subject: ClassVar[str] = "calibrate"
    fabric: Fabric
    tier: str
    series: tuple[FittedSeries, ...]
    notes: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    text: str
    path: str = ""
    overrides: tuple[tuple[str, str], ...] = ()
