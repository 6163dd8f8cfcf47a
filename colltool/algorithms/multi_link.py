"""Rings and chains over all links of a full mesh at once; BW is one link's, in one direction.

A single ring uses one of a rank's N-1 links. Walecki's zigzags (:func:`colltool.algorithms.rings.rings`)
divide all links among rings: N-1 rings for odd N, twice as many for even N, with every link in two
of them. With equal shares of the payload every link carries 1/(N-1) of what those of a single ring
carry.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.program import (
    Edges,
    Program,
    pipelined,
    schedule,
)
from colltool.algorithms.registry import (
    CHAN,
    PATARASUK_YUAN,
    algorithm,
)
from colltool.algorithms.rings import on_rings
from colltool.algorithms.rings import rings as rings_of_mesh
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
)
from colltool.network.arrays import np
from colltool.network.group import FULL_MESH, Group, all_ports

_ALL_LINKS = (
    "RCCL, src/graph/rome_models.cc: of the 14 rings of 8 MI300X two use each link (model 79), of"
    " the 8 paths between NICs one (model 81); NCCL, issue 43: rings until all NVLinks are used"
)


def several_links(group: Group) -> str | None:
    """Two ranks have one link, and one ring over it."""
    if group.ranks < 3:
        return "two ranks have one link between them: that is ring or chain"
    return None


_over_all_links = partial(
    algorithm, on=FULL_MESH, requires=(several_links, all_ports), shipped_by=("NCCL", "RCCL")
)


@_over_all_links(
    "multi-link-ring",
    AR,
    source=f"{PATARASUK_YUAN}; {_ALL_LINKS}",
    equation="t = 2(N-1) α + 2/N M/BW",
)
def multi_link_all_reduce(group: Group) -> Terms:
    """Rings over all links of a full mesh at once, each with its share of the vector.

    A ring has a link of its own in every step (for even N half of one), and N-1 links a rank carry
    2(N-1)/N M together.

    >>> multi_link_all_reduce(Group(8, "full_mesh"))[:2]
    (14, 0.25)
    """
    return Terms(2 * (group.ranks - 1), 2 / group.ranks, Ring("links"))


@_over_all_links(
    "multi-link-ring",
    AG,
    RS,
    source=f"{PATARASUK_YUAN}; {_ALL_LINKS}",
    equation="t = (N-1) α + 1/N M/BW",
)
def multi_link_ring(group: Group) -> Terms:
    """Rings over all links of a full mesh at once, each with its share of every chunk.

    >>> multi_link_ring(Group(8, "full_mesh"))[:2]
    (7, 0.125)
    """
    return Terms(group.ranks - 1, 1 / group.ranks, Ring("links"))


@schedule("multi-link-ring", AR, AG, RS, per_pair=lambda n: 2 * n)  # about one on every ring
def _multi_link_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    return on_rings(primitive, rings_of_mesh(group.ranks))


@_over_all_links(
    "multi-link-chain",
    BC,
    REDUCE,
    source=f"{CHAN}; {_ALL_LINKS}",
    equation=(
        "t = (N-1) α + 1/(N-1) M/BW, with the filling of the pipeline left out (asymptotic"
        " reading)\nt(P) = (L+P-1) α + (F+P-1)/P M/((N-1) BW) with L = N-1 for P segments; F = N-1,"
        " for even N F = N-1 - (N-2)/4"
    ),
)
def multi_link_chain(group: Group) -> Terms:
    """Chains over all links of a full mesh at once: the rings of multi-link-ring cut at the root,
    segment behind segment.

    For even N two chains share a link, at different places of each, so that links are half idle
    while the pipeline fills:
    executed, from P = N/2 segments on it is F, below a little less.

    >>> multi_link_chain(Group(5, "full_mesh"))[:2]
    (4, 0.25)
    """
    depth = group.ranks - 1
    fill: float = depth
    if group.ranks % 2 == 0:
        fill -= (group.ranks - 2) / 4
    return Terms(depth, 1 / depth, Chain("links"), fill=fill)


@schedule("multi-link-chain", BC, REDUCE, per_pair=lambda n: 2 * n)
def _multi_link_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    """The rings, cut open at rank 0."""
    ranks = rings_of_mesh(group.ranks)
    ring, place = np.divmod(np.arange(len(ranks) * (group.ranks - 1)), group.ranks - 1)
    child = ranks[ring, place + 1]
    parent = ranks[ring, place]
    edges = Edges(child, parent, ring, place + 1)
    return pipelined(primitive, group.ranks, segments, edges)
