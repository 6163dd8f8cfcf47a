"""Two libraries, or two versions of one, on a fabric: where what they run changes, and what that
costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.base.result import Result
from colltool.engines.files import AskedLibrary
from colltool.engines.price import price_kernels
from colltool.estimate.library_pick import hardware_on
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.fabric.ground import under_library
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.nccl.model import NcclEstimate, pick
from colltool.libraries.nccl.rules import spec_of

SIZES = tuple(2.0**power for power in range(10, 35))
SMALL = tuple(2.0**power for power in range(10, 27))
_MOST_NODES = 32


class PickChange(NamedTuple):
    """A run of sizes at which two libraries take different kernels on a group; seconds are ours at
    the first size, or None."""

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
    """Where two libraries differ on a fabric; ``looked``: picks compared, ``differ``: those that
    are others."""

    subject: ClassVar[str] = "kernels"
    fabric: str
    old: str
    new: str
    changes: tuple[PickChange, ...]
    looked: int
    differ: int

    @property
    def moved(self) -> bool:
        return bool(self.changes)


def diff_versions(fabric: Fabric, old: str, new: str) -> LibraryDiff:
    """Two versions of NCCL: picks of five collectives, 1 KiB to 16 GiB, on whole nodes and on one
    rank a node."""
    before, after = under_library(fabric, "nccl", old), under_library(fabric, "nccl", new)
    changes: list[PickChange] = []
    looked = differ = 0
    for group in _groups(fabric):
        try:
            one, other = hardware_on(before, group), hardware_on(after, group)
        except ColltoolError:
            if group.ranks == fabric.ranks:
                raise
            continue
        for primitive in (AR, AG, RS, BC, REDUCE):
            found = [
                (size, pick(one, primitive, size), pick(other, primitive, size)) for size in SIZES
            ]
            looked += len(found)
            for names, run in groupby(found, key=lambda row: (_called(row[1]), _called(row[2]))):
                rows = list(run)
                if names[0] != names[1]:
                    differ += len(rows)
                    changes.append(_change(before, group, primitive, rows, (one, other)))
    return LibraryDiff(fabric.name, f"nccl@{old}", f"nccl@{new}", tuple(changes), looked, differ)


def _groups(fabric: Fabric) -> Iterator[GroupSpec]:
    inside = fabric.tiers[0].endpoints if len(fabric.tiers) > 1 else 1
    nodes = fabric.ranks // inside
    counts = sorted(
        {
            1,
            nodes if nodes <= _MOST_NODES else _MOST_NODES,
            *(2**power for power in range(6) if 2**power <= nodes),
        }
    )
    for count in counts:
        if count * inside >= 2:
            yield GroupSpec(count * inside)
        if count >= 2 and inside > 1:
            yield GroupSpec(count, inside)


def _called(way: NcclEstimate) -> str:
    return f"{way.algorithm} {way.protocol}"


def _change(
    fabric: Fabric,
    group: GroupSpec,
    primitive: Primitive,
    rows: list[tuple[float, NcclEstimate, NcclEstimate]],
    on: tuple[Hardware, Hardware],
) -> PickChange:
    size, old, new = rows[0]
    seconds = [
        _priced(fabric, group, primitive, size, way, hardware)
        for way, hardware in zip((old, new), on, strict=True)
    ]
    return PickChange(
        primitive=primitive.value,
        ranks=group.ranks or 0,
        stride=group.stride,
        from_bytes=size,
        to_bytes=rows[-1][0],
        old=_called(old),
        new=_called(new),
        old_s=seconds[0],
        new_s=seconds[1],
    )


def _priced(
    fabric: Fabric,
    group: GroupSpec,
    primitive: Primitive,
    size: float,
    way: NcclEstimate,
    on: Hardware,
) -> float | None:
    """Our price of a pick: of its schedule under its protocol where the fabric has it, else under
    the fastest."""
    spec = spec_of(way.algorithm, primitive, on)
    if not spec:
        return None
    try:
        return float(price(fabric, primitive, size, group, None, [spec]).best.total_s)
    except ColltoolError:
        return None


def diff_kernels(fabric: Fabric, old: AskedLibrary, new: AskedLibrary, ranks: int) -> LibraryDiff:
    """Two libraries of kernels: an all-reduce of 1 KiB to 64 MiB on a group."""
    changes: list[PickChange] = []
    for size in SMALL:
        one, other = (
            price_kernels(asked, fabric, "all_reduce", size, ranks).best for asked in (old, new)
        )
        if abs(one.total_s / other.total_s - 1) > 0.01 or one.kernel != other.kernel:
            changes.append(
                PickChange(
                    primitive="all_reduce",
                    ranks=ranks,
                    stride=1,
                    from_bytes=size,
                    to_bytes=size,
                    old=one.kernel,
                    new=other.kernel,
                    old_s=one.total_s,
                    new_s=other.total_s,
                )
            )
    return LibraryDiff(
        fabric.name,
        old.library.called,
        new.library.called,
        tuple(changes),
        len(SMALL),
        len(changes),
    )
