"""Compression of a payload: how much smaller, whether it pays, and what more steps cost."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.primitives import AG
from colltool.training.setup import Compression, Setup
from colltool.training.traffic.call import Call

EXTRA_STEPS = {"fp16": (0.0, 0.0), "int8": (0.05, 0.10), "topk": (0.10, 0.20), "1bit": (0.20, 0.30)}
"""More steps to the same accuracy, lowest and highest, as 002's table of schemes has them."""


def ratio(scheme: str, *, block: int | None = None, keep: float | None = None, warmup: float | None = None) -> float:
    """How much smaller than 4-byte elements, eq P9. It divides the bandwidth part alone.

    fp16 2; int8 4, in blocks of b with a scale each 4b/(b+4); 1-bit 32; top-k with an index of 4 bytes each 1/(2 keep); 1-bit
    Adam with a share w of steps in full 1/(w + (1-w)/32).

    >>> ratio("int8", block=128), ratio("topk", keep=0.001)
    (3.878787878787879, 500.0)
    """
    if scheme == "int8" and block is not None:
        return 4 * block / (block + 4)
    if scheme == "topk":
        return 1 / (2 * (keep or 1.0))
    if scheme == "1bit-adam":
        whole = warmup or 0.0
        return 1 / (whole + (1 - whole) / 32)
    return {"fp16": 2.0, "int8": 4.0, "1bit": 32.0}[scheme]


def ratio_of(given: Compression) -> float:
    """Of a job's compression."""
    return ratio(given.scheme, block=given.block, keep=given.keep, warmup=given.warmup)


def times_fewer(setup: Setup) -> float:
    """How much smaller the payload of a job's compression gets, from the bytes that an element has there; never larger."""
    assert setup.compression is not None
    width = setup.shard.grad_bytes if setup.compression.on == "dp" else setup.precision.activation_bytes
    return max(1.0, ratio_of(setup.compression) * width / 4)


def squeezes(given: Compression, call: Call) -> bool:
    """Whether a call is compressed: of dp what carries gradients, weights are gathered as they are; of others all they send."""
    if given.on == "dp":
        return call.dimension in ("dp", "expert dp") and call.primitive is not AG
    return call.dimension == given.on


class Compressed(NamedTuple):
    """A compressed collective: its seconds, the largest overhead that would still pay, and whether this one does."""

    total_s: float
    speedup: float
    largest_overhead_s: float
    pays: bool


def compressed(collective_s: float, ratio: float, overhead_s: float, fixed_s: float = 0.0) -> Compressed:
    """t' = fixed + (t - fixed)/r + overhead, eq P10: pays where the overhead is less than what the payload saves.

    Args:
        collective_s: t, without compression.
        ratio: r.
        overhead_s: of compressing and expanding.
        fixed_s: what of t is no bandwidth: latency, launch.
    """
    after = fixed_s + (collective_s - fixed_s) / ratio + overhead_s
    largest = (collective_s - fixed_s) * (1 - 1 / ratio)
    return Compressed(after, collective_s / after, largest, overhead_s < largest)


def time_to_accuracy(steps: float, compute_s: float, collective_s: float, extra_steps: float = 0.0) -> float:
    """S (1 + x)(T_c + t), eq P11: seconds to the same accuracy with a share x more steps."""
    return steps * (1 + extra_steps) * (compute_s + collective_s)


def break_even_extra_steps(compute_s: float, before_s: float, after_s: float) -> float:
    """The share of more steps at which compression gains nothing: (T_c + t)/(T_c + t') - 1.

    >>> round(break_even_extra_steps(0.3, 0.2, 0.05), 4)
    0.4286
    """
    return (compute_s + before_s) / (compute_s + after_s) - 1
