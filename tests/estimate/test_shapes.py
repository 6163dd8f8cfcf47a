"""The shape of a group on a lattice: named, asked for, refused, and the same in every answer."""

from __future__ import annotations

from math import prod

import pytest
from small import fabric, mesh, star, torus
from swept import swept

import colltool
from colltool import ColltoolError
from colltool.estimate.groups import place
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric

NESTED = fabric(torus(4, 4), star(6))
NODES = fabric(star(8), torus(4, 4))
GRIDS = fabric(torus(4, 2), mesh(3, 3))


def test_a_slice_of_a_large_pod_is_a_torus_of_its_own() -> None:
    """1 GB over 64 chips of TPU v5p: by hand six directions of 100 GB/s at an eta of 0.6 carry 2 x
    63/64 GB."""
    best = colltool.price("tpu-v5p", "ar", size=1e9, ranks=64).results[0]
    assert best.title == "multi-ring"
    assert best.bandwidth_s == pytest.approx(2 * 63 / 64 * 1e9 / (6 * 100e9 * 0.6))


@swept(
    ("where", "who", "shape", "ranks"),
    [
        (NESTED, GroupSpec(4), (4, 1), 4),
        (NESTED, GroupSpec(16), (4, 4), 16),
        (NESTED, GroupSpec(48), (4, 4), 48),
        (NESTED, GroupSpec(None, shape=(2, 2)), (2, 2), 4),
        (NESTED, GroupSpec(48, shape=(4, 4)), (4, 4), 48),
        (NODES, GroupSpec(32), (4, 1), 32),
        (NODES, GroupSpec(None, shape=(2, 2)), (2, 2), 32),
        (NODES, GroupSpec(4, 8), (4, 1), 4),
        (GRIDS, GroupSpec(None, shape=(4, 2, 3)), (4, 2, 3, 1), 24),
        (GRIDS, GroupSpec(32), (4, 2, 2, 2), 32),
        (GRIDS, GroupSpec(4), (4, 1, 1, 1), 4),
        (fabric(torus(4, 4)), GroupSpec(8, in_order=True), (4, 2), 8),
    ],
)
def test_the_shape_goes_through_all_lattices(
    where: Fabric, who: GroupSpec, shape: tuple[int, ...], ranks: int
) -> None:
    placed = place(where, who)
    assert (placed.placement.shape, placed.ranks) == (shape, ranks)
    assert place(where, placed.placement.spec).placement == placed.placement
    inside = [span.endpoints for span in placed.spans]
    assert prod(inside) == ranks


@swept(
    ("where", "who", "what", "fix"),
    [
        (fabric(star(8)), GroupSpec(4, shape=(2, 2)), "has no torus and no mesh", "ranks=4"),
        (
            NESTED,
            GroupSpec(None, shape=(2, 2, 2)),
            "2x2x2 has 3 axes, small has 2 (t1 4x4)",
            "shape=(4, 4)",
        ),
        (NESTED, GroupSpec(None, shape=(8, 2)), "8x2 does not fit t1 4x4", "shape=(4, 4)"),
        (NESTED, GroupSpec(None, shape=(8, 4)), "8x4 does not fit t1 4x4", "at most 4x4"),
        (
            NESTED,
            GroupSpec(8, shape=(2, 2)),
            "2x2 holds 4 ranks, not 8",
            "ranks=4, or shape=(4, 2)",
        ),
        (
            NESTED,
            GroupSpec(48, shape=(2, 2)),
            "2x2 holds 4 ranks, not 48",
            "ranks=4, or shape=(4, 4)",
        ),
        (NESTED, GroupSpec(4, 2, shape=(2, 2)), "without a stride", "leave out shape or stride"),
    ],
)
def test_a_shape_that_cannot_be_says_what_to_write(
    where: Fabric, who: GroupSpec, what: str, fix: str
) -> None:
    with pytest.raises(ColltoolError) as refused:
        place(where, who)
    assert what in refused.value.what
    assert fix in str(refused.value)
    assert refused.value.argument == "shape"


@pytest.mark.alike(2)
@pytest.mark.parametrize(
    "name", ["tpu-v5p", "tpu-v4-512", "torus512", "mesh512", "trn2-ultraserver"]
)
def test_what_is_executed_is_the_slice(name: str) -> None:
    """Messages over the links of the slice, step by step, take the seconds of the price."""
    for ranks in (8, 16):
        done = colltool.verify(name, ranks=ranks, size="1MB")
        assert done.holds
        assert {one.group.shape for one in done.results} == {
            place(colltool.load_fabric(name), ranks).placement.shape
        }
        checked = [one.time_s for one in done.results if one.verdict == "proved" and one.time_s]
        assert checked
        for formula, executed in checked:
            assert executed == pytest.approx(formula)


def test_more_of_a_pod_is_never_faster() -> None:
    """From one whole cube on; below there is no wraparound, so that 64 chips are faster than 32."""
    for name, most in (("tpu-v5p", 4096), ("tpu-v4-512", 512)):
        for primitive in ("ar", "ag", "rs", "a2a", "bc"):
            for size in (1e3, 1e6, 1e9):
                cubes = [
                    64 * 2**k
                    for k in range(7)
                    if 64 * 2**k <= most and round((2**k) ** (1 / 3)) ** 3 == 2**k
                ]
                times = [
                    colltool.price(name, primitive, size=size, ranks=n).best.total_s for n in cubes
                ]
                assert times == sorted(times), (name, primitive, size, times)
