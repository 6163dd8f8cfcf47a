"""The bar of an all-reduce that NCCL may run as trees or as rings.

On two hosts trees send each byte once, and are priced so; by version and topology rings run there,
and either is healthy: 89 and 57 GB/s of busbw over 4 and 2 x 200G on A100 (nccl-tests 152, nccl
837), 158 over 4 x 200G on GH200 (Alps).
"""

from __future__ import annotations

from colltool.diagnosis.networks import RINGS, may_run_trees
from colltool.diagnosis.results import ValidatedSeries
from colltool.diagnosis.scenario import Scenario
from colltool.fabric.model import Fabric

# time of rings over that of trees from which on the usual bar would fail healthy rings
TOO_SLOW_FOR_THE_BAR = 1.3


def share_of_rings(fabric: Fabric, judged: ValidatedSeries) -> float:
    """What rings reach of the price, where they are so much slower than it that the usual bar would
    fail them: the bar is lowered by that. 1 for any other series."""
    series = judged.series
    if len(fabric.tiers) < 2:
        return 1.0
    if not may_run_trees(fabric, series):
        return 1.0
    if not _network_was_set(fabric):
        return 1.0
    rings_s = Scenario(fabric, only=RINGS).times(series)
    if rings_s is None:
        return 1.0
    priced_s = judged.points[-1].predicted_s
    share = priced_s / rings_s[-1]
    if share < 1 / TOO_SLOW_FOR_THE_BAR:
        return share
    return 1.0


def _network_was_set(fabric: Fabric) -> bool:
    """Whether the bandwidth between hosts is not the fabric file's: with the NICs of the file it is
    known whether trees or rings run."""
    outer = fabric.tiers[-1].name
    for key, _ in fabric.overrides:
        tier, _, name = key.partition(".")
        if tier == outer and name.endswith("bandwidth"):
            return True
    return False
