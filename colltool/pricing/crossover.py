"""``crossover``: every size at which the faster of two algorithms changes, solved and then confirmed by pricing.

A price is ``a + b·M + c·sqrt(M)``, so two prices are equal where a quadratic in sqrt(M) vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise, product
from math import inf, log2, sqrt
from typing import TypeVar

from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.pricing.catalogue import all_candidates, by_title, every_bench, library_runs, named_candidates
from colltool.pricing.compose import Workbench
from colltool.pricing.costed import Costed, Curve
from colltool.pricing.groups import Placed, place
from colltool.pricing.price import mode, model
from colltool.pricing.readings import Readings
from colltool.pricing.results import Crossing, Crossover, Pair, Winner
from colltool.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive
from colltool.units import MAX_SIZE

Key = TypeVar("Key", bound=Hashable)

_USUAL: dict[Primitive, tuple[str, ...]] = {
    AR: ("ring", "tree", "double-binary-tree", "dim-ring", "dim-ring-bidirectional"),
    AG: ("ring", "recursive-doubling", "dim-ring", "dim-ring-bidirectional"),
    RS: ("ring", "recursive-halving", "dim-ring", "dim-ring-bidirectional"),
    A2A: ("pairwise", "bruck", "shortest-path", "dim-by-dim"),
    BC: ("chain", "binomial", "pipelined-tree", "dim-chain", "dim-chain-bidirectional"),
    REDUCE: ("chain", "binomial", "pipelined-tree", "dim-chain", "dim-chain-bidirectional"),
}
"""What ``crossover`` compares unless told: the first that can run here, against each other one that can."""

_GRID = [10 ** (k / 12) for k in range(18 * 12 + 1)]
"""Sizes from 1 byte to 1 EB, twelve to a decade."""


def crossover(fabric: Fabric, primitive: Primitive = AR, ranks: int | None = None, readings: Readings | None = None,
              names: Sequence[str] = ()) -> Crossover:  # fmt: skip
    """Compare the first algorithm with each of the others.

    Args:
        fabric, primitive, ranks, readings: as for :func:`colltool.pricing.price.price`.
        names: at least two algorithms; when empty the usual ones, and no pairs where fewer than two of those can run.

    Raises:
        ColltoolError: fewer than two algorithms, one that cannot run here, or a reading without a closed form.
    """
    reading = readings or Readings()
    placed = place(fabric, ranks)
    compared = _compared(placed, primitive, reading, names)
    pairs = tuple(_pair(one, other, reading) for one in compared[:1] for other in compared[1:])
    single = [candidates[0] for candidates in compared if len(candidates) == 1]  # each protocol has a balance of its own
    balance = {costed.title: size for costed in single if (size := _balance(costed.curve(reading))) is not None}
    candidates = all_candidates(placed, primitive, reading, _probes(reading))
    real = [costed for costed in candidates if costed.status != "hypothetical"] or candidates
    winners = tuple(_winners(real, every_bench(placed, primitive, reading), reading))
    return Crossover(fabric.name, primitive, placed.ranks, mode(reading), model(reading, primitive), pairs, winners, balance)


def winners_among(placed: Placed, primitive: Primitive, readings: Readings, names: Sequence[str]) -> list[Winner]:
    """Who is fastest at which size among the named algorithms, under which protocol; intervals from 1 byte on.

    Raises:
        ColltoolError: an algorithm that is unknown or cannot run on the group.
    """
    candidates = named_candidates(placed, primitive, readings, names, _probes(readings))
    return _winners(candidates, every_bench(placed, primitive, readings, names), readings)


def positive_roots(first: Curve, second: Curve) -> list[float]:
    """Every M > 0 at which two curves are equal, in bytes, ascending; none where they coincide."""
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


def _compared(placed: Placed, primitive: Primitive, readings: Readings, names: Sequence[str]) -> list[list[Costed]]:
    """The schedules to compare: of each its candidates, one under every protocol."""
    if not names:
        usual = library_runs(placed, primitive) or _USUAL.get(primitive, ())
        names = [name for name in usual if _runs(placed, primitive, readings, name)]
        if len(names) < 2:
            return []  # who wins at which size is still an answer
    found = [costed for name in dict.fromkeys(names) for costed in named_candidates(placed, primitive, readings, [name])]
    if len({costed.title for costed in found}) < 2:
        raise ColltoolError("a crossover needs two algorithms", where="--algorithm", fix="name two: --algorithm ring,tree")
    if readings.pipelining == "optimal" and any(costed.phases == "pipelined" for costed in found):
        what = "streamed phases with optimal segments have no closed form"
        raise ColltoolError(what, where="--pipelining", fix="take --phases sequential or --pipelining asymptotic")
    return list(by_title(found).values())


def _runs(placed: Placed, primitive: Primitive, readings: Readings, name: str) -> bool:
    try:
        return bool(named_candidates(placed, primitive, readings, [name]))
    except ColltoolError:
        return False


def _pair(one: Sequence[Costed], other: Sequence[Costed], readings: Readings) -> Pair:
    """The crossings of two schedules. The prices on both sides of a root decide whether it is one."""
    curves = product([costed.curve(readings) for costed in one], [costed.curve(readings) for costed in other])
    roots = sorted({root for a, b in curves for root in positive_roots(a, b)})
    if readings.pipelining == "optimal":
        roots = _confirmed(one, other, roots, readings)
    probes = [1.0, *(root for root in roots if 1 < root < MAX_SIZE), MAX_SIZE]
    faster = [_faster(one, other, sqrt(low * high), readings) for low, high in pairwise(probes)]
    crossings = tuple(
        Crossing(root, below, above)
        for root, (below, above) in zip(probes[1:-1], pairwise(faster), strict=True)
        if below != above
    )
    dominates = None if crossings else faster[0]
    return Pair(one[0].title, other[0].title, crossings, dominates, _approximations(one, other))


def _confirmed(one: Sequence[Costed], other: Sequence[Costed], roots: Sequence[float], readings: Readings) -> list[float]:
    """Where the faster one changes when P is a whole number: bisected between sizes around the smooth roots."""
    sizes = sorted({*_GRID, *(near for root in roots for near in (root * 0.99, root * 1.01) if 1 < near < MAX_SIZE)})
    faster = [_faster(one, other, size, readings) for size in sizes]
    changes = []
    for (low, high), (below, above) in zip(pairwise(sizes), pairwise(faster), strict=True):
        if below != above:
            changes.append(_bisected(low, high, lambda size: _faster(one, other, size, readings), below))
    return changes


def _bisected(low: float, high: float, fastest: Callable[[float], object], below: object) -> float:
    """The size between two at which ``fastest`` stops to answer ``below``."""
    while high / low > 1 + 1e-12:
        middle = sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if fastest(middle) == below else (low, middle)
    return high


def _faster(one: Sequence[Costed], other: Sequence[Costed], size: float, readings: Readings) -> str:
    """The title of the faster schedule, each under its fastest protocol."""
    ours, theirs = (min(costed.seconds(size, readings) for costed in candidates) for candidates in (one, other))
    return one[0].title if ours <= theirs else other[0].title


def _approximations(one: Sequence[Costed], other: Sequence[Costed]) -> dict[str, float]:
    """The textbook sizes for ring against tree on one class of links, in bytes; none where protocols change the class."""
    if one[0].algorithm != "ring" or other[0].algorithm != "tree" or len(other) > 1 or len(other[0].parts) != 1:
        return {}
    charge, n = other[0].parts[0].charge, one[0].ranks
    scale = n * charge.alpha_s * charge.effective_Bps
    return {"N*alpha*BW/log2N": scale / log2(n), "N*alpha*BW": scale}


def _balance(curve: Curve) -> float | None:
    """The size at which latency and bandwidth take the same time: n_α·α·BW/n_β."""
    return curve.a / curve.b if curve.c == 0 and curve.b > 0 else None


def _probes(readings: Readings) -> list[float]:
    """Sizes at which to look for the fastest choices of compositions: all where prices have no closed form, else the ends."""
    return _GRID if readings.pipelining == "optimal" else [1.0, MAX_SIZE]


def _winners(candidates: Sequence[Costed], benches: Sequence[Workbench], readings: Readings) -> list[Winner]:
    """Who is fastest at which size. A choice that would win somewhere shows at an edge of an interval: look there."""
    if readings.pipelining == "optimal":
        return _sampled(candidates, readings)
    known = {_key(costed): costed for costed in candidates}
    while True:
        winners = _envelope(list(known.values()), readings)
        found = _fastest_at([winner.from_bytes for winner in winners], benches)
        new = {key: costed for key, costed in found.items() if key not in known and costed.status != "hypothetical"}
        if not new:
            return winners
        known |= new


def _key(costed: Costed) -> tuple[str, str]:
    """What tells candidates apart: the schedule and the protocol."""
    return costed.title, costed.protocol


def _sampled(candidates: Sequence[Costed], readings: Readings) -> list[Winner]:
    """Winners where prices have no closed form: at sampled sizes, their borders bisected."""

    def fastest(size: float) -> tuple[str, str]:
        return _key(min(candidates, key=lambda costed: costed.seconds(size, readings)))

    winners = [Winner(1.0, None, *fastest(1.0))]
    for low, high in pairwise(_GRID):
        last = (winners[-1].algorithm, winners[-1].protocol)
        if fastest(high) != last:
            border = _bisected(low, high, fastest, last)
            winners[-1] = winners[-1]._replace(to_bytes=border)
            winners.append(Winner(border, None, *fastest(high)))
    return winners


def _fastest_at(sizes: Sequence[float], benches: Sequence[Workbench]) -> dict[tuple[str, str], Costed]:
    return {_key(costed): costed for bench in benches for size in sizes for costed in [bench.fastest(size)]}


def _envelope(candidates: Sequence[Costed], readings: Readings) -> list[Winner]:
    """Who is lowest from 1 byte on."""
    cuts = lower_envelope({_key(costed): costed.curve(readings) for costed in candidates}, 1.0)
    ends = [*(start for start, _ in cuts[1:]), None]
    return [Winner(start, end, *key) for (start, key), end in zip(cuts, ends, strict=True)]


def lower_envelope(curves: Mapping[Key, Curve], start: float) -> list[tuple[float, Key]]:
    """Which of several lines is lowest from which size on, bytes; ties go to the flatter one, then to the first."""
    current = min(curves, key=lambda key: (curves[key].at(start), curves[key].b))
    found = [(start, current)]
    while True:
        size, here = found[-1][0], curves[current]
        flatter = [key for key, curve in curves.items() if curve.b < here.b]
        roots = {key: root for key in flatter for root in positive_roots(here, curves[key]) if root > size}
        at = min(roots.values(), default=inf)
        if at > MAX_SIZE:
            return found
        together = (key for key, root in roots.items() if root <= at * (1 + 1e-9))  # the same point but for rounding
        current = min(together, key=lambda key: curves[key].b)
        found.append((at, current))
