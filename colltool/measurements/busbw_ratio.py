"""How many ranks a table ran on: busbw/algbw tells, as far as the printed digits allow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.primitives import Primitive, busbw_factor
from colltool.measurements.rounding_interval import RoundingInterval

_SLACK = 0.02  # of the rank count, beyond the rounding of the printed digits
_MOST = 10**7


RANKS_N = either(shell="--ranks N", python="ranks=N")
SAY_RANKS = f"say how many: {RANKS_N}"
"""The cure where a log does not tell."""


class Ratio(NamedTuple):
    """busbw/algbw of a row: the least and the largest that its printed digits allow, and where it stands."""

    low: float
    high: float
    where: str


def ratio(algbw: RoundingInterval | None, busbw: RoundingInterval | None, where: str) -> Ratio | None:
    """busbw/algbw of a row; None where one was not printed, or has no digit but 0."""
    if algbw is None or busbw is None or algbw.low <= 0:
        return None
    return Ratio(busbw.low / algbw.high, busbw.high / algbw.low, where)


class RankRange(NamedTuple):
    """Rank counts that a row's busbw and algbw allow, and where it stands."""

    low: float
    high: float
    where: str

    def allows(self, ranks: int) -> bool:
        return self.low * (1 - _SLACK) <= ranks <= self.high * (1 + _SLACK)

    @property
    def spoken(self) -> str:
        """``8``, ``120 to 140`` or ``more than 5000``."""
        low, high = round(self.low), round(self.high)
        return f"more than {low}" if high >= _MOST else f"{low}" if low == high else f"{low} to {high}"


def evidence(primitive: Primitive, found: Iterable[Ratio]) -> list[RankRange]:
    """What rows say of the rank count: nothing where busbw is algbw for any count."""
    if busbw_factor(primitive, 2) == busbw_factor(primitive, 3):
        return []
    limit = 2 * busbw_factor(primitive, 2)  # what the factor tends to: 2 for all-reduce, 1 for the others
    return [RankRange(_ranks_of(one.low / limit), _ranks_of(one.high / limit), one.where) for one in found]


def _ranks_of(share: float) -> float:
    """n of (n-1)/n."""
    return 1 / (1 - share) if share < 1 - 1 / _MOST else float(_MOST)


def follow(found: Sequence[RankRange], where: str) -> int:
    """The one rank count that the rows allow."""
    low, high = 1.0, float(_MOST)
    for one in sorted(found, key=lambda one: one.high - one.low):
        if one.low <= high and one.high >= low:
            low, high = max(low, one.low), min(high, one.high)
    counts = _integers(low, high) or _integers(low * (1 - _SLACK / 2), high * (1 + _SLACK / 2))
    if not counts:
        raise ColltoolError(f"busbw/algbw fits no whole number of ranks, but {low:.4g}", where=where, fix=SAY_RANKS)
    if counts[-1] >= _MOST:
        raise ColltoolError("the log does not say on how many ranks it ran", where=where, fix=SAY_RANKS)
    if len(counts) == 1:
        return counts[0]
    raise ColltoolError(f"no Rank lines, and busbw/algbw allows {counts[0]} to {counts[-1]} ranks", where=where, fix=SAY_RANKS)


def _integers(low: float, high: float) -> range:
    return range(max(2, math.ceil(low - 1e-9)), math.floor(high + 1e-9) + 1)


def contradicting(found: Iterable[RankRange], ranks: int, source: str) -> set[str]:
    """Where a row's busbw/algbw does not fit ``ranks``: at most one, which is garbled."""
    fits: list[RankRange] = []
    misfits: list[RankRange] = []
    for one in found:
        (fits if one.allows(ranks) else misfits).append(one)
    if not misfits or (len(misfits) == 1 and any(one.high < _MOST for one in fits)):
        return {one.where for one in misfits}
    sharpest = min(misfits, key=lambda one: one.high - one.low)
    what = f"busbw/algbw says {sharpest.spoken} ranks, {source} {ranks}"
    raise ColltoolError(what, where=sharpest.where, fix="correct the one that is wrong; split logs that ran together")


_SHARP = 0.02  # digits are enough to tell one collective from another: busbw/algbw is known within this share
_RATIO_SLACK = 0.005  # of busbw/algbw, beyond the rounding of the printed digits
_MANY = 10**7


def check_collective(stated: Primitive, ratios: Sequence[Ratio], ranks: int | None) -> None:
    """Refuse a collective whose busbw/algbw cannot be the table's, where another one's is."""
    sharp = [one for one in ratios if one.high - one.low <= _SHARP * one.high]
    for count in dict.fromkeys((ranks, None)):  # --ranks may be as wrong as --collective
        if not sharp or any(_fits(stated, one, count) for one in sharp):
            return
        for other in Primitive:
            fitting = [one for one in sharp if _fits(other, one, count)]
            if 2 * len(fitting) > len(sharp):
                raise _refusal(stated, min(fitting, key=lambda one: one.high - one.low), count)


def _fits(primitive: Primitive, one: Ratio, ranks: int | None) -> bool:
    least, most = (busbw_factor(primitive, count) for count in ((ranks, ranks) if ranks else (2, _MANY)))
    return one.low * (1 - _RATIO_SLACK) <= most and one.high * (1 + _RATIO_SLACK) >= least


def _refusal(stated: Primitive, one: Ratio, ranks: int | None) -> ColltoolError:
    others = [other for other in Primitive if _fits(other, one, ranks)]
    counts = {found.spoken for other in others for found in evidence(other, [one])}
    on = f" on {ranks} ranks" if ranks else f" on {counts.pop()} ranks" if len(counts) == 1 else ""
    spoken = " or ".join(other.spoken for other in others)
    what = f"busbw/algbw is {(one.low + one.high) / 2:.3g}: that is {spoken}{on}, not {stated.spoken}"
    names = " or ".join(f'"{other}"' for other in others)
    fix = either(shell=f"--collective {' or '.join(others)}", python=f"primitive={names}")
    return ColltoolError(what, where=one.where, fix=fix)
