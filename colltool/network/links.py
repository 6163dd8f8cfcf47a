"""Link models: which ports, links and uplinks of a tier each message loads.

Resources come in classes (one direction of an axis, the uplinks of a level), each with a capacity
in bytes/s. Ranks are numbered innermost tier fastest; every rank behind an endpoint has ports or
links of its own there, a copy of the tier.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError
from colltool.base.primitives import ceil_div
from colltool.network.arrays import Floats, Indices

SMALL = np.int32  # holds any rank, group or resource of a fabric that can be followed link by link


class LinkClass(NamedTuple):
    """Resources of one kind and direction."""

    tier: str
    name: str  # such as ``axis 1 +``
    exists: NDArray[np.bool_]  # shape (resources,); False at the end of an open axis
    capacity_Bps: float  # of each
    endpoint: bool = True  # ports and links of endpoints, not uplinks between switches


class LinkUse(NamedTuple):
    """Messages that load resources of class ``number``, with the share of their bytes; shape (k,)
    each."""

    number: int
    resource: Indices
    message: Indices
    share: Floats


class LinkModel:
    """One tier's resources: ``ranks`` over all copies, ``inside`` of them behind each of a domain's
    ``endpoints`` (0: all)."""

    classes: list[LinkClass]
    rails = 1  # separate fabrics in the tier; a leaf joins ports of one
    # α of one link where ring neighbours can be one link apart: on a lattice
    hop_alpha_s: float | None = None

    def __init__(
        self, ranks: int, inside: int, endpoints: int, tier: str, capacity_Bps: float
    ) -> None:
        self.ranks = ranks
        self.inside = inside
        self.endpoints = endpoints or ranks // inside
        self.tier = tier
        self.capacity_Bps = capacity_Bps
        self.copies = ranks // self.endpoints

    def split(self, ranks: Indices) -> tuple[Indices, Indices]:
        """Each rank's endpoint on the tier, and the copy of the tier that it uses."""
        number, behind = np.divmod(ranks, self.inside)
        outer, endpoint = np.divmod(number, self.endpoints)
        return endpoint, outer * self.inside + behind

    def departures(self, src: Indices, dst: Indices) -> Indices:  # noqa: ARG002
        """The rank whose port each message leaves by if a neighbour may forward it; by default the
        sender."""
        return src

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """What the messages load, class by class."""
        raise NotImplementedError

    def slowness(self, number: int, resource: Indices) -> Floats:  # noqa: ARG002
        """How many times as long a byte takes on these resources as on the class's fastest:
        :meth:`uses` counts it in shares."""
        return np.ones(len(resource))

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        """Bytes per resource, class by class."""
        loads = [np.zeros(len(link_class.exists)) for link_class in self.classes]
        for use in self.uses(src, dst):
            load = loads[use.number]
            load += np.bincount(use.resource, size[use.message] * use.share, len(load))
        return loads

    def to_all(self) -> list[Floats]:
        """Bytes per resource while every rank has a byte for each behind another endpoint; asked of
        a last tier with ports."""
        raise NotImplementedError

    def of_ranks(self, loads: Sequence[Floats]) -> Floats:
        """The most that any port or link of each rank carries, either direction, shape (N,); of a
        single tier."""
        raise NotImplementedError

    def hops(self, src: Indices, dst: Indices) -> Indices:
        """Links between neighbours on each message's path; 1 where every pair is joined
        directly."""
        apart: Indices = (src != dst).astype(np.int64)
        return apart

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Each message's α in seconds, without η, and its number of links."""
        raise NotImplementedError

    def name(self, number: int, resource: int) -> str:
        """A resource's name for people."""
        raise NotImplementedError

    def _of(self, copy: int) -> str:
        return f"{self.tier} {copy}" if self.copies > 1 else self.tier


class LevelBoundary(NamedTuple):
    """Where a level of switches joins the next: domains of ``endpoints``, whose uplinks add up to
    ``uplink_Bps``."""

    name: str
    endpoints: int
    uplink_Bps: float


class SwitchedLinks(LinkModel):
    """Two ports per rank and, for each domain of a level, uplinks and downlinks over which flows
    spread evenly.

    With several ``rails`` a leaf belongs to one, and messages between rails climb to the last
    level, or cannot be sent where the rails are ``apart``: ColltoolError. Nodes beyond the ranks
    are switches with unlimited ports.
    """

    def __init__(
        self,
        ranks: int,
        inside: int = 1,
        endpoints: int = 0,
        tier: str = "",
        capacity_Bps: float = 1.0,
        *,
        alphas_s: Sequence[float] = (0.0,),
        boundaries: Sequence[LevelBoundary] = (),
        rails: int = 1,
        apart: bool = False,
    ) -> None:
        super().__init__(ranks, inside, endpoints, tier, capacity_Bps)
        self.alphas_s = np.array(alphas_s)
        self.boundaries = boundaries
        self.rails = rails
        self.apart = apart
        every = np.ones(ranks, dtype=bool)
        self.classes = []
        for way in ("out", "in"):
            self.classes.append(LinkClass(tier, f"ports {way}", every, capacity_Bps))
        outer_domains = ceil_div(ranks, inside * self.endpoints)
        for below in boundaries:
            domains = outer_domains * ceil_div(self.endpoints, below.endpoints) * rails
            exists = np.full(domains, below.endpoints < self.endpoints)
            for way in ("up", "down"):
                name = f"{below.name} {way}links"
                self.classes.append(LinkClass(tier, name, exists, below.uplink_Bps, endpoint=False))

    def rail(self, ranks: Indices) -> Indices:
        """Position in the domain, modulo rails."""
        return ranks % self.inside % self.rails

    def departures(self, src: Indices, dst: Indices) -> Indices:
        """The sender's neighbour on the receiver's rail."""
        return src - self.rail(src) + self.rail(dst)

    def _domain(self, ranks: Indices, size: int) -> Indices:
        """The domain of ``size`` endpoints that each rank's port on its rail is in."""
        outer, endpoint = np.divmod(ranks // self.inside, self.endpoints)
        domain: Indices = outer * ceil_div(self.endpoints, size) + endpoint // size
        return domain * self.rails + self.rail(ranks)

    def _check_rails(self, src: Indices, dst: Indices) -> None:
        """Refuse messages between rails that never meet."""
        if not self.apart:
            return
        changing = np.flatnonzero(self.rail(src) != self.rail(dst))
        if len(changing):
            first = changing[0]
            what = (
                f"rank {src[first]} sends to rank {dst[first]}, from rail {self.rail(src)[first]}"
                f" to rail {self.rail(dst)[first]}"
            )
            fix = (
                f"send through rank {self.departures(src, dst)[first]}, the sender's neighbour on"
                " that rail"
            )
            raise ColltoolError(f"{what}, and rails never meet here", fix=fix)

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        self._check_rails(src, dst)
        whole = np.ones(len(src))
        for way, ranks in enumerate((src, dst)):
            own = np.flatnonzero(ranks < self.ranks)
            yield LinkUse(way, ranks[own], own, whole[own])
        for number, below in enumerate(self.boundaries):
            leaves = self._domain(src, below.endpoints)
            enters = self._domain(dst, below.endpoints)
            crossing = np.flatnonzero(leaves != enters)
            for way, domain in enumerate((leaves, enters)):
                yield LinkUse(2 + 2 * number + way, domain[crossing], crossing, whole[crossing])

    def of_ranks(self, loads: Sequence[Floats]) -> Floats:
        return np.maximum(loads[0], loads[1])

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """α of the level where the pair meets; two links for every level climbed."""
        a = src // self.inside % self.endpoints
        b = dst // self.inside % self.endpoints
        level = np.zeros(len(src), dtype=np.int64)
        for below in self.boundaries:
            level += a // below.endpoints != b // below.endpoints
        if self.rails > 1:
            level[self.rail(src) != self.rail(dst)] = len(self.boundaries)
        return self.alphas_s[level], 2 * (level + 1)

    def name(self, number: int, resource: int) -> str:
        """``ib rank 5 out``, ``ib leaf 3 uplinks``, ``ib leaf 3 rail 1 uplinks``."""
        if number < 2:
            way = ("out", "in")[number]
            return f"{self.tier} rank {resource} {way}"
        boundary = self.boundaries[(number - 2) // 2]
        way = ("uplinks", "downlinks")[number % 2]
        domain, rail = divmod(resource, self.rails)
        of_rail = f" rail {rail}" if self.rails > 1 else ""
        return f"{self.tier} {boundary.name} {domain}{of_rail} {way}"


class MeshLinks(LinkModel):
    """A full mesh: one link per ordered pair of endpoints, in every copy."""

    def __init__(
        self,
        ranks: int,
        inside: int = 1,
        endpoints: int = 0,
        tier: str = "",
        capacity_Bps: float = 1.0,
        *,
        alpha_s: float = 0.0,
    ) -> None:
        super().__init__(ranks, inside, endpoints, tier, capacity_Bps)
        self.alpha_s = alpha_s
        exists = np.tile(~np.eye(self.endpoints, dtype=bool).ravel(), self.copies)
        self.classes = [LinkClass(tier, "links", exists, capacity_Bps)]

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        a, copy = self.split(src)
        b, _ = self.split(dst)
        link = (copy * self.endpoints + a) * self.endpoints + b
        yield LinkUse(0, link, np.arange(len(src)), np.ones(len(src)))

    def of_ranks(self, loads: Sequence[Floats]) -> Floats:
        square = loads[0].reshape(self.ranks, self.ranks)
        busiest: Floats = np.maximum(square.max(axis=1), square.max(axis=0))
        return busiest

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:  # noqa: ARG002
        return np.full(len(src), self.alpha_s), np.ones(len(src), dtype=np.int64)

    def name(self, number: int, resource: int) -> str:  # noqa: ARG002
        """``xgmi 2 -> 5``, with the copy where there are several."""
        rest, b = divmod(resource, self.endpoints)
        copy, a = divmod(rest, self.endpoints)
        return f"{self._of(copy)} {a} -> {b}"


def tier_of(tiers: Sequence[LinkModel], src: Indices, dst: Indices) -> NDArray[np.int8]:
    """The outermost tier that separates the ends of each message, so the innermost whose domain
    holds both; -1: it stays."""
    tier: NDArray[np.int8] = (src != dst).astype(np.int8) - np.int8(1)
    for outer in tiers[1:]:
        tier += src // outer.inside != dst // outer.inside
    return tier
