"""Capabilities of the tiers of each topology, and :func:`capabilities_of`, which finds those of a
tier: pricing asks them and never the kind of a tier.

A new topology has a tier class in ``tiers.py`` (``routed_tiers.py`` where messages follow routes)
and a class here; CONTRIBUTING's recipe names the rest. Counts: Collectives Explainer Series part 02
§1, §3.6, §4.2 and appendix B (lattices), part 03 §1 (Clos).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, prod
from typing import Any, assert_never

from colltool.base.arrays import largest
from colltool.base.formatting import Shape
from colltool.definitions.field_types import MAX_RANKS
from colltool.fabric.capabilities import DistanceClass, TierCapabilities
from colltool.fabric.dragonfly import DragonflyTopology
from colltool.fabric.model import Tier
from colltool.fabric.routed import GraphTopology, HyperXTopology
from colltool.fabric.routed_tiers import DragonflyPlusTier, DragonflyTier, GraphTier, HyperXTier
from colltool.fabric.slices import axes_of, best_slice, cut_slice, of_cubes
from colltool.fabric.tier_parts import Level, Planes, Sizing, oversubscription_totals
from colltool.fabric.tiers import ClosTier, FullMeshTier, LatticeTier, StarTier
from colltool.network.group import Axis
from colltool.network.twisted import diameter_of, links_across


class StarTopology(TierCapabilities[StarTier]):
    joins = "accelerators"

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
        """A link from each port of an endpoint to its switch, on each plane."""
        return copies * self.tier.size * self.plane_count

    def switches(self, planes: int) -> int:  # noqa: ARG002
        """One for all ranks of an endpoint, however many chips share its ports; with planes one in each of
        these."""
        return self.plane_count


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
    largest_size = 0

    @property
    def label(self) -> str:
        return "twisted torus" if self.tier.twist else self.tier.topology

    @property
    def axes(self) -> tuple[Axis, ...]:
        return axes_of(self.tier)

    def slice(self, endpoints: int, shape: Shape | None = None) -> LatticeTier | None:
        if shape is None:
            return best_slice(self.tier, endpoints)
        return cut_slice(self.tier, shape)

    @property
    def cube(self) -> int:
        tier = self.tier
        if tier.cube is None or not of_cubes(tier, tier.shape):
            return 0
        endpoints: int = tier.cube ** len(tier.shape)
        return endpoints

    @property
    def neighbours(self) -> int:
        """Σ min(d_i - 1, 2): none for d = 1, one for d = 2 (direct and wraparound are the same
        link), two from d = 3.

        Two with a twist, which leads elsewhere.
        """
        return sum(2 if axis.closed else min(axis.size - 1, 2) for axis in self.axes)

    @property
    def diameter_links(self) -> int:
        """Torus Σ floor(d_i/2), mesh Σ (d_i - 1)."""
        return diameter_of(self.axes)

    @property
    def bisection_Bps(self) -> float:
        """The links across the middle of the axis where these are fewest, times the rate of one: N/d lines
        with 2 links on a ring of d >= 3, else with 1; with a twist those that it leads across too. 0 for a
        single endpoint."""
        cuts = []
        for number, axis in enumerate(self.axes):
            if axis.size > 1:
                cuts.append(links_across(self.axes, number))
        return self.rate_Bps * min(cuts, default=0)

    def links(self, copies: int) -> int:
        """Per line of an axis d - 1, plus the wraparound on a ring or with a twist."""
        links = 0
        for axis in self.axes:
            lines = prod(self.tier.shape) // axis.size
            links_of_line = axis.size if axis.closed else axis.size - 1
            links += lines * links_of_line
        return copies * links


class ClosTopology(TierCapabilities[ClosTier]):
    joins = "hosts"

    @property
    def largest_size(self) -> int:
        return self.levels[-1].group if self.levels else MAX_RANKS

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
        """The levels, or with a trunk two classes: ``site``, one endpoint, and ``trunk``, its uplink, which
        is oversubscribed by the rate of all its ranks over the trunk's, at least 1."""
        if self.tier.trunk is not None:
            (whole_tier,) = super().classes
            ratio = largest(1.0, self.tier.ranks_inside * self.rate_Bps / self.tier.trunk)
            site = whole_tier._replace(name="site", group=1)
            return site, whole_tier._replace(name="trunk", oversubscription=ratio)
        if not self.levels:
            return super().classes
        totals = zip(self.levels, oversubscription_totals(self.levels), strict=True)
        return tuple(
            self._class(level.name, level.group, level.alpha, total, level.cable)
            for level, total in totals
        )

    def at_alpha(self, alpha_s: float) -> Mapping[str, Any]:
        if not self.levels:
            return super().at_alpha(alpha_s)
        levels = []
        for level in self.levels:
            # farther levels rise and fall with the nearest
            surplus_s = largest(level.alpha - self.levels[0].alpha, 0.0)
            levels.append(level.model_copy(update={"alpha": alpha_s + surplus_s}))
        return {"levels": tuple(levels)}

    @property
    def diameter_links(self) -> int:
        return 2 * len(self.reached) if self.tier.size > 1 else 0

    @property
    def bisection_Bps(self) -> float:
        """floor(N/2)·BW/s; s is the largest oversubscription of any boundary: each is against all endpoints
        below it, so they do not multiply."""
        worst = max(level.oversubscription for level in self.reached)
        return self.rate_Bps * (self.tier.size // 2) / worst

    def links(self, copies: int) -> int:
        """A cable for each endpoint port, and 1/s uplinks per port for each boundary between levels. Of
        trunks one for each endpoint; two endpoints share one, and one alone has none."""
        if self.tier.trunk is not None:
            return self.tier.size if self.tier.size > 2 else self.tier.size - 1
        ports = copies * self.tier.size * self.plane_count
        return ports + sum(ceil(ports / level.oversubscription) for level in self.reached[1:])

    def switches(self, planes: int) -> int | None:
        """One in each plane where a single level joins all; otherwise the radix decides."""
        return self.plane_count if planes == 1 and len(self.reached) < 2 else None

    @property
    def sizing(self) -> Sizing | None:
        return self.tier.sizing


def capabilities_of(tier: Tier) -> TierCapabilities[Tier]:
    """Return the capabilities of a tier, by its topology."""
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
        case DragonflyTier() | DragonflyPlusTier():
            return DragonflyTopology(tier)
        case HyperXTier():
            return HyperXTopology(tier)
        case _:
            assert_never(tier)


def routed(tiers: Iterable[Tier]) -> bool:
    """Whether any tier is routed link by link, so that prices follow messages over single links."""
    return any(capabilities_of(tier).joined_by == "routes" for tier in tiers)
