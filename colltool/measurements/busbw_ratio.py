"""Printed numbers of benchmarks: rank count and collective from busbw/algbw, as far as the digits
allow."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import Primitive, busbw_factor

_SLACK = 0.02  # of the rank count, beyond the rounding of the printed digits
_MOST_RANKS = 10**7
FEW_RANKS = 128  # above them the digits allow too many counts
# ranks: of several counts that digits allow, the only one of whole hosts is taken, else the only
# power of two
WHOLE_HOST = 8
RANKS_N = either(shell="--ranks N", python="ranks=N")
SAY_RANKS = f"say how many: {RANKS_N}"


class Ratio(NamedTuple):
    """The range of a row's busbw/algbw that its printed digits allow, or of the rank counts that
    this allows."""

    low: float
    high: float
    where: str

    @property
    def ranks(self) -> str:
        """``8``, ``120 to 140`` or ``more than 5000``."""
        low, high = round(self.low), round(self.high)
        return (
            f"more than {low}"
            if high >= _MOST_RANKS
            else f"{low}"
            if low == high
            else f"{low} to {high}"
        )


def ratio(
    algbw: RoundingInterval | None, busbw: RoundingInterval | None, where: str
) -> Ratio | None:
    """busbw/algbw of a row; None where one is missing or prints as 0."""
    if algbw is None or busbw is None or algbw.low <= 0:
        return None
    return Ratio(busbw.low / algbw.high, busbw.high / algbw.low, where)


def ranks_of(
    primitive: Primitive,
    ratios: Sequence[Ratio],
    agreed: int | None,
    source: str,
    where: str,
    *,
    named: bool,
) -> tuple[int, set[str]]:
    """The rank count, as agreed or as all rows allow, and the place of at most one garbled row that
    does not fit it."""
    if not named and agreed != 1:
        _check_collective(primitive, ratios, agreed)
    found = _evidence(primitive, ratios)
    if agreed is None:
        source, agreed = "the other rows say", _followed(found, where)
    fits = [one.low * (1 - _SLACK) <= agreed <= one.high * (1 + _SLACK) for one in found]
    misfits = [one for one, fit in zip(found, fits, strict=True) if not fit]
    if not misfits or (
        len(misfits) == 1
        and any(fit and one.high < _MOST_RANKS for one, fit in zip(found, fits, strict=True))
    ):
        return agreed, {one.where for one in misfits}
    sharpest = min(misfits, key=lambda one: one.high - one.low)
    what = f"busbw/algbw says {sharpest.ranks} ranks, {source} {agreed}"
    raise ColltoolError(
        what,
        where=sharpest.where,
        fix="correct the one that is wrong; split logs that ran together",
    )


def _evidence(primitive: Primitive, found: Iterable[Ratio]) -> list[Ratio]:
    """What rows say of the rank count; nothing for collectives whose busbw is algbw."""
    if busbw_factor(primitive, 2) == busbw_factor(primitive, 3):
        return []
    # what the factor tends to: 2 for all-reduce, 1 for the others
    limit = 2 * busbw_factor(primitive, 2)
    return [
        Ratio(_ranks_of(one.low / limit), _ranks_of(one.high / limit), one.where) for one in found
    ]


def _ranks_of(share: float) -> float:
    return 1 / (1 - share) if share < 1 - 1 / _MOST_RANKS else float(_MOST_RANKS)


def _followed(found: Sequence[Ratio], where: str) -> int:
    low, high = 1.0, float(_MOST_RANKS)
    for one in sorted(found, key=lambda one: one.high - one.low):
        if one.low <= high and one.high >= low:
            low, high = max(low, one.low), min(high, one.high)
    counts = _integers(low, high) or _integers(low * (1 - _SLACK / 2), high * (1 + _SLACK / 2))
    if not counts:
        raise ColltoolError(
            f"busbw/algbw fits no whole number of ranks: {low:.4g}", where=where, fix=SAY_RANKS
        )
    if counts[-1] >= _MOST_RANKS:
        raise ColltoolError(
            "the log does not say on how many ranks it ran", where=where, fix=SAY_RANKS
        )
    if len(counts) == 1:
        return counts[0]
    whole, doubled = (
        [one for one in counts if not one % WHOLE_HOST],
        [one for one in counts if not one & (one - 1)],
    )
    likely = next((few for few in (whole, doubled) if len(few) == 1), [])
    if likely and counts[0] >= WHOLE_HOST and counts[-1] <= FEW_RANKS:
        return likely[0]
    raise ColltoolError(
        f"no Rank lines, and busbw/algbw allows {counts[0]} to {counts[-1]} ranks",
        where=where,
        fix=SAY_RANKS,
    )


def _integers(low: float, high: float) -> range:
    return range(max(2, math.ceil(low - 1e-9)), math.floor(high + 1e-9) + 1)


# digits are enough to tell one collective from another: busbw/algbw is known within this share
_SHARP = 0.02
_RATIO_SLACK = 0.005  # of busbw/algbw, beyond the rounding of the printed digits


def _check_collective(stated: Primitive, ratios: Sequence[Ratio], ranks: int | None) -> None:
    """Refuse a collective whose busbw/algbw cannot be the table's where another one's is."""
    sharp = [one for one in ratios if one.high - one.low <= _SHARP * one.high]
    for count in dict.fromkeys((ranks, None)):  # --ranks may be as wrong as --collective
        if not sharp or any(_fits(stated, one, count) for one in sharp):
            return
        for other in Primitive:
            fitting = [one for one in sharp if _fits(other, one, count)]
            if 2 * len(fitting) <= len(sharp):
                continue
            one = min(fitting, key=lambda one: one.high - one.low)
            others = [other for other in Primitive if _fits(other, one, count)]
            counts = {found.ranks for other in others for found in _evidence(other, [one])}
            on = (
                f" on {count} ranks"
                if count
                else f" on {counts.pop()} ranks"
                if len(counts) == 1
                else ""
            )
            spoken, names = (
                " or ".join(words)
                for words in ((one.spoken for one in others), (f'"{one}"' for one in others))
            )
            what = (
                f"busbw/algbw is {(one.low + one.high) / 2:.3g}: that is {spoken}{on}, not"
                f" {stated.spoken}"
            )
            fix = either(shell=f"--collective {' or '.join(others)}", python=f"primitive={names}")
            raise ColltoolError(what, where=one.where, fix=fix)


def _fits(primitive: Primitive, one: Ratio, ranks: int | None) -> bool:
    least, most = (
        busbw_factor(primitive, count) for count in ((ranks, ranks) if ranks else (2, _MOST_RANKS))
    )
    return one.low * (1 - _RATIO_SLACK) <= most and one.high * (1 + _RATIO_SLACK) >= least


_DIGITS = re.compile(r"[+-]?(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")
_LONGEST = 40  # characters of a number that a program prints
_MOST_VALUES = 40  # of a row of any benchmark; what is wider is no row
_PLAIN = 20
_HALVES = tuple(0.5 * 10.0**-digits for digits in range(_PLAIN + 1))


class UnusableRow(Exception):
    """A row that says nothing about speed; the text is the reason, the same for rows with the same
    trouble."""


class RoundingInterval(NamedTuple):
    """A printed number, and half a unit of its last digit."""

    value: float
    half: float

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half


def rounding_interval(text: str) -> RoundingInterval | None:
    """``195.22`` as 195.22 ± 0.005; None for what is no finite number."""
    whole, point, decimals = text.partition(".")
    # nearly all, and far cheaper so
    if (whole + decimals).isdigit() and text.isascii() and len(text) <= _PLAIN:
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
    time = rounding_interval(text)
    if time is None:
        raise UnusableRow("the time is not a finite number")
    if time.value <= 0:
        raise UnusableRow("the time is zero or negative")
    return time


def message_size(text: str) -> float:
    size = rounding_interval(text)
    if size is None or size.value < 0 or size.value > MAX_SIZE or not size.value.is_integer():
        raise UnusableRow("the size is not a number of bytes")
    if size.value == 0:
        raise UnusableRow("size 0: nothing is sent")
    return size.value


def looks_like_a_row(text: str) -> bool:
    """Whether a line was a row of numbers, or part of one, before something garbled it."""
    if "#" in text or "<" in text:
        return False
    words = text.split(None, _MOST_VALUES)
    if not 4 <= len(words) <= _MOST_VALUES:
        return False
    # most words are no numbers, and the first character tells that cheaply
    likely = (word for word in words if word == "N/A" or word[0] in "+-.0123456789")
    return sum(word == "N/A" or rounding_interval(word) is not None for word in likely) >= max(
        4, len(words) // 2
    )
