"""Calls of traces as measured series, as benchmarks give them: only those whose times include no wait."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from os import PathLike, fspath
from statistics import median
from typing import NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import AnyPath
from colltool.base.primitives import P2P, Primitive
from colltool.diagnosis.doctor import Evidence
from colltool.diagnosis.results import BoundedCalls, LeftOutKernels
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.measurements.devices import LoggedHardware, logged_hardware
from colltool.measurements.log import is_empty
from colltool.measurements.series import Measurements, Point, Series
from colltool.traces.calls import RankTrace, left_out, merged_calls, missing, read_traces, world_of
from colltool.traces.reader import is_trace
from colltool.traces.results import TracedCall, TraceFinding

MESSAGE = "messages: their two ends are measured apart"
SPREAD = "groups of other than consecutive ranks, or that do not begin at a multiple of their size: no benchmark runs on them"


class TracedSeries(NamedTuple):
    """What traces measure: ``measurements`` of calls with every rank traced, ``bounds`` for those with upper bounds only, most
    calls first, ``left_out`` for the rest."""

    measurements: Measurements
    devices: tuple[str, ...]
    world: int | None
    bounds: tuple[BoundedCalls, ...]
    left_out: tuple[LeftOutKernels, ...]


Path = str | PathLike[str]
MeasuredCall = tuple[Primitive, int, int, float]  # number of ranks, which start at a multiple of it; bytes, seconds


def measured_calls(files: Sequence[AnyPath]) -> TracedSeries:
    """The series of traces, without a fabric."""
    traces = read_traces(files)
    calls: list[MeasuredCall] = []
    bounds: Counter[tuple[Primitive, int, tuple[int, ...]]] = Counter()
    unseen = lru_cache(maxsize=None)(lambda ranks: missing(ranks, traces))
    others: dict[str, list[str]] = defaultdict(list)
    for one in merged_calls(traces):
        call, first = one.call, one.call.ranks[0] if one.call.ranks else 0
        spread = call.ranks and (call.ranks[-1] - first >= call.size or first % call.size)
        if why := MESSAGE if call.primitive is P2P else SPREAD if spread else "":
            others[why].append(traces[one.traces[0]].file)
        elif one.bound:
            bounds[call.primitive, call.size, unseen(call.ranks)] += 1
        else:
            calls.append((call.primitive, call.size, call.bytes, one.shortest.seconds))
    devices = tuple(dict.fromkeys(one.device for one in traces if one.device))
    apart = tuple(LeftOutKernels(why, len(where), where[0]) for why, where in others.items())
    upper = tuple(BoundedCalls(primitive, ranks, n, who) for (primitive, ranks, who), n in bounds.most_common())
    return TracedSeries(
        Measurements(series_of(calls, traces), ()), devices, world_of(traces), bounds=upper, left_out=(*left_out(traces), *apart)
    )


def series_of(calls: Iterable[MeasuredCall], traces: Sequence[RankTrace]) -> tuple[Series, ...]:
    """Series by primitive and rank count, with the median of each size's calls."""
    times: dict[tuple[Primitive, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for primitive, ranks, size, seconds in calls:
        times[primitive, ranks][size].append(seconds)
    files = tuple(one.file for one in traces)
    amd = any(one.device.startswith("AMD") for one in traces)  # PyTorch calls RCCL nccl, its kernels too
    library, version = "RCCL" if amd else "NCCL", next((one.nccl for one in traces if one.nccl), "")
    found = []
    for (primitive, ranks), by_size in sorted(times.items()):
        sizes = sorted(by_size.items())
        points = (Point(float(size), median(some), min(some), max(some), len(some), files[0]) for size, some in sizes)
        found.append(Series(primitive, ranks, None, tuple(points), library, version, files=files))
    return tuple(found)


def judged(
    fabric: Fabric, calls: Sequence[TracedCall], traces: Sequence[RankTrace], readings: Readings
) -> tuple[TraceFinding, ...]:
    """Findings of ``validate`` on the calls of consecutive ranks."""
    from colltool.diagnosis.validate import validate

    found = []
    usable = (call for call in calls if not call.bound and not call.reason and call.primitive is not P2P)
    packed = (call for call in usable if call.axes == ((call.group_size, 1),))
    measured = [(call.primitive, call.group_size, call.bytes, call.measured_s) for call in packed]
    for series in series_of(measured, traces):
        try:
            (one,) = validate(fabric, Measurements((series,), ()), readings=readings).series
        except ColltoolError:  # impossible times, or nothing shipped runs here
            continue
        if one.findings:
            found.append(TraceFinding(series.title, tuple(one.findings)))
    return tuple(found)


def evidence_of(paths: Sequence[Path], logs_of: Callable[[Sequence[Path]], Measurements]) -> Evidence:
    """Evidence from traces and logs, told apart by content; empty files among others are named and skipped."""
    traces = [path for path in paths if is_trace(path)]
    others = [path for path in paths if path not in traces]
    hollow = [path for path in others if is_empty(fspath(path))]
    hollow = [] if len(hollow) == len(paths) else hollow
    others = [path for path in others if path not in hollow]
    empty = tuple(printable(fspath(path)) for path in dict.fromkeys(hollow))
    logs = _run_by_run(others, logs_of) if others else Measurements((), ())
    named = logged_hardware(others) if others else LoggedHardware((), ())
    if not traces:
        return Evidence(logs, named, empty=empty)
    traced = measured_calls(traces)
    devices = tuple(dict.fromkeys((*named.devices, *traced.devices)))
    found = Evidence(
        logs=logs,
        named=LoggedHardware(devices, named.hosts),
        traced=traced.measurements.series,
        bounds=traced.bounds,
        left_out=traced.left_out,
        world=traced.world,
        empty=empty,
    )
    if not found.series and not found.bounds:
        why = f": {found.left_out[0].reason}" if found.left_out else ""
        what = f"the traces hold no collective whose time can be told{why}"
        raise ColltoolError(what, where=str(traces[0]), fix="give the traces of all ranks, or a log of nccl-tests")
    return found


def _run_by_run(paths: Sequence[Path], logs_of: Callable[[Sequence[Path]], Measurements]) -> Measurements:
    """The series of logs, kept apart by file where several measure the same sizes: those are mostly of one host each, and a
    median of healthy hosts hides a bad one."""
    together = logs_of(paths)
    if len(paths) == 1:
        return together
    runs: dict[object, list[Series]] = defaultdict(list)
    group = attrgetter("primitive", "ranks", "nodes")
    for path in paths:
        for one in logs_of([path]).series:
            runs[group(one)].append(one._replace(run=printable(fspath(path))))
    found: list[Series] = []
    for one in together.series:
        several = runs[group(one)]
        sizes = Counter(point.bytes for run in several for point in run.points)  # a series has each size once
        again = any(times > 1 for times in sizes.values())
        found += several if again else [one]
    return together._replace(series=tuple(found))
