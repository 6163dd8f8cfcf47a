"""The kernel that a library picks by its own table, and why.

:func:`rules_for` has the rows of the table for a machine, :func:`library_choice` the pick for a size.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from colltool.base.formatting import size_text
from colltool.engines.files import EITHER, NCCL, DispatchFile, LibraryFile, ReducedType
from colltool.engines.site import KernelSite, reaches
from colltool.fabric.media import PER_HOST

# the type that engines were measured with
USUAL_TYPE: ReducedType = "bf16"

# bytes, above any message: files write it, or more, where a table's last row has no end
_NO_END = 2.0**40


class DispatchRule(NamedTuple):
    """A row of a library's dispatch table on a machine: from one size of M up to another.

    Args:
        from_bytes, to_bytes: M of a rank.
        kernel: its name; several, joined by EITHER, of which the faster runs; or NCCL.
        to_included: whether the last size counts.
        multiple_of: bytes; other sizes are not taken.
    """

    from_bytes: float
    to_bytes: float
    kernel: str
    to_included: bool = False
    multiple_of: int = 1

    def covers(self, size: float) -> bool:
        """Whether the rule takes a size, in bytes as above."""
        if size % self.multiple_of != 0:
            return False
        if size == self.to_bytes:
            return self.to_included
        return self.from_bytes <= size < self.to_bytes


class LibraryPick(NamedTuple):
    """The kernel that a library takes for a size, and why.

    Args:
        kernel: its name; several, joined by EITHER, of which the faster runs; or NCCL. Empty for the
            fastest of all.
    """

    kernel: str
    reason: str


def library_choice(
    library: LibraryFile, operation: str, site: KernelSite, rules: list[DispatchRule], size: float
) -> LibraryPick:
    """Return what the library picks for ``size`` bytes by its ``rules`` for the machine: NCCL for an
    all-reduce of too many ranks; the first rule that takes the size; NCCL above the table; else the
    fastest."""
    if operation == "all_reduce" and too_many_ranks(library, site):
        most = library.most_ranks
        reason = "across nodes" if site.nodes > 1 else f"more than {most} ranks"
        return LibraryPick(NCCL, f"{reason}: its own kernels stay within a node of {most}")
    rule = pick_at(rules, size)
    if rule is not None and rule.kernel != NCCL:
        sizes = _sizes_of(rule, rules, size)
        return LibraryPick(rule.kernel, f"its table for {site.ranks} ranks of {site.gpu}: {sizes}")
    # without rules: False
    beyond_table = size >= max((row.to_bytes for row in rules), default=inf)
    if rule is not None or beyond_table:
        return LibraryPick(NCCL, _why_nccl(library, site, rules, size))
    if library.dispatch:
        return LibraryPick("", "the fastest of its kernels: it has no table here")
    return LibraryPick("", "the fastest of its kernels")


def too_many_ranks(library: LibraryFile, site: KernelSite) -> bool:
    """Return whether a group is larger than the library's own all-reduces take."""
    most = library.most_ranks
    return most is not None and (site.nodes > 1 or site.ranks > most)


def pick_at(rules: list[DispatchRule], size: float) -> DispatchRule | None:
    """Return the first rule that takes a size."""
    return next((rule for rule in rules if rule.covers(size)), None)


def _sizes_of(rule: DispatchRule, rules: list[DispatchRule], size: float) -> str:
    """Sizes around ``size`` that a rule takes, such as ``256 KiB to 8 MiB``: those below may be an
    earlier rule's."""
    start = rule.from_bytes
    for earlier in rules[: rules.index(rule)]:
        if earlier.to_bytes <= size:
            start = max(start, earlier.to_bytes)
    if rule.to_bytes < _NO_END:
        return f"{size_text(start)} to {size_text(rule.to_bytes)}"
    return f"{size_text(start)} on"


def _why_nccl(
    library: LibraryFile, site: KernelSite, rules: list[DispatchRule], size: float
) -> str:
    """Why a library leaves a call to NCCL, for people; no rule with a kernel takes it."""
    kernel_rules = [rule for rule in rules if rule.kernel != NCCL]
    if kernel_rules:
        end = max(rule.to_bytes for rule in kernel_rules)
        if size >= end:
            return f"above {size_text(end)} its table leaves it to NCCL"
        multiple = max(rule.multiple_of for rule in kernel_rules)
        return f"its own kernels take multiples of {multiple} B"
    if site.nodes > 1:
        return f"across {site.nodes} nodes, where its own kernels do not reach"
    all_reduces = [kernel for kernel in library.kernels if kernel.operation == "all_reduce"]
    if site.hosts > 1 and not any(reaches(kernel, site) for kernel in all_reduces):
        return f"on {site.hosts} hosts: its own kernels stay within a host of {PER_HOST[site.gpu]}"
    return f"it has no kernel of its own for {site.ranks} ranks of {site.gpu}"


def rules_for(
    library: LibraryFile, operation: str, site: KernelSite, dtype: ReducedType = USUAL_TYPE
) -> list[DispatchRule]:
    """Return the rows of the library's dispatch table that apply to a machine, in its order; those
    of kernels that do not reach all ranks are left out."""
    reaching = {NCCL}
    for kernel in library.kernels:
        if reaches(kernel, site):
            reaching.add(kernel.name)
    rules = []
    for case in library.dispatch:
        runs = reaching.issuperset(case.kernel.split(EITHER))
        if case.operation == operation and runs and _applies(case, site, dtype):
            # a table by the bytes of all ranks is turned into one by those of a rank; tables by
            # blocks are of algorithms, in colltool.engines.tables
            sharers = site.ranks if case.per == "total" else 1
            rules.append(
                DispatchRule(
                    from_bytes=max(1.0, case.from_ / sharers),
                    to_bytes=case.to / sharers,
                    kernel=case.kernel,
                    to_included=case.to_included,
                    multiple_of=case.multiple_of,
                )
            )
    return rules


def _applies(case: DispatchFile, site: KernelSite, dtype: ReducedType) -> bool:
    """Whether a row is of the machine's GPU, the group's ranks and the call's type."""
    fewest, most = case.ranks
    if not fewest <= site.ranks <= most:
        return False
    if case.gpus and site.gpu not in case.gpus:
        return False
    return not case.dtypes or dtype in case.dtypes
