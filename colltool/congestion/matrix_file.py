"""A traffic matrix from a CSV file: :func:`load_matrix`."""

import math

from colltool.base.errors import ColltoolError, ManyErrors, clipped, printable
from colltool.base.files import read_text

MOST_RANKS = 1448  # its pairs are as many as a contention run follows
_MOST_ERRORS = 20  # of a file that are reported at once

Matrix = tuple[tuple[float, ...], ...]


def load_matrix(path: str) -> Matrix:
    """A square matrix of numbers >= 0 from a CSV file, bytes from row to column. Blank lines and lines that
    start with ``#`` are left out.

    Raises:
        ColltoolError: as :func:`read_matrix`, or the file cannot be read.
    """
    return read_matrix(read_text(path, "matrix"), printable(path))


def read_matrix(text: str, name: str) -> Matrix:
    """A square matrix from the text of a CSV file called ``name``.

    Raises:
        ManyErrors: cells that are no numbers, all at once, or rows of another length than the first.
        ColltoolError: it is not square, is too large, or moves no bytes.
    """
    problems: list[ColltoolError] = []
    rows: dict[int, tuple[float, ...]] = {}  # by the number of the line
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            rows[number] = _matrix_row(line, f"{name}:{number}", problems)
    _raise_all(problems)
    square = "one row per sender, one column per receiver"
    if not rows:
        raise ColltoolError("the file has no rows", where=f"{name}:1:1", fix=square)
    first_line = next(iter(rows))
    columns = len(rows[first_line])
    for number, row in rows.items():
        if len(row) != columns:
            what = f"a row of {len(row)} numbers, the first row (line {first_line}) has {columns}"
            problems.append(ColltoolError(what, where=f"{name}:{number}:1"))
    _raise_all(problems)
    if len(rows) != columns:
        what = f"the matrix has {len(rows)} rows and {columns} columns"
        raise ColltoolError(what, where=f"{name}:{max(rows)}:1", fix=square)
    first_row = f"{name}:{first_line}:1"
    if columns > MOST_RANKS:
        raise ColltoolError(f"{columns} ranks are more than {MOST_RANKS}", where=first_row)
    matrix = tuple(rows.values())
    # row i without its own entry, which is on the diagonal
    if not any(any(row[:i] + row[i + 1 :]) for i, row in enumerate(matrix)):
        what = "no bytes to move: all is zero off the diagonal"
        raise ColltoolError(what, where=first_row)
    return matrix


def _raise_all(problems: list[ColltoolError]) -> None:
    """Raise the first problems together; nothing if there are none."""
    if problems:
        raise ManyErrors(problems[:_MOST_ERRORS])


def _matrix_row(line: str, where: str, problems: list[ColltoolError]) -> tuple[float, ...]:
    """The numbers of a line; what is wrong with them is added to ``problems``."""
    row = []
    column = 1
    for cell in line.split(","):
        text = cell.strip()
        value = 0.0
        what = ""  # is wrong
        try:
            value = float(text)
        except ValueError:
            shown = f"'{clipped(text)}'" if text else "nothing"
            what = f"expected a number of bytes, found {shown}"
        if value < 0:
            what = f"bytes cannot be negative, found {text}"
        elif not math.isfinite(value):
            what = f"expected a finite number, found {text}"
        if what:
            # where the text begins, behind blanks
            start = column + len(cell) - len(cell.lstrip())
            problems.append(ColltoolError(what, where=f"{where}:{start}"))
        row.append(value)
        column += len(cell) + 1  # with the comma
    return tuple(row)
