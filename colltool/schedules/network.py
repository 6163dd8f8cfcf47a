"""Counts the bytes, in units of M, that a schedule puts on each resource of a link model."""

from collections.abc import Sequence
from math import prod
from typing import assert_never

import numpy as np

from colltool.algorithms.group import Axis, Group, JoinedBy
from colltool.schedules.lattice_links import LatticeLinks
from colltool.schedules.links import Floats, Indices, LinkModel, MeshLinks, SwitchedLinks
from colltool.schedules.program import Step


class Network:
    """Adds up loads: ``peak`` sums each step's busiest resource (lock step); ``busiest`` is the largest total (streams)."""

    def __init__(self, links: LinkModel | None = None) -> None:
        self.links = links
        self.hops = 0
        self.peak = 0.0
        self.total: Floats | None = None

    def loads(self, src: Indices, dst: Indices, size: Floats) -> Floats:
        """Bytes per resource."""
        assert self.links is not None  # without, a subclass says what the resources are
        return np.concatenate(self.links.loads(src, dst, size))

    def of_ranks(self, loads: Floats) -> Floats:
        """The most that any port or link of each rank carries, either direction, shape (N,)."""
        assert self.links is not None
        return self.links.of_ranks(np.split(loads, len(self.links.classes)))

    def distance(self, src: Indices, dst: Indices) -> int:
        """Hops of the longest path; 1 where every pair is joined directly."""
        return int((src != dst).any()) if self.links is None else int(self.links.hops(src, dst).max(initial=0))

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        src = np.concatenate([one.src for one in batch])
        dst = np.concatenate([one.dst for one in batch])
        size = chunk_bytes[np.concatenate([one.chunk for one in batch])]
        loads = self.loads(src, dst, size)
        self.total = loads if self.total is None else self.total + loads
        self.peak += float(loads.max())
        self.hops += self.distance(src, dst)

    @property
    def busiest(self) -> float:
        return 0.0 if self.total is None else float(self.total.max())


def links_of(joined_by: JoinedBy, endpoints: int, axes: Sequence[Axis] = (), inside: int = 1, ranks: int = 0) -> LinkModel:
    """Links of capacity 1 byte/s: those of a lattice or full mesh, else one port per rank."""
    match joined_by:
        case "switches" | "tiers":
            return SwitchedLinks(ranks or endpoints, inside, endpoints)
        case "pair_links":
            return MeshLinks(ranks or endpoints, inside, endpoints)
        case "neighbour_links":
            return LatticeLinks(axes, ranks, inside)
        case _:
            assert_never(joined_by)


def tier_links(groups: Sequence[Group], k: int) -> LinkModel:
    """Tier k's ports or links, over all of its domains and all copies in them."""
    sizes = [group.ranks for group in groups]
    return links_of(groups[k].joined_by, sizes[k], groups[k].axes, prod(sizes[:k]), prod(sizes))


class Tiers(Network):
    """One network per tier, innermost first; ``hops`` and ``peak`` are their sums.

    A message travels on the outermost tier that separates its ends, from the sender's own port there to the receiver's.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = tuple(groups)
        self.tiers = [Network(tier_links(groups, k)) for k in range(len(groups))]

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Floats) -> None:
        of_step = [self.tier_of(one.src, one.dst) for one in batch]
        for k, network in enumerate(self.tiers):
            pairs = [(one, tier == k) for one, tier in zip(batch, of_step, strict=True) if (tier == k).any()]
            if pairs:
                here = tuple(Step(one.src[on], one.dst[on], one.chunk[on], one.add) for one, on in pairs)
                network.carry(here, chunk_bytes)
        self.hops = sum(network.hops for network in self.tiers)
        self.peak = sum(network.peak for network in self.tiers)

    def tier_of(self, src: Indices, dst: Indices) -> Indices:
        """The outermost tier that separates the ends; -1 for a message to oneself."""
        tier, inside = np.full(len(src), -1), 1
        for k, group in enumerate(self.groups):
            tier[src // inside % group.ranks != dst // inside % group.ranks] = k
            inside *= group.ranks
        return tier

    @property
    def busiest(self) -> float:
        return max(network.busiest for network in self.tiers)
