"""What computes: a device (:class:`Accelerator`), and the software on it (:class:`Stack`).

Both are made from the files of a job, by :func:`accelerator_of` and :func:`stack_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.files import DeviceFile, Recompute, StackFile, TensorOverlap
from colltool.training.measured_gemms import MeasuredGemm

# numbers by precision, or by generation of the device: (("ampere", 0.82), ("hopper", 0.81))
Pairs = tuple[tuple[str, float], ...]


class Accelerator(NamedTuple):
    """A device that computes."""

    name: str
    generation: str
    peak: Pairs  # dense FLOP/s by precision
    memory_bytes: float
    bandwidth_Bps: float
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

    The fields are those of :class:`colltool.training.files.StackFile`, which explains each.
    """

    name: str
    description: str
    assumed: tuple[str, ...]  # generations whose shares no measured kernel stands behind

    # GEMMs: share of the peak, and where a smaller one reaches half of it
    gemm: tuple[tuple[str, Pairs], ...]  # by precision and generation
    half: float
    fp8_half: float
    half_wave: float
    fp8_half_wave: float | None
    weight_gradient: float
    sustained: Pairs
    measured: tuple[MeasuredGemm, ...]  # a user's own times

    # GEMMs over several experts
    grouped: Pairs
    grouped_half: float
    grouped_k_half: float | None
    grouped_tile: float
    grouped_launch: float | None

    # attention
    flash: bool
    attention: Pairs
    attention_backward: Pairs
    attention_half_wave: float

    # elementwise kernels: bytes that they move
    elementwise: float
    elementwise_ffn: float
    backward_elementwise: float
    inside: float
    permute: float
    loss_moves: float
    cast_bytes: float
    quantize: float

    # the optimizer
    optimizer_bytes: float

    # shares of memory bandwidth
    memory_gemm: float
    fp8_memory_gemm: float | None
    memory_elementwise: float
    memory_optimizer: float

    # time beside kernels
    launch: Pairs  # of a kernel, by precision
    host_s: float
    host_moe_s: float
    routing_s: float
    routing_expert_s: float
    fixed_s: float
    jitter: float
    slowed: float | None

    # memory of a rank
    runtime_bytes: float
    group_bytes: float
    allocator: float
    loss_bytes: float
    gradient_buffers: bool
    eager_copies: bool
    quantized_inputs: bool
    last_gemm_again: bool

    # where a job does not say
    tensor_overlap: TensorOverlap
    recompute: Recompute

    def gemm_share(self, precision: str, generation: str) -> float:
        """Share of the peak that GEMMs reach; ColltoolError where it is not known."""
        shares = dict(self.gemm).get(precision)
        if shares is None:
            known = ", ".join(name for name, _ in self.gemm)
            raise ColltoolError(
                f"stack {self.name} has no efficiency for {precision}",
                fix=f"another precision ({known}), or give the stack as a mapping",
            )
        return self._share_of(shares, generation, f"GEMMs in {precision}")

    def attention_share(self, generation: str, *, backward: bool = False) -> float:
        """Share of the bf16 peak that attention reaches."""
        forward = self._share_of(self.attention, generation, "attention")
        return dict(self.attention_backward).get(generation, forward) if backward else forward

    def grouped_share(self, precision: str, generation: str) -> float:
        """Share of the peak that a GEMM over several experts reaches; that of any GEMM where the
        stack has none. A precision that the stack does not know is refused either way."""
        return dict(self.grouped).get(generation, self.gemm_share(precision, generation))

    def launch_s(self, precision: str) -> float:
        """Seconds to start a kernel; of a precision that is not listed the most of any."""
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

    def _share_of(self, shares: Pairs, generation: str, what: str) -> float:
        """Return the share of a generation; ColltoolError where there is none."""
        share = dict(shares).get(generation)
        if share is not None:
            return share
        known = ", ".join(name for name, _ in shares)
        raise ColltoolError(
            f"stack {self.name} has no efficiency for {what} on {generation}",
            fix=f"a device of {known}, another stack, or the stack as a mapping",
        )


# keys of a stack's file that its fields are called otherwise than
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
    values: dict[str, Any] = {"name": file.name or name or "stack", "measured": ()}
    for field in Stack._fields:
        if field not in values:
            values[field] = _as_pairs(attrgetter(_KEYS.get(field, field))(file))
    return Stack(**values)


def _as_pairs(value: Any) -> Any:
    """A mapping as pairs, which can be hashed, also one inside it; any other value as it is.

    >>> _as_pairs({"bf16": {"hopper": 0.81}})
    (('bf16', (('hopper', 0.81),)),)
    """
    if not isinstance(value, Mapping):
        return value
    return tuple((key, _as_pairs(inner)) for key, inner in value.items())
