"""Numbers as a benchmark prints them: a value, and the range that its digits allow."""

import math
import re
from typing import NamedTuple

from colltool.base.units import MAX_SIZE

_DIGITS = re.compile(r"[+-]?(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")
_LONGEST = 40  # characters of a number that a program prints
_PLAIN = 20
_HALVES = tuple(0.5 * 10.0**-digits for digits in range(_PLAIN + 1))


class UnusableRow(Exception):
    """A row that says nothing about speed; the text is the reason, worded so that rows with the same trouble share it."""


class RoundingInterval(NamedTuple):
    """A number as printed, and half a unit of its last digit: the range that it may stand for."""

    value: float
    half: float

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half


def rounding_interval(text: str) -> RoundingInterval | None:
    """``195.22`` as 195.22 within 0.005; None for what is no finite number."""
    whole, point, decimals = text.partition(".")
    if (whole + decimals).isdigit() and text.isascii() and len(text) <= _PLAIN:  # nearly all, and far cheaper so
        return RoundingInterval(float(text), _HALVES[len(decimals) if point else 0])
    match = _DIGITS.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match[1] or match[2]):
        return None
    try:
        value = float(text)
        half = 0.5 * 10.0 ** (int(match[3] or 0) - len(match[2] or ""))
    except OverflowError:
        return None
    return RoundingInterval(value, half) if math.isfinite(value) else None


def positive_time(text: str) -> RoundingInterval:
    """A time as printed."""
    time = rounding_interval(text)
    if time is None:
        raise UnusableRow("the time is no finite number")
    if time.value <= 0:
        raise UnusableRow("the time is zero or negative")
    return time


def message_size(text: str) -> float:
    """Bytes as a benchmark prints them."""
    size = rounding_interval(text)
    if size is None or size.value < 0 or size.value > MAX_SIZE or not size.value.is_integer():
        raise UnusableRow("the size is no number of bytes")
    if size.value == 0:
        raise UnusableRow("size 0: nothing is sent")
    return size.value


def looks_like_a_row(text: str) -> bool:
    """Whether a line was a row of numbers, or the rest of one, before something garbled it."""
    if "#" in text or "<" in text:
        return False
    words = text.split(None, _MOST_VALUES)
    if not 4 <= len(words) <= _MOST_VALUES:
        return False
    numbers = sum(_like_a_number(word) for word in words)
    return numbers >= max(4, len(words) // 2)


_MOST_VALUES = 40  # of a row of any benchmark; what is wider is no row


def _like_a_number(word: str) -> bool:
    """Cheaper than :func:`rounding_interval`, for most words of a log are none."""
    return (word[0] in "+-.0123456789" and rounding_interval(word) is not None) or word == "N/A"
