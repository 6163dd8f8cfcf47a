"""``crossover``: every size at which the faster of two algorithms changes, solved and then
confirmed by pricing.

Prices are ``a + b·M + c·sqrt(M)``, so two are equal where a quadratic in sqrt(M) vanishes:
:func:`positive_roots`. With optimal segments there is no closed form, and a grid of sizes is sampled.

    crossover         the command: pairs of algorithms, and the winner at each size
    winners           the fastest schedule at each size, from the lower envelope of all curves
    lower_envelope    which of any curves is lowest from which size on
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain, pairwise, product
from math import copysign, inf, sqrt
from typing import TypeVar

from colltool.algorithms.registry import APPROXIMATIONS, algorithms
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import AR, Primitive
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.candidates import Candidates, by_title, candidates_for
from colltool.estimate.cost_model import CostModel
from colltool.estimate.leading import best_class, may_lead
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import mode, model
from colltool.estimate.results import AlgorithmPair, Crossing, Crossover, Winner
from colltool.estimate.software_time import Curve
from colltool.fabric.model import Fabric

Key = TypeVar("Key", bound=Hashable)
ScheduleKey = tuple[str, str]
"""Title and protocol of a schedule."""
Takeover = tuple[float, ScheduleKey]
"""A size in bytes, and what is fastest from there on."""
_GRID = [10 ** (step / 12) for step in range(18 * 12 + 1)]
"""Sizes from 1 byte to 1 EB, twelve per decade."""
_ROUNDING = 1 + 1e-9
"""Ratio of two sizes up to which they are one border."""


def crossover(
    fabric: Fabric,
    primitive: Primitive = AR,
    group: AnyGroup = None,
    readings: ModelOptions | None = None,
    names: Sequence[str] = (),
) -> Crossover:
    """Compare the first algorithm with each of the others; without ``names`` the usual ones, no
    pairs if fewer than two run.

    The winner at each size is one of ``names``, or of all that the user can run.

    Raises:
        ColltoolError: fewer than two of ``names`` can be compared, or their phases stream with
            optimal segments.
    """
    options = readings or USUAL
    candidates = candidates_for(fabric, group, primitive, options)
    names = candidates.specs(names)
    compared = _compared(candidates, names)
    running = candidates.library
    contenders = _contenders(candidates, names)
    # bytes at which latency and bandwidth take as long, by title
    balance = {}
    for by_protocol in compared:
        # each protocol has a balance of its own
        if len(by_protocol) == 1 and by_protocol[0].balance is not None:
            balance[by_protocol[0].title] = by_protocol[0].balance
    return Crossover(
        fabric=fabric.name,
        primitive=primitive,
        group=candidates.placed.placement,
        mode=mode(options),
        model=model(options, primitive),
        pairs=tuple(_pair(compared[0], other, options) for other in compared[1:]),
        winners=tuple(_winners_of(candidates, contenders, names)),
        balance=balance,
        overrides=fabric.overrides,
        library=running.name if running else "",
        library_leads=running is None
        or any(cost_model.rank_class == 0 for cost_model in contenders),
        uneven=_unevenly_measured(compared),
        asked=tuple(names),
    )


def _unevenly_measured(compared: Sequence[Sequence[CostModel]]) -> bool:
    """Whether only some schedules include the library's measured times, and the library does not
    run them all."""
    measured = 0
    all_selected = True
    for by_protocol in compared:
        measured += any(cost_model.measured for cost_model in by_protocol)
        all_selected &= not any(cost_model.not_selected_reason for cost_model in by_protocol)
    return not all_selected and 0 < measured < len(compared)


def positive_roots(first: Curve, second: Curve) -> list[float]:
    """Every M > 0 (bytes, ascending) at which two curves are equal. Empty if they coincide.

    With x = sqrt(M) these are the roots of b·x² + c·x + a.
    """
    a = first.a - second.a
    b = first.b - second.b
    c = first.c - second.c
    if b == 0:
        roots = [] if c == 0 else [-a / c]
    elif c == 0:
        # M itself, without the rounding of a square root
        return [-a / b] if -a / b > 0 else []
    else:
        discriminant = c * c - 4 * a * b
        if discriminant < 0:
            return []
        # both terms of the sum have one sign, so that no digits cancel; the roots are its quotients
        # with b and with a
        half = -(c + copysign(sqrt(discriminant), c)) / 2
        roots = sorted({half / b, a / half if half else 0.0})
    return [root * root for root in roots if root > 0]


def _compared(candidates: Candidates, names: Sequence[str]) -> list[list[CostModel]]:
    """The schedules to compare, each under all of its protocols; the first is compared with each of
    the others.

    Without ``names`` those that the fabric lists or the usual ones, empty if fewer than two run.
    """
    if not names:
        usual = candidates.runs or [
            row.name for row in algorithms(candidates.primitive) if row.usual
        ]
        names = [algorithm for algorithm in usual if _can_run(candidates, algorithm)]
        if len(names) < 2:
            # no pairs: the winner at each size is still an answer
            return []
    compared = by_title(candidates.named(dict.fromkeys(names)))
    if len(compared) < 2:
        raise ColltoolError(
            "a crossover needs two algorithms",
            argument="algorithms",
            fix=f"name two: {argument_text('algorithms', ['ring', 'tree'])}",
        )
    schedules = chain.from_iterable(compared.values())
    streams = any(cost_model.phases == "pipelined" for cost_model in schedules)
    if streams and candidates.readings.pipelining == "optimal":
        raise ColltoolError(
            "streamed phases with optimal segments have no closed form",
            argument="pipelining",
            fix=f"take {argument_text('phases', 'sequential')} or {argument_text('pipelining', 'asymptotic')}",
        )
    return list(compared.values())


def _can_run(candidates: Candidates, name: str) -> bool:
    """Whether an algorithm has a schedule on the group."""
    try:
        return bool(candidates.named([name]))
    except ColltoolError:
        return False


def _pair(
    first: Sequence[CostModel], second: Sequence[CostModel], readings: ModelOptions
) -> AlgorithmPair:
    """Compare two schedules at all sizes, each under its fastest protocol there; both are given under
    all of their protocols."""
    left = first[0]
    right = second[0]

    def faster(size: float) -> str:
        # the first of equals
        return min((*first, *second), key=lambda cost_model: float(cost_model.seconds(size))).title

    roots = _equal_at(first, second)
    # of optimal segments the closed form only says where to look
    if readings.pipelining == "optimal":
        roots = _changes(faster, roots)
    # one of the two is the faster all the way from one of these sizes to the next
    probes = [1.0, *(root for root in roots if 1 < root < MAX_SIZE), MAX_SIZE]
    fastest_between = [faster(sqrt(low * high)) for low, high in pairwise(probes)]
    crossings = []
    # each inner probe with what is fastest below and above it
    for root, below, above in zip(probes[1:-1], fastest_between, fastest_between[1:], strict=False):
        if below != above:
            crossings.append(Crossing(root, below, above))
    # a function of ranks, α and bandwidth that gives crossovers by name
    textbook = APPROXIMATIONS.get((left.primitive, left.choice.base, right.choice.base))
    approximations = {}
    # a textbook's formula knows one α and one bandwidth
    if textbook and len(second) == len(right.parts) == 1:
        cost = right.parts[0].cost
        approximations = textbook(left.ranks, cost.alpha_s, cost.effective_Bps)
    return AlgorithmPair(
        a=left.title,
        b=right.title,
        crossings=tuple(crossings),
        dominates=None if crossings else fastest_between[0],
        approximations=approximations,
        a_spec=left.choice.spec,
        b_spec=right.choice.spec,
        a_name=left.name,
        b_name=right.name,
    )


def _equal_at(first: Sequence[CostModel], second: Sequence[CostModel]) -> list[float]:
    """Sizes in bytes at which a curve of the first may equal a curve of the second, ascending."""
    roots: set[float] = set()
    for left, right in product(_curves(first), _curves(second)):
        roots.update(positive_roots(left, right))
    return sorted(roots)


def _curves(by_protocol: Sequence[CostModel]) -> list[Curve]:
    """The curves of a schedule: of each protocol, and of each piece of measured times."""
    pieces = chain.from_iterable(cost_model.pieces for cost_model in by_protocol)
    return [curve for _, curve in pieces]


def _changes(faster: Callable[[float], str], roots: Sequence[float]) -> list[float]:
    """Sizes in bytes at which the faster one changes, found by bisection between points close to
    the roots and those of the grid."""
    sizes = set(_GRID)
    for root in roots:
        sizes.update(probe for probe in (root * 0.99, root * 1.01) if 1 < probe < MAX_SIZE)
    changes = []
    for low, high in pairwise(sorted(sizes)):
        title_below = faster(low)
        if faster(high) != title_below:
            changes.append(_bisected(low, high, faster, title_below))
    return changes


def _bisected(
    low: float, high: float, fastest: Callable[[float], object], fastest_below: object
) -> float:
    """The size between ``low`` and ``high`` from which ``fastest_below``, the fastest at ``low``, is so
    no longer; to 12 digits."""
    while high / low > 1 + 1e-12:
        middle = sqrt(low * high)
        # no number lies between the two any more
        if not low < middle < high:
            break
        if fastest(middle) == fastest_below:
            low = middle
        else:
            high = middle
    return high


def winners(candidates: Candidates, names: Sequence[str]) -> list[Winner]:
    """The winner at each size among ``names``; if these are empty, among what the user can run (or,
    if nothing, the best other class)."""
    return _winners_of(candidates, _contenders(candidates, names), names)


def _contenders(candidates: Candidates, names: Sequence[str]) -> list[CostModel]:
    """The schedules that may win: those that are the fastest at one of the sizes looked at."""
    probes = [1.0, MAX_SIZE]
    # optimal segments have no curve whose ends say what is in between
    if candidates.readings.pipelining == "optimal":
        probes = _GRID
    if names:
        return candidates.named(names, probes)
    return candidates.every_schedule(probes)


def _winners_of(
    candidates: Candidates, contenders: Sequence[CostModel], names: Sequence[str]
) -> list[Winner]:
    """The fastest schedule of each interval of sizes.

    Compositions are searched at the edges of the intervals, where a choice not yet known would show
    if it won anywhere.
    """
    leading = may_lead(contenders, names) or best_class(contenders)
    known = {_key_of(cost_model): cost_model for cost_model in leading}
    class_of_algorithm = {cost_model.choice.base: cost_model.rank_class for cost_model in leading}
    best_of_all = min(class_of_algorithm.values())
    if candidates.readings.pipelining == "optimal":
        return _winner_records(_sampled(known), known)
    compositions = candidates.free_compositions(names)
    # until no edge of an interval shows a choice that is new
    while True:
        intervals = _winner_records(_envelope(known), known)
        new = {}
        for composition, winner in product(compositions, intervals):
            cost_model = composition.fastest(winner.from_bytes)
            leads = cost_model.rank_class == class_of_algorithm.get(
                cost_model.choice.base, best_of_all
            )
            if leads and _key_of(cost_model) not in known:
                new[_key_of(cost_model)] = cost_model
        if not new:
            return intervals
        known |= new


def _key_of(cost_model: CostModel) -> ScheduleKey:
    """What tells a schedule from all others here."""
    return cost_model.title, cost_model.protocol


def _winner_records(
    takeovers: Sequence[Takeover], known: Mapping[ScheduleKey, CostModel]
) -> list[Winner]:
    """The winner of each range of sizes, from one takeover to the next; the last has no end. A key
    is its title and protocol."""
    records = []
    ends: list[float | None] = [start for start, _ in takeovers[1:]]
    for (start, key), end in zip(takeovers, [*ends, None], strict=True):
        cost_model = known[key]
        records.append(
            Winner(
                start,
                end,
                *key,
                spec=cost_model.choice.spec,
                balance=cost_model.balance,
                name=cost_model.name,
            )
        )
    return records


def _sampled(known: Mapping[ScheduleKey, CostModel]) -> list[Takeover]:
    """The fastest from each size on, on a grid refined by bisection."""

    def fastest(size: float) -> ScheduleKey:
        return min(known, key=lambda key: known[key].seconds(size))

    fastest_below = fastest(1.0)
    takeovers = [(1.0, fastest_below)]
    for low, high in pairwise(_GRID):
        key = fastest(high)
        if key != fastest_below:
            takeovers.append((_bisected(low, high, fastest, fastest_below), key))
            fastest_below = key
    return takeovers


def _envelope(known: Mapping[ScheduleKey, CostModel]) -> list[Takeover]:
    """The lower envelope from 1 byte on, piece by piece, with neighbouring intervals of one winner
    joined."""
    pieces = chain.from_iterable(cost_model.pieces for cost_model in known.values())
    starts = sorted({max(1.0, start) for start, _ in pieces})
    takeovers: list[Takeover] = []
    for start, end in pairwise([*starts, MAX_SIZE]):
        curves = {key: _curve_at(cost_model, start) for key, cost_model in known.items()}
        for size, key in lower_envelope(curves, start, end):
            if not takeovers or key != takeovers[-1][1]:
                takeovers.append((size, key))
    return takeovers


def _curve_at(cost_model: CostModel, size: float) -> Curve:
    """The piece of a price's curve that a size lies on; the first piece starts at 0."""
    return next(curve for start, curve in reversed(cost_model.pieces) if start <= size)


def lower_envelope(
    curves: Mapping[Key, Curve], start: float, end: float = MAX_SIZE
) -> list[tuple[float, Key]]:
    """Which curve is lowest from which size on, from ``start`` up to ``end`` (bytes), in ascending
    order; ties go to the flatter one, then to the first."""
    current = min(curves, key=lambda key: (curves[key].at(start), curves[key].slope(start)))
    borders = [(start, current)]
    while True:
        lowest = curves[current]
        # just past the last border rounding may find that border again
        beyond_border = borders[-1][0] * _ROUNDING
        crossings = []
        for key, curve in curves.items():
            # what grows as fast in both terms never comes out below
            if key == current or (curve.b >= lowest.b and curve.c >= lowest.c):
                continue
            for root in positive_roots(lowest, curve):
                # where another is flatter it comes out below
                if root > beyond_border and curve.slope(root) < lowest.slope(root):
                    crossings.append((root, key))
        border = min((root for root, _ in crossings), default=inf)
        if border >= end:
            return borders
        # several curves may cross at one point, but for rounding
        at_border = [key for root, key in crossings if root <= border * _ROUNDING]
        current = min(at_border, key=lambda key: curves[key].slope(border))
        borders.append((border, current))
