"""How long a kernel runs: a roofline with the shares that a stack reaches, and what it costs to launch it."""

from __future__ import annotations

from typing import NamedTuple

from colltool.training.files.values import BYTES
from colltool.training.machine import Device, Stack

_EIGHT_BITS = ("fp8", "int8", "fp4")


class Gemm(NamedTuple):
    """(m, k) times (k, n), ``copies`` of them in one launch; ``grouped`` where each has its own weights."""

    m: float
    n: float
    k: float
    copies: int = 1
    grouped: bool = False

    @property
    def flops(self) -> float:
        """2 m n k of each."""
        return 2.0 * self.m * self.n * self.k * self.copies

    @property
    def backward(self) -> tuple[Gemm, Gemm]:
        """The gradient of the input, then that of the weight."""
        return self._replace(n=self.k, k=self.n), self._replace(m=self.n, n=self.k, k=self.m)


class Machine(NamedTuple):
    """A device under a stack, in the precision of its GEMMs."""

    device: Device
    stack: Stack
    precision: str


def gemm_s(gemm: Gemm, machine: Machine) -> float:
    """t0 + max(FLOPs / (E peak), bytes / (share of memory bandwidth)), in seconds.

    In 8 bits E is E K / (K + 512), K the inner dimension: short sums do not fill the units. Several experts are a launch each,
    and M tokens of one reach M / (M + 100) of the share: they do not fill tiles. A single expert is a GEMM like any other.
    """
    if not gemm.flops:
        return 0.0
    device, stack, precision = machine
    several = gemm.grouped and gemm.copies > 1
    share = (stack.grouped_share if several else stack.gemm_share)(precision, device.generation)
    if several:
        share *= gemm.m / (gemm.m + stack.grouped_half)
    if precision in _EIGHT_BITS:
        share *= gemm.k / (gemm.k + stack.fp8_half)
    width, out = BYTES[precision], max(2.0, BYTES[precision])
    moved = gemm.copies * (width * (gemm.m * gemm.k + gemm.k * gemm.n) + out * gemm.m * gemm.n)
    busy = max(gemm.flops / (share * device.peak_flops(precision)), moved / (stack.memory_gemm * device.bandwidth_Bps))
    return stack.launch_s(precision) * (gemm.copies if several else 1) + busy


def core_s(flops: float, machine: Machine) -> float:
    """Attention's core, in 16 bits: its share of the peak, and a launch."""
    if not flops:
        return 0.0
    device, stack, precision = machine
    if precision in _EIGHT_BITS:
        precision = "bf16"
    return stack.launch_s(precision) + flops / (stack.attention_share(device.generation) * device.peak_flops(precision))


def moved_s(size: float, machine: Machine) -> float:
    """Elementwise kernels that move so many bytes."""
    return size / (machine.stack.memory_elementwise * machine.device.bandwidth_Bps)
