"""Logs of nccl-tests and rccl-tests: text of any generation, cut into runs with header and table,
and the JSON report (-J).

The report says the same as the text, with numbers at full precision.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either, printable
from colltool.measurements.busbw_ratio import UnusableRow, looks_like_a_row, rounding_interval
from colltool.measurements.nccl_runs import (
    IN,
    OUT,
    Cells,
    Columns,
    Device,
    NotModelled,
    TableRow,
    TestRun,
    records_of,
)
from colltool.measurements.series import (
    Format,
    Log,
    Note,
    ParsedLog,
    Record,
    UserHints,
    clean,
    open_log,
)

_STARTED = re.compile(r"Collective test starting: *(\S+)")
_CONCLUDED = re.compile(r"Collective test concluded: *(\S+)")
_PROCESS = re.compile(r"nThread (\d{1,6}) nGpus (\d{1,6}) ")
_RANK = re.compile(r"Rank +(\d{1,9}) +(?:Group +(-?\d+) +)?Pid +(\d+) +on +(\S+) +device")
_RANK_CUT = re.compile(r"# *Rank +\d")
_TESTS = re.compile(r"# *(nccl|rccl)-tests version (\S+)|\b(rccl)-tests: Version *(\S*)")
_LIBRARY = re.compile(r"\b(NCCL|RCCL) version *:? *(\d[\w.+:-]*)")
_LIBRARY_CODE = re.compile(r"nccl-library=(\d{4,6})\b")
_PROGRAM = re.compile(
    r"\b((?:all_?reduce|all_?gather|reduce_?scatter|alltoallv?|broadcast|reduce|sendrecv|gather|scatter|hypercube)_perf)(?:_mpi)?\b"
)
_SIGNS = (
    re.compile(
        rb"\bsize\s{1,99}count\s{1,99}type\b|\bbytes\s{1,99}N\s{1,99}type\b|Collective test"
        rb" starting"
    ),
    re.compile(_PROCESS.pattern.encode()),
    re.compile(
        rb"^[ \t]{0,40}\d{1,20}[ \t]{1,40}\d{1,20}[ \t]{1,40}[a-z]\w{0,20}[ \t][^\n]{0,80}\d\.\d",
        re.MULTILINE,
    ),
)
_TIMES = ("time", "cputime")
_AFTER_THE_HALVES = ("timestamp", "algo", "proto", "nchannels")
_HEAD = re.compile(r"(?:^|\s)(\d+)\s+\d+\s+[a-z]\w*(?=\s|$)")
_TAG = re.compile(r"\[\d{1,5}\](?=\s|$)")
_OTHER_UNIT = re.compile(r"\((ms|s|ns)\)")
_END = re.compile(r"# *Avg bus bandwidth")
# with a word that a line must contain, far cheaper to look for than the pattern
_HEADER = {
    _STARTED: "starting",
    _PROCESS: "nThread",
    _RANK: "Rank",
    _RANK_CUT: "Rank",
    _TESTS: "ccl-tests",
    _LIBRARY: "version",
}
_HEADER |= {_CONCLUDED: "concluded", _END: "Avg bus"}


def recognises(log: Log) -> bool:
    return any(sign.search(log.content) for sign in _SIGNS)


def read(log: Log, stated: UserHints) -> ParsedLog:
    runs = _Runs(log.file)
    for number, line in enumerate(log.lines(), 1):
        runs.take(line, number)
    runs.flush()
    timings: list[Record] = []
    notes: list[Note] = list(runs.stray)
    other: list[NotModelled] = []
    for run in runs.all:
        if not run.rows and not run.bad:
            notes += [Note("a table without rows", log.file, run.table)] if run.table else []
            continue
        try:
            more = records_of(run, stated)
        except NotModelled as error:
            other.append(error)
            notes += [run.note(error.what, row) for row in run.rows]
        else:
            timings += more[0]
            notes += more[1]
    if timings:
        return ParsedLog(tuple(timings), tuple(notes))
    if other:
        raise other[0]
    if runs.stray:
        what = "rows without a header line that names the columns"
        fix = "keep the line '#  size  count  type ...' of nccl-tests: do not grep away '#'"
        raise ColltoolError(what, where=f"{log.file}:{runs.stray[0].line}", fix=fix)
    where = f"{log.file}:{next((run.table for run in runs.all if run.table), 1)}"
    raise ColltoolError(
        "an nccl-tests log without rows",
        where=where,
        fix="the run was cut short or failed; run it again",
    )


class _Runs:
    def __init__(self, file: str) -> None:
        self.file = file
        self.all = [TestRun(file)]
        self.layout: Columns | None = None
        self.pieces: Pieces | None = None
        self.above = ""
        self.stray: list[Note] = []  # rows without a name line above them
        self.mentions: set[str] = set()  # programs named since the last table ended

    @property
    def run(self) -> TestRun:
        return self.all[-1]

    def take(self, line: str, number: int) -> None:
        if "NCCL version" in line and (version := _LIBRARY.search(line)):
            self._said(_LIBRARY, version, number)
        text = untagged(clean(line))
        if not text.strip():
            return
        if head := row_head(text):
            self._row(head, number)
        elif layout := columns(text, self.above, number, self.file):
            self._table(layout)
        elif not self._rest(text, number):
            check_unit(text, number, self.file)
            for pattern, word in _HEADER.items():
                if word in text and (match := pattern.search(text)):
                    self._said(pattern, match, number)
                    break
            else:
                if "_perf" in text and "#" not in text:
                    self.mentions.update(_PROGRAM.findall(text))
        self.above = text

    def _fresh(self, *, begun: bool) -> None:
        if begun or self.run.closed:
            self.flush()
            self.all.append(TestRun(self.file))
            self.layout = None

    def _said(self, by: re.Pattern[str], match: re.Match[str], number: int) -> None:
        if by in (_CONCLUDED, _END):
            self.flush()
        elif by is not _TESTS or match[1]:
            named = by in (_STARTED, _PROCESS, _TESTS) and bool(self.run.devices)
            self._fresh(begun=by is not _LIBRARY and (named or bool(self.run.table)))
        if by is _STARTED:
            self.run.started = match[1]
        elif by is _PROCESS:
            self.run.per_process = int(match[1]) * int(match[2])
        elif by is _RANK:
            self.run.devices.append(
                Device(int(match[1]), match[2] or "0", match[3], match[4], number)
            )
        elif by is _RANK_CUT:
            self.run.devices_cut = True
        elif by is _LIBRARY:
            self.run.library, self.run.library_version = match[1], match[2]
        elif by is _CONCLUDED:
            self.run.started, self.run.closed = self.run.started or match[1], True
        elif by is _END:
            self.run.closed = bool(self.run.table)
        else:
            self.run.library = (match[1] or match[3]).upper()
            self.run.tests_version = (
                f"{self.run.library.lower()}-tests {match[2] or match[4]}".strip()
            )
            if code := _LIBRARY_CODE.search(match.string):
                self.run.library_version = spelled(int(code[1]))

    def _table(self, layout: Columns) -> None:
        self.flush()
        self._fresh(begun=False)
        self.layout, self.run.time = layout, layout.names[layout.starts[0]]
        self.run.table = self.run.table or layout.line
        self.run.mentions |= self.mentions
        self.mentions = set()

    def _row(self, head: str, number: int) -> None:
        self.flush()
        if self.layout is None:
            self.stray.append(Note("a row without a header line above it", self.file, number))
            return
        self.pieces = Pieces(self.layout, number, head)
        if self.pieces.missing <= 0:
            self.flush()

    def _rest(self, text: str, number: int) -> bool:
        if self.pieces is not None and self.pieces.add(text):
            if self.pieces.missing <= 0:
                self.flush()
            return True
        if self.layout is not None and looks_like_a_row(text):
            self.flush()
            self.run.bad.append(Note("garbled: no row of this table", self.file, number))
            return True
        return False

    def flush(self) -> None:
        if self.pieces is None:
            return
        try:
            self.run.rows.append(self.pieces.row())
        except UnusableRow as error:
            self.run.bad.append(Note(str(error), self.file, self.pieces.number))
        self.pieces = None


def untagged(text: str) -> str:
    """Without the [0] that a launcher puts before each piece that a rank printed, also between the
    cells of a row."""
    return _TAG.sub(" ", text) if "]" in text and "Rank" not in text else text


def columns(text: str, above: str, line: int, file: str) -> Columns | None:
    """The columns of a header line, None for any other line; ``above`` is the line before, which
    labels the halves."""
    if "algbw" not in text:
        return None
    words = [word.lstrip("#") for word in text.split()]
    if "bytes" in words and "time" in words and "size" not in words:
        what = "a table of nccl-tests 2.0 or older, whose times are in ms, rounded to 1 us"
        raise ColltoolError(
            what, where=f"{file}:{line}", fix="measure again with a current nccl-tests"
        )
    if "size" not in words or "type" not in words or not any(name in words for name in _TIMES):
        return None
    names = tuple(word for word in words[words.index("size") :] if word)
    starts = tuple(at for at, name in enumerate(names) if name in _TIMES)
    end = next((at for at, name in enumerate(names) if name in _AFTER_THE_HALVES), len(names))
    if len(starts) not in (1, 2) or names[:3] != ("size", "count", "type") or starts[0] < 3:
        return None
    width = (starts[1] if len(starts) == 2 else end) - starts[0]
    values = len(names) + names.count("timestamp")
    labels = (
        (OUT, IN) if len(starts) == 2 else (IN,) if IN in above and OUT not in above else (OUT,)
    )
    return Columns(line, names, labels, starts, width, values, without_redop="redop" in names)


def check_unit(text: str, line: int, file: str) -> None:
    if unit := _OTHER_UNIT.search(text.partition("(B)")[2]):
        raise ColltoolError(
            f"times in {unit[1]}, not us",
            where=f"{file}:{line}",
            fix="measure again with a current nccl-tests",
        )


def row_head(text: str) -> str | None:
    head = _HEAD.search(text)
    return text[head.start(1) :] if head and "#" not in text[: head.start(1)] else None


class Pieces:
    """The row being read: NCCL messages may break it in the middle, and the rest follows on a later
    line."""

    def __init__(self, layout: Columns, number: int, head: str) -> None:
        self.layout, self.number, self.text, self.joined = layout, number, head, False
        self.missing = layout.values - len(layout.words(head))  # negative: too many

    def add(self, text: str) -> bool:
        words = text.split(None, max(self.missing, 0))
        if (
            not words
            or len(words) > self.missing
            or not (words[0] == "N/A" or rounding_interval(words[0]))
        ):
            return False
        self.text += f" {' '.join(words)}"
        self.missing -= len(words)
        self.joined = True
        return True

    def row(self) -> TableRow:
        if self.missing < 0:
            raise UnusableRow("more values than columns")
        # other than a whole half
        if self.missing and (len(self.layout.starts) == 1 or self.missing != self.layout.width):
            raise UnusableRow("truncated: fewer values than columns")
        return TableRow(self.number, self.text, self.layout.cut, self.joined)


def spelled(code: int) -> str:
    """NCCL's version code as text: 22902 is 2.29.2, and before 2.9 2804 was 2.8.4."""
    major = 10000 if code >= 10000 else 1000
    return f"{code // major}.{code % major // 100}.{code % 100}"


FORMAT = Format(
    "nccl-tests and rccl-tests text ('#  size  count  type ...')", recognises, read, shares=True
)
_HALVES = {"out_of_place": OUT, "in_place": IN}
_CELLS = {
    "time": "time",
    "cpu_time": "cputime",
    "alg_bw": "algbw",
    "bus_bw": "busbw",
    "nwrong": "wrong",
}
_SIZE_KEY = re.compile(r'"size"\s*:')
_FIRST = 10_000  # bytes among which the first brace stands
_Json = Mapping[str, object]


def is_report(log: Log) -> bool:
    return log.content[:_FIRST].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def read_report(log: Log, stated: UserHints) -> ParsedLog:
    text, file = log.text().lstrip("\ufeff"), log.file
    try:
        # the digits say how exact numbers are
        report = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        what = f"is not a complete JSON document: {getattr(error, 'msg', 'nested too deeply')}"
        fix = "nccl-tests completes the file when it exits: run it again with -J"
        raise ColltoolError(what, where=f"{file}:{line}", fix=fix) from error
    if isinstance(report, dict) and str(report.get("schema", "")).startswith("colltool."):
        what = (
            f"is what colltool {str(report['schema'])[9:].partition('/')[0]} prints: computed, not"
            " measured"
        )
        fix = (
            "give the benchmark's"
            f" log{either(shell='; colltool diff OLD NEW compares two outputs', python='')}"
        )
        raise ColltoolError(what, where=f"{file}:1", fix=fix)
    results = report.get("results") if isinstance(report, dict) else None
    if not isinstance(results, list) or not results:
        what = "JSON without 'results': not an nccl-tests report"
        raise ColltoolError(
            what, where=f"{file}:1", fix="give what nccl-tests -J wrote, its text output, or a CSV"
        )
    run = _run_of(report, file)
    lines = _lines_of(text, len(results))
    for at, result in enumerate(results):
        if _halves(result):
            run.rows.append(TableRow(lines[at], result, _cut, item=f"results[{at}]"))
        else:
            run.bad.append(Note("no time", file, lines[at], f"results[{at}]"))
    run.time = (
        "cputime"
        if any("cputime" in half for result in results for half in _halves(result).values())
        else "time"
    )
    timings, notes = records_of(run, stated)
    return ParsedLog(tuple(timings), tuple(notes))


def _run_of(report: _Json, file: str) -> TestRun:
    run = TestRun(file, table=1, library="NCCL")
    args = report.get("args")
    if isinstance(args, list) and args and isinstance(args[0], str):
        run.started = _plain(args[0])
    config = report.get("config")
    config = config if isinstance(config, dict) else {}
    run.per_process = _count(config.get("nthreads")) * _count(config.get("ngpus"))
    code = _count(report.get("nccl_version"))
    run.library_version = spelled(code) if code > 1000 else ""
    listed = report.get("devices") or config.get("devices")
    devices = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    # a device per rank: nccl-tests writes only the first of each process, whatever nthreads and
    # ngpus are
    first_only = all(_count(one.get("rank")) % (run.per_process or 1) == 0 for one in devices)
    for one in devices:
        group, pid, host = (
            _plain(one.get("group", "0")),
            _plain(one.get("pid")),
            _plain(one.get("hostname")),
        )
        for more in range(run.per_process if first_only and run.per_process else 1):
            run.devices.append(Device(_count(one.get("rank")) + more, group, pid, host, 1))
    return run


def _plain(value: object) -> str:
    """As ASCII: JSON may escape lone surrogates, which no terminal can show."""
    return str(value)[:200].encode("ascii", "replace").decode()


def _count(value: object) -> int:
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 7
        else 0
    )


def _cut(result: _Json) -> Cells:
    halves = {label: half.items() for label, half in _halves(result).items()}
    before = {key: _plain(result.get(key, "")) for key in ("count", "redop", "root")}
    return Cells(_plain(result.get("size")), _plain(result.get("type", "")), {**halves}, before)


def _halves(result: object) -> dict[str, dict[str, str]]:
    listed = result if isinstance(result, dict) else {}
    halves = {
        label: half for key, label in _HALVES.items() if isinstance(half := listed.get(key), dict)
    }
    cells = _CELLS.items()
    return {
        label: {name: str(half[key]) for key, name in cells if half.get(key) is not None}
        for label, half in halves.items()
    }


def _lines_of(text: str, results: int) -> list[int]:
    """The line of each result by its size key; all 1 where these do not match (nccl-tests writes a
    single line)."""
    ends = [match.start() for match in _SIZE_KEY.finditer(text)]
    if len(ends) != results:
        return [1] * results
    return list(
        accumulate((text.count("\n", start, end) for start, end in pairwise([0, *ends])), initial=1)
    )[1:]


REPORT = Format("nccl-tests -J ('{')", is_report, read_report)
_DEVICE = re.compile(r"Rank +\d{1,9} .*\bon +(\S+) +device +\d+ +\[[^\]]{1,40}\] +(\S.*)")


class LoggedHardware(NamedTuple):
    """Device and host names, each once, in the order met."""

    devices: tuple[str, ...]
    hosts: tuple[str, ...]


def logged_hardware(paths: Sequence[str | os.PathLike[str]]) -> LoggedHardware:
    """Devices and hosts of logs; formats such as OSU's name none."""
    named = [pair for path in paths for pair in _named(open_log(os.fspath(path)))]
    hosts, devices = (
        (tuple(dict.fromkeys(filter(None, side))) for side in zip(*named, strict=True))
        if named
        else ((), ())
    )
    return LoggedHardware(devices, hosts)


def _named(log: Log) -> Iterator[tuple[str, str]]:
    if not is_report(log):
        for line in log.lines():
            if "device" in line and "Rank" in line and (match := _DEVICE.search(clean(line))):
                yield match[1], _short(match[2])
        return
    try:
        report = json.loads(log.text().lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return  # the reader of timings says what is wrong
    config = report.get("config")
    listed = report.get("devices") or (config.get("devices") if isinstance(config, dict) else None)
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict):
            yield _short(one.get("hostname", "")), _short(one.get("device_info", ""))


def _short(value: object) -> str:
    return printable(str(value)).strip()[:100]
