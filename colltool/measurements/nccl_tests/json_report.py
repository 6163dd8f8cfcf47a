"""The JSON report of nccl-tests (-J): the same as its text, with numbers at full precision."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from colltool.base.errors import ColltoolError, either
from colltool.measurements.log import Format, Log, Note, ParsedLog, UserHints
from colltool.measurements.nccl_tests.records import records_of
from colltool.measurements.nccl_tests.table import IN, OUT, Cells, Device, TableRow, TestRun, spelled

_HALVES = {"out_of_place": OUT, "in_place": IN}
_CELLS = {"time": "time", "cpu_time": "cputime", "alg_bw": "algbw", "bus_bw": "busbw", "nwrong": "wrong"}
_SIZE_KEY = re.compile(r'"size"\s*:')

_FIRST = 10_000  # bytes among which the first brace stands

_Json = Mapping[str, object]


def recognises(log: Log) -> bool:
    return log.content[:_FIRST].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def read(log: Log, stated: UserHints) -> ParsedLog:
    text, file = log.text().lstrip("\ufeff"), log.file
    try:
        report = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)  # the digits say how exact numbers are
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        what = f"is not a complete JSON document: {getattr(error, 'msg', 'nested too deeply')}"
        raise ColltoolError(
            what, where=f"{file}:{line}", fix="nccl-tests completes the file when it exits: run it again with -J"
        ) from error
    if isinstance(report, dict) and str(report.get("schema", "")).startswith("colltool."):
        what = f"is what colltool {str(report['schema'])[9:].partition('/')[0]} prints: computed, not measured"
        fix = either(
            shell="give the benchmark's log; colltool diff OLD NEW compares two outputs", python="give the benchmark's log"
        )
        raise ColltoolError(what, where=f"{file}:1", fix=fix)
    results = report.get("results") if isinstance(report, dict) else None
    if not isinstance(results, list) or not results:
        what = "JSON without 'results': not an nccl-tests report"
        raise ColltoolError(what, where=f"{file}:1", fix="give what nccl-tests -J wrote, its text output, or a CSV")
    run = _run(report, file)
    lines = _lines_of(text, len(results))
    for at, result in enumerate(results):
        _take(run, result, at, lines[at])
    run.time = "cputime" if any(_has_cpu_time(result) for result in results) else "time"
    timings, notes = records_of(run, stated)
    return ParsedLog(tuple(timings), tuple(notes))


def _has_cpu_time(result: object) -> bool:
    return any("cputime" in half for half in _halves(result).values())


def _run(report: _Json, file: str) -> TestRun:
    run = TestRun(file, table=1, library="NCCL")
    args = report.get("args")
    if isinstance(args, list) and args and isinstance(args[0], str):
        run.started = _plain(args[0])
    config = report.get("config")
    config = config if isinstance(config, dict) else {}
    run.per_process = _count(config.get("nthreads")) * _count(config.get("ngpus"))
    code = _count(report.get("nccl_version"))
    run.library_version = spelled(code) if code > 1000 else ""
    run.devices = list(_devices(report.get("devices") or config.get("devices"), run.per_process))
    return run


def _devices(listed: object, per_process: int) -> Iterator[Device]:
    """A device per rank: nccl-tests writes only the first of each process, whatever nthreads and ngpus are."""
    devices = [_device(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    first_only = all(one.rank % (per_process or 1) == 0 for one in devices)
    for one in devices:
        for more in range(per_process if first_only and per_process else 1):
            yield one._replace(rank=one.rank + more)


def _device(one: _Json) -> Device:
    return Device(_count(one.get("rank")), _plain(one.get("group", "0")), _plain(one.get("pid")), _plain(one.get("hostname")), 1)


def _plain(value: object) -> str:
    """As ASCII: JSON may escape lone surrogates, which no terminal can show."""
    return str(value)[:200].encode("ascii", "replace").decode()


def _count(value: object) -> int:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 7 else 0


def _take(run: TestRun, result: object, at: int, number: int) -> None:
    item = f"results[{at}]"
    if _halves(result):
        run.rows.append(TableRow(number, result, _cut, item=item))
    else:
        run.bad.append(Note("no time", run.file, number, item))


def _cut(result: _Json) -> Cells:
    halves = {label: half.items() for label, half in _halves(result).items()}
    return Cells(_plain(result.get("size")), _plain(result.get("type", "")), dict(halves))


def _halves(result: object) -> dict[str, dict[str, str]]:
    listed = result if isinstance(result, dict) else {}
    return {label: _cells(half) for key, label in _HALVES.items() if isinstance(half := listed.get(key), dict)}


def _cells(half: _Json) -> dict[str, str]:
    return {name: str(half[key]) for key, name in _CELLS.items() if half.get(key) is not None}


def _lines_of(text: str, results: int) -> list[int]:
    """The line of each result by its size key; all 1 where these do not match (nccl-tests writes a single line)."""
    ends = [match.start() for match in _SIZE_KEY.finditer(text)]
    if len(ends) != results:
        return [1] * results
    lines, line, last = [], 1, 0
    for end in ends:
        line += text.count("\n", last, end)
        last = end
        lines.append(line)
    return lines


FORMAT = Format("nccl-tests -J ('{')", recognises, read)
