"""Who wins a comparison: the verdict on each question by size, from the verdicts at its points.

A question is a collective and a rank count. At one size a column wins only if it is faster than
every other by more than their ratio's own error; a :class:`QuestionVerdict` then says at which
sizes that is so, in at most :data:`MOST_CLASSES` classes. What is claimed of a class holds at every
priced size of it; whatever is left over has no winner.

:func:`verdict_of` judges one question, :func:`joined_verdicts` joins those of neighbouring rank counts
that say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import sqrt
from typing import NamedTuple

from colltool.analysis.outcomes import NEAR, CompareLine, PointVerdict, VerdictKind
from colltool.base.primitives import Primitive

# Size classes that one verdict names: more is a list that nobody repeats.
MOST_CLASSES = 2
# A winner in a band of sizes narrower than this factor is no class: it may only be the border of
# its error, or of a library's pick.
NARROW = 4.0

# What a size class can be claimed to be; of all other sizes nobody wins.
_CLAIMED: tuple[VerdictKind, ...] = ("winner", "behind", "alone", "unlike")


class RivalRatio(NamedTuple):
    """How many times the winner's time (or the fastest's, where nobody wins) a column takes in a
    size class."""

    column: str
    least: float
    most: float
    low: float | None  # the least end of their intervals; None where the error is not known
    high: float | None  # the largest end of these
    slower: bool  # surely slower, at every size

    def joined(self, other: RivalRatio) -> RivalRatio:
        """The ratios of both: at more sizes, or on more ranks."""
        return RivalRatio(
            self.column,
            min(self.least, other.least),
            max(self.most, other.most),
            _end(min, self.low, other.low),
            _end(max, self.high, other.high),
            self.slower and other.slower,
        )


def _end(
    choose: Callable[[float, float], float], first: float | None, other: float | None
) -> float | None:
    """The chosen end of two intervals, by ``min`` or ``max``; None where one is not known."""
    if first is None or other is None:
        return None
    return choose(first, other)


class SizeBand(NamedTuple):
    """Sizes with one verdict."""

    kind: VerdictKind
    winner: str  # empty where nobody wins
    from_bytes: float
    to_bytes: float
    first: bool  # whether it holds the smallest size of the question
    last: bool  # whether it holds the largest size of the question
    unbroken: bool  # whether it holds all sizes between its ends
    rivals: tuple[RivalRatio, ...]  # all other columns that can run it


class QuestionVerdict(NamedTuple):
    """The verdict on a collective, of one rank count or of neighbouring ones that say the same."""

    primitive: Primitive
    ranks: tuple[int, ...]
    claims: tuple[SizeBand, ...]  # the size classes of which something is known, in order of size
    rest: SizeBand | None  # all other sizes, None if there are none
    idle: tuple[str, ...] = ()  # columns that cannot run it
    several_sizes: bool = True  # whether it was asked for more than one size

    @property
    def winner(self) -> str | None:
        """The column that wins at every size; None without."""
        if self.rest is None and len({claim.winner for claim in self.claims}) == 1:
            [claim, *_] = self.claims
            return claim.winner if claim.kind == "winner" else None
        return None


def verdict_of(lines: Sequence[CompareLine], names: Sequence[str]) -> QuestionVerdict:
    """The verdict on one question, from its lines in order of size."""
    # a wins at 1, 2 and 4 KB, nobody at 8 KB, b at 16 KB: a class of a from 1 to 4 KB, and the rest,
    # since the band of b is narrow. Runs and points are indices of lines.
    candidates: list[range] = []
    # where all sizes span little, a band need only be as wide as the root of their ratio
    narrow = min(NARROW, sqrt(lines[-1].bytes / lines[0].bytes))
    for verdict, run in _runs([line.verdict() for line in lines]):
        is_wide = lines[run[-1]].bytes >= narrow * lines[run[0]].bytes
        if verdict.kind in _CLAIMED and is_wide:
            candidates.append(run)
    longest = sorted(candidates, key=len, reverse=True)[:MOST_CLASSES]
    claimed = sorted(longest, key=lambda run: run[0])
    claims = []
    claimed_points: set[int] = set()
    for run in claimed:
        claims.append(_class_of(lines, names, list(run)))
        claimed_points |= set(run)
    unclaimed = [point for point in range(len(lines)) if point not in claimed_points]
    # a column that cannot run it cannot at any size: the first line tells
    return QuestionVerdict(
        lines[0].primitive,
        (lines[0].ranks,),
        tuple(claims),
        rest=_class_of(lines, names, unclaimed) if unclaimed else None,
        idle=tuple(
            name for name, cell in zip(names, lines[0].cells, strict=True) if not cell.total_s
        ),
        several_sizes=len({line.bytes for line in lines}) > 1,
    )


def _runs(verdicts: Sequence[PointVerdict]) -> Iterator[tuple[PointVerdict, range]]:
    """The runs of neighbouring points with one verdict, as ranges of their indices."""
    start = 0
    for verdict, points in groupby(verdicts):
        end = start + len(list(points))
        yield verdict, range(start, end)
        start = end


def _class_of(
    lines: Sequence[CompareLine], names: Sequence[str], points: Sequence[int]
) -> SizeBand:
    """Some of the points as one class: a winner only where it wins at all of them."""
    common = _common_verdict({lines[point].verdict() for point in points})
    return SizeBand(
        kind=common.kind,
        winner="" if common.column is None else names[common.column],
        from_bytes=lines[points[0]].bytes,
        to_bytes=lines[points[-1]].bytes,
        first=points[0] == 0,
        last=points[-1] == len(lines) - 1,
        unbroken=len(points) == points[-1] - points[0] + 1,
        rivals=tuple(_rivals([lines[point] for point in points], names, common.column)),
    )


def _common_verdict(verdicts: set[PointVerdict]) -> PointVerdict:
    """What holds at all of some points."""
    if len(verdicts) == 1:
        [verdict] = verdicts
        return verdict
    kinds = {verdict.kind for verdict in verdicts}
    if "unlike" in kinds:
        return PointVerdict("unlike", None)
    return PointVerdict("close" if kinds <= {"close", "same"} else "mixed", None)


def _rivals(
    lines: Sequence[CompareLine], names: Sequence[str], winner: int | None
) -> Iterator[RivalRatio]:
    """How each other column compares over these sizes, with the winner, or with the fastest where
    nobody wins."""
    for column, name in enumerate(names):
        over_sizes: RivalRatio | None = None
        for line in lines:
            ratio = line.rival_ratio(column)
            if ratio is None or column == winner:
                continue
            ends = line.rival_interval(column)
            low, high = ends or (None, None)
            at_size = RivalRatio(name, ratio, ratio, low, high, line.surely_slower(column))
            over_sizes = at_size if over_sizes is None else over_sizes.joined(at_size)
        if over_sizes is not None:
            yield over_sizes


def joined_verdicts(verdicts: Sequence[QuestionVerdict]) -> list[QuestionVerdict]:
    """Verdicts in order of their rank counts, neighbours that say the same joined."""
    joined: list[QuestionVerdict] = []
    for verdict in verdicts:
        if joined and _say_the_same(joined[-1], verdict):
            joined[-1] = _join(joined[-1], verdict)
        else:
            joined.append(verdict)
    return joined


def _say_the_same(first: QuestionVerdict, other: QuestionVerdict) -> bool:
    """Whether two verdicts make the same claims, at about the same sizes."""
    if (first.primitive, first.idle) != (other.primitive, other.idle):
        return False
    if len(first.claims) != len(other.claims) or (first.rest is None) != (other.rest is None):
        return False
    if first.rest and other.rest and first.rest.kind != other.rest.kind:
        return False
    for claim, other_claim in zip(first.claims, other.claims, strict=True):
        if _claim_without_sizes(claim) != _claim_without_sizes(other_claim):
            return False
        starts = claim.from_bytes, other_claim.from_bytes
        ends = claim.to_bytes, other_claim.to_bytes
        if max(starts) > NEAR * min(starts) or max(ends) > NEAR * min(ends):
            return False
        if max(starts) > min(ends):
            return False
    return True


def _claim_without_sizes(claim: SizeBand) -> tuple[object, ...]:
    """What a claim says, without its sizes."""
    slower = tuple(rival.column for rival in claim.rivals if rival.slower)
    return claim.kind, claim.winner, claim.first, claim.last, slower


def _join(first: QuestionVerdict, other: QuestionVerdict) -> QuestionVerdict:
    """Two verdicts that say the same, as one for the rank counts of both; both have a ``rest`` or
    neither."""
    return first._replace(
        ranks=first.ranks + other.ranks,
        claims=tuple(map(_join_classes, first.claims, other.claims)),
        rest=first.rest and other.rest and _join_classes(first.rest, other.rest),
    )


def _join_classes(first: SizeBand, other: SizeBand) -> SizeBand:
    """The sizes that two classes of the same winner share, so that the claim holds for both."""
    others = {rival.column: rival for rival in other.rivals}
    rivals = []
    for rival in first.rivals:
        other_rival = others.get(rival.column)
        rivals.append(rival if other_rival is None else rival.joined(other_rival))
    return first._replace(
        from_bytes=max(first.from_bytes, other.from_bytes),
        to_bytes=min(first.to_bytes, other.to_bytes),
        rivals=tuple(rivals),
    )
