"""Steps in measured times that no price takes: falling with size, or rising faster than size."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise, takewhile
from math import log

from colltool.base.formatting import format_time, percent, size_text
from colltool.diagnosis.thresholds import CLOSE, WITHIN
from colltool.measurements.series import Point

SHAPE = 1.5  # factor by which times must differ to say anything
TOO_STEEP = 1.3  # factor beyond the ratio of sizes that no price explains
MANY = 4  # sizes above the curve through their neighbours that make a series scattered; a fifth of a long one


def cliff_in(points: Sequence[Point]) -> str | None:
    """Times that no price can explain, in words."""
    steps = breaks(points)
    if not steps:
        return None
    above = [off - 1 for i in range(len(points)) if (off := _off_neighbours(points, i)) > 1 + CLOSE]  # a price is not above
    if len(above) >= max(MANY, len(points) / 5):
        return f"the times scatter by up to {percent(max(above), 0)}: measure again"
    single = _out_of_line(points, steps)
    rest = {at: factor for at, factor in steps.items() if not single & {at - 1, at}}
    said = [_singles(points, sorted(single))] if single else []
    return "; ".join([*said, _run(points, max(rest, key=lambda at: rest[at]))] if rest else said)


def breaks(points: Sequence[Point]) -> dict[int, float]:
    """Indices of points behind an unexplainable step, with its factor."""
    return {at: factor for at, pair in enumerate(pairwise(points), start=1) if (factor := _broken(*pair))}


def _off_neighbours(points: Sequence[Point], i: int) -> float:
    """A time over the power law through its neighbours; 1 at either end."""
    if not 0 < i < len(points) - 1:
        return 1.0
    before, point, after = points[i - 1 : i + 2]
    weight = log(point.bytes / before.bytes) / log(after.bytes / before.bytes)
    return float(point.seconds / (before.seconds ** (1 - weight) * after.seconds**weight))


def _out_of_line(points: Sequence[Point], steps: Collection[int]) -> set[int]:
    """Lone points that break the curve: it closes without them, and they are further off than what is beside the step. In logs a
    lone point is off by twice what its neighbours seem to be, the two ends of a lasting step by the same."""
    off = [abs(log(_off_neighbours(points, i))) for i in range(len(points))]
    ends = [ends for at in steps for ends in ((at - 1, at), (at, at - 1))]
    further = {i for i, other in ends if off[i] >= max(log(TOO_STEEP), SHAPE * off[other])}
    return {i for i in further if not _broken(points[i - 1], points[i + 1])}


def _singles(points: Sequence[Point], single: Sequence[int]) -> str:
    listed = ", ".join(_at(points[i]) for i in single)
    if len(single) > 1:
        return f"{len(single)} sizes are out of line: {listed}"
    beside = " and ".join(_at(points[i]) for i in (single[0] - 1, single[0] + 1) if 0 <= i < len(points))
    return f"one size is out of line: {listed}, beside {beside}"


def _at(point: Point) -> str:
    return f"{format_time(point.seconds, 3)} at {size_text(point.bytes)}"


def _run(points: Sequence[Point], at: int) -> str:
    """A lasting step, and the neighbouring sizes that are too slow for what is on its other side."""
    before, after = points[at - 1], points[at]
    if after.seconds > before.seconds:
        factors = [one.seconds / before.seconds / (one.bytes / before.bytes) for one in points[at:]]
        slow = list(takewhile(lambda factor: factor > TOO_STEEP, factors))
        ends = after, points[at + len(slow) - 1]
    else:
        factors = [one.seconds / after.seconds for one in reversed(points[:at])]
        slow = list(takewhile(lambda factor: factor > 1 / (1 - WITHIN), factors))
        ends = points[at - len(slow)], before
    words, ends = ("from {} to {}", ends) if len(slow) > 1 else ("between {} and {}", (before, after))
    place = words.format(*(size_text(end.bytes) for end in ends))
    said = f"no alpha-beta curve {place}: {_at(before)}, {_at(after)}"
    if sum(factor >= SHAPE for factor in slow) < 2:
        return said
    return f"{said}, as when a library changes protocol or algorithm"


def _broken(before: Point, after: Point) -> float:
    ratio, growth = after.seconds / before.seconds, after.bytes / before.bytes
    if ratio < 1 - WITHIN:
        return 1 / ratio
    return ratio / growth if ratio > max(TOO_STEEP * growth, 2) else 0.0
