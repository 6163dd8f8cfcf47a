"""The JSON of NCCL's ext-profiler/example: begin and end of each collective."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, RS
from colltool.logs.busbw_ratio import SAY_RANKS
from colltool.logs.call_records import (
    NOT_MODELLED,
    call_record,
    json_values,
    parsed,
    positive,
    primitive_of,
)
from colltool.logs.dtypes import element_bytes
from colltool.logs.log_file import Log
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints

_BEGIN, _END = "b", "e"


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The collectives of a trace, whose rank count the caller states."""
    if hints.ranks is None:
        raise ColltoolError(
            "NCCL's profiler does not say how many ranks there are",
            where=f"{log.file}:1",
            fix=SAY_RANKS,
        )
    return parsed(log, _calls(log, hints.ranks, hints.nodes), "NCCL's profiler trace")


def _calls(log: Log, ranks: int, nodes: int | None) -> Iterator[Record | Note]:
    """A record per collective whose begin and end are there, or a note."""
    begun: dict[tuple[object, object, object], dict[str, Any]] = {}
    for value in json_values(log):
        for index, event in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(event, dict) or event.get("cat") != "COLL":
                continue
            call = (event.get("pid"), event.get("id"), event.get("name"))
            if event.get("ph") == _BEGIN:
                begun[call] = event
            elif event.get("ph") == _END and call in begun:
                yield _call(begun.pop(call), event, ranks, nodes, log.file, f"event {index}")


def _call(
    begin: dict[str, Any],
    end: dict[str, Any],
    ranks: int,
    nodes: int | None,
    file: str,
    item: str,
) -> Record | Note:
    """A collective from its begin to its end, or a note on why it cannot be used."""
    args = begin.get("args") or {}
    primitive = primitive_of(begin.get("name"))
    width = element_bytes(args.get("Datatype"))
    count = positive(args.get("Count"))
    seconds = (positive(end.get("ts")) - positive(begin.get("ts"))) / 1e6
    if primitive is None or not width or not count or seconds <= 0:
        return Note(NOT_MODELLED, file, 1, item)
    # bytes as nccl-tests counts them
    size = count * width
    if primitive in (AG, RS, A2A):  # the count is of one rank's part
        size *= ranks
    return call_record(
        primitive, ranks, nodes, size, seconds, version="profiler", file=file, item=item
    )


FORMAT = Format(
    "profiler",
    "NCCL's profiler JSON",
    lambda log: log.contains(b'"CommHash"', b'"COLL"'),
    read,
)
