"""The flat ring on a lattice: all ranks along a Hamiltonian cycle of links, or along a snake where there is none.

The registered makers of ``ring`` serve any-to-any groups too, and take these on a group with axes.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from colltool.algorithms.group import Axis, Group
from colltool.base.primitives import Primitive
from colltool.schedules.lattice_rings import scattered
from colltool.schedules.lines import Cover, one_way, open_line
from colltool.schedules.step import Indices, Program


def embedded_ring(primitive: Primitive, group: Group) -> Program:
    """Ring all-reduce, reduce-scatter or all-gather whose hops are all links between neighbours.

    Where no cycle exists the snake is an open line that uses both directions of its links, in as many steps and bytes.
    """
    n, zero = group.ranks, np.zeros(1, dtype=np.int64)
    cycle = hamiltonian_cycle(group.axes)
    order = snake(group.axes) if cycle is None else cycle
    cover = Cover(order, order, zero, zero)
    steps = open_line(n) if cycle is None else one_way(n)
    return scattered(primitive, n, 1, [[(cover, one)] for one in steps])


def snake(axes: Sequence[Axis], chosen: Sequence[int] | None = None) -> Indices:
    """A walk over all ranks from neighbour to neighbour; over the ``chosen`` axes only, at 0 on the others.

    It walks the first axis up, takes one step on the next, walks the first down, and so on.
    """
    walk = np.zeros(1, dtype=np.int64)
    for k in range(len(axes)) if chosen is None else chosen:
        stride = prod(axis.size for axis in axes[:k])
        rows = [walk if row % 2 == 0 else walk[::-1] for row in range(axes[k].size)]
        walk = np.concatenate([row + number * stride for number, row in enumerate(rows)])
    return walk


def hamiltonian_cycle(axes: Sequence[Axis]) -> Indices | None:
    """A closed walk over all ranks, or None where there is none: an open line, or a lattice with only odd, open axes."""
    long = [k for k, axis in enumerate(axes) if axis.size > 1]
    rings = [k for k in long if axes[k].is_ring]
    even = [k for k in long if axes[k].size % 2 == 0]
    if len(long) == 1:
        return snake(axes) if rings else None
    if even:
        own = [even[0]]
        return _woven(snake(axes, own), snake(axes, [k for k in long if k not in own]))
    if rings:
        own = [rings[0]]
        return _woven(snake(axes, [k for k in long if k not in own]), snake(axes, own))
    return None


def _woven(layers: Indices, across: Indices) -> Indices:
    """A cycle over layers x across: to and fro through the layers but for column 0, and home along that.

    It closes with an even number of layers, and with an odd one if ``across`` is a ring.
    """
    rows = [across[1:] if row % 2 == 0 else across[:0:-1] for row in range(len(layers))]
    there = np.concatenate([layer + row for layer, row in zip(layers, rows, strict=True)])
    return np.concatenate([across[:1] + layers[:1], there, across[0] + layers[:0:-1]])
