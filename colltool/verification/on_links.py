"""What a schedule takes in seconds: its messages on the ports, links and uplinks of every tier that a group spans.

A message travels on the outermost tier on which its ends stand apart, from the sender's own port or link there. Contention is
left out, oversubscription counts. Written from the fabric, not from prices: what charges say is held against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from colltool.algorithms.group import Group
from colltool.estimate.groups import PlacedGroup, Span
from colltool.fabric.topology import capabilities_of
from colltool.schedules.links import Loads, Network, network_on
from colltool.schedules.program import Indices


class OnWires(Network):
    """Loads in seconds for each byte of M; ``alpha_s`` adds up the longest latency of every step.

    Args:
        placed: a packed group; ranks are its members, innermost tier fastest.
        groups: one for each tier it spans, as the phases of a composition see them.
        nodes: members, and ranks beside them on the ports of a single tier that come after.
    """

    def __init__(self, placed: PlacedGroup, groups: Sequence[Group], nodes: int) -> None:
        super().__init__()
        self.alpha_s = 0.0
        self.tiers = [_on_tier(placed, groups, k, nodes) for k in range(len(placed.spans))]

    def loads(self, src: Indices, dst: Indices, size: Loads) -> Loads:
        """Seconds on every resource of every tier."""
        apart = [(tier.endpoint(src) != tier.endpoint(dst)) for tier in self.tiers]
        met = np.full(len(src), -1)
        for number, differs in enumerate(apart):
            met[differs] = number
        found, latest = [], 0.0
        for number, tier in enumerate(self.tiers):
            a, b, sent = (array[met == number] for array in (src, dst, size))
            found += list(tier.seconds(a, b, sent))
            latest = max(latest, tier.alpha(a, b))
        self.alpha_s += latest
        return np.concatenate(found)


class _Tier:
    """One tier of the group: ``span`` is its part of it; ``outermost`` where all members are in one domain of it."""

    def __init__(self, span: Span, nodes: int, *, outermost: bool) -> None:
        self.span, self.nodes, self.outermost = span, nodes, outermost
        self.inside = span.ranks_inside
        self.rate = span.tier.bandwidth * span.tier.ports
        self.classes = capabilities_of(span.tier).classes

    def endpoint(self, ranks: Indices) -> Indices:
        """Counted through all domains of the tier, one after the other."""
        return ranks // self.inside

    def seconds(self, src: Indices, dst: Indices, size: Loads) -> Iterator[Loads]:
        """On each of its resources."""
        raise NotImplementedError

    def alpha(self, src: Indices, dst: Indices) -> float:  # noqa: ARG002
        """Of the farthest of these messages; 0 without any."""
        return self.classes[0].alpha_s if len(src) else 0.0


class _Switched(_Tier):
    """A port for each member, and between levels the uplinks of each domain, over which flows spread evenly."""

    def seconds(self, src: Indices, dst: Indices, size: Loads) -> Iterator[Loads]:
        for ranks in (src, dst):
            yield np.bincount(ranks, size, self.nodes) / self.rate
        for below, above in pairwise(self.classes):
            ways = self._leaf(src, below.group), self._leaf(dst, below.group)
            crosses = ways[0] != ways[1]
            members = self.span.occupancy.members(below.group)
            uplinks = members * self.inside * self.span.occupancy.ports(below.group) * self.rate / above.oversubscription
            for leaf in ways:
                yield np.bincount(leaf[crosses], size[crosses], self.nodes) / uplinks

    def _leaf(self, ranks: Indices, group: int) -> Indices:
        """The domain of so many endpoints; those of another domain of the tier are others."""
        size, members = self.span.endpoints, self.span.occupancy.members(group)
        endpoint = self.endpoint(ranks)
        if self.outermost:
            return endpoint // members
        return endpoint // size * -(-size // members) + endpoint % size // members

    def alpha(self, src: Indices, dst: Indices) -> float:
        """Of the level at which the farthest pair meets."""
        if not len(src):
            return 0.0
        met = np.zeros(len(src), dtype=np.int64)
        for one in self.classes[:-1]:
            met += self._leaf(src, one.group) != self._leaf(dst, one.group)
        return self.classes[int(met.max())].alpha_s


class _Meshed(_Tier):
    """A link from each member to each other endpoint."""

    def seconds(self, src: Indices, dst: Indices, size: Loads) -> Iterator[Loads]:
        to = self.endpoint(dst) % self.span.endpoints
        yield np.bincount(src * self.span.endpoints + to, size, self.nodes * self.span.endpoints) / self.rate


class _Latticed(_Tier):
    """The links of a lattice, of every member behind an endpoint."""

    def __init__(self, span: Span, nodes: int, lattice: Network, *, outermost: bool) -> None:
        super().__init__(span, nodes, outermost=outermost)
        self.lattice = lattice

    def seconds(self, src: Indices, dst: Indices, size: Loads) -> Iterator[Loads]:
        yield self.lattice.loads(src, dst, size) / self.rate

    def alpha(self, src: Indices, dst: Indices) -> float:
        """A hop after the other."""
        return self.classes[0].alpha_s * self.lattice.distance(src, dst)


def _on_tier(placed: PlacedGroup, groups: Sequence[Group], k: int, nodes: int) -> _Tier:
    span, outermost = placed.spans[k], k == len(placed.spans) - 1
    match capabilities_of(span.tier).joined_by:
        case "pair_links":
            return _Meshed(span, nodes, outermost=outermost)
        case "neighbour_links":
            return _Latticed(span, nodes, network_on(groups, k), outermost=outermost)
        case "switches" | "tiers":
            return _Switched(span, nodes, outermost=outermost)
