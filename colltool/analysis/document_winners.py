"""The winner at each size of two JSON documents, and how its total changed: :func:`winner_changes`, for
``diff``. Documents are as ``--format json`` writes them: of prices, ladders and plans."""

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
        """The new total over the old one, less 1."""
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
        (old_size,) = before
        (new_size,) = after
        pairs = [(old_size, new_size)]
    for old_size, new_size in pairs:
        old_name, old_s = before[old_size]
        new_name, new_s = after[new_size]
        if old_s > 0 and (abs(new_s / old_s - 1) > rtol or old_name != new_name):
            yield TotalChange(
                what=new_size.what,
                old_bytes=old_size.bytes,
                new_bytes=new_size.bytes,
                old_name=old_name,
                new_name=new_name,
                old_s=old_s,
                new_s=new_s,
            )


def _winners(document: Mapping[str, Any]) -> dict[_PricedSize, _DocumentWinner]:
    """The winner at each size of a document of prices or a ladder, or the step of a plan."""
    if is_number(document.get("step_s")):
        return {_PricedSize("step", 0.0): _DocumentWinner("", document["step_s"])}
    winners: dict[_PricedSize, _DocumentWinner] = {}
    for size in document.get("sizes") or [document]:
        results = size.get("results") if isinstance(size, Mapping) else None
        if isinstance(results, list) and results:
            _add_winner(winners, size, results[0])
    is_ladder = str(document["schema"]).startswith("colltool.ladder/")
    rows = document.get("rows")
    for row in rows if is_ladder and isinstance(rows, list) else ():
        price = row.get("realistic") if isinstance(row, Mapping) else None
        if isinstance(price, Mapping):
            size = {"bytes": document.get("bytes"), **row}
            name = row.get("name") or row.get("algorithm")
            rung_name = f"{name} on {row.get('fabric')}"
            _add_winner(winners, size, {**price, "name": rung_name}, fastest=True)
    return winners


def _add_winner(
    winners: dict[_PricedSize, _DocumentWinner],
    size: Mapping[str, Any],
    row: Mapping[str, Any],
    *,
    fastest: bool = False,
) -> None:
    """Add a row as the winner of its primitive and size; with ``fastest`` only where it beats what
    is there. A row without a total or size, as of an edited document, is left out."""
    total_s = row.get("total_s")
    if not isinstance(total_s, int | float) or not is_number(size.get("bytes")):
        return
    priced = _PricedSize(str(size.get("primitive")).replace("_", "-"), float(size["bytes"]))
    if fastest and priced in winners and winners[priced].total_s <= total_s:
        return
    winners[priced] = _DocumentWinner(str(row.get("name") or row.get("algorithm") or ""), total_s)
