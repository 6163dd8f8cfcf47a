"""Devices and stacks as records: SI units, and the share of peak that a kernel reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.errors import ColltoolError

if TYPE_CHECKING:
    from colltool.training.files.machine import DeviceFile, StackFile

PairsOf = tuple[tuple[str, float], ...]


class Device(NamedTuple):
    """A device: dense peak by precision in FLOP/s, memory in bytes, memory bandwidth in bytes/s."""

    name: str
    generation: str
    peak: PairsOf
    memory_bytes: float
    bandwidth_Bps: float

    def peak_flops(self, precision: str) -> float:
        """The dense peak in a precision.

        Raises:
            ColltoolError: the device has none.
        """
        for known, rate in self.peak:
            if known == precision:
                return rate
        has = ", ".join(known for known, _ in self.peak)
        raise ColltoolError(f"{self.name} has no peak for {precision}", fix=f"precision: {{compute: one of {has}}}")


class Stack(NamedTuple):
    """What software reaches of a device; the fields of :class:`colltool.training.files.machine.StackFile` as pairs."""

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
        """The share of peak that a large GEMM reaches.

        Raises:
            ColltoolError: the stack says nothing of the precision or the generation.
        """
        table = dict(self.gemm).get(precision)
        if table is None:
            known = ", ".join(name for name, _ in self.gemm)
            fix = f"another precision ({known}), or give the stack as a mapping"
            raise ColltoolError(f"stack {self.name} has no efficiency for {precision}", fix=fix)
        return self._of(table, generation, f"GEMMs in {precision}")

    def attention_share(self, generation: str) -> float:
        """The share of the bf16 peak that attention reaches."""
        return self._of(self.attention, generation, "attention")

    def grouped_share(self, precision: str, generation: str) -> float:
        """The share of peak of a GEMM over several experts; that of any GEMM where the stack says nothing of them."""
        return dict(self.grouped).get(generation, self.gemm_share(precision, generation))

    def launch_s(self, precision: str) -> float:
        """The time of a kernel that does nothing."""
        table = dict(self.launch)
        return table.get(precision, max(table.values()))

    def _of(self, table: PairsOf, generation: str, what: str) -> float:
        found = dict(table).get(generation)
        if found is None:
            known = ", ".join(name for name, _ in table)
            fix = f"a device of {known}, another stack, or the stack as a mapping"
            raise ColltoolError(f"stack {self.name} says nothing of {what} on {generation}", fix=fix)
        return found


def device_of(file: DeviceFile, name: str = "") -> Device:
    """The record of a device file."""
    return Device(file.name or name or "device", file.generation, _pairs(file.peak), file.memory, file.bandwidth)


def stack_of(file: StackFile, name: str = "") -> Stack:
    """The record of a stack file."""
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
