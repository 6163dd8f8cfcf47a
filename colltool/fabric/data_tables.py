"""The tables of ``data``, which are CSV with comments: :func:`data_rows`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

_FOLDER = Path(__file__).parent / "data"


def data_rows(file: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table such as ``nics.csv``: texts by the name of the column. Lines that begin with
    ``#`` are comments."""
    path = _FOLDER / file
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            lines.append(line)
    yield from csv.DictReader(lines)
