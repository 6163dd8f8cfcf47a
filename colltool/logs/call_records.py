"""Records of calls as NCCL's recorders write them: :class:`CallPlace` makes a record or a note, and
:func:`parsed` puts these apart.
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
    """``AllReduce``, ``nccl:_allgather_base`` and the like."""
    if not isinstance(name, str):
        return None
    word = name.lower().removeprefix("nccl:")
    return collectives_of("recorders").get(re.sub(r"[^a-z]", "", word))


class CallPlace(NamedTuple):
    """Where a call of NCCL stands, and by which program: its ``item`` of a file that has more than
    lines."""

    version: str
    file: str
    line: int = 1
    item: str = ""

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
        """The call as it was measured."""
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
    """The call as other ranks see it, too; None where it has no number or no rank."""
    if number is None or rank is None:
        return None
    return RankCall(f"{communicator}"[:80], f"{operation}", number, rank)


def parsed(log: Log, found: Iterable[Record | Note], what: str, fix: str) -> ParsedLog:
    """Records and notes apart; ColltoolError where there is no record."""
    records: list[Record] = []
    notes: list[Note] = []
    for entry in found:
        if isinstance(entry, Record):
            records.append(entry)
        else:
            notes.append(entry)
    if records:
        return ParsedLog(records, notes)
    if not notes:
        raise ColltoolError(f"{what} without a call", where=f"{log.file}:1", fix=fix)
    # the commonest reason
    reasons = Counter(note.reason for note in notes)
    reason = max(reasons, key=reasons.__getitem__)
    first = next(note for note in notes if note.reason == reason)
    raise ColltoolError(
        f"{what} without a call that has a size and a time: {reason}", where=first.where, fix=fix
    )
