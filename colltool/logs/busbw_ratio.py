"""How many ranks ran, and which collective, by busbw/algbw of printed rows, as far as their digits
allow.

All-reduce on 8 ranks has 2 x 7/8 = 1.75; a row of 100.0 and 175.0 GB/s may be 7.96 to 8.04 ranks.
:func:`busbw_over_algbw` gives that ratio of a row, :func:`ranks_of` compares it in all rows with
the agreed rank count, or finds the count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError, either
from colltool.base.primitives import Primitive, busbw_factor
from colltool.logs.printed_numbers import RoundingInterval

_SLACK = 0.02  # share of the rank count, beyond the rounding of the printed digits
_MOST_RANKS = 10**7  # from there on busbw/algbw has reached its limit
# Of several rank counts that the digits allow, the only one of whole hosts is taken, else the only
# power of two; but for more ranks than these the digits allow too many.
WHOLE_HOST = 8  # ranks
FEW_RANKS = 128
RANKS_N = either(shell="--ranks N", python="ranks=N")
SAY_RANKS = f"say how many: {RANKS_N}"


class RanksNotStated(ColltoolError):
    """A log that does not say on how many ranks it ran; the caller may state it."""


class RowRange(NamedTuple):
    """A range that the printed digits of a row allow: of its busbw/algbw, or of the rank counts
    that follow from it."""

    low: float
    high: float
    where: str  # the row stands

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def ranks(self) -> str:
        """A range of rank counts in words: ``8``, ``120 to 140`` or ``more than 5000``."""
        low = round(self.low)
        high = round(self.high)
        if high >= _MOST_RANKS:
            return f"more than {low}"
        return f"{low}" if low == high else f"{low} to {high}"

    def within(self, low: float, high: float, slack: float) -> bool:
        """Whether the range, widened by a share of itself, meets another one."""
        return self.low * (1 - slack) <= high and self.high * (1 + slack) >= low


def busbw_over_algbw(
    algbw: RoundingInterval | None, busbw: RoundingInterval | None, where: str
) -> RowRange | None:
    """busbw/algbw of a row; None where one is missing or prints as 0."""
    if algbw is None or busbw is None or algbw.low <= 0:
        return None
    return RowRange(busbw.low / algbw.high, busbw.high / algbw.low, where)


def ranks_of(
    primitive: Primitive,
    ratios: Sequence[RowRange],
    agreed: int | None,
    source: str,
    where: str,
    *,
    named: bool,
) -> tuple[int, set[str]]:
    """The rank count, as agreed or as all rows allow, and the place of at most one garbled row that
    does not fit it.

    Args:
        agreed: the rank count by log and caller; None where neither says it.
        source: who says it, for errors.
        where: the table stands.
        named: the log names the collective; otherwise it is checked, too.

    Raises:
        ColltoolError: rows contradict the count, each other or the collective, or do not tell.
    """
    if not named and agreed != 1:
        _check_collective(primitive, ratios, agreed)
    ranges = list(_rank_ranges(primitive, ratios))
    if agreed is None:
        source = "the other rows say"
        agreed = _ranks_in_all(ranges, where)
    fits: list[RowRange] = []
    misfits: list[RowRange] = []
    for row in ranges:
        if row.within(agreed, agreed, _SLACK):
            fits.append(row)
        else:
            misfits.append(row)
    # one row may be garbled, if another one confirms the count
    is_confirmed = any(row.high < _MOST_RANKS for row in fits)
    if not misfits or (len(misfits) == 1 and is_confirmed):
        return agreed, {row.where for row in misfits}
    sharpest = min(misfits, key=attrgetter("width"))
    raise ColltoolError(
        f"busbw/algbw says {sharpest.ranks} ranks, {source} {agreed}",
        where=sharpest.where,
        fix="correct the one that is wrong; split logs that ran together",
    )


def _rank_ranges(primitive: Primitive, ratios: Iterable[RowRange]) -> Iterator[RowRange]:
    """The rank counts that each row allows; nothing for collectives whose busbw is algbw."""
    if busbw_factor(primitive, 2) == busbw_factor(primitive, 3):
        return
    # The factor is that of 2 (n-1)/n for an all-reduce, (n-1)/n for the others: what it tends to, 2
    # or 1, is twice what it is on two ranks.
    limit = 2 * busbw_factor(primitive, 2)
    for row in ratios:
        yield RowRange(_ranks_at(row.low / limit), _ranks_at(row.high / limit), row.where)


def _ranks_at(share: float) -> float:
    """The rank count n of which (n-1)/n is ``share``: 8 for 0.875."""
    if share < 1 - 1 / _MOST_RANKS:
        return 1 / (1 - share)
    return float(_MOST_RANKS)


def _ranks_in_all(ranges: Sequence[RowRange], where: str) -> int:
    """The rank count that the rows allow together, the most precise first; ColltoolError where it
    is not clear."""
    low, high = 1.0, float(_MOST_RANKS)
    for row in sorted(ranges, key=attrgetter("width")):
        if row.low <= high and row.high >= low:
            low = max(low, row.low)
            high = min(high, row.high)
    counts = _integers(low, high)
    if not counts:
        # 7.96 to 7.98 holds no whole number: with 1% more on either side it holds 8
        slack = _SLACK / 2
        counts = _integers(low * (1 - slack), high * (1 + slack))
    if len(counts) == 1 and counts[0] < _MOST_RANKS:
        return counts[0]
    if not counts:
        what = f"busbw/algbw fits no whole number of ranks: {low:.4g}"
    elif counts[-1] >= _MOST_RANKS:
        what = "the log does not say on how many ranks it ran"
    else:
        likely = _likely_count(counts)
        if likely is not None:
            return likely
        what = f"no Rank lines, and busbw/algbw allows {counts[0]} to {counts[-1]} ranks"
    raise RanksNotStated(what, where=where, fix=SAY_RANKS)


def _likely_count(counts: range) -> int | None:
    """The only count of whole hosts, else the only power of two; None where there are several, or
    counts that are too large to tell."""
    if counts[0] < WHOLE_HOST or counts[-1] > FEW_RANKS:
        return None
    whole_hosts = [count for count in counts if count % WHOLE_HOST == 0]
    if len(whole_hosts) == 1:
        return whole_hosts[0]
    powers_of_two = [count for count in counts if count.bit_count() == 1]
    return powers_of_two[0] if len(powers_of_two) == 1 else None


def _integers(low: float, high: float) -> range:
    """The rank counts of a range, from 2 on; its ends count."""
    # 1e-9: what floats lose in the division
    return range(max(2, math.ceil(low - 1e-9)), math.floor(high + 1e-9) + 1)


# busbw/algbw is known within this share: its digits are enough to tell collectives apart
_SHARP = 0.02
_RATIO_SLACK = 0.005  # of busbw/algbw, beyond the rounding of the printed digits


def _check_collective(stated: Primitive, ratios: Sequence[RowRange], ranks: int | None) -> None:
    """Refuse a collective whose busbw/algbw cannot be the table's where another one's is."""
    sharp = [row for row in ratios if row.width <= _SHARP * row.high]
    # --ranks may be as wrong as --collective
    for count in dict.fromkeys((ranks, None)):
        if not sharp or _fitting(stated, sharp, count):
            return
        for other in Primitive:
            fitting = _fitting(other, sharp, count)
            if 2 * len(fitting) > len(sharp):
                row = min(fitting, key=attrgetter("width"))
                raise _other_collective(stated, row, count)


def _other_collective(stated: Primitive, row: RowRange, ranks: int | None) -> ColltoolError:
    """The error that names the collectives whose busbw/algbw a row has."""
    others = [other for other in Primitive if _fitting(other, [row], ranks)]
    rank_texts = {f"{ranks}"}
    if not ranks:
        rank_texts = set()
        for other in others:
            rank_texts.update(counts.ranks for counts in _rank_ranges(other, [row]))
    on_ranks = ""
    if len(rank_texts) == 1:
        on_ranks = f" on {rank_texts.pop()} ranks"
    labels = " or ".join(other.label for other in others)
    names = " or ".join(f'"{other}"' for other in others)
    middle = (row.low + row.high) / 2
    return ColltoolError(
        f"busbw/algbw is {middle:.3g}: that is {labels}{on_ranks}, not {stated.label}",
        where=row.where,
        fix=either(shell=f"--collective {' or '.join(others)}", python=f"primitive={names}"),
    )


def _fitting(primitive: Primitive, rows: Iterable[RowRange], ranks: int | None) -> list[RowRange]:
    """Rows whose busbw/algbw a primitive may have, on so many ranks or on any number."""
    least = busbw_factor(primitive, ranks or 2)
    most = busbw_factor(primitive, ranks or _MOST_RANKS)
    return [row for row in rows if row.within(least, most, _RATIO_SLACK)]
