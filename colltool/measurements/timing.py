"""What every reader hands over: timings, notes on rows that were left out; and what the caller stated."""

from typing import NamedTuple, TypeVar

from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive

_T = TypeVar("_T")


class Stated(NamedTuple):
    """What the caller says about the logs; None where the logs must say it themselves."""

    ranks: int | None = None
    primitive: Primitive | None = None
    nodes: int | None = None
    in_place: bool = False


def place(file: str, line: int, item: str) -> str:
    """``file:line``, and the item where a line holds several: ``a.json:1: results[3]``."""
    return f"{file}:{line}: {item}" if item else f"{file}:{line}"


class Timing(NamedTuple):
    """One measured time of one size, in SI units and by nccl-tests' size convention; most readers find one in each row."""

    primitive: Primitive
    ranks: int
    nodes: int | None
    bytes: float
    seconds: float
    dtype: str
    library: str
    version: str
    file: str
    line: int
    item: str = ""

    @property
    def where(self) -> str:
        """``file:line``, and the item."""
        return place(self.file, self.line, self.item)


class Note(NamedTuple):
    """A row that was left out, or ``used`` with a reservation: the reason, and where."""

    reason: str
    file: str
    line: int
    item: str = ""
    used: bool = False

    @property
    def where(self) -> str:
        """``file:line``, and the item."""
        return place(self.file, self.line, self.item)


class Reading(NamedTuple):
    """What one reader found in one file."""

    timings: tuple[Timing, ...]
    notes: tuple[Note, ...]


def agree(found: _T | None, stated: _T | None, what: str, argument: str, where: str) -> _T | None:
    """The one of log and caller that says something; both must say the same.

    Raises:
        ColltoolError: they contradict each other.
    """
    if found is not None and stated is not None and found != stated:
        what = f"the log says {what} {found}, {given(argument)} says {stated}"
        raise ColltoolError(what, where=where, fix=f"leave {given(argument)} out, or correct it")
    return stated if found is None else found
