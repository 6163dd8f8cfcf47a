"""``price``: every algorithm that can run on a group, fastest first, and why the others cannot."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.algorithms.composed import compositions
from colltool.cost import Number
from colltool.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.pricing.catalogue import all_candidates, by_title, infeasible, named_candidates
from colltool.pricing.costed import Costed
from colltool.pricing.groups import place
from colltool.pricing.merge import fastest
from colltool.pricing.readings import Readings
from colltool.pricing.results import Model, Price, PriceList, Row
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
        Rows sorted by total time, ties by registry order; for arrays of sizes in registry order, with arrays inside. Where
        the fabric lists protocols, each row is the fastest of them, size by size, and names it.

    Raises:
        ColltoolError: a group that does not fit, a size out of range, an algorithm that is unknown or cannot run here.
    """
    reading = readings or Readings()
    placed = place(fabric, ranks)
    _check_size(size)
    single = isinstance(size, float)
    probes = _probes(size)
    chosen = (
        named_candidates(placed, primitive, reading, only, probes) if only else all_candidates(placed, primitive, reading, probes)
    )
    rows = rows_at(chosen, size, reading)
    if single:
        rows.sort(key=lambda row: float(row.total_s))
    cannot = () if only else infeasible(placed, primitive, {costed.algorithm for costed in chosen})
    return Price(fabric.name, primitive, placed.ranks, size, mode(reading), model(reading, primitive), tuple(rows), cannot)


def rows_at(candidates: Sequence[Costed], size: Number, readings: Readings) -> list[Row]:
    """Each schedule's price under its fastest protocol, in the order of the candidates."""
    return [fastest([costed.at(size, readings) for costed in same]) for same in by_title(candidates).values()]


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
