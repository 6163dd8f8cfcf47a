"""What a tier of each topology can do: the one module that asks a tier for its kind; others ask :func:`capabilities_of`.

A new topology is a tier class in ``model.py``, its answers here, its words in ``algorithms.group``, its links in
``schedules.links``, its eta in ``fabric.templates``: mypy and tests/fabric/test_topology.py name them. Counts: Collectives
Explainer Series part 02 §1, §3.6, §4.2 and appendix B (lattices), part 03 §1 (Clos).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, prod
from typing import Any, NamedTuple, assert_never

from colltool.algorithms.group import Axis
from colltool.base.arrays import largest
from colltool.base.formatting import Shape
from colltool.definitions.field_types import MAX_RANKS
from colltool.fabric.capabilities import DistanceClass, TierCapabilities
from colltool.fabric.model import ClosTier, FullMeshTier, LatticeTier, StarTier, Tier
from colltool.fabric.routed import GraphTopology
from colltool.fabric.routed_tiers import GraphTier
from colltool.fabric.tier_parts import InNetwork, Level, Planes, Sizing, oversubscription_totals


class StarTopology(TierCapabilities[StarTier]):
    joins = "accelerators"

    @property
    def in_network(self) -> InNetwork | None:
        return self.tier.in_network

    @property
    def planes(self) -> Planes | None:
        return self.tier.planes

    @property
    def diameter_links(self) -> int:
        return 2 if self.tier.size > 1 else 0

    @property
    def bisection_Bps(self) -> float:
        """floor(N/2)·BW: the ports of one half."""
        return self.rate_Bps * (self.tier.size // 2)

    def links(self, copies: int) -> int:
        return copies * self.tier.size * (self.tier.planes.count if self.tier.planes else 1)

    def switches(self, planes: int) -> int:  # noqa: ARG002
        """One across all ranks of an endpoint, however many chips share its ports; one in each of its separate planes."""
        return self.tier.planes.count if self.tier.planes else 1


class FullMeshTopology(TierCapabilities[FullMeshTier]):
    joins = "accelerators"

    @property
    def neighbours(self) -> int:
        return self.tier.size - 1

    @property
    def diameter_links(self) -> int:
        return 1 if self.tier.size > 1 else 0

    @property
    def bisection_Bps(self) -> float:
        """floor(N/2)·ceil(N/2)·BW: a link for each pair across."""
        return self.rate_Bps * (self.tier.size // 2) * ((self.tier.size + 1) // 2)

    def links(self, copies: int) -> int:
        """N (N - 1)/2 a copy."""
        return copies * self.tier.size * (self.tier.size - 1) // 2


class LatticeTopology(TierCapabilities[LatticeTier]):
    joins = "either"
    most = 0

    @property
    def axes(self) -> tuple[Axis, ...]:
        return _axes_of(self.tier)

    def slice(self, endpoints: int, shape: Shape | None = None) -> LatticeTier | None:
        return best_slice(self.tier, endpoints) if shape is None else _cut(self.tier, shape)

    @property
    def neighbours(self) -> int:
        """Σ min(d_i - 1, 2): none for d = 1, one for d = 2 (direct and wraparound are the same link), two from d = 3."""
        return sum(min(d - 1, 2) for d in self.tier.shape)

    @property
    def diameter_links(self) -> int:
        """Torus Σ floor(d_i/2), mesh Σ (d_i - 1)."""
        return sum(map(_across, self.axes))

    @property
    def bisection_Bps(self) -> float:
        """The cut of the axis with the fewest links: N/d lines of 2 links on a ring of d >= 3, else of 1."""
        cuts = (prod(self.tier.shape) // axis.size * (2 if axis.is_ring else 1) for axis in self.axes if axis.size > 1)
        return self.rate_Bps * min(cuts, default=0)

    def links(self, copies: int) -> int:
        """Per line of an axis d - 1, plus the wraparound on a ring."""
        lines = ((prod(self.tier.shape) // axis.size, axis) for axis in self.axes)
        return copies * sum(count * (axis.size if axis.is_ring else axis.size - 1) for count, axis in lines)


class ClosTopology(TierCapabilities[ClosTier]):
    joins = "hosts"

    @property
    def most(self) -> int:
        return self.levels[-1].group if self.levels else MAX_RANKS

    @property
    def in_network(self) -> InNetwork | None:
        return self.tier.in_network

    @property
    def levels(self) -> tuple[Level, ...]:
        return self.tier.levels or ()

    @property
    def planes(self) -> Planes | None:
        return self.tier.planes

    @property
    def named(self) -> bool:
        return super().named or self.trunk_Bps is not None

    @property
    def trunk_Bps(self) -> float | None:
        return self.tier.trunk

    @property
    def classes(self) -> tuple[DistanceClass, ...]:
        """A trunk is the uplink of a level of one endpoint each, as oversubscribed as its ranks have more ports."""
        if self.tier.trunk is not None:
            (joined,) = super().classes
            ratio = largest(1.0, self.tier.ranks_inside * self.rate_Bps / self.tier.trunk)
            return joined._replace(name="site", group=1), joined._replace(name="trunk", oversubscription=ratio)
        if not self.levels:
            return super().classes
        totals = zip(self.levels, oversubscription_totals(self.levels), strict=True)
        return tuple(self._class(one.name, one.group, one.alpha, total, one.cable) for one, total in totals)

    def at_alpha(self, alpha_s: float) -> Mapping[str, Any]:
        if not self.levels:
            return super().at_alpha(alpha_s)
        nearest = self.levels[0].alpha
        alphas = (alpha_s + largest(one.alpha - nearest, 0.0) for one in self.levels)  # farther levels rise and fall with it
        return {"levels": tuple(one.model_copy(update={"alpha": to}) for one, to in zip(self.levels, alphas, strict=True))}

    @property
    def diameter_links(self) -> int:
        return 2 * len(self.reached) if self.tier.size > 1 else 0

    @property
    def bisection_Bps(self) -> float:
        """floor(N/2)·BW/s; s is the largest ratio: each is against the endpoints below, so ratios do not multiply."""
        return self.rate_Bps * (self.tier.size // 2) / max(one.oversubscription for one in self.reached)

    def links(self, copies: int) -> int:
        """A cable for each endpoint port, and N/s uplinks for each boundary between levels; a trunk each, or one between two."""
        if self.tier.trunk is not None:
            return self.tier.size if self.tier.size > 2 else self.tier.size - 1
        ports = copies * self.tier.size * (self.tier.planes.count if self.tier.planes else 1)
        return ports + sum(ceil(ports / one.oversubscription) for one in self.reached[1:])

    def switches(self, planes: int) -> int | None:
        """One in each plane where a single level joins all; otherwise the radix decides."""
        each = self.tier.planes.count if self.tier.planes else 1
        return each if planes == 1 and len(self.reached) < 2 else None

    @property
    def sizing(self) -> Sizing | None:
        return self.tier.sizing


def capabilities_of(tier: Tier) -> TierCapabilities[Tier]:
    match tier:
        case StarTier():
            return StarTopology(tier)
        case FullMeshTier():
            return FullMeshTopology(tier)
        case LatticeTier():
            return LatticeTopology(tier)
        case ClosTier():
            return ClosTopology(tier)
        case GraphTier():
            return GraphTopology(tier)
        case _:
            assert_never(tier)


class _Box(NamedTuple):
    narrow: float  # N over it is the number of links that halve the box
    diameter: int
    shape: Shape


def best_slice(tier: LatticeTier, endpoints: int) -> LatticeTier | None:
    """The slice that a group of this many endpoints takes: of all boxes of whole lines the one with the largest bisection.

    Then the least diameter; None where none fits. Where the file lists what its maker rents out (``slices``, ``cube``), the best
    of those: a box of whole cubes is joined by optical switches, so it need not lie inside the lattice and has wraparound. Any
    other box wraps along the axes that it takes whole.
    """
    rented = [axes for one in tier.slices or () if prod(one) == endpoints and (axes := _slice_axes(tier, one))]
    if tier.cube is not None and endpoints <= tier.endpoints and endpoints % tier.cube ** len(tier.shape) == 0:
        cubes = endpoints // tier.cube ** len(tier.shape)
        for box in _boxes(tuple(Axis(cubes + 1, False) for _ in tier.shape), cubes):
            rented.append(tuple(Axis(tier.cube * one, tier.closes) for one in reversed(box.shape)))  # the longest last
    boxes = [_Box(max(map(_narrow, axes)), sum(map(_across, axes)), tuple(axis.size for axis in axes)) for axes in rented]
    # of equal boxes inside the lattice the first takes most of the innermost axes
    found = min(boxes, default=None) or next(iter(_boxes(_axes_of(tier), endpoints)), None)
    return None if found is None else _cut(tier, found.shape)


def _cut(tier: LatticeTier, shape: Shape) -> LatticeTier | None:
    """The slice of this shape as a lattice of its own; None where it does not fit."""
    if shape == tier.shape:
        return tier
    axes = _slice_axes(tier, shape)
    return tier.model_copy(update={"shape": shape, "wrap": tuple(axis.wrap for axis in axes)}) if axes else None


def _slice_axes(tier: LatticeTier, shape: Shape) -> tuple[Axis, ...] | None:
    if _of_cubes(tier, shape):
        return tuple(Axis(size, tier.closes) for size in shape) if prod(shape) <= tier.endpoints else None
    if any(size > most for size, most in zip(shape, tier.shape, strict=True)):
        return None
    if tier.cube is not None and shape in (tier.slices or ()):
        return tuple(Axis(size, False) for size in shape)
    return tuple(Axis(size, axis.wrap and size == axis.size) for size, axis in zip(shape, _axes_of(tier), strict=True))


def _axes_of(tier: LatticeTier) -> tuple[Axis, ...]:
    """The axes of a lattice, closed as ``wrap`` says; default: a torus is.

    A torus built of cubes is closed only where every axis is whole cubes. Source: MaxText's table of slices,
    ``accelerator_to_spec_map.py``: TPU v4 and v5p below 4x4x4 have no wraparound.
    """
    if tier.wrap is not None:
        return tuple(map(Axis, tier.shape, tier.wrap))
    return tuple(Axis(size, tier.closes and (tier.cube is None or _of_cubes(tier, tier.shape))) for size in tier.shape)


def _of_cubes(tier: LatticeTier, shape: Shape) -> bool:
    return tier.cube is not None and all(size % tier.cube == 0 for size in shape)


@lru_cache(maxsize=4096)
def _boxes(axes: tuple[Axis, ...], endpoints: int) -> tuple[_Box, ...]:
    """The Pareto-best boxes, largest bisection first; axis by axis, since a part of a best box is best."""
    if not axes:
        return (_Box(0.0, 0, ()),) if endpoints == 1 else ()
    found = []
    for size in (size for size in range(min(axes[0].size, endpoints), 0, -1) if endpoints % size == 0):
        first = Axis(size, axes[0].wrap and size == axes[0].size)
        for rest in _boxes(axes[1:], endpoints // size):
            found.append(_Box(max(_narrow(first), rest.narrow), _across(first) + rest.diameter, (size, *rest.shape)))
    kept: list[_Box] = []
    for box in sorted(found, key=lambda one: one[:2]):  # stable: the longer inner axis stays first
        if not kept or box.diameter < kept[-1].diameter:
            kept.append(box)
    return tuple(kept)


def _narrow(axis: Axis) -> float:
    return axis.size / (2 if axis.is_ring else 1) if axis.size > 1 else 0.0


def _across(axis: Axis) -> int:
    return axis.size // 2 if axis.wrap else axis.size - 1
