"""Collectives inside one switch, node N, cut through: up from the ranks and down to them, but for what a rank can keep."""

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive
from colltool.schedules.program import Batches, Indices, Program, backwards, equal_chunks, schedule, step


def _in_switch(primitive: Primitive, n: int, chunks: int, batches: Batches) -> Program:
    return equal_chunks(primitive, n, chunks, batches, nodes=n + 1, streamed=True)


def _multicast(n: int, home: Indices) -> Batches:
    """Every chunk goes up once from its home, and down to all other ranks."""
    chunk = np.arange(len(home), dtype=np.int64)
    yield (step(home, n, chunk),)
    dst, down = np.nonzero(np.arange(n)[:, None] != home)
    yield (step(n, dst, down),)


def _combined(n: int) -> Batches:
    ranks = np.arange(n, dtype=np.int64)
    yield (step(ranks, n, 0, add=True),)
    yield (step(n, ranks, 0),)


def _routed(n: int) -> Batches:
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    yield (step(src, n, src * n + dst),)
    yield (step(n, dst, src * n + dst),)


@schedule("in-network", AR)
def all_reduce(group: Group, _segments: int) -> Program:
    return _in_switch(AR, group.ranks, 1, _combined(group.ranks))


@schedule("in-network", AG)
def all_gather(group: Group, _segments: int) -> Program:
    return _in_switch(AG, group.ranks, group.ranks, _multicast(group.ranks, np.arange(group.ranks)))


@schedule("in-network", RS)
def reduce_scatter(group: Group, _segments: int) -> Program:
    return _in_switch(RS, group.ranks, group.ranks, backwards(_multicast(group.ranks, np.arange(group.ranks))))


@schedule("in-network", BC)
def broadcast(group: Group, _segments: int) -> Program:
    return _in_switch(BC, group.ranks, 1, _multicast(group.ranks, np.zeros(1, dtype=np.int64)))


@schedule("in-network", REDUCE)
def reduce(group: Group, _segments: int) -> Program:
    return _in_switch(REDUCE, group.ranks, 1, backwards(_multicast(group.ranks, np.zeros(1, dtype=np.int64))))


@schedule("in-network", A2A)
def all_to_all(group: Group, _segments: int) -> Program:
    return _in_switch(A2A, group.ranks, group.ranks**2, _routed(group.ranks))


@schedule("parameter-server", AR)
def through_servers(group: Group, _segments: int) -> Program:
    """Every rank sends 1/K of its vector to each of K servers and gets that part of the sum back."""
    n, k = group.ranks, group.servers
    return equal_chunks(AR, n, k, _there_and_back(n, k), nodes=n + k, streamed=True, servers=k)


def _there_and_back(n: int, k: int) -> Batches:
    rank, part = (ends.ravel() for ends in np.meshgrid(np.arange(n), np.arange(k)))
    yield (step(rank, n + part, part, add=True),)
    yield (step(n + part, rank, part),)
