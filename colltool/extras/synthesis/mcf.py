"""All-to-all as a multicommodity flow (MCF): what a rank has for another is split over several ways,
and ranks on a way forward it.

:mod:`.flow_split` finds the split. It is a forest of which each tree is a way: a chain of links from
the sender to the receiver.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from colltool.algorithms.program import Program, schedule
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
    # the sentence above is also what ``explain`` prints for this condition
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


def _ways_of(group: Group) -> Forest:
    """The ways between each two ranks of a group that :func:`few_ranks` lets through."""
    # loaded here, as prices on other networks do without it
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
    # The sentence above is what ``explain`` prints: L is the number of links of the longest way. In the
    # example, links of 1 byte/s, each of six pairs has a link for itself: R = 1, L = 1, t = α + M/3.
    ways = _ways_of(group)
    # on a graph R says all; on a dragonfly the price also loads the network's own links with these messages
    sends = () if isinstance(group.wires, GraphWires) else _sends(ways, group.ranks)
    return Terms(ways.depth, 1 / (group.ranks * ways.rate), Links(sends), fill=ways.fill)


def _sends(ways: Forest, ranks: int) -> tuple[tuple[int, int, float], ...]:
    """Sender, receiver and bytes, in units of M, of all that passes between two ranks."""
    sent: dict[tuple[int, int], float] = defaultdict(float)
    for way in ways.trees:
        for link in way.links:
            sent[link] += float(way.share) / ranks
    return tuple((sender, receiver, size) for (sender, receiver), size in sent.items())


@schedule("mcf", A2A)
def _mcf(primitive: Primitive, group: Group, segments: int) -> Program:
    """Segment after segment along every way at once."""
    from colltool.extras.synthesis.packing import chunk_sizes, down_trees

    ways = _ways_of(group)
    nodes = group.wires.nodes if isinstance(group.wires, GraphWires) else group.ranks
    return Program(
        primitive,
        group.ranks,
        nodes,
        chunk_sizes(ways, group.ranks, segments),
        # chunks are numbered way by way: each begins at a way's sender and is for its receiver
        home=np.repeat([way.links[0][0] for way in ways.trees], segments),
        target=np.repeat([way.links[-1][-1] for way in ways.trees], segments),
        batches=down_trees(ways, segments),
        # a graph's switches forward too: each is its own place, after those of the ranks
        node_places=np.arange(nodes) if nodes > group.ranks else None,
    )
