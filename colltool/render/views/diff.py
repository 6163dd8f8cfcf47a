"""``diff``: what changed between two JSON documents.

Read from :data:`VIEWS`: :func:`_blocks` is the screen under :func:`_answer`, :func:`_table` the rows of
CSV. People see the changes by field (:class:`_FieldChanges`), programs one by one.

A change is ``where`` (a path such as ``rows[all_reduce star512 ring 512].total_s``), ``old``, ``new`` and
``relative``, new over old less 1 (None where they are no numbers). ``readings`` are the changes of model options,
``winners`` those of the least times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from colltool.analysis.diff import Diff, ValueChange
from colltool.analysis.document_winners import TotalChange
from colltool.base.errors import either, localize
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_rate,
    format_time,
    short_percent,
    title_size,
)
from colltool.render.blocks import (
    Block,
    Columns,
    Headline,
    Lines,
    Table,
    label,
    number,
)
from colltool.render.dispatch import View
from colltool.render.documents import Document
from colltool.render.estimates import change_text

_LONGEST_CELL = 24  # characters: an algorithm's name fits, a list of notes is cut
_MOST_FIELDS = 5  # changed fields without --all
_MOST_WINNERS = 3  # moved winners that the answer names, the farthest first


class _DiffLine(NamedTuple):
    """A value that changed, or one that only one of the documents has."""

    kind: str  # changed, added or removed
    where: str  # its path in the document
    old: Any = None
    new: Any = None
    relative: float | None = None  # new over old, less 1; None where they are no numbers


def _cell_text(value: Any) -> str:
    """A value of a document as short text."""
    if isinstance(value, float):
        return f"{value:.9g}"
    text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    if len(text) <= _LONGEST_CELL:
        return text
    return f"{text[: _LONGEST_CELL - 3]}..."


def _change_text(share: float) -> str:
    """``+1.23%``."""
    return short_percent(share, 3, "+")


_LINES: Columns[_DiffLine] = (
    label("where"),
    number("old", "old", _cell_text),
    number("new", "new", _cell_text),
    number("relative", "change", _change_text),
    label("kind", hidden=True),
)


def _changed_lines(result: Diff) -> list[_DiffLine]:
    return [_DiffLine("changed", *change) for change in result.changed]


def _table(result: Diff) -> Table:
    """All changes, then what only one of the documents has."""
    rows = _changed_lines(result)
    for kind, places in _in_one_only(result).items():
        rows += [_DiffLine(kind, where) for where in places]
    return Table(_LINES, rows)


class _FieldChanges(NamedTuple):
    """All changes of one field."""

    name: str
    rows: int  # of the document that have it
    range: str  # least and largest relative change: ``-1.2% to +3.4%``
    largest: ValueChange

    @property
    def largest_in(self) -> str:
        """The row of the largest change."""
        return _row_of(self.largest)

    @property
    def before(self) -> str:
        return _value_text(self.name, self.largest.old)

    @property
    def after(self) -> str:
        return _value_text(self.name, self.largest.new)


def _row_of(change: ValueChange) -> str:
    """The row of the document that changed: ``all_reduce star512 ring 512`` of
    ``rows[all_reduce star512 ring 512].total_s``."""
    head, _, rest = change.where.partition("[")
    return rest.partition("]")[0] or head


def _value_text(name: str, value: Any) -> str:
    """A value in the unit that its field's name carries."""
    if isinstance(value, int | float):
        for suffix, show in {"_s": format_time, "_Bps": format_rate, "bytes": format_bytes}.items():
            if name.endswith(suffix):
                return show(value)
    return _cell_text(value)


_FIELDS: Columns[_FieldChanges] = (
    label("field", "what", path="name"),
    number("rows"),
    label("range", "change"),
    label("largest", "largest in", drop=1, fold=20, path="largest_in"),
    number("from", path="before"),
    number("to", path="after"),
)
_FORMULA = "a formula (n_alpha, n_beta)"
_BANDWIDTH = "bandwidth of the fabric"
# causes of a change, by the fields that show it
_CAUSES = {
    _FORMULA: {"n_alpha", "n_beta"},
    "contention (eta) of the fabric": {"eta_alpha", "eta_beta"},
    _BANDWIDTH: {"bandwidth_Bps"},
    "library overhead": {"software_s"},
    "launch overhead of the fabric": {"overhead_s"},
    "the size": {"bytes"},
    "the number of ranks": {"ranks"},
}
_ACCEPT = either(
    shell=(
        "To accept it, write the new document over the old one: cp NEW OLD, or ladder --format json"
        " -o FILE."
    ),
    python="To accept it, write the new document over the old one.",
)


def _distance(change: ValueChange) -> float:
    """How far a value moved; 0 where it is no number."""
    return abs(change.relative or 0.0)


def _answer(result: Diff, fields: list[_FieldChanges]) -> str:
    """Say which winners moved, what changed most and its causes, and how to accept all."""
    if not result.moved:
        return f"Nothing changed by more than {100 * result.rtol:g}%."
    sentences = []
    if result.winners:
        sentences.append(_winners_sentence(result))
    if result.readings and fields:
        sentences.append(_options_sentence(result))
    if fields:
        sentences.append(_largest_move_sentence(result, fields))
    in_one_only = _in_one_only(result).items()
    counts = [f"{counted(len(places), 'value')} {kind}" for kind, places in in_one_only]
    if counts:
        sentences.append(f"{', '.join(counts)}.".capitalize())
    return " ".join((*sentences, localize(_ACCEPT)))


def _largest_move_sentence(result: Diff, fields: list[_FieldChanges]) -> str:
    """Such as ``3 rows changed (the size), most of all total_s of ..., 1 us -> 2 us (+100%).``"""
    reasons = f" ({', '.join(_causes(fields))})"
    # under other model options, the causes cannot be separated
    if result.readings:
        reasons = ""
    # the total if it moved, which is sorted first: the causes already name its parts
    most = fields[0]
    if most.name != "total_s":
        most = max(fields, key=lambda field: _distance(field.largest))
    changed_rows = {_row_of(change) for change in result.changed if change not in result.readings}
    values = _arrow(most.before, most.after)
    if most.largest.relative is not None:
        values += f" ({_change_text(most.largest.relative)})"
    return (
        f"{counted(len(changed_rows), 'row')} changed{reasons}, most of all {most.name} of"
        f" {most.largest_in}: {values}."
    )


def _arrow(before: str, after: str) -> str:
    """Such as ``538 -> 529 us``: an equal unit stands once."""
    number, _, unit = before.partition(" ")
    if unit and after.endswith(f" {unit}"):
        before = number
    return f"{before} -> {after}"


def _winners_sentence(result: Diff) -> str:
    """How the totals of the winners changed, largest first."""
    largest_first = sorted(result.winners, key=lambda change: -abs(change.relative))
    moves = "; ".join(map(_winner_move, largest_first[:_MOST_WINNERS]))
    more = len(largest_first) - _MOST_WINNERS
    return f"{moves}; {more} more of the least times moved." if more > 0 else f"{moves}."


def _winner_move(change: TotalChange) -> str:
    """Such as ``all-reduce 16MB: 538 -> 529 us (-1.6%)``; another winner is named."""
    sizes = [title_size(size) for size in (change.old_bytes, change.new_bytes) if size]
    collective = f"{change.what} {' -> '.join(dict.fromkeys(sizes))}".strip()
    before = format_time(change.old_s)
    after = format_time(change.new_s)
    values = _arrow(before, after)
    if change.old_name != change.new_name:
        values = f"{before} ({change.old_name}) -> {after} ({change.new_name})"
    return f"{collective}: {values} ({change_text(change.relative)})"


def _causes(fields: list[_FieldChanges]) -> list[str]:
    """Name what would make these fields change; one cause at least."""
    names = {field.name for field in fields}
    causes = [cause for cause, shown_by in _CAUSES.items() if names & shown_by]
    # the lower bound knows neither contention nor a library, whose numbers follow the bandwidth
    if "lower_bound_s" in names and not names & {"bytes", "ranks"}:
        causes = [_BANDWIDTH, *(cause for cause in causes if cause == _FORMULA)]
    if not causes:
        causes.append("latency of the fabric" if "alpha_s" in names else "numbers")
    return causes


def _options_sentence(result: Diff) -> str:
    """Say under which other model options the documents were made: ``tree_beta=2 in the old document,
    tree_beta=1 in the new one``."""
    old = []
    new = []
    for change in result.readings:
        name = change.where.removeprefix("model.")
        old.append(f"{name}={_cell_text(change.old)}")
        new.append(f"{name}={_cell_text(change.new)}")
    return (
        f"Made with other model options: {', '.join(old)} in the old document, {', '.join(new)} in"
        " the new one."
    )


def _in_one_only(result: Diff) -> dict[str, tuple[str, ...]]:
    """The paths that only one of the documents has, as ``added`` or ``removed``."""
    kinds = {"added": result.added, "removed": result.removed}
    return {kind: places for kind, places in kinds.items() if places}


def _changes_by_field(result: Diff) -> list[_FieldChanges]:
    """The changes by the last key of their paths, the total first."""
    by_name: dict[str, list[ValueChange]] = {}
    for change in result.changed:
        by_name.setdefault(change.where.rpartition(".")[2], []).append(change)
    fields = []
    for name, changes in by_name.items():
        shares = sorted(change.relative for change in changes if change.relative is not None)
        # least and largest, once where they are written alike
        ends = dict.fromkeys(map(_change_text, (*shares[:1], *shares[-1:])))
        rows = len(set(map(_row_of, changes)))
        fields.append(_FieldChanges(name, rows, " to ".join(ends), max(changes, key=_distance)))
    return sorted(fields, key=lambda field: field.name != "total_s")


def _blocks(result: Diff) -> Iterator[Block]:
    """The answer and the changes by field first; each change, and values in one document only, after them."""
    fields = _changes_by_field(result)
    yield Headline(_answer(result, fields))
    yield Table(_FIELDS, fields, first=_MOST_FIELDS)
    title = f"changed by more than {result.rtol:g}"
    yield Table(_LINES, _changed_lines(result), title=title, first=0)
    for kind, places in _in_one_only(result).items():
        yield Lines(kind, places, first=3)


def _summary(result: Diff) -> str:
    tolerance = f"by more than {result.rtol:g}"
    if not result.moved:
        return f"nothing changed {tolerance}"
    counts = f"{len(result.added)} added, {len(result.removed)} removed"
    return f"{len(result.changed)} changed {tolerance}, {counts}"


class DiffDocument(Document):
    """What changed between two documents."""

    rtol: float
    changed: list[ValueChange]
    added: list[str]
    removed: list[str]
    winners: list[TotalChange]


VIEWS = {Diff: View("diff", _blocks, DiffDocument.of, _table, _summary)}
