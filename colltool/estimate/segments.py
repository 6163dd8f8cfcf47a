"""How finely to cut a payload that streams through a schedule: the P* of each pipelined part.

A :class:`~colltool.base.primitives.Pipeline` of depth L, fill F and load b streams M bytes in P
segments in t(P) = (L+P-1)·α + b·(F+P-1)/P · M/BW. F is the number of segments that pass the busiest
port until the pipeline is full, b what each loads that port with.
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.primitives import split_seconds
from colltool.estimate.cost_model import CostModel


class BestSegments(NamedTuple):
    """The best number of segments of a pipelined part.

    Args:
        tier, level: where the part runs.
        exact: ``P* = sqrt((F-1)·b·M/(α·BW))``, no whole number, at which t(P) is least; M is the
            payload that reaches the part, α and BW include contention.
        segments: the whole number next to it that is faster, at least 1.
        seconds: t(P) of these, filling included, without launch.
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
        # a pipeline of fill 1 is full with its first segment: cutting it further wins nothing
        if pipeline is None or pipeline.fill <= 1:
            continue
        cost = part.cost
        payload = size * part.payload
        alpha_s = cost.alpha_s
        rate_Bps = cost.effective_Bps
        exact = pipeline.exact_segments(payload, alpha_s, rate_Bps)
        segments = int(pipeline.best_segments(payload, alpha_s, rate_Bps))
        n_alpha, n_beta = pipeline.counts(segments)
        # of all α and of all bytes
        seconds = sum(split_seconds(n_alpha, n_beta, payload, alpha_s, rate_Bps))
        best.append(BestSegments(cost.tier, cost.level, float(exact), segments, float(seconds)))
    return tuple(best)
