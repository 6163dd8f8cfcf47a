"""Who sends how many bytes to whom: the traffic of a collective's algorithm, all its steps added up.

Bytes are in units of M, as the primitive counts it; members are numbered 0 .. N-1 in the order of their group. Adding up steps
keeps what a link carries in all and loses when: a schedule whose steps load different links in turn waits longer than the
busiest sum tells.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import colltool.algorithms as _filled  # the registry fills on import
from colltool.algorithms.registry import find
from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, SHORT, Primitive, log2_ceil
from colltool.congestion.seats import TierSeats
from colltool.fabric.model import Fabric
from colltool.schedules.links import Floats, Indices

assert _filled

MOST_MESSAGES = 2**21
"""Pairs that a run follows: beyond it, minutes and gigabytes."""


class Traffic(NamedTuple):
    """Messages between members, shape (m,) each; ``neighbours``: laid out well, each is one hop on links of its own."""

    src: Indices
    dst: Indices
    size: Floats
    neighbours: bool = False


class SubLattice(NamedTuple):
    """A group that fills a box of a torus or mesh.

    Args:
        members: by their coordinates, the last axis first.
        rings: of each of those axes, whether its lines close.
    """

    members: Indices
    rings: tuple[bool, ...]


class Members(NamedTuple):
    """A group as its traffic sees it: N, how its members stand on a lattice, for an algorithm that goes by its axes, and how they
    sit on the tiers, for one that is known by its schedule.
    """

    ranks: int
    lattice: SubLattice | None = None
    seated: TierSeats | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The same for groups whose members send the same."""
        lattice, sits = self.lattice, self.seated
        axes = None if lattice is None else (lattice.members.shape, lattice.members.tobytes(), lattice.rings)
        return self.ranks, axes, None if sits is None else sits.key


Maker = Callable[[Members, Primitive], Traffic]


class TrafficRow(NamedTuple):
    """An algorithm whose partners are known.

    Args:
        maker: its traffic.
        dense: every member sends straight to every other.
        default: what a group of this primitive runs that names none.
        by_axes: it needs to know how its members stand on a lattice.
        seats: how its members sit on the tiers of a fabric, by their endpoints, where it needs to know that.
    """

    maker: Maker
    dense: bool = False
    default: bool = False
    by_axes: bool = False
    seats: Callable[[Fabric, Indices], TierSeats] | None = None


_ROWS: dict[tuple[Primitive, str], TrafficRow] = {}


def _traffic(
    name: str, *primitives: Primitive, dense: bool = False, default: bool = False, by_axes: bool = False
) -> Callable[[Maker], Maker]:
    """Registers a maker of traffic for some primitives."""

    def register(maker: Maker) -> Maker:
        for primitive in primitives:
            _ROWS[primitive, name] = TrafficRow(maker, dense, default, by_axes)
        return maker

    return register


def listed(primitive: Primitive, algorithm: str) -> TrafficRow | None:
    """The row of an algorithm whose partners are known, or None."""
    return _ROWS.get((primitive, algorithm))


def row_of(primitive: Primitive, algorithm: str) -> TrafficRow:
    """What is known of an algorithm's partners.

    Raises:
        ColltoolError: no such algorithm, or one whose partners are not modelled.
    """
    row = listed(primitive, algorithm)
    if row is not None:
        return row
    known = modelled(primitive)
    if not isinstance(algorithm, str):
        raise ColltoolError(f"expected the name of an algorithm, got {algorithm!r}", argument="algorithm", fix=", ".join(known))
    find(primitive, algorithm, known)
    what = f"the partners of '{algorithm}' ({SHORT[primitive]}) are not modelled link by link"
    fix = f"no schedule says what it sends where; modelled: {', '.join(known)}, and what verify executes"
    raise ColltoolError(what, argument="algorithm", fix=fix)


def modelled(primitive: Primitive) -> list[str]:
    """The algorithms of a primitive whose partners are known."""
    return [name for one, name in _ROWS if one is primitive]


def default_of(primitive: Primitive) -> str:
    """The algorithm of a group that names none."""
    return next(name for (one, name), row in _ROWS.items() if one is primitive and row.default)


def traffic(primitive: Primitive, algorithm: str, members: Members) -> Traffic:
    """The traffic of one collective.

    Raises:
        ColltoolError: no such algorithm, one whose partners are not modelled, or a group that it cannot run on.
    """
    return row_of(primitive, algorithm).maker(members, primitive)


def messages_of(row: TrafficRow, ranks: int) -> int:
    """About how many pairs :func:`traffic` would list, before it lists them."""
    return ranks * (ranks - 1 if row.dense else log2_ceil(ranks))


def _power_of_two(ranks: int, name: str) -> None:
    if ranks & (ranks - 1):
        raise ColltoolError(f"{name} needs a power-of-two rank count, got {ranks}", argument="algorithm")


def _to_next(ranks: int, size: float) -> Traffic:
    here = np.arange(ranks)
    return Traffic(here, (here + 1) % ranks, np.full(ranks, size), neighbours=True)


def _to_all(ranks: int, size: float) -> Traffic:
    src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
    return Traffic(src, dst, np.full(len(src), size))


def _at_distances(ranks: int, sizes: Sequence[float], partner: Callable[[Indices, int], Indices]) -> Traffic:
    """Round k of each member with the partner at distance 2^k."""
    here = np.arange(ranks)
    dst = np.concatenate([partner(here, 1 << k) for k in range(len(sizes))])
    return Traffic(np.tile(here, len(sizes)), dst, np.repeat(np.asarray(sizes, dtype=np.float64), ranks))


@_traffic("ring", AR, AG, RS, default=True)
def _ring(members: Members, primitive: Primitive) -> Traffic:
    """Every byte but a rank's own passes every rank, twice in an all-reduce."""
    n = members.ranks
    return _to_next(n, (2 if primitive is AR else 1) * (n - 1) / n)


@_traffic("dim-ring", AR, AG, RS, by_axes=True)
def _dim_ring(members: Members, primitive: Primitive) -> Traffic:
    """A reduce-scatter along each axis in turn, the payload shrinking by each; an all-gather is that backwards, every message
    the other way; an all-reduce is both.
    """
    if members.lattice is None:
        what = "dim-ring needs a group that fills a sub-lattice of a torus or mesh"
        raise ColltoolError(what, argument="algorithm", fix=f"{given('algorithm', 'ring')} runs on any group")
    src, dst, size, payload = [], [], [], 1.0
    grid, rings = members.lattice
    for axis in reversed(range(grid.ndim)):
        line = np.moveaxis(grid, axis, -1)
        up, down = (payload * share for share in _reduce_scatter_along(line.shape[-1], ring=rings[axis]))
        forth, back = {RS: (up, down), AG: (down, up), AR: (up + down, up + down)}[primitive]
        here, there = (ends[..., : len(up)] for ends in (line, np.roll(line, -1, -1)))
        for one, other, sizes in ((here, there, forth), (there, here, back)):
            used = sizes > 0
            src.append(one[..., used].ravel())
            dst.append(other[..., used].ravel())
            size.append(np.broadcast_to(sizes[used], one[..., used].shape).ravel())
        payload /= line.shape[-1]
    return Traffic(np.concatenate(src), np.concatenate(dst), np.concatenate(size), neighbours=True)


def _reduce_scatter_along(d: int, *, ring: bool) -> tuple[Floats, Floats]:
    """What each link of a line of d places carries upwards and downwards, in units of what a place holds at first.

    A ring takes every block but one's own upwards. On an open line the sums of a block flow to its place from both ends.
    """
    if ring:
        return np.full(d, (d - 1) / d), np.zeros(d)
    below = np.arange(1, d)
    return (d - below) / d, below / d


@_traffic("shortest-path", A2A, dense=True)
@_traffic("pairwise", A2A, dense=True, default=True)
@_traffic("direct", AG, RS, A2A, dense=True)
def _each_to_each(members: Members, _: Primitive) -> Traffic:
    return _to_all(members.ranks, 1 / members.ranks)


@_traffic("one-shot", AR, dense=True)
def _one_shot(members: Members, _: Primitive) -> Traffic:
    return _to_all(members.ranks, 1.0)


@_traffic("two-shot", AR, dense=True)
def _two_shot(members: Members, _: Primitive) -> Traffic:
    return _to_all(members.ranks, 2 / members.ranks)


@_traffic("bruck", A2A)
def _bruck(members: Members, _: Primitive) -> Traffic:
    """In round k every block whose slot has bit k set moves on by 2^k."""
    n = members.ranks
    slots = np.arange(n)
    sizes = [float(np.count_nonzero(slots >> k & 1)) / n for k in range(log2_ceil(n))]
    return _at_distances(n, sizes, lambda here, apart: (here + apart) % n)


@_traffic("recursive-doubling", AR)
def _doubling_all_reduce(members: Members, _: Primitive) -> Traffic:
    _power_of_two(members.ranks, "recursive-doubling")
    return _at_distances(members.ranks, [1.0] * log2_ceil(members.ranks), np.bitwise_xor)


@_traffic("rabenseifner", AR)
def _rabenseifner(members: Members, _: Primitive) -> Traffic:
    return _halving(members, "rabenseifner", 2.0)


@_traffic("recursive-halving", RS)
def _halving_reduce_scatter(members: Members, _: Primitive) -> Traffic:
    return _halving(members, "recursive-halving", 1.0)


@_traffic("recursive-doubling", AG)
def _doubling_all_gather(members: Members, _: Primitive) -> Traffic:
    return _halving(members, "recursive-doubling", 1.0)


def _halving(members: Members, name: str, times: float) -> Traffic:
    """Half of the vector to the farthest partner, a quarter to the next nearer one ..."""
    n = members.ranks
    _power_of_two(n, name)
    return _at_distances(n, [times * 2.0**k / n for k in range(log2_ceil(n))], np.bitwise_xor)


@_traffic("chain", BC, REDUCE, default=True)
def _chain(members: Members, primitive: Primitive) -> Traffic:
    """Member 0 is the root."""
    here = np.arange(members.ranks - 1)
    src, dst = (here, here + 1) if primitive is BC else (here + 1, here)
    return Traffic(src, dst, np.ones(len(here)), neighbours=True)


@_traffic("send", P2P, default=True)
def _send(members: Members, _: Primitive) -> Traffic:
    if members.ranks != 2:
        raise ColltoolError(f"p2p joins 2 ranks, got a group of {members.ranks}", argument="algorithm", fix="groups of 2")
    return Traffic(np.array([0]), np.array([1]), np.ones(1), neighbours=True)
