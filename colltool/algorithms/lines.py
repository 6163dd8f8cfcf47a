"""Messages along one line or ring of d places, laid over all parallel lines of a group.

On one line block y ends at place y; chunk y + d * part is that part of block y. A cover lays the
line over all parallel lines of a lattice, or a tier's schedule over all of its domains at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import NamedTuple

from colltool.algorithms.program import Batches, Program, Step, equal_chunks, step
from colltool.base.primitives import AG, RS, Primitive
from colltool.network.arrays import Indices, np
from colltool.network.group import Axis, Group, sizes_of


class Cover(NamedTuple):
    """Lays one line over every parallel line of a group."""

    node_at: Indices  # the node of each place, shape (d,)
    chunk_at: Indices  # the chunk of each of the line's chunks
    nodes: Indices  # what each parallel copy adds to the node numbers, shape (copies,)
    chunks: Indices  # and to the chunk numbers
    # the rank of each node number, shape (N,); None: the same number
    ranks: Indices | None = None

    def spread(self, along: Step, *, turned: bool = False) -> Step:
        """The same step on all parallel lines; ``turned`` from a sum into the copies of a
        gather."""
        src = self.node_at[along.src][:, None] + self.nodes
        dst = self.node_at[along.dst][:, None] + self.nodes
        chunk = self.chunk_at[along.chunk][:, None] + self.chunks
        if self.ranks is not None:
            part, owner = np.divmod(chunk, len(self.ranks))
            src = self.ranks[src]
            dst = self.ranks[dst]
            chunk = self.ranks[owner] + part * len(self.ranks)
        if turned:
            return step(dst, src, chunk)
        return step(src, dst, chunk, add=along.add)


# Steps that are not laid out yet; those of one batch leave together.
Script = list[list[tuple[Cover, Step]]]


class Dimension(NamedTuple):
    """One digit of the node and chunk numbers."""

    size: int
    node_stride: int
    chunk_stride: int
    indices: int
    # the place at which each chunk index is held now; None: at all of them
    places: Indices | None


def copies(dimensions: Sequence[Dimension]) -> tuple[Indices, Indices]:
    """The node and chunk offsets of every (place, index) that these dimensions hold."""
    nodes: Indices = np.zeros(1, dtype=np.int64)
    chunks: Indices = np.zeros(1, dtype=np.int64)
    for dimension in dimensions:
        index = np.arange(dimension.indices)
        place = dimension.places
        if place is None:
            place = np.repeat(np.arange(dimension.size), dimension.indices)
            index = np.tile(index, dimension.size)
        nodes = (nodes[:, None] + place * dimension.node_stride).ravel()
        chunks = (chunks[:, None] + index * dimension.chunk_stride).ravel()
    return nodes, chunks


def scattered(primitive: Primitive, ranks: int, parts: int, script: Script) -> Program:
    """The program of a reduce-scatter's script: itself, last step first as an all-gather, or both
    as an all-reduce."""

    def scatter() -> Batches:
        for batch in script:
            yield tuple(cover.spread(along) for cover, along in batch)

    def gather() -> Batches:
        for batch in reversed(script):
            yield tuple(cover.spread(along, turned=True) for cover, along in batch)

    batches: Batches
    if primitive is RS:
        batches = scatter()
    elif primitive is AG:
        batches = gather()
    else:
        batches = chain(scatter(), gather())
    return equal_chunks(primitive, ranks, ranks * parts, batches)


def one_way(d: int) -> list[Step]:
    """A ring in one direction, d-1 steps: block y leaves place y+1 and collects every place's part
    on its way round."""
    place = np.arange(d)
    return [step(place, (place + 1) % d, (place - 1 - t) % d, add=True) for t in range(d - 1)]


def open_line(d: int) -> list[Step]:
    """An open line, d-1 steps: sums of block y start at both ends and flow to place y, the farthest
    block first.

    In a step a link carries one block in each direction: upwards from place p at step t block
    d-1-(t-p).
    """
    steps = []
    for t in range(d - 1):
        place = np.arange(t + 1)
        up = np.stack([place, place + 1, d - 1 - t + place])
        # the same mirrored: place p becomes d-1-p
        steps.append(step(*np.concatenate([up, d - 1 - up], axis=1), add=True))
    return steps


def ring_both_ways(d: int) -> list[Step]:
    """A ring in both directions, floor(d/2) steps, every block in two halves.

    Half A of block y takes floor(d/2) hops up and the rest of the d-1 down, half B the other way
    round; the shorter flow starts a step later. For even d a link carries one half in the first
    step and two in each later one; d = 2 is an exchange.
    """
    place = np.arange(d)
    longest = d // 2
    steps = []
    for distance in range(longest, 0, -1):
        # which halves have that far to go upwards
        halves = (0, 1) if distance <= d - 1 - longest else (0,)
        up = []
        down = []
        for half in halves:
            up.append((place, (place + 1) % d, (place + distance) % d + d * half))
            down.append((place, (place - 1) % d, (place - distance) % d + d * (1 - half)))
        steps.append(step(*np.concatenate([*up, *down], axis=1), add=True))
    return steps


def halving(d: int) -> list[Step]:
    """Recursive halving, d a power of two: partners at distance 1, 2, 4 ... swap half of what is
    left, nearest first.

    Before round k place p holds the blocks that agree with p in the lowest k bits, and sends those
    that differ in bit k.
    """
    place, block = np.divmod(np.arange(d * d), d)
    steps = []
    for k in range(d.bit_length() - 1):
        lowest = (2 << k) - 1
        sent = ((place ^ block) & lowest) == 1 << k
        steps.append(step(place[sent], place[sent] ^ (1 << k), block[sent], add=True))
    return steps


def embedded_ring(primitive: Primitive, group: Group) -> Program:
    """Ring all-reduce, reduce-scatter or all-gather whose hops are all links between neighbours.

    Where no cycle exists the snake is an open line that uses both directions of its links, in as
    many steps and bytes.
    """
    cycle = hamiltonian_cycle(group.axes)
    if cycle is None:
        order = snake(group.axes)
        steps = open_line(group.ranks)
    else:
        order = cycle
        steps = one_way(group.ranks)
    no_copies = np.zeros(1, dtype=np.int64)
    cover = Cover(order, order, no_copies, no_copies)
    return scattered(primitive, group.ranks, 1, [[(cover, along)] for along in steps])


def snake(axes: Sequence[Axis], chosen: Sequence[int] | None = None) -> Indices:
    """A walk to and fro over all ranks, neighbour to neighbour; over the ``chosen`` axes only, at 0
    on the others."""
    walk: Indices = np.zeros(1, dtype=np.int64)
    for number in range(len(axes)) if chosen is None else chosen:
        stride = prod(sizes_of(axes[:number]))
        there_and_back = (walk, walk[::-1])
        rows = [there_and_back[row % 2] + row * stride for row in range(axes[number].size)]
        walk = np.concatenate(rows)
    return walk


def hamiltonian_cycle(axes: Sequence[Axis]) -> Indices | None:
    """A closed walk over all ranks; None on an open line, and on a lattice with only odd, open
    axes."""
    long = [number for number, axis in enumerate(axes) if axis.size > 1]
    rings = [number for number in long if axes[number].is_ring]
    even = [number for number in long if axes[number].size % 2 == 0]
    if len(long) == 1:
        return snake(axes) if rings else None
    if not even and not rings:
        return None
    own = (even or rings)[0]
    line = snake(axes, [own])
    others = snake(axes, [number for number in long if number != own])
    return _woven(line, others) if even else _woven(others, line)


def _woven(layers: Indices, across: Indices) -> Indices:
    """A cycle over layers x across: to and fro through the layers except column 0, and home along
    that.

    It closes with an even number of layers, and with an odd one if ``across`` is a ring.
    """
    forward = across[1:]
    back = across[:0:-1]
    rows = [layer + (back if row % 2 else forward) for row, layer in enumerate(layers)]
    return np.concatenate([across[:1] + layers[:1], *rows, across[0] + layers[:0:-1]])
