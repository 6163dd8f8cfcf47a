"""The tables of ``data``, which are CSV with comments: :func:`data_rows`."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path


def data_rows(file: str) -> Iterator[dict[str, str]]:
    """The rows of a table such as ``nics.csv``, without its comments."""
    text = (Path(__file__).parent / "data" / file).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    yield from csv.DictReader(lines)
