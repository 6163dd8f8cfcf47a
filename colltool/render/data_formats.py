"""Results as data for other programs: a table as CSV (:func:`to_csv`), a document as JSON
(:func:`to_json`); full values in SI units."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

from colltool.base.errors import displayed
from colltool.render.blocks import Table


def to_csv(table: Table) -> str:
    """All columns of a table, hidden ones too: a line of their keys, then a line a record."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(column.key for column in table.columns)
    for record in table.records:
        writer.writerow([_csv_cell(column.value(record)) for column in table.columns])
    return out.getvalue()


def _csv_cell(value: Any) -> Any:
    """A full value; None is an empty cell."""
    match value:
        case None:
            return ""
        # before int, of which bool is a subclass
        case bool():
            return str(value).lower()
        case float():
            return repr(value)
        case int():
            return value
    return csv_text(str(value))


def csv_text(text: str) -> str:
    """Printable text, with an apostrophe before what a spreadsheet would run as a formula."""
    printable = displayed(text)
    if printable.startswith(("=", "+", "-", "@")) and len(printable) > 1:
        return f"'{printable}"
    return printable


def to_json(document: dict[str, Any]) -> str:
    """A document as indented JSON with a line feed at its end, see :func:`json_text`. Raises
    ValueError for a number that is not finite."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return json_text(text) + "\n"


def json_text(text: str) -> str:
    r"""JSON with unprintable characters as ``\uXXXX``.

    A lone surrogate, which UTF-8 cannot encode, becomes text such as ``\udc80``.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(map(_json_character, text))


def _json_character(character: str) -> str:
    """A character as JSON, escaped where it is not printable."""
    if character == "\n" or character.isprintable():
        return character
    if "\ud800" <= character <= "\udfff":
        # with its backslash escaped: readers get these six characters, not a surrogate
        return f"\\\\u{ord(character):04x}"
    # a character beyond 16 bits takes two escapes of four hexadecimal digits
    digits = character.encode("utf-16-be").hex()
    return "".join(f"\\u{digits[start : start + 4]}" for start in range(0, len(digits), 4))
