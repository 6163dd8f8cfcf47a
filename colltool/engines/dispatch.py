"""The kernel that a library picks by its own table, and why.

:func:`rules_for` has the rows of the table for a machine, :func:`library_choice` the one that takes a
size.
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.formatting import size_text
from colltool.engines.files import EITHER, NCCL, LibraryFile, ReducedType
from colltool.engines.site import KernelSite, reaches
from colltool.fabric.media import PER_HOST

# the type that engines were measured with
USUAL_TYPE: ReducedType = "bf16"


# a table's last row has no end if it is above any message
_NO_END = 2.0**40


class DispatchRule(NamedTuple):
    """A row of a library's dispatch table on a machine: from one size of M up to another.

    Args:
        kernel: its name, several of which the faster runs, or NCCL.
        to_included: whether the last size counts.
        multiple_of: bytes; other sizes are not taken.
    """

    from_bytes: float
    to_bytes: float
    kernel: str
    to_included: bool = False
    multiple_of: int = 1

    def covers(self, size: float) -> bool:
        inside = self.from_bytes <= size < self.to_bytes
        at_end = self.to_included and size == self.to_bytes
        return (inside or at_end) and size % self.multiple_of == 0


def rules_for(
    library: LibraryFile, operation: str, site: KernelSite, dtype: ReducedType = USUAL_TYPE
) -> list[DispatchRule]:
    """Return the rows of the library's dispatch table that apply to a machine, in its order; those
    of kernels that do not reach all ranks are left out."""
    reached = {NCCL: True}
    for kernel in library.kernels:
        reached[kernel.name] = reached.get(kernel.name, False) or reaches(kernel, site)
    rules = []
    for case in library.dispatch:
        on_gpu = not case.gpus or site.gpu in case.gpus
        on_ranks = case.ranks[0] <= site.ranks <= case.ranks[1]
        of_type = not case.dtypes or dtype in case.dtypes
        if case.operation != operation or not (on_gpu and on_ranks and of_type):
            continue
        if not all(reached.get(name) for name in case.kernel.split(EITHER)):
            continue
        # a table by the bytes of all ranks, as one by those of each
        each = site.ranks if case.per == "total" else 1
        rules.append(
            DispatchRule(
                max(1.0, case.from_ / each),
                case.to / each,
                case.kernel,
                case.to_included,
                case.multiple_of,
            )
        )
    return rules


def pick_at(rules: list[DispatchRule], size: float) -> DispatchRule | None:
    """Return the first rule that takes a size."""
    return next((rule for rule in rules if rule.covers(size)), None)


def library_choice(
    library: LibraryFile, operation: str, site: KernelSite, rules: list[DispatchRule], size: float
) -> tuple[str, str]:
    """The kernel that the library picks, empty for its fastest; and the reason."""
    most = library.most_ranks
    if most and operation == "all_reduce" and (site.nodes > 1 or site.ranks > most):
        reason = "across nodes" if site.nodes > 1 else f"more than {most} ranks"
        return NCCL, f"{reason}: its own kernels stay within a node of {most}"
    rule = pick_at(rules, size)
    if rule is not None and rule.kernel != NCCL:
        # earlier rows of the table take smaller sizes
        before = [each.to_bytes for each in rules[: rules.index(rule)] if each.to_bytes <= size]
        start = size_text(max([rule.from_bytes, *before]))
        sizes = f"{start} on"
        if rule.to_bytes < _NO_END:
            sizes = f"{start} to {size_text(rule.to_bytes)}"
        return rule.kernel, f"its table for {site.ranks} ranks of {site.gpu}: {sizes}"
    if rule is not None or (rules and size >= max(each.to_bytes for each in rules)):
        return NCCL, _why_nccl(library, site, rules, size)
    if not library.dispatch:
        return "", "the fastest of its kernels"
    return "", "the fastest of its kernels: it has no table here"


def _why_nccl(
    library: LibraryFile, site: KernelSite, rules: list[DispatchRule], size: float
) -> str:
    """Why a library leaves a call to NCCL."""
    own = [rule for rule in rules if rule.kernel != NCCL]
    if own:
        end = max(rule.to_bytes for rule in own)
        if size >= end:
            return f"above {size_text(end)} its table leaves it to NCCL"
        multiple = max(rule.multiple_of for rule in own)
        return f"its own kernels take multiples of {multiple} B"
    if site.nodes > 1:
        return f"across {site.nodes} nodes, where its own kernels do not reach"
    all_reduces = [kernel for kernel in library.kernels if kernel.operation == "all_reduce"]
    if site.hosts > 1 and not any(reaches(kernel, site) for kernel in all_reduces):
        return f"on {site.hosts} hosts: its own kernels stay within a host of {PER_HOST[site.gpu]}"
    return f"it has no kernel of its own for {site.ranks} ranks of {site.gpu}"
