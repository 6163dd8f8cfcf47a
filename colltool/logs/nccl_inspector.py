"""NCCL Inspector's JSON lines: a record a call and rank, in a file a process.

Read as the plugin writes them (plugins/profiler/inspector, before 2.29 ext-profiler/inspector):

- v4.0: ``header`` (id, rank, n_ranks, nnodes), ``metadata``, ``coll_perf`` (coll, coll_sn,
  coll_msg_size_bytes, coll_exec_time_us, coll_timing_source, rates);
- v4.1: also ``comm_name``, ``p2p_perf``, and a ``dump_stats`` record a dump;
- v4.2: also ``coll_algo``, ``coll_proto``;
- v4.3: header and metadata stand in ``dump_stats`` alone and hold for the records that follow it;
  also ``proxy_trace``.

A size is what one rank passes; all-gather and reduce-scatter count it once a rank, as the plugin
does for its rates. The first call of an operation on a communicator connects it. ``p2p_perf`` is
one end of a message, which says nothing of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from colltool.base.primitives import AG, RS
from colltool.logs.call_records import (
    MESSAGE,
    NO_OBJECT,
    NOT_MODELLED,
    START_UP,
    CallPlace,
    parsed_log,
    primitive_of,
    rank_call,
)
from colltool.logs.json_values import as_mapping, as_positive, as_whole, json_values
from colltool.logs.log_file import Log
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints, agreed_nodes
from colltool.logs.sentences import statement

_GPU_CLOCK = "kernel_gpu"


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The calls of all ranks in the file; ColltoolError where none can be used."""
    fix = "give a file with coll_perf records, of a run that goes on after its first calls"
    return parsed_log(log, _calls(log, hints), "NCCL Inspector's output", fix)


def _calls(log: Log, hints: UserHints) -> Iterator[Record | Note]:
    """A record per call and rank, or a note on why it cannot be used."""
    context: Mapping[str, Any] = {}  # the record whose header holds for those that have none
    for index, (line, value) in enumerate(json_values(log)):
        place = CallPlace(_version(context), log.file, line, f"record {index}")
        record = as_mapping(value)
        if not record:
            yield place.note(NO_OBJECT)
        elif "dump_stats" in record:
            context = record
        elif "coll_perf" in record:
            about = record if "header" in record else context
            yield from _record_of(record, about, place._replace(version=_version(about)), hints)
        elif "p2p_perf" in record:
            yield place.note(MESSAGE)
        elif "proxy_trace" not in record:
            yield place.note(NOT_MODELLED)


def _version(context: Mapping[str, Any]) -> str:
    """Inspector, with the version of its output where the metadata state it."""
    version = as_mapping(context.get("metadata")).get("inspector_output_format_version")
    return f"Inspector {version}" if isinstance(version, str) else "Inspector"


def _record_of(
    record: Mapping[str, Any], context: Mapping[str, Any], place: CallPlace, hints: UserHints
) -> Iterator[Record | Note]:
    """One call, and a note on why it is left out or doubted; nothing of another collective than the
    caller's. ``context``: the record whose header holds for it."""
    header = as_mapping(context.get("header"))
    perf = as_mapping(record.get("coll_perf"))
    primitive = primitive_of(perf.get("coll"))
    ranks = as_whole(header.get("n_ranks")) or 0
    size = as_positive(perf.get("coll_msg_size_bytes"))
    seconds = as_positive(perf.get("coll_exec_time_us")) / 1e6
    if primitive is None or ranks < 2 or not size or not seconds:
        yield place.note(NOT_MODELLED)
        return
    if hints.primitive not in (None, primitive):
        return
    number = as_whole(perf.get("coll_sn"))
    if number == 0:
        yield place.note(START_UP)
        return
    source = perf.get("coll_timing_source")
    if isinstance(source, str) and source != _GPU_CLOCK:
        yield place.note(statement("cpu-clock"), used=True)
    if primitive in (AG, RS) and not _counts_all_ranks(perf, size, seconds):
        size *= ranks
    nodes = agreed_nodes(
        as_whole(header.get("nnodes")) or None, hints, f"{place.file}:{place.line}"
    )
    call = rank_call(
        header.get("id"),
        perf.get("coll"),
        number,
        rank=as_whole(header.get("rank")),
    )
    yield place.record(
        primitive,
        ranks,
        nodes,
        size,
        seconds,
        call,
    )


def _counts_all_ranks(perf: Mapping[str, Any], size: float, seconds: float) -> bool:
    """Whether the size is that of all ranks together, by the rate beside it; False without one."""
    passed = as_positive(perf.get("coll_algobw_gbs")) * 1e9 * seconds
    return round(passed / size) == 1


FORMAT = Format(
    "Inspector",
    "NCCL Inspector's JSON",
    lambda log: (
        log.contains(b'"coll_perf"', b'"n_ranks"') or log.contains(b'"p2p_perf"', b'"n_ranks"')
    ),
    read,
    versions="v4.0 to v4.3",
)
