"""Where two libraries, or two versions of one, run different kernels on a fabric; and the cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.base.result import Result
from colltool.engines.files import LibraryFile, Mode
from colltool.engines.price import price_kernels
from colltool.estimate.nccl_hardware import hardware_on
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.model import pick
from colltool.libraries.nccl.names import spec_of

# bytes: 1 KiB to 16 GiB for NCCL, and to 64 MiB for engines' kernels
NCCL_SIZES = tuple(2.0**power for power in range(10, 35))

KERNEL_SIZES = tuple(2.0**power for power in range(10, 27))

# The rules of versions differ on small groups: larger ones are not compared.
_MOST_NODES = 32


class PickChange(NamedTuple):
    """Sizes in a row at which two libraries take different kernels on a group.

    Args:
        stride: 1 for whole nodes, ranks per node for one rank of each node.
        old_s, new_s: seconds at the first size by colltool's price; None if there is none.
    """

    primitive: str
    ranks: int
    stride: int
    from_bytes: float
    to_bytes: float
    old: str
    new: str
    old_s: float | None
    new_s: float | None

    @property
    def factor(self) -> float | None:
        return self.new_s / self.old_s if self.old_s and self.new_s else None


@dataclass(frozen=True, eq=False, repr=False)
class LibraryDiff(Result):
    """Where two libraries differ on a fabric.

    Args:
        looked: how many picks (sizes and groups) were compared.
        differ: how many of them differ.
    """

    subject: ClassVar[str] = "library_files"
    fabric: str
    old: str
    new: str
    changes: tuple[PickChange, ...]
    looked: int
    differ: int

    @property
    def moved(self) -> bool:
        return bool(self.changes)


def diff_kernels(
    fabric: Fabric, old: LibraryFile, new: LibraryFile, ranks: int, mode: Mode | None = None
) -> LibraryDiff:
    """Compare two libraries of kernels: an all-reduce of 1 KiB to 64 MiB on a group.

    Args:
        mode: how engines launch it; None: in a CUDA graph.
    """
    changes: list[PickChange] = []
    for size in KERNEL_SIZES:
        before = price_kernels(old, fabric, "all_reduce", size, ranks, mode).best
        after = price_kernels(new, fabric, "all_reduce", size, ranks, mode).best
        if before.kernel != after.kernel or abs(before.total_s / after.total_s - 1) > 0.01:
            change = PickChange(
                primitive="all_reduce",
                ranks=ranks,
                stride=1,
                from_bytes=size,
                to_bytes=size,
                old=before.kernel,
                new=after.kernel,
                old_s=before.total_s,
                new_s=after.total_s,
            )
            changes.append(change)
    return LibraryDiff(
        fabric.name,
        old.full_name,
        new.full_name,
        tuple(changes),
        looked=len(KERNEL_SIZES),
        differ=len(changes),
    )


def diff_versions(fabric: Fabric, old: str, new: str) -> LibraryDiff:
    """Compare two versions of NCCL: picks of five collectives, 1 KiB to 16 GiB.

    Groups are whole nodes, and one rank of each node.
    """
    before = under_library(fabric, "nccl", old)
    after = under_library(fabric, "nccl", new)
    changes: list[PickChange] = []
    looked = 0
    differ = 0
    for group in _groups(fabric):
        try:
            versions = _Versions(
                before, group, hardware_on(before, group), hardware_on(after, group)
            )
        except ColltoolError:
            # NCCL's model may have no answer for a part of the fabric; without one for all of it
            # there is nothing to compare.
            if group.ranks == fabric.ranks:
                raise
            continue
        for primitive in (AR, AG, RS, BC, REDUCE):
            looked += len(NCCL_SIZES)
            for change, sizes in versions.changes(primitive):
                changes.append(change)
                differ += sizes
    return LibraryDiff(fabric.name, f"nccl@{old}", f"nccl@{new}", tuple(changes), looked, differ)


def _groups(fabric: Fabric) -> Iterator[GroupSpec]:
    """Groups of whole nodes and of one rank per node, on powers of two of nodes."""
    inside = fabric.tiers[0].endpoints if len(fabric.tiers) > 1 else 1
    nodes = fabric.ranks // inside
    powers = [2**power for power in range(6) if 2**power <= nodes]
    for count in sorted({*powers, min(nodes, _MOST_NODES)}):
        if count * inside >= 2:
            yield GroupSpec(count * inside)
        if count >= 2 and inside > 1:
            yield GroupSpec(count, inside)


class _Versions(NamedTuple):
    """A group on a fabric under two versions of NCCL."""

    fabric: Fabric
    group: GroupSpec
    old: Hardware
    new: Hardware

    def changes(self, primitive: Primitive) -> Iterator[tuple[PickChange, int]]:
        """Yield each run of consecutive sizes with different picks, and how many sizes it has."""
        for names, run in groupby(NCCL_SIZES, partial(self._names, primitive)):
            if names.old == names.new:
                continue
            sizes = list(run)
            start = sizes[0]
            change = PickChange(
                primitive=primitive.value,
                ranks=self.group.ranks or 0,
                stride=self.group.stride,
                from_bytes=start,
                to_bytes=sizes[-1],
                old=names.old,
                new=names.new,
                old_s=self._priced_s(primitive, start, self.old),
                new_s=self._priced_s(primitive, start, self.new),
            )
            yield change, len(sizes)

    def _names(self, primitive: Primitive, size: float) -> _PickNames:
        """What both versions pick, such as ``Ring LL``."""
        old = pick(self.old, primitive, size)
        new = pick(self.new, primitive, size)
        return _PickNames(f"{old.algorithm} {old.protocol}", f"{new.algorithm} {new.protocol}")

    def _priced_s(self, primitive: Primitive, size: float, hardware: Hardware) -> float | None:
        """Colltool's price of a pick: its schedule under its protocol, or else the fastest one."""
        spec = spec_of(pick(hardware, primitive, size).algorithm, primitive, hardware)
        if not spec:
            return None
        try:
            best = price(self.fabric, primitive, size, self.group, None, [spec]).best
        except ColltoolError:
            return None
        return float(best.total_s)


class _PickNames(NamedTuple):
    old: str
    new: str
