"""Minimal paths through a dragonfly, and the order of ranks for a ring along its global cables.

Plain Python for small questions; :mod:`colltool.network.dragonfly_router` routes whole steps with
arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from functools import lru_cache

from colltool.network.wires import DragonflyWires


def minimal_path_loads(wires: DragonflyWires, src: int, dst: int) -> dict[Hashable, float]:
    """Seconds that a byte between two endpoints occupies each link, by minimal routing spread evenly
    over all cables; of a dragonfly without spines.

    The wires do not know the rate of ports: these have 1, the bytes, which the caller divides by the rate.
    Keys are ``("out", src)`` and ``("in", dst)`` of ports, ``("local", group, from switch, to switch)`` of
    links inside a group, and ``(from group, to group, cable)`` of cables.
    """
    # Switches are numbered within their group.
    here, first_switch = divmod(src // wires.hosts, wires.switches)
    there, last_switch = divmod(dst // wires.hosts, wires.switches)
    loads: dict[Hashable, float] = defaultdict(float, {("out", src): 1.0, ("in", dst): 1.0})
    # Inside a group: (group, from switch, to switch, share of the bytes).
    legs = []
    if here == there:
        legs.append((here, first_switch, last_switch, 1.0))
    else:
        share = 1 / wires.cables
        for cable in range(wires.cables):
            loads[here, there, cable] = share / wires.global_Bps
            # the switches at which the cable ends, in the sender's group and in the receiver's
            leaves = wires.gateway(here, there, cable)
            enters = wires.gateway(there, here, cable)
            legs.append((here, first_switch, leaves, share))
            legs.append((there, enters, last_switch, share))
    for group, start, end, share in legs:
        if start != end:
            link = ("local", group, start, end)
            loads[link] += share / wires.local_Bps
    return loads


@lru_cache(maxsize=64)
def gateway_order(wires: DragonflyWires) -> tuple[int, ...]:
    """The ranks of two groups or more in the order of a ring that crosses each group once, from rank 0 on.

    In each group the ring enters at the switch of the cable from the group before and leaves at
    that of the cable to the next.
    """
    order: list[int] = []
    groups = wires.groups_in_use
    for group in range(groups):
        enters = wires.gateway(group, (group - 1) % groups, 0)
        leaves = wires.gateway(group, (group + 1) % groups, 0)
        inner = [switch for switch in range(wires.switches) if switch not in (enters, leaves)]
        # Each switch once, even if both cables end at the same one.
        for switch in dict.fromkeys((enters, *inner, leaves)):
            first = (group * wires.switches + switch) * wires.hosts
            order += range(first, min(first + wires.hosts, wires.endpoints))
    start = order.index(0)
    return tuple(order[start:] + order[:start])
