"""Reduce-scatter, all-gather and all-reduce on tori and meshes, axis by axis; with the flat ring, chains and all-to-all.

Chunk c + N * part is that part of the piece that rank c owns. A reduce-scatter goes over the axes in turn: after an axis a
rank keeps the pieces whose owners stand where it stands on that axis. An all-gather is that backwards.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, zip_longest
from math import prod

import numpy as np

from colltool.algorithms.group import Axis, Group
from colltool.base.primitives import AG, AR, RS, Primitive
from colltool.schedules import lattice_all_to_all, lattice_chains
from colltool.schedules.lines import Cover, Dimension, Script, backwards, both_ways, copies, forwards, halving, one_way, open_line
from colltool.schedules.registry import schedule
from colltool.schedules.step import Program, Step, step

assert lattice_all_to_all, lattice_chains  # they register on import
Pattern = Callable[[Axis], list[Step]]


def by_axes(axes: Sequence[Axis], order: Sequence[int], pattern: Pattern, first_part: int = 0, parts: int = 1) -> list[Script]:
    """A reduce-scatter over the axes in that order: one script per axis.

    ``pattern`` gives an axis its steps; chunks lie in parts ``first_part`` to ``first_part + parts - 1``.
    """
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
    """The program of a script for a reduce-scatter: itself, backwards for an all-gather, or both for an all-reduce."""
    there, back = forwards(script), backwards(script)
    batches = {RS: there, AG: back, AR: chain(there, back)}[primitive]
    home = np.tile(np.arange(n), parts)
    return Program(
        primitive=primitive,
        ranks=n,
        nodes=n,
        chunk_bytes=np.full(n * parts, 1 / (n * parts)),
        home=home,
        target=home,
        batches=batches,
    )


def _long_axes(group: Group) -> list[int]:
    return [k for k, axis in enumerate(group.axes) if axis.size > 1]


def _joined(scripts: Sequence[Script]) -> Script:
    return list(chain.from_iterable(scripts))


def _ring_or_line(axis: Axis) -> list[Step]:
    return one_way(axis.size) if axis.is_ring else open_line(axis.size)


def _dim_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Axis after axis: one direction of each ring, both of an open line."""
    script = _joined(by_axes(group.axes, _long_axes(group), _ring_or_line))
    return scattered(primitive, group.ranks, 1, script)


def _closed(axis: Axis) -> list[Step]:
    return both_ways(axis.size)


def _bidirectional(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Axis after axis, both directions of each ring, every piece in two halves."""
    script = _joined(by_axes(group.axes, _long_axes(group), _closed, parts=2))
    return scattered(primitive, group.ranks, 2, script)


def _both_ways_or_open(axis: Axis) -> list[Step]:
    """Both directions of a ring or pair, each block in two halves; an open line carries both halves together."""
    if axis.is_ring or axis.size == 2:
        return both_ways(axis.size)
    d = axis.size
    return [
        step(np.tile(one.src, 2), np.tile(one.dst, 2), np.concatenate([one.chunk, one.chunk + d]), add=True)
        for one in open_line(d)
    ]


def _multi_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The payload in k parts; part j runs the axes j, j+1, ... of the k long ones, in both directions.

    A phase is one axis of every part and takes as many steps as its longest; the parts begin it together.
    """
    axes = _long_axes(group)
    k = len(axes)
    runs = [by_axes(group.axes, axes[j:] + axes[:j], _both_ways_or_open, first_part=2 * j, parts=2) for j in range(k)]
    script: Script = []
    for phase in zip(*runs, strict=True):
        script += [list(chain.from_iterable(batches)) for batches in zip_longest(*phase, fillvalue=[])]
    return scattered(primitive, group.ranks, 2 * k, script)


def _dim_rabenseifner(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Recursive halving along each axis in turn, then doubling; partners at distance 1, 2, 4 ..., whatever lies between."""
    script = _joined(by_axes(group.axes, _long_axes(group), lambda axis: halving(axis.size)))
    return scattered(primitive, group.ranks, 1, script)


for _primitive in (AR, RS, AG):
    schedule("dim-ring", _primitive, per_pair=1)(partial(_dim_ring, _primitive))
    schedule("dim-ring-bidirectional", _primitive)(partial(_bidirectional, _primitive))
    schedule("multi-ring", _primitive)(partial(_multi_ring, _primitive))
    schedule("dim-rabenseifner", _primitive)(partial(_dim_rabenseifner, _primitive))
