"""What ``validate`` and ``doctor`` return: frozen records in SI units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.estimate.assumptions import USUAL, Readings
from colltool.measurements.series import Series, Skipped


class ValidatedPoint(NamedTuple):
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
    points: tuple[ValidatedPoint, ...]
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
        return self.max_mape is None or all(one.mape <= self.max_mape for one in self.series)


class AssumedFabric(NamedTuple):
    """The fabric that the logs are held against.

    Args:
        fabric: its name.
        overrides: its values that the logs, or the caller, changed.
        devices, hosts: as the logs name them; empty where they do not.
        said: in sentences, what was read and what was assumed.
    """

    fabric: str
    overrides: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]
    hosts: tuple[str, ...]
    said: tuple[str, ...]


class SeriesHealth(NamedTuple):
    """One series beside the fabric.

    Args:
        judged: its points beside the prices.
        wire: the outermost tier that it crosses.
        large, small: the share of the expected rate that large and small messages reach, medians; None where not measured.
        low: whether that of large, or of small messages is below the bar.
        bar: the share of the expected rate that large messages are held to; small ones are held to less.
    """

    judged: ValidatedSeries
    wire: str
    large: float | None
    small: float | None
    low: bool
    bar: float


class Cause(NamedTuple):
    """A cause that the prices support.

    Args:
        name: ``nvls-off``, ``nvlinks``, ...
        said: in words, with the number that was found.
        look: what shows it on the machine.
        error: how far its prices are from the times it explains, on average; a fraction.
        error_all: the same over all sizes of these series.
    """

    name: str
    said: str
    look: str
    error: float
    error_all: float


class Prediction(NamedTuple):
    """What an experiment would show if a cause were true: busbw at ``Experiment.bytes``, and the time."""

    cause: str
    busbw_Bps: float
    seconds: float


class Experiment(NamedTuple):
    """What to run next: the command line, and what each remaining cause makes of it.

    Args:
        command: with sizes, ranks and environment.
        bytes: the size whose outcome is foretold.
        note: what else to do; mostly empty.
        foretold: of each cause; of a single one, of the fabric as it should be beside it.
    """

    command: str
    bytes: float
    foretold: tuple[Prediction, ...]
    note: str = ""


class LeftOutKernels(NamedTuple):
    """Communication that is in no row: why, how many kernels, and the first file with one."""

    reason: str
    kernels: int
    file: str


class BoundedCalls(NamedTuple):
    """Calls that took at most what was measured: a kernel waits for the slowest rank, and not all ranks were seen.

    Args:
        primitive, ranks: of the calls; how many ranks their group has.
        calls: how many.
        missing: the ranks without a trace; empty where the traces do not tell, or where all are there and their calls do not
            pair off.
    """

    primitive: Primitive
    ranks: int
    calls: int
    missing: tuple[int, ...]


class UpperBound(NamedTuple):
    """Calls of traces that cannot be judged: a kernel waits for the slowest rank, and not all ranks were seen.

    Args:
        primitive, ranks, calls: how many calls, on how many ranks.
        missing: the ranks without a trace; empty where the traces do not tell, or all are there and their calls do not pair off.
        wire: the outermost tier that they cross.
    """

    primitive: Primitive
    ranks: int
    calls: int
    missing: tuple[int, ...]
    wire: str


class DiagnosisFinding(NamedTuple):
    """Something that is off, once for all series that share it.

    Args:
        series: their titles.
        size: ``large`` or ``small`` messages, or ``large and small``.
        low, high: the least and largest share of the expected rate among them.
        error: how far the fabric's own prices are from these times.
        causes: best first; empty where no price explains it.
        experiments: what would tell them apart, or confirm the only one, in this order.
        hints: what ``validate`` says of the series, where no cause is known.
    """

    series: tuple[str, ...]
    size: str
    low: float
    high: float
    error: float
    causes: tuple[Cause, ...]
    experiments: tuple[Experiment, ...]
    hints: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Result):
    """What logs and traces say of a machine; ``expect`` is the bar, a share of the expected rate.

    ``bounds`` are calls that say nothing of a wire, ``measure`` what would, ``left_out`` what of traces is in no row.
    """

    subject: ClassVar[str] = "doctor"
    assumed: AssumedFabric
    expect: float
    series: tuple[SeriesHealth, ...]
    findings: tuple[DiagnosisFinding, ...]
    notes: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    bounds: tuple[UpperBound, ...] = ()
    measure: tuple[Experiment, ...] = ()
    left_out: tuple[LeftOutKernels, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything is as expected."""
        return not self.findings
