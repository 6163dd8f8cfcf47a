"""A fabric as it would be if something were wrong, and what series take on it.

A diagnosis needs the same prices again and again, for hundreds of series of the same sizes: each is
worked out once, and found again by the fabric object, the series without its times, and the
algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import lru_cache
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.calibration.series_prices import Priced, price_series
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.same_fabric import SameFabric
from colltool.fabric.variants import scaled_bandwidth, with_tiers, without_in_network
from colltool.logs.series import Point, Series


class Scenario(NamedTuple):
    """What a cause changes: the fabric itself, its times, or what runs on it."""

    fabric: Fabric
    factor: float = 1.0  # on every time
    extra_s: float = 0.0  # added to the time of each call behind the factor
    # the algorithms that run, the first that can; all where none can, or it is empty
    only: tuple[str, ...] = ()
    readings: ModelOptions = ModelOptions()

    def with_tiers_changed(
        self, change: Callable[[Tier], Tier], numbers: Container[int] | None = None
    ) -> Scenario:
        """The scenario with all tiers changed, or those of these numbers, from 0 inside."""
        return self._replace(fabric=with_tiers(self.fabric, change, numbers))

    def times(self, series: Series) -> tuple[float, ...] | None:
        """Seconds at each size of a series; None where nothing runs."""
        # each of ``only`` by itself, in turn; at last all algorithms (), where none of those can run
        # this primitive on this group
        attempts: list[tuple[str, ...]] = [*((name,) for name in self.only), ()]
        for algorithms in attempts:
            priced = prices_of(self.fabric, series, self.readings, algorithms)
            if priced is not None:
                return tuple(quote.seconds * self.factor + self.extra_s for quote in priced.best)
        return None

    def time(self, primitive: Primitive, size: float, ranks: int, library: str) -> float | None:
        """Seconds of one call; None where nothing runs."""
        point = _unmeasured(size)
        times = self.times(Series(primitive, ranks, nodes=None, points=(point,), library=library))
        return None if times is None else times[0]


def _unmeasured(size: float) -> Point:
    """A size without its time, as prices depend on no measured times: any will do, such as 1 s."""
    return Point(size, 1.0, low_s=1.0, high_s=1.0, repeats=1, where="")


def prices_of(
    fabric: Fabric, series: Series, readings: ModelOptions, algorithms: tuple[str, ...]
) -> Priced | None:
    """Prices of a series, by its sizes alone; None where nothing runs."""
    points = tuple(_unmeasured(point.bytes) for point in series.points)
    unmeasured = Series(
        series.primitive, series.ranks, nodes=None, points=points, library=series.library
    )
    return _prices(SameFabric(fabric), unmeasured, readings, algorithms)


@lru_cache(maxsize=4096)
def _prices(
    same: SameFabric, series: Series, readings: ModelOptions, algorithms: tuple[str, ...]
) -> Priced | None:
    """Prices as :func:`prices_of`, of a series without its times."""
    try:
        return price_series(same.fabric, series, readings, algorithms)
    except ColltoolError:
        return None


def with_share(fabric: Fabric, share: float, tiers: frozenset[str]) -> Fabric:
    """The fabric with a share of the bandwidth of these tiers; the same object for the same
    share, since prices are remembered by object."""
    return _with_share(SameFabric(fabric), share, tiers)


@lru_cache(maxsize=1024)
def _with_share(same: SameFabric, share: float, tiers: frozenset[str]) -> Fabric:
    def change(tier: Tier) -> Tier:
        return scaled_bandwidth(tier, share) if tier.name in tiers else tier

    return with_tiers(same.fabric, change)


def without_switch_reduction(fabric: Fabric) -> Fabric:
    """The fabric whose switches reduce nothing; the same object each time, as above."""
    return _without_switch_reduction(SameFabric(fabric))


@lru_cache(maxsize=64)
def _without_switch_reduction(same: SameFabric) -> Fabric:
    return with_tiers(same.fabric, without_in_network)


def forget_prices() -> None:
    """Forget all prices and fabrics, for benchmarks."""
    for remembered in (_prices, _with_share, _without_switch_reduction):
        remembered.cache_clear()
