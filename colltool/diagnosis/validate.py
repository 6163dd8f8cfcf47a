"""``validate``: measured series against a fabric's prices, size by size, and what the difference
says of the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf, isfinite
from operator import attrgetter
from statistics import fmean, median
from typing import NamedTuple

from colltool.algorithms.registry import parse_choice
from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import (
    counted,
    format_time,
    of_rates,
    percent,
    range_text,
    size_text,
)
from colltool.base.primitives import A2A, P2P
from colltool.calibration.series_prices import IN_SWITCH, Priced, Quote, check_fits, price_series
from colltool.diagnosis.cliffs import SHAPE, breaks, cliff_in
from colltool.diagnosis.results import Regime, ValidatedPoint, ValidatedSeries, Validation
from colltool.diagnosis.scenario import prices_of, with_change, with_share
from colltool.diagnosis.sentences import sentence
from colltool.diagnosis.size_classes import LARGE, SMALL, wide
from colltool.diagnosis.thresholds import CLOSE, WITHIN
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even
from colltool.fabric.variants import without_in_network
from colltool.logs.series import Measurements, Series


def validate(
    fabric: Fabric,
    measurements: Measurements,
    *,
    max_mape: float | None = None,
    readings: ModelOptions | None = None,
    algorithms: Sequence[str] = (),
) -> Validation:
    """Hold every measured size against the fastest price among what the library may have chosen."""
    if max_mape is not None and not (isfinite(max_mape) and max_mape > 0):
        raise ColltoolError(
            f"must be a positive share, got {max_mape}",
            argument="max_mape",
            fix=f"write {either(shell='15% or 0.15', python='0.15')}",
        )
    if not measurements.series:
        raise _nothing_measured(measurements)
    check_even(fabric)
    reading = readings or ModelOptions()
    names = tuple(algorithms)
    judged = tuple(_judged(fabric, series, reading, names) for series in measurements.series)
    return Validation(
        fabric.name,
        judged,
        mape(_pooled(judged)),
        verdict(judged),
        measurements.skipped,
        max_mape,
        overrides=fabric.overrides,
        readings=reading,
    )


def _nothing_measured(measurements: Measurements) -> ColltoolError:
    what = "nothing to validate: the logs hold no usable series"
    fix = "measure again, and give the whole output of the benchmark"
    for rows in measurements.skipped:
        if not rows.used:
            what += f": {rows.reason}, {counted(rows.rows, 'row')}"
            return ColltoolError(what, where=rows.where, fix=fix)
    return ColltoolError(what, fix=fix)


def mape(points: Sequence[ValidatedPoint]) -> float:
    """Mean absolute error, as a fraction."""
    return fmean(map(_error, points))


def _judged(
    fabric: Fabric, series: Series, readings: ModelOptions, algorithms: tuple[str, ...]
) -> ValidatedSeries:
    placed = check_fits(fabric, series)
    priced = prices_of(fabric, series, readings, algorithms)
    if priced is None:
        # again, for the error that names this series
        priced = price_series(fabric, series, readings, algorithms)
    points = tuple(_judged_points(series, priced))
    # neighbouring sizes of one bound are one regime
    regimes = []
    for bound, run in groupby(points, key=attrgetter("bound")):
        same = list(run)
        regimes.append(Regime(bound, same[0].bytes, same[-1].bytes, mape(same)))
    case = SeriesContext(
        fabric, placed, series, readings, algorithms, priced=priced, checked=points
    )
    return ValidatedSeries(
        series,
        points,
        mape(points),
        max(map(attrgetter("relative_error"), points), key=abs),
        tuple(regimes),
        findings(case),
    )


def _judged_points(series: Series, priced: Priced) -> Iterator[ValidatedPoint]:
    for index, point in enumerate(series.points):
        best = priced.best[index]
        near = priced.nearest(index, point.seconds)
        yield ValidatedPoint(
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


TRUSTED = 0.10  # mean error of prices worth planning with
FEWEST = 3  # points that make a mean worth reporting
STRAY = 0.25  # error of single sizes that are named although the rest can be trusted


class Trust(NamedTuple):
    """The sizes whose prices can be trusted, in words and in bytes."""

    said: str
    least: float = 0.0
    below: float = inf

    def among(self, points: Sequence[ValidatedPoint]) -> list[ValidatedPoint]:
        return [point for point in points if self.least <= point.bytes < self.below]


def verdict(judged: Sequence[ValidatedSeries]) -> str:
    """``12% off on average over 84 sizes; trust it from 1 MiB on (4%), not below (25%)``, and
    exceptions."""
    # the mean is over all sizes of all series, and the exceptions are single series or sizes
    points = _pooled(judged)
    off = sentence("mean-error", error=_percent(points), sizes=counted(len(points), "size"))
    if len({point.bytes for point in points}) < FEWEST:
        return f"{off}; {sentence('too-few-sizes')}"
    trust = _trust(points)
    good = [series for series in judged if _good(series.points)]
    if trust is None and 2 * len(good) >= len(judged) > 1:
        # most series are good: those that are not become exceptions
        trust = _trust(_pooled(good))
    if trust is None:
        trust = Trust(sentence("trust-nowhere", share=TRUSTED), least=inf)
    exceptions = []
    for series in judged if len(judged) > 1 else ():
        mine = trust.among(series.points)
        if mine and not _good(mine):
            exceptions.append(f"{_named(series.series, judged)} ({_percent(mine)})")
    exceptions = exceptions or _strays(trust.among(points))
    said = f"{off}; {trust.said}"
    return f"{said}, but for {', '.join(exceptions)}" if exceptions else said


def _pooled(judged: Sequence[ValidatedSeries]) -> list[ValidatedPoint]:
    """The points of all series, by size."""
    points: list[ValidatedPoint] = []
    for series in judged:
        points += series.points
    return sorted(points, key=attrgetter("bytes"))


def _trust(points: list[ValidatedPoint]) -> Trust | None:
    """Where the mean error is small: everywhere, or on one side of the size where it changes most;
    None for nowhere. A side counts as bad only if most of its sizes are off."""
    below, above = _parted(points)
    if below and _good(below) != _good(above):
        change = above[0].bytes
        sides = {"size": change, "below": _percent(below), "above": _percent(above)}
        if _good(above) and _mostly_off(below):
            return Trust(sentence("trust-above", **sides), least=change)
        if _good(below) and _mostly_off(above):
            return Trust(sentence("trust-below", **sides), below=change)
    others = [point for point in points if _error(point) <= STRAY]
    few_strays = not _mostly_off(points) and _good(others) and bool(_strays(points))
    return Trust(sentence("trust")) if _good(points) or few_strays else None


def _strays(points: Sequence[ValidatedPoint]) -> list[str]:
    """Ranges of sizes that are far off; none where they are too many to be named."""
    named = []
    for far, run in groupby(points, key=lambda point: _error(point) > STRAY):
        if far:
            sizes = list(run)
            named.append(f"{range_text(sizes[0].bytes, sizes[-1].bytes)} ({_percent(sizes)})")
    return named if len(named) < FEWEST else []


def _named(series: Series, among: Sequence[ValidatedSeries]) -> str:
    """A series as the verdict names it, apart from others of its primitive and ranks."""
    # the type and the nodes are named only where they tell series apart
    kind = (series.primitive, series.ranks)
    alike = sum((other.series.primitive, other.series.ranks) == kind for other in among)
    name = series.primitive.label
    if series.dtype and alike > 1:
        name += f" of {series.dtype}"
    name += f" on {series.ranks} ranks"
    if series.nodes and alike > 1:
        name += f" on {counted(series.nodes, 'node')}"
    return name


def _parted(points: list[ValidatedPoint]) -> tuple[list[ValidatedPoint], list[ValidatedPoint]]:
    """Points split at the size that minimises the scatter of errors within the two parts; empty if
    too few."""
    middle = range(FEWEST, len(points) - FEWEST + 1)
    cuts = [i for i in middle if points[i].bytes > points[i - 1].bytes]
    if not cuts:
        return [], []
    errors = [min(_error(point), 1.0) for point in points]  # capped: one outlier is no regime
    below = _scatters(errors)
    above = _scatters(errors[::-1])
    cut = min(cuts, key=lambda i: below[i] + above[len(points) - i])
    return points[:cut], points[cut:]


def _scatters(values: Sequence[float]) -> list[float]:
    """Sums of squared deviations from the mean of the first 0, 1, 2 ... values (Welford 1962)."""
    mean = 0.0
    found = [0.0]
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


# share of the price below which a large message is faster than the fabric allows
FASTER = 0.8
# ratio of floors, and spread of repeats over their median, that are reported
FLOOR_APART, SPREAD = 1.25, 0.20
CURVE = 3  # neighbouring sizes that make a curve
# iterations towards the bandwidth share that explains a time, and their tolerance
TRIES, EXACT = 8, 0.01


class SeriesContext(NamedTuple):
    """A series, its prices and points; ``algorithms`` as the user restricts them."""

    fabric: Fabric
    placed: PlacedGroup
    series: Series
    readings: ModelOptions
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
    def last(self) -> ValidatedPoint:
        return self.checked[-1]

    @property
    def small(self) -> tuple[ValidatedPoint, ...]:
        """The sizes below the first one that bandwidth bounds."""
        for index, point in enumerate(self.checked):
            if point.bound == "bandwidth":
                return self.checked[:index]
        return self.checked

    @property
    def too_fast(self) -> bool:
        return bool(self.large) and self.last.measured_s < FASTER * self.last.predicted_s

    @property
    def who(self) -> str:
        return " or ".join(self.algorithms) or "this fabric"

    def slower(self, index: int) -> bool:
        return self.checked[index].measured_s > (1 + WITHIN) * self.checked[index].predicted_s

    def off(self, quotes: Sequence[Quote], index: int) -> float:
        return abs(quotes[index].seconds / self.checked[index].measured_s - 1)

    def worst_large(self, quotes: Sequence[Quote]) -> float:
        return max(self.off(quotes, index) for index in self.large)

    def prices_on(self, fabric: Fabric, algorithms: tuple[str, ...] | None = None) -> Priced | None:
        """Prices on a changed fabric, of the same algorithms or of some of them."""
        names = self.algorithms if algorithms is None else algorithms
        return prices_of(fabric, self.series, self.readings, names)

    def scaled(self, share: float, tiers: frozenset[str]) -> Priced | None:
        """Prices if these tiers had a share of their bandwidth."""
        return self.prices_on(with_share(self.fabric, share, tiers))


def findings(case: SeriesContext) -> tuple[str, ...]:
    """All that hold, most important first. A tie between causes (``rails``) is reported instead of
    any single one."""
    found = [faster(case) if case.too_fast else reach(case)]
    alike = rails(case)
    found += [alike] if alike else [in_network(case), algorithm(case)]
    found += [cliff_in(case.series.points), floor(case), spread(case)]
    return tuple(filter(None, found))


def reach(case: SeriesContext) -> str | None:
    """The share of expected busbw that the largest message reaches; if all of it, from which size
    on."""
    if not case.large:
        return None
    got = case.last.busbw_measured_Bps
    due = case.last.busbw_expected_Bps
    facts = {"who": case.who, "size": case.last.bytes, "rates": of_rates(got, due)}
    if abs(got / due - 1) > CLOSE:
        return sentence("reaches-share", share=_share(got, due), **facts)
    said = sentence("reaches", **facts)
    short = [case.checked[i] for i in case.wide if case.checked[i].relative_error < -CLOSE]
    if not short:
        return said
    worst = min(short, key=attrgetter("relative_error"))
    first = next(point for point in case.checked if point.bytes > short[-1].bytes)
    share = _share(worst.busbw_measured_Bps, worst.busbw_expected_Bps)
    return said + sentence("reaches-late", first=first.bytes, share=share, worst=worst.bytes)


def _share(got: float, due: float) -> str:
    return percent(got / due, 0 if got >= 0.1 * due else 2)


def faster(case: SeriesContext) -> str:
    """The rate of a largest message that is faster than its price, and what may be wrong."""
    spans = case.placed.spans
    tier = spans[-1].tier
    got = case.last.busbw_measured_Bps
    port_Bps = tier.bandwidth * tier.ports
    said = sentence(
        "faster", who=case.who, got=got, size=case.last.bytes, due=case.last.busbw_expected_Bps
    )
    single = len(spans) == 1 and capabilities_of(tier).joined_by == "switches"
    if single and got > port_Bps:
        said += sentence("faster-port", rate=port_Bps)
    if case.algorithms:
        return f"{said}; {sentence('faster-algorithm')}"
    said = f"{said}; {sentence('faster-fabric')}"
    # no switch reduces what is only passed on
    if case.series.primitive not in (A2A, P2P) and not _in_switch(case.last.spec):
        said += sentence("faster-switch")
    return said


def rails(case: SeriesContext) -> str | None:
    """Large messages match fewer of a host's NICs, and what else explains them as well; only even
    shares of the NICs are tried."""
    spans = case.placed.spans
    if len(spans) < 2 or not case.large or not all(map(case.slower, case.large)):
        return None
    if _on_cliff(case):
        return None
    nics = spans[1].ranks_inside
    outer = frozenset(span.tier.name for span in spans[1:])
    off: dict[int, float] = {}
    for used in range(1, nics):
        priced = case.scaled(used / nics, outer) if nics % used == 0 else None
        if priced is None:
            continue
        # the library may switch algorithms or not
        usual = priced.by_title.get(case.last.algorithm, priced.best)
        error = min(case.worst_large(priced.best), case.worst_large(usual))
        if error <= (WITHIN if used == 1 else CLOSE):
            off[used] = error
    if not off:
        return None
    used = min(off, key=off.__getitem__)
    # what else explains the same times: slower inner links, or another algorithm
    causes = [sentence("few-rails" if used > 1 else "one-rail", used=used, nics=nics)]
    causes += _inner(case)
    for title, quotes in case.priced.by_title.items():
        if case.worst_large(quotes) <= CLOSE:
            causes.append(title)
    share = _share(case.last.predicted_s / case.last.measured_s, 1)
    said = sentence("share-of-bandwidth", share=share, causes=", or ".join(causes))
    if len(causes) > 1:
        said += f": {sentence('not-told-apart')}"
    return said


def _on_cliff(case: SeriesContext) -> bool:
    """Whether the last step of large messages is among the largest, or slows them down."""
    points = case.series.points
    steps = [step for step in breaks(points) if step in case.wide]
    if not steps:
        return False
    last = steps[-1]
    return last in case.large or points[last].seconds > points[last - 1].seconds


def _inner(case: SeriesContext) -> list[str]:
    """The share of the innermost tier's bandwidth that explains large messages."""
    tier = case.placed.spans[0].tier.name
    share = case.last.predicted_s / case.last.measured_s
    off = inf
    # as other tiers take their part of the time, it is not just the share that arrives
    for _ in range(TRIES):
        priced = case.scaled(share, frozenset({tier}))
        if priced is None:
            return []
        off = case.worst_large(priced.best)
        over = priced.best[-1].seconds / case.last.measured_s
        if abs(over - 1) < EXACT:
            break
        share *= over
    if off > CLOSE:
        return []
    return [sentence("inner-share", tier=tier, share=_share(share, 1))]


def in_network(case: SeriesContext) -> str | None:
    """Large messages match a price without in-switch reduction."""
    if not case.large or not _in_switch(case.last.spec) or not case.slower(case.large[-1]):
        return None
    named = tuple(name for name in case.algorithms if not _in_switch(name))
    if case.algorithms and not named:
        return None
    without = case.prices_on(with_change(case.fabric, without_in_network), named)
    if without is None or case.worst_large(without.best) > WITHIN:
        return None
    return sentence("without-switch", algorithm=without.best[-1].algorithm)


def _in_switch(spec: str) -> bool:
    choice = parse_choice(spec)
    return IN_SWITCH in (choice.base, *choice.tiers)


def algorithm(case: SeriesContext) -> str | None:
    """Neighbouring sizes match one algorithm where another should win."""
    runs = {title: _run_of(case, quotes) for title, quotes in case.priced.by_title.items()}
    title, run = max(runs.items(), key=lambda found: len(found[1]))
    times = [point.measured_s for point in run]
    if len(run) < CURVE or max(times) < SHAPE * min(times):  # any price can match a flat stretch
        return None
    winners = " or ".join(dict.fromkeys(point.algorithm for point in run))
    first, last = run[0].bytes, run[-1].bytes
    return sentence("other-algorithm", first=first, last=last, title=title, winners=winners)


def _run_of(case: SeriesContext, quotes: Sequence[Quote]) -> list[ValidatedPoint]:
    """The longest stretch of slow sizes that an algorithm explains although it should lose."""
    longest: list[ValidatedPoint] = []
    run: list[ValidatedPoint] = []
    for index, point in enumerate(case.checked):
        loses = quotes[index].seconds > (1 + WITHIN) * point.predicted_s
        if loses and case.slower(index) and case.off(quotes, index) <= CLOSE:
            run.append(point)
        else:
            run = []
        longest = max(longest, run[:], key=len)
    return longest


def floor(case: SeriesContext) -> str | None:
    """What bounds small messages, and how far the measured floor is from the price's."""
    if not case.small:
        return None
    bounds = Counter(map(attrgetter("bound"), case.small))
    bound, _ = bounds.most_common(1)[0]
    where = "at every size"
    if len(case.small) < len(case.checked):
        where = f"below {size_text(case.checked[len(case.small)].bytes)}"
    smallest = case.small[:SMALL]
    took = median(map(attrgetter("measured_s"), smallest))
    due = median(map(attrgetter("predicted_s"), smallest))
    said = sentence(f"floor-{bound}", where=where, took=took, due=due)
    if max(took, due) <= FLOOR_APART * min(took, due):
        return said
    # launches, hops or another algorithm: small messages alone cannot tell
    code = "floor-more" if took > due else "floor-less"
    return said + sentence(code, apart=format_time(abs(took - due), 3))


def spread(case: SeriesContext) -> str | None:
    """How far repeats of a size differ."""
    points = case.series.points
    apart = [(point.high_s - point.low_s) / point.seconds for point in points]
    widest = max(apart)
    if widest <= SPREAD:
        return None
    said = sentence("repeats-differ", share=widest, size=points[apart.index(widest)].bytes)
    many = sum(share > SPREAD for share in apart)
    if many > 1:
        said += sentence("repeats-differ-more", share=SPREAD, count=many)
    return said
