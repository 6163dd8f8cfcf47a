"""A table as CSV: every column, full values, SI units named in the header."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from colltool.render.blocks import Table
from colltool.render.escape import csv_text


def to_csv(table: Table) -> str:
    """Comma-separated values, header first; a line of text is a line of the file."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.key for column in table.columns)
    writer.writerows([_exact(column.value(record)) for column in table.columns] for record in table.records)
    return out.getvalue()


def _exact(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int) else csv_text(str(value))
