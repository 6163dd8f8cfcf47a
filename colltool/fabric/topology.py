"""What a tier of each topology can do: the one module that asks a tier for its kind; others ask :func:`capabilities_of`.

A new topology is a tier class in ``model.py``, its answers here, its words in ``algorithms.group`` and its links in
``congestion.links``: mypy names each of these places as soon as the class is in the union ``Tier``. Source of the counts:
Collectives Explainer Series part 02 §1, §3.6, §4.2 and appendix B (lattices), part 03 §1 (Clos).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod
from typing import Any, TypeVar, assert_never

from colltool.algorithms.group import Axis
from colltool.base.arrays import largest
from colltool.base.formatting import Shape
from colltool.definitions.field_types import MAX_RANKS
from colltool.fabric.capabilities import DistanceClass, TierCapabilities, distance_class
from colltool.fabric.model import ClosTier, FullMeshTier, LatticeTier, StarTier, Tier
from colltool.fabric.slices import axes_of, best, cut
from colltool.fabric.tier_parts import InNetwork, Level, Sizing, oversubscription_totals

OneAlpha = TypeVar("OneAlpha", bound=StarTier | FullMeshTier | LatticeTier, covariant=True)


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
        case _:
            assert_never(tier)


class _Simple(TierCapabilities[OneAlpha]):
    """One distance class, and no sizing."""

    levels = ()
    sizing = None
    as_fat_tree = False

    @property
    def classes(self) -> tuple[DistanceClass, ...]:
        return (distance_class(self.tier.name, self.tier.endpoints, self.tier.alpha, cable=self.tier.cable),)

    def at_alpha(self, alpha_s: float) -> Mapping[str, Any]:
        return {"alpha": alpha_s}

    def switches(self, planes: int) -> int:  # noqa: ARG002
        return 0


class StarTopology(_Simple[StarTier]):
    """One switch, however many chips share its ports."""

    joins = "accelerators"
    most = MAX_RANKS
    axes = ()
    neighbours = 1

    @property
    def in_network(self) -> InNetwork | None:
        return self.tier.in_network

    @property
    def diameter_links(self) -> int:
        return 2 if self.tier.size > 1 else 0

    @property
    def bisection_Bps(self) -> float:
        """floor(N/2)·BW: the ports of one half."""
        return self._rate * (self.tier.size // 2)

    def links(self, copies: int) -> int:
        return copies * self.tier.size

    def switches(self, planes: int) -> int:  # noqa: ARG002
        """One, across all planes."""
        return 1


class FullMeshTopology(_Simple[FullMeshTier]):
    joins = "accelerators"
    most = MAX_RANKS
    axes = ()
    in_network = None

    @property
    def neighbours(self) -> int:
        return self.tier.size - 1

    @property
    def diameter_links(self) -> int:
        return 1 if self.tier.size > 1 else 0

    @property
    def bisection_Bps(self) -> float:
        """floor(N/2)·ceil(N/2)·BW: a link for each pair across."""
        half = self.tier.size // 2
        return self._rate * half * (self.tier.size - half)

    def links(self, copies: int) -> int:
        """N (N - 1)/2 a copy."""
        return copies * self.tier.size * (self.tier.size - 1) // 2


class LatticeTopology(_Simple[LatticeTier]):
    joins = "either"
    most = 0
    in_network = None

    @property
    def axes(self) -> tuple[Axis, ...]:
        return axes_of(self.tier)

    def slice(self, endpoints: int, shape: Shape | None = None) -> LatticeTier | None:
        return best(self.tier, endpoints) if shape is None else cut(self.tier, shape)

    @property
    def neighbours(self) -> int:
        """Σ min(d_i - 1, 2): none for d = 1, one for d = 2 (direct and wraparound are the same link), two from d = 3."""
        return sum(min(d - 1, 2) for d in self.tier.shape)

    @property
    def diameter_links(self) -> int:
        """Torus Σ floor(d_i/2), mesh Σ (d_i - 1)."""
        return sum(axis.size // 2 if axis.wrap else axis.size - 1 for axis in self.axes)

    @property
    def bisection_Bps(self) -> float:
        """The cut of the axis with the fewest links: N/d lines of 2 links on a ring of d >= 3, else of 1."""
        cuts = (prod(self.tier.shape) // axis.size * (2 if axis.is_ring else 1) for axis in self.axes if axis.size > 1)
        return self._rate * min(cuts, default=0)

    def links(self, copies: int) -> int:
        """Per line of an axis d - 1, plus the wraparound on a ring."""
        lines = ((prod(self.tier.shape) // axis.size, axis) for axis in self.axes)
        return copies * sum(count * (axis.size if axis.is_ring else axis.size - 1) for count, axis in lines)


class ClosTopology(TierCapabilities[ClosTier]):
    """Each level is a distance class; a single one where the file gives ``alpha``."""

    joins = "hosts"
    axes = ()
    neighbours = 1

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
    def classes(self) -> tuple[DistanceClass, ...]:
        if self.tier.alpha is not None:
            return (distance_class(self.tier.name, self.tier.size, self.tier.alpha, cable=self.tier.cable),)
        own = self.tier.cable
        return tuple(
            distance_class(one.name, one.group, one.alpha, total, cable=one.cable or own)
            for one, total in zip(self.levels, oversubscription_totals(self.levels), strict=True)
        )

    def at_alpha(self, alpha_s: float) -> Mapping[str, Any]:
        if not self.levels:
            return {"alpha": alpha_s}
        nearest = self.levels[0].alpha
        alphas = (alpha_s + largest(one.alpha - nearest, 0.0) for one in self.levels)  # farther levels rise and fall with it
        return {"levels": tuple(one.model_copy(update={"alpha": to}) for one, to in zip(self.levels, alphas, strict=True))}

    @property
    def diameter_links(self) -> int:
        return 2 * len(self.reached) if self.tier.size > 1 else 0

    @property
    def bisection_Bps(self) -> float:
        """floor(N/2)·BW/s; s is the largest ratio: each is against the endpoints below, so ratios do not multiply."""
        return self._rate * (self.tier.size // 2) / max(one.oversubscription for one in self.reached)

    def links(self, copies: int) -> int:
        """A cable for each endpoint port, and N/s uplinks for each boundary between levels."""
        ports = copies * self.tier.size
        return ports + sum(ceil(ports / one.oversubscription) for one in self.reached[1:])

    def switches(self, planes: int) -> int | None:
        """One where a single level joins all; otherwise the radix decides."""
        return 1 if planes == 1 and len(self.reached) < 2 else None

    @property
    def sizing(self) -> Sizing | None:
        return self.tier.sizing

    @property
    def as_fat_tree(self) -> bool:
        return len(self.reached) > 1
