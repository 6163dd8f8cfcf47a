"""What would make a price smaller: each tier's bandwidth doubled, its latencies halved, the launch
halved, one at a time, with the same schedule."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.analysis.inert import SchedulePrice
from colltool.base.errors import ColltoolError
from colltool.estimate.results import Gain, GainKind
from colltool.fabric.model import Fabric
from colltool.fabric.ranges import parameter_ranges
from colltool.fabric.values import Place, with_values

# What the next generation of a part usually brings.
FACTOR = 2


def gains(fabric: Fabric, priced: SchedulePrice) -> tuple[Gain, ...]:
    """The changes that save time, the largest first. None for a user's own algorithm."""
    if priced.row.status == "own":
        return ()
    found = [
        gain
        for gain in (*_by_tier(fabric, priced), _halved_launch(fabric, priced))
        if gain.total_s < float(priced.row.total_s)
    ]
    found.sort(key=attrgetter("total_s"))
    return tuple(found)


def _by_tier(fabric: Fabric, priced: SchedulePrice) -> Iterator[Gain]:
    """What twice the bandwidth of each tier would save, and half its latency."""
    kinds: tuple[GainKind, ...] = ("bandwidth", "alpha")
    for tier in dict.fromkeys(phase.tier for phase in priced.row.phases):
        for kind in kinds:
            try:
                numbers = parameter_ranges(fabric, [f"{tier}.{kind}={FACTOR}x"])
            except ColltoolError:
                continue  # no number of the fabric, or 0
            values: dict[Place, float] = {}
            settings = []
            for number in numbers:
                if kind == "bandwidth":
                    value = number.high
                    text = f"{value / 1e9:.12g}GB/s"
                else:
                    value = number.low
                    text = f"{value * 1e6:.12g}us"
                values[number.place] = value
                settings.append(f"{number.key}={text}")
            total_s = priced.seconds_on(with_values(fabric, values))
            yield Gain(kind, tier, tuple(settings), total_s)


def _halved_launch(fabric: Fabric, priced: SchedulePrice) -> Gain:
    """Where the file states no launch, the library's is halved."""
    launch_s = float(priced.row.overhead_s) / FACTOR
    setting = f"launch_overhead={launch_s * 1e6:.12g}us"
    quicker = with_values(fabric, {("launch_overhead",): launch_s})
    return Gain("launch_overhead", "", (setting,), priced.seconds_on(quicker))
