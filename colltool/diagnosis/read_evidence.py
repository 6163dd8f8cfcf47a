"""What files say of a machine: logs of benchmarks, lines of NCCL_DEBUG=INFO, traces; files that
cannot be used are named."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from os import PathLike, fspath
from typing import NamedTuple

from colltool.base.errors import ColltoolError, ManyErrors, printable, problems_of
from colltool.diagnosis.declared_causes import told
from colltool.diagnosis.evidence import Evidence, FailedLog
from colltool.logs.hardware_in_log import LoggedHardware, logged_hardware
from colltool.logs.log_file import is_empty, open_log
from colltool.logs.nccl_debug import debug_lines
from colltool.logs.pytorch_trace import is_trace
from colltool.logs.series import Measurements, Series
from colltool.logs.traced_calls import measured_calls

Path = str | PathLike[str]
ReadLogs = Callable[[Sequence[Path]], Measurements]


def evidence_of(paths: Sequence[Path], logs_of: ReadLogs) -> Evidence:
    """Evidence from traces and logs, told apart by content; empty and failed files among others are
    named and skipped."""
    paths = list(dict.fromkeys(paths))
    traces = [path for path in paths if is_trace(path)]
    others = [path for path in paths if path not in traces]
    hollow = [path for path in others if is_empty(fspath(path))]
    hollow = [] if len(hollow) == len(paths) else hollow
    others = [path for path in others if path not in hollow]
    read = _read(others, logs_of)
    readable = [path for path in others if path in read.runs or _is_text(path)]
    debug = debug_lines(readable)
    if not read.runs and not traces and not told(debug):
        raise read.problem
    named = logged_hardware(readable) if readable else LoggedHardware((), ())
    found = Evidence(
        logs=_run_by_run(read.runs, logs_of),
        named=named,
        empty=tuple(printable(fspath(path)) for path in hollow),
        debug=debug,
        failed=read.failed,
        hosts=(
            {printable(fspath(path)): logged_hardware([path]).hosts for path in read.runs}
            if len(read.runs) > 1
            else {}
        ),
    )
    return _with_traces(found, traces) if traces else found


def _with_traces(found: Evidence, traces: Sequence[Path]) -> Evidence:
    traced = measured_calls(traces)
    devices = tuple(dict.fromkeys((*found.named.devices, *traced.devices)))
    found = found._replace(
        named=LoggedHardware(devices, found.named.hosts),
        traced=traced.measurements.series,
        bounds=traced.bounds,
        left_out=traced.left_out,
        world=traced.world,
    )
    if not found.series and not found.bounds:
        why = f": {found.left_out[0].reason}" if found.left_out else ""
        what = f"the traces hold no collective whose time can be told{why}"
        raise ColltoolError(
            what, where=str(traces[0]), fix="give the traces of all ranks, or a log of nccl-tests"
        )
    return found


class _ReadFiles(NamedTuple):
    runs: dict[Path, Measurements]
    failed: tuple[FailedLog, ...]
    problem: ColltoolError


def _read(paths: Sequence[Path], logs_of: ReadLogs) -> _ReadFiles:
    """Each log by itself. What argues with an argument is an error; a file that cannot be used is
    one only where no other can."""
    runs: dict[Path, Measurements] = {}
    failed: list[FailedLog] = []
    problems: list[ColltoolError] = []
    for path in paths:
        try:
            runs[path] = logs_of([path])
        except ColltoolError as error:
            problems += problems_of(error)
            hosts = logged_hardware([path]).hosts if _is_text(path) else ()
            failed.append(FailedLog(printable(fspath(path)), problems_of(error)[0].what, hosts))
    problem = problems[0] if len(problems) == 1 else ManyErrors(problems)
    if any(one.argument for one in problems):
        raise problem
    return _ReadFiles(runs, tuple(failed), problem)


def _is_text(path: Path) -> bool:
    try:
        open_log(fspath(path))
    except ColltoolError:
        return False
    return True


def _run_by_run(read: dict[Path, Measurements], logs_of: ReadLogs) -> Measurements:
    """The series of logs, kept apart by file where several measure the same sizes: those are mostly
    of one host each, and a median of healthy hosts hides a bad one."""
    if len(read) < 2:
        return next(iter(read.values()), Measurements((), ()))
    together = logs_of(list(read))
    runs: dict[object, list[Series]] = defaultdict(list)
    group = attrgetter("primitive", "ranks", "nodes")
    for path, measured in read.items():
        for one in measured.series:
            runs[group(one)].append(one._replace(run=printable(fspath(path))))
    found: list[Series] = []
    for one in together.series:
        several = runs[group(one)]
        # a series has each size once
        sizes = Counter(point.bytes for run in several for point in run.points)
        again = any(times > 1 for times in sizes.values())
        found += several if again else [one]
    return together._replace(series=tuple(found))
