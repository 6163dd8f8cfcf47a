"""Traffic matrices: a CSV of bytes, row = sender, column = receiver, every refusal with its line and column."""

import math

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.inputs import read_text
from colltool.base.quoting import clipped, printable

MOST_RANKS = 1448  # its pairs are as many as a contention run follows
_MOST_ERRORS = 20

Matrix = tuple[tuple[float, ...], ...]


def load_matrix(path: str) -> Matrix:
    """A square matrix of numbers >= 0 from a CSV file; blank lines and lines that start with ``#`` are left out.

    Raises:
        ManyErrors: cells that are no number, negative or not finite, rows of another length, with ``file:line:column``.
        ColltoolError: an unreadable file, no rows, not square, nothing but zeros off the diagonal.
    """
    return read_matrix(read_text(path, "matrix"), printable(path))


def read_matrix(text: str, name: str) -> Matrix:
    """As :func:`load_matrix`, from text."""
    problems: list[ColltoolError] = []
    rows: list[tuple[int, tuple[float, ...]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            rows.append((number, _row(line, f"{name}:{number}", problems)))
    if problems:
        raise ManyErrors(problems[:_MOST_ERRORS])
    if not rows:
        raise ColltoolError("the file has no rows", where=f"{name}:1:1", fix="one row per sender, one column per receiver")
    wide = len(rows[0][1])
    for number, row in rows:
        if len(row) != wide:
            what = f"a row of {len(row)} numbers, the first row (line {rows[0][0]}) has {wide}"
            problems.append(ColltoolError(what, where=f"{name}:{number}:1"))
    if problems:
        raise ManyErrors(problems[:_MOST_ERRORS])
    if len(rows) != wide:
        what = f"the matrix has {len(rows)} rows and {wide} columns"
        raise ColltoolError(what, where=f"{name}:{rows[-1][0]}:1", fix="one row per sender, one column per receiver")
    if wide > MOST_RANKS:
        raise ColltoolError(f"{wide} ranks are more than {MOST_RANKS}", where=f"{name}:{rows[0][0]}:1")
    matrix = tuple(row for _, row in rows)
    if not any(cell for i, row in enumerate(matrix) for j, cell in enumerate(row) if i != j):
        raise ColltoolError("no bytes to move: all is zero off the diagonal", where=f"{name}:{rows[0][0]}:1")
    return matrix


def _row(line: str, where: str, problems: list[ColltoolError]) -> tuple[float, ...]:
    out, column = [], 1
    for cell in line.split(","):
        place = f"{where}:{column + len(cell) - len(cell.lstrip())}"
        out.append(_number(cell.strip(), place, problems))
        column += len(cell) + 1
    return tuple(out)


def _number(text: str, where: str, problems: list[ColltoolError]) -> float:
    try:
        value = float(text)
    except ValueError:
        found = f"'{clipped(text)}'" if text else "nothing"
        problems.append(ColltoolError(f"expected a number of bytes, found {found}", where=where))
        return 0.0
    if value < 0 or not math.isfinite(value):
        what = f"bytes cannot be negative, found {text}" if value < 0 else f"expected a finite number, found {text}"
        problems.append(ColltoolError(what, where=where))
        return 0.0
    return value
