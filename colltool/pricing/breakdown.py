"""``breakdown``: the phases of one schedule, beside the flat baselines that it is to beat."""

from __future__ import annotations

from colltool.fabric.model import Fabric
from colltool.pricing.catalogue import named_candidates
from colltool.pricing.groups import place
from colltool.pricing.price import price, rows_at
from colltool.pricing.readings import Readings
from colltool.pricing.results import Breakdown
from colltool.primitives import Primitive

_RINGS = ("ring", "outer-ring", "multi-rail-ring", "inner-ring", "dim-ring")
_BASELINES = (*_RINGS, "pairwise", "outer-pairwise", "inner-pairwise", "chain", "dim-chain", "shortest-path", "send")


def breakdown(fabric: Fabric, primitive: Primitive, size: float, ranks: int | None = None, readings: Readings | None = None,
              name: str | None = None) -> Breakdown:  # fmt: skip
    """The phases of the fastest schedule that exists, or of a named one.

    Args:
        fabric, primitive, ranks, readings: as for :func:`colltool.pricing.price.price`.
        size: bytes per rank.
        name: an algorithm; ``hierarchical`` alone is its fastest composition here.

    Raises:
        ColltoolError: as :func:`colltool.pricing.price.price`.
    """
    reading = readings or Readings()
    everything = price(fabric, primitive, size, ranks, reading)
    if name is None:
        chosen = everything.best
    else:
        candidates = named_candidates(place(fabric, ranks), primitive, reading, [name], [size])
        chosen = min(rows_at(candidates, size, reading), key=lambda row: float(row.total_s))
    baselines = [row for row in everything.results if row.algorithm in _BASELINES and row.title != chosen.title]
    return Breakdown(everything._replace(results=(chosen,)), tuple(baselines))
