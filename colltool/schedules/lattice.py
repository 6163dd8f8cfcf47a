"""Collectives axis by axis: rings, halving, chains and embedded rings of tori and meshes; and
phases that go tier by tier.

Chunk c + N * part is that part of rank c's piece. A reduce-scatter goes over the axes in turn:
after an axis a rank keeps the pieces whose owners share its place on that axis. An all-gather is
that backwards.

On one line or ring of d places block y ends at place y; chunk y + d * part is that part of block y.
A cover lays the line over all parallel lines of a group, or a tier's schedule over all of its
domains at once. There a chunk of the whole is a tuple of chunks, one of each tier's schedule: a
tier cuts further what the one inside leaves at a rank. Between phases it is enough to know where
each tier's chunk stands: everywhere, or at one place.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import chain, zip_longest
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.algorithms.composed import Order, find_composition
from colltool.algorithms.program import (
    Batches,
    Edges,
    Program,
    Step,
    equal_chunks,
    maker,
    pipelined,
    schedule,
    step,
)
from colltool.algorithms.registry import find
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.network.arrays import (
    Indices,
)
from colltool.network.group import Axis, Group
from colltool.network.twisted import is_twisted, parts_of, ranks_at

Places = Indices | None  # where each index of a dimension is held; None: everywhere


class Cover(NamedTuple):
    """Lays one line over every parallel line of a group."""

    node_at: Indices  # the node of each place, shape (d,)
    chunk_at: Indices  # the chunk of each of the line's chunks
    nodes: Indices  # what each parallel copy adds to the node numbers, shape (copies,)
    chunks: Indices  # and to the chunk numbers
    # the rank that each node number stands for, shape (N,); None: itself
    ranks: Indices | None = None

    def spread(self, one: Step, *, turned: bool = False) -> Step:
        """The same step on all parallel lines; ``turned`` from a sum into the copies of a
        gather."""
        src, dst = (self.node_at[ends][:, None] + self.nodes for ends in (one.src, one.dst))
        chunk = self.chunk_at[one.chunk][:, None] + self.chunks
        if self.ranks is not None:
            part, owner = np.divmod(chunk, len(self.ranks))
            src, dst, chunk = (
                self.ranks[src],
                self.ranks[dst],
                self.ranks[owner] + part * len(self.ranks),
            )
        return step(dst, src, chunk) if turned else step(src, dst, chunk, add=one.add)


Script = list[list[tuple[Cover, Step]]]  # steps not yet laid out; those of one item leave together


class Dimension(NamedTuple):
    """One digit of the node and chunk numbers; ``places`` says where each of its chunk indices is
    held now."""

    size: int
    node_stride: int
    chunk_stride: int
    indices: int
    places: Places


def copies(dimensions: Sequence[Dimension]) -> tuple[Indices, Indices]:
    """The node and chunk offsets of every (place, index) that these dimensions hold."""
    nodes = chunks = np.zeros(1, dtype=np.int64)
    for one in dimensions:
        index, place = np.arange(one.indices), one.places
        if place is None:
            place, index = np.repeat(np.arange(one.size), one.indices), np.tile(index, one.size)
        nodes = (nodes[:, None] + place * one.node_stride).ravel()
        chunks = (chunks[:, None] + index * one.chunk_stride).ravel()
    return nodes, chunks


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
        steps.append(step(*np.concatenate([up, d - 1 - up], axis=1), add=True))
    return steps


def both_ways(d: int) -> list[Step]:
    """A ring in both directions, floor(d/2) steps, every block in two halves.

    Half A of block y takes floor(d/2) hops up and the rest of the d-1 down, half B the other way
    round; the shorter flow starts a step later. For even d a link carries one half in the first
    step and two in each later one; d = 2 is an exchange.
    """
    place, longest, steps = np.arange(d), d // 2, []
    for distance in range(longest, 0, -1):
        halves = (0, 1) if distance <= d - 1 - longest else (0,)  # who has that far to go upwards
        up = [(place, (place + 1) % d, (place + distance) % d + d * half) for half in halves]
        down = [
            (place, (place - 1) % d, (place - distance) % d + d * (1 - half)) for half in halves
        ]
        steps.append(step(*np.concatenate([*up, *down], axis=1), add=True))
    return steps


def halving(d: int) -> list[Step]:
    """Recursive halving, d a power of two: partners at distance 1, 2, 4 ... swap half of what is
    left, nearest first.

    Before round k place p holds the blocks that agree with p in the lowest k bits, and sends those
    that differ in bit k.
    """
    place, block = (one.ravel() for one in np.indices((d, d)))
    differ = [((place ^ block) & ((2 << k) - 1)) == 1 << k for k in range(d.bit_length() - 1)]
    return [
        step(place[sent], place[sent] ^ (1 << k), block[sent], add=True)
        for k, sent in enumerate(differ)
    ]


def _both_ways_or_open(axis: Axis) -> list[Step]:
    """Both directions of a ring or pair, half a block each; an open line carries both halves
    together."""
    d = axis.size
    if axis.is_ring or d == 2:
        return both_ways(d)
    halves = [
        (np.tile(one.src, 2), np.tile(one.dst, 2), np.append(one.chunk, one.chunk + d))
        for one in open_line(d)
    ]
    return [step(*ends, add=True) for ends in halves]


Pattern = Callable[[Axis], list[Step]]


def _by_axes(
    axes: Sequence[Axis],
    order: Sequence[int],
    pattern: Pattern,
    first_part: int = 0,
    parts: int = 1,
) -> list[Script]:
    """A reduce-scatter over the axes in that order, a script for each; chunks lie in ``parts``
    parts from ``first_part`` on."""
    sizes = [axis.size for axis in axes]
    strides, n = [prod(sizes[:k]) for k in range(len(sizes))], prod(sizes)
    scripts = []
    for done, along in enumerate(order):
        d, stride = sizes[along], strides[along]
        others = [k for k in range(len(axes)) if k != along]
        held = {k: np.arange(sizes[k]) if k in order[:done] else None for k in others}
        nodes, chunks = copies(
            [Dimension(sizes[k], strides[k], strides[k], sizes[k], held[k]) for k in others]
        )
        block, part = np.tile(np.arange(d), parts), np.repeat(np.arange(parts), d)
        cover = Cover(
            np.arange(d) * stride, block * stride + (first_part + part) * n, nodes, chunks
        )
        scripts.append([[(cover, one)] for one in pattern(axes[along])])
    return scripts


def _scattered(primitive: Primitive, n: int, parts: int, script: Script) -> Program:
    """The program of a reduce-scatter's script: itself, last step first as an all-gather, or both
    as an all-reduce."""

    def laid_out(*, turned: bool) -> Batches:
        for batch in reversed(script) if turned else script:
            yield tuple(cover.spread(one, turned=turned) for cover, one in batch)

    ways = {RS: (False,), AG: (True,), AR: (False, True)}[primitive]
    return equal_chunks(
        primitive, n, n * parts, chain.from_iterable(laid_out(turned=way) for way in ways)
    )


def _long_axes(group: Group) -> list[int]:
    return [k for k, axis in enumerate(group.axes) if axis.size > 1]


def _axis_after_axis(
    pattern: Pattern, parts: int, primitive: Primitive, group: Group, _segments: int
) -> Program:
    scripts = _by_axes(group.axes, _long_axes(group), pattern, parts=parts)
    return _scattered(primitive, group.ranks, parts, list(chain.from_iterable(scripts)))


for _name, _parts, _per_pair, _pattern in (
    ("dim-ring", 1, 1, lambda axis: one_way(axis.size) if axis.is_ring else open_line(axis.size)),
    ("dim-ring-bidirectional", 2, 16, lambda axis: both_ways(axis.size)),
    ("dim-rabenseifner", 1, 16, lambda axis: halving(axis.size)),  # whatever lies between partners
):
    schedule(_name, AR, RS, AG, per_pair=_per_pair)(partial(_axis_after_axis, _pattern, _parts))


@schedule("multi-ring", AR, RS, AG)
def _multi_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    """The payload in k parts; part j runs the axes j, j+1, ... of the k long ones, in both
    directions.

    A phase is one axis of every part; all parts begin it together, and it lasts as long as its
    longest.
    """
    axes = _long_axes(group)
    k = len(axes)
    if is_twisted(group.axes):
        runs = [_by_twisted_axes(group.axes, j) for j in range(k)]
    else:
        runs = [
            _by_axes(group.axes, axes[j:] + axes[:j], _both_ways_or_open, first_part=2 * j, parts=2)
            for j in range(k)
        ]
    script: Script = []
    for phase in zip(*runs, strict=True):
        script += [
            list(chain.from_iterable(batches)) for batches in zip_longest(*phase, fillvalue=[])
        ]
    return _scattered(primitive, group.ranks, 2 * k, script)


def _by_twisted_axes(axes: Sequence[Axis], part: int) -> list[Script]:
    """Part j of a multi-ring on a twisted torus: on nodes numbered by the axes as it sees them,
    then the ranks that those are."""
    seen = parts_of(axes)[part]
    places = np.indices([axis.size for axis in reversed(seen)]).reshape(len(seen), -1)[::-1]
    # hops from rank 0 along each axis of the lattice
    walked: list[Indices] = [np.zeros(0, dtype=np.int64)] * len(axes)
    for number, place in enumerate(places):
        walked[(part + number) % len(axes)] = place
    ranks = ranks_at(walked, axes)
    scripts = _by_axes(seen, range(len(seen)), _both_ways_or_open, first_part=2 * part, parts=2)
    return [
        [[(cover._replace(ranks=ranks), one) for cover, one in batch] for batch in script]
        for script in scripts
    ]


def embedded_ring(primitive: Primitive, group: Group) -> Program:
    """Ring all-reduce, reduce-scatter or all-gather whose hops are all links between neighbours.

    Where no cycle exists the snake is an open line that uses both directions of its links, in as
    many steps and bytes.
    """
    n, zero = group.ranks, np.zeros(1, dtype=np.int64)
    cycle = hamiltonian_cycle(group.axes)
    order, steps = (snake(group.axes), open_line(n)) if cycle is None else (cycle, one_way(n))
    return _scattered(primitive, n, 1, [[(Cover(order, order, zero, zero), one)] for one in steps])


def snake(axes: Sequence[Axis], chosen: Sequence[int] | None = None) -> Indices:
    """A walk to and fro over all ranks, neighbour to neighbour; over the ``chosen`` axes only, at 0
    on the others."""
    walk = np.zeros(1, dtype=np.int64)
    for k in range(len(axes)) if chosen is None else chosen:
        stride = prod(axis.size for axis in axes[:k])
        walk = np.concatenate(
            [walk[:: -1 if row % 2 else 1] + row * stride for row in range(axes[k].size)]
        )
    return walk


def hamiltonian_cycle(axes: Sequence[Axis]) -> Indices | None:
    """A closed walk over all ranks; None on an open line, and on a lattice with only odd, open
    axes."""
    long = [k for k, axis in enumerate(axes) if axis.size > 1]
    rings = [k for k in long if axes[k].is_ring]
    even = [k for k in long if axes[k].size % 2 == 0]
    if len(long) == 1:
        return snake(axes) if rings else None
    for own in (even or rings)[:1]:
        one, others = snake(axes, [own]), snake(axes, [k for k in long if k != own])
        return _woven(one, others) if even else _woven(others, one)
    return None


def _woven(layers: Indices, across: Indices) -> Indices:
    """A cycle over layers x across: to and fro through the layers except column 0, and home along
    that.

    It closes with an even number of layers, and with an odd one if ``across`` is a ring.
    """
    there = [layer + (across[:0:-1] if row % 2 else across[1:]) for row, layer in enumerate(layers)]
    return np.concatenate([across[:1] + layers[:1], *there, across[0] + layers[:0:-1]])


def _chains(
    reached: Callable[[int], Indices], primitive: Primitive, group: Group, segments: int
) -> Program:
    """A chain along each axis in turn: a rank's parent is one hop back on the last axis off the
    root's place.

    ``reached`` says for each place of an axis how many hops up from the root's it is; below 0,
    down.
    """
    ranks = np.arange(group.ranks)
    parent, depth = ranks.copy(), np.zeros_like(ranks)
    for k, axis in enumerate(group.axes):
        d, stride = axis.size, prod(one.size for one in group.axes[:k])
        place = ranks // stride % d
        hops = reached(d)[place]
        before = (place - np.sign(hops)) % d
        parent = np.where(hops != 0, ranks + (before - place) * stride, parent)
        depth += np.abs(hops)
    child = np.flatnonzero(depth)
    root = np.full(segments, depth.argmin())
    edges = Edges(child, parent[child], np.zeros_like(child), depth[child])
    return pipelined(primitive, group.ranks, segments, edges)._replace(home=root, target=root)


for _name, _reached in (
    ("dim-chain", np.arange),
    # the nearer way round a ring
    ("dim-chain-bidirectional", lambda d: (np.arange(d) + (d - 1) // 2) % d - (d - 1) // 2),
    ("dim-chain-middle", lambda d: np.arange(d) - d // 2),
):
    schedule(_name, BC, REDUCE)(partial(_chains, _reached))

# elsewhere a phase leaves its chunks everywhere
_SETTLES = {RS: "home", REDUCE: "home", A2A: "target", P2P: "target"}

_STARTS_AT_HOME = (AG, BC, A2A, P2P)


def compose(
    primitive: Primitive,
    name: str,
    groups: Sequence[Group],
    choices: Sequence[str],
    segments: int = 1,
    order: Order = "inner-first",
) -> Program:
    """The schedule of a composition, phase after phase, each pipelined one in P segments.

    ``groups``: the tiers, innermost first, each seen alone; ``choices``: their algorithms, by the
    name in the first phase.
    ValueError: an algorithm without a schedule, one that needs switches, or phases that cut the
        payload differently.
    """
    firsts: dict[int, Program] = {}
    phases = []
    for one in find_composition(primitive, name).steps(
        tuple(group.ranks for group in groups), order
    ):
        begun = firsts[one.tier].primitive if one.tier in firsts else one.primitive
        algorithm = name_in_phase(choices[one.tier], begun, one.primitive)
        make = maker(one.primitive, algorithm)
        if make is None:
            raise ValueError(f"{algorithm} has no schedule for {one.primitive}")
        program = make(groups[one.tier], segments)
        if program.nodes > program.ranks:
            raise ValueError(
                f"{algorithm} needs switches: it cannot be a phase of a composed schedule"
            )
        phases.append((one.tier, program, _aligned(firsts.setdefault(one.tier, program), program)))
    tiers = [firsts[tier] for tier in range(len(groups))]
    sizes, counts = [one.ranks for one in tiers], [len(one.chunk_bytes) for one in tiers]
    node_strides, chunk_strides = (
        np.cumprod([1, *numbers[:-1]]).tolist() for numbers in (sizes, counts)
    )
    start = [one.home if primitive in _STARTS_AT_HOME else None for one in tiers]
    dimensions = [
        Dimension(*one)
        for one in zip(sizes, node_strides, chunk_strides, counts, start, strict=True)
    ]
    chunk_bytes = reduce(
        lambda inner, outer: np.multiply.outer(outer, inner).ravel(),
        [one.chunk_bytes for one in tiers],
    )
    scaled = [
        (one.home * stride, one.target * stride)
        for one, stride in zip(tiers, node_strides, strict=True)
    ]
    home, target = (
        reduce(lambda inner, outer: np.add.outer(outer, inner).ravel(), ends)
        for ends in zip(*scaled, strict=True)
    )
    ranks = int(np.prod(sizes))
    return Program(
        primitive, ranks, ranks, chunk_bytes, home, target, batches=_batches(phases, dimensions)
    )


def name_in_phase(choice: str, begun: Primitive, primitive: Primitive) -> str:
    """A tier's choice in a later phase: the all-gather that mirrors its reduce-scatter."""
    return find(begun, choice).mirror if begun is RS and primitive is AG else choice


def _aligned(first: Program, later: Program) -> Indices:
    """Which of the first phase's chunks each of a later one's is: same place, same size, in
    order."""
    if first is later:
        return np.arange(len(first.chunk_bytes))
    ranked = [np.lexsort((program.chunk_bytes, program.home)) for program in (first, later)]
    keys = [
        (program.home[at], program.chunk_bytes[at])
        for program, at in zip((first, later), ranked, strict=True)
    ]
    if len(ranked[0]) != len(ranked[1]) or not all(
        np.allclose(a, b) for a, b in zip(*keys, strict=True)
    ):
        raise ValueError(
            f"{first.primitive} and {later.primitive} of a tier cut the payload differently"
        )
    return ranked[0][np.argsort(ranked[1])]


def _batches(
    phases: Sequence[tuple[int, Program, Indices]], dimensions: list[Dimension]
) -> Batches:
    """Each phase, a tier's program whose chunk j is the tier's chunk ``chunk_at[j]``, over all
    instances at once.

    Then its tier's chunks stand where it leaves them.
    """
    for tier, program, chunk_at in phases:
        own = dimensions[tier]
        nodes, chunks = copies([one for k, one in enumerate(dimensions) if k != tier])
        cover = Cover(
            np.arange(own.size) * own.node_stride, chunk_at * own.chunk_stride, nodes, chunks
        )
        for batch in program.batches:
            yield tuple(cover.spread(one) for one in batch)
        end = _SETTLES.get(program.primitive)
        dimensions[tier] = own._replace(
            places=None if end is None else getattr(program, end)[np.argsort(chunk_at)]
        )
