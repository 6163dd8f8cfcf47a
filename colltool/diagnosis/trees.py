"""The bar of an all-reduce that NCCL may run as trees or as rings (:func:`share_of_rings`).

On two hosts trees send each byte once, and are priced so; by version and topology rings run there,
which reach no more than the line rate. Either is healthy: on A100 89 GB/s of busbw over 4 x 200G, a
line rate of 100 GB/s, as rings may reach (nccl-tests 152); 57 over 2 x 200G, of 50 (nccl 837), and on
GH200 158 over 4 x 200G (Alps), as trees alone do.
"""

from __future__ import annotations

from colltool.diagnosis.networks import RINGS, may_run_trees
from colltool.diagnosis.results import ValidatedSeries
from colltool.diagnosis.scenario import Scenario
from colltool.fabric.model import Fabric

# time of rings over that of trees from which on the usual bar would fail healthy rings
TOO_SLOW_FOR_THE_BAR = 1.3


def share_of_rings(fabric: Fabric, judged: ValidatedSeries) -> float:
    """The factor by which the bar of a series is lowered: the price over the time of rings, at the
    largest size, where rings are so much slower that the usual bar would fail them; else 1."""
    series = judged.series
    # without a network, or with one algorithm alone
    if len(fabric.tiers) < 2 or not may_run_trees(fabric, series):
        return 1.0
    if not _network_was_set(fabric):
        return 1.0
    rings_s = Scenario(fabric, only=RINGS).times(series)
    if rings_s is None:  # they cannot run
        return 1.0
    # sizes ascend
    priced_s = judged.points[-1].predicted_s
    share = priced_s / rings_s[-1]
    if share < 1 / TOO_SLOW_FOR_THE_BAR:
        return share
    return 1.0


def _network_was_set(fabric: Fabric) -> bool:
    """Whether the user or the times set the bandwidth between hosts: only then is it open what
    runs, as with the NICs of the fabric file it is known."""
    outer = fabric.tiers[-1].name
    for key, _ in fabric.overrides:
        tier, _, name = key.partition(".")
        if tier == outer and name.endswith("bandwidth"):
            return True
    return False
