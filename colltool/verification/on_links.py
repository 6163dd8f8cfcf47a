"""What a schedule takes in seconds, on the ports, links and uplinks of every tier that a group spans.

Contention is left out, oversubscription counts. Written from the fabric, not from prices: it is what prices are held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import assert_never

import numpy as np

from colltool.algorithms.group import Group
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.topology import capabilities_of
from colltool.schedules.lattice_links import LatticeLinks
from colltool.schedules.links import Floats, Indices, LevelBoundary, LinkModel, MeshLinks, SwitchedLinks
from colltool.schedules.network import Network


class TimedLinks(Network):
    """Loads in seconds per byte of M; ``alpha_s`` adds up the longest latency of every step.

    Args:
        placed: a packed group; ranks are its members, innermost tier fastest.
        groups: one for each tier it spans, as the phases of a composition see them.
        nodes: members and, on a single tier, the servers or padding after them.
    """

    def __init__(self, placed: PlacedGroup, groups: Sequence[Group], nodes: int) -> None:
        super().__init__()
        self.alpha_s = 0.0
        self.tiers = [_links_of_tier(placed, groups, k, nodes) for k in range(len(placed.spans))]

    def loads(self, src: Indices, dst: Indices, size: Floats) -> Floats:
        """Seconds on every resource; a message travels on the outermost tier that separates its ends."""
        outermost = np.full(len(src), -1)
        for number, tier in enumerate(self.tiers):
            outermost[src // tier.inside != dst // tier.inside] = number
        found, latest = [], 0.0
        for number, tier in enumerate(self.tiers):
            a, b, sent = (array[outermost == number] for array in (src, dst, size))
            found += [load / one.capacity_Bps for one, load in zip(tier.classes, tier.loads(a, b, sent), strict=True)]
            if len(a):
                alpha_s, links = tier.latency(a, b)
                latest = max(latest, float(alpha_s[links.argmax()]))
        self.alpha_s += latest
        return np.concatenate(found)


def _links_of_tier(placed: PlacedGroup, groups: Sequence[Group], k: int, nodes: int) -> LinkModel:
    """The part of a tier that the group takes: uplinks are those of its own members."""
    span = placed.spans[k]
    tier, inside, rate = capabilities_of(span.tier), span.ranks_inside, span.tier.bandwidth * span.tier.ports
    endpoints = -(-nodes // inside) if k == len(placed.spans) - 1 else span.endpoints
    match tier.joined_by:
        case "pair_links":
            return MeshLinks(nodes, inside, endpoints, capacity_Bps=rate, alpha_s=tier.classes[0].alpha_s)
        case "neighbour_links":
            return LatticeLinks(groups[k].axes, nodes, inside, capacity_Bps=rate, alpha_s=tier.classes[0].alpha_s)
        case "switches" | "tiers":
            boundaries = []
            for below, above in pairwise(tier.classes):
                members = span.occupancy.members(below.group)
                uplinks = members * inside * span.occupancy.ports(below.group) * rate / above.oversubscription
                boundaries.append(LevelBoundary(below.name, members, uplinks))
            alphas = [one.alpha_s for one in tier.classes]
            return SwitchedLinks(nodes, inside, endpoints, capacity_Bps=rate, alphas_s=alphas, boundaries=boundaries)
        case _:
            assert_never(tier.joined_by)
