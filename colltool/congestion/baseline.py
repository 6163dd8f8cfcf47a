"""A collective alone and packed, the ideal that layouts are compared with: :func:`baseline`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colltool.congestion.loads import Messages, latency, totals
from colltool.congestion.traffic import Traffic
from colltool.network.arrays import Floats
from colltool.network.links import LinkModel, tier_of


class Baseline(NamedTuple):
    """A collective alone and packed."""

    busiest_s: float  # on its busiest resource
    endpoint_s: float  # on its busiest port or link, uplinks aside
    alpha_s: float  # mean over its messages
    links: int  # of the longest path
    tier: int  # of the busiest resource
    tiers: tuple[int, ...]  # all that carry a message


def baseline(models: list[LinkModel], traffic: Traffic, size: Floats) -> Baseline:
    """The messages alone, in those sizes, member i on endpoint i: in as few domains as possible, on
    a lattice axis by axis.

    Between ``neighbours`` on a lattice a message is one hop on a link of its own, as along the ring
    of a full axis.
    """
    messages = Messages(traffic.src, traffic.dst, size, np.zeros(len(traffic.src), dtype=np.int64))
    on_tier = tier_of(models, traffic.src, traffic.dst)
    one_hop = np.zeros(len(on_tier), dtype=bool)
    # Seconds of the busiest resource of each tier, of any kind and of endpoints alone.
    on_any = np.zeros(len(models))
    on_endpoints = np.zeros(len(models))
    alpha_s, links = latency(models, messages)
    for number, model in enumerate(models):
        here = on_tier == number
        if traffic.neighbours and model.hop_alpha_s is not None and here.any():
            one_hop |= here
            alpha_s[here] = model.hop_alpha_s
            links[here] = 1
            on_any[number] = on_endpoints[number] = float(size[here].max()) / model.capacity_Bps
    for loads in totals(models, messages.some(np.flatnonzero(~one_hop))):
        seconds = float(loads.load.max()) / loads.kind.capacity_Bps
        on_any[loads.tier] = max(on_any[loads.tier], seconds)
        if loads.kind.endpoint:
            on_endpoints[loads.tier] = max(on_endpoints[loads.tier], seconds)
    busiest = int(np.argmax(on_any))
    return Baseline(
        float(on_any[busiest]),
        float(on_endpoints[busiest]),
        float(alpha_s.mean()),
        int(links.max()),
        busiest,
        tiers=tuple(np.unique(on_tier).tolist()),
    )
