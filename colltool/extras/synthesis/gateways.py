"""Rings and chains of a dragonfly that follow its cables: they enter each group where a cable ends,
and leave it where the next begins.

In the order of their numbers, ranks cross a group switch by switch, and messages to or from a cable
at another switch load links that the ring already uses. In the order of cables no link carries more
than one message of a ring, if one cable joins each two groups.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.binary_trees import chain_program
from colltool.algorithms.program import Program, schedule
from colltool.algorithms.registry import KIM_DRAGONFLY, algorithm
from colltool.algorithms.rings import on_ring
from colltool.base.primitives import (
    AG,
    AR,
    BC,
    REDUCE,
    RS,
    Chain,
    Primitive,
    Ring,
    Terms,
    step_a_peer,
)
from colltool.network.arrays import Indices, np
from colltool.network.dragonfly import gateway_order
from colltool.network.group import Group, Topology
from colltool.network.wires import DragonflyWires

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
    if wires.groups_in_use == 1:
        return "one group of switches: that is ring or chain"
    return None


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
    return step_a_peer(group.ranks, Ring("gateways"))


@schedule("gateway-ring", AR, AG, RS, per_pair=1)
def _gateway_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The messages of a ring in the order of gateways."""
    return on_ring(primitive, _order(group))


@_along_cables("gateway-chain", BC, REDUCE, equation="t = (N-1) α + M/BW (asymptotic)")
def gateway_chain(group: Group) -> Terms:
    """A chain through all ranks that enters and leaves each group of switches where its cables end,
    segment behind segment.

    >>> gateway_chain(Group(12, "dragonfly"))[:2]
    (11, 1)
    """
    depth = group.ranks - 1
    return Terms(depth, 1, Chain("gateways"), fill=depth)


@schedule("gateway-chain", BC, REDUCE)
def _gateway_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    """The messages of a chain in the order of gateways."""
    return chain_program(primitive, _order(group), segments)


def _order(group: Group) -> Indices:
    """The ranks in the order of gateways, shape (ranks,)."""
    assert isinstance(group.wires, DragonflyWires)  # several_groups requires it
    return np.array(gateway_order(group.wires), dtype=np.int64)
