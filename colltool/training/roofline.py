"""Kernel times: a roofline with the shares of peak that a stack reaches, and launches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.files.schema import BYTES

if TYPE_CHECKING:
    from colltool.training.files.schema import DeviceFile, StackFile


_EIGHT_BITS = ("fp8", "int8", "fp4")


class Gemm(NamedTuple):
    """(m, k) times (k, n), ``copies`` of them in one launch; ``grouped``: each with its own weights."""

    m: float
    n: float
    k: float
    copies: int = 1
    grouped: bool = False

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * self.copies

    @property
    def backward(self) -> tuple[Gemm, Gemm]:
        """The gradients of the input and of the weight."""
        return self._replace(n=self.k, k=self.n), self._replace(m=self.n, n=self.k, k=self.m)


class Roofline(NamedTuple):
    device: Accelerator
    stack: Stack
    precision: str


def gemm_s(gemm: Gemm, machine: Roofline) -> float:
    """t0 + max(FLOPs / (E peak), bytes / (share of memory bandwidth)), in seconds.

    In 8 bits E is E K / (K + 512), K the inner dimension: short sums do not fill the units. Several experts are a launch each,
    and M tokens of one reach M / (M + 100) of the share: they do not fill tiles. A single expert is an ordinary GEMM.
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


def core_s(flops: float, machine: Roofline) -> float:
    """Attention's scores and their sum over values, in 16 bits."""
    if not flops:
        return 0.0
    device, stack, precision = machine
    if precision in _EIGHT_BITS:
        precision = "bf16"
    return stack.launch_s(precision) + flops / (stack.attention_share(device.generation) * device.peak_flops(precision))


def moved_s(size: float, machine: Roofline) -> float:
    return size / (machine.stack.memory_elementwise * machine.device.bandwidth_Bps)


PairsOf = tuple[tuple[str, float], ...]


class Accelerator(NamedTuple):
    name: str
    generation: str
    peak: PairsOf  # dense FLOP/s by precision
    memory_bytes: float
    bandwidth_Bps: float

    def peak_flops(self, precision: str) -> float:
        for known, rate in self.peak:
            if known == precision:
                return rate
        has = ", ".join(known for known, _ in self.peak)
        raise ColltoolError(f"{self.name} has no peak for {precision}", fix=f"precision: {{compute: one of {has}}}")


class Stack(NamedTuple):
    """What software reaches of a device, as :class:`colltool.training.files.schema.StackFile` describes it."""

    name: str
    gemm: tuple[tuple[str, PairsOf], ...]
    grouped: PairsOf
    fp8_half: float
    flash: bool
    attention: PairsOf
    elementwise: float
    backward_elementwise: float
    launch: PairsOf
    memory_gemm: float
    memory_elementwise: float
    memory_optimizer: float
    optimizer_bytes: float
    fixed_s: float
    jitter: float
    runtime_bytes: float
    assumed: tuple[str, ...] = ()
    grouped_half: float = 100.0
    inside: float = 0.4
    loss_bytes: float = 4.0
    slowed: float = 0.0

    def gemm_share(self, precision: str, generation: str) -> float:
        """The share of peak that a large GEMM reaches."""
        table = dict(self.gemm).get(precision)
        if table is None:
            known = ", ".join(name for name, _ in self.gemm)
            fix = f"another precision ({known}), or give the stack as a mapping"
            raise ColltoolError(f"stack {self.name} has no efficiency for {precision}", fix=fix)
        return self._of(table, generation, f"GEMMs in {precision}")

    def attention_share(self, generation: str) -> float:
        """Of the bf16 peak."""
        return self._of(self.attention, generation, "attention")

    def grouped_share(self, precision: str, generation: str) -> float:
        """Of a GEMM over several experts; that of any GEMM where the stack has none."""
        return dict(self.grouped).get(generation, self.gemm_share(precision, generation))

    def launch_s(self, precision: str) -> float:
        table = dict(self.launch)
        return table.get(precision, max(table.values()))

    def _of(self, table: PairsOf, generation: str, what: str) -> float:
        found = dict(table).get(generation)
        if found is None:
            known = ", ".join(name for name, _ in table)
            fix = f"a device of {known}, another stack, or the stack as a mapping"
            raise ColltoolError(f"stack {self.name} has no efficiency for {what} on {generation}", fix=fix)
        return found


def accelerator_of(file: DeviceFile, name: str = "") -> Accelerator:
    return Accelerator(file.name or name or "device", file.generation, _pairs(file.peak), file.memory, file.bandwidth)


def stack_of(file: StackFile, name: str = "") -> Stack:
    return Stack(
        name=file.name or name or "stack",
        gemm=tuple((str(precision), _pairs(table)) for precision, table in file.gemm.items()),
        grouped=_pairs(file.grouped),
        fp8_half=file.fp8_half,
        flash=file.attention.flash,
        attention=_pairs(file.attention.efficiency),
        elementwise=file.elementwise,
        backward_elementwise=file.backward_elementwise,
        launch=_pairs(file.launch),
        memory_gemm=file.memory_gemm,
        memory_elementwise=file.memory_elementwise,
        memory_optimizer=file.memory_optimizer,
        optimizer_bytes=file.optimizer_bytes,
        fixed_s=file.fixed,
        jitter=file.jitter,
        runtime_bytes=file.runtime,
        assumed=file.assumed,
        grouped_half=file.grouped_half,
        inside=file.inside,
        loss_bytes=file.loss_bytes,
        slowed=file.slowed,
    )


def _pairs(table: Mapping[Any, float]) -> PairsOf:
    return tuple((str(key), value) for key, value in table.items())
