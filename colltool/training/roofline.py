"""Seconds of kernels by a roofline: FLOPs at the share of a device's peak that a stack reaches, or
bytes at a share of its memory bandwidth.

:func:`gemm_s` of a :class:`Gemm`, :func:`attention_core_s` of attention's scores, and :func:`moved_s`
of elementwise kernels; :func:`power_limit_factor` is how much longer GEMMs take at a device's power limit.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, exp, log
from typing import NamedTuple

from colltool.training.files import BYTES
from colltool.training.stack import Accelerator, Stack

# precisions of GEMMs beside which attention and the head stay in 16 bits
EIGHT_BITS = ("fp8", "int8", "fp4")


class Gemm(NamedTuple):
    """A product of (m, k) and (k, n), whose sizes are means that need not be whole."""

    m: float  # tokens, forward
    n: float
    k: float
    copies: int = 1  # such products in one launch
    grouped: bool = False  # whether each copy has weights of its own, as experts have
    summed: bool = False  # whether it is added to a gradient in 32 bits

    @property
    def flops(self) -> float:
        """FLOPs of all copies."""
        return 2.0 * self.m * self.n * self.k * self.copies

    def moved(self, precision: str) -> float:
        """Bytes of the inputs and results of all copies, inputs in a precision."""
        input_width = BYTES[precision]
        # results stay in 16 bits where the inputs are in 8
        result_width = 4.0 if self.summed else max(2.0, input_width)
        inputs = self.m * self.k + self.k * self.n
        results = self.m * self.n
        moved = input_width * inputs
        moved += result_width * results
        return self.copies * moved

    @property
    def backward(self) -> tuple[Gemm, Gemm]:
        """The GEMMs of the gradients of its input and of its weight."""
        of_input = self._replace(n=self.k, k=self.n)
        of_weight = self._replace(m=self.n, n=self.k, k=self.m, summed=True)
        return of_input, of_weight


class Roofline(NamedTuple):
    """What kernel times depend on besides sizes."""

    device: Accelerator
    stack: Stack  # the software on it
    precision: str  # of GEMMs

    def computing_s(self, flops: float, share: float) -> float:
        """Seconds of FLOPs at a share of the peak."""
        peak = self.device.peak_flops(self.precision)
        return flops / (share * peak)

    def moving_s(self, size: float, share: float) -> float:
        """Seconds of bytes at a share of memory bandwidth."""
        return size / (share * self.device.bandwidth_Bps)


TILE = 128 * 256  # elements of a result that a multiprocessor computes at once (cuBLAS, CUTLASS)
BLOCK = 128  # queries of a block of fused attention
NEIGHBOURS = 3  # measured GEMMs by which one of another shape is scaled
# share of a layer's time in GEMMs below which an H100 keeps its clock, and from which it is at the
# clock of GEMMs without pause (700 W): clocks of steps on one H100 SXM, 2026-11
COOL = 0.65
HOT = 0.85


def share_by_waves(tiles: float, device: Accelerator, half: float) -> float:
    """Share of the peak that so many ``tiles`` on the whole device reach: w / (w + half), w of them a
    multiprocessor. The last wave is partly idle, and the first one fills slowly."""
    # nothing is known of its multiprocessors: any shape fills the device
    if not device.units:
        return 1.0
    return tiles / (tiles + half * device.units)


@lru_cache(maxsize=16384)
def _measured_ratio(gemm: Gemm, machine: Roofline) -> float:
    """A user's measured times of GEMMs over those of the stack; 1 without any in this precision.

    That of the same shape, else a geometric mean of the three nearest by the logarithms of their
    sizes, the nearer ones with more weight.
    """
    # the stack without measured GEMMs, or gemm_s would call this function again
    stack_only = machine._replace(stack=machine.stack._replace(measured=()))
    by_distance = []  # (distance, measured time over that of the stack)
    for row in machine.stack.measured:
        if row.precision == machine.precision:
            distance = abs(log(gemm.m / row.m))
            distance += abs(log(gemm.n / row.n))
            distance += abs(log(gemm.k / row.k))
            modelled_s = gemm_s(Gemm(row.m, row.n, row.k), stack_only)
            by_distance.append((distance, row.seconds / modelled_s))
    if not by_distance:
        return 1.0
    by_distance.sort()
    # a distance of 0 but for rounding: the same shape
    if by_distance[0][0] < 1e-9:
        return by_distance[0][1]
    weights = 0.0
    logarithms = 0.0
    for distance, ratio in by_distance[:NEIGHBOURS]:
        weight = 1 / distance
        weights += weight
        logarithms += weight * log(ratio)
    return exp(logarithms / weights)


def gemm_s(gemm: Gemm, machine: Roofline) -> float:
    """Seconds of a GEMM alone: t0 + max(FLOPs / (E peak), bytes / (share of memory bandwidth)).

    E falls with the shape: E w / (w + half_wave) K / (K + half), w the tiles of 128 x 256 a
    multiprocessor, K the inner dimension, in 8 bits with constants of their own; 5% less where a
    weight gradient adds up in 32 bits. On an H100 (``tests/data/h100``) that is 4% off in
    the mean in bf16, 5% in fp8. Several experts are one launch, with the tokens of each in whole
    tiles.
    """
    if not gemm.flops:
        return 0.0
    # a single expert is an ordinary GEMM
    if gemm.grouped and gemm.copies > 1:
        modelled_s = _grouped_s(gemm, machine)
    else:
        modelled_s = _single_s(gemm, machine)
    if not machine.stack.measured:
        return modelled_s
    return modelled_s * _measured_ratio(gemm, machine)


def _single_s(gemm: Gemm, machine: Roofline) -> float:
    """Seconds of an ordinary GEMM, or of equal ones in one launch."""
    device, stack, precision = machine
    half = stack.half
    half_wave = stack.half_wave
    memory = stack.memory_gemm
    if precision in EIGHT_BITS:
        half = stack.fp8_half
        if stack.fp8_half_wave is not None:
            half_wave = stack.fp8_half_wave
        memory = stack.fp8_memory_gemm or memory
    # less where the inner dimension is short, and where tiles do not fill the device
    share = stack.gemm_share(precision, device.generation) * gemm.k / (gemm.k + half)
    share *= _share_by_tiles(gemm, device, half_wave)
    return stack.launch_s(precision) + _roofline_s(gemm, machine, share, memory)


def _grouped_s(gemm: Gemm, machine: Roofline) -> float:
    """Seconds of a GEMM over several experts, whose rows fill whole tiles."""
    device, stack, precision = machine
    half = stack.grouped_k_half
    if half is None:
        half = stack.half
        if precision in EIGHT_BITS:
            half = stack.fp8_half
    # as in an ordinary one, and less where an expert has few tokens or fills part of a tile
    share = stack.grouped_share(precision, device.generation) * gemm.k / (gemm.k + half)
    share *= _share_by_tiles(gemm, device, stack.half_wave)
    share *= gemm.m / (gemm.m + stack.grouped_half)
    if stack.grouped_tile:
        share *= gemm.m / (stack.grouped_tile * ceil(gemm.m / stack.grouped_tile))
    start_s = stack.grouped_launch
    if start_s is None:
        start_s = stack.launch_s(precision) * gemm.copies
    return start_s + _roofline_s(gemm, machine, share, stack.memory_gemm)


def _share_by_tiles(gemm: Gemm, device: Accelerator, half_wave: float) -> float:
    """Share of the peak that the tiles of a GEMM's results reach."""
    return share_by_waves(gemm.copies * gemm.m * gemm.n / TILE, device, half_wave)


def _roofline_s(gemm: Gemm, machine: Roofline, share: float, memory_share: float) -> float:
    """Seconds of a GEMM at a share of the peak, or at a share of memory bandwidth if that takes
    longer."""
    if gemm.summed:
        share *= machine.stack.weight_gradient
    computing_s = machine.computing_s(gemm.flops, share)
    moving_s = machine.moving_s(gemm.moved(machine.precision), memory_share)
    return max(computing_s, moving_s)


def power_limit_factor(gemms_s: float, others_s: float, machine: Roofline) -> float:
    """Return the factor from 1 by which GEMMs take longer among other kernels than alone, that is at
    the full clock of a cool device.

    GEMMs draw the most power. Where they take little of a layer the device keeps its clock; where
    they take nearly all of it, it runs at the clock of GEMMs without pause.
    """
    by_generation = dict(machine.stack.sustained)
    sustained = by_generation.get(machine.device.generation, 1.0)
    if sustained == 1 or not gemms_s:
        return 1.0
    busy = gemms_s / (gemms_s + others_s)
    heat = min(1.0, max(0.0, (busy - COOL) / (HOT - COOL)))  # 0 at COOL, 1 at HOT
    return 1 + heat * (1 / sustained - 1)


def attention_core_s(
    flops: float, blocks: float, machine: Roofline, *, backward: bool = False
) -> float:
    """Seconds of attention's scores and their sum over values, in 16 bits even where GEMMs are in 8;
    ``blocks``: of 128 queries and a head each, or tiles of a GEMM."""
    if not flops:
        return 0.0
    if machine.precision in EIGHT_BITS:
        machine = machine._replace(precision="bf16")
    device = machine.device
    stack = machine.stack
    share = stack.attention_share(device.generation, backward=backward)
    share *= share_by_waves(blocks, device, stack.attention_half_wave)
    return stack.launch_s(machine.precision) + machine.computing_s(flops, share)


def moved_s(size: float, machine: Roofline) -> float:
    """Seconds of elementwise kernels that move ``size`` bytes."""
    return machine.moving_s(size, machine.stack.memory_elementwise)
