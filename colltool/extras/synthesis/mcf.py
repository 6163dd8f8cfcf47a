"""All-to-all over several ways at once, with ranks that forward: :mod:`.flow_split` splits the traffic."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from colltool.algorithms.program import (
    Program,
    schedule,
)
from colltool.algorithms.registry import MCF, algorithm
from colltool.base.primitives import A2A, Links, Primitive, Terms
from colltool.extras.synthesis.forest import MOST_SWITCHES
from colltool.network.arrays import np
from colltool.network.group import Group, Topology, all_ports
from colltool.network.wires import DragonflyWires, GraphWires

if TYPE_CHECKING:
    from colltool.extras.synthesis.packing import Forest

MOST_RANKS = 24  # with more the search takes seconds
ON_WIRES: frozenset[Topology] = frozenset({"graph", "dragonfly"})


def few_ranks(group: Group) -> str | None:
    """Consecutive ranks, few enough to split traffic over ways that the network lets them take."""
    wires = group.wires
    if wires is None or wires.endpoints != group.ranks:
        return "needs consecutive ranks"
    if group.ranks > MOST_RANKS:
        return f"traffic is split for {MOST_RANKS} ranks at most"
    if isinstance(wires, GraphWires) and wires.nodes - wires.endpoints > MOST_SWITCHES:
        return f"traffic is split over {MOST_SWITCHES} switches at most"
    if isinstance(wires, DragonflyWires) and wires.routing != "minimal":
        return (
            f"needs minimal routing: what {wires.routing} routes load is no sum of what each loads"
            " alone"
        )
    return None


def flows_on(group: Group) -> Forest:
    # prices on other networks need not load it
    from colltool.extras.synthesis.flow_split import flows_of

    assert isinstance(group.wires, GraphWires | DragonflyWires)  # few_ranks requires it
    return flows_of(group.wires)


@algorithm(
    "mcf",
    A2A,
    on=ON_WIRES,
    requires=(few_ranks, all_ports),
    source=MCF,
    note="libraries send by the shortest ways alone",
    equation=(
        "t = L α + M / (N R), R the bytes/s that every rank can send to each other at once, ranks"
        " forwarding"
    ),
)
def mcf(group: Group) -> Terms:
    """What ranks have for each other over several ways at once, messages of the longest L.

    >>> from colltool.extras.synthesis.forest import ring_wires
    >>> mcf(Group(3, "graph", wires=ring_wires(3)))[:2]
    (1, 0.3333333333333333)
    """
    flows = flows_on(group)
    sends = () if isinstance(group.wires, GraphWires) else _sends(flows, group.ranks)
    return Terms(flows.depth, 1 / (group.ranks * flows.rate), Links(sends), fill=flows.fill)


def _sends(flows: Forest, ranks: int) -> tuple[tuple[int, int, float], ...]:
    """Bytes between the two ranks of every hop, in units of M."""
    total: dict[tuple[int, int], float] = defaultdict(float)
    for way in flows.trees:
        for hop in way.links:
            total[hop] += float(way.share) / ranks
    return tuple((a, b, size) for (a, b), size in total.items())


@schedule("mcf", A2A)
def _mcf(primitive: Primitive, group: Group, segments: int) -> Program:
    """Segment after segment along every way at once."""
    from colltool.extras.synthesis.packing import chunk_sizes, down_trees

    flows = flows_on(group)
    nodes = group.wires.nodes if isinstance(group.wires, GraphWires) else group.ranks
    return Program(
        primitive,
        group.ranks,
        nodes,
        chunk_sizes(flows, group.ranks, segments),
        home=np.repeat([way.links[0][0] for way in flows.trees], segments),
        target=np.repeat([way.links[-1][-1] for way in flows.trees], segments),
        batches=down_trees(flows, segments),
        node_places=np.arange(nodes) if nodes > group.ranks else None,
    )
