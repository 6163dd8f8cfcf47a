"""Which slice of a torus or mesh a group gets: a box of whole lines, or one of the shapes that its
vendor rents out. :func:`best_slice` chooses one by size, :func:`cut_slice` takes a shape.

A box has a size along each axis. An optical switch can join whole cubes (of ``tier.cube`` endpoints
along each axis) from anywhere in the lattice to a box.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import NamedTuple

from colltool.base.formatting import Shape
from colltool.fabric.tiers import LatticeTier
from colltool.network.group import Axis, sizes_of
from colltool.network.twisted import twisted_axes


class _Box(NamedTuple):
    """A box of endpoints; boxes sort by bisection, then by diameter (in links), the best first, as the
    order of the fields has it.

    ``endpoints_per_cut``: endpoints for each link of the narrowest cut into halves.
    """

    endpoints_per_cut: float
    diameter: int
    shape: Shape


def _box(axes: tuple[Axis, ...]) -> _Box:
    """The box with these axes."""
    per_cut = max(map(_endpoints_per_cut, axes))
    return _Box(per_cut, sum(map(_axis_diameter, axes)), sizes_of(axes))


def best_slice(tier: LatticeTier, endpoints: int) -> LatticeTier | None:
    """Return the slice that a group of this many endpoints gets: of all boxes of whole lines the
    one with the largest bisection, and of equals the one with the least diameter. None if none
    fits.

    Where the file lists what its vendor rents out
    (``slices``, ``cube``), the best of those: a box of whole cubes is joined by optical switches,
    so it need not lie inside the lattice and has wraparound, also twisted where the lattice is and
    the box can be. Any other box wraps along the axes that it takes whole.
    """
    boxes = []
    for shape in tier.slices or ():
        if prod(shape) == endpoints:
            axes = _slice_axes(tier, shape)
            if axes:
                boxes.append(_box(axes))
    boxes += _boxes_of_cubes(tier, endpoints)
    if not boxes:
        # the best first; of equal boxes that which takes most of the innermost axes
        boxes += _boxes(axes_of(tier), endpoints)[:1]
    if not boxes:
        return None
    return cut_slice(tier, min(boxes).shape)


def _boxes_of_cubes(tier: LatticeTier, endpoints: int) -> Iterator[_Box]:
    """Boxes of whole cubes, the longest axis last; none where the lattice has no cubes."""
    if tier.cube is None:
        return
    cubes, rest = divmod(endpoints, tier.cube ** len(tier.shape))
    if rest or endpoints > tier.endpoints:
        return
    # open, and longer than any box: optical switches close boxes afterwards
    open_axis = Axis(cubes + 1, wrap=False)
    for box in _boxes((open_axis,) * len(tier.shape), cubes):
        sizes = reversed(box.shape)
        yield _box(tuple(Axis(tier.cube * size, tier.closes) for size in sizes))


def cut_slice(tier: LatticeTier, shape: Shape) -> LatticeTier | None:
    """Return the slice of this shape as a lattice of its own. None if it does not fit."""
    if shape == tier.shape:
        return tier
    axes = _slice_axes(tier, shape)
    if not axes:
        return None
    if tier.twist and of_cubes(tier, shape) and twisted_axes(shape):
        return tier.model_copy(update={"shape": shape})
    wrap = tuple(axis.wrap for axis in axes)
    return tier.model_copy(update={"shape": shape, "wrap": wrap, "twist": False})


def _slice_axes(tier: LatticeTier, shape: Shape) -> tuple[Axis, ...] | None:
    """The axes of a slice; None where it does not fit."""
    if of_cubes(tier, shape):
        if prod(shape) > tier.endpoints:
            return None
        return tuple(Axis(size, tier.closes) for size in shape)
    if any(size > most for size, most in zip(shape, tier.shape, strict=True)):
        return None
    # of what the vendor rents out, boxes below a cube have no wraparound
    if tier.cube is not None and shape in (tier.slices or ()):
        return tuple(Axis(size, wrap=False) for size in shape)
    pairs = zip(shape, axes_of(tier), strict=True)
    return tuple(Axis(size, axis.wrap and size == axis.size) for size, axis in pairs)


def axes_of(tier: LatticeTier) -> tuple[Axis, ...]:
    """Return the axes of a lattice, closed as ``wrap`` says; default: those of a torus are.

    A torus built of cubes is closed only where every axis is whole cubes. Source: MaxText's table
    of slices, ``accelerator_to_spec_map.py``: TPU v4 and v5p below 4x4x4 have no wraparound.
    """
    if tier.twist:
        # the file was refused where none is defined
        return twisted_axes(tier.shape) or ()
    if tier.wrap is not None:
        return tuple(map(Axis, tier.shape, tier.wrap))
    closed = tier.closes and (tier.cube is None or of_cubes(tier, tier.shape))
    return tuple(Axis(size, closed) for size in tier.shape)


def of_cubes(tier: LatticeTier, shape: Shape) -> bool:
    """Whether a box is whole cubes, which optical switches join."""
    return tier.cube is not None and all(size % tier.cube == 0 for size in shape)


@lru_cache(maxsize=4096)
def _boxes(axes: tuple[Axis, ...], endpoints: int) -> tuple[_Box, ...]:
    """The boxes that no other beats in both bisection and diameter, largest bisection first; axis by
    axis, since a part of a best box is best.

    Of 8 endpoints on an open 8x8 lattice: 4x2, cut over 2 links (4 endpoints each), diameter 4; not 8x1, cut
    over one link, diameter 7.
    """
    if not axes:
        if endpoints == 1:
            return (_Box(0.0, 0, ()),)
        return ()
    axis, *further_axes = axes
    boxes = []
    for size in range(min(axis.size, endpoints), 0, -1):
        if endpoints % size:
            continue
        taken = Axis(size, axis.wrap and size == axis.size)
        for outer in _boxes(tuple(further_axes), endpoints // size):
            per_cut = max(_endpoints_per_cut(taken), outer.endpoints_per_cut)
            diameter = _axis_diameter(taken) + outer.diameter
            boxes.append(_Box(per_cut, diameter, (size, *outer.shape)))
    # by bisection and diameter; stable: of equal boxes the longer inner axis stays first
    boxes.sort(key=lambda box: (box.endpoints_per_cut, box.diameter))
    unbeaten: list[_Box] = []
    for box in boxes:
        if not unbeaten or box.diameter < unbeaten[-1].diameter:
            unbeaten.append(box)
    return tuple(unbeaten)


def _endpoints_per_cut(axis: Axis) -> float:
    """Endpoints of an axis for each link that its cut into halves crosses. A ring is cut twice: of 8, 4."""
    if axis.size == 1:
        return 0.0
    links = 2 if axis.is_ring else 1
    return axis.size / links


def _axis_diameter(axis: Axis) -> int:
    """Links of the longest shortest path along an axis."""
    return axis.size // 2 if axis.wrap else axis.size - 1
