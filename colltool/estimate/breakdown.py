"""``breakdown``: the phases of one schedule, beside the flat baselines that it is to beat."""

from __future__ import annotations

from dataclasses import replace

from colltool.algorithms.registry import row_of
from colltool.base.primitives import Primitive
from colltool.estimate.catalogue import catalogue
from colltool.estimate.price import price, rows_at
from colltool.estimate.readings import Readings
from colltool.estimate.results import Breakdown
from colltool.estimate.row import Row
from colltool.estimate.who import AnyGroup
from colltool.fabric.model import Fabric


def breakdown(fabric: Fabric, primitive: Primitive, size: float, group: AnyGroup = None, readings: Readings | None = None,
              name: str | None = None) -> Breakdown:  # fmt: skip
    """The phases of the fastest schedule that exists, or of a named one.

    Args:
        fabric, primitive, group, readings: as for :func:`colltool.estimate.price.price`.
        size: bytes per rank.
        name: an algorithm; ``hierarchical`` alone is its fastest composition here.

    Raises:
        ColltoolError: as :func:`colltool.estimate.price.price`.
    """
    reading = readings or Readings()
    everything = price(fabric, primitive, size, group, reading)
    if name is None:
        chosen = everything.best
    else:
        listed = catalogue(fabric, group, primitive, reading)
        chosen = rows_at(listed, listed.named([name], [size]), size)[0]
    baselines = [row for row in everything.results if _is_baseline(primitive, row) and row.title != chosen.title]
    return Breakdown(replace(everything, results=(chosen,)), tuple(baselines))


def _is_baseline(primitive: Primitive, row: Row) -> bool:
    """Whether it is a flat schedule that its row calls a baseline."""
    algorithm = row_of(primitive, row.algorithm)
    return algorithm is not None and algorithm.baseline
