"""Broadcasts over all links of a torus or mesh, as trees that share none; a reduction backwards."""

from collections.abc import Sequence
from math import prod

import numpy as np

from colltool.algorithms.lattice_trees import all_closed, long_axes
from colltool.algorithms.program import Program, pipelined, schedule
from colltool.base.primitives import BC, REDUCE, Primitive
from colltool.network.arrays import Indices
from colltool.network.group import Axis, Group
from colltool.network.twisted import ranks_at
from colltool.schedules.rooted import edges_of, moved


@schedule("multi-chain", BC, REDUCE)
def _multi_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    axes = long_axes(group)
    trees = [_parents(axes, first) for first in range(len(axes))]
    if all_closed(axes):
        trees += [moved(parents, ranks_at(list(-_places(axes)), axes)) for parents in trees]
    return pipelined(primitive, group.ranks, segments, edges_of(trees))


def _places(axes: Sequence[Axis]) -> Indices:
    """Of every rank on each axis, shape (axes, N)."""
    sizes = [axis.size for axis in axes]
    return np.array(np.unravel_index(np.arange(prod(sizes)), sizes, order="F"))


def _parents(axes: Sequence[Axis], first: int) -> Indices:
    """Of every rank in the tree that leaves the root upwards along an axis; -1 for the root."""
    place, ranks = _places(axes), np.arange(prod(axis.size for axis in axes))
    along = np.full(len(ranks), first)
    for turn in range(len(axes) - 1, 0, -1):  # the nearest last, which stays
        axis = (first + turn) % len(axes)
        along[(place[first] > 0) & (place[axis] > 0)] = axis
    back = -1 if all_closed(axes) else np.where(place[along, ranks] > 0, -1, 1)
    place[along, ranks] += back
    parents = ranks_at(list(place), axes)
    parents[0] = -1
    return parents
