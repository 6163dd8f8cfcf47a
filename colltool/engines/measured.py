"""The kernels of a library that were measured on a machine, or on one that stands in for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.engines.dispatch import DispatchRule
from colltool.engines.files import EITHER, EXPERTS, KernelFile, LibraryFile
from colltool.engines.site import KernelSite, reaches
from colltool.fabric.media import PER_HOST

# the fix of an error where nothing shipped was measured
OWN_FILE = "a file of your own: colltool library init"


class MeasuredKernel(NamedTuple):
    """A kernel of a library, with numbers for a machine.

    Args:
        kernel: its numbers, of this GPU or of one that stands in for it.
        notes: how the machine differs from the measured one; empty if it does not.
        like_error: relative error of another GPU's numbers; None if the GPU itself was measured, or
            the error is unknown.
    """

    kernel: KernelFile
    notes: tuple[str, ...] = ()
    like_error: float | None = None


def measured_kernels(
    library: LibraryFile,
    operation: str,
    site: KernelSite,
    rules: Sequence[DispatchRule] = (),
    among: Sequence[KernelFile] | None = None,
) -> tuple[MeasuredKernel, ...]:
    """Return the library's kernels for an operation on a GPU, within a host, a node or across.

    Of several with one name it is the one of this GPU, or of the nearest that stands in for it, and
    there the one of the nearest number of ranks. Those that the library's table has, but not in the
    ``rules`` for this machine, are left out.

    Args:
        rules: those of the library's table that apply to the machine.
        among: some of the library's kernels; None for all.

    Raises:
        ColltoolError: it has none, or none was measured there.
    """
    kernels = library.kernels if among is None else among
    candidates = [kernel for kernel in kernels if kernel.operation == operation]
    if not candidates:
        raise ColltoolError(
            f"{library.full_name} has no kernel for {operation.replace('_', '-')}",
            argument="library",
            fix=f"it has {', '.join(library.operations)}",
        )
    gpus = library.likes(site.gpu)
    on_gpu = [kernel for kernel in candidates if not set(gpus).isdisjoint(kernel.gpus)]
    if not on_gpu:
        raise _other_gpus(library, candidates, site.gpu)
    reaching = [kernel for kernel in on_gpu if reaches(kernel, site)]
    if not reaching:
        raise _not_reached(library, on_gpu, site)
    elsewhere = _taken_elsewhere(library, rules)
    # all of them where the table takes each on other machines alone: what one would cost is asked
    taken_here = [kernel for kernel in reaching if kernel.name not in elsewhere] or reaching
    measured = []
    for name in dict.fromkeys(kernel.name for kernel in taken_here):
        same_name = [kernel for kernel in taken_here if kernel.name == name]
        measured.append(_nearest(library, same_name, site, gpus))
    return tuple(measured)


def _taken_elsewhere(library: LibraryFile, rules: Sequence[DispatchRule]) -> set[str]:
    """Names of kernels that the library's table has, but none of the ``rules`` for this machine: it
    takes them on other ranks or GPUs alone. Empty without rules."""
    elsewhere: set[str] = set()
    if rules:
        for kernel in {case.kernel for case in library.dispatch}:
            elsewhere.update(kernel.split(EITHER))
        for kernel in {rule.kernel for rule in rules}:
            elsewhere.difference_update(kernel.split(EITHER))
    return elsewhere


def _nearest(
    library: LibraryFile,
    kernels: list[KernelFile],
    site: KernelSite,
    gpus: tuple[str, ...],
) -> MeasuredKernel:
    """The numbers that are nearest to a machine: by GPU, then by ranks.

    Args:
        kernels: of one name, each measured on some of ``gpus``.
        gpus: the machine's GPU, and those that stand in for it, the nearest first.
    """

    def distance(kernel: KernelFile) -> tuple[int, int]:
        """How far the GPU is in ``gpus``, and how many ranks lie outside of the measured."""
        gpu_distance = min(gpus.index(name) for name in kernel.gpus if name in gpus)
        fewest, most = kernel.ranks
        return gpu_distance, max(fewest - site.ranks, site.ranks - most, 0)

    kernel = min(kernels, key=distance)
    if site.gpu in kernel.gpus:
        return MeasuredKernel(kernel)
    gpu = gpus[distance(kernel)[0]]
    note = f"{site.gpu} was not measured: the numbers of {gpu} are used"
    return MeasuredKernel(kernel, (note,), library.like_error.get(site.gpu))


def _not_reached(
    library: LibraryFile, kernels: list[KernelFile], site: KernelSite
) -> ColltoolError:
    """The error for a group on which none of the kernels runs: each is of one host, of one domain, or
    ``across`` domains (nodes) alone."""
    gpus: dict[str, None] = {}
    for kernel in kernels:
        gpus |= dict.fromkeys(kernel.gpus)
    if site.nodes == 1 and any(not kernel.across for kernel in kernels):
        what = (
            f"{library.full_name}'s kernels stay within a host of {PER_HOST[site.gpu]}, and these"
            f" {site.ranks} ranks are on {site.hosts}"
        )
    else:
        measured = "within one node" if site.nodes > 1 else "across nodes"
        nodes = "1 node" if site.nodes == 1 else f"{site.nodes} nodes"
        what = (
            f"{library.full_name} was measured only {measured} of {', '.join(gpus)}, and these {site.ranks}"
            f" ranks are on {nodes}"
        )
    fix = "take another number of ranks, or another library"
    if kernels[0].operation in EXPERTS:
        fix += f"; without {argument_text('library')} every measured one is priced"
    return ColltoolError(what, argument="library", fix=fix)


def _other_gpus(library: LibraryFile, kernels: list[KernelFile], gpu: str) -> ColltoolError:
    """The error for a GPU on which none of the kernels was measured."""
    measured: set[str] = set()
    for kernel in kernels:
        measured.update(kernel.gpus)
    return ColltoolError(
        f"no kernel of {library.full_name} was measured on {gpu}",
        argument="library",
        fix=f"measured on: {', '.join(sorted(measured))}; {OWN_FILE}",
    )
