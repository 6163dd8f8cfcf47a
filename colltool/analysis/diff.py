"""``diff``: what changed between two JSON documents of the same command.

:func:`diff` flattens both documents to leaves by path (:mod:`colltool.analysis.document_leaves`)
and compares these. Records in lists are matched by their identity, not their position, so a row
that only changed its rank has not changed. The fabric is part of the identity only if a document
has several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, ClassVar, NamedTuple

from colltool.analysis.document_leaves import IDENTITY, is_number, leaves_by_path, paths_only_in
from colltool.analysis.document_winners import TotalChange, winner_changes
from colltool.analysis.json_documents import WRITE_ONE
from colltool.base.errors import ColltoolError
from colltool.base.result import Result, result
from colltool.estimate.assumptions import USUAL


class ValueChange(NamedTuple):
    """A leaf that differs.

    Args:
        where: its path in both documents.
        relative: new/old - 1, of two numbers. None for other values, for an old number of 0, and
            where the quotient is not finite: such a change exceeds every tolerance.
    """

    where: str
    old: Any
    new: Any
    relative: float | None


@result
class Diff(Result):
    """What changed from one document to another: numbers that moved by more than ``rtol``,
    relative, and other values that differ; paths that only one side has (``added``: the new one); and,
    of prices, how the winner's total moved."""

    subject: ClassVar[str] = "diff"
    rtol: float
    changed: tuple[ValueChange, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    winners: tuple[TotalChange, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether the documents differ by more than the tolerance."""
        return bool(self.changed or self.added or self.removed)

    @property
    def readings(self) -> tuple[ValueChange, ...]:
        """The changed options of the model, which documents hold under the key ``model``."""
        return tuple(change for change in self.changed if change.where.startswith("model."))


def diff(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float = 1e-6) -> Diff:
    """Compare two documents as ``--format json`` writes them; ``rtol`` is a tolerance relative to
    the old number.

    Raises:
        ColltoolError: a negative tolerance, what is no document of colltool, documents of different
            commands, or a number that cannot be compared.
    """
    _check_comparable(old, new, rtol)
    try:
        old_fabrics = list(dict.fromkeys(_fabrics(old)))
        new_fabrics = list(dict.fromkeys(_fabrics(new)))
        # the keys that tell a record of a list from the others
        identity = IDENTITY
        if len(old_fabrics) < 2 and len(new_fabrics) < 2:
            identity = tuple(key for key in IDENTITY if key != "fabric")
        single_size = "results" in old and "results" in new
        before = _without_repeated(_with_options(old, new), single_size=single_size)
        after = _without_repeated(_with_options(new, old), single_size=single_size)
        leaves_before = leaves_by_path(before, "old", old_fabrics, identity)
        leaves_after = leaves_by_path(after, "new", new_fabrics, identity)
    except RecursionError as error:
        # which of the two it is was not looked for
        raise ColltoolError(
            "a document is nested too deeply", argument="old", fix=WRITE_ONE
        ) from error
    changed = []
    for where, value in leaves_before.items():
        change = _change(where, value, leaves_after[where]) if where in leaves_after else None
        if change is not None and (change.relative is None or abs(change.relative) > rtol):
            changed.append(change)
    return Diff(
        rtol,
        tuple(changed),
        added=paths_only_in(leaves_after, leaves_before),
        removed=paths_only_in(leaves_before, leaves_after),
        winners=tuple(winner_changes(old, new, rtol)),
    )


def _check_comparable(old: Mapping[str, Any], new: Mapping[str, Any], rtol: float) -> None:
    """Refuse a tolerance that is none, and documents that are not of one command of colltool."""
    if not (isfinite(rtol) and rtol >= 0):
        raise ColltoolError(
            f"the tolerance must be a number of at least 0, got {rtol}",
            argument="rtol",
            fix="write a share such as 1e-6, or 1%",
        )
    for document, argument in ((old, "old"), (new, "new")):
        if not str(document.get("schema", "")).startswith("colltool."):
            raise ColltoolError("not a JSON document of colltool", argument=argument, fix=WRITE_ONE)
    if old["schema"] != new["schema"]:
        raise ColltoolError(
            f"documents of different commands: {old['schema']} and {new['schema']}",
            fix="compare two outputs of the same command",
        )


def _with_options(document: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document; a ladder, which leaves usual options out, with these written out if the other
    document states its own."""
    options_of_other = other.get("model")
    is_ladder = str(document["schema"]).startswith("colltool.ladder/")
    if "model" in document or not isinstance(options_of_other, Mapping) or not is_ladder:
        return document
    return {**document, "model": {name: getattr(USUAL, name, None) for name in options_of_other}}


def _without_repeated(document: Mapping[str, Any], *, single_size: bool) -> Mapping[str, Any]:
    """The document without what it has twice.

    Prices of a single size hold it twice: at the top, and as the one record of ``sizes``::

        {"bytes": 1024, "results": [...], "sizes": [{"bytes": 1024, "results": [...]}]}

    If both documents have one size (``single_size``) the list goes. If the other one has several,
    which has no ``results`` at the top, the copy at the top goes, so that both have ``sizes`` alone.
    """
    if "results" not in document or "sizes" not in document:
        return document
    # the union of the records' keys
    repeated = {"sizes"} if single_size else set().union(*document["sizes"])
    return {key: value for key, value in document.items() if key not in repeated}


def _fabrics(value: Any) -> Iterator[str]:
    """Every fabric that a value names, at any depth."""
    if isinstance(value, Mapping):
        if isinstance(value.get("fabric"), str):
            yield value["fabric"]
        for item in value.values():
            yield from _fabrics(item)
    elif isinstance(value, list):
        for item in value:
            yield from _fabrics(item)


def _change(where: str, old: Any, new: Any) -> ValueChange | None:
    """The change of a leaf, of whatever size; None if both values are equal."""
    if old == new:
        return None
    relative = None
    if is_number(old) and is_number(new) and old:
        change = new / old - 1
        relative = change if isfinite(change) else None
    return ValueChange(where, old, new, relative)
