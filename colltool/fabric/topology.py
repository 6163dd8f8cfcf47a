"""What a tier of each topology can do: the one module that asks a tier for its kind; others ask :func:`capabilities_of`.

A new topology is a tier class in ``model.py``, its answers here, its words in ``algorithms.group``, its links in
``schedules.links``, its eta in ``fabric.templates``: mypy and tests/fabric/test_topology.py name them. Counts: Collectives
Explainer Series part 02 §1, §3.6, §4.2 and appendix B (lattices), part 03 §1 (Clos).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any, Generic, Literal, NamedTuple, TypeVar, assert_never

from colltool.algorithms.group import Axis, JoinedBy, joined_by
from colltool.algorithms.twisted import diameter_of, links_across
from colltool.base.arrays import largest
from colltool.base.formatting import Shape, shape_text
from colltool.definitions.field_types import MAX_RANKS
from colltool.fabric.model import ClosTier, FullMeshTier, LatticeTier, StarTier, Tier
from colltool.fabric.slices import axes_of, best_slice, cut_slice, of_cubes
from colltool.fabric.tier_parts import InNetwork, Level, Sizing, oversubscription_totals

Of = TypeVar("Of", bound=Tier, covariant=True)


def cable_s(metres: float) -> float:
    """Seconds that a cable adds to α: light in glass takes 5 ns a metre."""
    return metres / 2e8


class DistanceClass(NamedTuple):
    """Pairs of endpoints that are equally far apart.

    ``name``: of the level where they meet, or the tier. ``group``: endpoints in one domain of this class. ``alpha_s``: α without
    η, cable delay included. ``oversubscription``: of the uplinks from the class below. ``cable_m``: metres.
    """

    name: str
    group: int
    alpha_s: float
    oversubscription: float = 1.0
    cable_m: float = 0.0


@dataclass(frozen=True, eq=False)
class TierCapabilities(ABC, Generic[Of]):
    tier: Of

    @property
    def joined_by(self) -> JoinedBy:
        """Switches, a link per pair, or links between neighbours."""
        return joined_by(self.tier.topology)

    @property
    @abstractmethod
    def joins(self) -> Literal["accelerators", "hosts", "either"]:
        """What its endpoints are as the innermost tier: accelerators of one host, hosts of one rank each, or either."""

    @property
    def extent(self) -> str:
        """``72`` endpoints, or ``8x8x4``."""
        return shape_text([axis.size for axis in self.axes]) or str(self.tier.endpoints)

    @property
    def spoken(self) -> str:
        """Its topology, as the file says it or ``twisted torus``."""
        return self.tier.topology

    @property
    def most(self) -> int:
        """The largest ``size`` the file accepts, all else equal; 0 where the tier has no ``size``."""
        return MAX_RANKS

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Of a lattice; empty elsewhere."""
        return ()

    def part(self, endpoints: int, stride: int = 1) -> tuple[Axis, ...] | None:
        """The axes of a group that fills the tier axis by axis, a partial axis open; None where it fills one in part.

        With a stride, every stride-th endpoint: inner axes, of one place each, make up the stride.
        """
        if endpoints == self.tier.endpoints:
            return self.axes
        axes, left, inner = [], endpoints, stride
        for axis in self.axes:
            taken = 1 if inner > 1 else min(axis.size, left)
            if left % taken or (inner > 1 and inner % axis.size):
                return None
            axes.append(Axis(taken, wrap=axis.wrap and taken == axis.size))
            left, inner = left // taken, inner // axis.size if inner > 1 else 1
        return tuple(axes)

    def slice(self, endpoints: int, shape: Shape | None = None) -> Of | None:  # noqa: ARG002
        """The tier as a group sees it: of a lattice the best box of that many endpoints, or this shape; None where none fits."""
        return self.tier

    def takes_stride(self, stride: int) -> bool:
        """Whether every ``stride``-th endpoint makes a group: equally many in each domain, or never two; whole axes."""
        even = all(one.group % stride == 0 or stride > one.group for one in self.reached[:-1])
        size = self.tier.endpoints
        return size % stride == 0 and even and self.part(size // stride, stride) is not None

    @property
    def in_network(self) -> InNetwork | None:
        """What its switches compute; None for nothing."""
        return None

    @property
    def operations(self) -> frozenset[str]:
        """Those of ``reduce``, ``multicast`` and ``all_to_all`` that its switches compute."""
        return frozenset(name for name in ("reduce", "multicast", "all_to_all") if getattr(self.in_network, name, False))

    def with_switch(self, switch: InNetwork | None) -> Mapping[str, Any]:
        """Tier fields that replace its in-network hardware; empty where it has none."""
        return {} if self.in_network is None else {"in_network": switch}

    @property
    def levels(self) -> tuple[Level, ...]:
        """As the file lists them, bottom up."""
        return ()

    @property
    def classes(self) -> tuple[DistanceClass, ...]:
        """Distance classes, nearest first; the last holds all endpoints."""
        assert self.tier.alpha is not None  # only a Clos may leave it to its levels
        return (self._class(self.tier.name, self.tier.endpoints, self.tier.alpha),)

    def at_alpha(self, alpha_s: float) -> Mapping[str, Any]:
        """Tier fields that set α of the nearest class; farther ones keep their surplus, cables add theirs."""
        return {"alpha": alpha_s}

    @property
    def cube(self) -> int:
        """Endpoints of a block that optical switches can put in the place of another; 0 where none do."""
        return 0

    @property
    def neighbours(self) -> int:
        """Endpoints or switches an endpoint has a link to; parallel ports count once, the rim of a mesh is ignored."""
        return 1

    @property
    @abstractmethod
    def diameter_links(self) -> int:
        """Links on the longest shortest path; 0 for a single endpoint."""

    @property
    @abstractmethod
    def bisection_Bps(self) -> float:
        """Bytes/s, one way, all ports, across the worst cut of one plane into halves (floor and ceil of an odd number)."""

    @property
    def sigma(self) -> float | None:
        """Injection of half the endpoints over the bisection: 1 is full bisection; None for a single endpoint."""
        links = 1 if self.joined_by == "switches" else self.neighbours
        return self.tier.endpoints / 2 * links * self._rate / self.bisection_Bps if self.bisection_Bps else None

    @abstractmethod
    def links(self, copies: int) -> int:
        """Cables of this many parallel copies."""

    def switches(self, planes: int) -> int | None:  # noqa: ARG002
        """Switches of all planes together; None where the file does not say what decides."""
        return 0

    @property
    def sizing(self) -> Sizing | None:
        return None

    @property
    def reached(self) -> tuple[DistanceClass, ...]:
        """The classes its pairs fall in: up to the first that joins all endpoints."""
        return self.classes[: 1 + sum(one.group < self.tier.endpoints for one in self.classes)]

    @property
    def _rate(self) -> float:
        return self.tier.bandwidth * self.tier.ports

    def _class(self, name: str, group: int, alpha_s: float, ratio: float = 1.0, own: float | None = None) -> DistanceClass:
        """With the delay of a cable in α: the level's ``own``, else the tier's."""
        metres = own or self.tier.cable or 0.0
        return DistanceClass(name, group, alpha_s + cable_s(metres), ratio, metres)


class StarTopology(TierCapabilities[StarTier]):
    joins = "accelerators"

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
        """One across all planes, however many chips share its ports."""
        return 1


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
        return self._rate * (self.tier.size // 2) * ((self.tier.size + 1) // 2)

    def links(self, copies: int) -> int:
        """N (N - 1)/2 a copy."""
        return copies * self.tier.size * (self.tier.size - 1) // 2


class LatticeTopology(TierCapabilities[LatticeTier]):
    joins = "either"
    most = 0

    @property
    def spoken(self) -> str:
        return "twisted torus" if self.tier.twist else self.tier.topology

    @property
    def axes(self) -> tuple[Axis, ...]:
        return axes_of(self.tier)

    def slice(self, endpoints: int, shape: Shape | None = None) -> LatticeTier | None:
        return best_slice(self.tier, endpoints) if shape is None else cut_slice(self.tier, shape)

    @property
    def cube(self) -> int:
        return self.tier.cube ** len(self.tier.shape) if self.tier.cube and of_cubes(self.tier, self.tier.shape) else 0

    @property
    def neighbours(self) -> int:
        """Σ min(d_i - 1, 2): none for d = 1, one for d = 2 (direct and wraparound are the same link), two from d = 3.

        Two with a twist, which leads elsewhere.
        """
        return sum(2 if axis.closed else min(axis.size - 1, 2) for axis in self.axes)

    @property
    def diameter_links(self) -> int:
        """Torus Σ floor(d_i/2), mesh Σ (d_i - 1)."""
        return diameter_of(self.axes)

    @property
    def bisection_Bps(self) -> float:
        """The cut of the axis with the fewest links: N/d lines of 2 links on a ring of d >= 3, else of 1; and twists along it."""
        cuts = (links_across(self.axes, number) for number, axis in enumerate(self.axes) if axis.size > 1)
        return self._rate * min(cuts, default=0)

    def links(self, copies: int) -> int:
        """Per line of an axis d - 1, plus the wraparound on a ring or with a twist."""
        lines = ((prod(self.tier.shape) // axis.size, axis) for axis in self.axes)
        return copies * sum(count * (axis.size if axis.closed else axis.size - 1) for count, axis in lines)


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
    def classes(self) -> tuple[DistanceClass, ...]:
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
