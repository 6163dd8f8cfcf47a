"""Broadcast and reduce on tori and meshes: a pipelined chain along axis 1, then along all lines of axis 2, and so on."""

from collections.abc import Callable, Iterator
from functools import partial
from math import prod

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import BC, REDUCE, Primitive
from colltool.schedules.registry import schedule
from colltool.schedules.step import Indices, Program, Step, step

Reached = Callable[[int], Indices]
"""Of an axis of d places: for each how many hops up from the root's it is reached; below 0, down."""


def _upwards(d: int) -> Indices:
    """The root at the foot."""
    return np.arange(d)


def _both_ways_round(d: int) -> Indices:
    """The root at the foot of a ring; what is nearer the other way is reached round the corner."""
    place = np.arange(d)
    return np.where(place > d // 2, place - d, place)


def _from_the_middle(d: int) -> Indices:
    """The root in the middle of a line."""
    return np.arange(d) - d // 2


def _tree(group: Group, reached: Reached) -> tuple[Indices, Indices]:
    """Every rank's parent and depth; the root's is 0. A rank's parent is a neighbour on its last axis off the root's place."""
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


def _waves(tree: tuple[Indices, Indices], segments: int, primitive: Primitive) -> Iterator[tuple[Step, ...]]:
    """Segment s reaches a rank of depth h in step h + s (the first is 1); a reduction runs the same backwards."""
    parent, depth = tree
    steps = int(depth.max()) + segments - 1
    for t in range(1, steps + 1) if primitive is BC else range(steps, 0, -1):
        segment = t - depth
        child = np.flatnonzero((depth > 0) & (segment >= 0) & (segment < segments))
        src, dst = (parent[child], child) if primitive is BC else (child, parent[child])
        yield (step(src, dst, segment[child], add=primitive is REDUCE),)


def _chains(primitive: Primitive, reached: Reached, group: Group, segments: int) -> Program:
    """P segments, one behind the other."""
    tree = _tree(group, reached)
    root = np.full(segments, tree[1].argmin())
    sizes = np.full(segments, 1 / segments)
    return Program(
        primitive=primitive,
        ranks=group.ranks,
        nodes=group.ranks,
        chunk_bytes=sizes,
        home=root,
        target=root,
        batches=_waves(tree, segments, primitive),
    )


for _primitive in (BC, REDUCE):
    schedule("dim-chain", _primitive)(partial(_chains, _primitive, _upwards))
    schedule("dim-chain-bidirectional", _primitive)(partial(_chains, _primitive, _both_ways_round))
    schedule("dim-chain-middle", _primitive)(partial(_chains, _primitive, _from_the_middle))
