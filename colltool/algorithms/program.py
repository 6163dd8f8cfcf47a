"""Executable schedules: steps of messages, each a chunk that the receiver adds or copies.

A :class:`Program` is a schedule for one group, round after round. A batch holds the steps of one
round: they run at the same time, so all its messages read what their senders held before it.
Formulas are verified by executing programs (:mod:`colltool.algorithms.executor`).

Two decorators register the function that makes an algorithm's program, and :func:`program_maker`
finds it:
:func:`moves` where the batches of a gather, broadcast or all-to-all follow from N alone, whose
reductions are then the same backwards; :func:`schedule` for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

from colltool.base.primitives import A2A, AR, BC, REDUCE, RS, Primitive
from colltool.network.arrays import Floats, Indices, np
from colltool.network.group import Group


class Step(NamedTuple):
    """Messages of one round that are all added, or all copied; arrays have shape (messages,)."""

    src: Indices
    dst: Indices
    chunk: Indices
    add: bool  # the receiver adds the chunk to its own, instead of overwriting it


Batches = Iterator[tuple[Step, ...]]
"""The steps of each round, in order."""


class Program(NamedTuple):
    """A schedule for one group of N ranks.

    Nodes are what sends and receives: the ranks, then switches, servers or padding. Places are what
    has ports or links to count: the ranks and servers, but no switch. Such as:

    =============================  =====  ======
    4 ranks and                    nodes  places
    =============================  =====  ======
    a switch that sums             5      4
    2 servers                      6      6
    =============================  =====  ======
    """

    primitive: Primitive
    ranks: int
    nodes: int  # numbers of senders and receivers are below it
    chunk_bytes: Floats  # in units of M, shape (chunks,)
    # The rank that holds each chunk at first (AG, A2A, BC, P2P) or must hold it at the end (RS,
    # REDUCE); unused for AR.
    home: Indices
    target: Indices  # the rank that must hold each chunk at the end (A2A, P2P)
    batches: Batches
    # Rounds overlap (segments or cut-through): the time is that of the busiest port over all
    # rounds, not the sum of each round's busiest.
    streamed: bool = False
    servers: int = 0  # nodes after the ranks with one port each
    # On a graph: the place of each node, several of which may be at one switch. None: each node is
    # at the place of its own number.
    node_places: Indices | None = None

    @property
    def places(self) -> int:
        """How many places have ports or links that are counted."""
        if self.node_places is None:
            return self.ranks + self.servers
        return int(self.node_places.max()) + 1

    def at_places(self, batch: tuple[Step, ...]) -> tuple[Step, ...]:
        """A batch of messages between nodes as one between their places."""
        if self.node_places is None:
            return batch
        moved = []
        for messages in batch:
            src = self.node_places[messages.src]
            dst = self.node_places[messages.dst]
            moved.append(messages._replace(src=src, dst=dst))
        return tuple(moved)


def step(src: object, dst: object, chunk: object, *, add: bool = False) -> Step:
    """A step from numbers or arrays of any shapes that broadcast against each other, such as one
    sender of several chunks."""
    arrays = [np.asarray(values, dtype=np.int64) for values in (src, dst, chunk)]
    senders, receivers, chunks = (array.ravel() for array in np.broadcast_arrays(*arrays))
    return Step(senders, receivers, chunks, add)


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
    """A program on chunks of equal size.

    Chunk c belongs to rank c mod N, in a broadcast or reduction to rank 0. In an all-to-all chunk
    ``src * N + dst``, of size M/N, goes from src to dst.

    ``nodes``: with switches and padding; 0: the ranks alone.
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


def reversed_steps(batches: Batches) -> Batches:
    """A gather or broadcast run backwards, which is a reduction: last batch first, senders and
    receivers exchanged, chunks added instead of copied."""
    for batch in reversed(list(batches)):
        yield tuple(Step(sent.dst, sent.src, sent.chunk, add=True) for sent in batch)


def gather_or_reverse(primitive: Primitive, gather: Callable[[], Batches]) -> Batches:
    """The steps of a primitive from those of its gather or broadcast: themselves, reversed for a
    reduction, or reversed and then themselves for an all-reduce."""
    if primitive in (RS, REDUCE):
        return reversed_steps(gather())
    if primitive is AR:
        return chain(reversed_steps(gather()), gather())
    return gather()


def strides(ranks: int) -> tuple[int, ...]:
    """1, 2, 4 ... below N: the distances between partners in lg N rounds."""
    return tuple(1 << k for k in range((ranks - 1).bit_length()))


class Edges(NamedTuple):
    """The edges of trees or chains that a pipeline passes; arrays have shape (edges,)."""

    child: Indices
    parent: Indices
    stream: Indices  # the number of the tree or chain, each with its own segments
    depth: Indices  # of the child; a root has depth 0


def edges_at(
    edges: Edges, first_round: Indices, segments: int, number: int, *, up: bool = False
) -> Step:
    """The messages of a pipeline in round ``number``, from parents to children or ``up``.

    Args:
        first_round: the round in which each edge carries segment 0 of its stream; segment s, chunk
            ``stream * segments + s``, follows s rounds later.
    """
    segment = number - first_round
    active = (segment >= 0) & (segment < segments)
    chunk = edges.stream * segments + segment
    src, dst = (edges.child, edges.parent) if up else (edges.parent, edges.child)
    return Step(src[active], dst[active], chunk[active], add=up)


def pipelined(primitive: Primitive, ranks: int, segments: int, edges: Edges) -> Program:
    """A pipelined broadcast, or reversed a reduction: a child at depth d receives segment s in
    round d-1+s."""

    batches = gather_or_reverse(primitive, lambda: down_batches(edges, segments))
    streams = int(edges.stream.max()) + 1
    return equal_chunks(primitive, ranks, streams * segments, batches)


def down_batches(edges: Edges, segments: int) -> Batches:
    """The rounds that send segment after segment down all trees at once."""
    for number in range(int(edges.depth.max()) + segments - 1):
        yield (edges_at(edges, edges.depth - 1, segments, number),)


ProgramMaker = Callable[[Group, int], Program]
"""Makes an algorithm's program for a group, in a number of segments."""
MakerOfAny = Callable[[Primitive, Group, int], Program]
"""The same for several primitives."""
BatchesOfRanks = Callable[[int], Batches]
"""The batches of an algorithm that needs to know the number of ranks alone."""

_MAKERS: dict[tuple[Primitive, str], ProgramMaker] = {}
# Chunks that move per pair of ranks, or that number by N.
_PER_PAIR: dict[tuple[Primitive, str], int | Callable[[int], int]] = {}
# Chunks that move per pair of ranks where a schedule does not say, on the safe side: the schedules
# here move at most 6 at 64 ranks. Only limits on the work depend on it.
_USUAL_PER_PAIR = 16


def schedule(
    name: str, *primitives: Primitive, per_pair: int | Callable[[int], int] = _USUAL_PER_PAIR
) -> Callable[[MakerOfAny], MakerOfAny]:
    """Register a function (primitive, group, segments P) -> program; P is for pipelined algorithms.

    ``per_pair``, a number or a function of N, is roughly how many chunks move per pair of ranks, for
    :func:`estimated_messages`.
    """

    def register(make: MakerOfAny) -> MakerOfAny:
        for primitive in primitives:
            if (primitive, name) in _MAKERS:
                raise ValueError(f"a schedule of {name} is registered twice for {primitive}")
            _MAKERS[primitive, name] = partial(make, primitive)
            _PER_PAIR[primitive, name] = per_pair
        return make

    return register


def moves(
    name: str, *primitives: Primitive, chunks: int = 0, per_pair: int = _USUAL_PER_PAIR
) -> Callable[[BatchesOfRanks], BatchesOfRanks]:
    """Register a function of N that yields the batches of a gather, broadcast or all-to-all; its
    reductions follow by reversing them.

    ``chunks``: how many there are; 0: one for each rank, or in an all-to-all for each pair.
    """

    def register(batches_of: BatchesOfRanks) -> BatchesOfRanks:
        def make(primitive: Primitive, group: Group, _segments: int) -> Program:
            ranks = group.ranks
            default_chunks = ranks * ranks if primitive is A2A else ranks
            batches = gather_or_reverse(primitive, lambda: batches_of(ranks))
            return equal_chunks(primitive, ranks, chunks or default_chunks, batches)

        schedule(name, *primitives, per_pair=per_pair)(make)
        return batches_of

    return register


def program_maker(primitive: Primitive, name: str) -> ProgramMaker | None:
    """The function that makes an algorithm's program; None where no schedule is registered."""
    return _MAKERS.get((primitive, name))


def estimated_messages(primitive: Primitive, name: str, ranks: int, segments: int | None) -> int:
    """Estimate roughly the cost of executing a schedule, in messages. ``segments`` is the number of a
    pipelined one; None of others, which must be registered."""
    if segments is not None:
        return _USUAL_PER_PAIR * ranks * segments
    per_pair = _PER_PAIR[primitive, name]
    return ranks**2 * (per_pair(ranks) if callable(per_pair) else per_pair)
