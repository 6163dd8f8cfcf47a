"""What a tier can do, whatever its topology: the interface that placement, prices, drawings and
counts use.

A tier exists once for each rank of an endpoint, side by side. Its copies are called ``planes`` where a
number is asked for all of them (``switches(planes)``), and ``copies`` where each port is one
(``links(copies)``); :attr:`TierCapabilities.planes` are the networks that each port is split over. N is
the number of endpoints, BW :attr:`TierCapabilities.rate_Bps`.

:mod:`colltool.fabric.topology` has a subclass for each topology and :func:`capabilities_of
<colltool.fabric.topology.capabilities_of>` to get one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from colltool.base.formatting import Shape, shape_text
from colltool.definitions.field_types import MAX_RANKS
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import InNetwork, Level, Planes, Sizing
from colltool.fabric.uneven import domains_text
from colltool.network.group import Axis, JoinedBy, joined_by, sizes_of
from colltool.network.wires import Wires

TierT = TypeVar("TierT", bound=Tier, covariant=True)


def cable_s(metres: float) -> float:
    """Return the seconds that a cable adds to α: light in glass takes 5 ns per metre."""
    return metres / 2e8


class DistanceClass(NamedTuple):
    """Pairs of endpoints that are equally far apart: those that meet at one level of switches, or all
    of a tier."""

    name: str  # of the level where they meet, or the tier
    group: int  # endpoints in one domain of this class
    alpha_s: float  # α without η, cable delay included
    oversubscription: float = 1.0  # of the uplinks from the class below
    cable_m: float = 0.0


class LinkKind(NamedTuple):
    """Links of a routed tier that are alike; ``others``: how many nodes they lead to from a node. Bytes/s,
    one way, and seconds are those of the links to one of them."""

    name: str
    others: int
    Bps: float
    alpha_s: float


@dataclass(frozen=True, eq=False)
class TierCapabilities(ABC, Generic[TierT]):
    """The capabilities of one tier; a topology overrides those in which it differs from a switch
    with a port for each endpoint."""

    tier: TierT

    @cached_property
    def joined_by(self) -> JoinedBy:
        """What joins its endpoints: switches, a link per pair, links between neighbours, or routes over
        links that are followed one by one."""
        return joined_by(self.tier.topology)

    @property
    @abstractmethod
    def joins(self) -> Literal["accelerators", "hosts", "either"]:
        """What its endpoints are as the innermost tier: accelerators of one host, hosts of one rank
        each, or either."""

    @property
    def extent(self) -> str:
        """``72`` endpoints, ``8x8x4``, or ``2 (64 + 72 ranks)`` where they differ."""
        text = shape_text(sizes_of(self.axes)) or str(self.tier.endpoints)
        if self.tier.uneven:
            text += f" ({domains_text(self.tier.uneven)} ranks)"
        return text

    @property
    def label(self) -> str:
        """Its topology as the file has it, or ``twisted torus``."""
        return self.tier.topology

    @property
    def cube(self) -> int:
        """Endpoints of a block that optical switches can put in the place of another; 0 where none
        do."""
        return 0

    @property
    def largest_size(self) -> int:
        """The largest ``size`` that the file accepts with its other keys; 0 if the tier has no
        ``size``."""
        return MAX_RANKS

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of a lattice; empty elsewhere."""
        return ()

    def part(self, endpoints: int, stride: int = 1) -> tuple[Axis, ...] | None:
        """Return the axes of a group of this many endpoints that fills the tier axis by axis. None
        if it does not fill the last one evenly. A partial axis does not wrap around.

        With a stride the group has every stride-th endpoint, so one place on the inner axes, whose
        product is the stride. On 4x4x4, 8 endpoints are 4x2x1, and with a stride of 4 they are 1x4x2.
        """
        # without axes nothing below is uneven: any part of such a tier is ()
        if endpoints == self.tier.endpoints:
            return self.axes
        axes = []
        # what further axes make up of the endpoints, and of the stride
        endpoints_left = endpoints
        stride_left = stride
        for axis in self.axes:
            if stride_left > 1:
                if stride_left % axis.size:
                    return None
                size = 1
                stride_left //= axis.size
            else:
                size = min(axis.size, endpoints_left)
            if endpoints_left % size:
                return None
            axes.append(Axis(size, wrap=axis.wrap and size == axis.size))
            endpoints_left //= size
        return tuple(axes)

    def slice(self, endpoints: int, shape: Shape | None = None) -> TierT | None:  # noqa: ARG002
        """Return the tier as a group sees it. A lattice gives the best box of that many endpoints,
        or the one of this shape; None if none fits."""
        return self.tier if self.part(endpoints) is not None else None

    def first_are_disconnected(self, endpoints: int) -> bool:  # noqa: ARG002
        """Whether the first endpoints of an explicit graph have no path among themselves."""
        return False

    @property
    def link_kinds(self) -> tuple[LinkKind, ...]:
        """Links of a routed tier whose nodes are all alike; empty elsewhere."""
        return ()

    @property
    def has_ports(self) -> bool:
        """Whether an endpoint has ports at a switch, not links to other endpoints."""
        return self.joined_by == "switches"

    @property
    def fewest_links(self) -> int:
        """Fewest links of any endpoint, such as one at a corner of a mesh; parallel ports count
        once."""
        # along each axis one, or two where it closes; without axes those of any endpoint
        return sum(1 + axis.closed for axis in self.axes if axis.size > 1) or self.neighbours

    def wires(self, endpoints: int) -> Wires | None:  # noqa: ARG002
        """Return the nodes and links that connect the first endpoints of a routed tier. None
        elsewhere."""
        return None

    def takes_stride(self, stride: int) -> bool:
        """Whether every ``stride``-th endpoint makes a group: equally many in each domain of a
        level, or at most one; and whole axes."""
        size = self.tier.endpoints
        if size % stride:
            return False
        groups = [level.group for level in self.reached[:-1]]
        fits_levels = all(group % stride == 0 or stride > group for group in groups)
        return fits_levels and self.part(size // stride, stride) is not None

    @property
    def in_network(self) -> InNetwork | None:
        """What its switches compute; None for nothing."""
        return self.tier.switches

    @property
    def operations(self) -> frozenset[str]:
        """Those of ``reduce``, ``multicast`` and ``all_to_all`` that its switches compute."""
        known = ("reduce", "multicast", "all_to_all")
        return frozenset(name for name in known if getattr(self.in_network, name, False))

    def with_switch(self, switch: InNetwork | None) -> Mapping[str, Any]:
        """Return the tier fields that replace its in-network hardware. Empty if it has none."""
        if self.in_network is None:
            return {}
        return {"in_network": switch}

    @property
    def levels(self) -> tuple[Level, ...]:
        """Levels as the file lists them, bottom up."""
        return ()

    @property
    def named(self) -> bool:
        """Whether its distance classes have names, as levels have."""
        return bool(self.levels)

    @property
    def trunk_Bps(self) -> float | None:
        """What all ranks of an endpoint share on their way out, bytes/s, one direction. None where
        nothing is shared."""
        return None

    @property
    def classes(self) -> tuple[DistanceClass, ...]:
        """Distance classes, nearest first; the last holds all endpoints."""
        assert self.tier.alpha is not None  # only a Clos may leave it to its levels
        return (self._class(self.tier.name, self.tier.endpoints, self.tier.alpha),)

    @property
    def nearest_alpha_s(self) -> Any:
        """α of the nearest pairs as the file states it, without cables and η."""
        if self.levels:
            return self.levels[0].alpha
        return self.tier.alpha

    def at_alpha(self, alpha_s: float) -> Mapping[str, Any]:
        """Return the tier fields that set α of the nearest class; farther classes keep their
        difference to it."""
        return {"alpha": alpha_s}

    @property
    def neighbours(self) -> int:
        """Endpoints or switches an endpoint has a link to; parallel ports count once, the rim of a
        mesh is ignored."""
        return 1

    @property
    @abstractmethod
    def diameter_links(self) -> int:
        """Links on the longest shortest path; 0 for a single endpoint."""

    @property
    @abstractmethod
    def bisection_Bps(self) -> float:
        """Bytes/s, one way, all ports, across the worst cut of one plane into halves (floor and
        ceil of an odd number)."""

    @property
    def bisection_note(self) -> str:
        """A remark where the bisection is not of the worst of all halves; else empty."""
        return ""

    def bisection_of(self, planes: int) -> float:
        """Return the bisection of all planes together, bytes/s."""
        return self.bisection_Bps * planes

    def sigma_of(self, planes: int) -> float | None:
        """Return what half the endpoints send over the bisection: 1 is full bisection, 2 half of one. None
        for a single endpoint."""
        across_Bps = self.bisection_of(planes)
        if not across_Bps:
            return None
        half_Bps = self.tier.endpoints / 2 * self._injection_Bps
        return half_Bps * planes / across_Bps

    @property
    def _injection_Bps(self) -> float:
        """Rate of an endpoint, bytes/s, one way, all ports or all links to neighbours."""
        links = 1 if self.has_ports else self.neighbours
        return self.rate_Bps * links

    @abstractmethod
    def links(self, copies: int) -> int:
        """Return the number of cables of this many parallel copies: one for each port of each rank in an
        endpoint."""

    def switches(self, planes: int) -> int | None:  # noqa: ARG002
        """Return the number of switches of all planes together. None if the file does not have the
        radix that decides."""
        return 0

    @property
    def sizing(self) -> Sizing | None:
        """How its switches are bought, where the file says."""
        return None

    @property
    def reached(self) -> tuple[DistanceClass, ...]:
        """The classes its pairs fall in, nearest first: up to the first that joins all endpoints; one at
        least."""
        # groups grow from class to class
        smaller = sum(level.group < self.tier.endpoints for level in self.classes)
        return self.classes[: 1 + smaller]

    @property
    def planes(self) -> Planes | None:
        """Separate networks that each of its ports is split over; None for one."""
        return None

    @property
    def plane_count(self) -> int:
        """Number of such networks, those that failed included; 1 without planes."""
        return self.planes.count if self.planes else 1

    @property
    def rate_Bps(self) -> float:
        """Bytes/s, one way, of all parallel ports of an endpoint, or of the parallel links to one
        neighbour, in the planes that work."""
        all_planes_Bps = self.tier.bandwidth * self.tier.ports
        if self.planes is None:
            return all_planes_Bps
        return all_planes_Bps * self.planes.share

    @property
    def message_share(self) -> float:
        """Share of :attr:`rate_Bps` that a message gets alone: less than 1 where its flows are too few for
        all planes."""
        if self.planes is None:
            return 1.0
        return self.planes.share_of(1) / self.planes.share

    def _class(
        self, name: str, group: int, alpha_s: float, ratio: float = 1.0, cable: float | None = None
    ) -> DistanceClass:
        """A class whose α includes the delay of the level's ``cable``, or where it has none of the tier's,
        in metres; ``ratio``: oversubscription."""
        metres = cable or self.tier.cable or 0.0
        return DistanceClass(name, group, alpha_s + cable_s(metres), ratio, metres)
