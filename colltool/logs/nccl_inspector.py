"""NCCL Inspector's JSON: a record a call and rank."""

from __future__ import annotations

from collections.abc import Iterator

from colltool.logs.call_records import (
    NOT_MODELLED,
    call_record,
    json_values,
    parsed,
    positive,
    primitive_of,
)
from colltool.logs.log_file import Log
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The calls of all ranks in the file."""
    return parsed(log, _calls(log, hints), "NCCL Inspector's output")


def _calls(log: Log, hints: UserHints) -> Iterator[Record | Note]:
    """A record per call and rank, or a note on why it cannot be used."""
    for index, value in enumerate(json_values(log)):
        item = f"record {index}"
        header = value.get("header") or {}
        call = value.get("coll_perf") or {}
        primitive = primitive_of(call.get("coll"))
        ranks = int(positive(header.get("n_ranks")))
        size = positive(call.get("coll_msg_size_bytes"))
        seconds = positive(call.get("coll_exec_time_us")) / 1e6
        if primitive is None or ranks < 2 or not size or not seconds:
            yield Note(NOT_MODELLED, log.file, 1, item)
            continue
        # the size is what one rank passes, where algobw counts the parts of all ranks
        if round(positive(call.get("coll_algobw_gbs")) * 1e9 * seconds / size) == ranks:
            size *= ranks
        if hints.primitive in (None, primitive):
            nodes = int(positive(header.get("nnodes"))) or hints.nodes
            yield call_record(
                primitive,
                ranks,
                nodes,
                size,
                seconds,
                version="Inspector",
                file=log.file,
                item=item,
            )


FORMAT = Format(
    "Inspector",
    "NCCL Inspector's JSON",
    lambda log: log.contains(b'"coll_perf"', b'"n_ranks"'),
    read,
)
