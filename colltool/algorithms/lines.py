"""Schedules along one line or ring of d places, repeated on all parallel lines of a group.

The functions :func:`one_way`, :func:`open_line`, :func:`ring_both_ways` and :func:`halving` are
reduce-scatters on a single line: block y ends at place y, and with several parts chunk
``y + d * part`` is that part of block y. :class:`LineCopies` repeats such steps on all parallel lines
of a lattice, or a tier's steps in all of its domains. :func:`from_reduce_scatter` makes a program of
them.
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


class LineCopies(NamedTuple):
    """How the places and chunks of one line map to all parallel lines of a group.

    The lines along axis 1 of a 3 x 2 lattice are ranks 0 1 2 and 3 4 5: ``node_at`` is 0 1 2.
    :func:`copy_offsets` makes the offsets, a line for each chunk index that is there.
    """

    node_at: Indices  # the node of each place of the first line, shape (d,)
    chunk_at: Indices  # the group's chunk that each chunk of a line's steps is, on the first line
    node_offsets: Indices  # added to node numbers on each parallel line, shape (lines,)
    chunk_offsets: Indices  # added to chunk numbers on each parallel line, shape (lines,)
    # The rank of each node number, shape (N,); None: the same number.
    ranks: Indices | None = None

    def on_all_lines(self, line_step: Step, *, reverse: bool = False) -> Step:
        """A step of one line on all parallel lines; ``reverse`` turns one of a reduce-scatter into
        that of the all-gather."""
        # shape (messages of the line, lines)
        src = self.node_at[line_step.src][:, None] + self.node_offsets
        dst = self.node_at[line_step.dst][:, None] + self.node_offsets
        chunk = self.chunk_at[line_step.chunk][:, None] + self.chunk_offsets
        if self.ranks is not None:
            part, owner = np.divmod(chunk, len(self.ranks))
            src = self.ranks[src]
            dst = self.ranks[dst]
            chunk = self.ranks[owner] + part * len(self.ranks)
        if reverse:
            return step(dst, src, chunk)  # copied, not added
        return step(src, dst, chunk, add=line_step.add)


# Batches of a reduce-scatter, in order: steps of single lines, each with the lines it runs on.
Script = list[list[tuple[LineCopies, Step]]]


class Dimension(NamedTuple):
    """A dimension of a group, such as an axis or a tier: a digit of its node and chunk numbers."""

    size: int  # places
    node_stride: int
    chunk_stride: int
    chunks: int  # how many there are along the dimension
    # The place at which the chunks of each index are now; None: at all places.
    places: Indices | None


def copy_offsets(dimensions: Sequence[Dimension]) -> tuple[Indices, Indices]:
    """The node and chunk offsets of all parallel lines: an element for every combination of places
    of these dimensions and the chunk indices that are there."""
    nodes: Indices = np.zeros(1, dtype=np.int64)
    chunks: Indices = np.zeros(1, dtype=np.int64)
    for dimension in dimensions:
        index = np.arange(dimension.chunks)
        place = dimension.places
        if place is None:
            # every place with every index
            place = np.repeat(np.arange(dimension.size), dimension.chunks)
            index = np.tile(index, dimension.size)
        nodes = (nodes[:, None] + place * dimension.node_stride).ravel()
        chunks = (chunks[:, None] + index * dimension.chunk_stride).ravel()
    return nodes, chunks


def from_reduce_scatter(primitive: Primitive, ranks: int, parts: int, script: Script) -> Program:
    """Make the program of a primitive from the script of its reduce-scatter: the script itself, its
    reverse for an all-gather, or both for an all-reduce. ``parts`` is how many chunks each rank's
    block has."""

    def batches(*, reverse: bool) -> Batches:
        """Those of the reduce-scatter, or reversed those of the all-gather."""
        for batch in reversed(script) if reverse else script:
            steps = []
            for line, line_step in batch:
                steps.append(line.on_all_lines(line_step, reverse=reverse))
            yield tuple(steps)

    if primitive in (RS, AG):
        of_primitive = batches(reverse=primitive is AG)
    else:
        of_primitive = chain(batches(reverse=False), batches(reverse=True))
    return equal_chunks(primitive, ranks, ranks * parts, of_primitive)


def one_way(d: int) -> list[Step]:
    """A ring in one direction, d-1 steps: the sum of block y starts at place y+1 and collects every
    place's contribution on its way to place y. Of 3 places 0, 1, 2 send blocks 2, 0, 1, then 1, 2,
    0."""
    place = np.arange(d)
    return [step(place, (place + 1) % d, (place - 1 - t) % d, add=True) for t in range(d - 1)]


def open_line(d: int) -> list[Step]:
    """An open line, d-1 steps: two sums of block y start at the ends and meet at place y; each place
    sends the block with the longest way first.

    In each step a link carries a block in each direction; upwards from place p in step t it is block
    d-1-(t-p).
    """
    steps = []
    for t in range(d - 1):
        place = np.arange(t + 1)
        up = np.stack([place, place + 1, d - 1 - t + place])
        # Downwards it is the mirror image: place p becomes d-1-p.
        steps.append(step(*np.concatenate([up, d - 1 - up], axis=1), add=True))
    return steps


def ring_both_ways(d: int) -> list[Step]:
    """A ring in both directions, floor(d/2) steps, every block in two halves.

    Sums of half A of block y come to place y over floor(d/2) hops upwards and the rest of the d-1
    hops downwards, those of half B the other way round; the shorter flow starts a step later. For
    even d a link carries one half in the first step and two in each later one. For d = 2 it is a
    single exchange.
    """
    place = np.arange(d)
    longest = d // 2
    steps = []
    for distance in range(longest, 0, -1):
        # The halves that have this distance left to go upwards.
        halves = [0]
        if distance <= d - 1 - longest:
            halves.append(1)
        up = []
        down = []
        for half in halves:
            up.append((place, (place + 1) % d, (place + distance) % d + d * half))
            down.append((place, (place - 1) % d, (place - distance) % d + d * (1 - half)))
        steps.append(step(*np.concatenate([*up, *down], axis=1), add=True))
    return steps


def halving(d: int) -> list[Step]:
    """Recursive halving for d a power of two: partners at distance 1, 2, 4 ... exchange half of the
    blocks that they still have.

    Before round k place p has the blocks that agree with p in the lowest k bits, and sends those
    that differ in bit k.
    """
    place, block = np.divmod(np.arange(d * d), d)
    steps = []
    for k in range(d.bit_length() - 1):
        bit = 1 << k
        # of the bits up to k they differ in bit k alone
        up_to_bit = 2 * bit - 1
        sent = ((place ^ block) & up_to_bit) == bit
        steps.append(step(place[sent], place[sent] ^ bit, block[sent], add=True))
    return steps


def embedded_ring(primitive: Primitive, group: Group) -> Program:
    """Ring all-reduce, reduce-scatter or all-gather on a lattice, with every hop a link between
    neighbours.

    Where the lattice has no Hamiltonian cycle, an open line through all ranks uses both directions
    of its links, with the same number of steps and bytes.
    """
    cycle = hamiltonian_cycle(group.axes)
    if cycle is None:
        order = snake(group.axes)
        steps = open_line(group.ranks)
    else:
        order = cycle
        steps = one_way(group.ranks)
    no_offset = np.zeros(1, dtype=np.int64)
    line = LineCopies(order, order, no_offset, no_offset)
    return from_reduce_scatter(
        primitive, group.ranks, parts=1, script=[[(line, batch)] for batch in steps]
    )


def snake(axes: Sequence[Axis], chosen: Sequence[int] | None = None) -> Indices:
    """Order all ranks so that consecutive ones are neighbours: to and fro along each axis, on 3 x 2
    ranks 0, 1, 2, 5, 4, 3. With ``chosen`` it covers only those axes, at place 0 of the others."""
    walk: Indices = np.zeros(1, dtype=np.int64)
    for number in range(len(axes)) if chosen is None else chosen:
        stride = prod(sizes_of(axes[:number]))
        to_and_fro = (walk, walk[::-1])
        # the walk so far at each place of the axis, every other time backwards
        layers = [to_and_fro[place % 2] + place * stride for place in range(axes[number].size)]
        walk = np.concatenate(layers)
    return walk


def hamiltonian_cycle(axes: Sequence[Axis]) -> Indices | None:
    """All ranks in the order of a cycle of neighbours; None on an open line, and on a lattice with
    only odd, open axes."""
    long_axes = [number for number, axis in enumerate(axes) if axis.size > 1]
    rings = [number for number in long_axes if axes[number].is_ring]
    even_axes = [number for number in long_axes if axes[number].size % 2 == 0]
    if len(long_axes) == 1:
        return snake(axes) if rings else None
    if not even_axes and not rings:
        return None
    # An axis of even size gives the layers; without one a ring goes across them.
    closing = (even_axes or rings)[0]
    line = snake(axes, [closing])
    others = snake(axes, [number for number in long_axes if number != closing])
    if even_axes:
        return _woven_cycle(line, others)
    return _woven_cycle(others, line)


def _woven_cycle(layers: Indices, across: Indices) -> Indices:
    """A cycle over a grid of layers and columns (``across``): to and fro through all layers without
    column 0, and back to the start along column 0.

    It closes for an even number of layers, and for an odd number if ``across`` is a ring. Layers at
    0 and 3 of columns 0, 1, 2: 0, 1, 2, 5, 4, 3.
    """
    to_and_fro = (across[1:], across[:0:-1])
    rows = [layer + to_and_fro[number % 2] for number, layer in enumerate(layers)]
    return np.concatenate([across[:1] + layers[:1], *rows, across[0] + layers[:0:-1]])
