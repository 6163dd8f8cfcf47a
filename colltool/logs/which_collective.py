"""Which collective a table of nccl-tests measures, where nothing names it: from its own columns.

Only a reduction has a redop, only a rooted one a root; per-rank parts show in ``count``, and
busbw/algbw says the rest: 2(n-1)/n of all-reduce, (n-1)/n where each rank has a part, 1 elsewhere
(nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.logs.dtypes import element_bytes

CLOSE = 0.02  # how near busbw/algbw must be to 1 where a message goes from one to another
_SEVERAL_PARTS = 1.5  # size over count, between those of one part and of two


class TellingRow(NamedTuple):
    """The cells of a row by which collectives differ."""

    size: float  # bytes
    elements: float  # the cell ``count``
    dtype: str
    redop: str
    root: str
    ratio: float | None  # busbw/algbw, None where its digits are too few
    in_place_wrong: str  # the cell ``wrong`` of the in-place half


def collective_of(rows: Iterable[TellingRow]) -> Primitive | None:
    """The collective of most rows; None where they do not say."""
    votes = Counter(map(_collective_of_row, rows))
    del votes[None]
    for primitive, count in votes.most_common(1):
        if 2 * count > votes.total():
            return primitive
    return None


def _collective_of_row(row: TellingRow) -> Primitive | None:
    """The collective that a row's columns show; None where several are possible."""
    width = element_bytes(row.dtype)
    if not width or not row.elements:
        return None
    reduces = row.redop not in ("", "none")
    has_root = row.root not in ("", "-1")
    # how many times ``count`` the size is: the number of ranks where that is of one rank's part,
    # else 1
    parts = row.size / (row.elements * width)
    if parts < _SEVERAL_PARTS:
        if reduces and has_root:
            return REDUCE
        if reduces:
            return AR
        if has_root:
            return BC
        return P2P if row.ratio is not None and abs(row.ratio - 1) < CLOSE else None
    if reduces:
        return RS
    if has_root:
        return None  # gather or scatter
    # nccl-tests has no check of an all-to-all in place
    return A2A if row.in_place_wrong == "N/A" else AG
