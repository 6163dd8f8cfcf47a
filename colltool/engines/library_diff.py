"""Where two libraries, or two versions of one, run different kernels on a fabric; and the cost.

:func:`diff_kernels` compares libraries of measured kernels, :func:`diff_versions` versions of NCCL by
its own cost model. Both return a :class:`LibraryDiff`.
"""

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

# the rules of versions differ on small groups: larger ones are not compared
_MOST_NODES = 32
# relative; times of one kernel that differ by less are the same
_SAME_TIME = 0.01


class PickChange(NamedTuple):
    """Sizes in a row at which two libraries take different kernels on a group.

    Args:
        primitive: the collective, by its long name.
        ranks, stride: the group; stride is 1 for whole nodes, and ranks per node for one rank of
            each node.
        from_bytes, to_bytes: the first and the last size.
        old, new: what each takes: a kernel, or NCCL's algorithm and protocol (``Ring LL``).
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
        """New over old time; None where either is not known."""
        return self.new_s / self.old_s if self.old_s and self.new_s else None


@dataclass(frozen=True, eq=False, repr=False)
class LibraryDiff(Result):
    """Where two libraries differ on a fabric.

    Args:
        fabric: its name.
        old, new: ``vllm@0.24.0``, ``nccl@2.30``.
        looked: how many picks (sizes, groups and collectives) were compared.
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
        """Whether anything differs, as every diff says for the exit code."""
        return bool(self.changes)


def diff_kernels(
    fabric: Fabric, old: LibraryFile, new: LibraryFile, ranks: int, mode: Mode | None = None
) -> LibraryDiff:
    """Compare two libraries of kernels: an all-reduce of 1 KiB to 64 MiB on a group of ``ranks``.

    A change is one size at which they take other kernels, or one kernel takes another time.

    Args:
        mode: how engines launch it; None: in a CUDA graph.

    Raises:
        ColltoolError: kernels of either were not measured on the fabric, or not in the mode.
    """
    changes: list[PickChange] = []
    for size in KERNEL_SIZES:
        before = price_kernels(old, fabric, "all_reduce", size, ranks, mode).best
        after = price_kernels(new, fabric, "all_reduce", size, ranks, mode).best
        if before.kernel != after.kernel or abs(before.total_s / after.total_s - 1) > _SAME_TIME:
            changes.append(
                PickChange(
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
            )
    return LibraryDiff(
        fabric=fabric.name,
        old=old.full_name,
        new=new.full_name,
        changes=tuple(changes),
        looked=len(KERNEL_SIZES),
        differ=len(changes),
    )


def diff_versions(fabric: Fabric, old: str, new: str) -> LibraryDiff:
    """Compare two versions of NCCL: picks of five collectives, 1 KiB to 16 GiB.

    Groups are whole nodes, and one rank of each node.

    Raises:
        ColltoolError: NCCL's model has no answer for the whole fabric.
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
            # NCCL's model may have no answer for a part of the fabric, which is left out; without
            # one for all of it there is nothing to compare
            if group.ranks == fabric.ranks:
                raise
            continue
        for primitive in (AR, AG, RS, BC, REDUCE):
            looked += len(NCCL_SIZES)
            for change, size_count in versions.changes(primitive):
                changes.append(change)
                differ += size_count
    return LibraryDiff(
        fabric=fabric.name,
        old=f"nccl@{old}",
        new=f"nccl@{new}",
        changes=tuple(changes),
        looked=looked,
        differ=differ,
    )


def _groups(fabric: Fabric) -> Iterator[GroupSpec]:
    """Groups of whole nodes and of one rank per node, on powers of two of nodes, and on all nodes up
    to _MOST_NODES. A fabric of one tier has nodes of one rank."""
    node_ranks = fabric.tiers[0].endpoints if len(fabric.tiers) > 1 else 1
    nodes = fabric.ranks // node_ranks
    # up to _MOST_NODES, 2**5
    powers = [2**power for power in range(6) if 2**power <= nodes]
    for count in sorted({*powers, min(nodes, _MOST_NODES)}):
        if count * node_ranks >= 2:
            yield GroupSpec(count * node_ranks)
        if count >= 2 and node_ranks > 1:
            yield GroupSpec(count, node_ranks)


class _Versions(NamedTuple):
    """A group on a fabric, and its hardware as two versions of NCCL see it.

    Args:
        fabric: under the old version; its prices are for both.
    """

    fabric: Fabric
    group: GroupSpec
    old: Hardware
    new: Hardware

    def changes(self, primitive: Primitive) -> Iterator[tuple[PickChange, int]]:
        """Yield each run of consecutive sizes with the same two picks, where these differ, and how many
        sizes it has."""
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
        """What both versions pick for a size in bytes."""
        old = pick(self.old, primitive, size)
        new = pick(self.new, primitive, size)
        return _PickNames(f"{old.algorithm} {old.protocol}", f"{new.algorithm} {new.protocol}")

    def _priced_s(self, primitive: Primitive, size: float, hardware: Hardware) -> float | None:
        """Colltool's price of a version's pick, in seconds: the fastest of the pick's algorithm. None
        where colltool has no such algorithm, or not for the group."""
        spec = spec_of(pick(hardware, primitive, size).algorithm, primitive, hardware)
        if not spec:
            return None
        try:
            best = price(self.fabric, primitive, size, self.group, None, [spec]).best
        except ColltoolError:
            return None
        return float(best.total_s)


class _PickNames(NamedTuple):
    """What two versions pick, algorithm and protocol: ``Ring LL``."""

    old: str
    new: str
