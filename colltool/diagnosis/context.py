"""A series with its prices, as findings look at it: which points speak for large and small, and what other prices would be."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.calibration.series_prices import Priced, Quote, price_series
from colltool.diagnosis.results import ValidatedPoint
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.variants import with_tiers
from colltool.measurements.series import Series

WITHIN = 0.15
"""Relative error up to which a price explains a time, and beyond which it does not."""

CLOSE = 0.10
"""The same where several prices are candidates for one time."""

LARGE = 3
"""How many of the largest sizes speak for all that bandwidth bounds."""


class SeriesContext(NamedTuple):
    """A series, its prices and each of its points beside them; ``algorithms`` as the user restricts them."""

    fabric: Fabric
    placed: PlacedGroup
    series: Series
    readings: Readings
    algorithms: tuple[str, ...]
    priced: Priced
    checked: tuple[ValidatedPoint, ...]

    @property
    def wide(self) -> range:
        """The indices of the largest points that bandwidth bounds, up to the last."""
        count = len(self.checked)
        return range(next((i for i in reversed(range(count)) if self.checked[i].bound != "bandwidth"), -1) + 1, count)

    @property
    def large(self) -> range:
        """The last few of these, which speak for them."""
        return self.wide[-LARGE:]

    @property
    def small(self) -> range:
        """The indices of the points below the first that bandwidth bounds."""
        return range(next((i for i, point in enumerate(self.checked) if point.bound == "bandwidth"), len(self.checked)))

    @property
    def who(self) -> str:
        """Whose prices these are, as a subject."""
        return " or ".join(self.algorithms) or "this fabric"

    def slower(self, index: int) -> bool:
        """Whether a point takes longer than its price explains."""
        return self.checked[index].measured_s > (1 + WITHIN) * self.checked[index].predicted_s

    def off(self, quotes: Sequence[Quote], index: int) -> float:
        """How far a quote is from the time of a point, a fraction of that."""
        return abs(quotes[index].seconds / self.checked[index].measured_s - 1)

    def worst_large(self, quotes: Sequence[Quote]) -> float:
        """How far quotes are at most from the times of the large points."""
        return max(self.off(quotes, index) for index in self.large)

    def repriced(self, change: Callable[[Tier], Tier]) -> Priced | None:
        """The quotes on a fabric of changed tiers; None where nothing of these algorithms runs there."""
        try:
            return price_series(with_tiers(self.fabric, change), self.series, self.readings, self.algorithms)
        except ColltoolError:
            return None
