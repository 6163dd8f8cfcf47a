"""Compression of a payload: how much smaller, whether it pays, and what more steps cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG
from colltool.training.calls import Call
from colltool.training.parallel_config import Compression, ParallelConfig

if TYPE_CHECKING:
    from colltool.training.step_time import TrainingStep

EXTRA_STEPS = {"fp16": (0.0, 0.0), "int8": (0.05, 0.10), "topk": (0.10, 0.20), "1bit": (0.20, 0.30)}
"""More steps to the same accuracy, lowest and highest."""


def ratio(scheme: str, *, block: int | None = None, keep: float | None = None, warmup: float | None = None) -> float:
    """How much smaller than 4-byte elements. It divides the bandwidth part alone.

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
    return ratio(given.scheme, block=given.block, keep=given.keep, warmup=given.warmup)


def times_fewer(config: ParallelConfig) -> float:
    """How much smaller the payload of a job's compression gets, from the bytes that an element has there; never larger."""
    assert config.compression is not None
    width = config.shard.grad_bytes if config.compression.on == "dp" else config.precision.activation_bytes
    return max(1.0, ratio_of(config.compression) * width / 4)


def is_compressed(given: Compression, call: Call) -> bool:
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
    """t' = fixed + (t - fixed)/r + overhead: pays where the overhead is less than what the payload saves.

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
    """S (1 + x)(T_c + t): seconds to the same accuracy with a share x more steps."""
    return steps * (1 + extra_steps) * (compute_s + collective_s)


def break_even_extra_steps(compute_s: float, before_s: float, after_s: float) -> float:
    """The share of more steps at which compression gains nothing: (T_c + t)/(T_c + t') - 1.

    >>> round(break_even_extra_steps(0.3, 0.2, 0.05), 4)
    0.4286
    """
    return (compute_s + before_s) / (compute_s + after_s) - 1


class GradientCompression(NamedTuple):
    """A job's compression, priced.

    ``ratio`` is against elements of 4 bytes (P9), ``times_fewer`` what the wires carry less here. Of the call that takes longest
    ``each_s`` and ``plain_each_s`` with and without it, ``largest_overhead_s`` below which it pays (P10). ``plain_step_s``: the
    step without. ``break_even_extra_steps``: the share of more steps at which a run takes as long as without (P11).
    """

    given: Compression
    ratio: float
    times_fewer: float
    each_s: float
    plain_each_s: float
    largest_overhead_s: float
    step_s: float
    plain_step_s: float
    control_s: float
    break_even_extra_steps: float

    @property
    def pays(self) -> bool:
        """Whether a call is faster with it, its overhead included."""
        return self.given.overhead_s < self.largest_overhead_s

    @property
    def gains(self) -> bool:
        return self.given.extra_steps < self.break_even_extra_steps

    def run_s(self, steps: int) -> float:
        """Seconds to the accuracy that so many steps without compression reach, the extra steps included."""
        return time_to_accuracy(steps, self.control_s, self.step_s - self.control_s, self.given.extra_steps)

    def plain_run_s(self, steps: int) -> float:
        """Seconds of so many steps without compression."""
        return time_to_accuracy(steps, self.control_s, self.plain_step_s - self.control_s)


def gradient_compression(config: ParallelConfig, now: TrainingStep, without: TrainingStep) -> GradientCompression | None:
    """What compression does to a step, given the same step without it; None where nothing is compressed.

    Raises:
        ColltoolError: compression is on a dimension that sends nothing.
    """
    given = config.compression
    if given is None:
        return None
    calls = [one for stage in without.stages for one in stage.sent if is_compressed(given, one.call)]
    longest = max(calls, key=lambda one: one.each_s, default=None)
    if longest is None:
        fix = "another dimension of compression.on, or no compression"
        raise ColltoolError(f"compression is on {given.on}, and no collective of the job is of it", fix=fix)
    each_s = longest.each_s
    small = compressed(each_s, times_fewer(config), given.overhead_s, fixed_s=longest.cost.latency_s)
    network = without.step_s - without.control_s, now.step_s - now.control_s
    return GradientCompression(
        given=given,
        ratio=ratio_of(given),
        times_fewer=times_fewer(config),
        each_s=small.total_s,
        plain_each_s=each_s,
        largest_overhead_s=small.largest_overhead_s,
        step_s=now.step_s,
        plain_step_s=without.step_s,
        control_s=now.control_s,
        break_even_extra_steps=break_even_extra_steps(now.control_s, *network) if now.step_s else 0.0,
    )
