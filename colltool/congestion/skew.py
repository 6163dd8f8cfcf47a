"""All-to-alls that are not uniform: a traffic matrix, hot destinations, or shares by Zipf's law."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, ManyErrors, clipped, printable, shown
from colltool.base.files import read_text
from colltool.base.formatting import MAX_SIZE
from colltool.congestion.traffic import Traffic
from colltool.network.arrays import Floats

MOST_ZIPF = 100
LEAST_BYTES = 1e-9  # mean of a matrix, below which its shares drown in rounding


class Skew(NamedTuple):
    """At most one of ``matrix``, ``hot`` and ``zipf``; none is uniform."""

    # bytes from row to column, N x N; the diagonal does not count
    matrix: Sequence[Sequence[float]] | Floats | None = None
    # the mean's multiple that each hot destination gets; the others share the rest alike
    hot: float | None = None
    hot_members: Sequence[int] = (0,)
    zipf: float | None = None  # s: destination k (from 0) gets a share in proportion to (k+1)^-s

    @property
    def given(self) -> bool:
        return any(value is not None for value in (self.matrix, self.hot, self.zipf))


def skewed(skew: Skew, ranks: int) -> tuple[Traffic, Floats]:
    """The traffic of a skewed all-to-all, and the sizes of the uniform one that moves as many
    bytes, pair by pair.

    Both in units of M: every rank sends M in all, its own share included; under a matrix M is
    :func:`mean_bytes`.
    """
    if skew.matrix is not None:
        matrix = _as_matrix(skew.matrix)
        if matrix.shape != (ranks, ranks):
            what = f"the matrix is {'x'.join(map(str, matrix.shape))}, the group has {ranks} ranks"
            raise ColltoolError(
                what, argument="matrix", fix=f"one row and one column per rank: {ranks}x{ranks}"
            )
        sizes = matrix / mean_bytes(skew)
    elif skew.hot is not None:
        sizes = np.tile(_hot(skew, ranks) / ranks, (ranks, 1))
    else:
        s, fix = _number(skew.zipf, "zipf", "0 is uniform, 1 is usual"), "0 is uniform, 1 is usual"
        if not 0 <= s <= MOST_ZIPF:
            raise ColltoolError(
                f"the exponent of Zipf is 0 or more, got {s:g}", argument="zipf", fix=fix
            )
        weights = np.arange(1, ranks + 1, dtype=np.float64) ** -s
        sizes = np.tile(weights * ranks / weights.sum() / ranks, (ranks, 1))
    src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
    return Traffic(src, dst, sizes[src, dst]), np.full(len(src), 1 / ranks)


def mean_bytes(skew: Skew) -> float:
    """M of the uniform all-to-all that moves as many bytes as the matrix: its sum off the diagonal
    over N - 1."""
    matrix = _as_matrix(skew.matrix)
    if matrix.ndim != 2 or len(matrix) < 2 or matrix.shape[0] != matrix.shape[1]:
        shape = "x".join(map(str, matrix.shape)) or "a single number"
        raise ColltoolError(
            f"the matrix is {shape}",
            argument="matrix",
            fix="one row and one column per rank, at least 2",
        )
    bad = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))
    if len(bad):
        row, column = map(int, bad[0])
        what = f"entry ({row}, {column}) of the matrix is {matrix[row, column]:g}"
        raise ColltoolError(what, argument="matrix", fix="bytes, 0 or more")
    away = matrix * ~np.eye(len(matrix), dtype=bool)
    if not away.any():
        what = "no bytes to move: the matrix is zero off the diagonal"
        raise ColltoolError(what, argument="matrix", fix="bytes from row to column")
    with np.errstate(over="ignore"):
        mean = float(away.sum()) / (len(matrix) - 1)
    if not LEAST_BYTES <= mean <= MAX_SIZE:
        raise ColltoolError(
            f"the matrix moves {mean:g} bytes per rank",
            argument="matrix",
            fix="bytes: 1e-9 to 1 EB per rank",
        )
    return mean


def _as_matrix(matrix: Any) -> Floats:
    try:
        return np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ColltoolError(
            "the matrix is no table of numbers", argument="matrix", fix="rows of the same length"
        ) from error


def _hot(skew: Skew, ranks: int) -> Floats:
    hot, given = _number(skew.hot, "hot", "a number of times the mean, such as 3"), skew.hot_members
    fix = f"0 .. {ranks - 1}"
    listed = given if isinstance(given, Sequence | np.ndarray) else [None]
    if not all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in listed):
        raise ColltoolError(
            f"hot members are numbers of members, got {shown(given)}",
            argument="hot_members",
            fix=fix,
        )
    members = sorted(map(int, given))
    if not members or members[0] < 0 or members[-1] >= ranks:
        raise ColltoolError(
            f"a hot member is outside the group of {ranks}", argument="hot_members", fix=fix
        )
    twice = next((one for one, following in pairwise(members) if one == following), None)
    if twice is not None:
        raise ColltoolError(
            f"hot member {twice} is named twice", argument="hot_members", fix="each once"
        )
    if not 1 <= hot * len(members) <= ranks or hot < 1:
        what = (
            f"{len(members)} destinations at {hot:g} times the mean are not possible among {ranks}"
        )
        raise ColltoolError(what, argument="hot", fix=f"a factor of 1 .. {ranks / len(members):g}")
    weights = np.full(ranks, (ranks - hot * len(members)) / max(1, ranks - len(members)))
    weights[members] = hot
    return weights


def _number(value: Any, argument: str, fix: str) -> float:
    try:
        if not isinstance(value, bool | np.bool_):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ColltoolError(f"expected a number, got {shown(value)}", argument=argument, fix=fix)


MOST_RANKS = 1448  # its pairs are as many as a contention run follows
_MOST_ERRORS = 20
Matrix = tuple[tuple[float, ...], ...]


def load_matrix(path: str) -> Matrix:
    """A square matrix of numbers >= 0 from a CSV file; blank lines and lines that start with ``#``
    are left out."""
    return read_matrix(read_text(path, "matrix"), printable(path))


def read_matrix(text: str, name: str) -> Matrix:
    problems: list[ColltoolError] = []
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    rows = [_matrix_row(line, f"{name}:{number}", problems) for number, line in lines]
    if problems:
        raise ManyErrors(problems[:_MOST_ERRORS])
    if not rows:
        raise ColltoolError(
            "the file has no rows",
            where=f"{name}:1:1",
            fix="one row per sender, one column per receiver",
        )
    wide, first = len(rows[0]), lines[0][0]
    for (number, _), row in zip(lines, rows, strict=True):
        if len(row) != wide:
            what = f"a row of {len(row)} numbers, the first row (line {first}) has {wide}"
            problems.append(ColltoolError(what, where=f"{name}:{number}:1"))
    if problems:
        raise ManyErrors(problems[:_MOST_ERRORS])
    if len(rows) != wide:
        what = f"the matrix has {len(rows)} rows and {wide} columns"
        raise ColltoolError(
            what,
            where=f"{name}:{lines[-1][0]}:1",
            fix="one row per sender, one column per receiver",
        )
    if wide > MOST_RANKS:
        raise ColltoolError(f"{wide} ranks are more than {MOST_RANKS}", where=f"{name}:{first}:1")
    if not any(cell for i, row in enumerate(rows) for j, cell in enumerate(row) if i != j):
        raise ColltoolError(
            "no bytes to move: all is zero off the diagonal", where=f"{name}:{first}:1"
        )
    return tuple(rows)


def _matrix_row(line: str, where: str, problems: list[ColltoolError]) -> tuple[float, ...]:
    out, column = [], 1
    for cell in line.split(","):
        text, value, what = cell.strip(), 0.0, ""
        try:
            value = float(text)
        except ValueError:
            found = f"'{clipped(text)}'" if text else "nothing"
            what = f"expected a number of bytes, found {found}"
        if value < 0:
            what = f"bytes cannot be negative, found {text}"
        elif not math.isfinite(value):
            what = f"expected a finite number, found {text}"
        if what:
            problems.append(
                ColltoolError(what, where=f"{where}:{column + len(cell) - len(cell.lstrip())}")
            )
        out.append(value)
        column += len(cell) + 1
    return tuple(out)
