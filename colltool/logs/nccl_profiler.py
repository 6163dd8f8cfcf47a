"""The JSON of NCCL's example profiler plugin: begin and end of each collective, an event a line.

NCCL 2.23 to 2.30 write an array of trace events, each on a line of its own, without its closing
bracket where the process was killed. It is no strict JSON: 2.27 to 2.29 print pointers and types of
the API's events as bare tokens (``"Stream": (nil)``, ``"datatype": ncclBfloat16``), and a time may
be ``nan``. Such a token is read as text. Events are matched by category, process, number and name;
``COLL`` is a collective, ``P2P`` one end of a message, all others are parts of these.

``Count`` is what one rank passes, as in the call; of an all-gather, reduce-scatter or all-to-all the bytes of
a record are those of all ranks' parts. Files of several ranks are matched by CommHash and SeqNum; the first
call of an operation on a communicator (SeqNum 0) connects it, and is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import A2A, AG, RS
from colltool.logs.busbw_ratio import SAY_RANKS, RanksNotStated
from colltool.logs.call_records import (
    MESSAGE,
    NOT_MODELLED,
    START_UP,
    CallPlace,
    parsed_log,
    primitive_of,
    rank_call,
)
from colltool.logs.dtypes import element_bytes
from colltool.logs.json_values import as_list, as_mapping, as_positive, as_whole, json_values
from colltool.logs.log_file import Log
from colltool.logs.records import Format, Note, ParsedLog, Record, UserHints

_BEGIN, _END = "b", "e"  # phases of an event
# {"name": "AllReduce", "cat": "COLL", "ph": "b", ...},
_SIGN = re.compile(rb'"cat": ?"(?:COLL|P2P|COLL_API|GROUP)"')
_EVENT_A_LINE = b"},\n{"  # as the plugin writes them
# a bare token behind a colon, a comma or a bracket: "(nil)", "ncclBfloat16" or "-nan", or "0x7f3a"
_BARE = re.compile(
    r"(?<=[:,\[])(?P<blanks>\s*)"
    r'(?P<token>\([^()",]{0,40}\)|-?[A-Za-z_][\w.+-]{0,80}|0x[0-9a-fA-F]{1,40})'
    r"(?=\s*[,}\]])"
)
_JSON_WORDS = ("true", "false", "null")


def read(log: Log, hints: UserHints) -> ParsedLog:
    """The collectives of a trace, whose rank count the caller states; ColltoolError without that,
    and where none can be used."""
    if hints.ranks is None:
        raise RanksNotStated(
            "NCCL's profiler does not say how many ranks there are",
            where=f"{log.file}:1",
            fix=SAY_RANKS,
        )
    fix = "give the dump of a run with COLL events (NCCL_PROFILE_EVENT_MASK), past its first calls"
    return parsed_log(log, _calls(log, hints.ranks, hints.nodes), "NCCL's profiler trace", fix)


def _calls(log: Log, ranks: int, nodes: int | None) -> Iterator[Record | Note]:
    """A record per collective whose begin and end are there, or a note; at the line of its begin. An end
    without its begin gives nothing, nor does a begin without its end."""
    # line and event, by process, number and name
    begins: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for index, (line, event) in enumerate(_events(log)):
        # the index counts events as they are read: of a file with an event a line, without other parts
        place = CallPlace("profiler", log.file, line, f"event {index}")
        category = event.get("cat")
        phase = event.get("ph")
        if category == "P2P" and phase == _BEGIN:
            yield place.note(MESSAGE)
        if category != "COLL":
            continue
        call = f"{event.get('pid')}/{event.get('id')}/{event.get('name')}"[:200]
        if phase == _BEGIN:
            begins[call] = line, event
        elif phase == _END and call in begins:
            begin_line, begin = begins.pop(call)
            yield _record_of(begin, event, ranks, nodes, place._replace(line=begin_line))


def _events(log: Log) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The events with their lines; of a file as the plugin writes it, those of :func:`_events_a_line`."""
    # two lines and less cannot show the plugin's form; an array in one line is read all the same
    if _EVENT_A_LINE in log.content or log.content.count(b"\n") < 2:
        yield from _events_a_line(log)
        return
    for line, value in json_values(log):
        # of a file that another program wrote again
        for event in as_list(value) or as_list(as_mapping(value).get("traceEvents")) or [value]:
            yield line, as_mapping(event)


def _events_a_line(log: Log) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The events of lines that are about collectives or messages; all others are their parts. A line that
    is no JSON, even with its bare tokens as texts, is passed over: the last one may be cut off."""
    for number, line in enumerate(log.text().split("\n"), 1):
        if '"COLL"' not in line and '"P2P"' not in line:
            continue
        text = line.strip().rstrip(",")
        for attempt in (text, _BARE.sub(_quoted, text)):
            try:
                value = json.loads(attempt)
            except (ValueError, RecursionError):
                continue
            for event in as_list(value) or [value]:
                yield number, as_mapping(event)
            break


def _quoted(match: re.Match[str]) -> str:
    """A bare token as a JSON text behind its blanks; a word of JSON as it is."""
    if match["token"] in _JSON_WORDS:
        return match[0]
    return f'{match["blanks"]}"{match["token"]}"'


def _record_of(
    begin: Mapping[str, Any],
    end: Mapping[str, Any],
    ranks: int,
    nodes: int | None,
    place: CallPlace,
) -> Record | Note:
    """A collective from its begin to its end, or a note on why it cannot be used: its operation or type is
    not known, or count or times are missing (NOT_MODELLED), or it connects (START_UP).

    Args:
        place: of the begin.

    Raises:
        ColltoolError: a rank beyond ``ranks``, which the caller stated.
    """
    args = as_mapping(begin.get("args"))
    name = begin.get("name")
    primitive = primitive_of(name)
    width = element_bytes(args.get("Datatype"))
    count = as_positive(args.get("Count"))
    # microseconds; a time that is missing or nan counts as 0, so that without an end the difference is negative
    seconds = (as_positive(end.get("ts")) - as_positive(begin.get("ts"))) / 1e6
    if primitive is None or not width or not count or seconds <= 0:
        return place.note(NOT_MODELLED)
    number = as_whole(args.get("SeqNum"))
    if number == 0:
        return place.note(START_UP)
    rank = as_whole(args.get("Rank"))
    if rank is not None and rank >= ranks:
        raise ColltoolError(
            f"the trace is of rank {rank}, {argument_text('ranks')} says {ranks} ranks",
            where=f"{place.file}:{place.line}",
            fix=f"give the ranks of the communicator, more than {rank}",
        )
    # bytes as nccl-tests counts them
    size = count * width
    if primitive in (AG, RS, A2A):  # the count is of one rank's part
        size *= ranks
    call = rank_call(args.get("CommHash"), name, number, rank)
    return place.record(primitive, ranks, nodes, size, seconds, call)


FORMAT = Format(
    "profiler",
    "NCCL's profiler JSON",
    lambda log: log.contains(b'"CommHash"') and _SIGN.search(log.content) is not None,
    read,
    versions="NCCL 2.23 to 2.30",
)
