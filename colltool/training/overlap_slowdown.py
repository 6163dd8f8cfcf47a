"""How much longer compute takes while a collective runs beside it.

A library's kernels hold one unit (multiprocessor) a channel while they run. A kernel beside them
takes ``c · channels / units`` more time, with one constant for each kind of kernel:

* GEMMs and attention run in blocks that hold a unit, often a pair of them. A channel takes its
  unit and disturbs the pair that it is of, so they lose more than the unit; never less than it:
  ``channels / (units - channels)``.
* Elementwise kernels are bound by memory. Their blocks and the channels share its bandwidth by
  how many of each ask.

Fitted to kernels beside 8, 16, 24 and 32 copying blocks, measured on one H100 SXM (torch 2.11,
2026-11). With one number of blocks left out the times are within 2.9% in the mean for GEMMs, 5.0%
for attention and 0.8% for elementwise kernels. tests/training/test_overlap_slowdown.py holds that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from colltool.base.primitives import AG
from colltool.training.compute_times import LayerTimes, StageTimes
from colltool.training.overlap import PricedCall
from colltool.training.parallel_config import ParallelConfig

# c of each kind of kernel
GEMM = 2.1
ATTENTION = 1.75
ELEMENTWISE = 0.83
# Share of the units where the library's channels are not known: NCCL's 16 of 132 across nodes of
# H100. GEMMs then lose 20% of the overlapped time; arXiv:2507.03114 measured 18.9% in the mean over
# A100, H100, MI210 and MI250.
USUAL_SHARE = 16 / 132
# units that reduce-scatters in split GEMMs hold: NeMo, recipes/tp_overlap_configs/userbuffers.py,
# has 24 for the projection and 16 for the FFN on H100
SPLIT_UNITS = 20
# largest share of a device that channels are counted to hold: NCCL's most is 64
MOST_SHARE = 0.5


class Kernels(NamedTuple):
    """Seconds of compute by kind of kernel."""

    gemm_s: float
    attention_s: float = 0.0  # scores and their sum over values
    elementwise_s: float = 0.0


def slowdown(kernels: Kernels, share: float) -> float:
    """More time that kernels take beside channels on a share of the units, as a share of their own.

    >>> round(slowdown(Kernels(1.0), 16 / 132), 3)
    0.255
    """
    total_s = sum(kernels)
    if not total_s or not share:
        return 0.0
    fewer_units = share / (1 - share)  # more time by the lost units alone
    more_s = kernels.gemm_s * max(GEMM * share, fewer_units)
    more_s += kernels.attention_s * max(ATTENTION * share, fewer_units)
    more_s += kernels.elementwise_s * ELEMENTWISE * share
    return more_s / total_s


def share_held(config: ParallelConfig, priced: PricedCall) -> float:
    """The share of a device's units that a call holds.

    0 without a device or with one that has no such units, as TPUs: their DMA engines send. In
    split GEMMs Transformer Engine gathers by copy engines, which hold none either.
    """
    device = config.device
    if device is None or not device.units:
        return 0.0
    units = units_held(priced)
    if units is None:
        return USUAL_SHARE
    return min(MOST_SHARE, units / device.units)


def units_held(priced: PricedCall) -> int | None:
    """The units that a call holds on a device that has any; None where the library's are not
    known."""
    if priced.call.hides != "split gemm":
        return priced.cost.channels
    if priced.call.primitive is AG:
        return 0
    return SPLIT_UNITS


def slowed_s(config: ParallelConfig, times: StageTimes, calls: Iterable[PricedCall]) -> float:
    """Seconds of compute that a stage loses in a step beside its calls.

    ``overlap.sm_share`` of a job says how much of the hidden time; else channels and kernels do. A
    call that takes L seconds beside compute that takes 1 + x times as long covers L / (1 + x) of it.
    Where the compute ends first the call is exposed anyway, and slower compute only fills that time.
    """
    share = config.overlap.sm_share
    if share is not None:
        return share * sum(priced.hidden_s for priced in calls)
    lost_s = 0.0
    for priced in calls:
        held = share_held(config, priced)
        if held and priced.hidden_s:
            more = slowdown(_covering_kernels(priced, times), held)
            lost_s += max(0.0, more * priced.hidden_s - priced.overflow_s) / (1 + more)
    return lost_s


def _covering_kernels(priced: PricedCall, times: StageTimes) -> Kernels:
    """Return the kernels that a call hides under: only the shares of their seconds count, so 1.0
    stands for a single kind."""
    call = priced.call
    layer = times.dense or times.moe
    if call.per == "moe_layer":
        layer = times.moe
    # times of a whole step: its kinds are not known, and most of a step is GEMMs
    if layer is None or call.hides in ("weight gradient", "shared expert", "split gemm"):
        return Kernels(1.0)
    if call.hides == "attention block":
        return Kernels(0.0, 1.0)
    if call.hides == "steady pipeline" or call.phase == "update":
        return _of_layer(layer, forward=True, backward=True)
    return _of_layer(layer, forward=not priced.backward, backward=priced.backward)


def _of_layer(layer: LayerTimes, *, forward: bool, backward: bool) -> Kernels:
    """A layer's kernels, forward or backward with recomputation or both."""
    seconds = []
    for part in layer:
        part_s = 0.0
        if forward:
            part_s += part.forward_s
        if backward:
            part_s += part.backward_s + part.again_s
        seconds.append(part_s)
    # the kinds of kernels of ``LayerTimes``, in their order
    gemms_s, core_s, elementwise_s, experts_s = seconds
    return Kernels(gemms_s + experts_s, core_s, elementwise_s)
