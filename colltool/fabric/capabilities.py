"""The interface to a tier whatever its topology; :mod:`colltool.fabric.topology` implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from colltool.algorithms.group import Axis, JoinedBy, joined_by
from colltool.base.formatting import Shape, shape_text
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import InNetwork, Level, Sizing

Joins = Literal["accelerators", "hosts", "either"]
Of = TypeVar("Of", bound=Tier, covariant=True)


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


_SPEED_IN_FIBRE = 2e8  # m/s: light in glass, 5 ns a metre


def cable_s(metres: float) -> float:
    """Seconds that a cable adds to α."""
    return metres / _SPEED_IN_FIBRE


def distance_class(
    name: str, group: int, alpha_s: float, oversubscription: float = 1.0, *, cable: float | None = None
) -> DistanceClass:
    """Add the delay of a cable, in metres, to α."""
    metres = cable or 0.0
    return DistanceClass(name, group, alpha_s + cable_s(metres), oversubscription, metres)


@dataclass(frozen=True, eq=False)
class TierCapabilities(ABC, Generic[Of]):
    tier: Of

    @property
    def joined_by(self) -> JoinedBy:
        """Switches, a link per pair, or links between neighbours."""
        return joined_by(self.tier.topology)

    @property
    @abstractmethod
    def joins(self) -> Joins:
        """What its endpoints are as the innermost tier: accelerators of one host, hosts of one rank each, or either."""

    @property
    def extent(self) -> str:
        """``72`` endpoints, or ``8x8x4``."""
        return shape_text([axis.size for axis in self.axes]) or str(self.tier.endpoints)

    @property
    @abstractmethod
    def most(self) -> int:
        """The largest ``size`` the file accepts, all else equal; 0 where the tier has no ``size``."""

    @property
    @abstractmethod
    def axes(self) -> tuple[Axis, ...]:
        """Of a lattice; empty elsewhere."""

    def part(self, endpoints: int, stride: int = 1) -> tuple[Axis, ...] | None:
        """The axes of a group that fills the tier axis by axis, a partial axis open; None where it fills one in part.

        With a stride, every stride-th endpoint: inner axes, of one place each, make up the stride.
        """
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
        if self.tier.endpoints % stride:
            return False
        below = (one.group for one in self.reached[:-1])
        even = all(group % stride == 0 or stride > group for group in below)
        return even and self.part(self.tier.endpoints // stride, stride) is not None

    @property
    @abstractmethod
    def in_network(self) -> InNetwork | None:
        """What its switches compute; None for nothing."""

    @property
    def operations(self) -> frozenset[str]:
        """Those of ``reduce``, ``multicast`` and ``all_to_all`` that its switches compute."""
        spec = self.in_network
        if spec is None:
            return frozenset()
        can = {"reduce": spec.reduce, "multicast": spec.multicast, "all_to_all": spec.all_to_all}
        return frozenset(name for name, does in can.items() if does)

    def with_switch(self, switch: InNetwork | None) -> Mapping[str, Any]:
        """Tier fields that replace its in-network hardware; empty where it has none."""
        return {} if self.in_network is None else {"in_network": switch}

    @property
    @abstractmethod
    def levels(self) -> tuple[Level, ...]:
        """As the file lists them, bottom up."""

    @property
    @abstractmethod
    def classes(self) -> tuple[DistanceClass, ...]:
        """Distance classes, nearest first; the last holds all endpoints."""

    @abstractmethod
    def at_alpha(self, alpha_s: float) -> Mapping[str, Any]:
        """Tier fields that set α of the nearest class; farther ones keep their surplus, cables add theirs."""

    @property
    @abstractmethod
    def neighbours(self) -> int:
        """Endpoints or switches an endpoint has a link to; parallel ports count once, the rim of a mesh is ignored."""

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

    @abstractmethod
    def switches(self, planes: int) -> int | None:
        """Switches of all planes together; None where the file does not say what decides."""

    @property
    @abstractmethod
    def sizing(self) -> Sizing | None: ...

    @property
    @abstractmethod
    def as_fat_tree(self) -> bool:
        """Whether a fat-tree of equal switches is a fair comparison."""

    @property
    def reached(self) -> tuple[DistanceClass, ...]:
        """The classes its pairs fall in: up to the first that joins all endpoints."""
        return self.classes[: 1 + sum(one.group < self.tier.endpoints for one in self.classes)]

    @property
    def _rate(self) -> float:
        return self.tier.bandwidth * self.tier.ports
