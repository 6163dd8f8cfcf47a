"""Traffic that follows from an algorithm's formula: from the route of its terms, without execution.

:func:`row_by_formula` says whether it does; :func:`traffic` makes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np

from colltool.algorithms.partners import pairs_of_round
from colltool.algorithms.registry import find
from colltool.base import primitives as routes
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, SHORT, Primitive, Terms
from colltool.congestion.traffic import (
    Members,
    Traffic,
    TrafficRow,
    all_together,
    ring_instead,
    ring_traffic,
)
from colltool.network.group import Group

# Algorithms whose traffic follows from their formula's route; the first of a primitive is its default.
_BY_FORMULA = {
    AR: ("ring", "dim-ring", "one-shot", "two-shot", "recursive-doubling", "rabenseifner"),
    AG: ("ring", "dim-ring", "direct", "recursive-doubling"),
    RS: ("ring", "dim-ring", "direct", "recursive-halving"),
    A2A: ("direct", "pairwise", "shortest-path", "bruck"),
    BC: ("chain",),
    REDUCE: ("chain",),
    P2P: ("send",),
}


def row_by_formula(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm whose traffic follows from its route, or None."""
    if algorithm not in _BY_FORMULA[primitive]:
        return None
    if algorithm == "dim-ring":
        return TrafficRow(partial(_dim_ring, primitive), by_axes=True)
    if algorithm == "shortest-path":  # a lattice routes what pairwise sends
        algorithm = "pairwise"
    # The kind of route is the same on any group, and in all phases of these algorithms; four ranks
    # under a switch meet every condition of theirs.
    first_phase = find(primitive, algorithm).schedule(Group(4, "star"))[0]
    dense = isinstance(first_phase.route, routes.Peers | routes.AllPeers)
    return TrafficRow(partial(_by_route, primitive, algorithm), dense=dense)


def unmodelled_error(primitive: Primitive, algorithm: str) -> ColltoolError:
    """The error of an algorithm whose traffic is not known, to be raised; it lists those that follow from
    their formula.

    Raises:
        ColltoolError: no algorithm of the primitive has this name.
    """
    known = modelled(primitive)
    # Raises an error of its own where no algorithm has this name.
    find(primitive, algorithm, known)
    what = f"the partners of '{algorithm}' ({SHORT[primitive]}) are not modelled link by link"
    fix = f"no schedule is written for it; modelled: {', '.join(known)}, and what verify executes"
    return ColltoolError(what, argument="algorithm", fix=fix)


def modelled(primitive: Primitive) -> list[str]:
    """Algorithms whose traffic follows from their formula."""
    return list(_BY_FORMULA[primitive])


def default_of(primitive: Primitive) -> str:
    """The algorithm of a group that names none: the first above, but of all-to-alls the one that
    NCCL, RCCL and MPI run."""
    return "pairwise" if primitive is A2A else _BY_FORMULA[primitive][0]


def traffic(primitive: Primitive, algorithm: str, members: Members) -> Traffic:
    """The messages of an algorithm whose traffic follows from its route, in units of M."""
    row = row_by_formula(primitive, algorithm)
    if row is None:
        raise unmodelled_error(primitive, algorithm)
    return row.make_traffic(members)


def _by_route(primitive: Primitive, name: str, members: Members) -> Traffic:
    """Traffic that follows from the route of the formula; ColltoolError where the algorithm does not run
    on as many ranks."""
    n = members.ranks
    # Any topology will do: only the route is read, and the star is free of conditions.
    star = Group(n, "star")
    algorithm = find(primitive, name)
    for requirement in algorithm.requires:
        reason = requirement(star)
        if reason:
            raise ColltoolError(f"{name} {reason}", argument="algorithm")
    schedule = algorithm.schedule(star)
    # Rings, chains and sends have a single phase.
    match schedule[0].route:
        case routes.Ring():
            # In all steps together each rank sends n_β·M to the next.
            return ring_traffic(n, schedule[0].n_beta)._replace(neighbours=True)
        case routes.Pair() if n != 2:
            what = f"p2p joins 2 ranks, got a group of {n}"
            raise ColltoolError(what, argument="algorithm", fix="groups of 2")
        case routes.Chain() | routes.Pair():
            # Each member to the next; a reduction goes back to the root, member 0.
            src = np.arange(n - 1)
            dst = src + 1
            if primitive is REDUCE:
                src, dst = dst, src
            return Traffic(src, dst, np.ones(n - 1), neighbours=True)
        case _:
            return _among_peers(schedule, n)


def _among_peers(schedule: Sequence[Terms], n: int) -> Traffic:
    """The traffic of phases that all exchange with every peer, or that all go in rounds with one partner
    after the other; rounds with the same partner are one message."""
    to_each_peer = 0.0  # in units of M
    # the same by stride and kind of partner
    rounds: defaultdict[tuple[int, routes.Partner], float] = defaultdict(float)
    for terms in schedule:
        match terms.route:
            case routes.AllPeers(per_peer):
                to_each_peer += per_peer
            case routes.Peers():  # chunks of M/N
                to_each_peer += 1 / n
            case routes.Rounds(partner, steps):
                for stride, load in steps:
                    rounds[stride, partner] += load
            case _:
                raise TypeError(f"no traffic of {terms.route!r}")
    if to_each_peer:
        src, dst = np.nonzero(~np.eye(n, dtype=bool))
        return Traffic(src, dst, np.full(len(src), to_each_peer))
    parts = []
    for (stride, partner), size in sorted(rounds.items()):
        src, dst = pairs_of_round(partner, stride, n)
        parts.append(Traffic(src, dst, np.full(len(src), size)))
    return all_together(parts)


def _dim_ring(primitive: Primitive, members: Members) -> Traffic:
    """Traffic of a reduce-scatter along each axis in turn, the payload shrinking; an all-gather is
    the same backwards, an all-reduce both.

    No chunk is followed: all lines along an axis do the same, and what a link carries in total
    depends only on its place in the line.
    """
    if members.lattice is None:
        raise ring_instead("dim-ring needs a group that fills a sub-lattice of a torus or mesh")
    grid, rings = members.lattice
    parts = []
    payload = 1.0
    for axis in reversed(range(grid.ndim)):
        line = np.moveaxis(grid, axis, -1)
        places = line.shape[-1]  # on each line
        # What crosses each link of the line, up and down, in units of what a place holds at first;
        # link k joins places k and k + 1.
        if rings[axis]:
            # Round a ring of 4 each link passes 3 of the 4 blocks, all in one direction.
            forth = payload * np.full(places, (places - 1) / places)
            back = np.zeros(places)
        else:
            # On an open line the sums of a block flow to its place from both ends: up over a link
            # go the blocks of all places above it, down those of all places below. Of 4 places the
            # three links pass 3, 2 and 1 quarters up, 1, 2 and 3 down.
            below = np.arange(1, places)
            forth = payload * ((places - below) / places)
            back = payload * (below / places)
        # Backwards every message turns round; an all-reduce does both.
        if primitive is AG:
            forth, back = back, forth
        elif primitive is AR:
            forth = back = forth + back
        lower = line[..., : len(forth)]
        upper = np.roll(line, -1, -1)[..., : len(forth)]
        for src, dst, sizes in ((lower, upper, forth), (upper, lower, back)):
            # the same places on every line, which is the last axis
            used = sizes > 0
            size = np.broadcast_to(sizes, src.shape)
            parts.append(
                Traffic(src[..., used].ravel(), dst[..., used].ravel(), size[..., used].ravel())
            )
        payload /= places
    return all_together(parts)._replace(neighbours=True)
