"""How one column of a comparison does against the first: size ranges where it is faster, slower or the same, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from colltool.analysis.basis import LAUNCH_SHARE, PointTimes
from colltool.analysis.grid import Cell, PriceRequest, point_of, winner
from colltool.base.primitives import Primitive
from colltool.estimate.groups import PlacedGroup, Span, place
from colltool.estimate.path_classes import tier_paths
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

SAME = 0.02  # relative difference below which times count as equal
NEAR = 1.25  # sizes within this factor share a sentence

Outcome = Literal["same", "slower", "faster", "unlike", "first", "other", "neither"]


class OutcomeRange(NamedTuple):
    """A size range with one outcome; ``ratio`` is the one farthest from 1.

    ``unlike``: only one of the two states a launch overhead. ``within``: the model's error, if the difference is not larger.
    ``why``: reasons for ``same``.
    """

    outcome: Outcome
    from_bytes: float
    to_bytes: float
    ratio: float
    within: float | None = None
    why: tuple[SameReason, ...] = ()


Met = tuple[int, tuple[OutcomeRange, ...]]
"""A rank count and the outcomes there."""


def alike(each: Sequence[Met]) -> list[list[Met]]:
    groups: list[list[Met]] = []
    for one in each:
        if groups and _same_runs(groups[-1][0][1], one[1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _same_runs(some: Sequence[OutcomeRange], others: Sequence[OutcomeRange]) -> bool:
    if [(run.outcome, run.within is None) for run in some] != [(run.outcome, run.within is None) for run in others]:
        return False
    edges = ((one.to_bytes, other.to_bytes) for one, other in zip(some, others, strict=True))
    return all(max(pair) <= NEAR * min(pair) for pair in edges)


def farthest(ratios: Sequence[float]) -> float:
    """The ratio farthest from 1 in either direction."""
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def merged(several: Sequence[Sequence[OutcomeRange]]) -> tuple[OutcomeRange, ...]:
    """Ranges of several rank counts joined: the widest sizes, the farthest ratio."""
    return tuple(
        OutcomeRange(
            same[0].outcome,
            min(run.from_bytes for run in same),
            max(run.to_bytes for run in same),
            farthest([run.ratio for run in same]),
            max((run.within for run in same if run.within is not None), default=None),
        )
        for same in zip(*several, strict=True)
    )


Reason = Literal["tier", "level", "share", "unpaid", "small"]


class SameReason(NamedTuple):
    """Why a value makes no difference.

    ``reason``: ``tier``, no two ranks meet on it; ``level``, one domain of the level ``below`` holds all ``endpoints``;
    ``share``, too few messages cross it at once; ``unpaid``, the fastest ``algorithm`` does not pay it; ``small``, it moves the
    time by at most ``most``, a share. ``key`` is empty between different fabrics.
    """

    reason: Reason
    key: str = ""
    tier: str = ""
    level: str = ""
    below: str = ""
    endpoints: int = 0
    algorithm: str = ""
    most: float = 0.0


def why_same(
    fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, keys: Sequence[str], most: float
) -> tuple[SameReason, ...]:
    """Why the values of ``keys`` (empty between two files) make no difference; ``most``: the largest relative difference seen."""
    algorithm = winner(fabric, asked, group, size).title
    if most > 1e-9 or not keys:
        return (SameReason("small" if most > 1e-9 else "unpaid", " and ".join(keys), algorithm=algorithm, most=most),)
    placed = place(fabric, group)
    return tuple(_unused(placed, asked, key, algorithm) for key in keys)


def _unused(placed: PlacedGroup, asked: PriceRequest, key: str, algorithm: str) -> SameReason:
    parts = key.split(".")
    parts = parts[1:] if parts[0] == "tiers" else parts
    tiers = placed.fabric.tiers
    tier = next((one for at, one in enumerate(tiers) if parts[0] in (one.name, str(at))), None)
    if tier is None:
        return SameReason("unpaid", key, algorithm=algorithm)
    span = next((one for one in placed.spans if one.tier.name == tier.name), None)
    if span is None:
        return SameReason("tier", key, tier.name, algorithm=algorithm)
    if parts[1:2] == ["levels"] and len(parts) > 2:
        return _of_level(span, asked, key, parts, algorithm)
    return SameReason("unpaid", key, tier.name, algorithm=algorithm)


def _of_level(span: Span, asked: PriceRequest, key: str, parts: Sequence[str], algorithm: str) -> SameReason:
    names = [level.name for level in capabilities_of(span.tier).levels]
    at = names.index(parts[2]) if parts[2] in names else int(parts[2])
    met = [level.name for level in tier_paths(span.tier, span.endpoints, asked.readings, occupancy=span.occupancy).used]
    where = SameReason("unpaid", key, span.tier.name, names[at], algorithm=algorithm)
    if names[at] not in met and at:
        return where._replace(reason="level", below=names[at - 1], endpoints=span.endpoints)
    return where._replace(reason="share") if parts[-1] in ("oversubscription", "uplinks") else where


class OnePortWinner(NamedTuple):
    """A row where another column wins if each rank drives only one port."""

    primitive: Primitive
    ranks: int
    bytes: float
    column: str
    instead_of: str


def one_port_winners(
    asked: PriceRequest, rows: Callable[[PriceRequest], Iterable[CompareLine]], columns: Sequence[str], least: float
) -> Iterator[OnePortWinner]:
    """The rows with another fastest column under ``ports="one"``, by a margin of more than ``least`` (a share).

    Yields nothing if algorithms or ports were given.
    """
    if asked.only or asked.readings.ports != "all":
        return
    one_port = asked._replace(readings=asked.readings._replace(ports="one"))
    for now, then in zip(rows(asked), rows(one_port), strict=True):
        here, there = _fastest(now.cells), _fastest(then.cells)
        if here is None or there is None or here == there:
            continue
        before, after = then.cells[here].total_s, then.cells[there].total_s
        if before is None or after is None or before > after * (1 + least):
            yield OnePortWinner(now.primitive, now.ranks, now.bytes, columns[there], columns[here])


def _fastest(cells: Sequence[Cell]) -> int | None:
    priced = [(one.total_s, at) for at, one in enumerate(cells) if one.total_s is not None]
    return min(priced)[1] if priced else None


class CompareLine(NamedTuple):
    """The cells of all columns for a primitive, rank count and size.

    ``missing``: launch seconds that a column does not state but others do. ``errors``: the model's expected relative error.
    """

    primitive: Primitive
    ranks: int
    bytes: float
    cells: tuple[Cell, ...]
    missing: tuple[float, ...]
    errors: tuple[float, ...]

    def ratio(self, column: int) -> float | None:
        """A column's time over the first's; None if one is missing or they contain different terms that matter."""
        first, other = self.cells[0].total_s, self.cells[column].total_s
        if first is None or other is None or launch_felt((first, other), (self.missing[0], self.missing[column])):
            return None
        if time_felt(self.cells[0], self.cells[column]):
            return None
        return other / first

    def point(self, names: Sequence[str]) -> PointTimes:
        return point_of(self.primitive, self.ranks, self.bytes, names, self.cells)

    def is_bound(self, column: int) -> bool:
        total = self.cells[column].total_s
        return total is not None and self.missing[column] > LAUNCH_SHARE * total


def ranges_of(lines: Sequence[CompareLine], column: int, *, one_file: bool) -> tuple[OutcomeRange, ...]:
    runs = []
    for (outcome, near), run in groupby(lines, key=lambda line: _judged(line, column, one_file=one_file)):
        several = list(run)
        ratios = [ratio for line in several if (ratio := line.ratio(column)) is not None] or [1.0]
        error = max(max(line.errors[0], line.errors[column]) for line in several)
        runs.append(OutcomeRange(outcome, several[0].bytes, several[-1].bytes, farthest(ratios), error if near else None))
    return tuple(runs)


def _judged(line: CompareLine, column: int, *, one_file: bool) -> tuple[Outcome, bool]:
    """The outcome, and whether it is within the model's error.

    Columns of one file share the model and most numbers, so their error cancels.
    """
    outcome, ratio = _outcome(line, column), line.ratio(column)
    if ratio is None or one_file or outcome == "same":
        return outcome, False
    return outcome, max(ratio, 1 / ratio) - 1 <= max(line.errors[0], line.errors[column])


def _outcome(line: CompareLine, column: int) -> Outcome:
    """``first``, ``other``, ``neither``: which of the two can run it at all."""
    ratio, runs = line.ratio(column), [line.cells[at].total_s is not None for at in (0, column)]
    if ratio is None:
        return "unlike" if all(runs) else "first" if runs[0] else "other" if runs[1] else "neither"
    return told(ratio)


def launch_felt(seconds: tuple[float, float], missing: tuple[float, float]) -> bool:
    """Whether a launch missing from one of two times exceeds :data:`LAUNCH_SHARE` of it or would change the outcome."""
    if missing[0] == missing[1]:
        return False
    share = max(lacking / total for lacking, total in zip(missing, seconds, strict=True))
    filled = (seconds[1] + missing[1]) / (seconds[0] + missing[0])
    return share > LAUNCH_SHARE or told(filled) != told(seconds[1] / seconds[0])


def time_felt(first: Cell, other: Cell) -> bool:
    """Whether software time that only one side has is a tenth of the shorter time or more, and would change the outcome."""
    totals = first.total_s or 0.0, other.total_s or 0.0
    lacks = [one.fitted_s is None and not one.protocol for one in (first, other)]
    missing = [(two.fitted_s or 0.0) if lacking else 0.0 for lacking, two in zip(lacks, (other, first), strict=True)]
    filled = (totals[1] + missing[1]) / (totals[0] + missing[0])
    return max(missing) >= LAUNCH_SHARE * min(totals) and told(filled) != told(totals[1] / totals[0])


def told(ratio: float) -> Literal["same", "slower", "faster"]:
    return "same" if abs(ratio - 1) <= SAME else "slower" if ratio > 1 else "faster"
