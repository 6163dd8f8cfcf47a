"""Collectives inside one switch, node N: up from the ranks, down to them, cut through.

A rank neither sends up nor takes down what it can keep: its own chunk of an all-gather, its own part of its sum.
"""

from collections.abc import Iterator

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive
from colltool.schedules.gather_scatter import Batches, backwards
from colltool.schedules.program import Indices, Program, Step, schedule, step


def _program(primitive: Primitive, n: int, sizes: float, home: Indices, target: Indices, batches: Batches) -> Program:
    return Program(
        primitive=primitive,
        ranks=n,
        nodes=n + 1,
        chunk_bytes=np.full(len(home), sizes),
        home=home,
        target=target,
        batches=batches,
        streamed=True,
    )


def _multicast(n: int, home: Indices) -> Batches:
    """Every chunk goes up once from its home, and comes down to all other ranks."""
    chunk = np.arange(len(home), dtype=np.int64)
    yield (step(home, n, chunk),)
    dst, down = np.nonzero(np.arange(n)[:, None] != home)
    yield (step(n, dst, down),)


def _combined(n: int) -> Batches:
    """All vectors are added up in the switch; all ranks take the sum."""
    ranks = np.arange(n, dtype=np.int64)
    yield (step(ranks, n, 0, add=True),)
    yield (step(n, ranks, 0),)


def _routed(n: int) -> Batches:
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, n, src * n + dst),)
    yield (step(n, dst, src * n + dst),)


@schedule("in-network", AR)
def all_reduce(group: Group, _segments: int) -> Program:
    """Reduced in the switch and multicast back."""
    root = np.zeros(1, dtype=np.int64)
    return _program(AR, group.ranks, 1.0, root, root, _combined(group.ranks))


@schedule("in-network", AG)
def all_gather(group: Group, _segments: int) -> Program:
    """Every slice multicast to the other ranks."""
    home = np.arange(group.ranks, dtype=np.int64)
    return _program(AG, group.ranks, 1 / group.ranks, home, home, _multicast(group.ranks, home))


@schedule("in-network", RS)
def reduce_scatter(group: Group, _segments: int) -> Program:
    """Every slice reduced on the way to its rank: the all-gather backwards."""
    home = np.arange(group.ranks, dtype=np.int64)
    return _program(RS, group.ranks, 1 / group.ranks, home, home, backwards(_multicast(group.ranks, home)))


@schedule("in-network", BC)
def broadcast(group: Group, _segments: int) -> Program:
    """One write, multicast."""
    root = np.zeros(1, dtype=np.int64)
    return _program(BC, group.ranks, 1.0, root, root, _multicast(group.ranks, root))


@schedule("in-network", REDUCE)
def reduce(group: Group, _segments: int) -> Program:
    """Every vector reduced on the way to the root: the broadcast backwards."""
    root = np.zeros(1, dtype=np.int64)
    return _program(REDUCE, group.ranks, 1.0, root, root, backwards(_multicast(group.ranks, root)))


@schedule("in-network", A2A)
def all_to_all(group: Group, _segments: int) -> Program:
    """One bulk transaction per rank; the switch routes every chunk."""
    n = group.ranks
    src, dst = np.divmod(np.arange(n * n, dtype=np.int64), n)
    return _program(A2A, n, 1 / n, src, dst, _routed(n))


@schedule("parameter-server", AR)
def through_servers(group: Group, _segments: int) -> Program:
    """Every rank sends a K-th of its vector to each of K servers and takes that part of the sum from it."""
    n, k = group.ranks, group.servers
    part = np.arange(k, dtype=np.int64)
    return Program(
        primitive=AR,
        ranks=n,
        nodes=n + k,
        chunk_bytes=np.full(k, 1 / k),
        home=part,
        target=part,
        batches=_there_and_back(n, k),
        streamed=True,
        servers=k,
    )


def _there_and_back(n: int, k: int) -> Iterator[tuple[Step, ...]]:
    rank, part = (ends.ravel() for ends in np.meshgrid(np.arange(n), np.arange(k)))
    yield (step(rank, n + part, part, add=True),)
    yield (step(n + part, rank, part),)
