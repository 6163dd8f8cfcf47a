"""All-to-alls that are not uniform: by a traffic matrix, hot destinations, or Zipf's law
(:func:`skewed`). Values may come from Python, of any type, and are checked here.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, quote
from colltool.base.formatting import MAX_SIZE, shape_text
from colltool.congestion.traffic import Traffic
from colltool.network.arrays import Floats

MOST_ZIPF = 100  # the exponent; beyond it shares are zero in floating point
LEAST_BYTES = 1e-9  # mean of a matrix, below which its shares drown in rounding


class Skew(NamedTuple):
    """How an all-to-all is skewed: by at most one of ``matrix``, ``hot`` and ``zipf``."""

    # Bytes from row to column, N x N; the diagonal does not count.
    matrix: Sequence[Sequence[float]] | Floats | None = None
    # The mean's multiple that each hot destination gets; the others share the rest alike.
    hot: float | None = None
    hot_members: Sequence[int] = (0,)
    zipf: float | None = None  # s: destination k (from 0) gets a share in proportion to (k+1)^-s

    @property
    def is_set(self) -> bool:
        """Whether the all-to-all is skewed at all."""
        return any(value is not None for value in (self.matrix, self.hot, self.zipf))


def skewed(skew: Skew, ranks: int) -> tuple[Traffic, Floats]:
    """The traffic of a skewed all-to-all, and the sizes of the uniform one that moves as many
    bytes, in the order of the traffic's pairs.

    Both are in units of M: every rank sends M in all, its own share included; under a matrix M is
    :func:`mean_bytes`. One of the skew's three is set.

    Raises:
        ColltoolError: a value of the skew that is none, or does not fit this many ranks.
    """
    if skew.matrix is not None:
        matrix = _as_matrix(skew.matrix)
        if matrix.shape != (ranks, ranks):
            what = f"the matrix is {shape_text(matrix.shape)}, the group has {ranks} ranks"
            fix = f"one row and one column per rank: {ranks}x{ranks}"
            raise _bad_matrix(what, fix)
        sizes = matrix / mean_bytes(skew)
    else:
        if skew.hot is None:
            over_mean = _by_zipf(skew.zipf, ranks)
        else:
            over_mean = _by_hot_members(skew, ranks)
        # every rank sends alike: a row of the sizes for each
        sizes = np.tile(over_mean / ranks, (ranks, 1))
    src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
    uniform = np.full(len(src), 1 / ranks)
    return Traffic(src, dst, sizes[src, dst]), uniform


def mean_bytes(skew: Skew) -> float:
    """M of the uniform all-to-all that moves as many bytes as the skew's matrix: its sum off the diagonal
    over N - 1. ColltoolError for a matrix that is not square, or not of bytes."""
    matrix = _as_matrix(skew.matrix)
    if matrix.ndim != 2 or len(matrix) < 2 or matrix.shape[0] != matrix.shape[1]:
        what = f"the matrix is {shape_text(matrix.shape) or 'a single number'}"
        fix = "one row and one column per rank, at least 2"
        raise _bad_matrix(what, fix)
    bad = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))
    if len(bad):
        row, column = bad[0].tolist()
        what = f"entry ({row}, {column}) of the matrix is {matrix[row, column]:g}"
        raise _bad_matrix(what, "bytes, 0 or more")
    off_diagonal = matrix * ~np.eye(len(matrix), dtype=bool)
    if not off_diagonal.any():
        what = "no bytes to move: the matrix is zero off the diagonal"
        raise _bad_matrix(what, "bytes from row to column")
    # The sum of numbers that are finite may be infinite; it is refused below.
    with np.errstate(over="ignore"):
        mean = float(off_diagonal.sum()) / (len(matrix) - 1)
    if not LEAST_BYTES <= mean <= MAX_SIZE:
        what = f"the matrix moves {mean:g} bytes per rank"
        raise _bad_matrix(what, "bytes: 1e-9 to 1 EB per rank")
    return mean


def _bad_matrix(what: str, fix: str) -> ColltoolError:
    """The error of a matrix, to be raised."""
    return ColltoolError(what, argument="matrix", fix=fix)


def _as_matrix(matrix: Any) -> Floats:
    """A matrix as floats; ColltoolError where it is no table of numbers."""
    try:
        return np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        what = "the matrix is no table of numbers"
        raise _bad_matrix(what, "rows of the same length") from error


def _by_zipf(exponent: Any, ranks: int) -> Floats:
    """What each destination gets under Zipf's law, over the mean: 1.92, 0.96, 0.64 and 0.48 of 4 ranks
    with an exponent of 1."""
    fix = "0 is uniform, 1 is usual"
    s = _number(exponent, "zipf", fix)
    if not 0 <= s <= MOST_ZIPF:
        what = f"the exponent of Zipf is 0 or more, got {s:g}"
        raise ColltoolError(what, argument="zipf", fix=fix)
    weights = np.arange(1, ranks + 1, dtype=np.float64) ** -s
    over_mean: Floats = weights * ranks / weights.sum()
    return over_mean


def _by_hot_members(skew: Skew, ranks: int) -> Floats:
    """What each destination gets where some are hot, over the mean: of 8 ranks with one at 3 times the
    mean, 3 and seven times 5/7."""
    hot = _number(skew.hot, "hot", "a number of times the mean, such as 3")
    members = _hot_members(skew.hot_members, ranks)
    count = len(members)
    if not 1 <= hot * count <= ranks or hot < 1:
        what = f"{count} destinations at {hot:g} times the mean are not possible among {ranks}"
        raise ColltoolError(what, argument="hot", fix=f"a factor of 1 .. {ranks / count:g}")
    over_mean = np.full(ranks, (ranks - hot * count) / max(1, ranks - count))
    over_mean[members] = hot
    return over_mean


def _hot_members(listed: Any, ranks: int) -> list[int]:
    """The numbers of hot members, ascending; ColltoolError for what is none of the group, or twice."""

    def refusal(what: str, fix: str = f"0 .. {ranks - 1}") -> ColltoolError:
        return ColltoolError(what, argument="hot_members", fix=fix)

    if not isinstance(listed, Sequence | np.ndarray) or not all(map(_is_whole, listed)):
        raise refusal(f"hot members are numbers of members, got {quote(listed)}")
    members = sorted(map(int, listed))
    if not members or members[0] < 0 or members[-1] >= ranks:
        raise refusal(f"a hot member is outside the group of {ranks}")
    for member, following in pairwise(members):
        if member == following:
            raise refusal(f"hot member {member} is named twice", "each once")
    return members


def _is_whole(value: Any) -> bool:
    """Whether a value is a whole number; a flag is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number(value: Any, argument: str, fix: str) -> float:
    """A value as a float; ColltoolError where it is none, and for a flag."""
    try:
        if not isinstance(value, bool | np.bool_):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ColltoolError(f"expected a number, got {quote(value)}", argument=argument, fix=fix)
