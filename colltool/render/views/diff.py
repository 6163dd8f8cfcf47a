"""``diff``: what changed between two JSON documents."""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.analysis.diff import Diff, ValueChange
from colltool.base.errors import either, said
from colltool.base.formatting import counted, format_bytes, format_rate, format_time, short_percent
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, number
from colltool.render.view import Document, View

_MOST = 24  # characters of a cell: an algorithm's name fits, a list of notes is cut
_MOST_FIELDS = 10


class _Moved(NamedTuple):
    kind: str
    where: str
    old: Any = None
    new: Any = None
    relative: float | None = None


def _short(value: Any) -> str:
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


class _Field(NamedTuple):
    """All changes of one field."""

    name: str
    changes: tuple[ValueChange, ...]

    @property
    def rows(self) -> int:
        return len({_row(one) for one in self.changes})

    @property
    def largest(self) -> ValueChange:
        return max(self.changes, key=lambda one: abs(one.relative or 0.0))

    @property
    def range(self) -> str:
        shares = sorted(one.relative for one in self.changes if one.relative is not None)
        if not shares:
            return ""
        low, high = (short_percent(share, 3, "+") for share in (shares[0], shares[-1]))
        return low if low == high else f"{low} to {high}"


def _row(one: ValueChange) -> str:
    """The row of the document that changed: ``all_reduce star512 ring 512``."""
    head, _, rest = one.where.partition("[")
    return rest.partition("]")[0] or head


def _value(name: str, value: Any) -> str:
    shows = {"_s": format_time, "_Bps": format_rate, "bytes": format_bytes}
    show = next((show for end, show in shows.items() if name.endswith(end)), None)
    return show(value) if show and isinstance(value, int | float) else _short(value)


_FIELDS: tuple[Column, ...] = (
    label("field", "what", get=lambda one: one.name),
    number("rows", "rows"),
    label("range", "change", get=lambda one: one.range),
    label("largest", "largest in", get=lambda one: _row(one.largest), fold=20),
    number("from", "from", get=lambda one: _value(one.name, one.largest.old)),
    number("to", "to", get=lambda one: _value(one.name, one.largest.new)),
)
_CAUSES = {
    "n_alpha": "a formula (n_alpha, n_beta)",
    "n_beta": "a formula (n_alpha, n_beta)",
    "eta_alpha": "contention (eta) of the fabric",
    "eta_beta": "contention (eta) of the fabric",
    "bandwidth_Bps": "bandwidth of the fabric",
    "software_s": "the library's overhead",
    "overhead_s": "launch overhead of the fabric",
    "bytes": "the size",
    "ranks": "the number of ranks",
}
"""The cause of a change, by the field that shows it."""
_ACCEPT = either(
    shell="To accept it, write the new document over the old one: cp NEW OLD, or ladder --format json -o FILE.",
    python="To accept it, write the new document over the old one.",
)


def _answer(result: Diff, fields: list[_Field]) -> str:
    if not result.moved:
        return f"Nothing moved by more than {result.rtol:g}."
    sentences = []
    if fields:
        names = {one.name for one in fields}
        causes = dict.fromkeys(_CAUSES[name] for name in _CAUSES if name in names)
        times = [one for one in fields if one.name == "total_s"] or fields
        largest, rows = max(times, key=lambda one: abs(one.largest.relative or 0.0)), {_row(c) for c in result.changed}
        one = largest.largest
        share = "" if one.relative is None else f" ({short_percent(one.relative, 3, '+')})"
        why = ", ".join(causes) or ("latency of the fabric" if "alpha_s" in names else "numbers")
        sentences.append(
            f"{counted(len(rows), 'row')} moved: {why}. Largest: {largest.name} of {_row(one)}, "
            f"{_value(largest.name, one.old)} to {_value(largest.name, one.new)}{share}."
        )
    only = [
        f"{counted(len(lines), 'value')} {name}"
        for name, lines in (("added", result.added), ("removed", result.removed))
        if lines
    ]
    return " ".join((*sentences, *([f"{', '.join(only)}.".capitalize()] if only else []), said(_ACCEPT)))


def _blocks(result: Diff) -> list[Block]:
    by_name: dict[str, list[ValueChange]] = {}
    for change in result.changed:
        by_name.setdefault(change.where.rpartition(".")[2], []).append(change)
    fields = [_Field(name, tuple(changes)) for name, changes in by_name.items()]
    out: list[Block] = [Headline(_answer(result, fields)), Table(_FIELDS, tuple(fields), None, "", first=_MOST_FIELDS)]
    out.append(Table(_COLUMNS, _changed(result), None, f"changed by more than {result.rtol:g}", first=0))
    return out + [Lines(name, lines, first=5) for name, lines in (("added", result.added), ("removed", result.removed)) if lines]


def _document(result: Diff) -> Document:
    return {
        "rtol": result.rtol,
        "changed": [change._asdict() for change in result.changed],
        "added": list(result.added),
        "removed": list(result.removed),
    }


def _summary(result: Diff) -> str:
    if not result.moved:
        return f"nothing moved by more than {result.rtol:g}"
    return f"{len(result.changed)} changed by more than {result.rtol:g}, {len(result.added)} added, {len(result.removed)} removed"


VIEWS = {Diff: View("diff", _blocks, _document, _table, _summary)}
