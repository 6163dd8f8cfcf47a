"""``crossover``: every size at which the faster of two algorithms changes, solved and then
confirmed by pricing.

Prices are ``a + b·M + c·sqrt(M)``, so two are equal where a quadratic in sqrt(M) vanishes:
:func:`positive_roots`. :func:`winners` finds the fastest schedule at each size by the lower envelope
of all curves. With optimal segments there is no closed form, and both sample a grid of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain, pairwise, product
from math import inf, sqrt
from typing import TypeVar

from colltool.algorithms.registry import APPROXIMATIONS, algorithms
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import AR, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates, by_title, candidates_for
from colltool.estimate.cost_model import CostModel
from colltool.estimate.leading import best_class, may_lead
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import mode, model
from colltool.estimate.results import AlgorithmPair, Crossing, Crossover, Winner
from colltool.estimate.software_time import Curve
from colltool.fabric.model import Fabric

Key = TypeVar("Key", bound=Hashable)
_GRID = [10 ** (step / 12) for step in range(18 * 12 + 1)]
"""Sizes from 1 byte to 1 EB, twelve per decade."""


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
    """
    options = readings or ModelOptions()
    listed = candidates_for(fabric, group, primitive, options)
    names = listed.specs(names)
    compared = _compared(listed, names)
    running = listed.library
    contenders = _contenders(listed, names)
    balance = {}
    for candidates in compared:
        # each protocol has a balance of its own
        if len(candidates) == 1 and candidates[0].balance is not None:
            balance[candidates[0].title] = candidates[0].balance
    return Crossover(
        fabric=fabric.name,
        primitive=primitive,
        group=listed.placed.placement,
        mode=mode(options),
        model=model(options, primitive),
        pairs=tuple(_pair(compared[0], other, options) for other in compared[1:]),
        winners=tuple(_winners_of(listed, contenders, names)),
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
    selected = True
    for candidates in compared:
        measured += any(cost_model.measured for cost_model in candidates)
        selected = selected and not any(cost_model.not_selected_reason for cost_model in candidates)
    return not selected and 0 < measured < len(compared)


def positive_roots(first: Curve, second: Curve) -> list[float]:
    """Every M > 0 (bytes, ascending) at which two curves are equal. Empty if they coincide."""
    a = first.a - second.a
    b = first.b - second.b
    c = first.c - second.c
    if b == 0:
        roots = [] if c == 0 else [-a / c]
    elif c == 0:
        return [-a / b] if -a / b > 0 else []
    else:
        inner = c * c - 4 * a * b
        if inner < 0:
            return []
        # the form of the root that does not cancel
        half = -(c + (sqrt(inner) if c >= 0 else -sqrt(inner))) / 2
        roots = sorted({half / b, a / half if half else 0.0})
    return [root * root for root in roots if root > 0]


def _compared(listed: Candidates, names: Sequence[str]) -> list[list[CostModel]]:
    """The schedules to compare, each under all of its protocols. Empty if fewer than two run."""
    if not names:
        usual = listed.runs or [row.name for row in algorithms(listed.primitive) if row.usual]
        names = [algorithm for algorithm in usual if _can_run(listed, algorithm)]
        if len(names) < 2:
            # no pairs: the winner at each size is still an answer
            return []
    found = by_title(listed.named(dict.fromkeys(names)))
    if len(found) < 2:
        raise ColltoolError(
            "a crossover needs two algorithms",
            argument="algorithms",
            fix=f"name two: {argument_text('algorithms', ['ring', 'tree'])}",
        )
    every = chain.from_iterable(found.values())
    streamed = any(cost_model.phases == "pipelined" for cost_model in every)
    if streamed and listed.readings.pipelining == "optimal":
        raise ColltoolError(
            "streamed phases with optimal segments have no closed form",
            argument="pipelining",
            fix=f"take {argument_text('phases', 'sequential')} or {argument_text('pipelining', 'asymptotic')}",
        )
    return list(found.values())


def _can_run(listed: Candidates, name: str) -> bool:
    try:
        return bool(listed.named([name]))
    except ColltoolError:
        return False


def _pair(
    first: Sequence[CostModel], second: Sequence[CostModel], readings: ModelOptions
) -> AlgorithmPair:
    """Compare two schedules, each under its fastest protocol."""
    left = first[0]
    right = second[0]

    def faster(size: float) -> str:
        # the first of equals
        return min((*first, *second), key=lambda cost_model: float(cost_model.seconds(size))).title

    roots = _equal_at(first, second)
    # of optimal segments the closed form only says where to look
    if readings.pipelining == "optimal":
        roots = _changes(faster, roots)
    probes = [1.0, *(root for root in roots if 1 < root < MAX_SIZE), MAX_SIZE]
    leads = [faster(sqrt(low * high)) for low, high in pairwise(probes)]
    crossings = []
    for root, below, above in zip(probes[1:-1], leads, leads[1:], strict=False):
        if below != above:
            crossings.append(Crossing(root, below, above))
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
        dominates=None if crossings else leads[0],
        approximations=approximations,
        a_spec=left.choice.spec,
        b_spec=right.choice.spec,
        a_name=left.name,
        b_name=right.name,
    )


def _equal_at(first: Sequence[CostModel], second: Sequence[CostModel]) -> list[float]:
    """Sizes in bytes at which a curve of the first may equal a curve of the second, ascending."""
    roots: set[float] = set()
    for left, right in product(_lines(first), _lines(second)):
        roots.update(positive_roots(left, right))
    return sorted(roots)


def _lines(candidates: Sequence[CostModel]) -> list[Curve]:
    pieces = chain.from_iterable(cost_model.pieces for cost_model in candidates)
    return [curve for _, curve in pieces]


def _changes(faster: Callable[[float], str], roots: Sequence[float]) -> list[float]:
    """Sizes at which the faster one changes, found by bisection near the roots and on the grid."""
    sizes = set(_GRID)
    for root in roots:
        sizes.update(near for near in (root * 0.99, root * 1.01) if 1 < near < MAX_SIZE)
    found = []
    for low, high in pairwise(sorted(sizes)):
        below = faster(low)
        if faster(high) != below:
            found.append(_bisected(low, high, faster, below))
    return found


def _bisected(low: float, high: float, fastest: Callable[[float], object], below: object) -> float:
    """The size between two at which the fastest is no longer ``below``, to 12 digits."""
    while high / low > 1 + 1e-12:
        middle = sqrt(low * high)
        # no number lies between the two any more
        if not low < middle < high:
            break
        if fastest(middle) == below:
            low = middle
        else:
            high = middle
    return high


def winners(listed: Candidates, names: Sequence[str] = ()) -> list[Winner]:
    """The winner at each size among what the user can run (or, if nothing, the best other class),
    or among ``names``."""
    return _winners_of(listed, _contenders(listed, names), names)


def _contenders(listed: Candidates, names: Sequence[str]) -> list[CostModel]:
    """The schedules that may win: those that are the fastest at one of the sizes looked at."""
    probes = [1.0, MAX_SIZE]
    # optimal segments have no curve whose ends say what is in between
    if listed.readings.pipelining == "optimal":
        probes = _GRID
    if names:
        return listed.named(names, probes)
    return listed.every_schedule(probes)


def _winners_of(
    listed: Candidates, contenders: Sequence[CostModel], names: Sequence[str]
) -> list[Winner]:
    """The fastest schedule of each interval of sizes.

    Compositions are searched at the edges of the intervals, where a choice not yet known would show
    if it won anywhere.
    """
    leading = may_lead(contenders, names) or best_class(contenders)
    known = {_way(cost): cost for cost in leading}
    best = {cost.choice.base: cost.rank_class for cost in leading}
    usual = min(best.values())
    if listed.readings.pipelining == "optimal":
        return _as_winners(_sampled(known), known)
    compositions = listed.free_compositions(names)
    while True:
        found = _as_winners(_envelope(known), known)
        new = {}
        for composition, winner in product(compositions, found):
            cost = composition.fastest(winner.from_bytes)
            leads = cost.rank_class == best.get(cost.choice.base, usual)
            if leads and _way(cost) not in known:
                new[_way(cost)] = cost
        if not new:
            return found
        known |= new


Way = tuple[str, str]
"""Title and protocol of a schedule."""
Cut = tuple[float, Way]
"""A size in bytes, and what is fastest from there on."""


def _way(cost_model: CostModel) -> Way:
    return cost_model.title, cost_model.protocol


def _as_winners(cuts: Sequence[Cut], known: Mapping[Way, CostModel]) -> list[Winner]:
    """Cuts as ranges of sizes, each with its winner; the last has no end."""
    found = []
    ends: list[float | None] = [start for start, _ in cuts[1:]]
    for (start, key), end in zip(cuts, [*ends, None], strict=True):
        cost_model = known[key]
        found.append(
            Winner(
                start,
                end,
                *key,
                spec=cost_model.choice.spec,
                balance=cost_model.balance,
                name=cost_model.name,
            )
        )
    return found


def _sampled(known: Mapping[Way, CostModel]) -> list[Cut]:
    """The fastest from each size on, on a grid refined by bisection."""

    def fastest(size: float) -> Way:
        return min(known, key=lambda key: known[key].seconds(size))

    cuts = [(1.0, fastest(1.0))]
    for low, high in pairwise(_GRID):
        if fastest(high) != cuts[-1][1]:
            cuts.append((_bisected(low, high, fastest, cuts[-1][1]), fastest(high)))
    return cuts


def _envelope(known: Mapping[Way, CostModel]) -> list[Cut]:
    """The lower envelope from 1 byte on, piece by piece, with neighbouring intervals of one winner
    joined."""
    pieces = chain.from_iterable(cost_model.pieces for cost_model in known.values())
    starts = sorted({max(1.0, start) for start, _ in pieces})
    cuts: list[Cut] = []
    for start, end in pairwise([*starts, MAX_SIZE]):
        curves = {key: _curve_at(cost_model, start) for key, cost_model in known.items()}
        for cut in lower_envelope(curves, start, end):
            if not cuts or cut[1] != cuts[-1][1]:
                cuts.append(cut)
    return cuts


def _curve_at(cost_model: CostModel, size: float) -> Curve:
    return next(curve for start, curve in reversed(cost_model.pieces) if start <= size)


def lower_envelope(
    curves: Mapping[Key, Curve], start: float, end: float = MAX_SIZE
) -> list[tuple[float, Key]]:
    """Which curve is lowest from which size up to ``end``, bytes; ties go to the flatter one, then
    to the first."""
    current = min(curves, key=lambda key: (curves[key].at(start), curves[key].slope(start)))
    found = [(start, current)]
    while True:
        here = curves[current]
        # just past the last border rounding may find that border again
        past = found[-1][0] * (1 + 1e-9)
        roots = []
        for key, curve in curves.items():
            if key == current or (curve.b >= here.b and curve.c >= here.c):
                continue
            for root in positive_roots(here, curve):
                # where another is flatter it comes out below
                if root > past and curve.slope(root) < here.slope(root):
                    roots.append((root, key))
        at = min((root for root, _ in roots), default=inf)
        if at >= end:
            return found
        # the same point but for rounding
        together = [key for root, key in roots if root <= at * (1 + 1e-9)]
        current = min(together, key=lambda key: curves[key].slope(at))
        found.append((at, current))
