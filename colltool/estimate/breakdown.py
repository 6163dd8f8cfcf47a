"""``breakdown``: where the time of one schedule goes, beside the flat baselines."""

from __future__ import annotations

from dataclasses import replace

from colltool.algorithms.registry import row_of
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
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
    options = readings or ModelOptions()
    everything = price(fabric, primitive, size, group, options)
    listed = candidates_for(fabric, group, primitive, options)
    chosen = everything.best
    if name is not None:
        chosen = rows_at(listed, listed.named([name], [size]), size)[0]
    baselines = []
    for estimate in everything.results:
        algorithm = row_of(primitive, estimate.algorithm)
        if estimate.title != chosen.title and algorithm is not None and algorithm.baseline:
            baselines.append(estimate)
    return Breakdown(
        replace(everything, results=(chosen,)), tuple(baselines), _segments(listed, chosen)
    )


def _segments(listed: Candidates, estimate: AlgorithmEstimate) -> tuple[BestSegments, ...]:
    """The best cut of what a row pipelines."""
    size = float(estimate.bytes)
    for schedule in listed.named([estimate.spec], [size]):
        if (schedule.title, schedule.protocol) == (estimate.title, estimate.protocol):
            return best_segments(schedule, size)
    return ()
