"""Nested full meshes: parts of the payload over all axes at once, each in an order of its own.

Chunk n + N * part is that part of rank n's piece. In a phase along an axis every rank sends each
other one on it what is that one's so far; it then holds the chunks whose owners share its place on
the axes that are done.
"""

from math import prod

import numpy as np

from colltool.algorithms.hyperx import shares, turned_axes
from colltool.algorithms.program import (
    Batches,
    Program,
    Step,
    equal_chunks,
    gathered,
    schedule,
    step,
)
from colltool.base.primitives import AG, AR, RS, Primitive
from colltool.network.arrays import (
    Indices,
)
from colltool.network.group import Group
from colltool.network.wires import HyperXWires


@schedule("all-axes", AR, AG, RS, per_pair=lambda _: 8)
def all_axes(primitive: Primitive, group: Group, _segments: int) -> Program:
    wires = group.wires
    assert isinstance(wires, HyperXWires)  # several_axes let nobody else in
    parts, batches = shares(wires)[1], gathered(primitive, lambda: _gather(wires))
    made = equal_chunks(primitive, group.ranks, group.ranks * len(parts), batches, streamed=True)
    return made._replace(chunk_bytes=np.repeat(np.array(parts) / group.ranks, group.ranks))


def _gather(wires: HyperXWires) -> Batches:
    """Phases from the last axis of each order to its first, all parts at once."""
    orders = turned_axes(wires)
    for phase in reversed(range(len(orders))):
        yield tuple(_exchange(wires, part, order[: phase + 1]) for part, order in enumerate(orders))


def _exchange(wires: HyperXWires, part: int, done: list[int]) -> Step:
    """Along the last of the axes ``done``: each rank's chunks whose owners share its place on all
    of these."""
    ranks, axis = prod(wires.shape), done[-1]
    stride = prod(wires.shape[:axis])
    owner = np.arange(ranks)
    mine = _alike(wires, done)  # a row of ranks for each owner
    src, chunk = mine.ravel(), np.repeat(owner, mine.shape[1])
    turns = np.arange(1, wires.shape[axis])
    place = src // stride % wires.shape[axis]
    to = (place[:, None] + turns) % wires.shape[axis]
    dst = src[:, None] + (to - place[:, None]) * stride
    return step(src[:, None], dst, chunk[:, None] + ranks * part)


def _alike(wires: HyperXWires, done: list[int]) -> Indices:
    """For each rank all that share its place on the axes ``done``, shape (N, others)."""
    ranks = prod(wires.shape)
    places = np.stack(np.unravel_index(np.arange(ranks), wires.shape, order="F"))
    free = [axis for axis in range(len(wires.shape)) if axis not in done]
    sizes = [wires.shape[axis] for axis in free]
    box = np.indices(sizes).reshape(len(free), prod(sizes))
    found = np.repeat(places[:, :, None], box.shape[1], axis=2)
    found[free] = box[:, None, :]
    ranks_of: Indices = np.ravel_multi_index(tuple(found), wires.shape, order="F").astype(np.int64)
    return ranks_of
