"""JSON that records calls: NCCL Inspector, NCCL's example profiler, PyTorch's Flight Recorder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.measurements.busbw_ratio import SAY_RANKS
from colltool.measurements.series import Format, Log, Note, ParsedLog, Record, UserHints, agree
from colltool.measurements.which_collective import WIDTHS

_PRIMITIVES: dict[str, Primitive] = {
    "allreduce": AR,
    "allgather": AG,
    "allgatherbase": AG,
    "reducescatter": RS,
    "reducescatterbase": RS,
    "alltoall": A2A,
    "broadcast": BC,
    "reduce": REDUCE,
    "sendrecv": P2P,
}
_MOST_RECORDS = 1_000_000
_SHORT = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "byte": "uint8",
}


def _primitive(name: object) -> Primitive | None:
    return _PRIMITIVES.get(re.sub(r"[^a-z]", "", str(name).lower().removeprefix("nccl:")))


def _width(dtype: object) -> int | None:
    name = str(dtype).lower().removeprefix("nccl").removeprefix("torch.")
    return WIDTHS.get(_SHORT.get(name, name))


def _objects(log: Log) -> Iterator[Any]:
    """JSON values one after the other, or one a line; the last may be cut off."""
    text, at, decoder = log.text().lstrip("\ufeff"), 0, json.JSONDecoder()
    for _ in range(_MOST_RECORDS):
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text):
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        yield value


def _number(value: object) -> float:
    return (
        float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e18
        else 0.0
    )


def _record(
    who: tuple[Primitive, int, int | None],
    what: tuple[float, float],
    version: str,
    file: str,
    item: str,
) -> Record:
    (primitive, ranks, nodes), (size, seconds) = who, what
    return Record(
        primitive,
        ranks,
        nodes,
        size,
        seconds,
        "",
        library="NCCL",
        version=version,
        file=file,
        line=1,
        item=item,
    )


def _kept(log: Log, found: Iterator[Record | Note], what: str) -> ParsedLog:
    everything = list(found)
    timings = tuple(one for one in everything if isinstance(one, Record))
    notes = tuple(one for one in everything if isinstance(one, Note))
    if not timings:
        why = f": {notes[0].reason}" if notes else ""
        said = f"{what} without a call that has a size and a time{why}"
        raise ColltoolError(
            said, where=f"{log.file}:1", fix="give the dump of a run that was timed"
        )
    return ParsedLog(timings, notes)


def _is_inspector(log: Log) -> bool:
    return b'"coll_perf"' in log.content and b'"n_ranks"' in log.content


def _inspector(log: Log, stated: UserHints) -> ParsedLog:
    """A record a call and rank; its size is what one rank passes where algobw counts all ranks'
    parts."""

    def found() -> Iterator[Record | Note]:
        for at, one in enumerate(_objects(log)):
            head, perf, item = one.get("header") or {}, one.get("coll_perf") or {}, f"record {at}"
            primitive, ranks = _primitive(perf.get("coll")), int(_number(head.get("n_ranks")))
            size, seconds = (
                _number(perf.get("coll_msg_size_bytes")),
                _number(perf.get("coll_exec_time_us")) / 1e6,
            )
            if primitive is None or ranks < 2 or not size or not seconds:
                yield Note("no modelled collective, or no size and time", log.file, 1, item)
                continue
            if round(_number(perf.get("coll_algobw_gbs")) * 1e9 * seconds / size) == ranks:
                size *= ranks
            if stated.primitive in (None, primitive):
                nodes = int(_number(head.get("nnodes"))) or stated.nodes
                yield _record(
                    (primitive, ranks, nodes), (size, seconds), "Inspector", log.file, item
                )

    return _kept(log, found(), "NCCL Inspector's output")


def _is_profiler(log: Log) -> bool:
    return b'"CommHash"' in log.content and b'"COLL"' in log.content


def _profiler(log: Log, stated: UserHints) -> ParsedLog:
    """NCCL's ext-profiler/example: begin and end of each collective; it does not say how many ranks
    there are."""
    where = f"{log.file}:1"
    if stated.ranks is None:
        raise ColltoolError(
            "NCCL's profiler does not say how many ranks there are", where=where, fix=SAY_RANKS
        )
    ranks = stated.ranks

    def found() -> Iterator[Record | Note]:
        begun: dict[tuple[object, object, object], dict[str, Any]] = {}
        for value in _objects(log):
            for at, event in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(event, dict) or event.get("cat") != "COLL":
                    continue
                key = (event.get("pid"), event.get("id"), event.get("name"))
                if event.get("ph") == "b":
                    begun[key] = event
                elif event.get("ph") == "e" and key in begun:
                    yield _profiled(
                        begun.pop(key), _number(event.get("ts")), ranks, stated, log.file, at
                    )

    return _kept(log, found(), "NCCL's profiler trace")


def _profiled(
    begin: dict[str, Any], end_us: float, ranks: int, stated: UserHints, file: str, at: int
) -> Record | Note:
    args = begin.get("args") or {}
    primitive, width, count = (
        _primitive(begin.get("name")),
        _width(args.get("Datatype")),
        _number(args.get("Count")),
    )
    seconds = (end_us - _number(begin.get("ts"))) / 1e6
    if primitive is None or width is None or not count or seconds <= 0:
        return Note("no modelled collective, or no size and time", file, 1, f"event {at}")
    size = count * width * (ranks if primitive in (AG, RS, A2A) else 1)
    return _record(
        (primitive, ranks, stated.nodes), (size, seconds), "profiler", file, f"event {at}"
    )


def _is_flight_recorder(log: Log) -> bool:
    return b'"pg_config"' in log.content and b'"entries"' in log.content


def _flight_recorder(log: Log, stated: UserHints) -> ParsedLog:
    """PyTorch's dump of each rank: calls that completed and were timed
    (TORCH_NCCL_ENABLE_TIMING=1)."""

    def found() -> Iterator[Record | Note]:
        for dump in _objects(log):
            groups = {
                name: group
                for name, group in (dump.get("pg_config") or {}).items()
                if isinstance(group, dict)
            }
            for at, entry in enumerate(dump.get("entries") or []):
                yield _flown(entry, groups, stated, log.file, at)

    return _kept(log, found(), "a Flight Recorder dump")


def _flown(
    entry: dict[str, Any], groups: dict[str, Any], stated: UserHints, file: str, at: int
) -> Record | Note:
    item = f"entry {at}"
    primitive, milliseconds = (
        _primitive(entry.get("profiling_name")),
        _number(entry.get("duration_ms")),
    )
    sizes, dtypes = entry.get("input_sizes") or [], entry.get("input_dtypes") or []
    if primitive is None or not milliseconds or len(sizes) != len(dtypes) or not sizes:
        return Note(
            "no modelled collective, or not timed (TORCH_NCCL_ENABLE_TIMING=1)", file, 1, item
        )
    group = (
        groups.get(str((entry.get("process_group") or [""])[0]))
        or groups.get(str(entry.get("pg_id")))
        or {}
    )
    named = re.findall(r"\d+", str(group.get("ranks", "")))
    ranks = agree(len(named) or None, stated.ranks, "ranks:", "ranks", f"{file}:1: {item}")
    size = 0.0
    for shape, dtype in zip(sizes, dtypes, strict=True):
        elements = 1.0
        for edge in shape:
            elements *= _number(edge)
        size += elements * (_width(dtype) or 0)
    if ranks is None or ranks < 2 or not size:
        return Note(f"no size, or no group of ranks; {given('ranks')} says how many", file, 1, item)
    size *= ranks if primitive is AG else 1
    return _record(
        (primitive, ranks, stated.nodes), (size, milliseconds / 1e3), "Flight Recorder", file, item
    )


INSPECTOR = Format("NCCL Inspector's JSON", _is_inspector, _inspector)
PROFILER = Format("NCCL's profiler JSON", _is_profiler, _profiler)
FLIGHT_RECORDER = Format("PyTorch's Flight Recorder JSON", _is_flight_recorder, _flight_recorder)
