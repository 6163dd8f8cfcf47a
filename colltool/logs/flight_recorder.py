"""The dump of PyTorch's Flight Recorder, a file a rank: calls that completed and were timed
(TORCH_NCCL_ENABLE_TIMING=1).

Versions 2.0 to 2.10, as JSON (``_dump_nccl_trace_json``) or as the pickle that the watchdog writes
(:mod:`colltool.logs.plain_pickle` makes JSON of it). Read: ``pg_config`` (the ranks of each group),
``entries`` with ``profiling_name``, ``process_group`` or ``pg_id``, ``collective_seq_id``,
``duration_ms``, ``input_sizes`` and ``input_dtypes``.

Durations are between CUDA events: they include the wait for the last rank. The first call of an
operation on a group also connects its ranks, and is left out. The recorder keeps the last calls
only, so the first entry of an operation is its first call only if the dump goes back to the first
call of the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from colltool.base.errors import argument_text
from colltool.base.primitives import AG
from colltool.logs.call_records import (
    MESSAGE,
    NO_OBJECT,
    START_UP,
    CallPlace,
    parsed_log,
    primitive_of,
)
from colltool.logs.dtypes import element_bytes
from colltool.logs.json_values import as_list, as_mapping, as_positive, as_whole, json_document
from colltool.logs.log_file import Log
from colltool.logs.records import Format, Note, ParsedLog, RankCall, Record, UserHints, agreed_ranks
from colltool.logs.sentences import statement

_WHAT = "a Flight Recorder dump"
_FIRST = 1  # collective_seq_id of the first call of a group
_UNDER_WAY = ("scheduled", "started")  # states of a call that has not completed
_MOST_RANKS = 2**20  # of a group; a larger number is no list of ranks
_MOST_DIMENSIONS = 32  # of a tensor
_MOST_BYTES = 1e18  # of a call
_LONGEST_NAME = 80  # characters of a group's or an operation's name that count
_LONGEST_GROUP = 1000  # characters of a group's name and its ranks that count


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The completed calls of one rank, and notes on all others; ColltoolError where none is usable."""
    fix = (
        "set TORCH_NCCL_ENABLE_TIMING=1 and dump after some steps; of a job that hangs, read the"
        " dumps with PyTorch's torchfrtrace"
    )
    return parsed_log(log, _calls(log, hints), _WHAT, fix)


def _calls(log: Log, hints: UserHints) -> Iterator[Record | Note]:
    """The calls of a dump, and notes on entries that are none."""
    dump = as_mapping(json_document(log, _WHAT))
    place = CallPlace("Flight Recorder", log.file)
    if not isinstance(dump.get("entries"), list):
        yield place.note(statement("no-entries"))
    groups = as_mapping(dump.get("pg_config"))
    seen_operations: set[tuple[str, object]] = set()  # by group
    # groups whose first call is in the dump: of these the first entry of an operation is its first
    # call, which also connects
    whole_groups: set[str] = set()
    for index, value in enumerate(as_list(dump.get("entries"))):
        place = place._replace(item=f"entry {index}")
        entry = as_mapping(value)
        if not entry:
            yield place.note(NO_OBJECT)
            continue
        key, group = _group(entry, groups)
        number = as_whole(entry.get("collective_seq_id"))
        if number == _FIRST:
            whole_groups.add(key)
        operation = (key, str(entry.get("profiling_name"))[:_LONGEST_NAME])
        # of a call without a number nothing tells which it is
        is_first = operation not in seen_operations and number is not None
        seen_operations.add(operation)
        call = _record_of(entry, key, group, hints, place)
        if key in whole_groups and is_first and isinstance(call, Record):
            call = place.note(START_UP)
        yield call


def _record_of(
    entry: Mapping[str, Any],
    key: str,
    group: Mapping[str, Any],
    hints: UserHints,
    place: CallPlace,
) -> Record | Note:
    """A call that completed and was timed, or a note on why it cannot be used; ``key``: what tells
    its group apart on every rank."""
    if entry.get("is_p2p") is True:
        return place.note(MESSAGE)
    primitive = primitive_of(entry.get("profiling_name"))
    seconds = as_positive(entry.get("duration_ms")) / 1e3
    if entry.get("state") in _UNDER_WAY:
        return place.note(statement("not-completed"))
    shapes = as_list(entry.get("input_sizes"))
    dtypes = as_list(entry.get("input_dtypes"))
    if primitive is None or not seconds or len(shapes) != len(dtypes) or not shapes:
        return place.note(statement("not-timed"))
    ranks = agreed_ranks(_ranks_of(group) or None, hints, place.where)
    size = 0.0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        size += prod(map(as_positive, as_list(shape)[:_MOST_DIMENSIONS])) * element_bytes(dtype)
    if ranks is None or ranks < 2 or not 0 < size < _MOST_BYTES:
        return place.note(statement("no-group", argument=argument_text("ranks")))
    if primitive is AG:
        # the input is one rank's share
        size *= ranks
    number = as_whole(entry.get("collective_seq_id"))
    call = None
    if number is not None:
        # numbers count all operations of a group; the file stands for the rank, which is not said
        call = RankCall(key, operation="", number=number, rank=place.file, waits=True)
    return place.record(primitive, ranks, hints.nodes, size, seconds, call)


def _ranks_of(group: Mapping[str, Any]) -> int:
    """How many ranks a group has, 0 if it is not said: a text in the recorder's own dumps, a list in
    others'."""
    ranks = group.get("ranks")
    if isinstance(ranks, list):
        return len(ranks)
    if isinstance(ranks, str):
        return min(len(re.findall(r"\d+", ranks)), _MOST_RANKS)
    return 0


def _group(entry: Mapping[str, Any], groups: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The process group of a call: what tells it apart on every rank, and its entry of ``groups``,
    by name or by number; an empty one where the dump does not list it."""
    # ["0", "default_pg"]
    names = as_list(entry.get("process_group"))
    name = f"{names[0]}" if names else ""
    for key in (name, f"{entry.get('pg_id')}"):
        group = as_mapping(groups.get(key))
        if group:
            return f"{key[:_LONGEST_NAME]} {group.get('ranks')}"[:_LONGEST_GROUP], group
    return name[:_LONGEST_NAME], {}


FORMAT = Format(
    "Flight Recorder",
    "PyTorch's Flight Recorder (JSON or pickle)",
    lambda log: log.contains(b'"pg_config"', b'"entries"'),
    read,
    versions="2.0 to 2.10",
)
