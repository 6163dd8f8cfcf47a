"""All-to-all on tori and meshes. Chunk src * N + dst goes from rank src to rank dst."""

from collections.abc import Iterator
from math import prod

import numpy as np

from colltool.algorithms.group import Group
from colltool.base.primitives import A2A
from colltool.schedules.registry import schedule
from colltool.schedules.step import Indices, Program, Step, step


def _program(group: Group, batches: Iterator[tuple[Step, ...]]) -> Program:
    n = group.ranks
    home, target = _ends(n)
    return Program(primitive=A2A, ranks=n, nodes=n, chunk_bytes=np.full(n * n, 1 / n), home=home, target=target, batches=batches)


def _ends(n: int) -> tuple[Indices, Indices]:
    return np.repeat(np.arange(n), n), np.tile(np.arange(n), n)


def _move(before: Indices, after: Indices) -> tuple[Step, ...]:
    """Every chunk that is not yet there, at once."""
    moving = np.flatnonzero(before != after)
    return (step(before[moving], after[moving], moving),)


@schedule("shortest-path", A2A)
def shortest_path(group: Group, _segments: int) -> Program:
    """All messages at once; the lattice routes them."""
    return _program(group, iter([_move(*_ends(group.ranks))]))


@schedule("dim-by-dim", A2A)
def dim_by_dim(group: Group, _segments: int) -> Program:
    """Every chunk to its destination's place on axis 1, then on axis 2, and so on."""
    return _program(group, _axis_moves(group))


def _axis_moves(group: Group) -> Iterator[tuple[Step, ...]]:
    here, target = _ends(group.ranks)
    for k, axis in enumerate(group.axes):
        if axis.size > 1:
            stride = prod(one.size for one in group.axes[:k])
            there = here + (target // stride % axis.size - here // stride % axis.size) * stride
            yield _move(here, there)
            here = there
