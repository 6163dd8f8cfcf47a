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


def reader(name: str, row: Argument) -> Callable[[str], Any] | None:
    """What reads the text of an argument, by its kind; None where it reaches the command as it is."""
    if row.kind in ("text", "flag"):
        return None

    def value(text: Any) -> Any:
        if not isinstance(text, str):  # the default, which typer hands through
            return text
        try:
            return _read(text, name, row)
        except ColltoolError:
            if "_COLLTOOL_COMPLETE" in os.environ:  # words of a line that is not finished: what cannot be read is not there
                return None
            raise

    return value


def _read(text: str, name: str, row: Argument) -> Any:
    match row.kind:
        case "text" | "flag":
            return text
        case "count":
            if text in row.words:
                return row.most
            if row.hint and "," in text:
                raise ColltoolError(f"takes one number here, got '{short(text)}'", argument=name, fix=row.hint)
            return parse_count(text, name, row.least, row.most)
        case "number":
            return _number(text, name)
        case "share":
            return _share(text, name, row)
        case "shape":
            return parse_shape(text, name)
        case "word":
            if text not in row.words:
                fix = f"{nearest(text, list(row.words))} one of {', '.join(row.words)}".strip()
                raise ColltoolError(f"'{short(text)}' is not known", argument=name, fix=fix)
            return text
        case _:
            assert_never(row.kind)


def _number(text: str, name: str) -> float:
    number = _float(text)
    if not isfinite(number):
        raise ColltoolError(f"'{short(text)}' is not a number", argument=name, fix=f"write {given(name, 1.5)}")
    return number


def _share(text: str, name: str, row: Argument) -> float:
    """``15%`` or ``0.15``; one of 1 or more needs its percent sign."""
    part, zero = row.most == 1, row.least == 0
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


def _float(text: str) -> float:
    try:
        return float(text) if text.isascii() else nan
    except ValueError:
        return nan


def parts(text: str | None, argument: str) -> list[str]:
    """``1MB,16MB`` as a list; empty without the option, and no item may be."""
    found = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(found):
        fix = "separate items with one comma, without spaces"
        raise ColltoolError(f"an empty item in '{text}'", argument=argument, fix=fix)
    return found


def names(text: str | None) -> list[str]:
    """``ring,tree`` as a list, each once."""
    return list(dict.fromkeys(parts(text, "algorithms")))


def counts(texts: list[str] | None) -> list[int]:
    """``-n 8,16 -n 64`` as numbers; ``8-64`` is doubled as in nccl-tests, ``8-64+8`` goes in steps, ``8-512x4`` in factors."""
    return list(dict.fromkeys(one for text in texts or [] for part in parts(text, "ranks") for one in _counts(part)))


def _counts(text: str) -> list[int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        return [parse_count(text, "ranks", 0)]
    low, high, sign, by = int(found[1]), int(found[2]), found[3] or "x", int(found[4] or 2)
    steps = sign in "+/"
    length = (high - low) // max(by, 1) if steps else high.bit_length()
    if not 0 < low < high <= 10**9 or by < (1 if steps else 2) or length > _MOST_COUNTS:
        fix = f"write {given('ranks', text='8-64')} for 8,16,32,64, or {given('ranks', text='8-64+8')} for steps of 8"
        raise ColltoolError(f"'{short(text)}' is not a range of numbers", argument="ranks", fix=fix)
    if steps:
        return [*range(low, high + 1, by)]
    return [*takewhile(lambda number: number < high, (low * by**times for times in range(high.bit_length()))), high]


def single(text: str, argument: str) -> str:
    """An option that elsewhere takes a list; refuses several items."""
    found = parts(text, argument)
    if len(found) > 1:
        what = f"takes one {argument} here, got {len(found)}: {short(text)}"
        raise ColltoolError(what, argument=argument, fix="one a call; colltool price takes several")
    return found[0]


def readings(texts: dict[str, Any]) -> Readings:
    """All readings of the model as they are typed: words stay, digits and numbers are read."""
    from colltool.estimate.assumptions import KINDS, MOST_SEGMENTS, checked, takes_count

    def read(name: str, text: Any) -> Any:
        if isinstance(text, str) and takes_count(name) and text.isascii() and text.isdigit():
            return int(text) if len(text) <= len(str(MOST_SEGMENTS)) else MOST_SEGMENTS + 1
        return _number(text, name) if KINDS[name] is float else text

    return checked(**{name: read(name, text) for name, text in texts.items()})


def short(text: str) -> str:
    """What was typed, no longer than a line."""
    return text if len(text) <= 40 else f"{text[:37]}..."
