"""What computes: a device (:class:`Accelerator`), and the software on it (:class:`Stack`).

Both are made from the files of a job, by :func:`accelerator_of` and :func:`stack_of`, or of a shipped
name, and can be hashed: times of kernels are cached by them. :mod:`roofline` and :mod:`compute_times` use the shares
and times, :mod:`memory` and :mod:`updates` the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.files import DeviceFile, Recompute, StackFile, TensorOverlap
from colltool.training.files.presets import read_device, read_stack
from colltool.training.measured_gemms import MeasuredGemm

# a mapping that can be hashed, of numbers by precision or by generation of the device:
# (("ampere", 0.82), ("hopper", 0.81))
Pairs = tuple[tuple[str, float], ...]


class Accelerator(NamedTuple):
    """A device that computes."""

    name: str
    generation: str  # such as "hopper"; what a stack gives its shares for
    peak: Pairs  # dense FLOP/s by precision
    memory_bytes: float
    bandwidth_Bps: float  # of its memory
    units: int = 0  # multiprocessors; 0: any shape fills the device
    host_Bps: float = 0.0  # one way to the memory of its host; 0: not known

    def peak_flops(self, precision: str) -> float:
        """Dense FLOP/s in a precision; ColltoolError where the device has none."""
        rate = dict(self.peak).get(precision)
        if rate is not None:
            return rate
        has = ", ".join(known for known, _ in self.peak)
        raise ColltoolError(
            f"{self.name} has no peak for {precision}", fix=f"precision: {{compute: one of {has}}}"
        )


class Stack(NamedTuple):
    """What software reaches of a device, and what it costs beside its kernels.

    A share is of 1. The fields are those of :class:`colltool.training.files.StackFile`, by other
    names where :data:`_KEYS` says so.
    """

    name: str
    description: str
    assumed: tuple[str, ...]  # generations whose shares no measured kernel stands behind

    # GEMMs of (m, k) x (k, n): share of the peak, and where a smaller one reaches half of it
    # share that a large one reaches, by precision and generation
    gemm: tuple[tuple[str, Pairs], ...]
    half: float  # k at which one reaches half of that share
    fp8_half: float  # the same in 8 bits
    half_wave: float  # tiles of 128 x 256 a multiprocessor at which one reaches half of it
    fp8_half_wave: float | None  # the same in 8 bits; None: as in 16
    weight_gradient: float  # share that is left where the result adds to a gradient in 32 bits
    sustained: Pairs  # share that is left at the device's power limit, by generation
    measured: tuple[MeasuredGemm, ...]  # a user's own times

    # GEMMs over several experts, beside what holds for one
    grouped: Pairs  # share of the peak by generation; empty: that of any GEMM
    grouped_half: float  # tokens of an expert at which one reaches half of that share
    grouped_k_half: float | None  # k at which it does; None: as any GEMM
    grouped_tile: float  # tokens that those of an expert are rounded up to; 0: not rounded
    grouped_launch: float | None  # seconds to start all experts; None: a launch for each

    # attention
    flash: bool  # whether it is fused, so that scores are not written out
    attention: Pairs  # share of the bf16 peak by generation
    attention_backward: Pairs  # the same of the backward kernel; without a generation as forward
    attention_half_wave: float  # blocks of 128 queries a multiprocessor at half of that share

    # elementwise kernels: what they move
    elementwise: float  # elements forward a token and layer, in units of hidden
    elementwise_ffn: float  # the same in units of the width of an FFN
    backward_elementwise: float  # times as much backward
    inside: float  # share of ``elementwise`` in tensor parallel regions
    permute: float  # elements of a routed token that sorting by expert moves, in units of its width
    loss_moves: float  # bytes of a logit that the loss moves each way
    cast_bytes: float  # bytes a parameter and micro-batch, where weights in 32 bits are cast
    quantize: float  # bytes an element that is cast to 8 bits for a GEMM

    # the optimizer
    optimizer_bytes: float  # bytes a parameter that an update by Adam moves

    # shares of memory bandwidth that kernels reach
    memory_gemm: float
    fp8_memory_gemm: float | None  # None: as in 16 bits
    memory_elementwise: float
    memory_optimizer: float

    # time beside kernels
    launch: Pairs  # seconds to start a kernel, by precision
    host_s: float  # of the host for a dense layer and micro-batch; a layer takes no less
    host_moe_s: float  # the same of a layer with experts
    routing_s: float  # forward of a layer with experts, beside its kernels
    routing_expert_s: float  # more for each expert of the rank
    fixed_s: float  # of a step
    jitter: float  # share of a step a doubling of devices beyond 8
    slowed: float | None  # share by which communication slows compute; None: channels say

    # memory of a rank
    runtime_bytes: float  # beside tensors, on one device
    group_bytes: float  # more for each group that a rank communicates in
    allocator: float  # share of activations, logits and gathered layers that is held beyond them
    loss_bytes: float  # bytes of a logit that the loss keeps, beside what the head wrote
    gradient_buffers: bool  # whether gradients have buffers from the start of a step
    eager_copies: bool  # whether each elementwise kernel keeps inputs of its own
    quantized_inputs: bool  # whether GEMMs keep their inputs in their own precision
    last_gemm_again: bool  # whether recomputation repeats the last GEMM of an FFN, which none needs

    # where a job does not say
    tensor_overlap: TensorOverlap
    recompute: Recompute

    def gemm_share(self, precision: str, generation: str) -> float:
        """Share of the peak that large GEMMs reach; ColltoolError where it is not known."""
        shares = dict(self.gemm).get(precision)
        if shares is None:
            known = ", ".join(name for name, _ in self.gemm)
            raise ColltoolError(
                f"stack {self.name} has no efficiency for {precision}",
                fix=f"another precision ({known}), or give the stack as a mapping",
            )
        return self._share_of(shares, generation, f"GEMMs in {precision}")

    def attention_share(self, generation: str, *, backward: bool = False) -> float:
        """Share of the bf16 peak that attention reaches; ColltoolError where it is not known."""
        forward = self._share_of(self.attention, generation, "attention")
        return dict(self.attention_backward).get(generation, forward) if backward else forward

    def grouped_share(self, precision: str, generation: str) -> float:
        """Share of the peak that a GEMM over several experts reaches; that of any GEMM where the
        stack has none. A precision that the stack does not know is refused either way."""
        return dict(self.grouped).get(generation, self.gemm_share(precision, generation))

    def launch_s(self, precision: str) -> float:
        """Seconds to start a kernel; in a precision that is not listed, the longest of the others."""
        by_precision = dict(self.launch)
        return by_precision.get(precision, max(by_precision.values()))

    def knows(self, device: Accelerator, precision: str) -> bool:
        """Whether the stack has shares for a device in a precision."""
        generation = device.generation
        try:
            gemms = self.gemm_share(precision, generation)
            return min(gemms, self.attention_share(generation)) > 0
        except ColltoolError:
            return False

    def _share_of(self, shares: Pairs, generation: str, kernels: str) -> float:
        """Return the share of a generation; ColltoolError, about these ``kernels``, where there is
        none."""
        share = dict(shares).get(generation)
        if share is not None:
            return share
        known = ", ".join(name for name, _ in shares)
        raise ColltoolError(
            f"stack {self.name} has no efficiency for {kernels} on {generation}",
            fix=f"a device of {known}, another stack, or the stack as a mapping",
        )


# where the value of a field is in a stack's file, for fields that are not keys of it
_KEYS = {
    "flash": "attention.flash",
    "attention": "attention.efficiency",
    "attention_backward": "attention.backward",
    "attention_half_wave": "attention.half_wave",
    "host_s": "host",
    "host_moe_s": "host_moe",
    "routing_s": "routing",
    "routing_expert_s": "routing_expert",
    "fixed_s": "fixed",
    "runtime_bytes": "runtime",
    "group_bytes": "group_memory",
}


def accelerator_of(file: DeviceFile, name: str = "") -> Accelerator:
    """A device from its file; ``name`` where the file has none."""
    return Accelerator(
        file.name or name or "device",
        file.generation,
        _as_pairs(file.peak),
        memory_bytes=file.memory,
        bandwidth_Bps=file.bandwidth,
        units=file.units or 0,
        host_Bps=file.host or 0.0,
    )


def stack_of(file: StackFile, name: str = "") -> Stack:
    """A stack from its file; ``name`` where the file has none."""
    # a user's times come from another file, later
    values: dict[str, Any] = {"name": file.name or name or "stack", "measured": ()}
    for field in Stack._fields:
        if field not in values:
            values[field] = _as_pairs(attrgetter(_KEYS.get(field, field))(file))
    return Stack(**values)


def shipped_device(name: str) -> Accelerator:
    """The shipped device of a name; ColltoolError where there is none."""
    # no folder: a shipped name is not a file of the user's
    return accelerator_of(read_device(name, Path()), name)


def shipped_stack(name: str) -> Stack:
    """The shipped stack of a name; ColltoolError where there is none."""
    return stack_of(read_stack(name, Path()), name)


def _as_pairs(value: Any) -> Any:
    """A mapping as pairs, which can be hashed, also one inside it; any other value as it is.

    >>> _as_pairs({"bf16": {"hopper": 0.81}})
    (('bf16', (('hopper', 0.81),)),)
    """
    if not isinstance(value, Mapping):
        return value
    return tuple((key, _as_pairs(inner)) for key, inner in value.items())
