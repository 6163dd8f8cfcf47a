"""What the reader of a format gives: records of measured times, and notes on rows that it left
out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

from colltool.base.errors import ColltoolError, ManyErrors, argument_text
from colltool.base.primitives import Primitive
from colltool.base.statements import Statement
from colltool.logs.log_file import Log

_T = TypeVar("_T")


class UserHints(NamedTuple):
    """What the caller says about the logs; None leaves it to the logs."""

    ranks: int | None = None
    primitive: Primitive | None = None
    nodes: int | None = None
    in_place: bool = False


class RankCall(NamedTuple):
    """Which call a record is of, and which rank recorded it: several ranks may record one call."""

    communicator: str  # what tells it apart on every rank
    operation: str
    number: int  # counts the calls of an operation on a communicator
    rank: int | str  # its number, or the file where that does not say it
    # the time includes the wait for the last rank: the shortest of all ranks is the call's own
    waits: bool = False


class Record(NamedTuple):
    """One measured time of one size, in SI units."""

    primitive: Primitive
    ranks: int
    nodes: int | None
    bytes: float  # as nccl-tests counts them
    seconds: float
    dtype: str
    library: str
    version: str
    file: str
    line: int
    item: str = ""  # path in a file that has more than lines: ``results[3]``
    message: float = 0.0  # bytes of each message where they are a stream of several, else 0
    call: RankCall | None = None  # of a file that records single calls by number

    @property
    def where(self) -> str:
        """``file:line``, and the item if there is one."""
        return place(self.file, self.line, self.item)


class Note(NamedTuple):
    """A row that was left out; with ``used`` a row that became a record, about which something is
    doubtful."""

    reason: Statement
    file: str
    line: int
    item: str = ""
    used: bool = False

    @property
    def where(self) -> str:
        """``file:line``, and the item if there is one."""
        return place(self.file, self.line, self.item)


class ParsedLog(NamedTuple):
    """Records of a log, and notes on rows that were left out or doubted."""

    timings: Sequence[Record]
    notes: Sequence[Note]


def place(file: str, line: int, item: str) -> str:
    """``file:line``, and the item if the file has more than lines."""
    return f"{file}:{line}: {item}" if item else f"{file}:{line}"


class Format(NamedTuple):
    """A log format."""

    mention: str  # the word by which the guide and the help name it
    known_by: str  # name and sign, for error messages
    recognises: Callable[[Log], bool]
    read: Callable[[Log, UserHints], ParsedLog]  # raises ColltoolError where no row is usable
    shares: bool = False  # a log may also hold tables of other such formats
    versions: str = "all"  # those that are read, as guides/formats.md has them


class NoTable(ColltoolError):
    """A log without a table of any known format; it may still state something."""


class WrongValues(ColltoolError):
    """A table in which every row has a wrong result; ``rows`` of them."""

    def __init__(self, what: str, rows: int, where: str) -> None:
        super().__init__(what, where=where, fix="colltool doctor says what to look at")
        self.rows = rows


# notes on rows whose values are wrong
WRONG_NOTES = frozenset({"wrong-result", "validation-failed"})


def one_error(problems: Sequence[ColltoolError]) -> ColltoolError:
    """The only problem, or all of them as one error."""
    return problems[0] if len(problems) == 1 else ManyErrors(list(problems))


def nothing_usable(what: str, notes: Sequence[Note], where: str, fix: str) -> ColltoolError:
    """The error ``what`` for a table without a usable row. By the notes on its rows it is WrongValues
    where all results are wrong, as such a run was not cut short; ``fix`` is what to do else."""
    codes = {note.reason.code for note in notes}
    if codes and codes <= WRONG_NOTES:
        return WrongValues(what, len(notes), where)
    if "run-failed" in codes:
        fix = "colltool doctor says what the error means"
    return ColltoolError(what, where=where, fix=fix)


def no_usable_row(notes: Sequence[Note], table_line: int) -> ColltoolError:
    """The error for a table whose header stands in a line and whose rows all have a note."""
    first = min(notes, key=attrgetter("line"))
    return nothing_usable(
        f"no row of this table can be used; the first: {first.reason}",
        notes,
        first.where,
        f"the table starts at line {table_line}; measure it again",
    )


def agree(
    found: _T | None, stated: _T | None, subject: str, argument: str, where: str
) -> _T | None:
    """Whichever of log (``found``) and caller (``stated``) says something; None if neither does.

    Args:
        argument: the caller's, by name.

    Raises:
        ColltoolError: they differ: ``the log says ranks: 16, --ranks says 8``, of which ``ranks:``
            is the ``subject``.
    """
    if found is None:
        return stated
    if stated is not None and found != stated:
        raise ColltoolError(
            f"the log says {subject} {found}, {argument_text(argument)} says {stated}",
            where=where,
            fix=f"leave {argument_text(argument)} out, or correct it",
        )
    return found


def agreed_primitive(found: Primitive | None, hints: UserHints, where: str) -> Primitive | None:
    """The collective by log and caller."""
    return agree(found, hints.primitive, "the collective is", "primitive", where)


def agreed_ranks(found: int | None, hints: UserHints, where: str) -> int | None:
    """The rank count by log and caller."""
    return agree(found, hints.ranks, "ranks:", "ranks", where)


def agreed_nodes(found: int | None, hints: UserHints, where: str) -> int | None:
    """The node count by log and caller."""
    return agree(found, hints.nodes, "nodes:", "nodes", where)
