"""What a series says about its machine, in sentences; each is tested by pricing. A finding is a function from a
:class:`SeriesContext` to a sentence, or None where the numbers do not support it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from math import inf
from statistics import median
from typing import NamedTuple

from colltool.algorithms.registry import parse_choice
from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_rate, format_time, of_rates, percent, size_text, whole_percent
from colltool.base.primitives import A2A, P2P
from colltool.calibration.candidates import IN_SWITCH
from colltool.calibration.series_prices import Priced, Quote, price_series
from colltool.diagnosis.results import ValidatedPoint
from colltool.diagnosis.thresholds import CLOSE, LARGE, SHAPE, WITHIN, breaks, cliff_in, wide
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import scaled_bandwidth, with_tiers, without_in_network
from colltool.measurements.series import Series

SMALL = 5  # smallest sizes that make up the floor
FASTER = 0.8  # share of the price below which a large message is faster than the fabric allows
FLOOR_APART, SPREAD = 1.25, 0.20  # ratio of floors, and spread of repeats over their median, that are reported
_BOUNDS = {"overhead": "launch overhead", "latency": "latency", "software": "software time"}
FEWEST = 3  # neighbouring sizes that make a curve
TRIES, EXACT = 8, 0.01  # iterations towards the bandwidth share that explains a time, and their tolerance


def findings(case: SeriesContext) -> tuple[str, ...]:
    """All that hold, most important first. A tie between causes (``rails``) is reported instead of any single one."""
    alike = rails(case)
    causes = (alike,) if alike else (in_network(case), algorithm(case))
    found = (faster(case) if case.too_fast else reach(case), *causes, cliff_in(case.series.points), floor(case), spread(case))
    return tuple(filter(None, found))


def reach(case: SeriesContext) -> str | None:
    """The share of expected busbw that the largest message reaches; if all of it, from which size on."""
    if not case.large:
        return None
    last = case.checked[-1]
    got, due, size = last.busbw_measured_Bps, last.busbw_expected_Bps, size_text(last.bytes)
    if abs(got / due - 1) > CLOSE:
        return f"reaches {_share(got, due)} of the busbw predicted for {case.who} at {size} ({of_rates(got, due)})"
    short = [case.checked[i] for i in case.wide if case.checked[i].relative_error < -CLOSE]
    said = f"reaches the busbw predicted for {case.who}: {of_rates(got, due)} at {size}"
    if not short:
        return said
    worst = min(short, key=lambda point: point.relative_error)
    first = next(point for point in case.checked if point.bytes > short[-1].bytes)
    reached = _share(worst.busbw_measured_Bps, worst.busbw_expected_Bps)
    return f"{said}, but only from {size_text(first.bytes)} on: {reached} of it at {size_text(worst.bytes)}"


def _share(got: float, due: float) -> str:
    return percent(got / due, 0 if got >= 0.1 * due else 2)


def faster(case: SeriesContext) -> str:
    """A large message beats the price."""
    last, tier = case.checked[-1], case.placed.spans[-1].tier
    got, due, rate = format_rate(last.busbw_measured_Bps, 3), format_rate(last.busbw_expected_Bps, 3), tier.bandwidth * tier.ports
    single = len(case.placed.spans) == 1 and capabilities_of(tier).joined_by == "switches"
    port = f" on a {format_rate(rate, 3)} port" if single and last.busbw_measured_Bps > rate else ""
    said = f"faster than {case.who} allows: {got} busbw at {size_text(last.bytes)}, predicted {due}{port}"
    if case.algorithms:
        return f"{said}; another algorithm ran, or the fabric file understates bandwidth"
    in_switch = case.series.primitive not in (A2A, P2P) and not _in_switch(last.spec)
    return f"{said}; the fabric file understates bandwidth{', or the library reduces in the switch' if in_switch else ''}"


def rails(case: SeriesContext) -> str | None:
    """Large messages match fewer of a host's NICs, and what else explains them as well; only even shares of the NICs are
    tried."""
    spans, points = case.placed.spans, case.series.points
    if len(spans) < 2 or not case.large or not all(map(case.slower, case.large)):
        return None
    steps = [at for at in breaks(points) if at in case.wide]
    if steps and (steps[-1] in case.large or points[steps[-1]].seconds > points[steps[-1] - 1].seconds):  # on a cliff
        return None
    nics = spans[1].ranks_inside
    off = {rail: _off_over_share(case, rail / nics) for rail in range(1, nics) if nics % rail == 0}
    fits = [rail for rail in off if off[rail] <= (WITHIN if rail == 1 else CLOSE)]
    if not fits:
        return None
    used = min(fits, key=lambda rail: off[rail])
    fitting = [title for title, quotes in case.priced.by_title.items() if case.worst_large(quotes) <= CLOSE]
    causes = [f"what {used} of {nics} rails {'carries' if used == 1 else 'carry'}", *_inner(case), *fitting]
    share = case.checked[-1].predicted_s / case.checked[-1].measured_s
    said = f"large messages get {_share(share, 1)} of the expected bandwidth, about {', or '.join(causes)}"
    return f"{said}: the measurements cannot tell them apart" if len(causes) > 1 else said


def _inner(case: SeriesContext) -> list[str]:
    tier, last = case.placed.spans[0].tier, case.checked[-1]
    share, off = last.predicted_s / last.measured_s, inf
    for _ in range(TRIES):  # as other tiers take their part of the time, it is not just the share that arrives
        priced = case.scaled(share, {tier.name})
        if priced is None:
            return []
        off, over = case.worst_large(priced.best), priced.best[-1].seconds / last.measured_s
        if abs(over - 1) < EXACT:
            break
        share *= over
    return [f"{tier.name} at {_share(share, 1)} of its bandwidth"] if off <= CLOSE else []


def _off_over_share(case: SeriesContext, share: float) -> float:
    """Error of large messages if outer tiers had a share of their bandwidth; the library may switch algorithms or not."""
    priced = case.scaled(share, {span.tier.name for span in case.placed.spans[1:]})
    if priced is None:
        return inf
    usual = priced.by_title.get(case.checked[-1].algorithm, priced.best)
    return min(case.worst_large(priced.best), case.worst_large(usual))


def in_network(case: SeriesContext) -> str | None:
    """Large messages match a price without in-switch reduction."""
    if not case.large or not _in_switch(case.checked[-1].spec) or not case.slower(case.large[-1]):
        return None
    named = tuple(name for name in case.algorithms if not _in_switch(name))
    if case.algorithms and not named:
        return None
    without = case._replace(algorithms=named).repriced(without_in_network)
    if without is None or case.worst_large(without.best) > WITHIN:
        return None
    return f"matches {without.best[-1].algorithm} without in-network reduction (NVLS, SHARP): is it off?"


def _in_switch(spec: str) -> bool:
    choice = parse_choice(spec)
    return IN_SWITCH in (choice.base, *choice.tiers)


def algorithm(case: SeriesContext) -> str | None:
    """Neighbouring sizes match one algorithm where another should win."""
    runs = {}
    for title, quotes in case.priced.by_title.items():
        fits = [
            case.slower(i) and quotes[i].seconds > (1 + WITHIN) * point.predicted_s and case.off(quotes, i) <= CLOSE
            for i, point in enumerate(case.checked)
        ]
        stretches = [list(run) for fit, run in groupby(range(len(fits)), key=fits.__getitem__) if fit]
        runs[title] = [case.checked[i] for i in max(stretches, key=len, default=[])]
    title, run = max(runs.items(), key=lambda one: len(one[1]))
    times = [point.measured_s for point in run]
    if len(run) < FEWEST or max(times) < SHAPE * min(times):  # any price can match a flat stretch
        return None
    winners = " or ".join(dict.fromkeys(point.algorithm for point in run))
    first, last = size_text(run[0].bytes), size_text(run[-1].bytes)
    return f"from {first} to {last} the times match {title}, although {winners} should win"


def floor(case: SeriesContext) -> str | None:
    """What bounds small messages, and how far the measured floor is from the price's."""
    if not case.small:
        return None
    bounds = Counter(case.checked[i].bound for i in case.small)
    cause = _BOUNDS[bounds.most_common(1)[0][0]]
    upto = len(case.small)
    where = f"below {size_text(case.checked[upto].bytes)}" if upto < len(case.checked) else "at every size"
    floor_points = case.checked[: min(upto, SMALL)]
    took, due = (median(both) for both in zip(*((one.measured_s, one.predicted_s) for one in floor_points), strict=True))
    times = f"small messages take {format_time(took, 3)}, {format_time(due, 3)} predicted"
    said = f"{where} {cause} dominates the prediction; {times}"
    apart = format_time(abs(took - due), 3)
    if max(took, due) <= FLOOR_APART * min(took, due):
        return said
    more = "more launch overhead, a higher alpha" if took > due else "less launch overhead, a lower alpha"
    return f"{said}: about {apart} {more}, or another algorithm"


def spread(case: SeriesContext) -> str | None:
    """Repeats of one size that are far apart."""
    apart = [(point.high_s - point.low_s) / point.seconds for point in case.series.points]
    if (widest := max(apart)) <= SPREAD:
        return None
    many = sum(one > SPREAD for one in apart)
    others = f", by more than {whole_percent(SPREAD)} at {many} sizes" if many > 1 else ""
    at = size_text(case.series.points[apart.index(widest)].bytes)
    return f"repeats differ by up to {percent(widest, 0)} at {at}{others}"


class SeriesContext(NamedTuple):
    """A series, its prices and points; ``algorithms`` as the user restricts them."""

    fabric: Fabric
    placed: PlacedGroup
    series: Series
    readings: Readings
    algorithms: tuple[str, ...]
    priced: Priced
    checked: tuple[ValidatedPoint, ...]

    @property
    def wide(self) -> range:
        return wide(self.checked)

    @property
    def large(self) -> range:
        """The last few of ``wide``."""
        return self.wide[-LARGE:]

    @property
    def small(self) -> range:
        """Indices of the points below the first bandwidth-bound one."""
        return range(next((i for i, point in enumerate(self.checked) if point.bound == "bandwidth"), len(self.checked)))

    @property
    def too_fast(self) -> bool:
        return bool(self.large) and self.checked[-1].measured_s < FASTER * self.checked[-1].predicted_s

    @property
    def who(self) -> str:
        return " or ".join(self.algorithms) or "this fabric"

    def slower(self, index: int) -> bool:
        return self.checked[index].measured_s > (1 + WITHIN) * self.checked[index].predicted_s

    def off(self, quotes: Sequence[Quote], index: int) -> float:
        """Relative distance of a quote from the measured time."""
        return abs(quotes[index].seconds / self.checked[index].measured_s - 1)

    def worst_large(self, quotes: Sequence[Quote]) -> float:
        return max(self.off(quotes, index) for index in self.large)

    def scaled(self, share: float, names: Collection[str]) -> Priced | None:
        """Quotes if these tiers had a share of their bandwidth."""
        return self.repriced(lambda tier: scaled_bandwidth(tier, share) if tier.name in names else tier)

    def repriced(self, change: Callable[[Tier], Tier]) -> Priced | None:
        """Quotes on a fabric of changed tiers; None where none of the algorithms runs there."""
        try:
            return price_series(with_tiers(self.fabric, change), self.series, self.readings, self.algorithms)
        except ColltoolError:
            return None
