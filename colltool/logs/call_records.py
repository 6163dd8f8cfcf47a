"""Records of calls out of JSON values that follow each other in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.logs.log_file import Log
from colltool.logs.records import Note, ParsedLog, Record
from colltool.logs.sentences import statement

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
_MOST_VALUES = 1_000_000
_MOST = 1e18  # of a number that is believed
NOT_MODELLED = statement("not-modelled")


def primitive_of(name: object) -> Primitive | None:
    """``AllReduce``, ``nccl:_allgather_base`` and the like."""
    word = str(name).lower().removeprefix("nccl:")
    return _PRIMITIVES.get(re.sub(r"[^a-z]", "", word))


def positive(value: object) -> float:
    """A number above 0; 0 for anything else."""
    # True is an int, too
    if type(value) not in (int, float):
        return 0.0
    number: Any = value
    return float(number) if 0 < number < _MOST else 0.0


def json_values(log: Log) -> Iterator[Any]:
    """JSON values one after the other, or one a line; the last may be cut off."""
    text = log.json_text()
    decoder = json.JSONDecoder()
    start = 0
    for _ in range(_MOST_VALUES):
        while start < len(text) and text[start] in " \t\r\n,":
            start += 1
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return
        yield value


def call_record(
    primitive: Primitive,
    ranks: int,
    nodes: int | None,
    size: float,
    seconds: float,
    *,
    version: str,
    file: str,
    item: str,
) -> Record:
    """A call of NCCL in a file whose lines mean nothing."""
    return Record(
        primitive,
        ranks,
        nodes,
        size,
        seconds,
        dtype="",
        library="NCCL",
        version=version,
        file=file,
        line=1,
        item=item,
    )


def parsed(log: Log, found: Iterable[Record | Note], what: str) -> ParsedLog:
    """Records and notes apart; ColltoolError where there is no record."""
    records: list[Record] = []
    notes: list[Note] = []
    for entry in found:
        if isinstance(entry, Record):
            records.append(entry)
        else:
            notes.append(entry)
    if not records:
        why = f": {notes[0].reason}" if notes else ""
        raise ColltoolError(
            f"{what} without a call that has a size and a time{why}",
            where=f"{log.file}:1",
            fix="give the dump of a run that was timed",
        )
    return ParsedLog(records, notes)
