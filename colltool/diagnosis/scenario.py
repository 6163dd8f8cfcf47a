"""A fabric as it would be if a cause were true, and what measured series would take on it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.calibration.series_prices import price_series
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import SameFabric
from colltool.fabric.model import Fabric
from colltool.measurements.series import Point, Series


class Scenario(NamedTuple):
    """What a cause changes: the fabric, a ``factor`` on every time, ``extra_s`` per call, or the ``only`` algorithms that run
    (any, for a primitive that has none of them)."""

    fabric: Fabric
    factor: float = 1.0
    extra_s: float = 0.0
    only: tuple[str, ...] = ()
    readings: Readings = Readings()

    def times(self, series: Series) -> tuple[float, ...] | None:
        """Seconds at each size of a series; None where nothing runs."""
        key = (series.primitive, series.ranks, series.nodes, series.library, tuple(point.bytes for point in series.points))
        found = _priced(SameFabric(self.fabric), self.only, self.readings, key)
        return found and tuple(one * self.factor + self.extra_s for one in found)

    def time(self, primitive: Primitive, size: float, ranks: int, library: str) -> float | None:
        one = Series(primitive, ranks, None, (Point(size, 1.0, 1.0, 1.0, 1, ""),), library)
        found = self.times(one)
        return None if found is None else found[0]


_Key = tuple[Primitive, int, int | None, str, tuple[float, ...]]


@lru_cache(maxsize=4096)
def _priced(same: SameFabric, only: tuple[str, ...], readings: Readings, key: _Key) -> tuple[float, ...] | None:
    primitive, ranks, nodes, library, sizes = key
    points = tuple(Point(size, 1.0, 1.0, 1.0, 1, "") for size in sizes)
    series = Series(primitive, ranks, nodes, points, library)
    for name in (*((one,) for one in only), ()):
        try:
            return tuple(quote.seconds for quote in price_series(same.fabric, series, readings, name).best)
        except ColltoolError:
            continue  # no algorithm of this primitive, or of this group
    return None
