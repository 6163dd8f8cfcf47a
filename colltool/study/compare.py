"""``compare``: fabrics, or one fabric under several values, side by side; and what follows from it in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from colltool.errors import ColltoolError
from colltool.pricing.who import Who
from colltool.primitives import Primitive
from colltool.results import Result
from colltool.study.axes import Axis
from colltool.study.grid import Asked, Cell, Load, cells, too_many

SAME = 0.02  # a smaller difference is none: prices are not known better
NEAR = 1.25  # sizes that far apart are one in a sentence
POINTS = 200  # of the sizes between those that are asked for
MOST_CELLS = 20_000

Outcome = Literal["same", "slower", "faster", "first", "other", "neither"]


class Option(NamedTuple):
    """One column: what it is called, its fabric, what is other about it, and how it is loaded."""

    name: str
    fabric: str
    set: tuple[tuple[str, str], ...]
    load: Load


Met = tuple[int, tuple["Run", ...]]
"""A number of ranks, and what a column does there."""


class Line(NamedTuple):
    """One row: the cells of all columns at a primitive, a number of ranks and a size."""

    primitive: Primitive
    ranks: int
    bytes: float
    cells: tuple[Cell, ...]

    def ratio(self, column: int) -> float | None:
        """A column's time over the first one's; None where either has none."""
        first, other = self.cells[0].total_s, self.cells[column].total_s
        return None if first is None or other is None else other / first


class Run(NamedTuple):
    """Sizes in a row at which a column is slower, faster or the same as the first; ``ratio`` is the farthest from 1."""

    outcome: Outcome
    from_bytes: float
    to_bytes: float
    ratio: float


class Finding(NamedTuple):
    """What a column does to a primitive on some numbers of ranks: runs of sizes, that are alike for all of them."""

    column: str
    primitive: Primitive
    ranks: tuple[int, ...]
    runs: tuple[Run, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """Columns beside each other, the first of them what the others are held against."""

    subject: ClassVar[str] = "compare"
    columns: tuple[Option, ...]
    lines: tuple[Line, ...]
    findings: tuple[Finding, ...]
    ideal: bool


def compare(asked: Sequence[Asked], columns: Sequence[Option], groups: Sequence[Who], sizes: Sequence[float]) -> Comparison:
    """Prices side by side.

    Args:
        asked: what is priced, one for each primitive.
        columns: at least two.
        groups: who takes part.
        sizes: bytes by nccl-tests' convention.

    Raises:
        ColltoolError: too many cells, a fabric or an algorithm that cannot be used.
    """
    count = prod(map(len, (asked, columns, groups, sizes)))
    if count > MOST_CELLS:
        raise too_many(count, MOST_CELLS)
    ranks = [group.ranks if group.ranks is not None else min(column.load(()).ranks for column in columns) for group in groups]
    who = [group._replace(ranks=count) for group, count in zip(groups, ranks, strict=True)]
    lines = [line for one in asked for line in _lines(one, columns, who, sizes)]
    if all(cell.algorithm is None for line in lines for cell in line.cells):
        raise ColltoolError(lines[0].cells[0].reason, fix="another number of ranks, another algorithm, or another fabric")
    least, most = min(sizes), max(sizes)
    fine = np.geomspace(least, most, POINTS) if most > least else np.array([least])
    found = [_finding(one, columns, who, [float(size) for size in fine]) for one in asked]
    return Comparison(tuple(columns), tuple(lines), tuple(one for several in found for one in several), asked[0].readings.ideal)


def _lines(asked: Asked, columns: Sequence[Option], groups: Sequence[Who], sizes: Sequence[float]) -> Iterator[Line]:
    axes = (Axis("fabric", tuple(one.name for one in columns)), Axis("ranks", tuple(group.ranks for group in groups)),
            Axis("bytes", tuple(sizes)))  # fmt: skip
    found = cells(asked, axes, [one.load for one in columns], groups)
    a_column = len(groups) * len(sizes)
    for row in range(a_column):
        group, size = groups[row // len(sizes)], sizes[row % len(sizes)]
        yield Line(asked.primitive, int(group.ranks or 0), size, tuple(found[row + a_column * at] for at in range(len(columns))))


def _finding(asked: Asked, columns: Sequence[Option], groups: Sequence[Who], sizes: Sequence[float]) -> list[Finding]:
    """Of every column but the first, numbers of ranks that meet the same joined."""
    lines = list(_lines(asked, columns, groups, sizes))
    found: list[Finding] = []
    for at in range(1, len(columns)):
        each = [(group.ranks or 0, _runs([line for line in lines if line.ranks == group.ranks], at)) for group in groups]
        for alike in _alike(each):
            runs = _merged([runs for _, runs in alike])
            found.append(Finding(columns[at].name, asked.primitive, tuple(ranks for ranks, _ in alike), runs))
    return found


def _alike(each: Sequence[Met]) -> list[list[Met]]:
    """Numbers of ranks in a row that meet the same at about the same sizes."""
    groups: list[list[Met]] = []
    for one in each:
        if groups and _same_runs(groups[-1][0][1], one[1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _same_runs(some: Sequence[Run], others: Sequence[Run]) -> bool:
    if [run.outcome for run in some] != [run.outcome for run in others]:
        return False
    edges = ((one.to_bytes, other.to_bytes) for one, other in zip(some, others, strict=True))
    return all(max(pair) <= NEAR * min(pair) for pair in edges)


def _runs(lines: Sequence[Line], column: int) -> tuple[Run, ...]:
    runs = []
    for outcome, run in groupby(lines, key=lambda line: _outcome(line, column)):
        several = list(run)
        ratios = [ratio for line in several if (ratio := line.ratio(column)) is not None] or [1.0]
        runs.append(Run(outcome, several[0].bytes, several[-1].bytes, _farthest(ratios)))
    return tuple(runs)


def _outcome(line: Line, column: int) -> Outcome:
    """How a column compares; ``first``, ``other``, ``neither``: which of the two can run it at all."""
    ratio, runs = line.ratio(column), [line.cells[at].total_s is not None for at in (0, column)]
    if ratio is None:
        return "first" if runs[0] else "other" if runs[1] else "neither"
    return "same" if abs(ratio - 1) <= SAME else "slower" if ratio > 1 else "faster"


def _farthest(ratios: Sequence[float]) -> float:
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def _merged(several: Sequence[Sequence[Run]]) -> tuple[Run, ...]:
    """Runs of several numbers of ranks that meet the same: the widest sizes, the farthest ratio."""
    return tuple(
        Run(
            same[0].outcome,
            min(run.from_bytes for run in same),
            max(run.to_bytes for run in same),
            _farthest([run.ratio for run in same]),
        )
        for same in zip(*several, strict=True)
    )
