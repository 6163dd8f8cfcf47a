"""Broadcast and reduce over all links of a torus or mesh: edge-disjoint spanning trees from rank 0.

On a lattice that is closed on every axis there are two trees for each axis a, one that leaves the
root upwards along a and one downwards, its mirror image. In the upward tree of axis a:

- A rank whose place on a differs from the root's receives along the next axis after a, in cyclic
  order, on which its place differs too; along a itself if there is no other such axis.
- A rank at the root's place on a receives along a, through the wraparound.

So at each rank every axis serves exactly one tree: the axes on which it differs from the root are
permuted among the trees of these axes, and each other axis serves its own. Every rank is reached, as
the path back to the root brings the other axes to the root's place one by one, and a last.

From a corner of a mesh only the upward trees exist, and a rank at the root's place on a receives from
its neighbour above. The same holds where some axes are closed and others not; the wraparounds are
then not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from colltool.algorithms.binary_trees import (
    edges_of,
    relabelled_array,
)
from colltool.algorithms.program import (
    Program,
    pipelined,
    schedule,
)
from colltool.algorithms.registry import BLUE_GENE, algorithm
from colltool.base.primitives import BC, REDUCE, Links, Primitive, Terms
from colltool.network.arrays import Indices, np
from colltool.network.group import LATTICE, Axis, Group, all_ports, sizes_of
from colltool.network.twisted import ranks_at


def long_axes(group: Group) -> list[Axis]:
    """The axes with more than one rank."""
    return [axis for axis in group.axes if axis.size > 1]


def all_closed(axes: Sequence[Axis]) -> bool:
    """Whether every rank has two links along every axis."""
    return all(axis.closed for axis in axes)


def several_links_of_the_root(group: Group) -> str | None:
    """Two links from the first rank on: a ring of 3 and more, or several axes."""
    axes = long_axes(group)
    if len(axes) > 1 or all_closed(axes):
        return None
    return "an open line has one link from its end: that is dim-chain"


_edge_disjoint = partial(
    algorithm,
    "multi-chain",
    on=LATTICE,
    requires=(several_links_of_the_root, all_ports),
    source=(
        f"edge-disjoint spanning trees: {BLUE_GENE}; these trees are ours, proved by executing them"
        " (colltool verify)"
    ),
    note="on a mesh the root stands in a corner, which has a link for each axis",
)


@_edge_disjoint(
    BC,
    REDUCE,
    equation=(
        "t = L α + M/(2k BW) on k closed axes, M/(k BW) if one is open (asymptotic); t(P) with this"
        " L\nL = Σ(d_i - 1), and one more on several closed axes and where one of open ones has 2"
        " ranks"
    ),
)
def multi_chain(group: Group) -> Terms:
    """Dimension-ordered chains over all links at once: 2k trees on k closed axes, k from a corner
    of a mesh.

    The payload goes in as many parts, each down a tree of its own that starts along another link of
    the root. No link is in two trees, so each carries one part, and the root's links are all busy:
    for large payloads no broadcast is faster. Where some axes are closed and others open,
    wraparounds idle, and 2 links for each closed and 1 for each open axis would take up to half as
    long. It is deeper than dim-chain-bidirectional, as a tree goes round each ring one way, which
    small payloads feel.

    >>> multi_chain(Group(16, "torus", (Axis(4, wrap=True), Axis(4, wrap=True))))[:2]
    (7, 0.25)
    """
    axes = long_axes(group)
    depth = sum(axis.size - 1 for axis in axes)
    # One more step where ranks at the root's place on an axis receive after all others.
    if all_closed(axes):
        n_beta = 1 / len(axes) / 2
        depth += len(axes) > 1
    else:
        n_beta = 1 / len(axes)
        depth += any(axis.size == 2 for axis in axes)
    return Terms(depth, n_beta, Links(), fill=depth)


@schedule("multi-chain", BC, REDUCE)
def _multi_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    axes = long_axes(group)
    trees = [_parents(axes, first) for first in range(len(axes))]
    if all_closed(axes):
        trees += [
            relabelled_array(parents, ranks_at(list(-_places(axes)), axes)) for parents in trees
        ]
    return pipelined(primitive, group.ranks, segments, edges_of(trees))


def _places(axes: Sequence[Axis]) -> Indices:
    """Each rank's place on each axis, shape (axes, N)."""
    sizes = sizes_of(axes)
    return np.array(np.unravel_index(np.arange(prod(sizes)), sizes, order="F"))


def _parents(axes: Sequence[Axis], first: int) -> Indices:
    """Each rank's parent in the tree that leaves the root upwards along axis ``first``, shape (N,);
    -1 for the root."""
    place = _places(axes)
    ranks = np.arange(place.shape[1])
    along = np.full(len(ranks), first)
    # The nearest axis after the first is last and overwrites the others.
    for after in range(len(axes) - 1, 0, -1):
        axis = (first + after) % len(axes)
        along[(place[first] > 0) & (place[axis] > 0)] = axis
    back = -1 if all_closed(axes) else np.where(place[along, ranks] > 0, -1, 1)
    place[along, ranks] += back
    parents = ranks_at(list(place), axes)
    parents[0] = -1
    return parents
