"""Ways through a dragonfly by its wiring alone.

The ports and links that a message takes, and the order of ranks along the cables between groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from functools import lru_cache

from colltool.network.wires import DragonflyWires


def straight(wires: DragonflyWires, a: int, b: int) -> dict[Hashable, float]:
    """Seconds that a byte from one endpoint to another takes of each port and link, by minimal
    routing over all cables evenly."""
    here, i = divmod(a // wires.hosts, wires.switches)
    there, j = divmod(b // wires.hosts, wires.switches)
    seconds: dict[Hashable, float] = defaultdict(float, {("out", a): 1.0, ("in", b): 1.0})
    # within a group: from a switch to another, with a share of the bytes
    legs = []
    if here == there:
        legs.append((here, i, j, 1.0))
    else:
        share = 1 / wires.cables
        for cable in range(wires.cables):
            seconds[here, there, cable] = share / wires.global_Bps
            legs.append((here, i, wires.gateway(here, there, cable), share))
            legs.append((there, wires.gateway(there, here, cable), j, share))
    for group, start, end, share in legs:
        if start != end:
            link = ("local", group, start, end)
            seconds[link] += share / wires.local_Bps
    return seconds


@lru_cache(maxsize=64)
def gateway_order(wires: DragonflyWires) -> tuple[int, ...]:
    """Ranks from rank 0 on: group after group, in each from the switch of the last one's cable to
    that of the next one's."""
    order: list[int] = []
    for group in range(wires.groups_in_use):
        enters = wires.gateway(group, (group - 1) % wires.groups_in_use, 0)
        leaves = wires.gateway(group, (group + 1) % wires.groups_in_use, 0)
        inner = [switch for switch in range(wires.switches) if switch not in (enters, leaves)]
        # once each: a cable may enter where the next one leaves
        for switch in dict.fromkeys((enters, *inner, leaves)):
            first = (group * wires.switches + switch) * wires.hosts
            order += range(first, min(first + wires.hosts, wires.endpoints))
    start = order.index(0)
    return tuple(order[start:] + order[:start])
