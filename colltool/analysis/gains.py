"""What would make a price smaller: each tier's bandwidth doubled, its latencies halved, the launch
halved (:data:`NEXT_GENERATION`), one at a time, with the same schedule. :func:`gains` is the entry."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from colltool.analysis.inert import SchedulePrice
from colltool.base.errors import ColltoolError
from colltool.estimate.results import Gain, GainKind
from colltool.fabric.model import Fabric
from colltool.fabric.ranges import parameter_ranges
from colltool.fabric.values import Place, with_values

# What the next generation of a part usually brings: a factor on bandwidths, a divisor of latencies.
NEXT_GENERATION = 2


def gains(fabric: Fabric, priced: SchedulePrice) -> tuple[Gain, ...]:
    """The changes that save time, the largest first. Empty for a user's own algorithm."""
    if priced.row.status == "own":
        return ()
    total_s = float(priced.row.total_s)
    tried = list(_by_tier(fabric, priced))
    tried.append(_halved_launch(fabric, priced))
    saving = [gain for gain in tried if gain.total_s < total_s]
    saving.sort(key=attrgetter("total_s"))
    return tuple(saving)


def _by_tier(fabric: Fabric, priced: SchedulePrice) -> Iterator[Gain]:
    """What twice the bandwidth of each tier would save, and half its latency."""
    kinds: tuple[GainKind, ...] = ("bandwidth", "alpha")
    for tier in dict.fromkeys(phase.tier for phase in priced.row.phases):
        for kind in kinds:
            try:
                # read as --range reads it, 2 times lower to 2 times higher: "leaf.alpha=2x" gives
                # every latency of the tier
                numbers = parameter_ranges(fabric, [f"{tier}.{kind}={NEXT_GENERATION}x"])
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
    """What half the launch would save, of the file or else of the library."""
    launch_s = float(priced.row.overhead_s) / NEXT_GENERATION
    setting = f"launch_overhead={launch_s * 1e6:.12g}us"
    quicker = with_values(fabric, {("launch_overhead",): launch_s})
    seconds = priced.seconds_on(quicker)
    return Gain("launch_overhead", "", (setting,), seconds)
