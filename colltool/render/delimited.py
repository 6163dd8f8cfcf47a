"""The main table of a result as CSV: every column, full values, SI units named in the header."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from colltool.render.parts import Block, Lines, Table


def to_csv(parts: Sequence[Block]) -> str:
    """Comma-separated values of the first table, header first; of a result without tables its lines, with their titles."""
    main = next((part for part in parts if isinstance(part, Table)), None)
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if main is None:
        writer.writerow(("title", "line"))
        titled = [part for part in parts if isinstance(part, Lines)]
        writer.writerows((part.title, line) for part in titled for line in [one for one in part.lines if one] or [""])
        return out.getvalue()
    writer.writerow(column.key for column in main.columns)
    writer.writerows(["" if cell.value is None else _exact(cell.value) for cell in row] for row in main.rows)
    return out.getvalue()


def _exact(value: object) -> object:
    return repr(value) if isinstance(value, float) else value
