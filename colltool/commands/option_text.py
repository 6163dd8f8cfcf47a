"""Reads the text of options by the ``kind`` of their rows; whatever a user types, errors are
ColltoolErrors in our words.

:func:`reader` gives typer the function for one value of an option; :func:`read_items` splits what
has commas once the command runs; :func:`readings` reads the options of the model together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from itertools import takewhile
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, assert_never

from colltool.base.errors import ColltoolError, argument_text, nearest_and_all
from colltool.base.formatting import parse_count, parse_shape
from colltool.commands.arguments import Argument

if TYPE_CHECKING:
    from colltool.estimate.assumptions import ModelOptions

# 8-64, 8:64 or 8..64, doubling; 8-64+8 or 8:64/8 in steps; 8-512x4 or 8-512*4 in factors
_RANGE = re.compile(r"([0-9]{1,10})\s*(?:-|:|\.\.)\s*([0-9]{1,10})(?:\s*([+/x*])\s*([0-9]{1,10}))?")
_MAX_COUNTS = 10_000  # numbers of one range; more is a typing error
_LONGEST = 40  # characters of a typed text that an error repeats


def reader(name: str, row: Argument) -> Callable[[str], Any] | None:
    """The function by which typer reads the text of an argument. None if the text itself is the
    value, or if :func:`read_items` splits it."""
    if row.kind not in ("count", "number", "share", "shape", "word"):
        return None

    def read(text: Any) -> Any:
        # typer also passes the default
        if not isinstance(text, str):
            return text
        try:
            return _read(text, name, row)
        except ColltoolError:
            # a shell completes an unfinished line: ignore what cannot be read yet
            if "_COLLTOOL_COMPLETE" in os.environ:
                return None
            raise

    return read


def _read(text: str, name: str, row: Argument) -> Any:
    """The value of an option's text; errors name the argument."""
    match row.kind:
        # not reached: reader leaves these to typer or to read_items
        case "text" | "flag" | "path" | "pair" | "single" | "texts" | "names" | "counts":
            return text
        case "count":
            return _count(text, name, row)
        case "number":
            return _number(text, name)
        case "share":
            return _share(text, name, row)
        case "shape":
            return parse_shape(text, name)
        case "word":
            if text not in row.words:
                raise ColltoolError(
                    f"'{short(text)}' is not known",
                    argument=name,
                    fix=nearest_and_all(text, row.words, "one of"),
                )
            return text
        case _:
            assert_never(row.kind)


def read_items(value: Any, name: str, row: Argument) -> Any:
    """The items of an option that has them separated by commas; any other value as it is.

    Args:
        value: the text, of ``counts`` a list of texts, or None.
    """
    if value is None:
        return None
    match row.kind:
        case "single":
            return single(value, name)
        case "texts":
            return parts(value, name)
        case "names":
            return list(dict.fromkeys(parts(value, name)))
        case "counts":
            return counts(value)
        case _:
            return value


def _count(text: str, name: str, row: Argument) -> float:
    """A whole number within the row's bounds; its largest for a word, such as ``all``."""
    if text in row.words:
        return row.most
    if row.hint and "," in text:
        raise ColltoolError(
            f"takes one number here, got '{short(text)}'", argument=name, fix=row.hint
        )
    return parse_count(text, name, row.least, row.most)


def _number(text: str, name: str) -> float:
    """A finite number."""
    number = _float(text)
    if not isfinite(number):
        raise ColltoolError(
            f"'{short(text)}' is not a number",
            argument=name,
            fix=f"write {argument_text(name, 1.5)}",
        )
    return number


def _share(text: str, name: str, row: Argument) -> float:
    """The share of ``15%`` or ``0.15``; one of 1 or more needs its percent sign, as a plain 1 may be
    meant as 1%."""
    number, percent, after_percent = text.strip().partition("%")
    value = _float(number) if text.isascii() else nan
    if percent:
        value /= 100
    if after_percent or not _is_share(value, row):
        raise ColltoolError(
            f"'{short(text)}' is not {_expected_share(row)}", argument=name, fix=f"write {row.hint}"
        )
    if value == 1 and not percent:
        raise ColltoolError(f"'{short(text)}' is 1% or 100%", argument=name, fix="write 1% or 100%")
    if value > 1 and not percent:
        raise ColltoolError(
            f"'{short(text)}' is {value:.0%}",
            argument=name,
            fix=f"write {number.strip()}% if that is what you mean",
        )
    return value


def _is_share(value: float, row: Argument) -> bool:
    """Whether a row allows a share: 0 only if ``row.least`` is 0, more than 1 unless ``row.most`` is
    1."""
    if not isfinite(value) or value < 0:
        return False
    if value == 0:
        return row.least == 0
    # other bounds are checked by the public function
    return row.most != 1 or value <= 1


def _expected_share(row: Argument) -> str:
    """What a row allows, for an error."""
    if row.most == 1:
        return "a share above 0 up to 1"
    if row.least == 0:
        return "a share of at least 0"
    return "a positive share"


def _float(text: str) -> float:
    """The number of a text; not a number for anything else."""
    try:
        return float(text) if text.isascii() else nan
    except ValueError:
        return nan


def parts(text: str, argument: str) -> list[str]:
    """Split ``1MB,16MB`` into a list; ColltoolError for an empty item."""
    items = [part.strip() for part in text.split(",")]
    if not all(items):
        raise ColltoolError(
            f"an empty item in '{text}'",
            argument=argument,
            fix="separate items with one comma, without spaces",
        )
    return items


def counts(texts: list[str]) -> list[int]:
    """``-n 8,16 -n 64`` as numbers; ``8-64`` is doubled as in nccl-tests, ``8-64+8`` goes in steps,
    ``8-512x4`` in factors. The only such option is ``--ranks``, which errors name."""
    numbers: list[int] = []
    for text in texts:
        for part in parts(text, "ranks"):
            numbers += _counts_of_range(part)
    return list(dict.fromkeys(numbers))


def _counts_of_range(text: str) -> list[int]:
    """The number of a text, or the numbers of a range, ascending.

    A range of factors includes its last number, one of steps only where a step meets it.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        return [parse_count(text, "ranks", least=0)]
    low = int(match[1])
    high = int(match[2])
    # a step, or a factor: doubling where neither is written
    step = int(match[4] or 2)
    in_steps = match[3] in ("+", "/")
    if in_steps:
        length = (high - low) // max(step, 1)
        least_step = 1
    else:
        length = high.bit_length()
        least_step = 2
    if not 0 < low < high <= 10**9 or step < least_step or length > _MAX_COUNTS:
        raise ColltoolError(
            f"'{short(text)}' is not a range of numbers",
            argument="ranks",
            fix=f"write {argument_text('ranks', text='8-64')} for 8,16,32,64, or"
            f" {argument_text('ranks', text='8-64+8')} for steps of 8",
        )
    if in_steps:
        return list(range(low, high + 1, step))
    # as in nccl-tests, a range of factors ends with its last number, 8-100 is 8, 16, 32, 64, 100
    multiples = (low * step**power for power in range(high.bit_length()))
    return [*takewhile(lambda number: number < high, multiples), high]


def single(text: str, argument: str) -> str:
    """The only item of a text; ColltoolError for several."""
    items = parts(text, argument)
    if len(items) > 1:
        raise ColltoolError(
            f"takes one {argument} here, got {len(items)}: {short(text)}",
            argument=argument,
            fix="give one per call; colltool price takes several",
        )
    return items[0]


def readings(**texts: Any) -> ModelOptions:
    """The options of the model from their texts: words stay text, flags are bool already, numbers are
    read."""
    from colltool.estimate.assumptions import USUAL, checked

    values = {option: _model_value(option, text) for option, text in texts.items()}
    # --ideal refuses any stated --numbers, also its default, which typer passes where none was typed
    if values.get("numbers") == USUAL.numbers:
        del values["numbers"]
    return checked(**values)


def _model_value(name: str, text: Any) -> Any:
    """The value of an option of the model: a number where it takes one, else its text or flag."""
    from colltool.estimate.assumptions import KINDS, MOST_SEGMENTS, takes_count

    if KINDS[name] is float:
        return _number(text, name)
    if isinstance(text, str) and takes_count(name) and text.isascii() and text.isdigit():
        # a longer number is over the limit anyway, whatever its digits
        return int(text) if len(text) <= len(str(MOST_SEGMENTS)) else MOST_SEGMENTS + 1
    return text


def short(text: str) -> str:
    """The typed text, cut for an error."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
