"""Where a library's kernels cross on a machine, and what its own thresholds cost there.

Formulas are piecewise linear in the size, so crossings are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

from colltool.base.errors import ColltoolError
from colltool.engines.files import NCCL, KernelFile, LibraryFile
from colltool.engines.formulas import FORMULAS, KernelCall
from colltool.engines.price import KernelSite, kernel_site, measured_kernels, rules_for
from colltool.engines.results import KernelCrossover, Threshold
from colltool.estimate.placement import AnyGroup
from colltool.fabric.model import Fabric

# largest size compared: 1 TiB, above any message
_TOP = 2.0**40


def kernel_crossover(
    library: LibraryFile, fabric: Fabric, operation: str, group: AnyGroup = None
) -> KernelCrossover:
    """Return every size at which the fastest kernel changes, and the library's own thresholds.

    Raises:
        ColltoolError: no kernels on this machine, or only one.
    """
    site = kernel_site(fabric, group)
    if library.most_ranks and (site.nodes > 1 or site.ranks > library.most_ranks):
        what = (
            f"{library.full_name}'s kernels stay within a node of {library.most_ranks}: these"
            f" {site.ranks} ranks are left to NCCL"
        )
        raise ColltoolError(
            what, argument="ranks", fix=f"at most {library.most_ranks}, or the crossover of nccl"
        )
    measured = measured_kernels(library, operation, site)
    kernels = measured.kernels
    if len(kernels) < 2:
        what = f"{library.full_name} has one kernel on {site.gpu}: {kernels[0].name}"
        raise ColltoolError(what, argument="library", fix="price it: colltool price")
    # a rule for NCCL is no kernel of the library
    by_name = {kernel.name: kernel for kernel in kernels}
    by_name.pop(NCCL, None)
    thresholds = []
    for lower, upper in pairwise(rules_for(library, site)):
        low = by_name.get(lower.kernel)
        high = by_name.get(upper.kernel)
        if lower.to_bytes == upper.from_bytes and low and high:
            thresholds.append(_threshold(low, high, upper.from_bytes, site))
    notes = [*measured.notes, *(kernel.said for kernel in kernels if kernel.said)]
    return KernelCrossover(
        fabric=fabric.name,
        operation=operation,
        group=site.placed.placement,
        library=library.full_name,
        crossings=tuple(_changes_of_fastest(kernels, site)),
        thresholds=tuple(thresholds),
        notes=tuple(dict.fromkeys(notes)),
        overrides=fabric.overrides,
    )


def _seconds(kernel: KernelFile, site: KernelSite, size: float) -> float:
    """Seconds of a kernel for ``size`` bytes."""
    call = KernelCall(site.ranks, size, nic_Bps=site.nic_Bps)
    return FORMULAS[kernel.formula].of(kernel.parameters, call).total_s


def _crossings(first: KernelFile, second: KernelFile, site: KernelSite) -> list[float]:
    """Sizes of at least 1 byte at which two kernels take the same time."""
    edges = {1.0, _TOP}
    # between its kinks a formula is linear in the size
    for kernel in (first, second):
        if "free_KiB" in kernel.parameters:
            edges.add(kernel.parameters["free_KiB"] * 1024)
    crossings = []
    for low, high in pairwise(sorted(edges)):
        before = _seconds(first, site, low) - _seconds(second, site, low)
        after = _seconds(first, site, high) - _seconds(second, site, high)
        if before * after < 0:
            crossings.append(low + (high - low) * before / (before - after))
    return crossings


def _changes_of_fastest(
    kernels: Sequence[KernelFile], site: KernelSite
) -> list[tuple[float, str, str]]:
    """Sizes at which the fastest kernel changes, with the fastest below and above."""
    sizes: list[float] = []
    for first, second in combinations(kernels, 2):
        sizes += _crossings(first, second, site)
    changes = []
    for size in sorted(sizes):
        below = _fastest(kernels, site, size * (1 - 1e-9))
        above = _fastest(kernels, site, size * (1 + 1e-9))
        if below != above:
            changes.append((size, below, above))
    return changes


def _fastest(kernels: Sequence[KernelFile], site: KernelSite, size: float) -> str:
    return min(kernels, key=lambda kernel: _seconds(kernel, site, size)).name


def _threshold(low: KernelFile, high: KernelFile, size: float, site: KernelSite) -> Threshold:
    """The threshold between two kernels at ``size`` bytes, and the size at which they are equal."""
    crossings = _crossings(low, high, site)
    equal = min(crossings, key=lambda crossing: abs(crossing - size), default=None)
    ends = [size] if equal is None else [size, equal]
    return Threshold(
        below=low.name,
        above=high.name,
        at_bytes=size,
        equal_bytes=equal,
        costs_s=abs(_seconds(high, site, size) - _seconds(low, site, size)),
        measured=all(_was_measured(low, end) and _was_measured(high, end) for end in ends),
        faster=_fastest((low, high), site, size),
    )


def _was_measured(kernel: KernelFile, size: float) -> bool:
    return kernel.sizes is None or kernel.sizes[0] <= size <= kernel.sizes[1]
