"""Records of single calls, for the readers of NCCL's recorders: Inspector, the profiler plugin and
the Flight Recorder.

:class:`CallPlace` makes a record or a note of a call, and :func:`parsed_log` a log of all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.base.statements import Statement
from colltool.logs.collective_names import collectives_of
from colltool.logs.log_file import Log
from colltool.logs.records import Note, ParsedLog, RankCall, Record, place
from colltool.logs.sentences import statement

NOT_MODELLED = statement("not-modelled")
START_UP = statement("start-up")
MESSAGE = statement("message")
NO_OBJECT = statement("no-object")


def primitive_of(name: object) -> Primitive | None:
    """The collective by a recorder's name: ``AllReduce``, ``nccl:_allgather_base`` and the like;
    None for any other."""
    if not isinstance(name, str):
        return None
    word = name.lower().removeprefix("nccl:")
    return collectives_of("recorders").get(re.sub(r"[^a-z]", "", word))


class CallPlace(NamedTuple):
    """Where a call of NCCL stands, and by which program."""

    version: str  # the program, and its version where that is known
    file: str
    line: int = 1
    item: str = ""  # of a file that has more than lines: ``record 3``

    @property
    def where(self) -> str:
        return place(self.file, self.line, self.item)

    def note(self, reason: Statement, *, used: bool = False) -> Note:
        """Why the call is left out or doubted."""
        return Note(reason, self.file, self.line, self.item, used)

    def record(
        self,
        primitive: Primitive,
        ranks: int,
        nodes: int | None,
        size: float,
        seconds: float,
        call: RankCall | None,
    ) -> Record:
        """The call as it was measured: ``size`` bytes, as nccl-tests counts them."""
        return Record(
            primitive,
            ranks,
            nodes,
            size,
            seconds,
            dtype="",
            library="NCCL",
            version=self.version,
            file=self.file,
            line=self.line,
            item=self.item,
            call=call,
        )


def rank_call(
    communicator: object, operation: object, number: int | None, rank: int | None
) -> RankCall | None:
    """What tells the call apart on every rank, by at most 80 characters of its communicator; None
    where it has no number or no rank."""
    if number is None or rank is None:
        return None
    return RankCall(f"{communicator}"[:80], f"{operation}", number, rank)


def parsed_log(log: Log, calls: Iterable[Record | Note], what: str, fix: str) -> ParsedLog:
    """The records and the notes of ``calls``, apart.

    Args:
        what: the kind of file, for errors: ``NCCL Inspector's output``.
        fix: what to do where there is no record.

    Raises:
        ColltoolError: there is no record; it says the commonest note.
    """
    records: list[Record] = []
    notes: list[Note] = []
    for entry in calls:
        if isinstance(entry, Record):
            records.append(entry)
        else:
            notes.append(entry)
    if records:
        return ParsedLog(records, notes)
    if not notes:
        raise ColltoolError(f"{what} without a call", where=f"{log.file}:1", fix=fix)
    [(reason, _)] = Counter(note.reason for note in notes).most_common(1)
    first = next(note for note in notes if note.reason == reason)
    raise ColltoolError(
        f"{what} without a call that has a size and a time: {reason}", where=first.where, fix=fix
    )
