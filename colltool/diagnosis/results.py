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
    """One measured size against its price, the fastest among what the library ships.

    Sizes are M as nccl-tests counts it, algorithms by title where nothing else is said.
    """

    bytes: float
    measured_s: float
    predicted_s: float
    relative_error: float  # predicted/measured - 1
    algorithm: str
    protocol: str
    busbw_measured_Bps: float
    busbw_expected_Bps: float
    bound: (
        str  # what takes most of the price: ``latency``, ``bandwidth``, ``overhead``, ``software``
    )
    nearest: str  # the algorithm whose price is nearest to the measurement
    nearest_error: float  # its price/measured - 1
    spec: str = ""  # name of the algorithm for ``--algorithm``
    nearest_spec: str = ""  # name of the nearest for ``--algorithm``
    # bytes of each message where ``bytes`` are a stream of several, else 0
    message: float = 0.0

    @property
    def shown_bytes(self) -> float:
        """The size as the log has it: of one message of a stream."""
        return self.message or self.bytes

    @property
    def of_expected(self) -> float:
        """predicted/measured: the share of the expected bandwidth that was reached."""
        return self.predicted_s / self.measured_s


class Regime(NamedTuple):
    """Neighbouring sizes with the same bound."""

    bound: str
    from_bytes: float  # the smallest of them
    to_bytes: float  # the largest of them
    mape: float  # mean absolute relative error, a fraction


class ValidatedSeries(NamedTuple):
    """A series compared with its prices."""

    series: Series
    points: tuple[ValidatedPoint, ...]  # ascending by size, never empty
    mape: float  # mean absolute relative error, a fraction
    worst: float  # the largest relative error, signed
    regimes: tuple[Regime, ...]  # ascending by size
    findings: tuple[Statement, ...]  # the most important first


class SeriesHealth(NamedTuple):
    """What a series reaches of its price on the fabric, by its size classes (large and small
    messages, :mod:`colltool.diagnosis.size_classes`)."""

    judged: ValidatedSeries
    wire: str  # the outermost tier it crosses, by name
    # median share of the expected rate of large messages; None where the series has none that tell
    large: float | None
    small: float | None  # the same of small messages
    low: bool  # one of them misses its bar, or the rate collapses
    bar: float  # the share that large messages must reach
    small_bar: float | None = None  # the share that small ones must reach; None as ``small``

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
    """All series judged against one fabric."""

    subject: ClassVar[str] = "validate"
    fabric: str  # its name
    series: tuple[ValidatedSeries, ...]
    mape: float  # over all points, a fraction
    verdict: Statement  # which sizes the prices can be trusted for
    skipped: tuple[Skipped, ...]  # rows of the logs that were left out
    max_mape: float | None = None  # the most that the user allows of each series; None for no limit
    overrides: tuple[tuple[str, str], ...] = ()  # of the fabric
    readings: ModelOptions = USUAL
    # what each series reaches of its price, as doctor reads it, and the devices that logs name
    health: tuple[SeriesHealth, ...] = ()
    devices: tuple[str, ...] = ()
    # why the logs are of other hardware than the fabric; nothing where they may be of its own
    other_hardware: Statement = NOTHING

    @property
    def holds(self) -> bool:
        """Whether every series is within the error that the user allows; True without a limit."""
        return self.max_mape is None or all(series.mape <= self.max_mape for series in self.series)


class AssumedFabric(NamedTuple):
    """The fabric that logs are compared with."""

    fabric: str  # its name, empty without one
    overrides: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]  # that logs name
    hosts: tuple[str, ...]  # that logs name
    said: tuple[Statement, ...]  # what was read from the logs, and what was assumed
    # the usual NICs that fit the times, where the logs name none and the fabric's own do not fit
    network: Statement = NOTHING
    own: Statement = NOTHING  # the fabric's own NICs, where runs went over several hosts
    guessed: bool = False  # no device is named
    alike: tuple[str, ...] = ()  # where it is guessed, the machines that fit the times
    # of a fabric that the user named, why the logs are of other hardware
    other_hardware: Statement = NOTHING
    network_share: float | None = None  # what is reached of the line rate of ``network``
    network_factor: float = 1.0  # line rate of ``network`` over that of ``own``


class Cause(NamedTuple):
    """What makes times slow: a cause that the prices support, or that a log states."""

    name: str
    said: Statement
    look: str  # what reveals it on the machine, or what to do
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
    bytes: float  # the size at which the causes are told apart
    # the outcome at ``bytes`` under each remaining cause; under a single one, also as the fabric
    # should be
    foretold: tuple[Prediction, ...]
    note: Statement = NOTHING  # what to do or to mind beside it: repeat it on the other hosts
    hosts: int = 1  # that it runs on


class DiagnosisFinding(NamedTuple):
    """Something that is off, once for all series that share it."""

    series: tuple[str, ...]  # titles
    size: str  # ``large``, ``small`` or ``large and small``; empty where only a log states it
    low: float | None  # least share of the expected rate, None where nothing was measured
    high: float | None  # largest share of the expected rate
    error: float | None  # of the fabric's own prices, by log ratio; None as ``low``
    causes: tuple[Cause, ...]  # best first
    experiments: tuple[Experiment, ...]  # what would tell the causes apart, in order
    hints: tuple[Statement, ...]  # findings of ``validate`` where no cause is known


HostState = Literal["slow", "in failed runs", "as the others"]


class FleetHost(NamedTuple):
    """A host, by the runs that it was in."""

    host: str
    runs: int  # with the host
    slow: int  # how many of these are slow
    failed: int  # how many of these failed
    of_fleet: float | None  # median rate relative to runs of their kind; None where all failed
    state: HostState

    @property
    def bad(self) -> bool:
        """Whether the host is slow, or one that may be why runs failed."""
        return self.state != "as the others"


class FleetPair(NamedTuple):
    """Two hosts that ran together."""

    a: str
    b: str
    of_fleet: float | None  # lowest rate relative to runs of their kind; None where all failed
    failed: int  # how many of ``runs`` failed
    runs: int  # of these two hosts alone


class Fleet(NamedTuple):
    """Runs of several sets of hosts, compared."""

    hosts: tuple[FleetHost, ...]  # by name
    pairs: tuple[FleetPair, ...]  # by name
    said: tuple[Statement, ...]  # what the runs show
    files: int  # how many there are: a run each, with one series or several


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
    bounds: tuple[UpperBound, ...] = ()  # traced calls known only as upper bounds: not judged
    measure: tuple[Experiment, ...] = ()  # what to run to learn of the tiers that they cross
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
        """Whether nothing is off, by the times and by what the logs state."""
        return not self.findings and not (self.fleet and any(host.bad for host in self.fleet.hosts))
