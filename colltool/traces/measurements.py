"""The calls of traces as series of measured sizes, as benchmarks give them: those alone whose times waited for nobody."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import median
from typing import NamedTuple

from colltool.base.inputs import AnyPath
from colltool.base.primitives import P2P, Primitive
from colltool.measurements.series import Measurements, Point, Series
from colltool.traces.merged import Merged, merged
from colltool.traces.observed import Observations
from colltool.traces.ranks import left_out, missing, read_traces, world_of
from colltool.traces.results import LeftOut

MESSAGE = "messages: their two ends are measured apart"
SPREAD = "groups of other than consecutive ranks, or that do not begin at a multiple of their size: no benchmark runs on them"


class Bounded(NamedTuple):
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


class TracedSeries(NamedTuple):
    """What traces measure as benchmarks do.

    Args:
        measurements: series of calls on consecutive ranks of which every one has a trace; may be none.
        devices: their names, each once.
        world: ranks of the job, None where the traces do not say.
        bounds: calls with upper bounds alone, most calls first.
        left_out: what is in neither.
    """

    measurements: Measurements
    devices: tuple[str, ...]
    world: int | None
    bounds: tuple[Bounded, ...]
    left_out: tuple[LeftOut, ...]


class Measured(NamedTuple):
    """A call by the seconds that it took, on the first so many ranks after a multiple of that number."""

    primitive: Primitive
    ranks: int
    bytes: int
    seconds: float


def measured_calls(files: Sequence[AnyPath]) -> TracedSeries:
    """The series of traces, without a fabric.

    Args:
        files: of one rank each, of one job.

    Raises:
        ColltoolError: as :func:`colltool.traces.ranks.read_traces`.
    """
    traces = read_traces(files)
    calls: list[Measured] = []
    bounds: Counter[tuple[Primitive, int, tuple[int, ...]]] = Counter()
    unseen = lru_cache(maxsize=None)(lambda ranks: missing(ranks, traces))
    others: dict[str, list[str]] = defaultdict(list)
    for one in merged(traces):
        call = one.call
        if why := _no_series(one):
            others[why].append(traces[one.traces[0]].file)
        elif one.bound:
            bounds[call.primitive, call.size, unseen(call.ranks)] += 1
        else:
            calls.append(Measured(call.primitive, call.size, call.bytes, one.shortest.seconds))
    devices = tuple(dict.fromkeys(one.device for one in traces if one.device))
    apart = tuple(LeftOut(why, len(where), where[0]) for why, where in others.items())
    return TracedSeries(
        measurements=Measurements(series_of(calls, traces), ()),
        devices=devices,
        world=world_of(traces),
        bounds=tuple(Bounded(primitive, ranks, n, who) for (primitive, ranks, who), n in bounds.most_common()),
        left_out=(*left_out(traces), *apart),
    )


def _no_series(one: Merged) -> str:
    """Why a call is none of a benchmark's; empty where it is."""
    call = one.call
    if call.primitive is P2P:
        return MESSAGE
    first = call.ranks[0] if call.ranks else 0
    return SPREAD if call.ranks and (call.ranks[-1] - first >= call.size or first % call.size) else ""


def series_of(calls: Iterable[Measured], traces: Sequence[Observations]) -> tuple[Series, ...]:
    """Series by primitive and ranks, ascending in size; of each size the median of its calls."""
    times: dict[tuple[Primitive, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        times[call.primitive, call.ranks][call.bytes].append(call.seconds)
    files = tuple(one.file for one in traces)
    amd = any(one.device.startswith("AMD") for one in traces)  # PyTorch calls RCCL nccl, and so are its kernels named
    return tuple(
        Series(
            primitive=primitive,
            ranks=ranks,
            nodes=None,
            points=tuple(
                Point(float(size), median(several), min(several), max(several), len(several), files[0])
                for size, several in sorted(sizes.items())
            ),
            library="RCCL" if amd else "NCCL",
            version=next((one.nccl for one in traces if one.nccl), ""),
            files=files,
        )
        for (primitive, ranks), sizes in sorted(times.items())
    )
