"""``breakdown``: where the time of one schedule goes, beside the flat baselines."""

from __future__ import annotations

from dataclasses import replace

from colltool.algorithms.registry import row_of
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.candidates import Candidates, candidates_for
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price, rows_at
from colltool.estimate.results import Breakdown
from colltool.estimate.segments import BestSegments, best_segments
from colltool.fabric.model import Fabric


def breakdown(
    fabric: Fabric,
    primitive: Primitive,
    size: float,
    group: AnyGroup = None,
    readings: ModelOptions | None = None,
    name: str | None = None,
) -> Breakdown:
    """The phases of the fastest schedule, or of a named one; ``hierarchical`` alone means its
    fastest composition here."""
    options = readings or USUAL
    price_of_all = price(fabric, primitive, size, group, options)
    candidates = candidates_for(fabric, group, primitive, options)
    chosen = price_of_all.best
    if name is not None:
        chosen = rows_at(candidates, candidates.named([name], [size]), size)[0]
    baselines = []
    for estimate in price_of_all.results:
        algorithm = row_of(primitive, estimate.algorithm)
        if estimate.title != chosen.title and algorithm is not None and algorithm.baseline:
            baselines.append(estimate)
    return Breakdown(
        replace(price_of_all, results=(chosen,)), tuple(baselines), _segments(candidates, chosen)
    )


def _segments(candidates: Candidates, estimate: AlgorithmEstimate) -> tuple[BestSegments, ...]:
    """The best cut of what a row pipelines."""
    size = float(estimate.bytes)
    for schedule in candidates.named([estimate.spec], [size]):
        if (schedule.title, schedule.protocol) == (estimate.title, estimate.protocol):
            return best_segments(schedule, size)
    return ()
