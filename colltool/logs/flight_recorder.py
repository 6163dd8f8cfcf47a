"""The dump of PyTorch's Flight Recorder for each rank: calls that completed and were timed
(TORCH_NCCL_ENABLE_TIMING=1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from colltool.base.errors import argument_text
from colltool.base.primitives import AG
from colltool.logs.call_records import (
    call_record,
    json_values,
    parsed,
    positive,
    primitive_of,
)
from colltool.logs.dtypes import element_bytes
from colltool.logs.log_file import Log
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints, agreed_ranks
from colltool.logs.sentences import statement


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The completed calls of one rank."""
    return parsed(log, _calls(log, hints), "a Flight Recorder dump")


def _calls(log: Log, hints: UserHints) -> Iterator[Record | Note]:
    for dump in json_values(log):
        groups = dump.get("pg_config") or {}
        for index, entry in enumerate(dump.get("entries") or []):
            yield _call(entry, groups, hints, log.file, f"entry {index}")


def _call(
    entry: dict[str, Any], groups: Mapping[str, Any], hints: UserHints, file: str, item: str
) -> Record | Note:
    """A call that completed and was timed, or a note on why it cannot be used."""
    primitive = primitive_of(entry.get("profiling_name"))
    seconds = positive(entry.get("duration_ms")) / 1e3
    shapes = entry.get("input_sizes") or []
    dtypes = entry.get("input_dtypes") or []
    if primitive is None or not seconds or len(shapes) != len(dtypes) or not shapes:
        return Note(statement("not-timed"), file, 1, item)
    listed = re.findall(r"\d+", str(_group(entry, groups).get("ranks", "")))
    ranks = agreed_ranks(len(listed) or None, hints, f"{file}:1: {item}")
    size = 0.0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        size += prod(map(positive, shape)) * element_bytes(dtype)
    if ranks is None or ranks < 2 or not size:
        return Note(statement("no-group", argument=argument_text("ranks")), file, 1, item)
    if primitive is AG:
        size *= ranks
    return call_record(
        primitive,
        ranks,
        hints.nodes,
        size,
        seconds,
        version="Flight Recorder",
        file=file,
        item=item,
    )


def _group(entry: dict[str, Any], groups: Mapping[str, Any]) -> Mapping[str, Any]:
    """The process group of a call, by name or by number; empty where the dump does not list it."""
    named = entry.get("process_group") or [""]
    for name in (str(named[0]), str(entry.get("pg_id"))):
        group = groups.get(name)
        if isinstance(group, dict) and group:
            return group
    return {}


FORMAT = Format(
    "Flight Recorder",
    "PyTorch's Flight Recorder JSON",
    lambda log: log.contains(b'"pg_config"', b'"entries"'),
    read,
)
