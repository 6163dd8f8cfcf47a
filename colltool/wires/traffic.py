"""Who sends how many bytes to whom: the traffic of a collective's algorithm, all its steps added up.

Bytes are in units of M, as the primitive counts it; members are numbered 0 .. N-1 in the order of their group. Adding up steps
keeps what a link carries in all and loses when: a schedule whose steps load different links in turn waits longer than the
busiest sum tells.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import colltool.algorithms as _filled  # the registry fills on import
from colltool.algorithms.registry import find
from colltool.errors import ColltoolError
from colltool.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, SHORT, Primitive, log2_ceil
from colltool.schedules.step import Indices

assert _filled
Floats = NDArray[np.float64]

MOST_MESSAGES = 2**21
"""Pairs that a run follows: beyond it, minutes and gigabytes."""

DEFAULT = {AR: "ring", AG: "ring", RS: "ring", A2A: "pairwise", BC: "chain", REDUCE: "chain", P2P: "send"}
"""The algorithm of a group that names none."""


class Traffic(NamedTuple):
    """Messages between members, shape (m,) each; ``neighbours``: laid out well, each is one hop on links of its own."""

    src: Indices
    dst: Indices
    size: Floats
    neighbours: bool = False


class Members(NamedTuple):
    """A group as its traffic sees it: N, and for dim-ring its members by lattice coordinates, the last axis first."""

    ranks: int
    grid: Indices | None = None


Maker = Callable[[Members], Traffic]
_MAKERS: dict[tuple[Primitive, str], Maker] = {}


def _traffic(name: str, *primitives: Primitive) -> Callable[[Callable[[Members, Primitive], Traffic]], None]:
    def register(maker: Callable[[Members, Primitive], Traffic]) -> None:
        for primitive in primitives:
            _MAKERS[primitive, name] = lambda members, primitive=primitive: maker(members, primitive)  # type: ignore[misc]

    return register


def traffic(primitive: Primitive, algorithm: str, members: Members) -> Traffic:
    """The traffic of one collective.

    Raises:
        ColltoolError: no such algorithm, one whose partners are not modelled, or a group that it cannot run on.
    """
    maker = _MAKERS.get((primitive, algorithm))
    if maker is None:
        known = [name for prim, name in _MAKERS if prim is primitive]
        find(primitive, algorithm, known)
        what = f"the partners of '{algorithm}' ({SHORT[primitive]}) are not modelled link by link"
        fix = f"its trees or switches differ between libraries; modelled: {', '.join(known)}"
        raise ColltoolError(what, where="--algorithm", fix=fix)
    return maker(members)


def messages_of(primitive: Primitive, algorithm: str, ranks: int) -> int:
    """How many pairs :func:`traffic` would list, before it lists them."""
    dense = algorithm in ("direct", "one-shot", "two-shot") or (primitive is A2A and algorithm != "bruck")
    return ranks * (ranks - 1 if dense else log2_ceil(ranks))


def _power_of_two(ranks: int, name: str) -> None:
    if ranks & (ranks - 1):
        raise ColltoolError(f"{name} needs a power-of-two rank count, got {ranks}", where="--algorithm")


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


@_traffic("ring", AR, AG, RS)
def _ring(members: Members, primitive: Primitive) -> Traffic:
    """Every byte but a rank's own passes every rank, twice in an all-reduce."""
    n = members.ranks
    return _to_next(n, (2 if primitive is AR else 1) * (n - 1) / n)


@_traffic("dim-ring", AR, AG, RS)
def _dim_ring(members: Members, primitive: Primitive) -> Traffic:
    """A ring along each axis of a sub-lattice; the payload shrinks by each axis passed."""
    grid = members.grid
    if grid is None:
        what = "dim-ring needs a group that fills a sub-lattice of a torus or mesh"
        raise ColltoolError(what, where="--algorithm", fix="--algorithm ring runs on any group")
    src, dst, size, payload = [], [], [], 2.0 if primitive is AR else 1.0
    for axis in reversed(range(grid.ndim)):
        d = grid.shape[axis]
        if d > 1:
            src.append(grid.ravel())
            dst.append(np.roll(grid, -1, axis).ravel())
            size.append(np.full(grid.size, payload * (d - 1) / d))
        payload /= d
    return Traffic(np.concatenate(src), np.concatenate(dst), np.concatenate(size), neighbours=True)


@_traffic("direct", AG, RS, A2A)
def _direct(members: Members, _: Primitive) -> Traffic:
    return _to_all(members.ranks, 1 / members.ranks)


@_traffic("pairwise", A2A)
def _pairwise(members: Members, _: Primitive) -> Traffic:
    return _to_all(members.ranks, 1 / members.ranks)


@_traffic("shortest-path", A2A)
def _shortest_path(members: Members, _: Primitive) -> Traffic:
    return _to_all(members.ranks, 1 / members.ranks)


@_traffic("one-shot", AR)
def _one_shot(members: Members, _: Primitive) -> Traffic:
    return _to_all(members.ranks, 1.0)


@_traffic("two-shot", AR)
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


@_traffic("chain", BC, REDUCE)
def _chain(members: Members, primitive: Primitive) -> Traffic:
    """Member 0 is the root."""
    here = np.arange(members.ranks - 1)
    src, dst = (here, here + 1) if primitive is BC else (here + 1, here)
    return Traffic(src, dst, np.ones(len(here)), neighbours=True)


@_traffic("send", P2P)
def _send(members: Members, _: Primitive) -> Traffic:
    if members.ranks != 2:
        raise ColltoolError(f"p2p joins 2 ranks, got a group of {members.ranks}", where="--algorithm", fix="groups of 2")
    return Traffic(np.array([0]), np.array([1]), np.ones(1), neighbours=True)


class Skew(NamedTuple):
    """How an all-to-all leaves the uniform one: at most one of them.

    Args:
        matrix: bytes from row to column, N x N; the diagonal stays at home and does not count.
        hot: the mean's multiple that each hot destination gets; the others share the rest alike.
        hot_members: which members are hot.
        zipf: s: destination k (from 0) gets a share in proportion to (k+1)^-s.
    """

    matrix: Sequence[Sequence[float]] | Floats | None = None
    hot: float | None = None
    hot_members: tuple[int, ...] = (0,)
    zipf: float | None = None

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return any(value is not None for value in (self.matrix, self.hot, self.zipf))


def skewed(skew: Skew, ranks: int) -> tuple[Traffic, Floats]:
    """The traffic of a skewed all-to-all and the sizes of the uniform one that moves as many bytes, pair by pair.

    Both in units of M: every rank sends M in all, its own share included; under a matrix M is :func:`mean_bytes`.

    Raises:
        ColltoolError: a matrix of another shape or with entries that are no bytes, weights that no distribution has.
    """
    if skew.matrix is not None:
        sizes = _checked(as_matrix(skew.matrix), ranks) / mean_bytes(skew)
    else:
        weights = _hot(skew, ranks) if skew.hot is not None else _zipf(skew.zipf or 0.0, ranks)
        sizes = np.tile(weights / ranks, (ranks, 1))
    src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
    out = sizes[src, dst]
    return Traffic(src, dst, out), np.full(len(out), 1 / ranks)


def as_matrix(matrix: Sequence[Sequence[float]] | Floats) -> Floats:
    """Anything array-like as an array.

    Raises:
        ColltoolError: rows of different lengths, or no numbers.
    """
    try:
        return np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ColltoolError("the matrix is no table of numbers", where="--matrix", fix="rows of the same length") from error


def mean_bytes(skew: Skew) -> float:
    """M of the uniform all-to-all that moves as many bytes as the matrix: its sum off the diagonal over N - 1."""
    matrix = as_matrix(skew.matrix if skew.matrix is not None else [])
    if matrix.ndim != 2 or len(matrix) < 2 or matrix.shape[0] != matrix.shape[1]:
        shape = "x".join(map(str, matrix.shape))
        raise ColltoolError(f"the matrix is {shape}", where="--matrix", fix="one row and one column per rank, at least 2")
    total = float(_checked(matrix, len(matrix)).sum() - np.trace(matrix))
    return total / (len(matrix) - 1)


def _checked(matrix: Floats, ranks: int) -> Floats:
    if matrix.shape != (ranks, ranks):
        shape = "x".join(map(str, matrix.shape))
        what = f"the matrix is {shape}, the group has {ranks} ranks"
        raise ColltoolError(what, where="--matrix", fix=f"one row and one column per rank: {ranks}x{ranks}")
    bad = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))
    if len(bad):
        row, column = map(int, bad[0])
        what = f"entry ({row}, {column}) of the matrix is {matrix[row, column]:g}"
        raise ColltoolError(what, where="--matrix", fix="bytes, 0 or more")
    if not (matrix.sum() - np.trace(matrix)) > 0:
        raise ColltoolError("no bytes to move: the matrix is zero off the diagonal", where="--matrix")
    return matrix


def _hot(skew: Skew, ranks: int) -> Floats:
    hot, members = float(skew.hot or 0.0), sorted(set(skew.hot_members))
    if not members or members[0] < 0 or members[-1] >= ranks:
        raise ColltoolError(f"a hot member is outside the group of {ranks}", where="--hot", fix=f"0 .. {ranks - 1}")
    if not 1 <= hot * len(members) <= ranks or hot < 1:
        what = f"{len(members)} destinations at {hot:g} times the mean are not possible among {ranks}"
        raise ColltoolError(what, where="--hot", fix=f"a factor of 1 .. {ranks / len(members):g}")
    rest = (ranks - hot * len(members)) / max(1, ranks - len(members))
    weights = np.full(ranks, rest)
    weights[members] = hot
    return weights


def _zipf(s: float, ranks: int) -> Floats:
    if not 0 <= s <= 100:
        raise ColltoolError(f"the exponent of Zipf is 0 or more, got {s:g}", where="--zipf", fix="0 is uniform, 1 is usual")
    weights = np.arange(1, ranks + 1, dtype=np.float64) ** -s
    return np.asarray(weights * ranks / weights.sum(), dtype=np.float64)
