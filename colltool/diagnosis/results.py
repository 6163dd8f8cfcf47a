"""What ``validate`` and ``doctor`` return: frozen records in SI units.

:class:`Validation` and :class:`Diagnosis` are the results, the other records their parts. What they
say is held as statements, which views put into words.
"""

from typing import ClassVar, Literal, NamedTuple

from colltool.base.result import Result, result
from colltool.base.statements import NOTHING, Statement
from colltool.diagnosis.logged_channels import TopologyCompared
from colltool.diagnosis.thresholds import FASTER
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.logs.series import Series, Skipped
from colltool.logs.stated import StatedLine
from colltool.logs.traced_calls import LeftOutKernels
from colltool.logs.traced_series import UpperBound


class ValidatedPoint(NamedTuple):
    """One measured size against its price, the fastest among what the library ships."""

    bytes: float
    measured_s: float
    predicted_s: float
    relative_error: float  # predicted/measured - 1
    algorithm: str
    protocol: str
    busbw_measured_Bps: float
    busbw_expected_Bps: float
    bound: str  # what takes most of the price: ``latency``, ``bandwidth``, ``overhead``
    nearest: str  # the algorithm whose price is nearest to the measurement
    nearest_error: float
    spec: str = ""  # name of the algorithm for ``--algorithm``
    nearest_spec: str = ""  # name of the nearest for ``--algorithm``
    message: float = 0.0  # as :class:`colltool.logs.series.Point` has it

    @property
    def shown_bytes(self) -> float:
        """The size as the log has it: of one message of a stream."""
        return self.message or self.bytes

    @property
    def of_expected(self) -> float:
        """predicted/measured: the share of the expected bandwidth that was reached."""
        return self.predicted_s / self.measured_s


class Regime(NamedTuple):
    """Neighbouring sizes with the same bound, and their mean absolute relative error."""

    bound: str
    from_bytes: float
    to_bytes: float
    mape: float


class ValidatedSeries(NamedTuple):
    """A series compared with its prices. ``worst`` is the largest error, signed; ``findings`` are
    ordered, the most important first."""

    series: Series
    points: tuple[ValidatedPoint, ...]
    mape: float
    worst: float
    regimes: tuple[Regime, ...]
    findings: tuple[Statement, ...]


class SeriesHealth(NamedTuple):
    """One series against the fabric."""

    judged: ValidatedSeries
    wire: str  # the outermost tier it crosses
    large: float | None  # median share of the expected rate of large messages, None if not measured
    small: float | None  # the same of small messages
    low: bool  # one of them misses its bar
    bar: float  # the share that large messages must reach
    small_bar: float | None = None  # the share that small ones must reach

    @property
    def largest(self) -> ValidatedPoint:
        """The point of the largest size."""
        return self.judged.points[-1]

    @property
    def judgeable(self) -> bool:
        """Whether its sizes tell anything."""
        return self.large is not None or self.small is not None

    @property
    def too_fast(self) -> bool:
        """Whether large messages are faster than the fabric allows: another machine ran them."""
        return self.large is not None and self.large > FASTER


@result
class Validation(Result):
    """All series judged against one fabric; ``mape`` is over all points, ``max_mape`` a
    fraction."""

    subject: ClassVar[str] = "validate"
    fabric: str
    series: tuple[ValidatedSeries, ...]
    mape: float
    verdict: Statement
    skipped: tuple[Skipped, ...]
    max_mape: float | None = None
    overrides: tuple[tuple[str, str], ...] = ()
    readings: ModelOptions = USUAL
    # what each series reaches of its price, as doctor reads it, and the devices that logs name
    health: tuple[SeriesHealth, ...] = ()
    devices: tuple[str, ...] = ()
    # why the logs are of other hardware than the fabric; nothing where they may be of its own
    other_hardware: Statement = NOTHING

    @property
    def holds(self) -> bool:
        return self.max_mape is None or all(series.mape <= self.max_mape for series in self.series)


class AssumedFabric(NamedTuple):
    """The fabric that logs are compared with."""

    fabric: str  # empty without one
    overrides: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]
    hosts: tuple[str, ...]
    said: tuple[Statement, ...]  # what was read from the logs, and what was assumed
    # the usual NICs that fit the times, where the logs name none and the fabric's ``own`` do not
    # fit
    network: Statement = NOTHING
    own: Statement = NOTHING
    guessed: bool = False  # no device is named
    alike: tuple[str, ...] = ()  # where it is guessed, the machines that fit the times
    # of a fabric that the user named, why the logs are of other hardware
    other_hardware: Statement = NOTHING
    network_share: float | None = None  # what is reached of the line rate of ``network``
    network_factor: float = 1.0  # that line rate by the rate of its own


class Cause(NamedTuple):
    """A cause that the prices support."""

    name: str
    said: Statement
    look: str  # what reveals it on the machine
    # mean relative error of its prices on the times it explains; None for what no price is needed
    # to see
    error: float | None
    error_all: float | None  # the same on all sizes of these series


class Prediction(NamedTuple):
    """busbw and time at ``Experiment.bytes`` if a cause were true."""

    cause: str
    busbw_Bps: float
    seconds: float


class Experiment(NamedTuple):
    """What to run next."""

    command: str
    bytes: float
    # the outcome at ``bytes`` under each remaining cause; under a single one, also as the fabric
    # should be
    foretold: tuple[Prediction, ...]
    note: Statement = NOTHING
    hosts: int = 1


class DiagnosisFinding(NamedTuple):
    """Something that is off, once for all series that share it."""

    series: tuple[str, ...]  # titles
    size: str  # ``large``, ``small`` or ``large and small``
    low: float | None  # least share of the expected rate, None where nothing was measured
    high: float | None  # largest share of the expected rate
    error: float | None  # of the fabric's own prices
    causes: tuple[Cause, ...]  # best first
    experiments: tuple[Experiment, ...]  # what would tell the causes apart, in order
    hints: tuple[Statement, ...]  # findings of ``validate`` where no cause is known


HostState = Literal["slow", "in failed runs", "as the others"]


class FleetHost(NamedTuple):
    """A host, by the runs that it was in."""

    host: str
    runs: int  # with the host
    slow: int  # of these
    failed: int  # of these
    of_fleet: float | None  # median rate relative to runs of their kind
    state: HostState

    @property
    def bad(self) -> bool:
        return self.state != "as the others"


class FleetPair(NamedTuple):
    """Two hosts that ran together; ``of_fleet`` is the lowest rate of their runs, relative to runs
    of their kind."""

    a: str
    b: str
    of_fleet: float | None
    failed: int
    runs: int


class Fleet(NamedTuple):
    """Runs of several sets of hosts, compared. ``said`` tells what they show; ``files`` is the
    number of runs."""

    hosts: tuple[FleetHost, ...]
    pairs: tuple[FleetPair, ...]
    said: tuple[Statement, ...]
    files: int


@result
class Diagnosis(Result):
    """What logs and traces say of a machine."""

    subject: ClassVar[str] = "doctor"
    assumed: AssumedFabric
    expect: float  # the bar, a share of the expected rate
    series: tuple[SeriesHealth, ...]
    findings: tuple[DiagnosisFinding, ...]
    notes: tuple[Statement, ...]
    skipped: tuple[Skipped, ...]
    bounds: tuple[UpperBound, ...] = ()  # calls that say nothing of a wire
    measure: tuple[Experiment, ...] = ()  # what would say something of it
    left_out: tuple[LeftOutKernels, ...] = ()  # kernels in no row
    fleet: Fleet | None = None
    # bundled fabrics that the times fit, where they are faster than the one that they are held to
    fits: tuple[str, ...] = ()
    # what lines of the logs state, the worst first
    stated: tuple[StatedLine, ...] = ()
    # why times are not judged, where the logs state something and name no known machine
    unjudged: str = ""
    topology: TopologyCompared | None = None

    @property
    def too_fast(self) -> tuple[SeriesHealth, ...]:
        """The series that are faster than the fabric allows: it is not the machine that ran
        them."""
        return tuple(health for health in self.series if health.too_fast)

    @property
    def ok(self) -> bool:
        return not self.findings and not (self.fleet and any(host.bad for host in self.fleet.hosts))
