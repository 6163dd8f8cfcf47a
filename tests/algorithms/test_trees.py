"""The double binary tree as a graph: what it must be for its price to hold, and the edges that
leave a domain."""

from __future__ import annotations

from math import ceil, log2

from swept import swept

from colltool.algorithms.binary_trees import (
    double_tree,
    double_tree_arrays,
    most_edges_leaving,
    one_root_tree_arrays,
    one_root_trees,
)

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
    below: list[list[int]] = [[] for _ in parents]
    for child, parent in enumerate(parents):
        if parent >= 0:
            below[parent].append(child)
    return below


@swept("n", COUNTS)
def test_both_trees_are_binary_and_span_every_rank(n: int) -> None:
    for parents in double_tree(n):
        assert len(parents) == n
        assert sum(parent < 0 for parent in parents) == 1
        assert all(parent < n for parent in parents)
        depths(parents)
        assert max(len(below) for below in children(parents)) <= 2


@swept("n", COUNTS)
def test_neither_tree_is_deeper_than_the_rounds_it_is_charged(n: int) -> None:
    assert max(depths(double_tree(n)[0])) <= ceil(log2(n))
    assert max(depths(double_tree(n)[1])) <= ceil(log2(n))


@swept("n", COUNTS)
def test_every_rank_is_interior_in_at_most_one_tree(n: int) -> None:
    """Exactly so for even N. For odd N the first root, rank 0, is interior in both, with a single
    child in each: no port pays."""
    first, second = (children(parents) for parents in double_tree(n))
    both = [rank for rank in range(n) if first[rank] and second[rank]]
    if n % 2 == 0:
        assert both == []
    else:
        assert both == [0]
        assert [len(first[0]), len(second[0])] == [1, 1]


@swept("n", COUNTS)
def test_no_port_carries_more_than_the_price_says(n: int) -> None:
    """Broadcast: at most M out of a rank and M into it. All-reduce: at most 2M each way, in units
    of half a payload."""
    trees = double_tree(n)
    below = [children(parents) for parents in trees]
    for rank in range(n):
        down_out = sum(len(one[rank]) for one in below)
        down_in = sum(parents[rank] >= 0 for parents in trees)
        assert down_in <= 2
        assert down_out <= 2
        assert down_out + down_in <= 4


@swept("n", COUNTS)
def test_the_trees_are_those_that_are_executed(n: int) -> None:
    assert [list(one) for one in double_tree(n)] == [one.tolist() for one in double_tree_arrays(n)]
    assert [list(one) for one in one_root_trees(n)] == [
        one.tolist() for one in one_root_tree_arrays(n)
    ]


def crossings(
    n: int, domain: int, trees: tuple[tuple[int, ...], ...]
) -> tuple[dict[int, int], dict[int, int]]:
    """By domain: edges whose parent is inside and child outside, and the other way round."""
    above, below = (
        dict.fromkeys(range(-(-n // domain)), 0),
        dict.fromkeys(range(-(-n // domain)), 0),
    )
    for parents in trees:
        for child, parent in enumerate(parents):
            if parent >= 0 and parent // domain != child // domain:
                above[parent // domain] += 1
                below[child // domain] += 1
    return above, below


@swept("n", [2, 3, 5, 8, 9, 16, 24, 33, 64, 72, 100, 130])
@swept("domain", [1, 2, 3, 4, 8, 12, 32])
def test_edges_leaving(n: int, domain: int) -> None:
    above, below = crossings(n, domain, one_root_trees(n))
    assert most_edges_leaving(n, domain, both_ways=False) == max(*above.values(), *below.values())
    above, below = crossings(n, domain, double_tree(n))
    assert most_edges_leaving(n, domain, both_ways=True) == max(above[d] + below[d] for d in above)


@swept(("n", "domain"), [(8, 8), (5, 8), (2, 64)])
def test_nothing_leaves_a_domain_that_holds_everybody(n: int, domain: int) -> None:
    assert most_edges_leaving(n, domain, both_ways=True) == 0
