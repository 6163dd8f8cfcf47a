"""Reduce-scatters along one line or ring of d places, step by step, and how to lay them over all lines of a group at once.

Block y ends at place y. A line's chunk y + d * part is that part of block y. An all-gather is a reduce-scatter backwards:
the tree over which a block's sum came together is the tree over which it spreads.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from colltool.schedules.program import Indices, Step, step

Places = Indices | None
"""Where each index of a dimension is held: one place each, or None for everywhere."""


class Cover(NamedTuple):
    """A line laid over every parallel line of a group.

    Args:
        node_at: the node of each place, shape (d,).
        chunk_at: the chunk of each of the line's chunks.
        nodes, chunks: what each parallel copy adds to both, shape (copies,).
    """

    node_at: Indices
    chunk_at: Indices
    nodes: Indices
    chunks: Indices

    def spread(self, one: Step) -> Step:
        """The same step on all parallel lines."""
        src, dst, chunk = self.node_at[one.src], self.node_at[one.dst], self.chunk_at[one.chunk]
        return step(src[:, None] + self.nodes, dst[:, None] + self.nodes, chunk[:, None] + self.chunks, add=one.add)


Script = list[list[tuple[Cover, Step]]]
"""Steps not yet laid out; those of one item leave together."""


class Dimension(NamedTuple):
    """One digit of the node and chunk numbers: ``places`` says where each of its chunk indices is held now."""

    size: int
    node_stride: int
    chunk_stride: int
    indices: int
    places: Places


def copies(dimensions: Sequence[Dimension]) -> tuple[Indices, Indices]:
    """The node and chunk offsets of every (place, index) that the other dimensions hold."""
    nodes = chunks = np.zeros(1, dtype=np.int64)
    for one in dimensions:
        index = np.arange(one.indices)
        place = one.places
        if place is None:
            place, index = np.repeat(np.arange(one.size), one.indices), np.tile(index, one.size)
        nodes = (nodes[:, None] + place * one.node_stride).ravel()
        chunks = (chunks[:, None] + index * one.chunk_stride).ravel()
    return nodes, chunks


def forwards(script: Script) -> Iterator[tuple[Step, ...]]:
    """The reduce-scatter."""
    for batch in script:
        yield tuple(cover.spread(one) for cover, one in batch)


def backwards(script: Script) -> Iterator[tuple[Step, ...]]:
    """The all-gather: last step first, every message the other way, a copy instead of a sum."""
    for batch in reversed(script):
        yield tuple(cover.spread(Step(one.dst, one.src, one.chunk, False)) for cover, one in batch)


def one_way(d: int) -> list[Step]:
    """A ring in one direction: block y leaves place y+1 and collects every place's part on its way round, d-1 steps."""
    place = np.arange(d)
    return [step(place, (place + 1) % d, (place - 1 - t) % d, add=True) for t in range(d - 1)]


def open_line(d: int) -> list[Step]:
    """An open line: the sums of block y start at both ends and flow to place y, the farthest block first, d-1 steps.

    A link carries one block in each direction in a step: upwards from place p at step t block d-1-(t-p).
    """
    steps = []
    for t in range(d - 1):
        place = np.arange(t + 1)
        up = np.stack([place, place + 1, d - 1 - t + place])
        src, dst, block = np.concatenate([up, d - 1 - up], axis=1)
        steps.append(step(src, dst, block, add=True))
    return steps


def both_ways(d: int) -> list[Step]:
    """A ring in both directions, every block in two halves, floor(d/2) steps.

    Half A of block y takes floor(d/2) hops upwards and the rest of the d-1 downwards, half B the other way; the shorter
    flow starts a step later. For even d a link carries one half in the first step and two in each later one. With d = 2
    this is an exchange.
    """
    place, longest = np.arange(d), d // 2
    steps = []
    for distance in range(longest, 0, -1):
        halves = (0, 1) if distance <= d - 1 - longest else (0,)  # who has that far to go upwards
        up = [(place, (place + 1) % d, (place + distance) % d + d * half) for half in halves]
        down = [(place, (place - 1) % d, (place - distance) % d + d * (1 - half)) for half in halves]
        src, dst, block = (np.concatenate(parts) for parts in zip(*up, *down, strict=True))
        steps.append(step(src, dst, block, add=True))
    return steps


def halving(d: int) -> list[Step]:
    """Recursive halving, d a power of two: partners at distance 1, 2, 4 ..., half of what is left each time, nearest first.

    Before round k place p holds the blocks that agree with p in the lowest k bits, and sends those that differ in bit k.
    """
    place, block = (one.ravel() for one in np.meshgrid(np.arange(d), np.arange(d), indexing="ij"))
    steps = []
    for k in range(d.bit_length() - 1):
        differ = place ^ block
        sent = (differ & ((2 << k) - 1)) == 1 << k
        steps.append(step(place[sent], place[sent] ^ (1 << k), block[sent], add=True))
    return steps
