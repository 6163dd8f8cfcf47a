"""What share of the price healthy machines reach, the bars of ``doctor`` and ``trace``; steps in
times that no price takes."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile
from math import log
from statistics import fmean, median
from typing import Literal, NamedTuple

from colltool.base.formatting import format_time, percent, size_text
from colltool.base.primitives import A2A, P2P, Primitive
from colltool.calibration.series_prices import MOST_IN_A_HOST
from colltool.diagnosis.results import ValidatedPoint, ValidatedSeries
from colltool.logs.series import Point, Series, log_library

# on whole hosts: healthy nodes of eight reach 85 to 107% of the prices of their bundled fabric
EXPECT = 0.80
FEW, EXPECT_FEW, EXPECT_PART = 4, 0.55, 0.75
"""On fewer ranks than FEW, and on part of a host: healthy machines reach 56 to 85%, and 80 to 100%.
NCCL 2.27 to 2.29 on 2 and 4 GPUs of NVSwitch nodes (A100, H100, B200), ai-dynamo/aiconfigurator."""

# a message between hosts takes few channels: 54 to 95% of a NIC on 2 and 10 healthy hosts of H100
# (xxrjun)
EXPECT_P2P = 0.5
# the bar of small messages is lower: launch and hops vary more between healthy hosts than rates do
SLACK = 0.20
FASTER = 1.2  # share of the price of large messages above which the machine is not the fabric


def threshold_of(primitive: Primitive, ranks: int, whole: int, *, across: bool) -> float:
    """The share of the expected rate that large messages of a healthy machine reach; ``whole``:
    ranks of a host."""
    if ranks < FEW:
        return EXPECT_FEW
    if across and primitive is P2P:
        return EXPECT_P2P
    return EXPECT if across or ranks >= min(whole, MOST_IN_A_HOST) else EXPECT_PART


def of_few(ranks: int) -> str:
    what = "healthy nodes also reach only 55-85% of the price on so few; measure all GPUs of a host"
    return f"{ranks} ranks: {what}" if ranks < FEW else ""


CLOSE = 0.10  # relative error up to which one of several prices explains a time
LARGE = 3  # largest sizes that represent the bandwidth-bound ones
WITHIN, WITHIN_ACROSS = 0.15, 0.30
"""Mean relative error up to which a cause's prices explain times; the second for small messages
between hosts, which depend on NICs and proxies that no log names."""

PLATEAU = 16  # sizes down to 1/16 of the largest represent the rate
SMALL = 5  # smallest sizes that represent the time of a call; fewer than three say nothing


class SizeClass(NamedTuple):
    """Large or small messages of series ``at``: the indices ``focus`` represent them, ``trusted``
    are all whose prices a healthy machine meets. ``share``: median of the expected rate;
    ``within``: error up to which prices explain them; ``low``: below the bar."""

    at: int
    size: Literal["large", "small"]
    focus: tuple[int, ...]
    trusted: tuple[int, ...]
    share: float
    within: float
    low: bool


def across_hosts(series: Series) -> bool:
    return (series.nodes or 1) > 1 or series.ranks > MOST_IN_A_HOST


def small_bar(series: Series, bar: float, *, alone: bool) -> float:
    """The share that small messages of a healthy machine reach; ``alone``: they are slow where
    large ones are not, and nobody says that the fabric is this machine.

    Old versions launch slowly (NCCL 2.10 on A100, microsoft/superbenchmark: 41%), and NICs that no
    log names differ (EFA).
    """
    usual = max(bar - SLACK, 0.0)
    if alone and across_hosts(series):
        return min(usual, SMALL_UNKNOWN_NICS)
    return min(usual, SMALL_OLD) if alone and _older(series.library) else usual


SMALL_OLD, SMALL_UNKNOWN_NICS, FIRST_QUICK = 0.35, 0.25, (2, 12)
_VERSION = re.compile(r"\b(\d{1,2})\.(\d{1,3})")


def _older(library: str) -> bool:
    """Whether it may be; logs without a version are mostly old."""
    found = _VERSION.search(library)
    return found is None or (int(found[1]), int(found[2])) < FIRST_QUICK


def size_classes(
    series: Sequence[ValidatedSeries],
    bars: Sequence[float],
    launch_s: float,
    *,
    assumed: bool = False,
) -> tuple[SizeClass, ...]:
    """The size classes of all series, large messages first; ``launch_s`` is the fabric's launch
    overhead; ``assumed``: nobody says that the fabric is this machine.

    No small all-to-alls: these depend on how the library gathers (NCCL_PXN_DISABLE) and posts
    messages, healthy machines reach 40 to 160%. Nor MPI's small messages, which launch no kernels,
    nor any without a launch overhead.
    """
    large, small = [], []
    for at, (one, bar) in enumerate(zip(series, bars, strict=True)):
        points, many = one.points, len(one.points)
        told = (
            one.series.primitive is not A2A
            and log_library(one.series.library).launches_kernels
            and launch_s > 0
        )
        trusted = tuple(
            index for index, point in enumerate(points) if told or point.bound == "bandwidth"
        )
        if plateau := tuple(
            at for at in wide(points) if points[at].bytes * PLATEAU >= points[-1].bytes
        )[-LARGE:]:
            share = median(points[index].of_expected for index in plateau)
            large.append(SizeClass(at, "large", plateau, trusted, share, WITHIN, low=share < bar))
        if (
            told
            and (
                end := next(
                    (index for index in range(many) if points[index].bound == "bandwidth"), many
                )
            )
            > 2
        ):
            floor = tuple(range(min(end, SMALL)))
            share = median(points[index].of_expected for index in floor)
            slow = bool(large and large[-1].at == at and large[-1].low)
            least = small_bar(one.series, bar, alone=assumed and not slow)
            within = WITHIN_ACROSS if across_hosts(one.series) else WITHIN
            small.append(SizeClass(at, "small", floor, trusted, share, within, low=share < least))
    return (*large, *small)


def wide(points: Sequence[ValidatedPoint]) -> range:
    count = len(points)
    return range(
        next((i for i in reversed(range(count)) if points[i].bound != "bandwidth"), -1) + 1, count
    )


def off(measured: Sequence[float], priced: Sequence[float], focus: Iterable[int]) -> float:
    """Mean distance of prices from times, by log ratio: 0.1 is about 10% either way."""
    return fmean(abs(log(priced[index] / measured[index])) for index in focus)


SHAPE = 1.5  # factor by which times must differ to say anything
TOO_STEEP = 1.3  # factor beyond the ratio of sizes that no price explains
# sizes above the curve through their neighbours that make a series scattered; a fifth of a long one
MANY = 4


def cliff_in(points: Sequence[Point]) -> str | None:
    steps = breaks(points)
    if not steps:
        return None
    over = [1.0] * len(points)  # a time over the power law through its neighbours
    for i in range(1, len(points) - 1):
        before, point, after = points[i - 1 : i + 2]
        weight = log(point.bytes / before.bytes) / log(after.bytes / before.bytes)
        over[i] = float(point.seconds / (before.seconds ** (1 - weight) * after.seconds**weight))
    above = [one - 1 for one in over if one > 1 + CLOSE]  # a price is not above
    if len(above) >= max(MANY, len(points) / 5):
        return f"the times scatter by up to {percent(max(above), 0)}: measure again"
    # Lone points that break the curve: it closes without them, and they are further off than what
    # is beside the step. In logs a lone point is off by twice what its neighbours seem to be, the
    # two ends of a lasting step by the same.
    far = [abs(log(one)) for one in over]
    ends = [ends for at in steps for ends in ((at - 1, at), (at, at - 1))]
    further = {i for i, other in ends if far[i] >= max(log(TOO_STEEP), SHAPE * far[other])}
    single = sorted(i for i in further if not _broken(points[i - 1], points[i + 1]))
    listed, said = ", ".join(_at(points[i]) for i in single), []
    if len(single) > 1:
        said.append(f"{len(single)} sizes are out of line: {listed}")
    elif single:
        beside = " and ".join(
            _at(points[i]) for i in (single[0] - 1, single[0] + 1) if 0 <= i < len(points)
        )
        said.append(f"one size is out of line: {listed}, beside {beside}")
    rest = {at: factor for at, factor in steps.items() if not {*single} & {at - 1, at}}
    return "; ".join([*said, _run(points, max(rest, key=rest.__getitem__))] if rest else said)


class Collapse(NamedTuple):
    """From ``after`` on messages take ``factor`` times as long a byte as at ``before``."""

    before: Point
    after: Point
    factor: float

    @property
    def said(self) -> str:
        first, last = size_text(self.after.bytes), size_text(self.before.bytes)
        return f"from {first} on a byte takes {self.factor:.1f}x as long as at {last}: {_COLLAPSE}"


_COLLAPSE = "the library changes algorithm or protocol there, or long messages congest the network"
COLLAPSE, LEAST_COLLAPSED = 1.5, 2.0**20
STEADY = 0.7  # a rate that falls on beyond this is no step but congestion


def collapse_in(points: Sequence[Point]) -> Collapse | None:
    """The first size from which on a rate falls and stays lower."""
    for at in sorted(breaks(points)):
        before, after = points[at - 1], points[at]
        factor = after.seconds / before.seconds * before.bytes / after.bytes
        lasts = any(
            one.seconds / one.bytes > before.seconds / before.bytes
            for one in points[at + 1 : at + 2]
        )
        falling = points[-1].bytes / points[-1].seconds < STEADY * after.bytes / after.seconds
        if after.bytes >= LEAST_COLLAPSED and lasts and not falling and factor >= COLLAPSE:
            return Collapse(before, after, factor)
    return None


def breaks(points: Sequence[Point]) -> dict[int, float]:
    """Indices of points behind an unexplainable step, with its factor."""
    return {
        at: factor
        for at, pair in enumerate(pairwise(points), start=1)
        if (factor := _broken(*pair))
    }


def _at(point: Point) -> str:
    return f"{format_time(point.seconds, 3)} at {size_text(point.bytes)}"


def _run(points: Sequence[Point], at: int) -> str:
    """A lasting step, and the neighbouring sizes that are too slow for what is on its other
    side."""
    before, after = points[at - 1], points[at]
    if after.seconds > before.seconds:
        factors = [one.seconds / before.seconds / (one.bytes / before.bytes) for one in points[at:]]
        slow = list(takewhile(lambda factor: factor > TOO_STEEP, factors))
        ends = after, points[at + len(slow) - 1]
    else:
        factors = [one.seconds / after.seconds for one in reversed(points[:at])]
        slow = list(takewhile(lambda factor: factor > 1 / (1 - WITHIN), factors))
        ends = points[at - len(slow)], before
    words, ends = (
        ("from {} to {}", ends) if len(slow) > 1 else ("between {} and {}", (before, after))
    )
    place = words.format(*(size_text(end.bytes) for end in ends))
    said = f"no alpha-beta curve {place}: {_at(before)}, {_at(after)}"
    changed = sum(factor >= SHAPE for factor in slow) > 1
    return f"{said}, as when a library changes protocol or algorithm" if changed else said


def _broken(before: Point, after: Point) -> float:
    ratio, growth = after.seconds / before.seconds, after.bytes / before.bytes
    if ratio < 1 - WITHIN:
        return 1 / ratio
    return ratio / growth if ratio > max(TOO_STEEP * growth, 2) else 0.0
