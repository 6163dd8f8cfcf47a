"""How finely to cut a payload that streams through a schedule: the P* of each pipelined part."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.primitives import split_seconds
from colltool.estimate.cost_model import CostModel


class BestSegments(NamedTuple):
    """The best number of segments of a pipelined part.

    Args:
        tier, level: where the part runs.
        exact: ``P* = sqrt((F-1)·b·M/(α·BW))``, at which the time t(P) with P segments is least.
        segments: the whole number next to it that is faster.
        seconds: what the part takes with these, filling included, without launch.
    """

    tier: str
    level: str
    exact: float
    segments: int
    seconds: float


def best_segments(schedule: CostModel, size: float) -> tuple[BestSegments, ...]:
    """P* of every pipelined part of a schedule at a size in bytes. Empty where nothing streams."""
    best = []
    for part in schedule.parts:
        pipeline = part.pipeline
        # one step fills a pipeline of fill 1: cutting wins nothing
        if pipeline is None or pipeline.fill <= 1:
            continue
        cost = part.cost
        message = (size * part.payload, cost.alpha_s, cost.effective_Bps)
        exact = float(pipeline.exact_segments(*message))
        segments = int(pipeline.best_segments(*message))
        seconds = sum(map(float, split_seconds(*pipeline.counts(segments), *message)))
        best.append(BestSegments(cost.tier, cost.level, exact, segments, seconds))
    return tuple(best)
