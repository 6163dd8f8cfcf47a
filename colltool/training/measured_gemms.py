"""A user's table of measured GEMM times, which scale those of a stack: :func:`read_gemms` reads a CSV
with columns M, N, K, dtype and a time."""

from __future__ import annotations

import csv
import io
import os
from typing import NamedTuple

from colltool.base.errors import ColltoolError, printable, quote
from colltool.base.files import read_text
from colltool.base.formatting import parse_time
from colltool.training.files import BYTES

# seconds of the unit of a time column
UNITS = {
    "us": 1e-6,
    "time_us": 1e-6,
    "ms": 1e-3,
    "time_ms": 1e-3,
    "s": 1.0,
    "time_s": 1.0,
    "time": 0.0,  # unused: each cell has its unit
}
# other spellings of precisions
PRECISION_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float8": "fp8",
    "e4m3": "fp8",
    "float32": "fp32",
}
# shown in errors
COLUMNS = "M,N,K,dtype,us"
EXAMPLE = "4096,4096,4096,bf16,250"


class MeasuredGemm(NamedTuple):
    """The measured time of a product of (m, k) and (k, n)."""

    precision: str  # a key of BYTES
    m: float
    n: float
    k: float
    seconds: float  # measured


def read_gemms(path: str | os.PathLike[str]) -> tuple[MeasuredGemm, ...]:
    """Read the rows of a CSV by its header; columns stand in any order, with others beside them.

    Raises:
        ColltoolError: the table cannot be used; the error has its file and line.
    """
    name = printable(str(path))
    text = read_text(str(path), "matrix", str(path))
    reader = csv.reader(io.StringIO(text))
    try:
        head, *rows = [*reader] or [[]]
    except csv.Error as error:
        raise _table_error(
            f"is not valid CSV: {error}", f"{name}:{reader.line_num}", COLUMNS
        ) from error
    columns = [cell.strip().lower() for cell in head]
    missing = [column for column in ("m", "n", "k", "dtype") if column not in columns]
    units = [column for column in columns if column in UNITS]
    if not units:
        missing.append("a time")
    if missing:
        raise _table_error(
            f"the table has no column {', '.join(missing)}",
            f"{name}:1",
            f"a header such as {COLUMNS}",
            argument="compute",
        )
    gemms = []
    for line, row in enumerate(rows, 2):
        if any(row):
            cells = dict(zip(columns, row, strict=False))
            gemms.append(_measured_gemm(cells, units[0], f"{name}:{line}"))
    if not gemms:
        raise _table_error("the table has no rows", name, f"{COLUMNS}, then {EXAMPLE}", "compute")
    return tuple(gemms)


def _table_error(what: str, where: str, fix: str, argument: str = "") -> ColltoolError:
    """Return the error of a table, at a place in its file."""
    return ColltoolError(what, where=where, argument=argument, fix=fix)


def _seconds(cell: str, unit: str) -> float:
    """Return the seconds of a cell in a column of UNITS."""
    if unit == "time":
        return parse_time(cell.strip())
    return float(cell) * UNITS[unit]


def _measured_gemm(cells: dict[str, str], unit: str, where: str) -> MeasuredGemm:
    """Return the GEMM of a row of cells by column; ``unit``: the column of its time. ColltoolError
    where a cell cannot be used."""
    dtype = cells.get("dtype", "").strip().lower()
    precision = PRECISION_NAMES.get(dtype, dtype)
    if precision not in BYTES:
        raise _table_error(
            f"dtype {quote(dtype)} is not known", where, f"one of {', '.join(BYTES)}"
        )
    try:
        m, n, k = (float(cells[key]) for key in ("m", "n", "k"))
        seconds = _seconds(cells[unit], unit)
    except (KeyError, ValueError, ColltoolError) as error:
        raise _table_error(
            "M, N, K and the time are numbers", where, f"{COLUMNS}: {EXAMPLE}"
        ) from error
    if not (min(m, n, k) >= 1 and 0 < seconds < 1e4 and max(m, n, k) < 1e9):
        raise _table_error("M, N and K are from 1, the time above 0", where, "leave the row out")
    return MeasuredGemm(precision, m, n, k, seconds)
