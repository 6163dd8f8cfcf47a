"""Long ways on a lattice as the hops that they are: from neighbour to neighbour, each a step."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

import numpy as np

from colltool.algorithms.group import Axis
from colltool.schedules.network import Lattice
from colltool.schedules.step import Program, Step, step
from colltool.schedules.trace import State, Trace, Traced, messages_of

Hop = tuple[int, int, int]
"""From, to, chunk."""


def traced_by_hops(program: Program, lattice: Lattice) -> Trace:
    """As :func:`colltool.schedules.trace.traced`, of chunks that move: every hop is a step.

    Axis 1 first, the shorter way round each axis. A chunk that is as far from home either way goes both ways in halves: the
    second is a chunk of its own, numbered after all others. The hops of a batch overlap: n_β is what each adds to the most that
    a link has carried.
    """
    batches = list(program.batches)
    whole, second = _halved(program, batches, lattice)
    state = State(whole)
    start, steps = state.holdings(), []
    for batch in batches:
        carried, load = 0.0, np.zeros(1)
        for hop in _hops(batch, lattice, second):
            (one,) = hop
            load = load + lattice.loads(one.src, one.dst, whole.chunk_bytes[one.chunk])
            messages = messages_of(hop)
            state.apply(messages)
            steps.append(Traced(messages, 1, float(load.max()) - carried, state.holdings()))
            carried = float(load.max())
    return Trace(whole.ranks, tuple(whole.chunk_bytes.tolist()), state.summed, start, tuple(steps))


def _halved(program: Program, batches: Sequence[tuple[Step, ...]], lattice: Lattice) -> tuple[Program, dict[int, int]]:
    """Every chunk that ever goes two ways as two of half its size; and the second one's number by the first's."""
    every = [message for batch in batches for one in batch for message in _messages(one)]
    tied = sorted({chunk for src, dst, chunk in every if _ties(lattice, src, dst)})
    count = len(program.chunk_bytes)
    size = program.chunk_bytes.copy()
    size[tied] /= 2
    parts = np.concatenate([np.arange(count), np.array(tied, dtype=np.int64)])
    halved = program._replace(chunk_bytes=size[parts], home=program.home[parts], target=program.target[parts])
    return halved, {chunk: count + index for index, chunk in enumerate(tied)}


def _messages(one: Step) -> Iterator[Hop]:
    return zip(one.src.tolist(), one.dst.tolist(), one.chunk.tolist(), strict=True)


def _hops(batch: tuple[Step, ...], lattice: Lattice, second: dict[int, int]) -> Iterator[tuple[Step, ...]]:
    """One batch, hop by hop: all messages set out together, and each is passed on as soon as it has come."""
    ways: list[list[Hop]] = []
    for one in batch:
        for src, dst, chunk in _messages(one):
            ways.append([(*hop, chunk) for hop in _way(lattice, src, dst, up=True)])
            if chunk in second:
                ways.append([(*hop, second[chunk]) for hop in _way(lattice, src, dst, up=False)])
    for moving in zip_longest(*ways):
        yield (step(*np.array([hop for hop in moving if hop]).T),)


def _way(lattice: Lattice, src: int, dst: int, *, up: bool) -> Iterator[tuple[int, int]]:
    """The hops between two ranks; ``up``: which way round where both are as long."""
    here = src
    for axis, stride in zip(lattice.axes, lattice.strides.tolist(), strict=True):
        place, ahead = here // stride % axis.size, _ahead(axis, src // stride, dst // stride)
        turn = 1 if ahead > 0 or (up and _halfway(axis, ahead)) else -1
        for _ in range(abs(ahead)):
            there = here + ((place + turn) % axis.size - place) * stride
            yield here, there
            here, place = there, (place + turn) % axis.size


def _ties(lattice: Lattice, src: int, dst: int) -> bool:
    strides = zip(lattice.axes, lattice.strides.tolist(), strict=True)
    return any(_halfway(axis, _ahead(axis, src // stride, dst // stride)) for axis, stride in strides)


def _halfway(axis: Axis, ahead: int) -> bool:
    return axis.is_ring and 2 * abs(ahead) == axis.size


def _ahead(axis: Axis, start: int, end: int) -> int:
    """How far the shorter way goes upwards, below 0 downwards; halfway round a ring downwards."""
    apart = end % axis.size - start % axis.size
    if not axis.is_ring:
        return apart
    up = apart % axis.size
    return up if 2 * up < axis.size else up - axis.size
