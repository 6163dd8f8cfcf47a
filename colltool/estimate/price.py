"""``price``: every algorithm that can run on a group, fastest first, and why the others cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from colltool.algorithms.composed import compositions
from colltool.base.arrays import ranked
from colltool.base.cost import Number
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.base.units import MAX_SIZE
from colltool.estimate.catalogue import Catalogue, by_title, catalogue
from colltool.estimate.costed import Costed
from colltool.estimate.lower_bound import lower_bound_notes
from colltool.estimate.measured_range import range_notes
from colltool.estimate.merge import fastest
from colltool.estimate.readings import Phases, Readings
from colltool.estimate.results import Answer, Model, Price, PriceList
from colltool.estimate.row import Row
from colltool.estimate.running import running_on
from colltool.estimate.who import AnyGroup
from colltool.fabric.model import Fabric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STANDARD_SIZES = (1e3, 64e3, 1e6, 16e6, 256e6, 1e9)


def price(fabric: Fabric, primitive: Primitive, size: Number, group: AnyGroup = None, readings: Readings | None = None,
          only: Sequence[str] = ()) -> Price:  # fmt: skip
    """Price one primitive on one group.

    Args:
        fabric: where.
        primitive: what.
        size: bytes per rank by nccl-tests' convention; a float, or a one-dimensional array of floats.
        group: N consecutive ranks, all of the fabric when None; or :class:`colltool.estimate.who.Who`.
        readings: of the model; the defaults when None.
        only: names of algorithms to restrict to, such as ``ring`` or ``hierarchical:ring/ring``; all when empty.

    Returns:
        Rows that somebody can run, sorted by total time, ties by registry order; for arrays of sizes in registry order, with
        arrays inside; then the others in the same way. Where the fabric lists protocols, each row is the fastest of them, size
        by size, and names it.

    Raises:
        ColltoolError: a group that does not fit, a size out of range, an algorithm that is unknown or cannot run here.
    """
    reading = readings or Readings()
    listed = catalogue(fabric, group, primitive, reading)
    least, most = _bounds(size)
    probes = [least] if least == most else _probes(least, most)
    chosen = listed.named(only, probes) if only else listed.all(probes)
    running = running_on(fabric)
    return Price(
        fabric=fabric.name,
        primitive=primitive,
        group=listed.placed.seats,
        bytes=size,
        mode=mode(reading),
        model=model(reading, primitive),
        results=tuple(rows_at(listed, chosen, size)),
        infeasible=() if only else listed.infeasible({one.choice.base for one in chosen}),
        overrides=fabric.overrides,
        library=Answer(running.name) if running else None,
    )


def rows_at(listed: Catalogue, candidates: Sequence[Costed], size: Number) -> list[Row]:
    """Each schedule under its fastest protocol, with what a reader should know of the size.

    What somebody can run first, then the other statuses; within each the fastest first, arrays in the order of the candidates.
    """
    rows = [fastest([one.at(size) for one in same]) for same in by_title(candidates).values()]
    rows = range_notes(rows, listed.placed, listed.primitive)
    arrays = not isinstance(size, float)
    if not arrays:
        rows = [rows[index] for index in ranked([float(row.total_s) for row in rows])]
    rows = sorted(rows, key=lambda row: row.standing)
    return lower_bound_notes(rows, candidates, listed.placed, listed.primitive)


def price_list(fabric: Fabric, primitive: Primitive, sizes: Sequence[float], group: AnyGroup = None,
               readings: Readings | None = None, only: Sequence[str] = ()) -> PriceList:  # fmt: skip
    """One price per size; without sizes the winner and runner-up, of those that may lead, at :data:`STANDARD_SIZES`."""
    prices = tuple(price(fabric, primitive, size, group, readings, only) for size in sizes or STANDARD_SIZES)
    return PriceList(prices if sizes else tuple(_two_best(one) for one in prices), winners_only=not sizes)


def _two_best(one: Price) -> Price:
    return replace(one, results=one.leading[:2] or one.results[:2])


def mode(readings: Readings) -> str:
    """``ideal`` or ``realistic``."""
    return "ideal" if readings.ideal else "realistic"


@lru_cache(maxsize=64)
def model(readings: Readings, primitive: Primitive) -> Model:
    """The readings in force for a primitive, its own default filled in."""
    own: Phases = next((row.phases for row in compositions(primitive)), "sequential")
    return Model(readings.in_force(own), Readings().in_force(own))


def _bounds(size: Number) -> tuple[float, float]:
    """The least and the largest size.

    Raises:
        ColltoolError: not between 1 byte and 1 EB.
    """
    least, most = (size, size) if isinstance(size, float) else _extremes(size)
    if not 1 <= least <= most <= MAX_SIZE:  # also false for NaN
        raise ColltoolError(
            "sizes must be finite and between 1 byte and 1 EB", argument="size", fix="bytes per rank, such as 16e6"
        )
    return least, most


_BLOCK = 2**16  # numbers that stay in the processor's cache: one walk through memory instead of two


def _extremes(sizes: NDArray[np.float64]) -> tuple[float, float]:
    """The least and the largest of an array; NaN where it holds one."""
    from numpy import array

    blocks = [sizes[start : start + _BLOCK] for start in range(0, len(sizes), _BLOCK)]
    ends = array([(block.min(), block.max()) for block in blocks])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def _probes(least: float, most: float) -> list[float]:
    """Sizes at which to look for the fastest composition: the range of an array in powers of two."""
    probes = [least]
    while probes[-1] * 2 < most:
        probes.append(probes[-1] * 2)
    return [*probes, most]
