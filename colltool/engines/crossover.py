"""Where a library's kernels cross on a machine, and what its own thresholds cost there. Laws are
lines in M, so this is exact."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from colltool.base.errors import ColltoolError
from colltool.engines.files import NCCL, AskedLibrary, KernelFile
from colltool.engines.formulas import FORMULAS, KernelCall
from colltool.engines.price import Where, ground, rules_for, where_of
from colltool.engines.results import KernelCrossover, Threshold
from colltool.estimate.placement import AnyGroup
from colltool.fabric.model import Fabric

_TOP = 2.0**40


def kernel_crossover(
    asked: AskedLibrary, fabric: Fabric, operation: str, group: AnyGroup = None
) -> KernelCrossover:
    """Every size at which the fastest kernel changes, and the library's thresholds beside it.

    Raises:
        ColltoolError: no kernels on this machine, or one alone.
    """
    library, on = asked.library, where_of(fabric, group)
    if library.most_ranks and (on.nodes > 1 or on.ranks > library.most_ranks):
        what = (
            f"{library.called}'s kernels stay within a node of {library.most_ranks}: these"
            f" {on.ranks} ranks are left to NCCL"
        )
        raise ColltoolError(
            what, argument="ranks", fix=f"at most {library.most_ranks}, or the crossover of nccl"
        )
    found = ground(library, operation, on)
    if len(found.kernels) < 2:
        what = f"{library.called} has one kernel on {on.gpu}: {found.kernels[0].name}"
        raise ColltoolError(what, argument="library", fix="price it: colltool price")
    by_name = {one.name: one for one in found.kernels}
    thresholds = [
        _threshold(by_name[low], by_name[high], at, on)
        for (_, at, low), (start, _, high) in pairwise(rules_for(library, on))
        if at == start and low in by_name and high in by_name and NCCL not in (low, high)
    ]
    return KernelCrossover(
        fabric=fabric.name,
        operation=operation,
        group=on.placed.placement,
        library=library.called,
        crossings=tuple(_envelope(found.kernels, on)),
        thresholds=tuple(thresholds),
        notes=tuple(
            dict.fromkeys((*found.notes, *(one.said for one in found.kernels if one.said)))
        ),
        overrides=fabric.overrides,
    )


def _seconds(kernel: KernelFile, on: Where, size: float) -> float:
    return (
        FORMULAS[kernel.formula]
        .of(kernel.parameters, KernelCall(on.ranks, size, 0, on.nic_Bps))
        .total_s
    )


def _bends(kernel: KernelFile) -> list[float]:
    return [kernel.parameters["free_KiB"] * 1024] if "free_KiB" in kernel.parameters else []


def _meet(one: KernelFile, other: KernelFile, on: Where) -> list[float]:
    """Sizes from 1 byte on at which two kernels take the same time."""
    edges = sorted({1.0, _TOP, *_bends(one), *_bends(other)})
    met = []
    for low, high in pairwise(edges):
        before, after = (_seconds(one, on, at) - _seconds(other, on, at) for at in (low, high))
        if before * after < 0:
            met.append(low + (high - low) * before / (before - after))
    return met


def _envelope(kernels: Sequence[KernelFile], on: Where) -> list[tuple[float, str, str]]:
    sizes = sorted(
        at
        for index, one in enumerate(kernels)
        for other in kernels[index + 1 :]
        for at in _meet(one, other, on)
    )
    found = []
    for at in sizes:
        below, above = (
            min(kernels, key=lambda one: _seconds(one, on, near)).name
            for near in (at * (1 - 1e-9), at * (1 + 1e-9))
        )
        if below != above:
            found.append((at, below, above))
    return found


def _threshold(low: KernelFile, high: KernelFile, at: float, on: Where) -> Threshold:
    """A threshold of the library's, where the two are equal, and what it costs at the worst size in
    between."""
    met = _meet(low, high, on)
    equal = min(met, key=lambda one: abs(one - at)) if met else None
    ends = [at] if equal is None else [at, equal]
    measured = all(
        one.sizes is None or one.sizes[0] <= size <= one.sizes[1]
        for one in (low, high)
        for size in ends
    )
    gap = abs(_seconds(high, on, at) - _seconds(low, on, at))
    faster = min((low, high), key=lambda one: _seconds(one, on, at)).name
    return Threshold(
        below=low.name,
        above=high.name,
        at_bytes=at,
        equal_bytes=equal,
        costs_s=gap,
        measured=measured,
        faster=faster,
    )
