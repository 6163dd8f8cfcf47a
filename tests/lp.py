"""The best that any routing and any schedule could do on a graph of links, by linear programmes:
what prices are held against.

Links are arcs ``(from, to): bytes/s``, one direction each, parallel ones summed. Nodes 0 .. ranks-1
are ranks, all others only forward. Latency is left out, and time is continuous: seconds for M = 1
byte per rank as the primitive counts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # scipy takes a second to import, and most tests of a run need none of it
    from scipy.sparse import csr_array

Arcs = Mapping[tuple[int, int], float]
Twist = Mapping[int, Sequence[int]]


def both_ways(pairs: Iterable[tuple[int, int]], Bps: float = 1.0) -> dict[tuple[int, int], float]:
    """Arcs of cables: each pair is one cable that carries ``Bps`` in each direction; a pair named
    twice is two cables."""
    arcs: dict[tuple[int, int], float] = {}
    for a, b in pairs:
        for ends in ((a, b), (b, a)):
            arcs[ends] = arcs.get(ends, 0.0) + Bps
    return arcs


def lattice(
    shape: Sequence[int], *, wrap: bool = True, twist: Twist | None = None
) -> dict[tuple[int, int], float]:
    """Arcs of a torus or mesh, axis 1 fastest; an axis of 2 is one cable.

    ``twist``: the wraparound of an axis lands shifted by so many places along every axis.
    """
    nodes = np.indices(shape[::-1]).reshape(len(shape), -1)[::-1].T
    index = {tuple(map(int, node)): number for number, node in enumerate(nodes)}
    cables: list[tuple[int, int]] = []
    for place, number in index.items():
        for axis, size in enumerate(shape):
            there, shift = list(place), (twist or {}).get(axis, [0] * len(shape))
            there[axis] += 1
            if there[axis] == size:
                if not wrap or (size < 3 and not any(shift)):
                    continue
                there[axis] = 0
                there = [one + by for one, by in zip(there, shift, strict=True)]
            other = index[tuple(one % length for one, length in zip(there, shape, strict=True))]
            if number != other:
                cables.append((number, other))
    return both_ways(cables)


def _balance(arcs: Arcs) -> csr_array:
    """What leaves less what enters each node, shape (nodes, arcs)."""
    from scipy.sparse import csr_array

    ends, count = np.array(list(arcs)), len(arcs)
    rows, columns = np.concatenate([ends[:, 0], ends[:, 1]]), np.tile(np.arange(count), 2)
    return csr_array(
        (np.repeat([1.0, -1.0], count), (rows, columns)), shape=(int(ends.max()) + 1, count)
    )


def _solved(cost: np.ndarray, **constraints: object) -> float:
    from scipy.optimize import linprog

    found = linprog(cost, method="highs", **constraints)
    assert found.success, found.message
    return float(found.fun)


def all_to_all_s(arcs: Arcs, ranks: int, sources: Sequence[int] | None = None) -> float:
    """Least seconds in which each rank sends 1/N byte to every other: the inverse of the maximum
    concurrent flow.

    A commodity for each source, as flows of one source never need to be told apart. ``sources``:
    all ranks; fewer only give a lower bound.
    """
    from scipy.sparse import csr_array, hstack, kron

    balance, capacity = _balance(arcs), np.array(list(arcs.values()))
    nodes, every = balance.shape[0], range(ranks) if sources is None else sources
    wanted = np.zeros((len(every), nodes))
    wanted[:, :ranks] = -1.0 / ranks
    for row, source in enumerate(every):
        wanted[row, source] = (ranks - 1) / ranks
    flows = kron(csr_array(np.eye(len(every))), balance)
    shared = kron(csr_array(np.ones((1, len(every)))), csr_array(np.eye(len(capacity))))
    return _solved(
        np.append(np.zeros(flows.shape[1]), 1.0),
        A_eq=hstack([flows, csr_array((flows.shape[0], 1))]).tocsr(),
        b_eq=wanted.ravel(),
        A_ub=hstack([shared, csr_array(-capacity[:, None])]).tocsr(),
        b_ub=np.zeros(len(capacity)),
    )


def relayed_all_to_all_s(takes: np.ndarray) -> float:
    """As :func:`all_to_all_s` where ranks forward and every hop between two goes by the network's
    own route.

    ``takes``: seconds of a byte from each rank to each other on every link, shape (N, N, links).
    """
    from scipy.sparse import csr_array, hstack, kron

    ranks = len(takes)
    src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
    hops, load = len(src), csr_array(takes[src, dst].T)
    wanted = np.eye(ranks) - 1 / ranks
    flows = kron(
        csr_array(np.eye(ranks)),
        _balance(dict.fromkeys(zip(src.tolist(), dst.tolist(), strict=True), 1.0)),
    )
    return _solved(
        np.append(np.zeros(ranks * hops), 1.0),
        A_eq=hstack([flows, csr_array((flows.shape[0], 1))]).tocsr(),
        b_eq=wanted.ravel(),
        A_ub=hstack(
            [kron(csr_array(np.ones((1, ranks))), load), csr_array(-np.ones((load.shape[0], 1)))]
        ).tocsr(),
        b_ub=np.zeros(load.shape[0]),
    )


def _into(arcs: Arcs, givers: Sequence[int], taker: int) -> float:
    """The most bytes/s that each giver can send to the taker, all at once and alike: a flow to one
    sink."""
    from scipy.sparse import csr_array, hstack

    balance, capacity = _balance(arcs), list(arcs.values())
    wanted = np.zeros((balance.shape[0], 1))
    wanted[list(givers), 0] = 1.0
    wanted[taker, 0] -= len(givers)
    flow = hstack([balance, csr_array(-wanted)]).tocsr()
    cost = np.append(np.zeros(len(capacity)), -1.0)
    return -_solved(
        cost,
        A_eq=flow,
        b_eq=np.zeros(flow.shape[0]),
        bounds=[*((0, one) for one in capacity), (0, None)],
    )


def all_gather_s(arcs: Arcs, ranks: int, takers: Iterable[int] | None = None) -> float:
    """Least seconds of an all-gather whose result is 1 byte, or of a reduce-scatter on the same
    links turned round.

    Trees that copy on the way pack up to the worst cut, and that is what each rank could take in
    alone from all others.
    Source: J. Edmonds, Edge-disjoint branchings, 1973; ForestColl (L. Zhao et al.,
        arXiv:2402.06787). ``takers``: all ranks;
    one is enough where all are alike, and fewer only give a lower bound.
    """
    every = range(ranks)
    return max(
        1.0 / ranks / _into(arcs, [one for one in every if one != taker], taker)
        for taker in takers or every
    )


def broadcast_s(arcs: Arcs, ranks: int, root: int = 0) -> float:
    """Least seconds to bring 1 byte from the root to all ranks; a reduce is that on the links
    turned round.

    Source: Edmonds: as many bytes/s as the least that one rank alone could take from the root.
    """
    return max(1.0 / _into(arcs, [root], taker) for taker in range(ranks) if taker != root)


def turned_round(arcs: Arcs) -> dict[tuple[int, int], float]:
    """Every arc the other way."""
    return {(b, a): Bps for (a, b), Bps in arcs.items()}
