"""What files say of a machine (:func:`evidence_of`): logs of benchmarks, lines of NCCL_DEBUG=INFO,
traces; files that cannot be used are named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from os import PathLike, fspath
from typing import NamedTuple

from colltool.base.errors import ColltoolError, printable, problems_of
from colltool.diagnosis.evidence import Evidence, FailedLog
from colltool.logs.debug_conclusions import stated_together
from colltool.logs.debug_record import DebugLines
from colltool.logs.hardware_in_log import LoggedHardware, logged_hardware
from colltool.logs.log_file import is_empty, is_text
from colltool.logs.nccl_debug import debug_lines
from colltool.logs.pytorch_trace import is_trace
from colltool.logs.records import NoTable, WrongValues, one_error
from colltool.logs.series import Measurements, Series
from colltool.logs.stated import StatedLine
from colltool.logs.traced_series import measured_calls

Path = str | PathLike[str]
ReadLogs = Callable[[Sequence[Path]], Measurements]
"""The reader of benchmarks, with what the caller says about them; raises ColltoolError for files
without a usable table."""


def evidence_of(paths: Sequence[Path], logs_of: ReadLogs) -> Evidence:
    """Evidence from traces and logs; empty and failed files among others are named and skipped.

    Raises:
        ColltoolError: no file says anything, or a log contradicts the caller.
    """
    paths = list(dict.fromkeys(paths))
    # told apart by content: names of files say nothing
    traces = [path for path in paths if is_trace(path)]
    logs = [path for path in paths if path not in traces]
    empty = [path for path in logs if is_empty(fspath(path))]
    if len(empty) == len(paths):
        empty = []  # reading them raises the error that says so
    read = _read([path for path in logs if path not in empty], logs_of)
    debug = debug_lines(read.texts)
    stated = stated_together(debug)
    wrong = [error for error in read.problems if isinstance(error, WrongValues)]
    has_times = read.runs or traces or wrong
    if not has_times and not _says_enough(debug, stated, read):
        raise read.problem
    # which hosts ran together matters only where several files can be compared
    hosts = {}
    if len(read.runs) > 1:
        hosts = {_name(path): logged_hardware([path]).hosts for path in read.runs}
    evidence = Evidence(
        logs=_run_by_run(read.runs, logs_of),
        named=logged_hardware(read.texts),
        empty=tuple(map(_name, empty)),
        debug=debug,
        failed=(*read.failed, *_failed_runs(read.runs, stated)),
        hosts=hosts,
        stated=stated,
        wrong=tuple(wrong),
    )
    return _with_traces(evidence, traces) if traces else evidence


def _says_enough(debug: DebugLines, stated: Sequence[StatedLine], read: _ReadFiles) -> bool:
    """Whether logs without times are worth an answer: they state something that is off, or are
    nothing but lines of NCCL."""
    if any(line.kind != "fact" for line in stated):
        return True
    # a table that cannot be read has a reason of its own, which is the better answer
    has_lines_of_nccl = debug.describes_machine or bool(debug.messages)
    return has_lines_of_nccl and all(isinstance(problem, NoTable) for problem in read.problems)


def _failed_runs(
    runs: Mapping[Path, Measurements], stated: Sequence[StatedLine]
) -> Iterator[FailedLog]:
    """Files with times whose run ended before its end."""
    # reversed: the first failure of a file counts
    reason_of = {line.file: line.means for line in reversed(stated) if line.kind == "failed"}
    for path in runs:
        name = _name(path)
        if name in reason_of:
            yield FailedLog(name, reason_of[name], logged_hardware([path]).hosts)


def _name(path: Path) -> str:
    """A file as it is named in what people read."""
    return printable(fspath(path))


def _with_traces(evidence: Evidence, traces: Sequence[Path]) -> Evidence:
    """Evidence with what traces measured as well; ColltoolError where nothing at all was."""
    traced = measured_calls(traces)
    devices = dict.fromkeys((*evidence.named.devices, *traced.devices))
    evidence = evidence._replace(
        named=LoggedHardware(tuple(devices), evidence.named.hosts),
        traced=traced.measurements.series,
        bounds=traced.bounds,
        left_out=traced.left_out,
        world=traced.world,
    )
    if not evidence.series and not evidence.bounds:
        what = "the traces hold no collective whose time can be told"
        if evidence.left_out:
            what += f": {evidence.left_out[0].reason}"
        raise ColltoolError(
            what, where=str(traces[0]), fix="give the traces of all ranks, or a log of nccl-tests"
        )
    return evidence


class _ReadFiles(NamedTuple):
    """What became of each log."""

    runs: dict[Path, Measurements]  # of files that hold measurements
    texts: list[Path]  # whose lines can be read, whether they hold measurements or not
    failed: list[FailedLog]  # that cannot be used
    problems: list[ColltoolError]  # why, one or more of each such file

    @property
    def problem(self) -> ColltoolError:
        """The error if no file can be used."""
        return one_error(self.problems)


def _read(paths: Sequence[Path], logs_of: ReadLogs) -> _ReadFiles:
    """Read each log by itself. A file that cannot be used is kept as a problem; ColltoolError only
    where an argument of the caller contradicts a log."""
    runs: dict[Path, Measurements] = {}
    texts: list[Path] = []
    failed: list[FailedLog] = []
    problems: list[ColltoolError] = []
    for path in paths:
        try:
            runs[path] = logs_of([path])
            texts.append(path)
        except ColltoolError as error:
            file_problems = problems_of(error)
            problems += file_problems
            hosts: tuple[str, ...] = ()
            if is_text(fspath(path)):
                texts.append(path)
                hosts = logged_hardware([path]).hosts
            failed.append(FailedLog(_name(path), file_problems[0].what, hosts))
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
    kind_of = attrgetter("primitive", "ranks", "nodes")
    runs: dict[object, list[Series]] = defaultdict(list)  # of each kind, by file
    for path, measured in read.items():
        for series in measured.series:
            runs[kind_of(series)].append(series._replace(run=_name(path)))
    kept: list[Series] = []
    for series in together.series:
        by_file = runs[kind_of(series)]
        if series.joined or not _share_sizes(by_file):
            kept.append(series)
        else:
            kept += by_file
    return together._replace(series=tuple(kept))


def _share_sizes(runs: Sequence[Series]) -> bool:
    """Whether some size was measured in several runs; a series has each size once."""
    sizes_before: set[float] = set()
    for run in runs:
        sizes = {point.bytes for point in run.points}
        if sizes & sizes_before:
            return True
        sizes_before |= sizes
    return False
