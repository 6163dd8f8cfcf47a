"""``crossover``: every size at which the faster of two algorithms changes, solved and then confirmed by pricing.

Prices are ``a + b·M + c·sqrt(M)``, so two are equal where a quadratic in sqrt(M) vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise, product
from math import inf, sqrt
from typing import TypeVar

from colltool.algorithms.registry import algorithms, approximation
from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import AR, Primitive
from colltool.estimate.algorithm_estimate import Curve, Pieces
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import Candidates, by_title, candidates_for
from colltool.estimate.cost_model import CostModel
from colltool.estimate.hierarchical import HierarchicalCandidates
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import mode, model
from colltool.estimate.results import AlgorithmPair, Crossing, Crossover, Winner
from colltool.fabric.model import Fabric

Key = TypeVar("Key", bound=Hashable)

_GRID = [10 ** (k / 12) for k in range(18 * 12 + 1)]
"""1 byte to 1 EB, twelve sizes per decade."""


def crossover(fabric: Fabric, primitive: Primitive = AR, group: AnyGroup = None, readings: Readings | None = None,
              names: Sequence[str] = ()) -> Crossover:  # fmt: skip
    """Compare the first algorithm with each of the others.

    Without ``names`` the usual algorithms are compared, with no pairs if fewer than two can run.

    Raises:
        ColltoolError: fewer than two names, one that cannot run here, or a reading without a closed form.
    """
    reading = readings or Readings()
    listed = candidates_for(fabric, group, primitive, reading)
    compared = _compared(listed, names)
    pairs = tuple(_pair(one, other, reading) for one in compared[:1] for other in compared[1:])
    running, everything = listed.library, _everything(listed, ())
    single = [candidates[0] for candidates in compared if len(candidates) == 1]  # each protocol has a balance of its own
    return Crossover(
        fabric=fabric.name,
        primitive=primitive,
        group=listed.placed.placement,
        mode=mode(reading),
        model=model(reading, primitive),
        pairs=pairs,
        winners=tuple(_won(listed, everything, ())),
        balance={one.title: size for one in single if (size := one.balance) is not None},
        overrides=fabric.overrides,
        library=running.name if running else "",
        library_leads=running is None or any(one.rank_class == 0 for one in everything),
        uneven=_on_one_side(compared),
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
    found = listed.named(dict.fromkeys(names))
    if len({one.title for one in found}) < 2:
        fix = f"name two: {given('algorithms', ['ring', 'tree'])}"
        raise ColltoolError("a crossover needs two algorithms", argument="algorithms", fix=fix)
    if listed.readings.pipelining == "optimal" and any(one.phases == "pipelined" for one in found):
        what = "streamed phases with optimal segments have no closed form"
        fix = f"take {given('phases', 'sequential')} or {given('pipelining', 'asymptotic')}"
        raise ColltoolError(what, argument="pipelining", fix=fix)
    return list(by_title(found).values())


def _on_one_side(compared: Sequence[Sequence[CostModel]]) -> bool:
    foreign = any(one.not_selected_reason for candidates in compared for one in candidates)
    return foreign and len({any(one.measured for one in candidates) for candidates in compared}) > 1


def _runs(listed: Candidates, name: str) -> bool:
    try:
        return bool(listed.named([name]))
    except ColltoolError:
        return False


def _pair(one: Sequence[CostModel], other: Sequence[CostModel], readings: Readings) -> AlgorithmPair:
    curves = product(*([line for costed in candidates for _, line in costed.pieces] for candidates in (one, other)))
    roots = sorted({root for a, b in curves for root in positive_roots(a, b)})
    if readings.pipelining == "optimal":
        roots = _confirmed(one, other, roots)
    probes = [1.0, *(root for root in roots if 1 < root < MAX_SIZE), MAX_SIZE]
    faster = [_faster(one, other, sqrt(low * high)) for low, high in pairwise(probes)]
    crossings = tuple(
        Crossing(root, below, above)
        for root, (below, above) in zip(probes[1:-1], pairwise(faster), strict=True)
        if below != above
    )
    dominates = None if crossings else faster[0]
    return AlgorithmPair(
        a=one[0].title,
        b=other[0].title,
        crossings=crossings,
        dominates=dominates,
        approximations=_approximations(one, other),
        a_spec=one[0].choice.spec,
        b_spec=other[0].choice.spec,
    )


def _confirmed(one: Sequence[CostModel], other: Sequence[CostModel], roots: Sequence[float]) -> list[float]:
    sizes = sorted({*_GRID, *(near for root in roots for near in (root * 0.99, root * 1.01) if 1 < near < MAX_SIZE)})
    faster = [_faster(one, other, size) for size in sizes]
    changes = []
    for (low, high), (below, above) in zip(pairwise(sizes), pairwise(faster), strict=True):
        if below != above:
            changes.append(_bisected(low, high, lambda size: _faster(one, other, size), below))
    return changes


def _bisected(low: float, high: float, fastest: Callable[[float], object], below: object) -> float:
    while high / low > 1 + 1e-12:
        middle = sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if fastest(middle) == below else (low, middle)
    return high


def _faster(one: Sequence[CostModel], other: Sequence[CostModel], size: float) -> str:
    ours, theirs = (min(costed.seconds(size) for costed in candidates) for candidates in (one, other))
    return one[0].title if ours <= theirs else other[0].title


def _approximations(one: Sequence[CostModel], other: Sequence[CostModel]) -> dict[str, float]:
    """Textbook crossover sizes, bytes; empty if several protocols or parts make them inapplicable."""
    textbook = approximation(one[0].primitive, one[0].choice.base, other[0].choice.base)
    if textbook is None or len(other) > 1 or len(other[0].parts) != 1:
        return {}
    charge = other[0].parts[0].cost
    return textbook(one[0].ranks, charge.alpha_s, charge.effective_Bps)


def _probes(readings: Readings) -> list[float]:
    return _GRID if readings.pipelining == "optimal" else [1.0, MAX_SIZE]


def winners(listed: Candidates, names: Sequence[str] = ()) -> list[Winner]:
    """The winner at each size among what the user can run (or, if nothing, the best other class); with ``names`` among these.

    Compositions are searched at the interval edges, where a choice not yet known would show if it won anywhere.
    """
    return _won(listed, _everything(listed, names), names)


def _everything(listed: Candidates, names: Sequence[str]) -> list[CostModel]:
    probes = _probes(listed.readings)
    return listed.named(names, probes) if names else listed.all(probes)


def _won(listed: Candidates, everything: Sequence[CostModel], names: Sequence[str]) -> list[Winner]:
    best = min(one.rank_class for one in everything)
    known = {_key(one): one for one in everything if one.rank_class == best}
    if listed.readings.pipelining == "optimal":
        return _sampled(list(known.values()))
    benches = listed.benches(names)
    while True:
        found = _envelope(list(known.values()))
        more = _fastest_at([winner.from_bytes for winner in found], benches)
        new = {key: one for key, one in more.items() if key not in known and one.rank_class == best}
        if not new:
            return found
        known |= new


def _key(costed: CostModel) -> tuple[str, str]:
    return costed.title, costed.protocol


def _sampled(candidates: Sequence[CostModel]) -> list[Winner]:
    def fastest(size: float) -> tuple[str, str]:
        return _key(min(candidates, key=lambda costed: costed.seconds(size)))

    known = {_key(one): one for one in candidates}
    winners = [_winner(1.0, None, known[fastest(1.0)])]
    for low, high in pairwise(_GRID):
        last = (winners[-1].algorithm, winners[-1].protocol)
        if fastest(high) != last:
            border = _bisected(low, high, fastest, last)
            winners[-1] = winners[-1]._replace(to_bytes=border)
            winners.append(_winner(border, None, known[fastest(high)]))
    return winners


def _fastest_at(sizes: Sequence[float], benches: Sequence[HierarchicalCandidates]) -> dict[tuple[str, str], CostModel]:
    return {_key(costed): costed for bench in benches for size in sizes for costed in [bench.fastest(size)]}


def _envelope(candidates: Sequence[CostModel]) -> list[Winner]:
    """The lower envelope from 1 byte on, piece by piece, with neighbouring intervals of one winner joined."""
    known = {_key(one): one for one in candidates}
    starts = sorted({max(1.0, start) for one in candidates for start, _ in one.pieces})
    cuts: list[tuple[float, tuple[str, str]]] = []
    for start, end in pairwise([*starts, MAX_SIZE]):
        within = {key: _from(one.pieces, start) for key, one in known.items()}
        for cut in lower_envelope(within, start, end):
            if not cuts or cut[1] != cuts[-1][1]:
                cuts.append(cut)
    ends = [*(start for start, _ in cuts[1:]), None]
    return [_winner(start, end, known[key]) for (start, key), end in zip(cuts, ends, strict=True)]


def _from(pieces: Pieces, start: float) -> Curve:
    return next(line for begins, line in reversed(pieces) if begins <= start)


def _winner(start: float, end: float | None, one: CostModel) -> Winner:
    return Winner(start, end, one.title, one.protocol, one.choice.spec, one.balance)


def lower_envelope(curves: Mapping[Key, Curve], start: float, end: float = MAX_SIZE) -> list[tuple[float, Key]]:
    """Which curve is lowest from which size up to ``end``, bytes; ties go to the flatter one, then to the first."""
    current = min(curves, key=lambda key: (curves[key].at(start), curves[key].slope(start)))
    found = [(start, current)]
    while True:
        size, here = found[-1][0], curves[current]
        # Where another is flatter it comes out below; just past the last border rounding may find that border again.
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
        together = [key for root, key in roots if root <= at * (1 + 1e-9)]  # the same point but for rounding
        current = min(together, key=lambda key: curves[key].slope(at))
        found.append((at, current))
