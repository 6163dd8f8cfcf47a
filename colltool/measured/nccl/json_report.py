"""The JSON report of nccl-tests (-J): the same test as its text, with numbers at full precision."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from colltool.errors import ColltoolError
from colltool.measured.nccl.run import Device, Run
from colltool.measured.nccl.settle import settle
from colltool.measured.nccl.table import IN, OUT, Line
from colltool.measured.nccl.text import spelled
from colltool.measured.rows import Note, Reading, Stated

_HALVES = {"out_of_place": OUT, "in_place": IN}
_CELLS = {"time": "time", "cpu_time": "cputime", "alg_bw": "algbw", "bus_bw": "busbw", "nwrong": "wrong"}
_SIZE_KEY = re.compile(r'"size"\s*:')

_Json = Mapping[str, object]


def recognises(text: str) -> bool:
    """Whether the text is a JSON object."""
    return text.lstrip("\ufeff \t\n").startswith("{")


def read(text: str, file: str, stated: Stated) -> Reading:
    """All results of a report.

    Raises:
        ColltoolError: no JSON, not a report of nccl-tests, or results that cannot be used.
    """
    try:
        # Numbers stay text: their digits say how exact they are.
        report = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        what = f"is no whole JSON document: {getattr(error, 'msg', 'nested too deeply')}"
        raise ColltoolError(
            what, where=f"{file}:{line}", fix="nccl-tests writes the end when it ends: run it again with -J"
        ) from error
    results = report.get("results") if isinstance(report, dict) else None
    if not isinstance(results, list) or not results:
        what = "JSON without 'results': no report of nccl-tests"
        raise ColltoolError(what, where=f"{file}:1", fix="give what nccl-tests -J wrote, its text output, or a CSV")
    test = _test(report, file)
    lines = _lines_of(text, len(results))
    for at, result in enumerate(results):
        _take(test, result, at, lines[at])
    test.time = "cputime" if any("cputime" in half for line in test.lines for half in line.halves.values()) else "time"
    rows, notes = settle(test, stated)
    return Reading(tuple(rows), tuple(notes))


def _test(report: _Json, file: str) -> Run:
    """The test without its results."""
    test = Run(file, table=1, library="NCCL")
    args = report.get("args")
    if isinstance(args, list) and args and isinstance(args[0], str):
        test.started = _plain(args[0])
    config = report.get("config")
    config = config if isinstance(config, dict) else {}
    threads, gpus = _count(config.get("nthreads")), _count(config.get("ngpus"))
    test.per_process = threads * gpus
    code = _count(report.get("nccl_version"))
    test.library_version = spelled(code) if code > 1000 else ""
    test.devices = list(_devices(report.get("devices") or config.get("devices"), test.per_process))
    return test


def _devices(listed: object, per_process: int) -> Iterator[Device]:
    """A device for every rank. nccl-tests writes only the first of each process, whatever nthreads and ngpus are."""
    devices = [_device(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    first_only = all(one.rank % (per_process or 1) == 0 for one in devices)
    for one in devices:
        for more in range(per_process if first_only and per_process else 1):
            yield one._replace(rank=one.rank + more)


def _device(one: _Json) -> Device:
    return Device(_count(one.get("rank")), _plain(one.get("group", "0")), _plain(one.get("pid")), _plain(one.get("hostname")), 1)


def _plain(value: object) -> str:
    """A value as text that any terminal can show: JSON may escape halves of characters."""
    return str(value)[:200].encode("ascii", "replace").decode()


def _count(value: object) -> int:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 7 else 0


def _take(test: Run, result: object, at: int, number: int) -> None:
    halves = {
        label: _cells(half)
        for key, label in _HALVES.items()
        if isinstance(result, dict) and isinstance(half := result.get(key), dict)
    }
    if not isinstance(result, dict) or not halves:
        test.bad.append(Note("no time", test.file, number, f"results[{at}]"))
        return
    test.lines.append(Line(number, _plain(result.get("size")), _plain(result.get("type", "")), halves, item=f"results[{at}]"))


def _cells(half: _Json) -> dict[str, str]:
    return {name: str(half[key]) for key, name in _CELLS.items() if half.get(key) is not None}


def _lines_of(text: str, results: int) -> list[int]:
    """The line of every result, where each has its size exactly once; else 1: nccl-tests writes a single line."""
    ends = [match.start() for match in _SIZE_KEY.finditer(text)]
    if len(ends) != results:
        return [1] * results
    lines, line, last = [], 1, 0
    for end in ends:
        line += text.count("\n", last, end)
        last = end
        lines.append(line)
    return lines
