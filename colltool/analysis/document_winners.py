"""The winner at each size of two JSON documents, and how its total changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from colltool.analysis.document_leaves import is_number


class TotalChange(NamedTuple):
    """The total of the winner, old and new: of ``what``, a collective or a step, at a size in bytes
    (0 for none)."""

    what: str
    old_bytes: float
    new_bytes: float
    old_name: str
    new_name: str
    old_s: float
    new_s: float

    @property
    def relative(self) -> float:
        return self.new_s / self.old_s - 1


class _PricedSize(NamedTuple):
    """What a document has a winner for: a collective at a size in bytes, or a step (0 bytes)."""

    what: str
    bytes: float


class _DocumentWinner(NamedTuple):
    """What wins; without a name for a step."""

    name: str
    total_s: float


def winner_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], rtol: float
) -> Iterator[TotalChange]:
    """How the total of the winner changed at each size; also where both documents have one winner,
    at different sizes."""
    before = _winners(old)
    after = _winners(new)
    pairs = [(priced, priced) for priced in before if priced in after]
    if not pairs and len(before) == len(after) == 1:
        (then,) = before
        (now,) = after
        pairs = [(then, now)]
    for then, now in pairs:
        old_name, old_s = before[then]
        new_name, new_s = after[now]
        if old_s > 0 and (abs(new_s / old_s - 1) > rtol or old_name != new_name):
            yield TotalChange(
                what=now.what,
                old_bytes=then.bytes,
                new_bytes=now.bytes,
                old_name=old_name,
                new_name=new_name,
                old_s=old_s,
                new_s=new_s,
            )


def _winners(document: Mapping[str, Any]) -> dict[_PricedSize, _DocumentWinner]:
    """The winner at each size of a document of prices or a ladder, or the step of a plan."""
    if is_number(document.get("step_s")):
        return {_PricedSize("step", 0.0): _DocumentWinner("", document["step_s"])}
    found: dict[_PricedSize, _DocumentWinner] = {}
    for size in document.get("sizes") or [document]:
        results = size.get("results") if isinstance(size, Mapping) else None
        if isinstance(results, list) and results:
            _add_winner(found, size, results[0])
    is_ladder = str(document["schema"]).startswith("colltool.ladder/")
    rows = document.get("rows")
    for row in rows if is_ladder and isinstance(rows, list) else ():
        price = row.get("realistic") if isinstance(row, Mapping) else None
        if isinstance(price, Mapping):
            size = {"bytes": document.get("bytes"), **row}
            name = row.get("name") or row.get("algorithm")
            where = f"{name} on {row.get('fabric')}"
            _add_winner(found, size, {**price, "name": where}, fastest=True)
    return found


def _add_winner(
    found: dict[_PricedSize, _DocumentWinner],
    size: Mapping[str, Any],
    row: Mapping[str, Any],
    *,
    fastest: bool = False,
) -> None:
    """Add a row as the winner of its primitive and size; with ``fastest`` only where it beats what
    is there."""
    total_s = row.get("total_s")
    if not isinstance(total_s, int | float) or not is_number(size.get("bytes")):
        return
    priced = _PricedSize(str(size.get("primitive")).replace("_", "-"), float(size["bytes"]))
    if fastest and priced in found and found[priced].total_s <= total_s:
        return
    found[priced] = _DocumentWinner(str(row.get("name") or row.get("algorithm") or ""), total_s)
