"""What the difference between measured times and their prices says of one series.

:func:`findings` tries each kind of finding in turn: the share of the expected busbw that is
reached, fewer NICs or slower links, a switch that does not reduce, another algorithm, steps in the
curve, the time of small messages, and repeats that differ. Each is a statement, or nothing where
the numbers do not support it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from colltool.algorithms.registry import parse_choice
from colltool.base.primitives import A2A, P2P
from colltool.base.statements import NOTHING, Statement
from colltool.calibration.series_prices import IN_SWITCH, Priced, Quote
from colltool.diagnosis.cliffs import SHAPE, cliff_in, steps_in
from colltool.diagnosis.results import ValidatedPoint
from colltool.diagnosis.scenario import prices_of, with_share, without_switch_reduction
from colltool.diagnosis.sentences import statement
from colltool.diagnosis.size_classes import LARGE, SMALL, bandwidth_bound_sizes
from colltool.diagnosis.thresholds import CLOSE, WITHIN
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.logs.series import Series

# share of the price below which a large message is faster than the fabric allows: further off than
# prices of an uncalibrated fabric are (ACCURACY in causes.py)
TOO_FAST = 0.8
# time of small messages over its price, or the reverse, from which on the difference is reported
FLOOR_RATIO = 1.25
SPREAD = 0.20  # range of repeats of a size over their median that is reported
CURVE = 3  # neighbouring sizes that make a curve
# iterations towards the share of bandwidth that explains a time, and the relative error that ends
# them
SHARE_STEPS = 8
SHARE_TOLERANCE = 0.01


class SeriesContext(NamedTuple):
    """A series with its prices and its points, one per size. ``algorithms`` are those that the user
    allows; empty for any."""

    fabric: Fabric
    placed: PlacedGroup
    series: Series
    readings: ModelOptions
    algorithms: tuple[str, ...]
    priced: Priced
    points: tuple[ValidatedPoint, ...]

    @property
    def bandwidth_bound(self) -> range:
        """Indices of the sizes from which on bandwidth takes most of every price."""
        return bandwidth_bound_sizes(self.points)

    @property
    def large(self) -> range:
        """Indices of the largest sizes, as far as bandwidth bounds them."""
        return self.bandwidth_bound[-LARGE:]

    @property
    def last(self) -> ValidatedPoint:
        return self.points[-1]

    @property
    def small(self) -> tuple[ValidatedPoint, ...]:
        """The sizes below the first one that bandwidth bounds."""
        for index, point in enumerate(self.points):
            if point.bound == "bandwidth":
                return self.points[:index]
        return self.points

    @property
    def too_fast(self) -> bool:
        return bool(self.large) and self.last.measured_s < TOO_FAST * self.last.predicted_s

    @property
    def who(self) -> Statement:
        """What the busbw is predicted for: the algorithms that the user named, or the fabric."""
        if self.algorithms:
            return statement("algorithms", names=self.algorithms)
        return statement("this-fabric")

    def slower(self, index: int) -> bool:
        """Whether a size takes clearly longer than its price."""
        return self.points[index].measured_s > (1 + WITHIN) * self.points[index].predicted_s

    def error(self, quotes: Sequence[Quote], index: int) -> float:
        """Relative error of a price, of either sign."""
        return abs(quotes[index].seconds / self.points[index].measured_s - 1)

    def worst_large(self, quotes: Sequence[Quote]) -> float:
        """The largest relative error of prices on the large sizes."""
        return max(self.error(quotes, index) for index in self.large)

    def prices_on(self, fabric: Fabric, algorithms: tuple[str, ...] | None = None) -> Priced | None:
        """Prices on a changed fabric, of the same algorithms or of some of them."""
        names = self.algorithms if algorithms is None else algorithms
        return prices_of(fabric, self.series, self.readings, names)

    def scaled(self, share: float, tiers: frozenset[str]) -> Priced | None:
        """Prices if these tiers had a share of their bandwidth."""
        return self.prices_on(with_share(self.fabric, share, tiers))


def findings(context: SeriesContext) -> tuple[Statement, ...]:
    """All findings that hold, most important first.

    Where fewer rails and something else explain the times equally well, that tie is reported
    instead of any single cause.
    """
    found = [_faster_than_price(context) if context.too_fast else _share_reached(context)]
    fewer_rails = _fewer_rails(context)
    found += [fewer_rails] if fewer_rails else [_without_switch(context), _other_algorithm(context)]
    found += [
        cliff_in(context.series.points),
        _small_message_floor(context),
        _spread_of_repeats(context),
    ]
    return tuple(filter(None, found))


def _share_reached(context: SeriesContext) -> Statement:
    """The share of expected busbw that the largest message reaches; if all of it, from which size
    on."""
    if not context.large:
        return NOTHING
    got = context.last.busbw_measured_Bps
    due = context.last.busbw_expected_Bps
    share = got / due
    facts = {"who": context.who, "size": context.last.shown_bytes, "rates": (got, due)}
    if abs(share - 1) > CLOSE:
        return statement("reaches-share", share=share, **facts)
    late = NOTHING
    bound = context.points[context.bandwidth_bound.start :]
    short = [point for point in bound if point.relative_error < -CLOSE]
    if short:
        worst = min(short, key=attrgetter("relative_error"))
        first = next(point for point in context.points if point.bytes > short[-1].bytes)
        lowest = worst.busbw_measured_Bps / worst.busbw_expected_Bps
        late = statement(
            "reaches-late", first=first.shown_bytes, share=lowest, worst=worst.shown_bytes
        )
    return statement("reaches", late=late, **facts)


def _faster_than_price(context: SeriesContext) -> Statement:
    """The rate of a largest message that is faster than its price, and what may be wrong."""
    spans = context.placed.spans
    tier = spans[-1].tier
    got = context.last.busbw_measured_Bps
    port_Bps = tier.bandwidth * tier.ports
    port = NOTHING
    single = len(spans) == 1 and capabilities_of(tier).joined_by == "switches"
    if single and got > port_Bps:
        port = statement("faster-port", rate=port_Bps)
    reason = "faster-fabric"
    if context.algorithms:
        reason = "faster-algorithm"
    # no switch reduces what is only passed on
    elif context.series.primitive not in (A2A, P2P) and not _in_switch(context.last.spec):
        reason = "faster-fabric-or-switch"
    return statement(
        "faster",
        who=context.who,
        got=got,
        size=context.last.shown_bytes,
        due=context.last.busbw_expected_Bps,
        port=port,
        reason=statement(reason),
    )


def _fewer_rails(context: SeriesContext) -> Statement:
    """The number of a host's NICs that would explain slow large messages, and what else explains
    them as well. Only numbers that divide the host's NICs are tried."""
    spans = context.placed.spans
    if len(spans) < 2 or not context.large or not all(map(context.slower, context.large)):
        return NOTHING
    if _ends_on_cliff(context):
        return NOTHING
    nics = spans[1].members_inside
    outer = frozenset(span.tier.name for span in spans[1:])
    errors: dict[int, float] = {}  # by the number of NICs in use
    for used in range(1, nics):
        priced = context.scaled(used / nics, outer) if nics % used == 0 else None
        if priced is None:
            continue
        # the library may switch algorithms or not
        usual = priced.by_title.get(context.last.algorithm, priced.best)
        error = min(context.worst_large(priced.best), context.worst_large(usual))
        if error <= (WITHIN if used == 1 else CLOSE):
            errors[used] = error
    if not errors:
        return NOTHING
    used = min(errors, key=errors.__getitem__)
    # what else explains the same times: slower inner links, or another algorithm
    causes: list[Statement | str] = [
        statement("few-rails" if used > 1 else "one-rail", used=used, nics=nics)
    ]
    causes += _inner_share(context)
    for title, quotes in context.priced.by_title.items():
        if context.worst_large(quotes) <= CLOSE:
            causes.append(title)
    code = "share-of-bandwidth" if len(causes) == 1 else "share-of-bandwidth-by-any"
    return statement(code, share=context.last.of_expected, causes=tuple(causes))


def _ends_on_cliff(context: SeriesContext) -> bool:
    """Whether the last step of large messages is among the largest, or slows them down."""
    points = context.series.points
    steps = [step for step in steps_in(points) if step in context.bandwidth_bound]
    if not steps:
        return False
    last = steps[-1]
    return last in context.large or points[last].seconds > points[last - 1].seconds


def _inner_share(context: SeriesContext) -> list[Statement]:
    """The share of the innermost tier's bandwidth that explains large messages. Empty where none
    does."""
    tier = context.placed.spans[0].tier.name
    share = context.last.of_expected
    error = inf
    # As other tiers take their part of the time, it is not just the share that arrives: where 8 of
    # 10 us are the inner tier's, half its bandwidth takes 18 us, not 20.
    for _ in range(SHARE_STEPS):
        priced = context.scaled(share, frozenset({tier}))
        if priced is None:
            return []
        error = context.worst_large(priced.best)
        correction = priced.best[-1].seconds / context.last.measured_s
        if abs(correction - 1) < SHARE_TOLERANCE:
            break
        share *= correction
    if error > CLOSE:
        return []
    return [statement("inner-share", tier=tier, share=share)]


def _without_switch(context: SeriesContext) -> Statement:
    """Large messages match the price without in-switch reduction: the algorithm that then wins."""
    if (
        not context.large
        or not _in_switch(context.last.spec)
        or not context.slower(context.large[-1])
    ):
        return NOTHING
    named = tuple(algorithm for algorithm in context.algorithms if not _in_switch(algorithm))
    if context.algorithms and not named:
        return NOTHING
    without = context.prices_on(without_switch_reduction(context.fabric), named)
    if without is None or context.worst_large(without.best) > WITHIN:
        return NOTHING
    return statement("without-switch", algorithm=without.best[-1].algorithm)


def _in_switch(spec: str) -> bool:
    choice = parse_choice(spec)
    return IN_SWITCH in (choice.base, *choice.tiers)


def _other_algorithm(context: SeriesContext) -> Statement:
    """The algorithm whose prices neighbouring sizes match, where another one should win."""
    runs = {
        title: _longest_match(context, quotes) for title, quotes in context.priced.by_title.items()
    }
    title, run = max(runs.items(), key=lambda found: len(found[1]))
    times = [point.measured_s for point in run]
    if len(run) < CURVE or max(times) < SHAPE * min(times):  # any price can match a flat stretch
        return NOTHING
    winners = tuple(dict.fromkeys(point.algorithm for point in run))
    first, last = run[0].shown_bytes, run[-1].shown_bytes
    return statement("other-algorithm", first=first, last=last, title=title, winners=winners)


def _longest_match(context: SeriesContext, quotes: Sequence[Quote]) -> list[ValidatedPoint]:
    """The longest stretch of slow sizes that an algorithm's prices match, although it should
    lose."""
    longest: list[ValidatedPoint] = []
    run: list[ValidatedPoint] = []
    for index, point in enumerate(context.points):
        loses = quotes[index].seconds > (1 + WITHIN) * point.predicted_s
        if loses and context.slower(index) and context.error(quotes, index) <= CLOSE:
            run.append(point)
        else:
            run = []
        longest = max(longest, run[:], key=len)
    return longest


def _small_message_floor(context: SeriesContext) -> Statement:
    """What bounds small messages, and how far the measured floor is from the price's."""
    if not context.small:
        return NOTHING
    bounds = Counter(map(attrgetter("bound"), context.small))
    bound, _ = bounds.most_common(1)[0]
    where = statement("at-every-size")
    if len(context.small) < len(context.points):
        where = statement("below-size", size=context.points[len(context.small)].shown_bytes)
    smallest = context.small[:SMALL]
    took_s = median(map(attrgetter("measured_s"), smallest))
    due_s = median(map(attrgetter("predicted_s"), smallest))
    likely = NOTHING
    if max(took_s, due_s) > FLOOR_RATIO * min(took_s, due_s):
        # launches, hops or another algorithm: small messages alone cannot tell
        code = "floor-more" if took_s > due_s else "floor-less"
        likely = statement(code, apart=abs(took_s - due_s))
    return statement(f"floor-{bound}", where=where, took=took_s, due=due_s, likely=likely)


def _spread_of_repeats(context: SeriesContext) -> Statement:
    """How far the repeats of a size differ, and on how many sizes; nothing for usual scatter."""
    points = context.series.points
    ranges = [(point.high_s - point.low_s) / point.seconds for point in points]
    widest = max(ranges)
    if widest <= SPREAD:
        return NOTHING
    more = NOTHING
    many = sum(share > SPREAD for share in ranges)
    if many > 1:
        more = statement("repeats-differ-more", share=SPREAD, count=many)
    return statement(
        "repeats-differ", share=widest, size=points[ranges.index(widest)].shown_bytes, more=more
    )
