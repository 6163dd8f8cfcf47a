"""``validate``: measured series against a fabric's prices, size by size, and what the difference
says of the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from math import inf, isfinite
from statistics import fmean, median
from typing import NamedTuple

from colltool.algorithms.registry import parse_choice
from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import (
    counted,
    format_rate,
    format_time,
    of_rates,
    percent,
    range_text,
    size_text,
    whole_percent,
)
from colltool.base.primitives import A2A, P2P
from colltool.calibration.series_prices import IN_SWITCH, Priced, Quote, check_fits, price_series
from colltool.diagnosis.results import Regime, ValidatedPoint, ValidatedSeries, Validation
from colltool.diagnosis.thresholds import CLOSE, LARGE, SHAPE, WITHIN, breaks, cliff_in, wide
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.fabric.variants import scaled_bandwidth, with_tiers, without_in_network
from colltool.logs.series import Measurements, Series


def validate(
    fabric: Fabric,
    measurements: Measurements,
    *,
    max_mape: float | None = None,
    readings: Readings | None = None,
    algorithms: Sequence[str] = (),
) -> Validation:
    """Hold every measured size against the fastest price among what the library may have chosen."""
    if max_mape is not None and not (isfinite(max_mape) and max_mape > 0):
        fix = f"write {either(shell='15% or 0.15', python='0.15')}"
        raise ColltoolError(
            f"must be a positive share, got {max_mape}", argument="max_mape", fix=fix
        )
    if not measurements.series:
        first = next((one for one in measurements.skipped if not one.used), None)
        what = "nothing to validate: the logs hold no usable series"
        fix = "measure again, and give the whole output of the benchmark"
        if first is None:
            raise ColltoolError(what, fix=fix)
        raise ColltoolError(
            f"{what}: {first.reason}, {counted(first.rows, 'row')}", where=first.where, fix=fix
        )
    check_even(fabric)
    reading = readings or Readings()
    judged = tuple(
        _judged(fabric, series, reading, tuple(algorithms)) for series in measurements.series
    )
    points = [point for one in judged for point in one.points]
    said, skipped = verdict(judged), measurements.skipped
    return Validation(
        fabric.name,
        judged,
        mape(points),
        said,
        skipped,
        max_mape,
        overrides=fabric.overrides,
        readings=reading,
    )


def mape(points: Sequence[ValidatedPoint]) -> float:
    return fmean(map(_error, points))


def _judged(
    fabric: Fabric, series: Series, readings: Readings, algorithms: tuple[str, ...]
) -> ValidatedSeries:
    placed = check_fits(fabric, series)
    priced, checked = price_series(fabric, series, readings, algorithms), []
    for index, point in enumerate(series.points):
        best, near = priced.best[index], priced.nearest(index, point.seconds)
        judged = ValidatedPoint(
            bytes=point.bytes,
            measured_s=point.seconds,
            predicted_s=best.seconds,
            relative_error=best.seconds / point.seconds - 1,
            algorithm=best.algorithm,
            protocol=best.protocol,
            busbw_measured_Bps=series.busbw_Bps(point),
            busbw_expected_Bps=series.busbw_Bps(point, best.seconds),
            bound=best.bound,
            nearest=near.algorithm,
            nearest_error=near.seconds / point.seconds - 1,
            spec=best.spec,
            nearest_spec=near.spec,
        )
        checked.append(judged)
    worst = max((point.relative_error for point in checked), key=abs)
    grouped = [list(same) for _, same in groupby(checked, key=lambda point: point.bound)]
    regimes = tuple(
        Regime(same[0].bound, same[0].bytes, same[-1].bytes, mape(same)) for same in grouped
    )
    said = findings(
        SeriesContext(fabric, placed, series, readings, algorithms, priced, checked=tuple(checked))
    )
    return ValidatedSeries(series, tuple(checked), mape(checked), worst, regimes, said)


TRUSTED = 0.10  # mean error of prices worth planning with
FEWEST = 3  # points that make a mean worth reporting
STRAY = 0.25  # error of single sizes that are named although the rest can be trusted
_NOWHERE = f"on no range of sizes within {whole_percent(TRUSTED)}"
Trusted = Callable[[ValidatedPoint], bool]


def verdict(judged: Sequence[ValidatedSeries]) -> str:
    """``12% off on average over 84 sizes; trust it from 1 MiB on (4%), not below (25%)``, and
    exceptions."""
    points = _pooled(judged)
    off = f"{_percent(points)} off on average over {counted(len(points), 'size')}"
    if len({point.bytes for point in points}) < FEWEST:
        return f"{off}; too few sizes to judge"
    good = [one for one in judged if _good(one.points)]
    said, trusted = (
        _trust(points)
        or (2 * len(good) >= len(judged) > 1 and _trust(_pooled(good)))
        or (_NOWHERE, lambda _: False)
    )
    inside = [
        (one.series, [point for point in one.points if trusted(point)])
        for one in judged
        if len(judged) > 1
    ]
    apart = [
        f"{_named(series, judged)} ({_percent(mine)})"
        for series, mine in inside
        if mine and not _good(mine)
    ]
    apart = apart or _strays([point for point in points if trusted(point)])
    return f"{off}; {said}{', but for ' if apart else ''}{', '.join(apart)}"


def _pooled(judged: Sequence[ValidatedSeries]) -> list[ValidatedPoint]:
    return sorted((point for one in judged for point in one.points), key=lambda point: point.bytes)


def _trust(points: list[ValidatedPoint]) -> tuple[str, Trusted] | None:
    """Where the mean error is small: everywhere, or on one side of the size where it changes most;
    None for nowhere. A side counts as bad only if most of its sizes are off."""
    below, from_on = _parted(points)
    if below and _good(below) != _good(from_on) and _mostly_off(from_on if _good(below) else below):
        change, left, right = from_on[0].bytes, _percent(below), _percent(from_on)
        if _good(from_on):
            return (
                f"trust it from {size_text(change)} on ({right}), not below ({left})",
                lambda point: point.bytes >= change,
            )
        return (
            f"trust it below {size_text(change)} ({left}), not from there on ({right})",
            lambda point: point.bytes < change,
        )
    others = [point for point in points if _error(point) <= STRAY]
    if _good(points) or (not _mostly_off(points) and _good(others) and _strays(points)):
        return "trust it", lambda _: True
    return None


def _strays(points: Sequence[ValidatedPoint]) -> list[str]:
    runs = [
        list(run) for far, run in groupby(points, key=lambda point: _error(point) > STRAY) if far
    ]
    named = [f"{range_text(run[0].bytes, run[-1].bytes)} ({_percent(run)})" for run in runs]
    return named if len(named) < FEWEST else []


def _named(series: Series, among: Sequence[ValidatedSeries]) -> str:
    alike = (
        sum(
            (one.series.primitive, one.series.ranks) == (series.primitive, series.ranks)
            for one in among
        )
        > 1
    )
    what = f" of {series.dtype}" if series.dtype and alike else ""
    where = f" on {counted(series.nodes, 'node')}" if series.nodes and alike else ""
    return f"{series.primitive.spoken}{what} on {series.ranks} ranks{where}"


def _parted(points: list[ValidatedPoint]) -> tuple[list[ValidatedPoint], list[ValidatedPoint]]:
    """Points split at the size that minimises the scatter of errors within the two parts; empty if
    too few."""
    cuts = [
        i for i in range(FEWEST, len(points) - FEWEST + 1) if points[i].bytes > points[i - 1].bytes
    ]
    if not cuts:
        return [], []
    errors = [min(_error(point), 1.0) for point in points]  # capped: one outlier is no regime
    below, above = _scatters(errors), _scatters(errors[::-1])
    cut = min(cuts, key=lambda i: below[i] + above[len(points) - i])
    return points[:cut], points[cut:]


def _scatters(values: Sequence[float]) -> list[float]:
    """Sums of squared deviations from the mean of the first 0, 1, 2 ... values (Welford 1962)."""
    mean, found = 0.0, [0.0]
    for count, value in enumerate(values, start=1):
        apart = value - mean
        mean += apart / count
        found.append(found[-1] + apart * (value - mean))
    return found


def _error(point: ValidatedPoint) -> float:
    return abs(point.relative_error)


def _mostly_off(points: Sequence[ValidatedPoint]) -> bool:
    return median(map(_error, points)) > TRUSTED


def _good(points: Sequence[ValidatedPoint]) -> bool:
    return mape(points) <= TRUSTED


def _percent(points: Sequence[ValidatedPoint]) -> str:
    mean = mape(points)
    return percent(mean, 1 if mean < 0.0995 else 0)


SMALL = 5  # smallest sizes that make up the floor
FASTER = 0.8  # share of the price below which a large message is faster than the fabric allows
# ratio of floors, and spread of repeats over their median, that are reported
FLOOR_APART, SPREAD = 1.25, 0.20
_BOUNDS = {"overhead": "launch overhead", "latency": "latency", "software": "software time"}
CURVE = 3  # neighbouring sizes that make a curve
# iterations towards the bandwidth share that explains a time, and their tolerance
TRIES, EXACT = 8, 0.01


def findings(case: SeriesContext) -> tuple[str, ...]:
    """All that hold, most important first. A tie between causes (``rails``) is reported instead of
    any single one."""
    alike = rails(case)
    causes = (alike,) if alike else (in_network(case), algorithm(case))
    found = (
        faster(case) if case.too_fast else reach(case),
        *causes,
        cliff_in(case.series.points),
        floor(case),
        spread(case),
    )
    return tuple(filter(None, found))


def reach(case: SeriesContext) -> str | None:
    """The share of expected busbw that the largest message reaches; if all of it, from which size
    on."""
    if not case.large:
        return None
    last = case.checked[-1]
    got, due, size = last.busbw_measured_Bps, last.busbw_expected_Bps, size_text(last.bytes)
    if abs(got / due - 1) > CLOSE:
        return (
            f"reaches {_share(got, due)} of the busbw predicted for {case.who} at {size}"
            f" ({of_rates(got, due)})"
        )
    short = [case.checked[i] for i in case.wide if case.checked[i].relative_error < -CLOSE]
    said = f"reaches the busbw predicted for {case.who}: {of_rates(got, due)} at {size}"
    if not short:
        return said
    worst = min(short, key=lambda point: point.relative_error)
    first = next(point for point in case.checked if point.bytes > short[-1].bytes)
    reached = _share(worst.busbw_measured_Bps, worst.busbw_expected_Bps)
    return (
        f"{said}, but only from {size_text(first.bytes)} on: {reached} of it at"
        f" {size_text(worst.bytes)}"
    )


def _share(got: float, due: float) -> str:
    return percent(got / due, 0 if got >= 0.1 * due else 2)


def faster(case: SeriesContext) -> str:
    last, tier = case.checked[-1], case.placed.spans[-1].tier
    got, due, rate = (
        format_rate(last.busbw_measured_Bps, 3),
        format_rate(last.busbw_expected_Bps, 3),
        tier.bandwidth * tier.ports,
    )
    single = len(case.placed.spans) == 1 and capabilities_of(tier).joined_by == "switches"
    port = f" on a {format_rate(rate, 3)} port" if single and last.busbw_measured_Bps > rate else ""
    said = (
        f"faster than {case.who} allows: {got} busbw at {size_text(last.bytes)}, predicted"
        f" {due}{port}"
    )
    if case.algorithms:
        return f"{said}; another algorithm ran, or the fabric file understates bandwidth"
    in_switch = case.series.primitive not in (A2A, P2P) and not _in_switch(last.spec)
    return (
        f"{said}; the fabric file understates"
        f" bandwidth{', or the library reduces in the switch' if in_switch else ''}"
    )


def rails(case: SeriesContext) -> str | None:
    """Large messages match fewer of a host's NICs, and what else explains them as well; only even
    shares of the NICs are tried."""
    spans, points = case.placed.spans, case.series.points
    if len(spans) < 2 or not case.large or not all(map(case.slower, case.large)):
        return None
    steps = [at for at in breaks(points) if at in case.wide]
    # on a cliff
    if steps and (
        steps[-1] in case.large or points[steps[-1]].seconds > points[steps[-1] - 1].seconds
    ):
        return None
    nics, outer, off = (
        spans[1].ranks_inside,
        {span.tier.name for span in spans[1:]},
        dict[int, float](),
    )
    for rail in (rail for rail in range(1, nics) if nics % rail == 0):
        # the library may switch algorithms or not
        if (priced := case.scaled(rail / nics, outer)) is not None:
            usual = priced.by_title.get(case.checked[-1].algorithm, priced.best)
            off[rail] = min(case.worst_large(priced.best), case.worst_large(usual))
    fits = [rail for rail in off if off[rail] <= (WITHIN if rail == 1 else CLOSE)]
    if not fits:
        return None
    used = min(fits, key=lambda rail: off[rail])
    fitting = [
        title for title, quotes in case.priced.by_title.items() if case.worst_large(quotes) <= CLOSE
    ]
    causes = [
        f"what {used} of {nics} rails {'carries' if used == 1 else 'carry'}",
        *_inner(case),
        *fitting,
    ]
    share = case.checked[-1].predicted_s / case.checked[-1].measured_s
    said = (
        f"large messages get {_share(share, 1)} of the expected bandwidth, about"
        f" {', or '.join(causes)}"
    )
    return f"{said}: the measurements cannot tell them apart" if len(causes) > 1 else said


def _inner(case: SeriesContext) -> list[str]:
    tier, last = case.placed.spans[0].tier, case.checked[-1]
    share, off = last.predicted_s / last.measured_s, inf
    # as other tiers take their part of the time, it is not just the share that arrives
    for _ in range(TRIES):
        priced = case.scaled(share, {tier.name})
        if priced is None:
            return []
        off, over = case.worst_large(priced.best), priced.best[-1].seconds / last.measured_s
        if abs(over - 1) < EXACT:
            break
        share *= over
    return [f"{tier.name} at {_share(share, 1)} of its bandwidth"] if off <= CLOSE else []


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
    return (
        f"matches {without.best[-1].algorithm} without in-network reduction (NVLS, SHARP): is it"
        " off?"
    )


def _in_switch(spec: str) -> bool:
    choice = parse_choice(spec)
    return IN_SWITCH in (choice.base, *choice.tiers)


def algorithm(case: SeriesContext) -> str | None:
    """Neighbouring sizes match one algorithm where another should win."""
    runs = {}
    for title, quotes in case.priced.by_title.items():
        slow = [
            quotes[i].seconds > (1 + WITHIN) * point.predicted_s
            for i, point in enumerate(case.checked)
        ]
        fits = [
            case.slower(i) and slow[i] and case.off(quotes, i) <= CLOSE for i in range(len(slow))
        ]
        stretches = [
            list(run) for fit, run in groupby(range(len(fits)), key=fits.__getitem__) if fit
        ]
        runs[title] = [case.checked[i] for i in max(stretches, key=len, default=[])]
    title, run = max(runs.items(), key=lambda one: len(one[1]))
    times = [point.measured_s for point in run]
    if len(run) < CURVE or max(times) < SHAPE * min(times):  # any price can match a flat stretch
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
    where = (
        f"below {size_text(case.checked[upto].bytes)}"
        if upto < len(case.checked)
        else "at every size"
    )
    floor_points = case.checked[: min(upto, SMALL)]
    took, due = (
        median(both)
        for both in zip(*((one.measured_s, one.predicted_s) for one in floor_points), strict=True)
    )
    times = f"small messages take {format_time(took, 3)}, {format_time(due, 3)} predicted"
    said = f"{where} {cause} dominates the prediction; {times}"
    apart = format_time(abs(took - due), 3)
    if max(took, due) <= FLOOR_APART * min(took, due):
        return said
    more = (
        "more launch overhead, a higher alpha"
        if took > due
        else "less launch overhead, a lower alpha"
    )
    return f"{said}: about {apart} {more}, or another algorithm"


def spread(case: SeriesContext) -> str | None:
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
        return self.wide[-LARGE:]

    @property
    def small(self) -> range:
        return range(
            next(
                (i for i, point in enumerate(self.checked) if point.bound == "bandwidth"),
                len(self.checked),
            )
        )

    @property
    def too_fast(self) -> bool:
        return (
            bool(self.large) and self.checked[-1].measured_s < FASTER * self.checked[-1].predicted_s
        )

    @property
    def who(self) -> str:
        return " or ".join(self.algorithms) or "this fabric"

    def slower(self, index: int) -> bool:
        return self.checked[index].measured_s > (1 + WITHIN) * self.checked[index].predicted_s

    def off(self, quotes: Sequence[Quote], index: int) -> float:
        return abs(quotes[index].seconds / self.checked[index].measured_s - 1)

    def worst_large(self, quotes: Sequence[Quote]) -> float:
        return max(self.off(quotes, index) for index in self.large)

    def scaled(self, share: float, names: Collection[str]) -> Priced | None:
        """Quotes if these tiers had a share of their bandwidth."""
        return self.repriced(
            lambda tier: scaled_bandwidth(tier, share) if tier.name in names else tier
        )

    def repriced(self, change: Callable[[Tier], Tier]) -> Priced | None:
        try:
            return price_series(
                with_tiers(self.fabric, change), self.series, self.readings, self.algorithms
            )
        except ColltoolError:
            return None
