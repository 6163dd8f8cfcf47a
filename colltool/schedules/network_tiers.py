"""What carries a composed schedule: on each tier its own ports or links, counted apart."""

from collections.abc import Sequence
from math import prod

import numpy as np

from colltool.algorithms.group import Axis, Group
from colltool.schedules.network import Loads, Network, network_of
from colltool.schedules.step import Indices, Step


class Tiers(Network):
    """A network for every tier of a group, innermost first.

    Ranks are numbered innermost fastest. A message travels on the outermost tier on which its ends stand apart, from the
    sender's own port there to the receiver's: every rank has a port, or a set of links, on every tier. ``tiers[k]`` holds
    the counts of tier k; ``hops`` and ``peak`` here are their sums.

    Args:
        groups: one for each tier; its ranks are the tier's endpoints.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = tuple(groups)
        self.sizes = [group.ranks for group in groups]
        self.strides = [prod(self.sizes[:k]) for k in range(len(groups))]
        self.tiers = [network_on(groups, k) for k in range(len(groups))]

    def tier_of(self, src: Indices, dst: Indices) -> Indices:
        """The outermost tier on which the ends stand apart; -1 for a message to oneself."""
        tier = np.full(len(src), -1)
        for k, (size, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            tier[src // stride % size != dst // stride % size] = k
        return tier

    def carry(self, batch: tuple[Step, ...], chunk_bytes: Loads) -> None:
        """Load one batch of steps, every message on its tier."""
        of_step = [self.tier_of(one.src, one.dst) for one in batch]
        for k, network in enumerate(self.tiers):
            here = tuple(_only(one, tier == k) for one, tier in zip(batch, of_step, strict=True) if (tier == k).any())
            if here:
                network.carry(here, chunk_bytes)
        self.hops = sum(network.hops for network in self.tiers)
        self.peak = sum(network.peak for network in self.tiers)

    @property
    def busiest(self) -> float:
        """The largest total on one resource of any tier."""
        return max(network.busiest for network in self.tiers)


def _only(one: Step, wanted: Indices) -> Step:
    return Step(one.src[wanted], one.dst[wanted], one.chunk[wanted], one.add)


def network_on(groups: Sequence[Group], k: int) -> Network:
    """Tier k's ports or links, for all of its domains and all parallel instances in them."""
    sizes = [group.ranks for group in groups]
    # every domain of a lattice is one: axes between instances are there, and carry nothing
    axes = [Axis(prod(sizes[:k]), False), *groups[k].axes, Axis(prod(sizes[k + 1 :]), False)]
    return network_of(groups[k].joined_by, prod(sizes), axes)
