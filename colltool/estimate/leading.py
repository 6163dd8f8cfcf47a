"""Which rows may be called the fastest: what the user can run, or what the user named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from colltool.algorithms.registry import Choice, parse_choice


class Rankable(Protocol):
    """A schedule or its price. Rank class 0 is what the user can run; others, which no answer calls the
    fastest, have larger ones."""

    @property
    def choice(self) -> Choice: ...

    @property
    def rank_class(self) -> int: ...


Row = TypeVar("Row", bound=Rankable)


def may_lead(rows: Sequence[Row], named: Sequence[str]) -> list[Row]:
    """The rows that may lead an answer, in their order.

    Without names those that the user can run. What is named leads whatever its status; of a
    composition that is named without its parts only the choices that the user can run, if any.
    """
    if not named:
        return [row for row in rows if row.rank_class == 0]
    # a choice that is named with its parts leads whatever its class
    specs = {parse_choice(algorithm).spec for algorithm in named}
    # a composition named without its parts has several rows
    best_class_of: dict[str, int] = {}
    for row in rows:
        base = row.choice.base
        best_class_of[base] = min(row.rank_class, best_class_of.get(base, row.rank_class))
    return [
        row
        for row in rows
        if row.choice.spec in specs or row.rank_class == best_class_of[row.choice.base]
    ]


def best_class(rows: Sequence[Row]) -> list[Row]:
    """The rows of the best rank class present, for answers in which none may lead."""
    best = min(row.rank_class for row in rows)
    return [row for row in rows if row.rank_class == best]
