"""Two complementary binary trees, built from their definition, and segments streamed along their edges.

In the in-order binary tree over 1 .. n-1 under root 0 (Sanders, Speck, Traff 2009; NCCL 2.4), a rank's height is its lowest
set bit, so every odd rank is a leaf. The second tree is the first with the ranks moved so that odd becomes even: whoever is
interior in one is a leaf in the other.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from colltool.schedules.step import Indices, Step, step


class Edges(NamedTuple):
    """The edges of both trees, all arrays of shape (2(n-1),).

    Args:
        child, parent: ranks.
        tree: 0 or 1.
        depth: of the child; a root has depth 0.
    """

    child: Indices
    parent: Indices
    tree: Indices
    depth: Indices


def in_order_parents(n: int) -> Indices:
    """The parent of every rank, shape (n,); -1 for the root, which is rank 0.

    A rank of lowest set bit b stands midway between two multiples of 2b; one of them, the odd multiple of 2b, is its parent,
    or the other one if that lies beyond the last rank.
    """
    rank = np.arange(n, dtype=np.int64)
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    parents: Indices = np.where(up < n, up, rank ^ bit)
    parents[0] = -1
    return parents


def depths(parents: Indices) -> Indices:
    """Edges between every rank and the root of its tree."""
    depth, at = np.zeros_like(parents), parents.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parents[at], -1)
    return depth


def moved(parents: Indices, places: Indices) -> Indices:
    """The same tree with rank r put in the place of ``places[r]``."""
    out = np.full_like(parents, -1)
    out[places] = np.where(parents >= 0, places[parents], -1)
    return out


def two_trees(n: int) -> tuple[Indices, Indices]:
    """The parents in both trees as NCCL builds them, each with a root of its own.

    The second is the first mirrored (n even) or shifted by one (n odd).
    """
    rank = np.arange(n, dtype=np.int64)
    first = in_order_parents(n)
    return first, moved(first, n - 1 - rank if n % 2 == 0 else (rank + 1) % n)


def two_trees_under_one_root(n: int) -> tuple[Indices, Indices]:
    """The parents in both trees when rank 0 is the root of both, as a broadcast needs it.

    The n-1 others are mirrored (n odd) or shifted by one among themselves (n even), again turning odd into even.
    """
    rank = np.arange(n, dtype=np.int64)
    first = in_order_parents(n)
    places = n - rank if n % 2 else rank % (n - 1) + 1
    places[0] = 0
    return first, moved(first, places)


def edges(trees: tuple[Indices, Indices]) -> Edges:
    """The edges of two trees."""
    found = []
    for number, parents in enumerate(trees):
        child = np.flatnonzero(parents >= 0)
        found.append((child, parents[child], np.full(len(child), number), depths(parents)[child]))
    return Edges(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def fired(src: Indices, dst: Indices, stream: Indices, first: Indices, segments: int, moment: int, *, add: bool) -> Step:
    """What a set of edges sends at a moment: edge e sends its stream's segment s at ``first[e] + s``.

    Chunks are numbered stream by stream: segment s of stream j is ``j * segments + s``.
    """
    segment = moment - first
    live = (segment >= 0) & (segment < segments)
    return step(src[live], dst[live], (stream * segments + segment)[live], add=add)


def down_the_trees(found: Edges, segments: int) -> Iterator[tuple[Step, ...]]:
    """Broadcast: the edge to a child of depth d passes segment s on in step d-1+s."""
    for moment in range(int(found.depth.max()) + segments - 1):
        yield (fired(found.parent, found.child, found.tree, found.depth - 1, segments, moment, add=False),)


def up_and_down_the_trees(found: Edges, segments: int) -> Iterator[tuple[Step, ...]]:
    """Reduce and broadcast, overlapped: with D the depth, segment s leaves depth d upwards in step D-d+s.

    It is complete at the root after step D-1+s, and reaches depth d again in step D+d-1+s.
    """
    deepest = int(found.depth.max())
    for moment in range(2 * deepest + segments - 1):
        up = fired(found.child, found.parent, found.tree, deepest - found.depth, segments, moment, add=True)
        down = fired(found.parent, found.child, found.tree, deepest + found.depth - 1, segments, moment, add=False)
        yield tuple(one for one in (up, down) if len(one.src))
