"""``crossover``: every size at which the faster of two algorithms changes, solved and then
confirmed by pricing.

Prices are ``a + b·M + c·sqrt(M)``, so two are equal where a quadratic in sqrt(M) vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise, product
from math import inf, sqrt
from typing import TypeVar

from colltool.algorithms.registry import APPROXIMATIONS, algorithms
from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import AR, Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import Candidates, by_title, candidates_for
from colltool.estimate.cost_model import CostModel
from colltool.estimate.leading import best_class, may_lead
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import mode, model
from colltool.estimate.results import AlgorithmPair, Crossing, Crossover, Winner
from colltool.estimate.software_time import Curve
from colltool.fabric.model import Fabric

Key = TypeVar("Key", bound=Hashable)
_GRID = [10 ** (k / 12) for k in range(18 * 12 + 1)]
"""1 byte to 1 EB, twelve sizes per decade."""


def crossover(
    fabric: Fabric,
    primitive: Primitive = AR,
    group: AnyGroup = None,
    readings: Readings | None = None,
    names: Sequence[str] = (),
) -> Crossover:
    """Compare the first algorithm with each of the others; without ``names`` the usual ones, no
    pairs if fewer than two run.

    The winner at each size is one of ``names``, or of all that the user can run.
    """
    reading = readings or Readings()
    listed = candidates_for(fabric, group, primitive, reading)
    compared = _compared(listed, names)
    running, everything = listed.library, _everything(listed, names)
    # each protocol has a balance of its own
    single = [candidates[0] for candidates in compared if len(candidates) == 1]
    foreign = any(one.not_selected_reason for candidates in compared for one in candidates)
    return Crossover(
        fabric=fabric.name,
        primitive=primitive,
        group=listed.placed.placement,
        mode=mode(reading),
        model=model(reading, primitive),
        pairs=tuple(_pair(one, other, reading) for one in compared[:1] for other in compared[1:]),
        winners=tuple(_won(listed, everything, names)),
        balance={one.title: size for one in single if (size := one.balance) is not None},
        overrides=fabric.overrides,
        library=running.name if running else "",
        library_leads=running is None or any(one.rank_class == 0 for one in everything),
        uneven=foreign
        and len({any(one.measured for one in candidates) for candidates in compared}) > 1,
        asked=tuple(names),
    )


def positive_roots(first: Curve, second: Curve) -> list[float]:
    """Every M > 0 (bytes, ascending) at which two curves are equal; empty if they coincide."""
    a, b, c = first.a - second.a, first.b - second.b, first.c - second.c
    if b == 0:
        roots = [] if c == 0 else [-a / c]
    elif c == 0:
        return [-a / b] if -a / b > 0 else []
    else:
        inner = c * c - 4 * a * b
        if inner < 0:
            return []
        half = -(c + (sqrt(inner) if c >= 0 else -sqrt(inner))) / 2  # the form that does not cancel
        roots = sorted({half / b, a / half if half else 0.0})
    return [root * root for root in roots if root > 0]


def _compared(listed: Candidates, names: Sequence[str]) -> list[list[CostModel]]:
    if not names:
        usual = listed.runs or [row.name for row in algorithms(listed.primitive) if row.usual]
        names = [name for name in usual if _runs(listed, name)]
        if len(names) < 2:
            return []  # who wins at which size is still an answer
    found = by_title(listed.named(dict.fromkeys(names)))
    if len(found) < 2:
        fix = f"name two: {given('algorithms', ['ring', 'tree'])}"
        raise ColltoolError("a crossover needs two algorithms", argument="algorithms", fix=fix)
    if listed.readings.pipelining == "optimal" and any(
        one.phases == "pipelined" for alike in found.values() for one in alike
    ):
        what = "streamed phases with optimal segments have no closed form"
        fix = f"take {given('phases', 'sequential')} or {given('pipelining', 'asymptotic')}"
        raise ColltoolError(what, argument="pipelining", fix=fix)
    return list(found.values())


def _runs(listed: Candidates, name: str) -> bool:
    try:
        return bool(listed.named([name]))
    except ColltoolError:
        return False


def _pair(
    one: Sequence[CostModel], other: Sequence[CostModel], readings: Readings
) -> AlgorithmPair:
    def faster(size: float) -> str:
        ours, theirs = (
            min(costed.seconds(size) for costed in candidates) for candidates in (one, other)
        )
        return one[0].title if ours <= theirs else other[0].title

    curves = product(
        *(
            [line for costed in candidates for _, line in costed.pieces]
            for candidates in (one, other)
        )
    )
    roots = sorted({root for a, b in curves for root in positive_roots(a, b)})
    if readings.pipelining == "optimal":  # the closed form only says where to look
        sizes = sorted(
            {
                *_GRID,
                *(
                    near
                    for root in roots
                    for near in (root * 0.99, root * 1.01)
                    if 1 < near < MAX_SIZE
                ),
            }
        )
        changes = zip(pairwise(sizes), pairwise(map(faster, sizes)), strict=True)
        roots = [
            _bisected(low, high, faster, below)
            for (low, high), (below, above) in changes
            if below != above
        ]
    probes = [1.0, *(root for root in roots if 1 < root < MAX_SIZE), MAX_SIZE]
    leads = [faster(sqrt(low * high)) for low, high in pairwise(probes)]
    borders = zip(probes[1:-1], pairwise(leads), strict=True)
    crossings = tuple(
        Crossing(root, below, above) for root, (below, above) in borders if below != above
    )
    textbook = APPROXIMATIONS.get((one[0].primitive, one[0].choice.base, other[0].choice.base))
    sizes_said = {}
    if textbook and len(other) == len(other[0].parts) == 1:  # it knows one α and one bandwidth
        charge = other[0].parts[0].cost
        sizes_said = textbook(one[0].ranks, charge.alpha_s, charge.effective_Bps)
    return AlgorithmPair(
        a=one[0].title,
        b=other[0].title,
        crossings=crossings,
        dominates=None if crossings else leads[0],
        approximations=sizes_said,
        a_spec=one[0].choice.spec,
        b_spec=other[0].choice.spec,
    )


def _bisected(low: float, high: float, fastest: Callable[[float], object], below: object) -> float:
    while high / low > 1 + 1e-12:
        middle = sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if fastest(middle) == below else (low, middle)
    return high


def winners(listed: Candidates, names: Sequence[str] = ()) -> list[Winner]:
    """The winner at each size among what the user can run (or, if nothing, the best other class),
    or among ``names``."""
    return _won(listed, _everything(listed, names), names)


def _everything(listed: Candidates, names: Sequence[str]) -> list[CostModel]:
    probes = _GRID if listed.readings.pipelining == "optimal" else [1.0, MAX_SIZE]
    return listed.named(names, probes) if names else listed.all(probes)


def _won(listed: Candidates, everything: Sequence[CostModel], names: Sequence[str]) -> list[Winner]:
    """Compositions are searched at the interval edges, where a choice not yet known would show if
    it won anywhere."""
    leading = may_lead(everything, names) or best_class(everything)
    known = {_key(cost): cost for cost in leading}
    best = {cost.choice.base: cost.rank_class for cost in leading}
    usual = min(best.values())
    if listed.readings.pipelining == "optimal":
        return _winners(_sampled(known), known)
    compositions = listed.compositions(names)
    while True:
        found = _winners(_envelope(known), known)
        more = (free.fastest(winner.from_bytes) for free in compositions for winner in found)
        new = {}
        for cost in more:
            if _key(cost) not in known and cost.rank_class == best.get(cost.choice.base, usual):
                new[_key(cost)] = cost
        if not new:
            return found
        known |= new


def _key(costed: CostModel) -> tuple[str, str]:
    return costed.title, costed.protocol


def _winners(
    cuts: Sequence[tuple[float, tuple[str, str]]], known: Mapping[tuple[str, str], CostModel]
) -> list[Winner]:
    ends = [*(start for start, _ in cuts[1:]), None]
    return [
        Winner(start, end, *key, spec=known[key].choice.spec, balance=known[key].balance)
        for (start, key), end in zip(cuts, ends, strict=True)
    ]


def _sampled(known: Mapping[tuple[str, str], CostModel]) -> list[tuple[float, tuple[str, str]]]:
    def fastest(size: float) -> tuple[str, str]:
        return min(known, key=lambda key: known[key].seconds(size))

    cuts = [(1.0, fastest(1.0))]
    for low, high in pairwise(_GRID):
        if fastest(high) != cuts[-1][1]:
            cuts.append((_bisected(low, high, fastest, cuts[-1][1]), fastest(high)))
    return cuts


def _envelope(known: Mapping[tuple[str, str], CostModel]) -> list[tuple[float, tuple[str, str]]]:
    """The lower envelope from 1 byte on, piece by piece, with neighbouring intervals of one winner
    joined."""
    starts = sorted({max(1.0, start) for one in known.values() for start, _ in one.pieces})
    cuts: list[tuple[float, tuple[str, str]]] = []
    for start, end in pairwise([*starts, MAX_SIZE]):
        within = {
            key: next(line for at, line in reversed(one.pieces) if at <= start)
            for key, one in known.items()
        }
        for cut in lower_envelope(within, start, end):
            if not cuts or cut[1] != cuts[-1][1]:
                cuts.append(cut)
    return cuts


def lower_envelope(
    curves: Mapping[Key, Curve], start: float, end: float = MAX_SIZE
) -> list[tuple[float, Key]]:
    """Which curve is lowest from which size up to ``end``, bytes; ties go to the flatter one, then
    to the first."""
    current = min(curves, key=lambda key: (curves[key].at(start), curves[key].slope(start)))
    found = [(start, current)]
    while True:
        size, here = found[-1][0], curves[current]
        # Where another is flatter it comes out below; just past the last border rounding may find
        # that border again.
        roots = [
            (root, key)
            for key, curve in curves.items()
            if key != current and (curve.b < here.b or curve.c < here.c)
            for root in positive_roots(here, curve)
            if root > size * (1 + 1e-9) and curve.slope(root) < here.slope(root)
        ]
        at = min((root for root, _ in roots), default=inf)
        if at >= end:
            return found
        # the same point but for rounding
        together = [key for root, key in roots if root <= at * (1 + 1e-9)]
        current = min(together, key=lambda key: curves[key].slope(at))
        found.append((at, current))
