"""Compression of a job's collectives: bytes saved, time gained, and the extra steps that it costs.

:func:`times_fewer` says how many times fewer bytes a job sends, :func:`compressed_times` what a collective
then takes. :func:`gradient_compression` compares a whole step with the same step uncompressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG
from colltool.training.calls import Call
from colltool.training.parallel_config import Compression, ParallelConfig

if TYPE_CHECKING:
    from colltool.training.step_time import TrainingStep

# lowest and highest share of extra steps to the same accuracy, by scheme; a proposal counts the
# highest, a job says its own
EXTRA_STEPS = {"fp16": (0.0, 0.0), "int8": (0.05, 0.10), "topk": (0.10, 0.20), "1bit": (0.20, 0.30)}


# compression ratios of 4-byte elements, for schemes without options
_RATIOS = {"fp16": 2.0, "int8": 4.0, "1bit": 32.0}


def ratio_of(compression: Compression) -> float:
    """Compression ratio of 4-byte elements, which divides the bandwidth term only: the realised one
    where a job gives it, else that of the scheme's format.

    fp16 2; int8 4, with a scale per block of b 4b/(b+4); 1-bit 32; top-k with 4-byte indices 1/(2
    keep); 1-bit Adam with a share w of uncompressed steps 1/(w + (1-w)/32).

    >>> ratio_of(Compression("dp", "int8", block=128)), ratio_of(Compression("dp", "topk", keep=0.001))
    (3.878787878787879, 500.0)
    """
    if compression.realised is not None:
        return compression.realised
    if compression.scheme == "int8" and compression.block is not None:
        return 4 * compression.block / (compression.block + 4)
    if compression.scheme == "topk":
        assert compression.keep is not None  # a job file requires it
        return 1 / (2 * compression.keep)
    if compression.scheme == "1bit-adam":
        assert compression.warmup is not None  # a job file requires it
        return 1 / (compression.warmup + (1 - compression.warmup) / 32)
    return _RATIOS[compression.scheme]


def times_fewer(config: ParallelConfig) -> float:
    """How many times fewer bytes a job sends: the ratio for the width of its elements, at least 1,
    or the realised one."""
    compression = config.compression
    assert compression is not None
    if compression.realised is not None:
        return compression.realised
    # schemes give their ratio for elements of 4 bytes
    element_bytes: float = config.precision.activation_bytes
    if compression.on == "dp":
        element_bytes = config.shard.grad_bytes
    return max(1.0, ratio_of(compression) * element_bytes / 4)


def is_compressed(compression: Compression, call: Call) -> bool:
    """Whether a call is compressed: on dp only gradients, not the gathered weights; on other
    dimensions everything."""
    if compression.on == "dp":
        return call.dimension in ("dp", "expert dp") and call.primitive is not AG
    return call.dimension == compression.on


def compressed_times(
    collective_s: float, ratio: float, overhead_s: float, fixed_s: float = 0.0
) -> tuple[float, float]:
    """Return the seconds of a compressed collective, fixed + (t - fixed)/r + overhead, and those of
    overhead above which compression does not pay.

    Args:
        collective_s: t, uncompressed.
        ratio: r, how many times fewer bytes are sent.
        overhead_s: to compress and to decompress.
        fixed_s: the part of t that is not bandwidth, such as latency and launch.
    """
    bandwidth_s = collective_s - fixed_s
    return fixed_s + bandwidth_s / ratio + overhead_s, bandwidth_s * (1 - 1 / ratio)


def time_to_accuracy(
    steps: float, compute_s: float, collective_s: float, extra_steps: float = 0.0
) -> float:
    """Seconds to an accuracy: S (1 + x)(T_c + t), with a share x of extra steps."""
    return steps * (1 + extra_steps) * (compute_s + collective_s)


def break_even_extra_steps(compute_s: float, before_s: float, after_s: float) -> float:
    """The share of extra steps at which compression gains nothing: (T_c + t)/(T_c + t') - 1.

    >>> round(break_even_extra_steps(0.3, 0.2, 0.05), 4)
    0.4286
    """
    return (compute_s + before_s) / (compute_s + after_s) - 1


class GradientCompression(NamedTuple):
    """What compression does to a step and to its longest compressed call."""

    given: Compression  # as the job asks for it
    ratio: float  # of 4-byte elements
    times_fewer: float  # for the element width that is sent
    each_s: float  # of the longest call
    plain_each_s: float  # the same uncompressed
    largest_overhead_s: float  # a larger one makes that call slower than uncompressed
    step_s: float
    plain_step_s: float  # the same step uncompressed
    control_s: float  # the step with a free network
    break_even_extra_steps: float  # share of extra steps at which a run gains nothing

    @property
    def pays(self) -> bool:
        """Whether the longest call is faster than uncompressed."""
        return self.given.overhead_s < self.largest_overhead_s

    @property
    def gains(self) -> bool:
        """Whether a run to the same accuracy is shorter than uncompressed."""
        return self.given.extra_steps < self.break_even_extra_steps

    def run_s(self, steps: int) -> float:
        """Seconds to the accuracy of ``steps`` uncompressed steps, extra steps included."""
        return time_to_accuracy(
            steps, self.control_s, self.step_s - self.control_s, self.given.extra_steps
        )

    def plain_run_s(self, steps: int) -> float:
        """Seconds of ``steps`` uncompressed steps."""
        return time_to_accuracy(steps, self.control_s, self.plain_step_s - self.control_s)


def gradient_compression(
    config: ParallelConfig, step: TrainingStep, plain_step: TrainingStep
) -> GradientCompression | None:
    """Compare a step with the same step uncompressed; None without compression.

    Raises:
        ColltoolError: the compressed dimension sends nothing.
    """
    compression = config.compression
    if compression is None:
        return None
    compressed_calls = [call for call in plain_step.sent if is_compressed(compression, call.call)]
    if not compressed_calls:
        raise ColltoolError(
            f"compression is on {compression.on}, and no collective of the job is of it",
            fix="another dimension of compression.on, or no compression",
        )
    longest = max(compressed_calls, key=lambda call: call.each_s)
    sent_ratio = times_fewer(config)
    each_s, largest_s = compressed_times(
        longest.each_s, sent_ratio, compression.overhead_s, fixed_s=longest.cost.latency_s
    )
    break_even = 0.0
    if step.step_s:
        break_even = break_even_extra_steps(
            step.control_s,
            before_s=plain_step.step_s - plain_step.control_s,
            after_s=step.step_s - step.control_s,
        )
    return GradientCompression(
        given=compression,
        ratio=ratio_of(compression),
        times_fewer=sent_ratio,
        each_s=each_s,
        plain_each_s=longest.each_s,
        largest_overhead_s=largest_s,
        step_s=step.step_s,
        plain_step_s=plain_step.step_s,
        control_s=step.control_s,
        break_even_extra_steps=break_even,
    )
