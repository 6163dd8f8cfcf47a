"""Steps in measured times that no price takes: a changed algorithm, a lone outlier, congestion.

:func:`cliff_in` describes what breaks the curve of a series; :func:`collapse_in` finds the size
from which on a rate falls and stays lower. Their words:

- step: more time to the next size than any price takes, or less than before;
- lone point: a size out of line with its neighbours, with a step before and behind it;
- lasting step: one without a lone point at either end;
- collapse: a lasting step up, behind which the rate stays lower.
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

# factor by which times must differ to show the shape of a curve
SHAPE = 1.5
# factor beyond the ratio of sizes that no price explains: at most, time grows in proportion to size
TOO_STEEP = 1.3
# factor up to which times may grow at once, however close the sizes are
LEAST_STEP = 2.0
# factor above the curve through its neighbours that a point alone can have, whatever the spacing
ALONE = 2.0
# sizes above the curve through their neighbours that make a series scattered, and their share of a
# long one
MANY = 4
MANY_OF_LONG = 1 / 5

# factor of time per byte that makes a collapse
COLLAPSE = 1.5
# bytes: below, latency hides the rate
LEAST_COLLAPSED = 2.0**20
# a rate that falls on beyond this share is no step but congestion
STEADY = 0.7


def cliff_in(points: Sequence[Point]) -> Statement:
    """What breaks the curve of a series; nothing where it is smooth."""
    steps = steps_in(points)
    if not steps:
        return NOTHING
    over = _over_neighbours(points)
    excess = _scatter(over)
    if excess:
        return statement("scatter", share=max(excess))
    lone = _lone_points(points, steps, over)
    statements = [_out_of_line(points, lone)] if lone else []
    # a step is lasting where neither of its ends is a lone point
    lasting = [step for step in steps if step - 1 not in lone and step not in lone]
    if lasting:
        statements.append(_lasting_step(points, max(lasting, key=steps.__getitem__)))
    return statement("cliffs", found=tuple(statements))


def outliers_in(points: Sequence[Point]) -> Statement:
    """The sizes that are out of line with their neighbours; NOTHING where none is, or where times
    scatter too much to tell."""
    over = _over_neighbours(points)
    lone = _lone_points(points, steps_in(points), over)
    return _out_of_line(points, lone) if lone and not _scatter(over) else NOTHING


def _scatter(over: Sequence[float]) -> list[float]:
    """The excess of sizes over the curve through their neighbours, where that many have one that
    the series is scattered; else empty."""
    # by more than a price is off
    above = [ratio - 1 for ratio in over if ratio > 1 + CLOSE]
    return above if len(above) >= max(MANY, MANY_OF_LONG * len(over)) else []


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


def steps_in(points: Sequence[Point]) -> dict[int, float]:
    """Factors of steps, by the index of the point behind each."""
    factors = {}
    for index, (before, after) in enumerate(pairwise(points), start=1):
        factor = _step_factor(before, after)
        if factor:
            factors[index] = factor
    return factors


def _step_factor(before: Point, after: Point) -> float:
    """The factor by which a step exceeds what any price has; 0 where a price may have it."""
    ratio = after.seconds / before.seconds
    growth = after.bytes / before.bytes
    if ratio < 1 - WITHIN:
        return 1 / ratio
    if ratio > max(TOO_STEEP * growth, LEAST_STEP):
        return ratio / growth
    return 0.0


def _over_neighbours(points: Sequence[Point]) -> list[float]:
    """Each time over the power law through its neighbours; 1 for the first and the last."""
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
    """Indices of single points that break the curve, which is smooth without them.

    Either end of a step may be the lone point. 20, 28, 80, 56 and 80 us at 1 to 16 KB have a step
    from 28 to 80. The curve is smooth without the 80, which is 2.0 times what its neighbours say,
    and as smooth without the 28, which is 0.7 of what its own say: the 80 is further off.
    """
    distance = [abs(log(ratio)) for ratio in over]
    lone = set()
    for step in steps:
        for index, other_end in ((step - 1, step), (step, step - 1)):
            # Where sizes are evenly spaced, a lone point is twice as far off as its neighbours seem
            # to be (on a logarithmic scale), and both ends of a lasting step are equally far off.
            least = log(ALONE)
            if _closes_without(points, other_end):
                least = max(log(TOO_STEEP), SHAPE * distance[other_end])
            if distance[index] >= least and _closes_without(points, index):
                lone.add(index)
    return sorted(lone)


def _closes_without(points: Sequence[Point], index: int) -> bool:
    """Whether the neighbours of a point join as a price may; not for the first and the last."""
    if not 0 < index < len(points) - 1:
        return False
    return not _step_factor(points[index - 1], points[index + 1])


def _at(point: Point) -> Statement:
    """``80 us at 4 KiB``."""
    return statement("time-at-size", seconds=point.seconds, size=point.shown_bytes)


def _lasting_step(points: Sequence[Point], step: int) -> Statement:
    """A lasting step, with the range of sizes that are too slow for what is on its other side."""
    before, after = points[step - 1], points[step]
    if after.seconds > before.seconds:
        slow = _slow_behind(points, step)
        first, last = after, points[step + len(slow) - 1]
    else:
        slow = _slow_before(points, step)
        first, last = points[step - len(slow)], before
    code = "step-over"
    if len(slow) <= 1:
        code = "step-between"
        first, last = before, after
    # several sizes, clearly too slow: another algorithm ran there
    changed = sum(factor >= SHAPE for factor in slow) > 1
    return statement(
        code,
        first=first.shown_bytes,
        last=last.shown_bytes,
        before=_at(before),
        after=_at(after),
        likely=statement("changed-algorithm") if changed else NOTHING,
    )


def _slow_behind(points: Sequence[Point], step: int) -> list[float]:
    """Factors by which a byte takes longer than before a step, of the slow sizes behind it."""
    before = points[step - 1]
    factors = [
        point.seconds / before.seconds / (point.bytes / before.bytes) for point in points[step:]
    ]
    return list(takewhile(lambda factor: factor > TOO_STEEP, factors))


def _slow_before(points: Sequence[Point], step: int) -> list[float]:
    """Factors by which messages take longer than the larger one behind a step, of the slow sizes
    before it, the nearest first."""
    factors = [point.seconds / points[step].seconds for point in reversed(points[:step])]
    return list(takewhile(lambda factor: factor > 1 / (1 - WITHIN), factors))


class Collapse(NamedTuple):
    """A rate that falls: from ``after`` on messages take ``factor`` times as long a byte as at
    ``before``."""

    before: Point
    after: Point
    factor: float


def collapse_in(points: Sequence[Point]) -> Collapse | None:
    """The first size from which on a rate falls and stays lower; None where it keeps up.

    A step below LEAST_COLLAPSED bytes is none, nor one at the largest size, nor one behind which the
    rate goes on falling.
    """
    largest = points[-1]
    for index in sorted(steps_in(points)):
        before, after = points[index - 1], points[index]
        factor = after.seconds / before.seconds * before.bytes / after.bytes
        if after.bytes < LEAST_COLLAPSED or factor < COLLAPSE or after is largest:
            continue
        following = points[index + 1]
        stays = following.seconds / following.bytes > before.seconds / before.bytes
        falls_on = largest.bytes / largest.seconds < STEADY * after.bytes / after.seconds
        if stays and not falls_on:
            return Collapse(before, after, factor)
    return None
