"""Broadcast and reduce on tori and meshes: a pipelined chain along axis 1, then along all lines of axis 2, and so on."""

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from colltool.algorithms.group import Group
from colltool.primitives import BC, REDUCE, Primitive
from colltool.schedules.registry import schedule
from colltool.schedules.step import Indices, Program, Step, step


def _tree(group: Group, both_ways: bool) -> tuple[Indices, Indices]:
    """Every rank's parent and depth; rank 0 is the root. A rank's parent is a neighbour on its last axis off zero."""
    ranks = np.arange(group.ranks)
    parent, depth = ranks.copy(), np.zeros_like(ranks)
    for k, axis in enumerate(group.axes):
        d, stride = axis.size, prod(one.size for one in group.axes[:k])
        place = ranks // stride % d
        back = place > (d // 2 if both_ways else d - 1)  # reached the other way round
        before = np.where(back, (place + 1) % d, place - 1)
        parent = np.where(place > 0, ranks + (before - place) * stride, parent)
        depth += np.where(back, d - place, place)
    return parent, depth


def _waves(group: Group, segments: int, both_ways: bool, primitive: Primitive) -> Iterator[tuple[Step, ...]]:
    """Segment s reaches a rank of depth h in step h + s (the first is 1); a reduction runs the same backwards."""
    parent, depth = _tree(group, both_ways)
    steps = int(depth.max()) + segments - 1
    for t in range(1, steps + 1) if primitive is BC else range(steps, 0, -1):
        segment = t - depth
        child = np.flatnonzero((depth > 0) & (segment >= 0) & (segment < segments))
        src, dst = (parent[child], child) if primitive is BC else (child, parent[child])
        yield (step(src, dst, segment[child], add=primitive is REDUCE),)


def _chains(primitive: Primitive, both_ways: bool, group: Group, segments: int) -> Program:
    """P segments, one behind the other; ``both_ways``: round each ring from both sides."""
    root = np.zeros(segments, dtype=np.int64)
    sizes = np.full(segments, 1 / segments)
    return Program(
        primitive=primitive,
        ranks=group.ranks,
        nodes=group.ranks,
        chunk_bytes=sizes,
        home=root,
        target=root,
        batches=_waves(group, segments, both_ways, primitive),
    )


for _primitive in (BC, REDUCE):
    schedule("dim-chain", _primitive)(partial(_chains, _primitive, False))
    schedule("dim-chain-bidirectional", _primitive)(partial(_chains, _primitive, True))
