"""Runs of sizes at which one column does the same beside another, and how those of several numbers of ranks are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from colltool.analysis.why import Why

NEAR = 1.25  # sizes that far apart are one in a sentence

Outcome = Literal["same", "slower", "faster", "unlike", "first", "other", "neither"]


class Run(NamedTuple):
    """Sizes in a row at which a column is slower, faster or the same as the first; ``ratio`` is the farthest from 1.

    ``unlike``: one of the two leaves out a launch that the other has. ``within``: the model's error, where the difference is no
    larger. ``why``: of what is the same.
    """

    outcome: Outcome
    from_bytes: float
    to_bytes: float
    ratio: float
    within: float | None = None
    why: tuple[Why, ...] = ()


Met = tuple[int, tuple[Run, ...]]
"""A number of ranks, and what a column does there."""


def alike(each: Sequence[Met]) -> list[list[Met]]:
    """Numbers of ranks in a row that meet the same at about the same sizes."""
    groups: list[list[Met]] = []
    for one in each:
        if groups and _same_runs(groups[-1][0][1], one[1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _same_runs(some: Sequence[Run], others: Sequence[Run]) -> bool:
    if [(run.outcome, run.within is None) for run in some] != [(run.outcome, run.within is None) for run in others]:
        return False
    edges = ((one.to_bytes, other.to_bytes) for one, other in zip(some, others, strict=True))
    return all(max(pair) <= NEAR * min(pair) for pair in edges)


def farthest(ratios: Sequence[float]) -> float:
    """The ratio that is farthest from 1, either way."""
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def merged(several: Sequence[Sequence[Run]]) -> tuple[Run, ...]:
    """Runs of several numbers of ranks that meet the same: the widest sizes, the farthest ratio."""
    return tuple(
        Run(
            same[0].outcome,
            min(run.from_bytes for run in same),
            max(run.to_bytes for run in same),
            farthest([run.ratio for run in same]),
            max((run.within for run in same if run.within is not None), default=None),
        )
        for same in zip(*several, strict=True)
    )
