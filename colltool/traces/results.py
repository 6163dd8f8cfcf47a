"""What ``trace`` returns: every call, the same summed by group, primitive and size, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from colltool.base.primitives import Primitive, busbw_factor
from colltool.base.result import Result
from colltool.diagnosis.results import LeftOutKernels
from colltool.traces.rank_map import RankMap
from colltool.training.layout import Axes


class TracedCall(NamedTuple):
    """One collective call.

    Args:
        primitive, bytes, dtype: M by nccl-tests' convention.
        group: the description of its process group, empty where it has none.
        group_size: ranks of the group.
        ranks: them; of a message the two ends; empty where the trace does not list them.
        places: the ranks of the fabric that they are, ascending.
        axes: (size, stride) of each axis that these lie along, innermost first.
        kernel: algorithm and protocol as its kernel's name has them; ``algorithm`` and ``protocol``: what of it is true.
        coalesced: several tensors at once; ``bytes`` are of all, and the price is of one.
        measured_s: of the rank that waited least; ``bound``: an upper bound, for some ranks have no trace and may have been
            waited for, or the parts of an all-to-all are uneven.
        longest_s: of the rank that waited most; ``seen``: by so many ranks with a trace; ``inside``: of them those for which it
            began in a step, by their place among the files.
        exposed_s: of the measured time, what no compute kernel of the device covers.
        expected_s: by the fabric, with ``runs``, the algorithm, and the tiers it crosses; None where ``reason`` says why.
        latency_s: what of ``expected_s`` does not grow with the size.
    """

    primitive: Primitive
    bytes: int
    dtype: str
    group: str
    group_size: int
    ranks: tuple[int, ...]
    places: tuple[int, ...]
    axes: Axes
    kernel: str
    algorithm: str
    protocol: str
    coalesced: bool
    measured_s: float
    bound: bool
    longest_s: float
    exposed_s: float
    seen: int
    inside: tuple[int, ...]
    expected_s: float | None
    latency_s: float | None
    runs: str
    tiers: tuple[str, ...]
    reason: str


class CallTotal(NamedTuple):
    """Calls of one kind of group, primitive and size.

    Args:
        group, group_size, axes, primitive, bytes, dtype, coalesced, runs, tiers, reason, kernel: as of each call; ``kernel`` of
            all, joined.
        calls: how many.
        each_s: the median of their measured times; ``bound``: that of some is an upper bound.
        total_s, exposed_s: of all.
        expected_s: of each; None where ``reason`` says why.
        share: of the steps' time on a rank, those outside of steps left out.
        a_step: calls in a step of the rank that makes most; without steps in the whole trace.
    """

    group: str
    group_size: int
    axes: Axes
    primitive: Primitive
    bytes: int
    dtype: str
    coalesced: bool
    kernel: str
    calls: int
    each_s: float
    bound: bool
    total_s: float
    exposed_s: float
    expected_s: float | None
    runs: str
    tiers: tuple[str, ...]
    reason: str
    share: float
    a_step: float

    @property
    def of_expected(self) -> float | None:
        """Expected over measured time: 1 where the fabric's price is met, 0.5 where it takes twice as long."""
        return None if self.expected_s is None else self.expected_s * self.calls / self.total_s

    @property
    def busbw_Bps(self) -> float:
        """Bus bandwidth at the median time, bytes/s by nccl-tests' convention."""
        return self.bytes / self.each_s * busbw_factor(self.primitive, self.group_size)

    @property
    def exposed(self) -> float:
        return self.exposed_s / self.total_s


class LinkHealth(NamedTuple):
    """Calls whose outermost tier is this one, and whether it is slow; of those that have a price.

    Args:
        tier: by its name; ``innermost``: of the fabric's.
        calls: how many; ``clear``: of them those whose time waited for nobody.
        measured_s, exposed_s, expected_s: of all of them.
        of_expected: expected over measured time of the clear ones, by the median of each size; where there are none of all, and
            the wire reaches at least that.
        share: of the steps' time on a rank; ``exposed``: what of that is exposed.
        bar: the share of expected below which a wire is slow, as for ``doctor``.
        verdict: ``slow``, ``fine``, or ``unknown``: below the bar, and only upper bounds.
        beside: inner tiers that the same calls cross, and that no other call clears: one of them may be slow in its place.
        missing: ranks without a trace; of several groups those that it takes to complete one.
        why: the others are upper bounds; empty where all are clear.
        measure: the command line that measures this wire alone, by its largest series; empty where there is none.
        note: a reason not to trust the verdict; mostly empty.
    """

    tier: str
    innermost: bool
    calls: int
    clear: int
    measured_s: float
    exposed_s: float
    expected_s: float
    of_expected: float
    share: float
    exposed: float
    bar: float
    verdict: Literal["slow", "fine", "unknown"]
    beside: tuple[str, ...]
    missing: tuple[int, ...]
    why: str
    measure: str
    note: str


class TraceFile(NamedTuple):
    """One trace as it was read: ``broken`` where it ends too early or goes on as no JSON does."""

    file: str
    rank: int | None
    steps: int
    window_s: float
    calls: int
    broken: bool


class TraceFinding(NamedTuple):
    """What ``validate`` finds in the calls of one primitive on one number of ranks."""

    series: str
    findings: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class TraceComparison(Result):
    """The collectives of PyTorch profiler traces beside the prices of a fabric.

    ``window_s`` is the time of all steps of all ranks (of whole traces where none has steps), ``world`` the ranks of the job as
    the traces say, ``device`` and ``nccl`` what ran. ``rank_map`` says where its ranks sit. ``job`` is the text of a job file
    with the calls of a step.
    """

    subject: ClassVar[str] = "trace"
    fabric: str
    overrides: tuple[tuple[str, str], ...]
    library: str
    rank_map: RankMap
    files: tuple[TraceFile, ...]
    world: int | None
    device: str
    nccl: str
    window_s: float
    totals: tuple[CallTotal, ...]
    calls: tuple[TracedCall, ...]
    wires: tuple[LinkHealth, ...]
    left_out: tuple[LeftOutKernels, ...]
    findings: tuple[TraceFinding, ...]
    job: str

    @property
    def steps(self) -> int:
        return sum(file.steps for file in self.files)

    @property
    def share(self) -> float:
        return sum(total.share for total in self.totals)

    @property
    def exposed(self) -> float:
        return sum(total.share * total.exposed for total in self.totals)

    @property
    def of_expected(self) -> float | None:
        """Expected over measured time of all calls that have a price; None where none has."""
        priced = [total for total in self.totals if total.expected_s is not None]
        measured = sum(total.total_s for total in priced)
        return sum((total.expected_s or 0.0) * total.calls for total in priced) / measured if measured else None
