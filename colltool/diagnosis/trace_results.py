"""What ``trace`` returns: :class:`TraceComparison`; the other records are its parts.

A call is one collective of the job, seen by the kernels of one or several traced ranks. Its time is
an upper bound (``bound``) where it may contain a wait for a rank without a trace. Seconds are of one
call or of all, as the names say; *exposed* is what no compute kernel of the rank covers.
"""

from typing import ClassVar, Literal, NamedTuple

from colltool.base.primitives import Primitive, busbw_factor
from colltool.base.result import Result, result
from colltool.base.statements import Statement
from colltool.diagnosis.rank_map import RankMap
from colltool.diagnosis.replay import Replayed
from colltool.diagnosis.results import SeriesHealth
from colltool.logs.activity import RankActivity
from colltool.logs.traced_calls import LeftOutKernels
from colltool.training.parallel_config import Axes


class TracedCall(NamedTuple):
    """One collective call."""

    primitive: Primitive
    bytes: int  # M as nccl-tests counts it
    dtype: str
    group: str  # description of its process group
    group_size: int
    ranks: tuple[int, ...]  # the two ends for a point-to-point, empty where the trace lists none
    places: tuple[int, ...]  # their fabric ranks, ascending
    axes: Axes  # the (size, stride) of each axis along which those lie, innermost first
    kernel: str  # algorithm and protocol in the kernel's name
    algorithm: str  # what of it is reliable
    protocol: str  # what of it is reliable
    coalesced: bool  # several tensors at once, priced as one
    measured_s: float  # of the rank that waited least
    bound: bool  # that is an upper bound: ranks are untraced, or an all-to-all is uneven
    longest_s: float  # of the rank that waited most
    exposed_s: float  # the part of ``measured_s`` that no compute kernel covers
    seen: int  # how many traced ranks have it
    inside: tuple[int, ...]  # indices of the files in which the call began in a step
    expected_s: float | None  # the price; None where ``reason`` says why
    latency_s: float | None  # the part of the price that does not grow with size
    runs: str  # the algorithm that is expected
    tiers: tuple[str, ...]  # that it crosses, innermost first
    reason: Statement  # why there is no price; NOTHING where there is one


class CallTotal(NamedTuple):
    """Calls of one kind of group, primitive and size; fields as those of :class:`TracedCall`."""

    group: str
    group_size: int
    axes: Axes
    primitive: Primitive
    bytes: int
    dtype: str
    coalesced: bool
    kernel: str  # the names of all kernels, joined by commas
    calls: int  # how many
    each_s: float  # median time
    bound: bool  # some times are upper bounds
    total_s: float  # over all calls
    exposed_s: float  # over all calls
    expected_s: float | None  # of each call
    runs: str  # the algorithm that is expected
    tiers: tuple[str, ...]
    reason: Statement
    share: float  # of the steps' time of all traced ranks that is in these calls
    a_step: float  # calls per step (or per trace without steps) of the rank that makes most

    @property
    def of_expected(self) -> float | None:
        """Expected over measured time: 0.5 where it takes twice as long; None without a price."""
        return None if self.expected_s is None else self.expected_s * self.calls / self.total_s

    @property
    def busbw_Bps(self) -> float:
        """Bus bandwidth at the median time, bytes/s as nccl-tests counts it."""
        return self.bytes / self.each_s * busbw_factor(self.primitive, self.group_size)

    @property
    def exposed(self) -> float:
        """The share of their time that no compute covers."""
        return self.exposed_s / self.total_s


LinkVerdict = Literal["slow", "fine", "unknown"]


class LinkHealth(NamedTuple):
    """Priced calls whose outermost tier is this one, and whether it is slow."""

    tier: str
    innermost: bool  # it is the fabric's first tier
    calls: int  # how many
    clear: int  # how many of these are no upper bounds
    measured_s: float  # of all
    exposed_s: float  # of all
    expected_s: float  # of all
    # expected over measured time of the clear ones; of all where none is, a lower bound
    of_expected: float
    share: float  # of the steps' time of all traced ranks that is in these calls
    exposed: float  # the exposed part of that share
    bar: float  # share of expected below which it is slow
    verdict: LinkVerdict  # ``unknown``: below the bar, but by upper bounds only
    # inner tiers that may be slow instead, since the same calls cross them and no others clear them
    beside: tuple[str, ...]
    # ranks without a trace; of several groups the fewest that complete one
    missing: tuple[int, ...]
    why: Statement  # why calls are upper bounds
    measure: str  # a benchmark for this tier alone
    note: Statement  # a reason to doubt the verdict


class RankWait(NamedTuple):
    """A traced rank, and how long it waited for others."""

    rank: int | None  # None where its trace does not say
    file: str
    calls: int  # that other traced ranks made too
    last: int  # how often it came last
    wait_s: float  # for others, over all these calls


class CallWait(NamedTuple):
    """Calls of one primitive and group size that several traced ranks made."""

    primitive: Primitive
    group_size: int
    calls: int
    wire_s: float  # over all calls, of the rank that waited least
    wait_s: float  # over all calls, beyond that, mean per rank


class Waits(NamedTuple):
    """Waiting by rank and by collective; both empty where no call was seen by two ranks."""

    ranks: tuple[RankWait, ...]
    collectives: tuple[CallWait, ...]


class UnpricedKernels(NamedTuple):
    """Communication kernels of one name of which no bytes are known."""

    kernel: str
    calls: int  # how many kernels
    total_s: float  # of all
    exposed_s: float  # the part of that which no compute covers


class TraceFile(NamedTuple):
    """One trace file."""

    file: str
    rank: int | None  # None where it does not say
    steps: int  # 0 where it marks none
    window_s: float  # time of its steps, of all of it without steps
    calls: int  # kernels that are calls with known bytes
    broken: bool  # truncated or damaged


class TraceFinding(NamedTuple):
    """The calls of one primitive and rank count as ``doctor`` and ``validate`` read them."""

    series: str
    findings: tuple[Statement, ...]
    health: SeriesHealth


@result
class TraceComparison(Result):
    """The collectives of PyTorch profiler traces against a fabric's prices."""

    subject: ClassVar[str] = "trace"
    fabric: str
    overrides: tuple[tuple[str, str], ...]
    library: str
    rank_map: RankMap
    files: tuple[TraceFile, ...]
    world: int | None  # ranks of the job as the traces say
    device: str  # name of the GPUs, empty where no trace says it
    nccl: str  # version, empty where no trace says it
    window_s: float  # time of all steps of all ranks (of whole traces without steps)
    totals: tuple[CallTotal, ...]
    calls: tuple[TracedCall, ...]
    wires: tuple[LinkHealth, ...]
    left_out: tuple[LeftOutKernels, ...]
    findings: tuple[TraceFinding, ...]
    job: str  # text of a job file with one step's calls
    activity: tuple[RankActivity, ...]
    waits: Waits
    unpriced: tuple[UnpricedKernels, ...] = ()
    replayed: tuple[Replayed, ...] = ()  # of Chakra traces
    assumed: tuple[Statement, ...] = ()  # what was assumed of the groups of calls
    against: "TraceComparison | None" = None  # another trace of the job, to compare with

    @property
    def steps(self) -> int:
        """Steps of all files together."""
        return sum(file.steps for file in self.files)

    @property
    def share(self) -> float:
        """Share of the steps' time that is communication of any kind; kernels that run at once
        count once."""
        return self._in_steps(sum(activity.comm_in_steps_s for activity in self.activity))

    @property
    def exposed(self) -> float:
        """Share of the steps' time that is communication that no compute covers, waiting
        included."""
        return self._in_steps(sum(activity.exposed_in_steps_s for activity in self.activity))

    @property
    def overlap(self) -> float | None:
        """Share of the communication time of all ranks that compute covers; None without
        communication."""
        comm_s = sum(activity.comm_s for activity in self.activity)
        return sum(activity.both_s for activity in self.activity) / comm_s if comm_s else None

    def _in_steps(self, seconds: float) -> float:
        """Seconds of all ranks as a share of their steps' time; 0 without any."""
        window_s = sum(activity.window_s for activity in self.activity)
        return seconds / window_s if window_s else 0.0

    @property
    def of_expected(self) -> float | None:
        """Expected over measured time of all priced calls; None without any."""
        measured_s = 0.0
        expected_s = 0.0
        for total in self.totals:
            if total.expected_s is not None:
                measured_s += total.total_s
                expected_s += total.expected_s * total.calls
        return expected_s / measured_s if measured_s else None
