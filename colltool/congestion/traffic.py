"""Who sends how many bytes to whom: the traffic of a collective's algorithm, all its steps added up.

It follows from the routes of the formula, so that groups of a million ranks need no execution. Bytes are in units of M, members
are numbered 0 .. N-1 in group order. The sums lose timing: a schedule whose steps load different links in turn takes longer
than the busiest sum says.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

import colltool.algorithms as _filled  # the registry fills on import
from colltool.algorithms.group import Group
from colltool.algorithms.registry import find
from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    BC,
    P2P,
    REDUCE,
    RS,
    SHORT,
    AllPeers,
    Chain,
    Pair,
    Peers,
    Primitive,
    Ring,
    Rounds,
    log2_ceil,
)
from colltool.fabric.model import Fabric
from colltool.schedules.links import Floats, Indices

assert _filled

MOST_MESSAGES = 2**21  # pairs that a run follows: beyond it, minutes and gigabytes

_MODELLED = {
    AR: ("ring", "dim-ring", "one-shot", "two-shot", "recursive-doubling", "rabenseifner"),
    AG: ("ring", "dim-ring", "direct", "recursive-doubling"),
    RS: ("ring", "dim-ring", "direct", "recursive-halving"),
    A2A: ("direct", "pairwise", "shortest-path", "bruck"),
    BC: ("chain",),
    REDUCE: ("chain",),
    P2P: ("send",),
}


class Traffic(NamedTuple):
    """Messages between members, shape (m,) each; ``neighbours``: laid out well, each is one hop on a link of its own."""

    src: Indices
    dst: Indices
    size: Floats
    neighbours: bool = False


class TierSeats(NamedTuple):
    """How a group with as many members in every domain sits on its tiers: what a schedule over several has to know."""

    groups: tuple[Group, ...]  # the tiers that it spans, innermost first, each seen alone
    whole: Group  # all of it seen flat
    order: Indices  # the member on each seat, innermost fastest; schedules number members by seat


class SubLattice(NamedTuple):
    """A group that fills a box of a torus or mesh."""

    members: Indices  # by their coordinates, the last axis first
    rings: tuple[bool, ...]  # whether lines along each of those axes close


class Members(NamedTuple):
    """A group as its traffic sees it."""

    ranks: int
    lattice: SubLattice | None = None  # for algorithms that go by its axes
    seated: TierSeats | None = None  # on the tiers, for algorithms known by their schedule

    @property
    def key(self) -> tuple[object, ...]:
        lattice, sits = self.lattice, self.seated
        axes = None if lattice is None else (lattice.members.shape, lattice.members.tobytes(), lattice.rings)
        return self.ranks, axes, None if sits is None else (sits.groups, sits.whole)


class TrafficRow(NamedTuple):
    """An algorithm whose traffic is known."""

    maker: Callable[[Members, Primitive], Traffic]
    dense: bool = False  # every member sends straight to every other
    by_axes: bool = False  # it needs ``Members.lattice``
    seats: Callable[[Fabric, Indices], TierSeats] | None = None  # how members sit, where it needs ``Members.seated``


def listed(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm whose traffic follows from its route, or None."""
    if algorithm not in _MODELLED[primitive]:
        return None
    if algorithm == "dim-ring":
        return TrafficRow(_dim_ring, by_axes=True)
    if algorithm == "shortest-path":  # a lattice routes what pairwise sends
        return TrafficRow(partial(_by_route, "pairwise"), dense=True)
    routes = [terms.route for terms in find(primitive, algorithm).schedule(Group(4, "star"))]
    return TrafficRow(partial(_by_route, algorithm), dense=isinstance(routes[0], Peers | AllPeers))


def row_of(primitive: Primitive, algorithm: str) -> TrafficRow:
    """As :func:`listed`, or an error that says what is modelled."""
    known = modelled(primitive)
    if not isinstance(algorithm, str):
        raise ColltoolError(f"expected the name of an algorithm, got {algorithm!r}", argument="algorithm", fix=", ".join(known))
    if row := listed(primitive, algorithm):
        return row
    find(primitive, algorithm, known)
    what = f"the partners of '{algorithm}' ({SHORT[primitive]}) are not modelled link by link"
    fix = f"no schedule is written for it; modelled: {', '.join(known)}, and what verify executes"
    raise ColltoolError(what, argument="algorithm", fix=fix)


def modelled(primitive: Primitive) -> list[str]:
    return list(_MODELLED[primitive])


def default_of(primitive: Primitive) -> str:
    """The algorithm of a group that names none."""
    return "pairwise" if primitive is A2A else _MODELLED[primitive][0]


def traffic(primitive: Primitive, algorithm: str, members: Members) -> Traffic:
    return row_of(primitive, algorithm).maker(members, primitive)


def messages_of(row: TrafficRow, ranks: int) -> int:
    """About how many pairs the row's maker would list."""
    return ranks * (ranks - 1 if row.dense else log2_ceil(ranks))


def _by_route(name: str, members: Members, primitive: Primitive) -> Traffic:
    """Sends by the parts of the formula; rounds with the same partner are one message."""
    n, row = members.ranks, find(primitive, name)
    reason = next((reason for check in row.requires if (reason := check(Group(n, "star")))), None)
    if reason:
        raise ColltoolError(f"{name} {reason}", argument="algorithm")
    here, each, rounds = np.arange(n), 0.0, dict[int, float]()
    for terms in row.schedule(Group(n, "star")):
        match terms.route:
            case Ring():
                return Traffic(here, (here + 1) % n, np.full(n, terms.n_beta), neighbours=True)
            case Chain():  # member 0 is the root
                src, dst = (here[:-1], here[1:]) if primitive is BC else (here[1:], here[:-1])
                return Traffic(src, dst, np.ones(n - 1), neighbours=True)
            case Pair():
                if n != 2:
                    raise ColltoolError(f"p2p joins 2 ranks, got a group of {n}", argument="algorithm", fix="groups of 2")
                return Traffic(np.array([0]), np.array([1]), np.ones(1), neighbours=True)
            case AllPeers(per_peer):
                each += per_peer
            case Peers():
                each += 1 / n
            case Rounds(partner, steps):
                for stride, load in steps:
                    rounds[stride] = rounds.get(stride, 0.0) + load
            case _:
                raise TypeError(f"no traffic of {terms.route!r}")
    if each:
        src, dst = np.nonzero(~np.eye(n, dtype=bool))
        return Traffic(src, dst, np.full(len(src), each))
    strides = sorted(rounds)
    dst = np.concatenate([here ^ stride if partner == "xor" else (here + stride) % n for stride in strides])
    return Traffic(np.tile(here, len(strides)), dst, np.repeat([rounds[stride] for stride in strides], n))


def _dim_ring(members: Members, primitive: Primitive) -> Traffic:
    """A reduce-scatter along each axis in turn, the payload shrinking; an all-gather is that backwards, an all-reduce both."""
    if members.lattice is None:
        what = "dim-ring needs a group that fills a sub-lattice of a torus or mesh"
        raise ColltoolError(what, argument="algorithm", fix=f"{given('algorithm', 'ring')} runs on any group")
    src, dst, size, payload = [], [], [], 1.0
    grid, rings = members.lattice
    for axis in reversed(range(grid.ndim)):
        line = np.moveaxis(grid, axis, -1)
        d = line.shape[-1]
        below = np.arange(1, d)
        # Up and down each link of the line: a ring takes every block but one's own upwards, in units of what a place holds at
        # first; on an open line the sums of a block flow to its place from both ends.
        shares = (np.full(d, (d - 1) / d), np.zeros(d)) if rings[axis] else ((d - below) / d, below / d)
        up, down = (payload * share for share in shares)
        forth, back = {RS: (up, down), AG: (down, up), AR: (up + down, up + down)}[primitive]
        here, there = (ends[..., : len(up)] for ends in (line, np.roll(line, -1, -1)))
        for one, other, sizes in ((here, there, forth), (there, here, back)):
            used = sizes > 0
            src.append(one[..., used].ravel())
            dst.append(other[..., used].ravel())
            size.append(np.broadcast_to(sizes[used], one[..., used].shape).ravel())
        payload /= d
    return Traffic(np.concatenate(src), np.concatenate(dst), np.concatenate(size), neighbours=True)
