"""The tables of ``data``, which are CSV with comments: :func:`data_rows`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

_FOLDER = Path(__file__).parent / "data"


def data_rows(file: str) -> Iterator[dict[str, str]]:
    """The rows of a table such as ``nics.csv``, texts by the name of the column; lines that begin with
    ``#`` are comments."""
    path = _FOLDER / file
    lines = path.read_text(encoding="utf-8").splitlines()
    yield from csv.DictReader(line for line in lines if not line.startswith("#"))
