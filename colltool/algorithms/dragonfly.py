"""Rings and chains of a dragonfly in the order of its cables: into each group where a cable ends,
out where the next begins.

Ranks as they are numbered cross a group switch by switch, and the way to a cable at another switch,
or from one, loads links that the ring has loaded already. In this order no link carries more than
one of its messages where one cable joins two groups.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache, partial

from colltool.algorithms.group import Group, Topology
from colltool.algorithms.registry import KIM_DRAGONFLY, algorithm
from colltool.algorithms.wires import DragonflyWires
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Chain, Ring, Terms

DRAGONFLY: frozenset[Topology] = frozenset({"dragonfly"})


def several_groups(group: Group) -> str | None:
    """Consecutive ranks in several groups of switches, whose messages go straight along the
    cables."""
    wires = group.wires
    if not isinstance(wires, DragonflyWires) or wires.endpoints != group.ranks:
        return "needs consecutive ranks"
    if wires.routing != "minimal":
        return (
            f"needs minimal routing: by {wires.routing} routes messages leave the order of the"
            " cables"
        )
    return None if wires.met > 1 else "one group of switches: that is ring or chain"


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


_along_cables = partial(
    algorithm,
    on=DRAGONFLY,
    requires=(several_groups,),
    source=f"the ring of Chan et al. with ranks in the order of gateways: {KIM_DRAGONFLY}",
    note=(
        "libraries take ranks as they are numbered: number them along the cables between groups, as"
        " a rank file does"
    ),
)


@_along_cables("gateway-ring", AG, RS, equation="t = (N-1) α + (N-1)/N M/BW")
@_along_cables("gateway-ring", AR, twice=True, equation="t = 2(N-1) α + 2(N-1)/N M/BW")
def gateway_ring(group: Group) -> Terms:
    """A ring through all ranks that enters and leaves each group of switches where its cables end.

    >>> gateway_ring(Group(12, "dragonfly"))[:2]
    (11, 0.9166666666666666)
    """
    return Terms(group.ranks - 1, (group.ranks - 1) / group.ranks, Ring("gateways"))


@_along_cables("gateway-chain", BC, REDUCE, equation="t = (N-1) α + M/BW (asymptotic)")
def gateway_chain(group: Group) -> Terms:
    """A chain through all ranks that enters and leaves each group of switches where its cables end,
    segment behind segment.

    >>> gateway_chain(Group(12, "dragonfly"))[:2]
    (11, 1)
    """
    depth = group.ranks - 1
    return Terms(depth, 1, Chain("gateways"), fill=depth)
