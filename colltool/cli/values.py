"""Values of options as they are typed: counts, shares, lists and choices, in one set of words.

Every option reaches its command as text or is read here, so that no library's words reach a person.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import StrEnum
from itertools import takewhile
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.units import parse_count, parse_shape

if TYPE_CHECKING:
    from colltool.estimate.assumptions import Readings

MOST_RANKS = 10**9
MOST_ROWS = 10**6  # more than any output has

_RANGE = re.compile(r"([0-9]{1,10})\s*(?:-|:|\.\.)\s*([0-9]{1,10})")
_BARE_BELOW = 1000  # bytes: who means so few types them as nccl-tests does, who means megabytes forgot the unit

Choice = TypeVar("Choice", bound=StrEnum)


def count(argument: str, least: int = 0, most: int = MOST_RANKS, *, several: str = "") -> Callable[[str], int]:
    """A reader of whole numbers for an option.

    Args:
        argument: what it gives, by its name in Python.
        least, most: the bounds, both allowed.
        several: what to type instead of a list of numbers.
    """

    def read(text: str) -> int:
        if several and "," in text:
            raise ColltoolError(f"takes one number here, got '{short(text)}'", argument=argument, fix=several)
        return parse_count(text, argument, least, most)

    return quiet_in_completion(read)


def real(argument: str) -> Callable[[str], float]:
    """A reader of numbers for an option."""

    def read(text: str) -> float:
        try:
            number = float(text) if text.isascii() else float("nan")
        except ValueError:
            number = float("nan")
        if not isfinite(number):
            raise ColltoolError(f"'{short(text)}' is not a number", argument=argument, fix=f"write {given(argument, 1.5)}")
        return number

    return quiet_in_completion(read)


def share(argument: str, example: str, *, zero: bool = False, part: bool = False) -> Callable[[str], float]:
    """A reader of shares, ``15%`` or ``0.15``, for an option; one of 1 or more needs its percent sign.

    Args:
        argument: what it gives, by its name in Python.
        example: a share in percent and as a fraction, for the cure: ``15% or 0.15``.
        zero: whether nothing is a share.
        part: whether it is of a whole, and so at most 1.
    """

    def read(text: str) -> float:
        number, percent, rest = text.strip().partition("%")
        try:
            value = float(number) / (100 if percent else 1) if text.isascii() else float("nan")
        except ValueError:
            value = float("nan")
        if rest or not isfinite(value) or value < 0 or (value == 0 and not zero) or (value > 1 and part):
            kind = "a share above 0 up to 1" if part else "a share of at least 0" if zero else "a positive share"
            raise ColltoolError(f"'{short(text)}' is not {kind}", argument=argument, fix=f"write {example}")
        if value == 1 and not percent:
            raise ColltoolError(f"'{short(text)}' is 1% or 100%", argument=argument, fix="write 1% or 100%")
        if value > 1 and not percent:
            fix = f"write {number.strip()}% if that is what you mean"
            raise ColltoolError(f"'{short(text)}' is {value:.0%}", argument=argument, fix=fix)
        return value

    return quiet_in_completion(read)


def shape(argument: str) -> Callable[[str], tuple[int, ...]]:
    """A reader of shapes, ``4x4x4``, for an option."""
    return quiet_in_completion(lambda text: parse_shape(text, argument))


def choice(argument: str, kind: type[Choice]) -> Callable[[str], Choice]:
    """A reader of one of several words for an option."""

    def read(text: str) -> Choice:
        known = [str(one.value) for one in kind]
        if text not in known:
            fix = f"{nearest(text, known)} one of {', '.join(known)}".strip()
            raise ColltoolError(f"'{short(text)}' is not known", argument=argument, fix=fix)
        return kind(text)

    return quiet_in_completion(read)


def quiet_in_completion(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A shell that completes a line asks about words that are not finished: what cannot be read is then not there."""

    def value(text: Any) -> Any:
        if not isinstance(text, str):  # the default, which typer hands through
            return text
        try:
            return read(text)
        except ColltoolError:
            if "_COLLTOOL_COMPLETE" in os.environ:
                return None
            raise

    return value


def names(text: str | None) -> list[str]:
    """``ring,tree`` as a list, each once; empty without the option.

    Raises:
        ColltoolError: a name is empty.
    """
    return list(dict.fromkeys(_parts(text, "algorithms")))


def sizes(text: str | None) -> list[str]:
    """``1MB,16MB`` as a list; empty without the option.

    Raises:
        ColltoolError: a size is empty.
    """
    return _parts(text, "sizes")


def bare_sizes(text: str) -> list[str]:
    """Of ``16,1MB`` what has no unit and is below a kilobyte."""
    parts = [part.strip() for part in text.split(",")]
    return [part for part in parts if part.isascii() and part.isdecimal() and int(part[:9]) < _BARE_BELOW]


def counts(texts: list[str], argument: str) -> list[int]:
    """``-n 8,16 -n 64`` as numbers.

    Raises:
        ColltoolError: one that is none; of ``8-64`` it says which numbers to write.
    """
    return [_one_count(part, argument) for text in texts for part in _parts(text, argument)]


def _one_count(text: str, argument: str) -> int:
    ends = _RANGE.fullmatch(text)
    if ends and 0 < (low := int(ends[1])) < (high := int(ends[2])) <= MOST_RANKS:
        between = takewhile(lambda number: number < high, (low << times for times in range(MOST_RANKS.bit_length())))
        listed = ",".join(map(str, (*between, high)))
        what = f"'{short(text)}' is a range, and only a list of numbers is taken"
        raise ColltoolError(what, argument=argument, fix=f"write {given(argument, text=listed)}")
    return parse_count(text, argument, 0, MOST_RANKS)


def _parts(text: str | None, argument: str) -> list[str]:
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(parts):
        fix = "separate items with one comma, without spaces"
        raise ColltoolError(f"an empty item in '{text}'", argument=argument, fix=fix)
    return parts


def single(text: str, argument: str, noun: str) -> str:
    """An option that elsewhere takes a list.

    Raises:
        ColltoolError: several items.
    """
    parts = _parts(text, argument)
    if len(parts) > 1:
        what = f"takes one {noun} here, got {len(parts)}: {short(text)}"
        raise ColltoolError(what, argument=argument, fix="one a call; colltool price takes several")
    return parts[0]


def one(values: list[str], argument: str) -> str:
    """The value of an option that may stand once: silently taking the last of two would price the wrong thing.

    Raises:
        ColltoolError: given more than once.
    """
    if len(values) > 1:
        fix = "one a call: write each to a file with --format json -o FILE, and compare two with colltool diff OLD NEW"
        raise ColltoolError(f"given {len(values)} times: {', '.join(values)}", argument=argument, fix=fix)
    return values[0]


def reading(name: str, text: str) -> Any:
    """A reading of the model as it is typed, to be checked with the others: words stay, digits and numbers are read."""
    from colltool.estimate.assumptions import KINDS, MOST_SEGMENTS, takes_count

    if takes_count(name) and text.isascii() and text.isdigit():
        return int(text) if len(text) <= len(str(MOST_SEGMENTS)) else MOST_SEGMENTS + 1
    return real(name)(text) if KINDS[name] is float else text


def readings(texts: dict[str, Any]) -> Readings:
    """All readings of the model as they are typed.

    Raises:
        ColltoolError: a word or a number that a reading cannot be.
    """
    from colltool.estimate.assumptions import checked

    return checked(**{name: text if isinstance(text, bool) else reading(name, text) for name, text in texts.items()})


def short(text: str) -> str:
    """What was typed, no longer than a line."""
    return text if len(text) <= 40 else f"{text[:37]}..."
