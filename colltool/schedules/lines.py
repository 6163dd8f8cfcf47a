"""Reduce-scatters along one line or ring of d places, and how to lay them over all parallel lines of a group.

Block y ends at place y; a line's chunk y + d * part is that part of block y. An all-gather is a reduce-scatter backwards.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from colltool.schedules.program import Indices, Step, step

Places = Indices | None  # where each index of a dimension is held; None: everywhere


class Cover(NamedTuple):
    """Lays one line over every parallel line of a group."""

    node_at: Indices  # the node of each place, shape (d,)
    chunk_at: Indices  # the chunk of each of the line's chunks
    nodes: Indices  # what each parallel copy adds to the node numbers, shape (copies,)
    chunks: Indices  # and to the chunk numbers

    def spread(self, one: Step) -> Step:
        """The same step on all parallel lines."""
        src, dst, chunk = self.node_at[one.src], self.node_at[one.dst], self.chunk_at[one.chunk]
        return step(src[:, None] + self.nodes, dst[:, None] + self.nodes, chunk[:, None] + self.chunks, add=one.add)


Script = list[list[tuple[Cover, Step]]]  # steps not yet laid out; those of one item leave together


class Dimension(NamedTuple):
    """One digit of the node and chunk numbers; ``places`` says where each of its chunk indices is held now."""

    size: int
    node_stride: int
    chunk_stride: int
    indices: int
    places: Places


def copies(dimensions: Sequence[Dimension]) -> tuple[Indices, Indices]:
    """The node and chunk offsets of every (place, index) that these dimensions hold."""
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
    """The all-gather: last step first, messages turned round, copies for sums."""
    for batch in reversed(script):
        yield tuple(cover.spread(Step(one.dst, one.src, one.chunk, False)) for cover, one in batch)


def one_way(d: int) -> list[Step]:
    """A ring in one direction, d-1 steps: block y leaves place y+1 and collects every place's part on its way round."""
    place = np.arange(d)
    return [step(place, (place + 1) % d, (place - 1 - t) % d, add=True) for t in range(d - 1)]


def open_line(d: int) -> list[Step]:
    """An open line, d-1 steps: sums of block y start at both ends and flow to place y, the farthest block first.

    In a step a link carries one block in each direction: upwards from place p at step t block d-1-(t-p).
    """
    steps = []
    for t in range(d - 1):
        place = np.arange(t + 1)
        up = np.stack([place, place + 1, d - 1 - t + place])
        src, dst, block = np.concatenate([up, d - 1 - up], axis=1)
        steps.append(step(src, dst, block, add=True))
    return steps


def both_ways(d: int) -> list[Step]:
    """A ring in both directions, floor(d/2) steps, every block in two halves.

    Half A of block y takes floor(d/2) hops up and the rest of the d-1 down, half B the other way round; the shorter flow starts a
    step later. For even d a link carries one half in the first step and two in each later one; d = 2 is an exchange.
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
    """Recursive halving, d a power of two: partners at distance 1, 2, 4 ... swap half of what is left, nearest first.

    Before round k place p holds the blocks that agree with p in the lowest k bits, and sends those that differ in bit k.
    """
    place, block = (one.ravel() for one in np.meshgrid(np.arange(d), np.arange(d), indexing="ij"))
    steps = []
    for k in range(d.bit_length() - 1):
        differ = place ^ block
        sent = (differ & ((2 << k) - 1)) == 1 << k
        steps.append(step(place[sent], place[sent] ^ (1 << k), block[sent], add=True))
    return steps
