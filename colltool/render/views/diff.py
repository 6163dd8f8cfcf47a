"""``diff``: what moved between two documents."""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.analysis.diff import Diff, ValueChange
from colltool.base.formatting import short_percent
from colltool.render.blocks import Block, Column, Lines, Table, label, number
from colltool.render.view import Document, View

_MOST = 24
"""Characters of a cell: an algorithm's name fits, a list of notes is cut."""


class _Moved(NamedTuple):
    """A change, or a value that only one side has."""

    kind: str
    where: str
    old: Any = None
    new: Any = None
    relative: float | None = None


def _short(value: Any) -> str:
    """A value in a cell: numbers with the digits that CI compares, lists and texts in a few words."""
    text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{value:.9g}" if isinstance(value, float) else text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


_COLUMNS: tuple[Column, ...] = (
    label("where", "where"),
    number("old", "old", _short),
    number("new", "new", _short),
    number("relative", "change", lambda share: short_percent(share, 3, "+")),
    label("kind", "kind", hidden=True),
)


def _changed(result: Diff) -> tuple[_Moved, ...]:
    return tuple(_Moved("changed", *change) for change in result.changed)


def _table(result: Diff) -> Table:
    only = (("added", result.added), ("removed", result.removed))
    return Table(_COLUMNS, (*_changed(result), *(_Moved(kind, where) for kind, places in only for where in places)))


def _blocks(result: Diff) -> list[Block]:
    out: list[Block] = [Table(_COLUMNS, _changed(result), None, f"changed by more than {result.rtol:g}")]
    out += [Lines(name, lines) for name, lines in (("added", result.added), ("removed", result.removed)) if lines]
    return out if result.moved else [*out, Lines(f"nothing moved by more than {result.rtol:g}", ())]


def _document(result: Diff) -> Document:
    return {
        "rtol": result.rtol,
        "changed": [_change(change) for change in result.changed],
        "added": list(result.added),
        "removed": list(result.removed),
    }


def _change(change: ValueChange) -> Document:
    return {"where": change.where, "old": change.old, "new": change.new, "relative": change.relative}


def _summary(result: Diff) -> str:
    if not result.moved:
        return f"nothing moved by more than {result.rtol:g}"
    return f"{len(result.changed)} changed by more than {result.rtol:g}, {len(result.added)} added, {len(result.removed)} removed"


VIEWS = {Diff: View("diff", _blocks, _document, _table, _summary)}
