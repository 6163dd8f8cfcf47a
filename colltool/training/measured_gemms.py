"""A user's own table of GEMM times, in place of a stack's shares: M, N, K, dtype and time, a CSV
with these columns."""

from __future__ import annotations

import csv
import io
import os
from typing import NamedTuple

from colltool.base.errors import ColltoolError, printable
from colltool.base.files import read_text
from colltool.base.formatting import parse_time
from colltool.training.files import BYTES

UNITS = {
    "us": 1e-6,
    "time_us": 1e-6,
    "ms": 1e-3,
    "time_ms": 1e-3,
    "s": 1.0,
    "time_s": 1.0,
    "time": 0.0,
}
SPELLED = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float8": "fp8",
    "e4m3": "fp8",
    "float32": "fp32",
}
COLUMNS, EXAMPLE = "M,N,K,dtype,us", "4096,4096,4096,bf16,250"


class MeasuredGemm(NamedTuple):
    precision: str
    m: float
    n: float
    k: float
    seconds: float


def read_gemms(path: str | os.PathLike[str]) -> tuple[MeasuredGemm, ...]:
    """The rows of a CSV, by its header; ManyErrors or ColltoolError with ``file:line`` for what
    cannot be used."""
    name = printable(str(path))
    rows = list(csv.reader(io.StringIO(read_text(str(path), "matrix", str(path)))))
    head = [cell.strip().lower() for cell in rows[0]] if rows else []
    unit = next((one for one in head if one in UNITS), None)
    if lacking := [one for one in ("m", "n", "k", "dtype") if one not in head] + (
        [] if unit else ["a time"]
    ):
        what = f"the table has no column {', '.join(lacking)}"
        raise ColltoolError(
            what, where=f"{name}:1", argument="compute", fix=f"a header such as {COLUMNS}"
        )
    assert unit is not None
    found = [
        _row(dict(zip(head, row, strict=False)), unit, f"{name}:{at}")
        for at, row in enumerate(rows[1:], 2)
        if any(row)
    ]
    if not found:
        raise ColltoolError(
            "the table has no rows",
            where=name,
            argument="compute",
            fix=f"{COLUMNS}, then 4096,4096,4096,bf16,250",
        )
    return tuple(found)


def _row(cells: dict[str, str], unit: str, where: str) -> MeasuredGemm:
    dtype = cells.get("dtype", "").strip().lower()
    precision = SPELLED.get(dtype, dtype)
    if precision not in BYTES:
        raise ColltoolError(
            f"dtype '{printable(dtype)}' is not known",
            where=where,
            fix=f"one of {', '.join(BYTES)}",
        )
    try:
        m, n, k = (float(cells[key]) for key in ("m", "n", "k"))
        seconds = (
            parse_time(cells[unit].strip()) if unit == "time" else float(cells[unit]) * UNITS[unit]
        )
    except (KeyError, ValueError, ColltoolError) as error:
        raise ColltoolError(
            "M, N, K and the time are numbers", where=where, fix=f"{COLUMNS}: {EXAMPLE}"
        ) from error
    if not (min(m, n, k) >= 1 and 0 < seconds < 1e4 and max(m, n, k) < 1e9):
        raise ColltoolError(
            "M, N and K are from 1, the time above 0", where=where, fix="leave the row out"
        )
    return MeasuredGemm(precision, m, n, k, seconds)
