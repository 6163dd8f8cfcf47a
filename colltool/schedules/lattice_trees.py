"""Broadcasts over all links of a torus or mesh, as trees that share none; a reduction backwards."""

from collections.abc import Sequence
from math import prod

import numpy as np

from colltool.algorithms.group import Axis, Group
from colltool.algorithms.lattice_trees import all_closed, long_axes
from colltool.base.primitives import BC, REDUCE, Primitive
from colltool.schedules.program import Edges, Indices, Program, pipelined, schedule
from colltool.schedules.twisted import ranks_at


@schedule("multi-chain", BC, REDUCE)
def _multi_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    axes = long_axes(group)
    trees = [_parents(axes, first) for first in range(len(axes))]
    if all_closed(axes):
        mirrored = ranks_at(list(-_places(axes)), axes)  # its own inverse
        trees += [mirrored[parent[mirrored]] for parent in trees]
    child = np.arange(1, group.ranks)
    streams = [Edges(child, parent[1:], np.full_like(child, number), _depths(parent)[1:]) for number, parent in enumerate(trees)]
    return pipelined(primitive, group.ranks, segments, Edges(*map(np.concatenate, zip(*streams, strict=True))))


def _places(axes: Sequence[Axis]) -> Indices:
    """Of every rank on each axis, shape (axes, N)."""
    sizes = [axis.size for axis in axes]
    return np.array(np.unravel_index(np.arange(prod(sizes)), sizes, order="F"))


def _parents(axes: Sequence[Axis], first: int) -> Indices:
    """Of every rank in the tree that leaves the root upwards along an axis; the root's means nothing."""
    place, ranks = _places(axes), np.arange(prod(axis.size for axis in axes))
    along = np.full(len(ranks), first)
    for turn in range(len(axes) - 1, 0, -1):  # the nearest last, which stays
        axis = (first + turn) % len(axes)
        along[(place[first] > 0) & (place[axis] > 0)] = axis
    back = -1 if all_closed(axes) else np.where(place[along, ranks] > 0, -1, 1)
    place[along, ranks] += back
    return ranks_at(list(place), axes)


def _depths(parent: Indices) -> Indices:
    """Links from rank 0 down to every rank."""
    at, depth = np.arange(len(parent)), np.zeros(len(parent), dtype=np.int64)
    while at.any():
        depth += at > 0
        at = np.where(at > 0, parent[at], 0)
    return depth
