"""What the difference between measured times and their prices says of one series.

:func:`findings` tries each kind of finding in turn: the share of the expected busbw that is
reached, fewer NICs or slower links, a switch that does not reduce, another algorithm, steps in the
curve, the time of small messages, and repeats that differ. Each is a statement, or NOTHING (which is
false) where the numbers do not support it.
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

# share of the priced time below which a large message is faster than the fabric allows: further off
# than prices of an uncalibrated fabric are (ACCURACY in causes.py)
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
    """A series with its prices and its points, one per size, ascending.

    An index is of a size. A :class:`~colltool.calibration.series_prices.Quote` is an algorithm's
    price of a size, and a sequence of quotes has one for each size. The expected rate of a point is
    that of the fastest quote (``predicted_s``).
    """

    fabric: Fabric
    placed: PlacedGroup
    series: Series
    readings: ModelOptions
    algorithms: tuple[str, ...]  # that the user allows; empty for any
    priced: Priced  # quotes of the fastest algorithm (``best``), and of each (``by_title``)
    points: tuple[ValidatedPoint, ...]

    @property
    def bandwidth_bound(self) -> range:
        """Indices of the sizes from which on bandwidth takes most of every price."""
        return bandwidth_bound_sizes(self.points)

    @property
    def large(self) -> range:
        """Indices of the LARGE largest sizes, as far as bandwidth bounds them; may be empty."""
        return self.bandwidth_bound[-LARGE:]

    @property
    def largest(self) -> ValidatedPoint:
        """The point of the largest size."""
        return self.points[-1]

    @property
    def small(self) -> tuple[ValidatedPoint, ...]:
        """The sizes below the first one that bandwidth bounds."""
        for index, point in enumerate(self.points):
            if point.bound == "bandwidth":
                return self.points[:index]
        return self.points

    @property
    def is_too_fast(self) -> bool:
        """Whether the largest message is faster than the fabric allows."""
        return bool(self.large) and self.largest.measured_s < TOO_FAST * self.largest.predicted_s

    @property
    def who(self) -> Statement:
        """What the busbw is predicted for: the algorithms that the user named, or the fabric."""
        if self.algorithms:
            return statement("algorithms", names=self.algorithms)
        return statement("this-fabric")

    def is_slower(self, index: int) -> bool:
        """Whether a size takes clearly longer than its price."""
        return self.points[index].measured_s > (1 + WITHIN) * self.points[index].predicted_s

    def error(self, quotes: Sequence[Quote], index: int) -> float:
        """Relative error of a price, of either sign."""
        return abs(quotes[index].seconds / self.points[index].measured_s - 1)

    def worst_large(self, quotes: Sequence[Quote]) -> float:
        """The largest relative error of prices on the large sizes."""
        return max(self.error(quotes, index) for index in self.large)

    def prices_on(self, fabric: Fabric, algorithms: tuple[str, ...] | None = None) -> Priced | None:
        """Prices on a changed fabric, of the same algorithms or of those given (empty for any); None
        where none of them runs."""
        names = self.algorithms if algorithms is None else algorithms
        return prices_of(fabric, self.series, self.readings, names)

    def scaled(self, share: float, tiers: frozenset[str]) -> Priced | None:
        """Prices if these tiers had a share of their bandwidth; None where nothing runs."""
        return self.prices_on(with_share(self.fabric, share, tiers))


def findings(context: SeriesContext) -> tuple[Statement, ...]:
    """All findings that hold, most important first."""
    rate = _faster_than_price(context) if context.is_too_fast else _share_reached(context)
    # where fewer rails explain the times, their finding also names what explains them as well
    reasons = [_fewer_rails(context)]
    if not reasons[0]:
        reasons = [_without_switch(context), _other_algorithm(context)]
    all_findings = (
        rate,
        *reasons,
        cliff_in(context.series.points),
        _small_message_floor(context),
        _spread_of_repeats(context),
    )
    return tuple(filter(None, all_findings))


def _share_reached(context: SeriesContext) -> Statement:
    """The share of expected busbw that the largest message reaches; if about all of it, also from
    which size on, where large messages below that reach less. NOTHING without large messages."""
    if not context.large:
        return NOTHING
    measured_Bps = context.largest.busbw_measured_Bps
    expected_Bps = context.largest.busbw_expected_Bps
    share = measured_Bps / expected_Bps
    facts = {
        "who": context.who,
        "size": context.largest.shown_bytes,
        "rates": (measured_Bps, expected_Bps),
    }
    if abs(share - 1) > CLOSE:
        return statement("reaches-share", share=share, **facts)
    late = NOTHING
    bandwidth_bound = context.points[context.bandwidth_bound.start :]
    short = [point for point in bandwidth_bound if point.relative_error < -CLOSE]
    if short:
        worst = min(short, key=attrgetter("relative_error"))
        # the largest size itself is not short, so that one is larger
        first = next(point for point in context.points if point.bytes > short[-1].bytes)
        lowest = worst.busbw_measured_Bps / worst.busbw_expected_Bps
        late = statement(
            "reaches-late", first=first.shown_bytes, share=lowest, worst=worst.shown_bytes
        )
    return statement("reaches", late=late, **facts)


def _faster_than_price(context: SeriesContext) -> Statement:
    """The rate of a largest message that is faster than its price, and what may be wrong: the
    fabric, its switch that does reduce, or the algorithms that the user named."""
    spans = context.placed.spans
    tier = spans[-1].tier
    measured_Bps = context.largest.busbw_measured_Bps
    port_Bps = tier.bandwidth * tier.ports
    port = NOTHING
    # over switches alone a rank's traffic goes through its ports
    is_switched = len(spans) == 1 and capabilities_of(tier).joined_by == "switches"
    if is_switched and measured_Bps > port_Bps:
        port = statement("faster-port", rate=port_Bps)
    reason = "faster-fabric"
    if context.algorithms:
        reason = "faster-algorithm"
    # no switch reduces what is only passed on
    elif context.series.primitive not in (A2A, P2P) and not _in_switch(context.largest.spec):
        reason = "faster-fabric-or-switch"
    return statement(
        "faster",
        who=context.who,
        got=measured_Bps,
        size=context.largest.shown_bytes,
        due=context.largest.busbw_expected_Bps,
        port=port,
        reason=statement(reason),
    )


def _fewer_rails(context: SeriesContext) -> Statement:
    """The number of a host's NICs that would explain slow large messages, and what else explains
    them as well. Only numbers that divide the host's NICs are tried."""
    spans = context.placed.spans
    if len(spans) < 2 or not context.large or _ends_on_cliff(context):
        return NOTHING
    if not all(map(context.is_slower, context.large)):
        return NOTHING
    nics = spans[1].members_inside  # a NIC for each rank of a host
    outer = frozenset(span.tier.name for span in spans[1:])
    errors: dict[int, float] = {}  # by the number of NICs in use
    for used in range(1, nics):
        priced = context.scaled(used / nics, outer) if nics % used == 0 else None
        if priced is None:
            continue
        # the library may switch algorithms, or keep the one of all NICs
        quotes_of_same = priced.by_title.get(context.largest.algorithm, priced.best)
        error = min(context.worst_large(priced.best), context.worst_large(quotes_of_same))
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
    return statement(code, share=context.largest.of_expected, causes=tuple(causes))


def _ends_on_cliff(context: SeriesContext) -> bool:
    """Whether the last step of large messages is among the largest, or slows them down."""
    points = context.series.points
    steps = [step for step in steps_in(points) if step in context.bandwidth_bound]
    if not steps:
        return False
    last_step = steps[-1]  # the index of the size behind it
    slows = points[last_step].seconds > points[last_step - 1].seconds
    return last_step in context.large or slows


def _inner_share(context: SeriesContext) -> list[Statement]:
    """The share of the innermost tier's bandwidth that explains large messages, in one statement;
    empty where no share does."""
    tier = context.placed.spans[0].tier.name
    share = context.largest.of_expected
    error = inf
    # As other tiers take their part of the time, it is not just the share that arrives: where 8 of
    # 10 us are the inner tier's, half its bandwidth takes 18 us, not 20.
    for _ in range(SHARE_STEPS):
        priced = context.scaled(share, frozenset({tier}))
        if priced is None:
            return []
        error = context.worst_large(priced.best)
        correction = priced.best[-1].seconds / context.largest.measured_s
        if abs(correction - 1) < SHARE_TOLERANCE:
            break
        share *= correction
    if error > CLOSE:
        return []
    return [statement("inner-share", tier=tier, share=share)]


def _without_switch(context: SeriesContext) -> Statement:
    """That large messages match the price without in-switch reduction, and the algorithm that then
    wins; NOTHING where no switch should reduce, or the user allows no other algorithm."""
    if not context.large or not context.is_slower(context.large[-1]):
        return NOTHING
    if not _in_switch(context.largest.spec):
        return NOTHING
    allowed = tuple(algorithm for algorithm in context.algorithms if not _in_switch(algorithm))
    if context.algorithms and not allowed:
        return NOTHING
    without = context.prices_on(without_switch_reduction(context.fabric), allowed)
    if without is None or context.worst_large(without.best) > WITHIN:
        return NOTHING
    return statement("without-switch", algorithm=without.best[-1].algorithm)


def _in_switch(spec: str) -> bool:
    """Whether an algorithm, or one of those of a composition, reduces in the switch; ``spec``: its
    name as an option."""
    choice = parse_choice(spec)
    return IN_SWITCH in (choice.base, *choice.tiers)


def _other_algorithm(context: SeriesContext) -> Statement:
    """The algorithm whose prices neighbouring sizes match, where another one should win."""
    title = ""
    stretch: list[ValidatedPoint] = []
    for candidate, quotes in context.priced.by_title.items():
        match = _longest_match(context, quotes)
        if len(match) > len(stretch):
            title = candidate
            stretch = match
    if len(stretch) < CURVE:
        return NOTHING
    times = [point.measured_s for point in stretch]
    if max(times) < SHAPE * min(times):  # any price can match a flat stretch
        return NOTHING
    return statement(
        "other-algorithm",
        first=stretch[0].shown_bytes,
        last=stretch[-1].shown_bytes,
        title=title,
        winners=tuple(dict.fromkeys(point.algorithm for point in stretch)),
    )


def _longest_match(context: SeriesContext, quotes: Sequence[Quote]) -> list[ValidatedPoint]:
    """The longest stretch of slow sizes that an algorithm's prices match, although it should
    lose."""
    longest: list[ValidatedPoint] = []
    stretch: list[ValidatedPoint] = []
    for index, point in enumerate(context.points):
        loses = quotes[index].seconds > (1 + WITHIN) * point.predicted_s
        if loses and context.is_slower(index) and context.error(quotes, index) <= CLOSE:
            stretch = [*stretch, point]
        else:
            stretch = []
        longest = max(longest, stretch, key=len)
    return longest


def _small_message_floor(context: SeriesContext) -> Statement:
    """What bounds small messages, and how far the measured floor (the median time of the SMALL
    smallest) is from the price's; NOTHING without small messages."""
    if not context.small:
        return NOTHING
    bounds = Counter(map(attrgetter("bound"), context.small))
    bound, _ = bounds.most_common(1)[0]
    sizes = statement("at-every-size")
    if len(context.small) < len(context.points):
        sizes = statement("below-size", size=context.points[len(context.small)].shown_bytes)
    smallest = context.small[:SMALL]
    measured_s = median(map(attrgetter("measured_s"), smallest))
    predicted_s = median(map(attrgetter("predicted_s"), smallest))
    likely = NOTHING
    if max(measured_s, predicted_s) > FLOOR_RATIO * min(measured_s, predicted_s):
        # launches, hops or another algorithm: small messages alone cannot tell
        code = "floor-more" if measured_s > predicted_s else "floor-less"
        likely = statement(code, apart=abs(measured_s - predicted_s))
    return statement(f"floor-{bound}", where=sizes, took=measured_s, due=predicted_s, likely=likely)


def _spread_of_repeats(context: SeriesContext) -> Statement:
    """How far the repeats of a size differ, and on how many sizes; nothing for usual scatter."""
    points = context.series.points
    spreads = [(point.high_s - point.low_s) / point.seconds for point in points]
    widest = max(spreads)
    if widest <= SPREAD:
        return NOTHING
    more = NOTHING
    wide_count = sum(spread > SPREAD for spread in spreads)
    if wide_count > 1:
        more = statement("repeats-differ-more", share=SPREAD, count=wide_count)
    size = points[spreads.index(widest)].shown_bytes
    return statement("repeats-differ", share=widest, size=size, more=more)
