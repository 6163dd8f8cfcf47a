"""Numbers as programs print them, with what their digits leave open: :func:`rounding_interval`
reads one, :func:`positive_time` and :func:`message_size` refuse what is no time and no size.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from colltool.base.formatting import MAX_SIZE
from colltool.logs.sentences import statement

_DIGITS = re.compile(r"[+-]?(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")
_LONGEST = 40  # characters of a number that a program prints
_LEAST_VALUES = 4  # of a row of any benchmark
_MOST_VALUES = 40  # what is wider is no row
_PLAIN = 20  # characters of a number without sign and exponent
# half a unit of the last digit, by the number of decimals
_HALVES = tuple(0.5 * 10.0**-digits for digits in range(_PLAIN + 1))


class UnusableRow(Exception):
    """A row that says nothing about speed; rows with the same trouble have the same ``reason``."""

    def __init__(self, code: str, **fields: object) -> None:
        self.reason = statement(code, **fields)


class RoundingInterval(NamedTuple):
    """A printed number, and half a unit of its last digit."""

    value: float
    half_digit: float

    @property
    def low(self) -> float:
        """The least that it may stand for."""
        return self.value - self.half_digit

    @property
    def high(self) -> float:
        """The most that it may stand for."""
        return self.value + self.half_digit


def rounding_interval(text: str) -> RoundingInterval | None:
    """``195.22`` as 195.22 ± 0.005; None for what is no finite number."""
    whole, _, decimals = text.partition(".")
    # nearly all numbers are plain, and far cheaper to read so
    is_plain = (whole + decimals).isdigit() and text.isascii()
    if is_plain and len(text) <= _PLAIN:
        return RoundingInterval(float(text), _HALVES[len(decimals)])
    match = _DIGITS.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match[1] or match[2]):
        return None
    decimals = match[2] or ""
    try:
        value = float(text)
        half = 0.5 * 10.0 ** (int(match[3] or 0) - len(decimals))
    except OverflowError:
        return None
    return RoundingInterval(value, half) if math.isfinite(value) else None


def positive_time(text: str) -> RoundingInterval:
    """A printed time; UnusableRow unless it is a number above 0."""
    time = rounding_interval(text)
    if time is None:
        raise UnusableRow("no-finite-time")
    if time.value <= 0:
        raise UnusableRow("no-positive-time")
    return time


def message_size(text: str) -> float:
    """A printed size in bytes; UnusableRow unless it is a whole number above 0, and no larger than
    any that is priced."""
    size = rounding_interval(text)
    if size is None or not 0 <= size.value <= MAX_SIZE or not size.value.is_integer():
        raise UnusableRow("no-size")
    if size.value == 0:
        raise UnusableRow("size-zero")
    return size.value


def looks_like_a_row(text: str) -> bool:
    """Whether a line was a row of numbers, or part of one, before something garbled it: half of its
    words are numbers, and four at least."""
    # of a header or a tag
    if "#" in text or "<" in text:
        return False
    words = text.split(None, _MOST_VALUES)
    if not _LEAST_VALUES <= len(words) <= _MOST_VALUES:
        return False
    numbers = 0
    for word in words:
        # most words are no numbers, and the first character tells that cheaply
        is_number = word[0] in "+-.0123456789" and rounding_interval(word) is not None
        numbers += is_number or word == "N/A"
    return numbers >= max(_LEAST_VALUES, len(words) // 2)
