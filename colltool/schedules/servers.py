"""Collectives through servers, nodes N .. N+K-1: parts go to them to be added up, and come back."""

from collections.abc import Iterator

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import AR
from colltool.schedules.registry import schedule
from colltool.schedules.step import Program, Step, step


@schedule("parameter-server", AR)
def all_reduce(group: Group, _segments: int) -> Program:
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
