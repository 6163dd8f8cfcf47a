"""Ways through a dragonfly by its wiring alone: which ports and links a message takes, and the order of ranks along
the cables between groups."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache

from colltool.network.wires import DragonflyWires


def straight(wires: DragonflyWires, a: int, b: int) -> dict[Hashable, float]:
    """Seconds that a byte from one endpoint to another takes of each port and link, by minimal
    routing over all cables evenly."""
    (here, i), (there, j) = (divmod(end // wires.hosts, wires.switches) for end in (a, b))
    found: dict[Hashable, float] = {("out", a): 1.0, ("in", b): 1.0}
    legs = [(here, i, j, 1.0)] if here == there else []
    for cable in range(wires.cables if here != there else 0):
        found[here, there, cable] = 1 / wires.cables / wires.global_Bps
        legs += [
            (here, i, wires.gateway(here, there, cable), 1 / wires.cables),
            (there, wires.gateway(there, here, cable), j, 1 / wires.cables),
        ]
    for group, start, end, share in legs:
        if start != end:
            link = ("local", group, start, end)
            found[link] = found.get(link, 0.0) + share / wires.local_Bps
    return found


@lru_cache(maxsize=64)
def gateway_order(wires: DragonflyWires) -> tuple[int, ...]:
    """Ranks from rank 0 on: group after group, in each from the switch of the last one's cable to
    that of the next one's."""
    groups, order = wires.met, list[int]()
    for group in range(groups):
        enters, leaves = (wires.gateway(group, (group + step) % groups, 0) for step in (-1, 1))
        inner = [switch for switch in range(wires.switches) if switch not in (enters, leaves)]
        for switch in dict.fromkeys((enters, *inner, leaves)):
            first = (group * wires.switches + switch) * wires.hosts
            order += range(first, min(first + wires.hosts, wires.endpoints))
    start = order.index(0)
    return tuple(order[start:] + order[:start])
