"""What files say of a machine: logs of benchmarks, lines of NCCL_DEBUG=INFO, traces; files that
cannot be used are named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from os import PathLike, fspath
from typing import NamedTuple

from colltool.base.errors import ColltoolError, ManyErrors, printable, problems_of
from colltool.diagnosis.evidence import Evidence, FailedLog
from colltool.logs.debug_conclusions import stated_together
from colltool.logs.debug_record import DebugLines
from colltool.logs.hardware_in_log import LoggedHardware, logged_hardware
from colltool.logs.log_file import is_empty, is_text
from colltool.logs.nccl_debug import debug_lines
from colltool.logs.pytorch_trace import is_trace
from colltool.logs.records import NoTable, WrongValues
from colltool.logs.series import Measurements, Series
from colltool.logs.stated import StatedLine
from colltool.logs.traced_series import measured_calls

Path = str | PathLike[str]
ReadLogs = Callable[[Sequence[Path]], Measurements]


def evidence_of(paths: Sequence[Path], logs_of: ReadLogs) -> Evidence:
    """Evidence from traces and logs; empty and failed files among others are named and skipped."""
    paths = list(dict.fromkeys(paths))
    # by content: names of files say nothing
    traces = [path for path in paths if is_trace(path)]
    logs = [path for path in paths if path not in traces]
    empty = [path for path in logs if is_empty(fspath(path))]
    if len(empty) == len(paths):
        empty = []  # reading them raises the error that says so
    read = _read([path for path in logs if path not in empty], logs_of)
    debug = debug_lines(read.texts)
    stated = stated_together(debug)
    wrong = [error for error in read.problems if isinstance(error, WrongValues)]
    if not read.runs and not traces and not wrong and not _says_enough(debug, stated, read):
        raise read.problem
    # which hosts ran together matters only where several files can be compared
    hosts = {}
    if len(read.runs) > 1:
        hosts = {_name(path): logged_hardware([path]).hosts for path in read.runs}
    found = Evidence(
        logs=_run_by_run(read.runs, logs_of),
        named=logged_hardware(read.texts),
        empty=tuple(map(_name, empty)),
        debug=debug,
        failed=(*read.failed, *_failed_runs(read.runs, stated)),
        hosts=hosts,
        stated=stated,
        wrong=tuple(wrong),
    )
    return _with_traces(found, traces) if traces else found


def _says_enough(debug: DebugLines, stated: Sequence[StatedLine], read: _ReadFiles) -> bool:
    """Whether logs without times are worth an answer: they state something that is off, or are
    nothing but lines of NCCL."""
    if any(found.kind != "fact" for found in stated):
        return True
    # NCCL_IB_HCA may restrict the NICs; a table that cannot be read has a reason of its own
    own = debug.describes_machine or debug.messages
    return bool(own) and all(isinstance(problem, NoTable) for problem in read.problems)


def _failed_runs(
    runs: Mapping[Path, Measurements], stated: Sequence[StatedLine]
) -> Iterator[FailedLog]:
    """Files with times whose run ended before its end."""
    failed = {found.file: found.means for found in reversed(stated) if found.kind == "failed"}
    for path in runs:
        name = _name(path)
        if name in failed:
            yield FailedLog(name, failed[name], logged_hardware([path]).hosts)


def _name(path: Path) -> str:
    return printable(fspath(path))


def _with_traces(found: Evidence, traces: Sequence[Path]) -> Evidence:
    """Add what traces measured; ColltoolError where nothing at all was."""
    traced = measured_calls(traces)
    devices = dict.fromkeys((*found.named.devices, *traced.devices))
    found = found._replace(
        named=LoggedHardware(tuple(devices), found.named.hosts),
        traced=traced.measurements.series,
        bounds=traced.bounds,
        left_out=traced.left_out,
        world=traced.world,
    )
    if not found.series and not found.bounds:
        what = "the traces hold no collective whose time can be told"
        if found.left_out:
            what += f": {found.left_out[0].reason}"
        raise ColltoolError(
            what, where=str(traces[0]), fix="give the traces of all ranks, or a log of nccl-tests"
        )
    return found


class _ReadFiles(NamedTuple):
    """The measurements of each file that holds any. ``texts``: files whose lines can be read,
    whether they hold measurements or not. ``problems`` of files that cannot be used."""

    runs: dict[Path, Measurements]
    texts: list[Path]
    failed: list[FailedLog]
    problems: list[ColltoolError]

    @property
    def problem(self) -> ColltoolError:
        """The error if no file can be used."""
        return self.problems[0] if len(self.problems) == 1 else ManyErrors(self.problems)


def _read(paths: Sequence[Path], logs_of: ReadLogs) -> _ReadFiles:
    """Read each log by itself. An argument that contradicts a log is an error; a file that cannot
    be used is an error only where no other can be used."""
    runs: dict[Path, Measurements] = {}
    texts: list[Path] = []
    failed: list[FailedLog] = []
    problems: list[ColltoolError] = []
    for path in paths:
        try:
            runs[path] = logs_of([path])
            texts.append(path)
        except ColltoolError as error:
            found = problems_of(error)
            problems += found
            hosts: tuple[str, ...] = ()
            if is_text(fspath(path)):
                texts.append(path)
                hosts = logged_hardware([path]).hosts
            failed.append(FailedLog(_name(path), found[0].what, hosts))
    read = _ReadFiles(runs, texts, failed, problems)
    if any(error.argument for error in problems):
        raise read.problem
    return read


def _run_by_run(read: dict[Path, Measurements], logs_of: ReadLogs) -> Measurements:
    """The series of logs, kept apart by file where several files measure the same sizes. Those are
    mostly of one host each, and a median of healthy hosts would hide a bad one. Files of the ranks
    of one communicator stay together."""
    if len(read) < 2:
        return next(iter(read.values()), Measurements((), ()))
    together = logs_of(list(read))
    group = attrgetter("primitive", "ranks", "nodes")
    runs: dict[object, list[Series]] = defaultdict(list)
    for path, measured in read.items():
        for series in measured.series:
            runs[group(series)].append(series._replace(run=_name(path)))
    found: list[Series] = []
    for series in together.series:
        several = runs[group(series)]
        if series.joined or not _share_sizes(several):
            found.append(series)
        else:
            found += several
    return together._replace(series=tuple(found))


def _share_sizes(runs: Sequence[Series]) -> bool:
    """Whether some size was measured in several runs; a series has each size once."""
    seen: set[float] = set()
    for run in runs:
        sizes = {point.bytes for point in run.points}
        if sizes & seen:
            return True
        seen |= sizes
    return False
