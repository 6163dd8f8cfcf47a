"""A collective alone and packed, the ideal that layouts are compared with: :func:`baseline`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colltool.congestion.loads import Messages, latency, totals
from colltool.congestion.traffic import Traffic
from colltool.network.arrays import Floats
from colltool.network.links import LinkModel, tier_of


class Baseline(NamedTuple):
    """A collective alone and packed. Times are load over capacity."""

    busiest_s: float  # on its busiest resource
    endpoint_s: float  # on its busiest port or link of an endpoint, uplinks aside
    alpha_s: float  # mean over its messages
    links: int  # of the longest path
    tier: int  # of the busiest resource
    tiers: tuple[int, ...]  # all that carry a message


def baseline(models: list[LinkModel], traffic: Traffic, size: Floats) -> Baseline:
    """The messages of a group alone, member i on endpoint i: in as few domains as possible, on a lattice
    axis by axis.

    Between ``neighbours`` on a lattice a message is one hop on a link of its own, as along the ring
    of a full axis.

    Args:
        models: of all tiers, innermost first.
        size: bytes of each message of the traffic, in place of its own sizes.
    """
    messages = Messages(traffic.src, traffic.dst, size, np.zeros(len(traffic.src), dtype=np.int64))
    on_tier = tier_of(models, traffic.src, traffic.dst)
    one_hop = np.zeros(len(on_tier), dtype=bool)
    # Seconds of each tier's busiest resource, and of its busiest port or link of an endpoint.
    of_tier_s = np.zeros(len(models))
    of_endpoints_s = np.zeros(len(models))
    alpha_s, links = latency(models, messages)
    for number, model in enumerate(models):
        here = on_tier == number
        # only on a lattice a model has the α of a hop
        if traffic.neighbours and model.hop_alpha_s is not None and here.any():
            one_hop |= here
            alpha_s[here] = model.hop_alpha_s
            links[here] = 1
            of_tier_s[number] = of_endpoints_s[number] = (
                float(size[here].max()) / model.capacity_Bps
            )
    for loads in totals(models, messages.some(np.flatnonzero(~one_hop))):
        seconds = float(loads.load.max()) / loads.link_class.capacity_Bps
        of_tier_s[loads.tier] = max(of_tier_s[loads.tier], seconds)
        if loads.link_class.endpoint:
            of_endpoints_s[loads.tier] = max(of_endpoints_s[loads.tier], seconds)
    tier = int(np.argmax(of_tier_s))
    return Baseline(
        busiest_s=float(of_tier_s[tier]),
        endpoint_s=float(of_endpoints_s[tier]),
        alpha_s=float(alpha_s.mean()),
        links=int(links.max()),
        tier=tier,
        tiers=tuple(np.unique(on_tier).tolist()),
    )
