"""A schedule as steps of messages, each a chunk that the receiver adds or copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from colltool.base.primitives import A2A, AR, BC, REDUCE, RS, Primitive
from colltool.network.arrays import Floats, Indices, np
from colltool.network.group import Group


class Step(NamedTuple):
    """Messages sent at the same time; all read the state before the step. Arrays have shape
    (m,)."""

    src: Indices
    dst: Indices
    chunk: Indices
    add: bool  # sum into what the receiver holds, else overwrite


Batches = Iterator[tuple[Step, ...]]


class Program(NamedTuple):
    """A schedule for one group of N ranks."""

    primitive: Primitive
    ranks: int
    nodes: int  # the ranks, then switches, servers or padding
    chunk_bytes: Floats  # in units of M, shape (chunks,)
    # who holds each chunk at first (AG, A2A, BC, P2P) or must hold it at the end (RS, REDUCE); AR
    # ignores it
    home: Indices
    target: Indices  # who must hold each chunk at the end (A2A, P2P)
    batches: Batches  # steps in order; those of one item run at the same time
    # steps overlap (segments or cut-through): the busiest port's total counts, not each step's
    streamed: bool = False
    servers: int = 0  # nodes after the ranks with one port each
    # On a graph: the place of each node, several of which may be at one switch. None: its number.
    stands: Indices | None = None

    @property
    def places(self) -> int:
        """Places in the network whose ports or links are counted."""
        if self.stands is None:
            return self.ranks + self.servers
        return int(self.stands.max()) + 1

    def standing(self, batch: tuple[Step, ...]) -> tuple[Step, ...]:
        """The same messages between places."""
        if self.stands is None:
            return batch
        moved = []
        for messages in batch:
            src = self.stands[messages.src]
            dst = self.stands[messages.dst]
            moved.append(messages._replace(src=src, dst=dst))
        return tuple(moved)


def step(src: object, dst: object, chunk: object, *, add: bool = False) -> Step:
    """A step from array-likes, broadcast against each other."""
    # Numbers and arrays of any shapes that fit, such as one sender of several chunks.
    arrays = [np.asarray(values, dtype=np.int64) for values in (src, dst, chunk)]
    src_, dst_, chunk_ = (array.ravel() for array in np.broadcast_arrays(*arrays))
    return Step(src_, dst_, chunk_, add)


def equal_chunks(
    primitive: Primitive,
    ranks: int,
    chunks: int,
    batches: Batches,
    *,
    nodes: int = 0,
    streamed: bool = False,
    servers: int = 0,
) -> Program:
    """A program on equal chunks in their usual places.

    Chunk c belongs to rank c mod N; a broadcast's or reduction's to rank 0. An all-to-all's chunk
    ``src * N + dst``, of M/N, goes from src to dst.
    """
    number = np.arange(chunks, dtype=np.int64)
    chunk_bytes = 1 / chunks
    if primitive is A2A:
        home, target = np.divmod(number, ranks)
        chunk_bytes = 1 / ranks
    elif primitive in (BC, REDUCE):
        home = target = np.zeros_like(number)
    else:
        home = target = number % ranks
    return Program(
        primitive,
        ranks,
        nodes or ranks,
        np.full(chunks, chunk_bytes),
        home=home,
        target=target,
        batches=batches,
        streamed=streamed,
        servers=servers,
    )


def backwards(batches: Batches) -> Batches:
    """A gather reversed into a reduction: last step first, messages turned round, sums for
    copies."""
    # Who was sent a copy now sends a sum.
    for batch in reversed(list(batches)):
        yield tuple(Step(there.dst, there.src, there.chunk, add=True) for there in batch)


def gathered(primitive: Primitive, gather: Callable[[], Batches]) -> Batches:
    """A gather or broadcast as it is, a reduction backwards, an all-reduce both."""
    if primitive in (RS, REDUCE):
        return backwards(gather())
    if primitive is AR:
        return chain(backwards(gather()), gather())
    return gather()


def strides(ranks: int) -> tuple[int, ...]:
    """1, 2, 4 ... below N: the partner distances of lg N rounds."""
    return tuple(1 << k for k in range((ranks - 1).bit_length()))


class Edges(NamedTuple):
    """What segments pass on their way from a root, one stream of them in each tree or chain; shape
    (edges,) each."""

    child: Indices
    parent: Indices
    stream: Indices
    depth: Indices  # of the child; a root has depth 0


def fired(edges: Edges, first: Indices, segments: int, moment: int, *, up: bool = False) -> Step:
    """What edges carry at a moment: edge e segment s of its stream, chunk
    ``stream * segments + s``, at ``first[e] + s``."""
    segment = moment - first
    # Other edges have not begun, or are done.
    live = (segment >= 0) & (segment < segments)
    chunk = edges.stream * segments + segment
    src, dst = (edges.child, edges.parent) if up else (edges.parent, edges.child)
    return Step(src[live], dst[live], chunk[live], add=up)


def pipelined(primitive: Primitive, ranks: int, segments: int, edges: Edges) -> Program:
    """A broadcast in which a child of depth d gets segment s in step d-1+s; a reduction is that
    backwards."""

    def down() -> Batches:
        for moment in range(int(edges.depth.max()) + segments - 1):
            yield (fired(edges, edges.depth - 1, segments, moment),)

    streams = int(edges.stream.max()) + 1
    return equal_chunks(primitive, ranks, streams * segments, gathered(primitive, down))


Maker = Callable[[Group, int], Program]
_MAKERS: dict[tuple[Primitive, str], Maker] = {}
_PER_PAIR: dict[tuple[Primitive, str], int | Callable[[int], int]] = {}
_MANY = 16  # chunks per pair of ranks, where nothing else is known
AnyMaker = Callable[[Primitive, Group, int], Program]


def schedule(
    name: str, *primitives: Primitive, per_pair: int | Callable[[int], int] = _MANY
) -> Callable[[AnyMaker], AnyMaker]:
    """Register a maker: (primitive, group, segments P) -> program. P matters to pipelined
    algorithms only.

    ``per_pair``, a number or a function of N, is about how many chunks move per pair of ranks, for
    :func:`effort`.
    """

    def register(maker: AnyMaker) -> AnyMaker:
        for primitive in primitives:
            if (primitive, name) in _MAKERS:
                raise ValueError(f"a schedule of {name} is registered twice for {primitive}")
            _MAKERS[primitive, name] = partial(maker, primitive)
            _PER_PAIR[primitive, name] = per_pair
        return maker

    return register


Moves = Callable[[int], Batches]


def moves(
    name: str, *primitives: Primitive, chunks: int = 0, per_pair: int = _MANY
) -> Callable[[Moves], Moves]:
    """Register what N ranks gather, broadcast or exchange, and with that its reverse: there is
    a chunk for each rank unless ``chunks`` says how many."""

    def register(give: Moves) -> Moves:
        def make(primitive: Primitive, group: Group, _segments: int) -> Program:
            ranks = group.ranks
            usual = ranks * ranks if primitive is A2A else ranks
            batches = gathered(primitive, lambda: give(ranks))
            return equal_chunks(primitive, ranks, chunks or usual, batches)

        schedule(name, *primitives, per_pair=per_pair)(make)
        return give

    return register


def maker(primitive: Primitive, name: str) -> Maker | None:
    return _MAKERS.get((primitive, name))


def effort(primitive: Primitive, name: str, ranks: int, segments: int | None) -> int:
    """Rough cost of executing a schedule, in messages; ``segments`` for a pipelined one."""
    if segments is not None:
        return _MANY * ranks * segments
    per_pair = _PER_PAIR[primitive, name]
    return ranks**2 * (per_pair(ranks) if callable(per_pair) else per_pair)
