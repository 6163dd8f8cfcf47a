"""The double binary tree as a graph: what it must be for its price to hold, and the edges that leave a domain."""

from __future__ import annotations

from math import ceil, log2

import pytest

from colltool.algorithms.trees import double_tree, edges_leaving

COUNTS = range(2, 131)


def depths(parents: tuple[int, ...]) -> list[int]:
    """Hops from each rank to the root; fails on a loop."""
    found = []
    for rank in range(len(parents)):
        hops = 0
        while parents[rank] >= 0:
            rank, hops = parents[rank], hops + 1
            assert hops <= len(parents)
        found.append(hops)
    return found


def children(parents: tuple[int, ...]) -> list[list[int]]:
    return [[child for child, parent in enumerate(parents) if parent == rank] for rank in range(len(parents))]


@pytest.mark.parametrize("n", COUNTS)
def test_both_trees_are_binary_and_span_every_rank(n: int) -> None:
    for parents in double_tree(n):
        assert len(parents) == n
        assert sum(parent < 0 for parent in parents) == 1
        assert all(parent < n for parent in parents)
        depths(parents)
        assert max(len(below) for below in children(parents)) <= 2


@pytest.mark.parametrize("n", COUNTS)
def test_neither_tree_is_deeper_than_the_rounds_it_is_charged(n: int) -> None:
    assert max(depths(double_tree(n)[0])) <= ceil(log2(n))
    assert max(depths(double_tree(n)[1])) <= ceil(log2(n))


@pytest.mark.parametrize("n", COUNTS)
def test_every_rank_is_interior_in_at_most_one_tree(n: int) -> None:
    """Exactly so for even N. For odd N the first root, rank 0, is interior in both, with a single child in each: no port pays."""
    first, second = (children(parents) for parents in double_tree(n))
    both = [rank for rank in range(n) if first[rank] and second[rank]]
    if n % 2 == 0:
        assert both == []
    else:
        assert both == [0]
        assert [len(first[0]), len(second[0])] == [1, 1]


@pytest.mark.parametrize("n", COUNTS)
def test_no_port_carries_more_than_the_price_says(n: int) -> None:
    """Broadcast: at most M out of a rank and M into it. All-reduce: at most 2M each way, in units of half a payload."""
    trees = double_tree(n)
    for rank in range(n):
        down_out = sum(len(children(parents)[rank]) for parents in trees)
        down_in = sum(parents[rank] >= 0 for parents in trees)
        assert down_in <= 2
        assert down_out <= 2
        assert down_out + down_in <= 4


def crossings(n: int, domain: int) -> tuple[dict[int, int], dict[int, int]]:
    """By domain: edges whose parent is inside and child outside, and the other way round."""
    above, below = dict.fromkeys(range(-(-n // domain)), 0), dict.fromkeys(range(-(-n // domain)), 0)
    for parents in double_tree(n):
        for child, parent in enumerate(parents):
            if parent >= 0 and parent // domain != child // domain:
                above[parent // domain] += 1
                below[child // domain] += 1
    return above, below


@pytest.mark.parametrize("n", [2, 3, 5, 8, 9, 16, 24, 33, 64, 72, 100, 130])
@pytest.mark.parametrize("domain", [1, 2, 3, 4, 8, 12, 32])
def test_edges_leaving(n: int, domain: int) -> None:
    above, below = crossings(n, domain)
    assert edges_leaving(n, domain, both_ways=False) == max(above.values())
    assert edges_leaving(n, domain, both_ways=True) == max(above[d] + below[d] for d in above)


@pytest.mark.parametrize(("n", "domain"), [(8, 8), (5, 8), (2, 64)])
def test_nothing_leaves_a_domain_that_holds_everybody(n: int, domain: int) -> None:
    assert edges_leaving(n, domain, both_ways=True) == 0


def test_a_reduction_leaves_no_domain_oftener_than_a_broadcast_does() -> None:
    """Pipelined-tree serves both primitives with one count, made for the broadcast: edges out of the parent's domain."""
    worse = []
    for n in range(2, 66):
        for domain in (1, 2, 3, 4, 6, 8, 16):
            above, below = crossings(n, domain)
            if domain < n and max(below.values()) > max(above.values()):
                worse.append((n, domain, max(above.values()), max(below.values())))
    assert not worse
