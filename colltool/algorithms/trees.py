"""The shape of the double binary tree, for counting which of its edges leave a domain."""

from __future__ import annotations

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


@lru_cache(maxsize=64)
def double_tree(ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parents of every rank in two complementary trees: the second is the first mirrored (N even) or shifted (N odd)."""
    first = tuple(_in_order_parent(rank, ranks) for rank in range(ranks))
    mirrored = ranks % 2 == 0
    move = [ranks - 1 - rank if mirrored else (rank + 1) % ranks for rank in range(ranks)]
    second = [-1] * ranks
    for rank, parent in enumerate(first):
        second[move[rank]] = move[parent] if parent >= 0 else -1
    return first, tuple(second)


@lru_cache(maxsize=256)
def edges_leaving(ranks: int, domain: int, *, both_ways: bool) -> int:
    """The most messages of half the payload that leave any domain of consecutive ranks, over both trees.

    An edge that crosses carries its half out of the parent's domain (broadcast), and with ``both_ways`` also out of the
    child's (the reduction before it).
    """
    out = [0] * -(-ranks // domain)
    for parents in double_tree(ranks):
        for child, parent in enumerate(parents):
            if parent >= 0 and parent // domain != child // domain:
                out[parent // domain] += 1
                out[child // domain] += both_ways
    return max(out)
