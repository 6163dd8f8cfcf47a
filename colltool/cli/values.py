"""Text of options, read: counts, shares, lists and words; no error of another library reaches a person."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import takewhile
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, assert_never

from colltool.api.arguments import Argument
from colltool.base.errors import ColltoolError, given, nearest
from colltool.base.formatting import parse_count, parse_shape

if TYPE_CHECKING:
    from colltool.estimate.assumptions import Readings

_RANGE = re.compile(r"([0-9]{1,10})\s*(?:-|:|\.\.)\s*([0-9]{1,10})(?:\s*([+/x*])\s*([0-9]{1,10}))?")
_MOST_COUNTS = 10_000  # of one range
_BARE_BELOW = 1000  # bytes: who means so few types them as nccl-tests does, who means megabytes forgot the unit


def reader(name: str, row: Argument) -> Callable[[str], Any] | None:
    """What reads the text of an argument, by its kind; None where it reaches the command as it is."""
    match row.kind:
        case "text" | "flag":
            return None
        case "count":
            return count(name, row.least, row.most, several=row.hint)
        case "number":
            return real(name)
        case "share":
            return share(name, row)
        case "shape":
            return _quiet_in_completion(lambda text: parse_shape(text, name))
        case "word":
            return _word(name, row.words)
        case _:
            assert_never(row.kind)


def count(name: str, least: float, most: float, *, several: str = "") -> Callable[[str], int]:
    """A reader of whole numbers within bounds; ``several`` is what to type instead of a list of them."""

    def read(text: str) -> int:
        if several and "," in text:
            raise ColltoolError(f"takes one number here, got '{short(text)}'", argument=name, fix=several)
        return parse_count(text, name, least, most)

    return _quiet_in_completion(read)


def real(name: str) -> Callable[[str], float]:
    """A reader of finite numbers."""

    def read(text: str) -> float:
        number = _float(text)
        if not isfinite(number):
            raise ColltoolError(f"'{short(text)}' is not a number", argument=name, fix=f"write {given(name, 1.5)}")
        return number

    return _quiet_in_completion(read)


def share(name: str, row: Argument) -> Callable[[str], float]:
    """A reader of shares, ``15%`` or ``0.15``; one of 1 or more needs its percent sign."""
    part, zero = row.most == 1, row.least == 0

    def read(text: str) -> float:
        number, percent, rest = text.strip().partition("%")
        value = _float(number) / (100 if percent else 1) if text.isascii() else nan
        if rest or not isfinite(value) or value < 0 or (value == 0 and not zero) or (value > 1 and part):
            kind = "a share above 0 up to 1" if part else "a share of at least 0" if zero else "a positive share"
            raise ColltoolError(f"'{short(text)}' is not {kind}", argument=name, fix=f"write {row.hint}")
        if value == 1 and not percent:
            raise ColltoolError(f"'{short(text)}' is 1% or 100%", argument=name, fix="write 1% or 100%")
        if value > 1 and not percent:
            fix = f"write {number.strip()}% if that is what you mean"
            raise ColltoolError(f"'{short(text)}' is {value:.0%}", argument=name, fix=fix)
        return value

    return _quiet_in_completion(read)


def _float(text: str) -> float:
    try:
        return float(text) if text.isascii() else nan
    except ValueError:
        return nan


def _word(name: str, known: tuple[str, ...]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            fix = f"{nearest(text, list(known))} one of {', '.join(known)}".strip()
            raise ColltoolError(f"'{short(text)}' is not known", argument=name, fix=fix)
        return text

    return _quiet_in_completion(read)


def _quiet_in_completion(read: Callable[[str], Any]) -> Callable[[str], Any]:
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


def counts(texts: list[str] | None, argument: str) -> list[int]:
    """``-n 8,16 -n 64`` as numbers; ``8-64`` is doubled as in nccl-tests, ``8-64+8`` goes in steps, ``8-512x4`` in factors.

    Raises:
        ColltoolError: no number and no range, or a range that is upside down or too long.
    """
    return list(dict.fromkeys(one for text in texts or [] for part in _parts(text, argument) for one in _counts(part, argument)))


def _counts(text: str, argument: str) -> list[int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        return [parse_count(text, argument, 0)]
    low, high, sign, by = int(found[1]), int(found[2]), found[3] or "x", int(found[4] or 2)
    steps = sign in "+/"
    length = (high - low) // max(by, 1) if steps else high.bit_length()
    if not 0 < low < high <= 10**9 or by < (1 if steps else 2) or length > _MOST_COUNTS:
        fix = f"write {given(argument, text='8-64')} for 8,16,32,64, or {given(argument, text='8-64+8')} for steps of 8"
        raise ColltoolError(f"'{short(text)}' is not a range of numbers", argument=argument, fix=fix)
    if steps:
        return [*range(low, high + 1, by)]
    return [*takewhile(lambda number: number < high, (low * by**times for times in range(high.bit_length()))), high]


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


def readings(texts: dict[str, Any]) -> Readings:
    """All readings of the model as they are typed: words stay, digits and numbers are read.

    Raises:
        ColltoolError: a word or a number that a reading cannot be.
    """
    from colltool.estimate.assumptions import KINDS, MOST_SEGMENTS, checked, takes_count

    def read(name: str, text: Any) -> Any:
        if isinstance(text, str) and takes_count(name) and text.isascii() and text.isdigit():
            return int(text) if len(text) <= len(str(MOST_SEGMENTS)) else MOST_SEGMENTS + 1
        return real(name)(text) if KINDS[name] is float else text

    return checked(**{name: read(name, text) for name, text in texts.items()})


def short(text: str) -> str:
    """What was typed, no longer than a line."""
    return text if len(text) <= 40 else f"{text[:37]}..."
