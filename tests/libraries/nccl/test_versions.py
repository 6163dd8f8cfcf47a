"""NCCL 2.31's four rules against 2.30's: the picks that change, by the count that was made of its
source."""

from __future__ import annotations

from collections import Counter

from swept import swept

import colltool
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.estimate.nccl_hardware import hardware_on
from colltool.estimate.placement import GroupSpec
from colltool.fabric.library_numbers import under_library
from colltool.libraries.nccl.model import pick

SIZES = [2.0**power for power in range(10, 35)]
KINDS = {
    "full": {AR: "reduced", AG: "reduced", RS: "reduced", BC: "rooted", REDUCE: "rooted"},
    "lone": {AR: "all-reduce", AG: "halves", RS: "halves", BC: "rooted", REDUCE: "rooted"},
}


def changed(fabric: str, lone: bool) -> Counter[str]:
    """How many of 25 sizes, to 32 nodes, are picked otherwise by 2.31."""
    loaded, found = colltool.load_fabric(fabric), Counter[str]()
    for nodes in (1, 2, 4, 8, 16, 32):
        group = GroupSpec(nodes, 8) if lone else GroupSpec(8 * nodes)
        if (lone and nodes == 1) or 8 * nodes > loaded.ranks:
            continue
        before, after = (
            hardware_on(under_library(loaded, "nccl", version), group)
            for version in ("2.30", "2.31")
        )
        for primitive, kind in KINDS["lone" if lone else "full"].items():
            found[f"{kind} of"] += len(SIZES)
            found[kind] += sum(
                ways(before, primitive, size) != ways(after, primitive, size) for size in SIZES
            )
    return found


def ways(on: object, primitive: Primitive, size: float) -> tuple[str, str]:
    found = pick(on, primitive, size)  # type: ignore[arg-type]
    return found.algorithm, found.protocol


FABRICS = ("dgx-a100", "dgx-h100", "hgx-h200", "dgx-b200")


@swept(
    ("lone", "kind", "moved", "of"),
    [
        (False, "reduced", 0, 1725),
        (False, "rooted", 94, 1150),
        (True, "all-reduce", 77, 475),
        (True, "halves", 308, 950),
        (True, "rooted", 144, 950),
    ],
)
def test_as_many_picks_change_as_in_its_source(lone: bool, kind: str, moved: int, of: int) -> None:
    total = sum((changed(fabric, lone) for fabric in FABRICS), Counter[str]())
    assert (total[kind], total[f"{kind} of"]) == (moved, of)


def test_the_difference_of_two_versions() -> None:
    found = colltool.diff_libraries("dgx-h100", "nccl@2.30", "nccl@2.31")
    assert found.moved
    assert 0 < found.differ < found.looked
    assert all(one.old != one.new for one in found.changes)
    assert not colltool.diff_libraries("dgx-h100", "nccl@2.30", "nccl@2.30").moved
