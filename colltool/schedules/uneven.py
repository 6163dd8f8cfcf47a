"""Schedules between domains of different sizes: NCCL's trees over rails, and shards dealt out over
the ranks of a domain."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from colltool.algorithms.program import Batches, Edges, Program, gathered, schedule, step
from colltool.base.primitives import AG, AR, RS, Primitive
from colltool.network.arrays import Floats, Indices
from colltool.network.group import Group
from colltool.schedules.gather_scatter import on_rings, paths
from colltool.schedules.rooted import both_ways, edges_of, two_trees

Ends = tuple[int, int, int]  # from a rank to another a piece


def walks_over_rails(domains: Sequence[int], *, spread: bool) -> list[Indices]:
    """Of each domain walks through all its ranks, one from each of as many as the smallest has,
    shape (walks, ranks of it).

    Round it, or where these are to ``spread`` over its links over different ones: of an odd number
    two from each share them out.
    """
    rails, found, start, ways = min(domains), [], 0, 1 + any(own % 2 for own in domains)
    for own in domains:
        if spread:
            every = paths(own)
            from_each = every[np.argsort(every[:, 0], kind="stable")].reshape(own, -1, own)[:rails]
            found.append(
                start + np.repeat(from_each, ways // from_each.shape[1], axis=1).reshape(-1, own)
            )
        else:
            found.append(start + np.add.outer(np.arange(rails), np.arange(own)) % own)
        start += own
    return found


def rail_trees(domains: Sequence[int], *, spread: bool) -> Edges:
    """NCCL's trees between domains of such sizes: both over the ranks where walks start, behind
    each of which one is a chain."""
    between, found = two_trees(len(domains)), []
    for walks in zip(*walks_over_rails(domains, spread=spread), strict=True):
        heads = np.array([walk[0] for walk in walks])
        for tree in between:
            parents = np.full(sum(domains), -1)
            parents[heads] = np.where(tree >= 0, heads[tree], -1)
            for walk in walks:
                parents[walk[1:]] = walk[:-1]
            found.append(parents)
    return edges_of(found)


@schedule("multi-rail-ring", AR, AG, RS, per_pair=lambda n: 2 * n)
def _multi_rail_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Between domains of one size that is as prices have it, and not executed."""
    return on_rings(
        primitive, np.concatenate(walks_over_rails(group.domains, spread=group.spread), axis=1)
    )


@schedule("multi-rail-tree", AR)
def _multi_rail_tree(primitive: Primitive, group: Group, segments: int) -> Program:
    """As a double binary tree, of as many pairs of trees as the smallest domain has ranks."""
    return both_ways(
        primitive, group.ranks, rail_trees(group.domains, spread=group.spread), segments
    )


@schedule("multi-rail-direct", AG, RS, per_pair=lambda n: n)
def _multi_rail_direct(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Each rank's shard in pieces, cut wherever a domain has a share that ends: piece ``p`` of rank
    ``r`` is r * pieces + p."""
    ends = sorted({at / own for own in set(group.domains) for at in range(1, own + 1)})
    sizes = np.diff([0.0, *ends])
    home = np.repeat(np.arange(group.ranks), len(sizes))
    batches = gathered(primitive, lambda: _dealt(group.domains, np.array(ends) - sizes / 2))
    chunk_bytes = np.tile(sizes / group.ranks, group.ranks)
    return Program(
        primitive,
        group.ranks,
        group.ranks,
        chunk_bytes,
        home=home,
        target=home,
        batches=batches,
        streamed=True,
    )


def _dealt(domains: Sequence[int], middles: Floats) -> Batches:
    """Across, and one's own inside; then inside what has come. ``middles``: of the pieces, as
    shares of a shard."""
    start = [0, *accumulate(domains)]
    across, inside = list[Ends](), list[Ends]()
    for rank, piece in np.ndindex(start[-1], len(middles)):
        for first, own in zip(start, domains, strict=False):
            taker = rank if first <= rank < first + own else first + int(middles[piece] * own)
            others = [one for one in range(first, first + own) if one != taker]
            if taker == rank:
                across += [(rank, one, rank * len(middles) + piece) for one in others]
            else:
                across.append((rank, taker, rank * len(middles) + piece))
                inside += [(taker, one, rank * len(middles) + piece) for one in others]
    for moved in (across, inside):
        if moved:
            yield (step(*np.array(moved).T),)
