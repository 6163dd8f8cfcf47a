"""``price``: every algorithm that can run on a group, fastest first, and why the others cannot."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from colltool.algorithms.composed import compositions
from colltool.algorithms.registry import algorithms, find
from colltool.cost import Number
from colltool.engine.compose import Workbench, why_not_composed, workbenches
from colltool.engine.placement import Placed, flat_group, place
from colltool.engine.plan import Plan, flat_plan
from colltool.engine.readings import Readings
from colltool.engine.results import Infeasible, Model, Price, PriceList
from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.primitives import Primitive
from colltool.units import MAX_SIZE

STANDARD_SIZES = (1e3, 64e3, 1e6, 16e6, 256e6, 1e9)


def price(fabric: Fabric, primitive: Primitive, size: Number, ranks: int | None = None, readings: Readings | None = None,
          only: Sequence[str] = ()) -> Price:  # fmt: skip
    """Price one primitive on one group.

    Args:
        fabric: where.
        primitive: what.
        size: bytes per rank by nccl-tests' convention; a float, or a one-dimensional array of floats.
        ranks: N; all of the fabric when None.
        readings: of the model; the defaults when None.
        only: names of algorithms to restrict to, such as ``ring`` or ``hierarchical:ring/ring``; all when empty.

    Returns:
        Rows sorted by total time, ties by registry order; for arrays of sizes in registry order, with arrays inside.

    Raises:
        ColltoolError: a group that does not fit, a size out of range, an algorithm that is unknown or cannot run here.
    """
    reading = readings or Readings()
    placed = place(fabric, ranks)
    _check_size(size)
    single = isinstance(size, float)
    probes = _probes(size)
    chosen = named_plans(placed, primitive, reading, only, probes) if only else all_plans(placed, primitive, reading, probes)
    rows = [plan.at(size, reading) for plan in chosen]
    if single:
        rows.sort(key=lambda row: float(row.total_s))
    cannot = () if only else infeasible(placed, primitive, reading, {plan.algorithm for plan in chosen})
    return Price(fabric.name, primitive, placed.ranks, size, mode(reading), model(reading, primitive), tuple(rows), cannot)


def price_list(fabric: Fabric, primitive: Primitive, sizes: Sequence[float], ranks: int | None = None,
               readings: Readings | None = None, only: Sequence[str] = ()) -> PriceList:  # fmt: skip
    """One price per size; without sizes the winner and runner-up, of those that exist, at :data:`STANDARD_SIZES`."""
    prices = tuple(price(fabric, primitive, size, ranks, readings, only) for size in sizes or STANDARD_SIZES)
    return PriceList(prices if sizes else tuple(_two_best(one) for one in prices), winners_only=not sizes)


def _two_best(one: Price) -> Price:
    real = [row for row in one.results if row.status != "hypothetical"]
    return one._replace(results=tuple(real[:2] or one.results[:2]))


def mode(readings: Readings) -> str:
    """``ideal`` or ``realistic``."""
    return "ideal" if readings.ideal else "realistic"


def model(readings: Readings, primitive: Primitive) -> Model:
    """The readings in force for a primitive, its own default filled in."""
    own = next((row.phases for row in compositions(primitive)), "sequential")
    phases = readings.phases or own
    r = readings
    return Model(r.pipelining, phases, r.placement, r.ring_alpha, r.tree_beta, r.order)


def flat_plans(placed: Placed, primitive: Primitive, readings: Readings) -> list[Plan]:
    """A plan for every registered algorithm that runs on the whole group at once."""
    group, reach = flat_group(placed, readings)
    overhead = placed.fabric.launch_overhead
    return [flat_plan(row, group, reach, readings, overhead) for row in algorithms(primitive) if row.why_not(group) is None]


def all_plans(placed: Placed, primitive: Primitive, readings: Readings, sizes: Sequence[float]) -> list[Plan]:
    """The flat schedules, and of each composition the fastest at any of the sizes and the textbook one."""
    plans = flat_plans(placed, primitive, readings)
    for bench in workbenches(placed, primitive, readings):
        plans += _shown(bench, sizes)
    if not plans:
        raise ColltoolError(f"no algorithm for {primitive.spoken} runs on {placed.fabric.name}")
    return plans


def named_plans(
    placed: Placed, primitive: Primitive, readings: Readings, names: Sequence[str], sizes: Sequence[float] = ()
) -> list[Plan]:
    """The plans of exactly these algorithms.

    A composition without choices is the fastest at each of ``sizes`` and the textbook one, as in the full list.

    Raises:
        ColltoolError: unknown, or cannot run on this group; with the reason.
    """
    return [plan for name in names for plan in _named(placed, primitive, readings, _typed(name), sizes)]


def _typed(name: str) -> str:
    """``hierarchical (ring / ring)``, as tables print it, in the form that options take: ``hierarchical:ring/ring``."""
    base, paren, choice = name.partition(" (")
    return f"{base}:{choice.rstrip(')').split(',')[0].replace(' ', '')}" if paren else name


def _named(placed: Placed, primitive: Primitive, readings: Readings, name: str, sizes: Sequence[float]) -> list[Plan]:
    base, colon, choice = name.partition(":")
    if colon and not choice:
        fix = f"name one algorithm per tier: {base}:ring/ring"
        raise ColltoolError(f"'{name}' ends where a choice is due", where="--algorithm", fix=fix)
    composed = [row for row in compositions(primitive) if row.name == base]
    if composed:
        benches = workbenches(placed, primitive, readings, only=base)
        if not benches:
            raise ColltoolError(f"{base} cannot run here: {why_not_composed(placed)}", where="--algorithm")
        return [plan for bench in benches for plan in ([bench.named(choice)] if choice else _shown(bench, sizes))]
    row = find(primitive, base, [row.name for row in compositions(primitive)])
    if choice:
        raise ColltoolError(f"'{base}' takes no choice of algorithms, got ':{choice}'", where="--algorithm")
    group, reach = flat_group(placed, readings)
    reason = row.why_not(group)
    if reason is not None:
        raise ColltoolError(f"{base} cannot run here: {reason}", where="--algorithm", fix="price without --algorithm lists all")
    return [flat_plan(row, group, reach, readings, placed.fabric.launch_overhead)]


def _shown(bench: Workbench, sizes: Sequence[float]) -> list[Plan]:
    """Of a composition: the fastest at any of the sizes, then the textbook one."""
    plans = [bench.fastest(size) for size in sizes] + [bench.usual()]
    return list({plan.detail: plan for plan in plans}.values())


def infeasible(placed: Placed, primitive: Primitive, readings: Readings, priced: Collection[str]) -> tuple[Infeasible, ...]:
    """Every algorithm and composition that cannot run here, with the reason, in registry order; ``priced`` are those that can."""
    group, _ = flat_group(placed, readings)
    flat = [Infeasible(row.name, reason) for row in algorithms(primitive) if (reason := row.why_not(group)) is not None]
    composed = [row.name for row in compositions(primitive) if row.name not in priced]
    return (*flat, *(Infeasible(name, why_not_composed(placed)) for name in composed))


def _check_size(size: Number) -> None:
    least, most = (size, size) if isinstance(size, float) else (size.min(), size.max())
    if not 1 <= least <= most <= MAX_SIZE:  # also false for NaN
        raise ColltoolError("sizes must be finite and between 1 byte and 1 EB", where="size")


def _probes(size: Number) -> list[float]:
    """Sizes at which to look for the fastest composition: the size itself, or the range of an array in powers of two."""
    if isinstance(size, float):
        return [size]
    low, high = float(size.min()), float(size.max())
    probes = [low]
    while probes[-1] * 2 < high:
        probes.append(probes[-1] * 2)
    return [*probes, high]
