"""The resources that messages load: ports and uplinks of switched tiers, links of lattices and full meshes.

A message belongs to the innermost tier whose domain holds both its ends, and loads that tier only. A tier's resources are in
lines (one direction of an axis, the uplinks of a level), each with its capacity in bytes/s, so that what is compared is
load/capacity. A member of an inner domain has its own port on the outer tier, as in the rest of the model.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError, given
from colltool.fabric.model import ClosTier, Fabric, FullMeshTier, LatticeTier, StarTier, Tier
from colltool.fabric.topology import capabilities_of

Floats = NDArray[np.float64]
Indices = NDArray[np.signedinteger[Any]]
"""Numbers of ranks, messages, groups or resources: 32 bits where there is one for every message or rank, 64 elsewhere."""

SMALL = np.int32
"""What holds any rank, group or resource of a fabric that can be followed link by link."""


class LinkClass(NamedTuple):
    """Resources of one kind and direction.

    Args:
        tier, name: ``torus``, ``axis 1 +``.
        exists: shape (resources,): False where the wiring has none (the end of an open axis).
        capacity_Bps: of each.
        endpoint: ports and links that an endpoint sends through, not uplinks between switches.
    """

    tier: str
    name: str
    exists: NDArray[np.bool_]
    capacity_Bps: float
    endpoint: bool = True


class LinkUse(NamedTuple):
    """Messages that load resources of one line: resource, message and share of its bytes, shape (k,) each."""

    line: int
    resource: Indices
    message: Indices
    share: Floats


class LinkModel:
    """One tier's resources. Messages are given by the fabric's endpoints (ranks), shape (m,)."""

    lines: list[LinkClass]
    rails = 1
    """Separate fabrics that the tier consists of; a leaf joins ports of one."""

    hop_alpha_s: float | None = None
    """α of one link, where ring neighbours can be one link apart: on a lattice."""

    def __init__(self, tier: Tier, inside: int, ranks: int) -> None:
        self.tier, self.inside, self.ranks = tier, inside, ranks
        self.rate = tier.bandwidth * tier.ports
        self.copies = ranks // tier.endpoints

    def split(self, ranks: Indices) -> tuple[Indices, Indices]:
        """The tier's endpoint of each rank, and which copy of the tier (domain and position inside) it is on."""
        endpoint = ranks // self.inside % self.tier.endpoints
        return endpoint, ranks // (self.inside * self.tier.endpoints) * self.inside + ranks % self.inside

    def departures(self, src: Indices, dst: Indices) -> Indices:  # noqa: ARG002
        """By whose port the messages should leave where a neighbour may pass them on: the sender's own."""
        return src

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """What the messages load, line by line."""
        raise NotImplementedError

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Seconds of α, without η, and links, of each message."""
        raise NotImplementedError

    def name(self, line: int, resource: int) -> str:
        """A resource for a person to read."""
        raise NotImplementedError


class SwitchedModel(LinkModel):
    """A star or a Clos: two ports per rank; at each boundary of levels, uplinks and downlinks of each domain.

    The uplinks of a domain of g endpoints have g·BW/s together, and flows spread evenly over them. Where the fabric says how
    many rails it has, a leaf belongs to one rail, and messages between rails climb to the last level.
    """

    def __init__(self, tier: StarTier | ClosTier, inside: int, ranks: int) -> None:
        super().__init__(tier, inside, ranks)
        kind = capabilities_of(tier)
        levels, sizing = kind.classes, kind.sizing
        self.levels = levels
        self.alphas = np.array([level.alpha_s for level in levels])
        self.rails = sizing.rails if sizing is not None and len(levels) > 1 and inside % sizing.rails == 0 else 1
        every = np.ones(ranks, dtype=bool)
        self.lines = [LinkClass(tier.name, f"ports {way}", every, self.rate) for way in ("out", "in")]
        domains = ranks // (inside * tier.endpoints)
        for below, above in pairwise(levels):
            count = domains * -(-tier.endpoints // below.group) * self.rails
            rate = below.group * inside * self.rate / (above.oversubscription * self.rails)
            exists = np.full(count, below.group < tier.endpoints)
            self.lines += [LinkClass(tier.name, f"{below.name} {way}links", exists, rate, False) for way in ("up", "down")]

    def _level(self, src: Indices, dst: Indices) -> Indices:
        """The level where each pair meets."""
        a, b = (ranks // self.inside % self.tier.endpoints for ranks in (src, dst))
        met = np.zeros(len(src), dtype=np.int64)
        for below in self.levels[:-1]:
            met += a // below.group != b // below.group
        if self.rails > 1:
            met[self.rail(src) != self.rail(dst)] = len(self.levels) - 1
        return met

    def departures(self, src: Indices, dst: Indices) -> Indices:
        """The sender's neighbour on the receiver's rail."""
        return src - self.rail(src) + self.rail(dst)

    def rail(self, ranks: Indices) -> Indices:
        """The rail of a rank's port: its position in the domain, modulo rails."""
        return ranks % self.inside % self.rails

    def _domain(self, ranks: Indices, group: int) -> Indices:
        endpoint, outer = ranks // self.inside % self.tier.endpoints, ranks // (self.inside * self.tier.endpoints)
        per_tier = -(-self.tier.endpoints // group)
        return (outer * per_tier + endpoint // group) * self.rails + self.rail(ranks)

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """Ports at both ends, then the boundaries that each message crosses."""
        whole, every = np.ones(len(src)), np.arange(len(src))
        yield LinkUse(0, src, every, whole)
        yield LinkUse(1, dst, every, whole)
        met = self._level(src, dst)
        for number, below in enumerate(self.levels[:-1]):
            crossing = np.flatnonzero(met > number)
            yield LinkUse(2 + 2 * number, self._domain(src[crossing], below.group), crossing, whole[crossing])
            yield LinkUse(3 + 2 * number, self._domain(dst[crossing], below.group), crossing, whole[crossing])

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """α of the level where the pair meets; two links for every level climbed."""
        met = self._level(src, dst)
        return self.alphas[met], 2 * (met + 1)

    def name(self, line: int, resource: int) -> str:
        """``ib rank 5 out``, ``ib leaf 3 uplinks``, ``ib leaf 3 rail 1 uplinks``."""
        if line < 2:
            return f"{self.tier.name} rank {resource} {('out', 'in')[line]}"
        domain, rail = divmod(resource, self.rails)
        of_rail = f" rail {rail}" if self.rails > 1 else ""
        level = self.levels[(line - 2) // 2].name
        return f"{self.tier.name} {level} {domain}{of_rail} {('uplinks', 'downlinks')[line % 2]}"


class MeshModel(LinkModel):
    """A full mesh: a link for every ordered pair of endpoints, of every position inside."""

    def __init__(self, tier: FullMeshTier, inside: int, ranks: int) -> None:
        super().__init__(tier, inside, ranks)
        self.alpha_s, size = capabilities_of(tier).classes[0].alpha_s, tier.endpoints
        if self.copies * size * size > 2**25:
            what = f"{tier.name} has {self.copies * size * (size - 1)} links, too many to follow"
            raise ColltoolError(what, argument="fabric", fix=f"a smaller full mesh, with {given('overrides')}")
        exists = np.tile(~np.eye(size, dtype=bool).ravel(), self.copies)
        self.lines = [LinkClass(tier.name, "links", exists, self.rate)]

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """The link of each pair."""
        size = self.tier.endpoints
        (a, copy), (b, _) = self.split(src), self.split(dst)
        yield LinkUse(0, (copy * size + a) * size + b, np.arange(len(src)), np.ones(len(src)))

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:  # noqa: ARG002
        """One link."""
        return np.full(len(src), self.alpha_s), np.ones(len(src), dtype=np.int64)

    def name(self, line: int, resource: int) -> str:  # noqa: ARG002
        """``xgmi 2 -> 5``, with the copy where there are several."""
        size = self.tier.endpoints
        rest, b = divmod(resource, size)
        copy, a = divmod(rest, size)
        return f"{self.tier.name}{_of(copy, self)} {a} -> {b}"


class LatticeModel(LinkModel):
    """A torus or mesh: dimension-ordered shortest paths, axis 1 first, ties split over both ways.

    The same paths and numbering as :class:`colltool.schedules.links.Lattice`, walked message by message instead of through
    tables of an axis' cube, so that long axes cost no more than the hops they make.
    """

    def __init__(self, tier: LatticeTier, inside: int, ranks: int) -> None:
        super().__init__(tier, inside, ranks)
        self.shape, self.alpha_s = tier.shape, capabilities_of(tier).classes[0].alpha_s
        self.hop_alpha_s = self.alpha_s
        self.strides = [prod(tier.shape[:axis]) for axis in range(len(tier.shape))]
        self.closed = [axis.is_ring for axis in capabilities_of(tier).axes]
        self.lines = []
        node = np.arange(tier.endpoints)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            place = node // stride % size
            for sign, edge in (("+", size - 1), ("-", 0)):
                exists = np.tile((place != edge) | self.closed[axis], self.copies)
                self.lines.append(LinkClass(tier.name, f"axis {axis + 1} {sign}", exists, self.rate))

    def _legs(self, src: Indices, dst: Indices) -> Iterator[tuple[int, Indices, Indices, Indices]]:
        """Axis by axis: the axis, where each message enters it, and the hops up and down it would take."""
        here, copy = self.split(src)
        there = self.split(dst)[0]
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            a, b = here // stride % size, there // stride % size
            up = (b - a) % size
            down = (a - b) % size
            if not self.closed[axis]:
                up, down = np.where(b >= a, up, size), np.where(b <= a, down, size)
            yield axis, copy * self.tier.endpoints + here, up, down
            here = here + (b - a) * stride

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """Every link on the way of each message."""
        for axis, entry, up, down in self._legs(src, dst):
            size, stride = self.shape[axis], self.strides[axis]
            for way, (hops, other) in enumerate(((up, down), (down, up))):
                taken = np.flatnonzero((hops <= other) & (hops > 0))
                message = np.repeat(taken, hops[taken])
                first = np.cumsum(hops[taken]) - hops[taken]
                step = np.arange(len(message)) - np.repeat(first, hops[taken])
                start = entry[message]
                place = start // stride % size
                at = (place + step) % size if way == 0 else (place - step) % size
                share = np.where(hops[message] == other[message], 0.5, 1.0)
                yield LinkUse(2 * axis + way, start + (at - place) * stride, message, share)

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """One α a hop."""
        hops = np.zeros(len(src), dtype=np.int64)
        for _, _, up, down in self._legs(src, dst):
            hops += np.minimum(up, down)
        return np.asarray(hops * self.alpha_s, dtype=np.float64), hops

    def name(self, line: int, resource: int) -> str:
        """``torus (0, 2, 1) -> (1, 2, 1)``."""
        axis, way = divmod(line, 2)
        copy, node = divmod(resource, self.tier.endpoints)
        place = [node // stride % size for size, stride in zip(self.shape, self.strides, strict=True)]
        there = list(place)
        there[axis] = (there[axis] + (1 if way == 0 else -1)) % self.shape[axis]
        return f"{self.tier.name}{_of(copy, self)} {_place(place)} -> {_place(there)}"


def _place(coordinates: list[int]) -> str:
    return f"({', '.join(map(str, coordinates))})"


def _of(copy: int, wires: LinkModel) -> str:
    """Which of several copies of a tier."""
    return f" {copy}" if wires.copies > 1 else ""


def link_models(fabric: Fabric) -> list[LinkModel]:
    """The resources of every tier, innermost first."""
    out: list[LinkModel] = []
    inside = 1
    for tier in fabric.tiers:
        out.append(_wires(tier, inside, fabric.ranks))
        inside *= tier.endpoints
    return out


def _wires(tier: Tier, inside: int, ranks: int) -> LinkModel:
    match tier:
        case LatticeTier():
            return LatticeModel(tier, inside, ranks)
        case FullMeshTier():
            return MeshModel(tier, inside, ranks)
        case StarTier() | ClosTier():
            return SwitchedModel(tier, inside, ranks)
        case _:
            assert_never(tier)
