"""The JSON report of nccl-tests (-J): what the text says, with numbers at full precision."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.logs.json_values import as_list, as_mapping
from colltool.logs.log_file import Log
from colltool.logs.nccl_rows import Device, TestRun
from colltool.logs.nccl_runs import records_of
from colltool.logs.nccl_table import IN, OUT, Cells, Half
from colltool.logs.nccl_tests_text import version_text
from colltool.logs.records import Format, Note, ParsedLog, UserHints
from colltool.logs.sentences import statement

# labels of halves by their keys
_HALVES = {"out_of_place": OUT, "in_place": IN}
# names of columns in the text output by their keys
_CELLS = {
    "time": "time",
    "cpu_time": "cputime",
    "alg_bw": "algbw",
    "bus_bw": "busbw",
    "nwrong": "wrong",
}
_SHORTER_THAN_CODES = 1000
_SIZE_KEY = re.compile(r'"size"\s*:')
_FIRST_BYTES = 10_000  # among which the first brace stands
_OUR_SCHEMA = "colltool."  # how schemas of our own output begin
Json = Mapping[str, object]


def is_report(log: Log) -> bool:
    """Whether a log begins as a JSON object."""
    return log.content[:_FIRST_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def read_report(log: Log, hints: UserHints) -> ParsedLog:
    """The one run of a report; ColltoolError where it is none, or no row can be used."""
    text = log.json_text()
    results, report = _results_of(text, log.file)
    run = _run_of(report, log.file)
    lines = _lines_of(text, len(results))
    for index, result in enumerate(results):
        halves = _halves(result)
        item = f"results[{index}]"
        if halves:
            run.rows.append(JsonRow(lines[index], result, item))
        else:
            run.bad.append(Note(statement("no-time"), log.file, lines[index], item))
        if any("cputime" in half for half in halves.values()):
            run.time = "cputime"
    records, notes = records_of(run, hints)
    return ParsedLog(records, notes)


def _results_of(text: str, file: str) -> tuple[list[Json], Json]:
    """The measured sizes of a report, and the whole of it; its numbers are text."""
    try:
        # the digits say how exact numbers are
        report = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise ColltoolError(
            f"is not a complete JSON document: {getattr(error, 'msg', 'nested too deeply')}",
            where=f"{file}:{getattr(error, 'lineno', 1)}",
            fix="nccl-tests completes the file when it exits: run it again with -J",
        ) from error
    whole = as_mapping(report)
    schema = str(whole.get("schema", ""))
    if schema.startswith(_OUR_SCHEMA):
        command = schema.removeprefix(_OUR_SCHEMA).partition("/")[0]
        compare = either(shell="; colltool diff OLD NEW compares two outputs", python="")
        raise ColltoolError(
            f"is what colltool {command} prints: computed, not measured",
            where=f"{file}:1",
            fix=f"give the benchmark's log{compare}",
        )
    results = whole.get("results")
    if not isinstance(results, list) or not results:
        raise ColltoolError(
            "JSON without 'results': not an nccl-tests report",
            where=f"{file}:1",
            fix="give what nccl-tests -J wrote, its text output, or a CSV",
        )
    return results, whole


def listed_devices(report: Json) -> list[Json]:
    """Devices of a report, whose place moved between versions."""
    devices = report.get("devices") or as_mapping(report.get("config")).get("devices")
    return [device for device in as_list(devices) if isinstance(device, dict)]


def _run_of(report: Json, file: str) -> TestRun:
    """What a report says of its run: program, library and devices."""
    # a JSON document has no lines to point at: places are those of its first
    run = TestRun(file, table=1, library="NCCL")
    args = report.get("args")
    if isinstance(args, list) and args and isinstance(args[0], str):
        run.started = _ascii(args[0])
    config = as_mapping(report.get("config"))
    run.per_process = _count(config.get("nthreads")) * _count(config.get("ngpus"))
    # NCCL's codes have four or five digits (2.8.4 is 2804); old reports have none, or a short one
    code = _count(report.get("nccl_version"))
    if code > _SHORTER_THAN_CODES:
        run.library_version = version_text(code)
    devices = listed_devices(report)
    # nccl-tests lists only the first rank of each process, whatever nthreads and ngpus are; where
    # it lists others, all of them
    ranks_each = run.per_process or 1
    if any(_count(device.get("rank")) % ranks_each for device in devices):
        ranks_each = 1
    for device in devices:
        group = _ascii(device.get("group", "0"))
        pid = _ascii(device.get("pid"))
        host = _ascii(device.get("hostname"))
        first_rank = _count(device.get("rank"))
        for rank in range(first_rank, first_rank + ranks_each):
            run.devices.append(Device(rank, group, pid, host, line=1))
    return run


class JsonRow(NamedTuple):
    """A result of a report, a :class:`~colltool.logs.nccl_table.TableRow`."""

    number: int  # of its line
    result: Json
    item: str  # ``results[3]``
    joined: bool = False  # rows of a text may be joined of several lines

    def cells(self) -> Cells:
        """Its cells, by the columns of the text output."""
        result = self.result
        before = {key: _ascii(result.get(key, "")) for key in ("count", "redop", "root")}
        return Cells(
            _ascii(result.get("size")), _ascii(result.get("type", "")), _halves(result), before
        )


def _ascii(value: object) -> str:
    """ASCII text of a value, at most 200 characters: JSON may escape lone surrogates, which no
    terminal can show."""
    return str(value)[:200].encode("ascii", "replace").decode()


def _count(value: object) -> int:
    """A whole number of the report, which :func:`_results_of` reads as text; 0 for anything
    else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 7:
        return int(value)
    return 0


def _halves(result: object) -> dict[str, Half]:
    """The printed cells of a result by half, under the names of the text output."""
    halves: dict[str, Half] = {}
    for half_key, label in _HALVES.items():
        half = as_mapping(result).get(half_key)
        if isinstance(half, dict):
            halves[label] = {
                column: str(half[key])
                for key, column in _CELLS.items()
                if half.get(key) is not None
            }
    return halves


def _lines_of(text: str, results: int) -> list[int]:
    """The line of each result by its size key; all 1 where these do not match (nccl-tests writes a
    single line)."""
    keys = [match.start() for match in _SIZE_KEY.finditer(text)]
    if len(keys) != results:
        return [1] * results
    lines = []
    line = 1
    counted_to = 0
    for key in keys:
        line += text.count("\n", counted_to, key)
        counted_to = key
        lines.append(line)
    return lines


FORMAT = Format("-J", "nccl-tests -J ('{')", is_report, read_report)
