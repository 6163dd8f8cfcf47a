"""Which rows may be called the fastest: what the user can run, or what the user named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from colltool.algorithms.registry import Choice, parse_choice


class Rankable(Protocol):
    """A schedule or its price."""

    @property
    def choice(self) -> Choice: ...

    @property
    def rank_class(self) -> int: ...


Row = TypeVar("Row", bound=Rankable)


def may_lead(rows: Sequence[Row], named: Sequence[str]) -> list[Row]:
    """The rows that may lead an answer, in their order.

    Without names those that the user can run. What is named leads whatever its status; of a
    composition that is named without its parts only the parts that the user can run, if any.
    """
    if not named:
        return [row for row in rows if row.rank_class == 0]
    # a choice that is named with its parts leads whatever its class
    specs = {parse_choice(machine).spec for machine in named}
    best: dict[str, int] = {}
    for row in rows:
        base = row.choice.base
        best[base] = min(row.rank_class, best.get(base, row.rank_class))
    return [r for r in rows if r.choice.spec in specs or r.rank_class == best[r.choice.base]]


def best_class(rows: Sequence[Row]) -> list[Row]:
    """The rows of the best rank class present, for answers in which none may lead."""
    best = min(row.rank_class for row in rows)
    return [row for row in rows if row.rank_class == best]
