"""The shape of two complementary binary trees, for counting which of its edges leave a domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


def _in_order_parent(rank: int, ranks: int) -> int:
    """The parent of a rank in a binary tree whose in-order walk is 0, 1, 2 ...; -1 for the root, which is rank 0.

    The lowest set bit b of a rank is its height. Its parent is at distance b, on the side where the next bit is clear, or on
    the other one when that side lies beyond the last rank.
    """
    if rank == 0:
        return -1
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    return up if up < ranks else rank ^ bit


def _moved(parents: tuple[int, ...], places: Sequence[int]) -> tuple[int, ...]:
    """The same tree with rank r put in the place of ``places[r]``."""
    out = [-1] * len(parents)
    for rank, parent in enumerate(parents):
        out[places[rank]] = places[parent] if parent >= 0 else -1
    return tuple(out)


def _in_order(ranks: int) -> tuple[int, ...]:
    return tuple(_in_order_parent(rank, ranks) for rank in range(ranks))


@lru_cache(maxsize=64)
def double_tree(ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parents of every rank in two complementary trees: the second is the first mirrored (N even) or shifted (N odd)."""
    places = [ranks - 1 - rank if ranks % 2 == 0 else (rank + 1) % ranks for rank in range(ranks)]
    return _in_order(ranks), _moved(_in_order(ranks), places)


@lru_cache(maxsize=64)
def trees_under_one_root(ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parents where rank 0 is the root of both, as one payload needs it: the others mirrored (N odd) or shifted (N even)."""
    places = [0, *(ranks - rank if ranks % 2 else rank % (ranks - 1) + 1 for rank in range(1, ranks))]
    return _in_order(ranks), _moved(_in_order(ranks), places)


@lru_cache(maxsize=256)
def edges_leaving(ranks: int, domain: int, *, both_ways: bool) -> int:
    """The most messages of half the payload that leave or enter any domain of consecutive ranks, over both trees.

    A broadcast sends each out of the parent's domain into the child's, a reduction the other way over the same uplinks' other
    direction: the busier of the two counts. With ``both_ways`` it goes up one way and down the other, and both leave.
    """
    above, below = ([0] * -(-ranks // domain) for _ in range(2))
    for parents in double_tree(ranks) if both_ways else trees_under_one_root(ranks):
        for child, parent in enumerate(parents):
            if parent >= 0 and parent // domain != child // domain:
                above[parent // domain] += 1
                below[child // domain] += 1
    return max(map(sum, zip(above, below, strict=True))) if both_ways else max(*above, *below)
