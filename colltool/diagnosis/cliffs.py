"""Steps in measured times that no price takes: a changed algorithm, a lone outlier, congestion.

:func:`cliff_in` describes what breaks the curve of a series; :func:`collapse_in` finds the size
from which on a rate falls and stays lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile
from math import log
from typing import NamedTuple

from colltool.base.statements import NOTHING, Statement
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.thresholds import CLOSE, WITHIN
from colltool.logs.series import Point

SHAPE = 1.5  # factor by which times must differ to show the shape of a curve
# factor beyond the ratio of sizes that no price explains: at most, time grows in proportion to size
TOO_STEEP = 1.3
# factor above the curve through its neighbours that a point alone can have, whatever the spacing
ALONE = 2.0
# sizes above the curve through their neighbours that make a series scattered, and their share of a
# long one
MANY = 4
MANY_OF_LONG = 1 / 5


def cliff_in(points: Sequence[Point]) -> Statement:
    """What breaks the curve of a series; nothing where it is smooth."""
    steps = breaks(points)
    if not steps:
        return NOTHING
    over = _over_neighbours(points)
    above = [ratio - 1 for ratio in over if ratio > 1 + CLOSE]  # a price is not above
    if len(above) >= max(MANY, MANY_OF_LONG * len(points)):
        return statement("scatter", share=max(above))
    lone = _lone_points(points, steps, over)
    found = [_out_of_line(points, lone)] if lone else []
    lasting = {index: steps[index] for index in steps if not {index - 1, index} & set(lone)}
    if lasting:
        found.append(_lasting_step(points, max(lasting, key=lasting.__getitem__)))
    return statement("cliffs", found=tuple(found))


def outliers_in(points: Sequence[Point]) -> Statement:
    """The sizes that are out of line with their neighbours. Empty where none is, or where times
    scatter too much to tell."""
    if cliff_in(points).code == "scatter":
        return NOTHING
    lone = _lone_points(points, breaks(points), _over_neighbours(points))
    return _out_of_line(points, lone) if lone else NOTHING


def _out_of_line(points: Sequence[Point], lone: Sequence[int]) -> Statement:
    """Lone points, and of a single one its neighbours."""
    if len(lone) > 1:
        return statement(
            "several-out-of-line",
            count=len(lone),
            listed=tuple(_at(points[index]) for index in lone),
        )
    (index,) = lone
    neighbours = [*points[max(index - 1, 0) : index], *points[index + 1 : index + 2]]
    near = tuple(map(_at, neighbours))
    return statement("out-of-line", point=_at(points[index]), neighbours=near)


def breaks(points: Sequence[Point]) -> dict[int, float]:
    """Indices of points behind an unexplainable step, with its factor."""
    found = {}
    for index, (before, after) in enumerate(pairwise(points), start=1):
        factor = _step_factor(before, after)
        if factor:
            found[index] = factor
    return found


def _step_factor(before: Point, after: Point) -> float:
    """The factor by which a step exceeds what any price has; 0 where a price may have it."""
    ratio = after.seconds / before.seconds
    growth = after.bytes / before.bytes
    if ratio < 1 - WITHIN:
        return 1 / ratio
    return ratio / growth if ratio > max(TOO_STEEP * growth, 2) else 0.0


def _over_neighbours(points: Sequence[Point]) -> list[float]:
    """Each time over the power law through its neighbours."""
    # 10, 40 and 20 us at 1, 2 and 4 KB: the power law through the first and the last has 14 us at 2
    # KB, so that 40 us are 2.8 times it
    over = [1.0] * len(points)
    for index in range(1, len(points) - 1):
        before, point, after = points[index - 1 : index + 2]
        weight = log(point.bytes / before.bytes) / log(after.bytes / before.bytes)
        curve = before.seconds ** (1 - weight) * after.seconds**weight
        over[index] = float(point.seconds / curve)
    return over


def _lone_points(
    points: Sequence[Point], steps: dict[int, float], over: Sequence[float]
) -> list[int]:
    """Indices of single points that break the curve. Without them it is smooth, and they are
    further off it than the other end of the step is, or it is not smooth without that other end.

    On a logarithmic scale a lone point is off by twice what its neighbours seem to be where sizes
    are evenly spaced, the two ends of a lasting step by the same.
    """
    far = [abs(log(ratio)) for ratio in over]
    further = set()
    for step in steps:
        for index, other in ((step - 1, step), (step, step - 1)):
            least = max(log(TOO_STEEP), SHAPE * far[other])
            if not _closes_without(points, other):
                least = log(ALONE)
            if far[index] >= least:
                further.add(index)
    return sorted(index for index in further if _closes_without(points, index))


def _closes_without(points: Sequence[Point], index: int) -> bool:
    """Whether the neighbours of a point join as a price may; not for the first and the last."""
    if not 0 < index < len(points) - 1:
        return False
    return not _step_factor(points[index - 1], points[index + 1])


def _at(point: Point) -> Statement:
    return statement("time-at-size", seconds=point.seconds, size=point.shown_bytes)


def _lasting_step(points: Sequence[Point], index: int) -> Statement:
    """A lasting step, with the range of sizes that are too slow for what is on its other side."""
    before, after = points[index - 1], points[index]
    if after.seconds > before.seconds:
        # beyond the step a byte takes longer than before it
        factors = [
            point.seconds / before.seconds / (point.bytes / before.bytes)
            for point in points[index:]
        ]
        slow = list(takewhile(lambda factor: factor > TOO_STEEP, factors))
        first, last = after, points[index + len(slow) - 1]
    else:
        # before the step messages take longer than larger ones behind it
        factors = [point.seconds / after.seconds for point in reversed(points[:index])]
        slow = list(takewhile(lambda factor: factor > 1 / (1 - WITHIN), factors))
        first, last = points[index - len(slow)], before
    code = "step-over"
    if len(slow) <= 1:
        code = "step-between"
        first, last = before, after
    changed = sum(factor >= SHAPE for factor in slow) > 1
    return statement(
        code,
        first=first.shown_bytes,
        last=last.shown_bytes,
        before=_at(before),
        after=_at(after),
        likely=statement("changed-algorithm") if changed else NOTHING,
    )


class Collapse(NamedTuple):
    """A rate that falls: from ``after`` on messages take ``factor`` times as long a byte as at
    ``before``."""

    before: Point
    after: Point
    factor: float


COLLAPSE = 1.5  # factor of time per byte that makes a collapse
LEAST_COLLAPSED = 2.0**20  # bytes: below, latency hides the rate
STEADY = 0.7  # a rate that falls on beyond this is no step but congestion


def collapse_in(points: Sequence[Point]) -> Collapse | None:
    """The first size from which on a rate falls and stays lower. None where it keeps up."""
    for index in sorted(breaks(points)):
        before, after = points[index - 1], points[index]
        factor = after.seconds / before.seconds * before.bytes / after.bytes
        if after.bytes < LEAST_COLLAPSED or factor < COLLAPSE or after is points[-1]:
            continue
        following = points[index + 1]
        lasts = following.seconds / following.bytes > before.seconds / before.bytes
        falling = points[-1].bytes / points[-1].seconds < STEADY * after.bytes / after.seconds
        if lasts and not falling:
            return Collapse(before, after, factor)
    return None
