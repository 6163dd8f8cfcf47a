"""Collectives on tori and meshes, axis by axis: rings, halving, chains; and rings embedded in a lattice.

Chunk c + N * part is that part of rank c's piece. A reduce-scatter goes over the axes in turn: after an axis a rank keeps the
pieces whose owners share its place on that axis. An all-gather is that backwards.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, zip_longest
from math import prod

import numpy as np

from colltool.algorithms.group import Axis, Group
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.schedules.lines import Cover, Dimension, Script, backwards, both_ways, copies, forwards, halving, one_way, open_line
from colltool.schedules.program import Batches, Indices, Program, Step, equal_chunks, schedule, step

Pattern = Callable[[Axis], list[Step]]


def by_axes(axes: Sequence[Axis], order: Sequence[int], pattern: Pattern, first_part: int = 0, parts: int = 1) -> list[Script]:
    """A reduce-scatter over the axes in that order, a script for each; chunks lie in ``parts`` parts from ``first_part`` on."""
    sizes = [axis.size for axis in axes]
    strides, n = [prod(sizes[:k]) for k in range(len(sizes))], prod(sizes)
    scripts = []
    for done, along in enumerate(order):
        d, stride = sizes[along], strides[along]
        others = [k for k in range(len(axes)) if k != along]
        held = {k: np.arange(sizes[k]) if k in order[:done] else None for k in others}
        nodes, chunks = copies([Dimension(sizes[k], strides[k], strides[k], sizes[k], held[k]) for k in others])
        block, part = np.tile(np.arange(d), parts), np.repeat(np.arange(parts), d)
        cover = Cover(np.arange(d) * stride, block * stride + (first_part + part) * n, nodes, chunks)
        scripts.append([[(cover, one)] for one in pattern(axes[along])])
    return scripts


def scattered(primitive: Primitive, n: int, parts: int, script: Script) -> Program:
    """The program of a reduce-scatter's script: itself, backwards for an all-gather, or both for an all-reduce."""
    there, back = forwards(script), backwards(script)
    batches = {RS: there, AG: back, AR: chain(there, back)}[primitive]
    return equal_chunks(primitive, n, n * parts, batches)


def _long_axes(group: Group) -> list[int]:
    return [k for k, axis in enumerate(group.axes) if axis.size > 1]


def _axis_after_axis(primitive: Primitive, pattern: Pattern, parts: int, group: Group, _segments: int) -> Program:
    scripts = by_axes(group.axes, _long_axes(group), pattern, parts=parts)
    return scattered(primitive, group.ranks, parts, list(chain.from_iterable(scripts)))


def _ring_or_line(axis: Axis) -> list[Step]:
    return one_way(axis.size) if axis.is_ring else open_line(axis.size)


def _both_ways_or_open(axis: Axis) -> list[Step]:
    """Both directions of a ring or pair, half a block each; an open line carries both halves together."""
    if axis.is_ring or axis.size == 2:
        return both_ways(axis.size)
    d = axis.size
    return [
        step(np.tile(one.src, 2), np.tile(one.dst, 2), np.concatenate([one.chunk, one.chunk + d]), add=True)
        for one in open_line(d)
    ]


def _multi_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The payload in k parts; part j runs the axes j, j+1, ... of the k long ones, in both directions.

    A phase is one axis of every part; all parts begin it together, and it lasts as long as its longest.
    """
    axes = _long_axes(group)
    k = len(axes)
    runs = [by_axes(group.axes, axes[j:] + axes[:j], _both_ways_or_open, first_part=2 * j, parts=2) for j in range(k)]
    script: Script = []
    for phase in zip(*runs, strict=True):
        script += [list(chain.from_iterable(batches)) for batches in zip_longest(*phase, fillvalue=[])]
    return scattered(primitive, group.ranks, 2 * k, script)


for _primitive in (AR, RS, AG):
    schedule("dim-ring", _primitive, per_pair=1)(partial(_axis_after_axis, _primitive, _ring_or_line, 1))
    schedule("dim-ring-bidirectional", _primitive)(partial(_axis_after_axis, _primitive, lambda axis: both_ways(axis.size), 2))
    schedule("multi-ring", _primitive)(partial(_multi_ring, _primitive))
    # whatever lies between partners
    schedule("dim-rabenseifner", _primitive)(partial(_axis_after_axis, _primitive, lambda axis: halving(axis.size), 1))


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
    """A walk to and fro over all ranks, neighbour to neighbour; over the ``chosen`` axes only, at 0 on the others."""
    walk = np.zeros(1, dtype=np.int64)
    for k in range(len(axes)) if chosen is None else chosen:
        stride = prod(axis.size for axis in axes[:k])
        rows = [walk if row % 2 == 0 else walk[::-1] for row in range(axes[k].size)]
        walk = np.concatenate([row + number * stride for number, row in enumerate(rows)])
    return walk


def hamiltonian_cycle(axes: Sequence[Axis]) -> Indices | None:
    """A closed walk over all ranks; None on an open line, and on a lattice with only odd, open axes."""
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
    """A cycle over layers x across: to and fro through the layers except column 0, and home along that.

    It closes with an even number of layers, and with an odd one if ``across`` is a ring.
    """
    rows = [across[1:] if row % 2 == 0 else across[:0:-1] for row in range(len(layers))]
    there = np.concatenate([layer + row for layer, row in zip(layers, rows, strict=True)])
    return np.concatenate([across[:1] + layers[:1], there, across[0] + layers[:0:-1]])


Reached = Callable[[int], Indices]  # d -> for each place of an axis the hops up from the root's; below 0, down


def _both_ways_round(d: int) -> Indices:
    """From place 0 of a ring, the nearer way round."""
    place = np.arange(d)
    return np.where(place > d // 2, place - d, place)


def _tree(group: Group, reached: Reached) -> tuple[Indices, Indices]:
    """Every rank's parent and depth (the root's is 0); the parent is one hop back on the last axis off the root's place."""
    ranks = np.arange(group.ranks)
    parent, depth = ranks.copy(), np.zeros_like(ranks)
    for k, axis in enumerate(group.axes):
        d, stride = axis.size, prod(one.size for one in group.axes[:k])
        place = ranks // stride % d
        hops = reached(d)[place]
        before = (place - np.sign(hops)) % d
        parent = np.where(hops != 0, ranks + (before - place) * stride, parent)
        depth += np.abs(hops)
    return parent, depth


def _waves(tree: tuple[Indices, Indices], segments: int, primitive: Primitive) -> Batches:
    """Segment s reaches depth h in step h + s, from 1; a reduction runs the same backwards."""
    parent, depth = tree
    steps = int(depth.max()) + segments - 1
    for t in range(1, steps + 1) if primitive is BC else range(steps, 0, -1):
        segment = t - depth
        child = np.flatnonzero((depth > 0) & (segment >= 0) & (segment < segments))
        src, dst = (parent[child], child) if primitive is BC else (child, parent[child])
        yield (step(src, dst, segment[child], add=primitive is REDUCE),)


def _chains(primitive: Primitive, reached: Reached, group: Group, segments: int) -> Program:
    tree = _tree(group, reached)
    root = np.full(segments, tree[1].argmin())
    return equal_chunks(primitive, group.ranks, segments, _waves(tree, segments, primitive))._replace(home=root, target=root)


for _primitive in (BC, REDUCE):
    schedule("dim-chain", _primitive)(partial(_chains, _primitive, np.arange))
    schedule("dim-chain-bidirectional", _primitive)(partial(_chains, _primitive, _both_ways_round))
    schedule("dim-chain-middle", _primitive)(partial(_chains, _primitive, lambda d: np.arange(d) - d // 2))
