"""The slice that so many ranks of a lattice take, against every box that there is."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small import fabric, mesh, torus
from swept import swept

import colltool
from colltool import ColltoolError
from colltool.fabric.slices import best_slice
from colltool.fabric.tiers import LatticeTier
from colltool.fabric.topology import LatticeTopology

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=3)


def lattice(kind: Any, shape: list[int]) -> LatticeTier:
    tier = fabric(kind(*shape)).tiers[0]
    assert isinstance(tier, LatticeTier)
    return tier


def links(box: LatticeTier, axis: int) -> int:
    """Links over the middle of an axis, one by one: a pair of neighbours whose halves differ."""
    size, closed = box.shape[axis], LatticeTopology(box).axes[axis].wrap
    pairs = [(at, at + 1) for at in range(size - 1)] + (
        [(size - 1, 0)] if closed and size > 2 else []
    )
    return (
        prod(box.shape)
        // size
        * sum((one < size // 2) != (other < size // 2) for one, other in pairs)
    )


def merit(box: LatticeTier) -> tuple[int, int]:
    """Most links over the worst middle, then the shortest longest way: smaller is better."""
    cuts = [links(box, axis) for axis, size in enumerate(box.shape) if size > 1]
    return -min(cuts, default=0), LatticeTopology(box).diameter_links


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from([torus, mesh]), SIZES, st.data())
def test_it_is_the_best_of_all_boxes(kind: Any, shape: list[int], data: st.DataObject) -> None:
    tier = lattice(kind, shape)
    ranks = data.draw(st.integers(1, tier.endpoints))
    shapes = (box for box in product(*(range(1, size + 1) for size in shape)) if prod(box) == ranks)
    boxes = [LatticeTopology(tier).slice(ranks, box) for box in shapes]
    found = best_slice(tier, ranks)
    if not boxes:
        assert found is None
        return
    assert found is not None
    assert found.endpoints == ranks
    assert merit(found) == min(merit(box) for box in boxes if box)


@swept(
    ("name", "ranks", "shape", "closed"),
    [
        ("tpu-v5p", 4, (2, 2, 1), False),
        ("tpu-v5p", 8, (2, 2, 2), False),
        ("tpu-v5p", 16, (2, 2, 4), False),
        ("tpu-v5p", 32, (2, 4, 4), False),
        ("tpu-v5p", 64, (4, 4, 4), True),
        ("tpu-v5p", 192, (4, 4, 12), True),
        ("tpu-v5p", 256, (4, 8, 8), True),
        ("tpu-v5p", 512, (8, 8, 8), True),
        ("tpu-v5p", 3072, (12, 16, 16), True),
        ("tpu-v4-512", 32, (2, 4, 4), False),
        ("tpu-v4-512", 128, (4, 4, 8), True),
        ("tpu-v4-512", 320, (4, 4, 20), True),  # five cubes: switches join them in any order
    ],
)
def test_the_slices_that_the_maker_rents_out(
    name: str, ranks: int, shape: tuple[int, ...], closed: bool
) -> None:
    """Source: Google Cloud TPU v4 and v5p documentation, and MaxText's table of slices with their
    wraparound."""
    tier = colltool.load_fabric(name).tiers[0]
    assert isinstance(tier, LatticeTier)
    found = best_slice(tier, ranks)
    assert found is not None
    assert found.shape == shape
    assert all(axis.wrap == closed for axis in LatticeTopology(found).axes)


def test_a_fabric_of_that_shape_is_the_slice() -> None:
    """Also where it is open: below a whole cube there is no wraparound."""
    for ranks, shape in ((64, "4x4x4"), (32, "2x4x4")):
        group = colltool.price("tpu-v5p", "ar", size=1e9, ranks=ranks)
        alone = colltool.price(
            colltool.load_fabric("tpu-v5p", [f"ici.shape={shape}"]), "ar", size=1e9
        )
        assert [(row.title, row.total_s) for row in group.results] == [
            (row.title, row.total_s) for row in alone.results
        ]


BAD = {
    "wrap: [true, false]": "has 2 entries, the shape has 3 axes",
    "slices: [[2, 2]]": "has 2 axes, the shape has 3",
    "cube: 1": "from 2",
    "wrap: 3": "list",
}


@swept("line", BAD)
def test_what_does_not_fit_the_shape_is_refused(line: str) -> None:
    key, _, value = line.partition(": ")
    with pytest.raises(ColltoolError, match=BAD[line]):
        colltool.load_fabric("torus512", [f"torus.{key}={value}"])


def test_a_mesh_has_no_wraparound() -> None:
    with pytest.raises(ColltoolError, match="no wraparound"):
        colltool.load_fabric("mesh512", ["mesh.wrap=[true, true, true]"])


def test_an_axis_may_be_open() -> None:
    """As on TPU v5e: of a slice of 8x16 only the whole axis of 16 is closed (MaxText's table)."""
    some = colltool.load_fabric("torus512", ["torus.wrap=[true, true, false]"])
    opened, closed = (
        colltool.price(one, "ar", size=1e9, algorithms="multi-ring").best
        for one in (some, "torus512")
    )
    # the part on the open axis holds up every step
    assert opened.bandwidth_s / closed.bandwidth_s == pytest.approx(2)
    assert LatticeTopology(some.tiers[0]).diameter_links == 4 + 4 + 7  # type: ignore[arg-type]
