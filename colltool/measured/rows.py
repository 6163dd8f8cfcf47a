"""What every reader hands over: rows of one measurement each, what was left out, and what the caller stated."""

import math
import re
from typing import NamedTuple, TypeVar

from colltool.errors import ColltoolError
from colltool.primitives import Primitive
from colltool.units import MAX_SIZE

_T = TypeVar("_T")
_DIGITS = re.compile(r"[+-]?(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")


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
    """One measured call, in SI units and by nccl-tests' size convention."""

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
    """One file, read."""

    rows: tuple[Timing, ...]
    notes: tuple[Note, ...]


class Unusable(Exception):
    """A row that says nothing about speed; the text is the reason, worded so that rows with the same trouble share it."""


class Printed(NamedTuple):
    """A number as printed, and half a unit of its last digit: the range that it may stand for."""

    value: float
    half: float

    @property
    def low(self) -> float:
        """The least number that prints like this."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The largest number that prints like this."""
        return self.value + self.half


def printed(text: str) -> Printed | None:
    """``195.22`` as 195.22 within 0.005; None for what is no finite number."""
    match = _DIGITS.fullmatch(text)
    if match is None or not (match[1] or match[2]) or len(text) > 40:
        return None
    try:
        value = float(text)
        half = 0.5 * 10.0 ** (int(match[3] or 0) - len(match[2] or ""))
    except OverflowError:
        return None
    return Printed(value, half) if math.isfinite(value) else None


def positive_time(text: str) -> Printed:
    """A time as printed.

    Raises:
        Unusable: no number, not finite, zero or negative.
    """
    time = printed(text)
    if time is None:
        raise Unusable("the time is no finite number")
    if time.value <= 0:
        raise Unusable("the time is zero or negative")
    return time


def message_size(text: str) -> float:
    """Bytes as a benchmark prints them.

    Raises:
        Unusable: no number, size 0 (no bytes move), above an exabyte.
    """
    size = printed(text)
    if size is None or size.value < 0 or size.value > MAX_SIZE or not size.value.is_integer():
        raise Unusable("the size is no number of bytes")
    if size.value == 0:
        raise Unusable("size 0: nothing is sent")
    return size.value


def agree(found: _T | None, stated: _T | None, what: str, option: str, where: str) -> _T | None:
    """The one of log and caller that says something; both must say the same.

    Raises:
        ColltoolError: they contradict each other.
    """
    if found is not None and stated is not None and found != stated:
        what = f"the log says {what} {found}, {option} says {stated}"
        raise ColltoolError(what, where=where, fix=f"leave {option} out, or correct it")
    return stated if found is None else found
