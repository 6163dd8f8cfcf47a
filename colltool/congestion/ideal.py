"""A collective alone and packed, which is the layout that ``price`` assumes."""

from typing import NamedTuple

import numpy as np

from colltool.congestion.arrays import Floats
from colltool.congestion.links import Wires
from colltool.congestion.loads import Messages, latency, tier_of, totals
from colltool.congestion.traffic import Traffic


class Ideal(NamedTuple):
    """A collective alone, packed: seconds on its busiest resource, on its busiest port or link, mean α, most links, the tier.

    ``tiers`` are all that carry a message.
    """

    busiest_s: float
    endpoint_s: float
    alpha_s: float
    links: int
    tier: int
    tiers: tuple[int, ...]


def ideal(wires: list[Wires], traffic: Traffic, size: Floats) -> Ideal:
    """The messages alone, in those sizes, member i on endpoint i: in as few domains as possible, on a lattice axis by axis.

    Between ``neighbours`` every message inside a lattice is one hop on a link of its own, as along the ring of a full axis.
    """
    src, dst = traffic.src, traffic.dst
    tier = tier_of(wires, src, dst)
    embedded = np.isin(tier, [i for i, one in enumerate(wires) if one.hop_alpha_s is not None]) & traffic.neighbours
    messages = Messages(src, dst, size, np.zeros(len(src), dtype=np.int64))
    busy = np.zeros((len(wires), 2))  # on any resource, and on those of an endpoint
    for line in totals(wires, messages.some(np.flatnonzero(~embedded))):
        seconds = float(line.load.max()) / line.kind.capacity_Bps
        busy[line.tier] = np.maximum(busy[line.tier], [seconds, seconds if line.kind.endpoint else 0.0])
    alpha, links = latency(wires, messages)
    for number in np.unique(tier[embedded]).tolist():
        here = embedded & (tier == number)
        busy[number] = np.maximum(busy[number], float(size[here].max()) / wires[number].rate)
        alpha[here], links[here] = wires[number].hop_alpha_s, 1
    worst = int(np.argmax(busy[:, 0]))
    return Ideal(
        busiest_s=float(busy[worst, 0]),
        endpoint_s=float(busy[worst, 1]),
        alpha_s=float(alpha.mean()),
        links=int(links.max()),
        tier=worst,
        tiers=tuple(np.unique(tier).tolist()),
    )
