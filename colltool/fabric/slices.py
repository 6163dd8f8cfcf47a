"""The slice of a torus or mesh that a group takes: boxes of whole lines, or what its maker rents
out."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from colltool.base.formatting import Shape
from colltool.fabric.tiers import LatticeTier
from colltool.network.group import Axis
from colltool.network.twisted import twisted_axes


class _Box(NamedTuple):
    narrow: float  # N over it is the number of links that halve the box
    diameter: int
    shape: Shape


def best_slice(tier: LatticeTier, endpoints: int) -> LatticeTier | None:
    """The slice that a group of this many endpoints takes: of all boxes of whole lines the one with
    the largest bisection.

    Then the least diameter; None where none fits. Where the file lists what its maker rents out
    (``slices``, ``cube``), the best of those: a box of whole cubes is joined by optical switches,
    so it need not lie inside the lattice and has wraparound, also twisted where the lattice is and
    the box can be. Any other box wraps along the axes that it takes whole.
    """
    rented = [
        axes
        for one in tier.slices or ()
        if prod(one) == endpoints and (axes := _slice_axes(tier, one))
    ]
    if (
        tier.cube is not None
        and endpoints <= tier.endpoints
        and endpoints % tier.cube ** len(tier.shape) == 0
    ):
        cubes = endpoints // tier.cube ** len(tier.shape)
        for box in _boxes(tuple(Axis(cubes + 1, False) for _ in tier.shape), cubes):
            # the longest last
            rented.append(tuple(Axis(tier.cube * one, tier.closes) for one in reversed(box.shape)))
    boxes = [
        _Box(max(map(_narrow, axes)), sum(map(_across, axes)), tuple(axis.size for axis in axes))
        for axes in rented
    ]
    # of equal boxes inside the lattice the first takes most of the innermost axes
    found = min(boxes, default=None) or next(iter(_boxes(axes_of(tier), endpoints)), None)
    return None if found is None else cut_slice(tier, found.shape)


def cut_slice(tier: LatticeTier, shape: Shape) -> LatticeTier | None:
    """The slice of this shape as a lattice of its own; None where it does not fit."""
    if shape == tier.shape:
        return tier
    axes = _slice_axes(tier, shape)
    if not axes:
        return None
    if tier.twist and of_cubes(tier, shape) and twisted_axes(shape):
        return tier.model_copy(update={"shape": shape})
    return tier.model_copy(
        update={"shape": shape, "wrap": tuple(axis.wrap for axis in axes), "twist": False}
    )


def _slice_axes(tier: LatticeTier, shape: Shape) -> tuple[Axis, ...] | None:
    if of_cubes(tier, shape):
        return (
            tuple(Axis(size, tier.closes) for size in shape)
            if prod(shape) <= tier.endpoints
            else None
        )
    if any(size > most for size, most in zip(shape, tier.shape, strict=True)):
        return None
    if tier.cube is not None and shape in (tier.slices or ()):
        return tuple(Axis(size, False) for size in shape)
    return tuple(
        Axis(size, axis.wrap and size == axis.size)
        for size, axis in zip(shape, axes_of(tier), strict=True)
    )


def axes_of(tier: LatticeTier) -> tuple[Axis, ...]:
    """The axes of a lattice, closed as ``wrap`` says; default: a torus is.

    A torus built of cubes is closed only where every axis is whole cubes. Source: MaxText's table
    of slices, ``accelerator_to_spec_map.py``: TPU v4 and v5p below 4x4x4 have no wraparound.
    """
    if tier.twist:
        return twisted_axes(tier.shape) or ()  # the file was refused where none is defined
    if tier.wrap is not None:
        return tuple(map(Axis, tier.shape, tier.wrap))
    return tuple(
        Axis(size, tier.closes and (tier.cube is None or of_cubes(tier, tier.shape)))
        for size in tier.shape
    )


def of_cubes(tier: LatticeTier, shape: Shape) -> bool:
    return tier.cube is not None and all(size % tier.cube == 0 for size in shape)


@lru_cache(maxsize=4096)
def _boxes(axes: tuple[Axis, ...], endpoints: int) -> tuple[_Box, ...]:
    """The Pareto-best boxes, largest bisection first; axis by axis, since a part of a best box is
    best."""
    if not axes:
        return (_Box(0.0, 0, ()),) if endpoints == 1 else ()
    found = []
    for size in (
        size for size in range(min(axes[0].size, endpoints), 0, -1) if endpoints % size == 0
    ):
        first = Axis(size, axes[0].wrap and size == axes[0].size)
        for rest in _boxes(axes[1:], endpoints // size):
            found.append(
                _Box(
                    max(_narrow(first), rest.narrow),
                    _across(first) + rest.diameter,
                    (size, *rest.shape),
                )
            )
    kept: list[_Box] = []
    for box in sorted(found, key=lambda one: one[:2]):  # stable: the longer inner axis stays first
        if not kept or box.diameter < kept[-1].diameter:
            kept.append(box)
    return tuple(kept)


def _narrow(axis: Axis) -> float:
    return axis.size / (2 if axis.is_ring else 1) if axis.size > 1 else 0.0


def _across(axis: Axis) -> int:
    return axis.size // 2 if axis.wrap else axis.size - 1
