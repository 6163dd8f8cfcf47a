"""Estimate of a decode step on a rank, beside the lower limit that no kernel reaches.

``max(weights / (0.9 bandwidth), FLOPs / (0.66 peak)) + 50 us a layer + max(KV / (0.9 bandwidth),
52 us a layer) + 100 us a layer with experts``: weights and KV cache at the rate that kernels reach
of memory, products at the share of the peak that large ones reach, and what a layer's small kernels,
its attention and its routing take at least.

Fitted to decode steps of dense models on one H100 SXM, PyTorch under CUDA graphs (torch 2.11,
2026-11): within -11% and +13% of ten steps. Published steps of engines with dense models, from
which no number was taken, are within 11% on H100 and H200. The time of routing stands between the
published steps of two models with experts, which would need 50 and 150 us: within -40% and +11% of
four. Other devices reach other shares: intervals are wider there, and wider still with experts.
tests/serving/test_decode_estimate.py holds all of that.
"""

from __future__ import annotations

from colltool.estimate.interval import SHARE, Basis, Interval
from colltool.serving.deployment import Deployment, StepWork
from colltool.training.model import TransformerModel
from colltool.training.stack import Accelerator

# Share of memory bandwidth that kernels of decode reach
OF_BANDWIDTH = 0.9
# Share of the dense peak that products of many tokens reach, as GEMMs of training on H100
OF_PEAK = 0.66
# Small kernels of a layer, one after the other: norms, rotary embedding, activation, products'
# ends
LAYER_S = 50e-6
# Attention of a layer at least: its kernels for the parts of a short cache
ATTENTION_S = 52e-6
# Router, permutations and grouped GEMMs of a layer with experts, besides reading their weights
EXPERTS_S = 100e-6
# Lowest and highest of nine in ten steps, as shares of the estimate:
# Dense models on H100, measured within 13% and by engines within 11%
ON_H100 = (0.8, 1.2)
# Dense models on other devices
ELSEWHERE = (0.65, 1.35)
# Models with experts, measured up to 1.7 times the estimate
WITH_EXPERTS = (0.6, 1.8)
# The device whose steps were measured, by its preset's name
MEASURED_ON = "h100"
MEASURED_STEPS = 10


def kernels_s(
    model: TransformerModel, deployment: Deployment, device: Accelerator, work: StepWork
) -> float:
    """Seconds of a step's kernels on a rank of one stage, without its network.

    Args:
        work: what the step reads and computes on such a rank.
    """
    bandwidth_Bps = OF_BANDWIDTH * device.bandwidth_Bps
    layers = model.layers / deployment.pp
    products_s = max(work.weight_bytes / bandwidth_Bps, work.flops / (OF_PEAK * work.peak_flops))
    attention_s = max(work.kv_bytes / bandwidth_Bps, ATTENTION_S * layers)
    routing_s = EXPERTS_S * model.moe_layers / deployment.pp
    return products_s + LAYER_S * layers + attention_s + routing_s


def kernels_interval(
    model: TransformerModel, device: Accelerator, seconds: float, least_s: float
) -> Interval:
    """Where nine of ten times of the kernels lie.

    Args:
        seconds: their estimate.
        least_s: their lower limit, below which the interval does not reach.
    """
    # what the steps on H100 say of other devices, or of experts, is an extrapolation
    basis: Basis = "other machine"
    if model.moe_layers:
        low, high = WITH_EXPERTS
        # published steps are whole: none was measured kernel by kernel
        reason = "no measured experts"
    elif device.name == MEASURED_ON:
        low, high = ON_H100
        basis = "interpolated"
        reason = f"{MEASURED_STEPS} measured steps"
    else:
        low, high = ELSEWHERE
        reason = "kernels measured on H100"
    return Interval(
        low_s=max(least_s, seconds * low),
        high_s=seconds * high,
        share=SHARE,
        rows=MEASURED_STEPS,
        basis=basis,
        # by name, the one part of the interval: how far the upper end is off, as a share of the estimate
        parts=(("kernels", high - 1),),
        nearest=None,
        reason=reason,
    )
