"""All-gathers, broadcasts and their reductions over trees that use all links of a graph or lattice at
once: :mod:`colltool.extras.synthesis.packing` finds the trees.

First which links a group has and whether it is small enough, then the formulas, and last the messages.

Conditions (``requires=``) return None where a group meets them, else why not; their docstrings are what
``explain`` prints as the condition. ``group.wires`` are the links of a group that are known one by one, None on
a lattice; ``wires.joins_ranks`` tells that no switch is among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING

from colltool.algorithms.program import Program, gather_or_reverse, schedule
from colltool.algorithms.registry import FORESTCOLL, NCCL_RINGS, Caveat, algorithm
from colltool.base.primitives import (
    AG,
    AR,
    BC,
    REDUCE,
    RS,
    Links,
    Primitive,
    Schedule,
    Terms,
)
from colltool.network.arrays import np
from colltool.network.group import LATTICE, Axis, Group, Topology, all_ports
from colltool.network.wires import Edge, GraphWires

if TYPE_CHECKING:
    from colltool.extras.synthesis.packing import Forest

ON_LINKS = LATTICE | frozenset[Topology](("graph", "hyperx"))
# Limits beyond which packing takes seconds: ranks with trees from every rank; ranks, and links, with
# trees from one root; ranks and switches of a graph with switches.
MOST_RANKS = 24
MOST_FROM_ROOT = 256
MOST_LINKS = 480
MOST_AT_SWITCHES = 16
MOST_SWITCHES = 16
NO_LINKS = "needs links between the ranks themselves, without switches"


@lru_cache(maxsize=32)
def lattice_wires(axes: tuple[Axis, ...]) -> GraphWires:
    """The links of a torus, mesh or twisted torus, each of rate 1: prices on a lattice are relative
    to the rate of a link."""
    # coordinates of each rank; ranks count along the first axis first
    places = [place[::-1] for place in product(*(range(axis.size) for axis in reversed(axes)))]
    rank_at = {place: rank for rank, place in enumerate(places)}
    edges = []
    for rank, place in enumerate(places):
        for above in _neighbours_up(place, axes):
            edges.append(Edge(rank, rank_at[above], Bps=1.0, alpha_s=0.0))
            edges.append(Edge(rank_at[above], rank, Bps=1.0, alpha_s=0.0))
    return GraphWires(len(places), len(places), tuple(edges))


def _neighbours_up(place: tuple[int, ...], axes: Sequence[Axis]) -> Iterator[tuple[int, ...]]:
    """The next place along each axis, round a closed one with its twist."""
    for number, axis in enumerate(axes):
        above = list(place)
        above[number] += 1
        if above[number] == axis.size:
            if not axis.closed:
                continue
            above[number] = 0
            # a twist shifts by so many places along each other axis
            for other, shift in enumerate(axis.twist):
                above[other] = (above[other] + shift) % axes[other].size
        yield tuple(above)


def wires_between(group: Group) -> GraphWires | None:
    """The links of a group whose ranks are joined directly. None with switches or other ranks in
    between."""
    if group.topology in LATTICE:
        return lattice_wires(group.axes)
    wires = group.wires.between_ranks if group.wires is not None else None
    if wires is None or wires.endpoints != group.ranks:
        return None
    return wires


def joined_by_links(group: Group) -> str | None:
    """Links that join its ranks, without switches or other ranks between."""
    if group.topology in LATTICE:
        return None
    if group.wires is None or not group.wires.joins_ranks:
        return NO_LINKS
    if group.wires.endpoints != group.ranks:
        return "needs consecutive ranks: links between these lead through others"
    return None


def wires_of(group: Group) -> GraphWires | None:
    """The links of a group's ranks, and of a graph's switches. None where ranks have ports at
    switches."""
    wires = group.wires
    if isinstance(wires, GraphWires) and wires.endpoints == group.ranks:
        return wires
    return wires_between(group)


def links_between_ranks(group: Group) -> str | None:
    """Links that join ranks, of a graph through switches too, and few enough ranks to pack trees
    over."""
    return _too_many(group, MOST_RANKS)


def links_from_root(group: Group) -> str | None:
    """Links that join ranks, of a graph through switches too, and few enough of these to pack trees
    from one rank over."""
    why_not = _too_many(group, MOST_FROM_ROOT)
    if why_not or group.ranks <= MOST_RANKS:
        return why_not
    wires = wires_of(group)
    if wires is None or len(wires.edges) > MOST_LINKS:
        return f"trees from one rank are packed over {MOST_LINKS} links at most"
    return None


def _too_many(group: Group, most: int) -> str | None:
    """Why a group is too large to pack trees for; None if it is not."""
    # a lattice has no switches, so that no list of its links is needed
    wires = None if group.topology in LATTICE else group.wires
    through_switches = isinstance(wires, GraphWires) and wires.endpoints == group.ranks
    if wires is not None and not through_switches:
        why_not = joined_by_links(group)
        if why_not:
            return why_not
    switches = wires.nodes - wires.endpoints if isinstance(wires, GraphWires) else 0
    if switches and (group.ranks > MOST_AT_SWITCHES or switches > MOST_SWITCHES):
        return (
            f"through switches trees are packed for {MOST_AT_SWITCHES} ranks and {MOST_SWITCHES}"
            " switches at most"
        )
    if group.ranks > most:
        return f"trees are packed for {most} ranks at most"
    return None


_AS_RINGS = (
    "on a graph NCCL's and RCCL's rings are as fast where they use all links, as on DGX-1, and"
    " nowhere faster"
)


def _who_runs(group: Group) -> Caveat:
    """Whether a library runs such trees on a group."""
    if group.topology in LATTICE:
        return Caveat("reference", "no library is known to pack trees on a torus or mesh")
    if isinstance(group.wires, GraphWires) and not group.wires.joins_ranks:
        return Caveat("reference", "no library is known to pack trees through switches")
    return Caveat("shipped", _AS_RINGS)


_over_all_links = partial(
    algorithm,
    "forest",
    on=ON_LINKS,
    caveat=_who_runs,
    shipped_by=("NCCL", "RCCL", "MSCCL++"),
    source=f"{FORESTCOLL}; NCCL and RCCL search for rings over all links: {NCCL_RINGS}",
)
_from_every_rank = partial(_over_all_links, requires=(links_between_ranks, all_ports))


@_from_every_rank(
    AR,
    equation=(
        "t = 2L α + 2/N M / R, R the most that every rank can send to all others at once (cuts)"
    ),
)
def forest_all_reduce(group: Group) -> Schedule:
    """Trees from every rank over all links: sums up to their roots, then down again.

    >>> totals(forest_all_reduce(Group(4, "graph", wires=ring_wires(4))))
    (6, 0.75)
    """
    up = _trees(group, tuple(range(group.ranks)))._replace(primitive=RS, label="up")
    return up, up._replace(primitive=AG, label="down")


@_from_every_rank(
    AG,
    RS,
    equation=(
        "t = L α + 1/N M / R, R the most that every rank can send to all others at once (cuts)"
    ),
)
def forest(group: Group) -> Terms:
    """Trees from every rank over all links at once, as deep as L.

    >>> forest(Group(4, "graph", wires=ring_wires(4)))[:2]
    (3, 0.375)
    """
    return _trees(group, tuple(range(group.ranks)))


@_over_all_links(
    BC,
    REDUCE,
    requires=(links_from_root, all_ports),
    equation="t = L α + M / R, R the least cut between the root and any rank",
)
def forest_from_root(group: Group) -> Terms:
    """Trees from the root over all links at once, as deep as L.

    >>> forest_from_root(Group(4, "graph", wires=ring_wires(4)))[:2]
    (3, 0.5)
    """
    return _trees(group, (0,))


def ring_wires(ranks: int) -> GraphWires:
    """A ring of links of 1 byte/s, for the examples."""
    edges = []
    for rank in range(ranks):
        following = (rank + 1) % ranks
        edges.append(Edge(rank, following, Bps=1.0, alpha_s=0.0))
        edges.append(Edge(following, rank, Bps=1.0, alpha_s=0.0))
    return GraphWires(ranks, ranks, tuple(edges))


def forest_on(group: Group, roots: tuple[int, ...]) -> Forest:
    """The trees from these roots over the links of a group that :func:`links_between_ranks` lets
    through."""
    # prices on other networks need not load it
    from colltool.extras.synthesis.packing import forest_of

    wires = wires_of(group)
    assert wires is not None  # links_between_ranks requires it
    return forest_of(wires, roots, numbered=not isinstance(group.wires, GraphWires))


def _trees(group: Group, roots: tuple[int, ...]) -> Terms:
    """The terms of trees from these roots, down to all other ranks."""
    trees = forest_on(group, roots)
    # depth, n_beta and links. A ring of four with links of 1 byte/s: each root has M/4 and sends it at 2/3
    # byte/s, which takes 0.375 M.
    return Terms(trees.depth, 1 / (len(roots) * trees.rate), Links(), fill=trees.fill)


# Messages: tree t has P chunks, numbered t * P + s, of its share of what its root sends; P segments.


@schedule("forest", AR, AG, RS, BC, REDUCE)
def _forest(primitive: Primitive, group: Group, segments: int) -> Program:
    """Segment after segment down all trees at once, or up."""
    from colltool.extras.synthesis.packing import chunk_sizes, down_trees

    roots = tuple(range(group.ranks))
    if primitive in (BC, REDUCE):
        roots = (0,)
    packed = forest_on(group, roots)
    root = np.repeat([tree.root for tree in packed.trees], segments)
    node_places = None
    if packed.switches:
        node_places = np.array([*range(group.ranks), *packed.switches])
    return Program(
        primitive,
        group.ranks,
        group.ranks + len(packed.switches),
        chunk_sizes(packed, len(roots), segments),
        home=root,
        target=root,
        batches=gather_or_reverse(primitive, lambda: down_trees(packed, segments)),
        node_places=node_places,
    )
