"""The groups of a layout, what they run, with their traffic and where their members stand."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from math import prod
from operator import eq
from typing import NamedTuple, TypeVar, overload

import numpy as np

from colltool.base.errors import ColltoolError, given
from colltool.base.formatting import MAX_SIZE
from colltool.base.primitives import A2A, AR, Primitive
from colltool.congestion.skew import LEAST_BYTES, Skew, mean_bytes, skewed
from colltool.congestion.traffic import (
    MOST_MESSAGES,
    Members,
    SubLattice,
    Traffic,
    TrafficRow,
    any_row,
    default_of,
    messages_of,
)
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats, Indices
from colltool.network.links import SMALL

Ranks = tuple[int, ...]
T = TypeVar("T")


class GroupLayout(NamedTuple):
    """A group's members in order, and what it runs; None is left to the caller."""

    name: str
    ranks: Ranks  # as the file numbers them
    endpoints: Ranks  # where the map puts them
    primitive: Primitive | None = None
    algorithm: str | None = None
    size: float | None = None  # bytes per rank
    where: str = ""  # its place in the file


class Layout(NamedTuple):
    """Groups that run at the same time; ``overrides`` are those that the layout was read with."""

    name: str
    groups: Sequence[GroupLayout]
    overrides: tuple[tuple[str, str], ...] = ()


class MadeWhenSeen(Sequence[T]):
    """Records made when they are looked at: half a million of them are a few arrays."""

    def _record(self, number: int) -> T:
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        return self._record(range(len(self))[index])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} groups)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))


class PatternGroups(MadeWhenSeen[GroupLayout]):
    """The groups g0, g1 ... of one pattern, from the ranks of each group and the endpoint of each
    rank."""

    def __init__(self, ranks: Sequence[Ranks], endpoints: Ranks) -> None:
        self.ranks = np.array(ranks, dtype=SMALL)
        self.ends = np.array(endpoints, dtype=SMALL)[self.ranks]

    def __len__(self) -> int:
        return len(self.ranks)

    def _record(self, number: int) -> GroupLayout:
        return GroupLayout(
            f"g{number}", tuple(self.ranks[number].tolist()), tuple(self.ends[number].tolist())
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PatternGroups):
            return np.array_equal(self.ranks, other.ranks) and np.array_equal(self.ends, other.ends)
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self.ranks.tobytes(), self.ends.tobytes()))


class GroupJob(NamedTuple):
    primitive: Primitive
    algorithm: str
    size: float | None  # bytes per rank; None: loads in units of M

    @property
    def scale(self) -> float:
        return 1.0 if self.size is None else self.size


class JobBatch(NamedTuple):
    """Consecutive groups of a layout that run alike."""

    run: GroupJob
    start: int  # number of the first group
    ends: Indices  # endpoints of their members, shape (groups, N)
    traffic: Traffic  # between members
    even: Floats  # sizes of the uniform traffic to compare with, shape of ``traffic.size``
    key: tuple[object, ...]  # the same for batches of the same run and traffic


class JobDefaults(NamedTuple):
    """What groups run that do not say so themselves."""

    primitive: Primitive | None
    algorithm: str | None
    size: float | None
    skew: Skew


class _Alike(NamedTuple):
    """Consecutive groups of a layout that run the same on as many ranks."""

    first: GroupLayout
    start: int  # number of the first
    ends: Indices  # endpoints, shape (groups, N)


def jobs_of(fabric: Fabric, layout: Layout, asked: JobDefaults) -> list[JobBatch]:
    """The groups of a layout in order, with their traffic; raises what :func:`contention`
    raises."""
    if not layout.groups:
        raise ColltoolError(
            f"layout '{layout.name}' has no groups",
            argument="layout",
            fix="at least one of 2 ranks",
        )
    some = list(_alike(layout.groups))
    for one in some:
        _check_members(one, fabric)
    runs = [_run(one.first, asked) for one in some]
    if asked.skew.given and not any(run.primitive is A2A for run in runs):
        what = "a skew applies to an all-to-all, and no group runs one"
        raise ColltoolError(what, argument="primitive", fix=f"take {given('primitive', 'a2a')}")
    unsized = [one.first for one, run in zip(some, runs, strict=True) if run.size is None]
    if 0 < len(unsized) < len(runs):
        fix = f"{given('size', '16MB')} holds for every group that gives none"
        raise _refused(
            unsized[0], "size", f"group '{unsized[0].name}' has no size, others have one", fix
        )
    rows = [_row(one.first, run) for one, run in zip(some, runs, strict=True)]
    _check_few(
        sum(
            len(one.ends) * messages_of(row, one.ends.shape[1])
            for one, row in zip(some, rows, strict=True)
        )
    )
    known: dict[tuple[object, ...], tuple[Traffic, Floats]] = {}
    out = []
    for one, run, row in zip(some, runs, rows, strict=True):
        for start, ends, members in _standing(fabric, one, row):
            key = (run.primitive, run.algorithm, members.key)
            if key not in known:
                with _named(one.first):
                    known[key] = _traffic(run, row, members, asked.skew)
            out.append(
                JobBatch(run, start, ends.astype(SMALL, copy=False), *known[key], (*key, run.size))
            )
    # of schedules known only once they have run
    _check_few(sum(len(batch.ends) * len(batch.traffic.src) for batch in out))
    return out


def _alike(groups: Sequence[GroupLayout]) -> Iterator[_Alike]:
    if isinstance(groups, PatternGroups):
        yield _Alike(groups[0], 0, groups.ends)
        return
    start = 0
    for (*_, ranks), run in groupby(
        groups, key=lambda one: (one.primitive, one.algorithm, one.size, len(one.endpoints))
    ):
        some = list(run)
        yield _Alike(
            some[0], start, np.array([group.endpoints for group in some]).reshape(len(some), ranks)
        )
        start += len(some)


def _refused(group: GroupLayout, argument: str, what: str, fix: str) -> ColltoolError:
    """By the group's place in the file, if it has one."""
    return ColltoolError(what, where=group.where, argument="" if group.where else argument, fix=fix)


def _check_members(some: _Alike, fabric: Fabric) -> None:
    """A layout file is checked where it is read; a layout built in Python is not."""
    first, ranks = some.first, some.ends.shape[1]
    if ranks < 2:
        raise _refused(
            first, "group", f"group '{first.name}' has {ranks} ranks", "a group has at least 2"
        )
    outside = (some.ends < 0) | (some.ends >= fabric.ranks)
    if outside.any():
        what = f"endpoint {some.ends[outside][0]} is outside {fabric.name}"
        raise _refused(first, "layout", what, f"0 .. {fabric.ranks - 1}")
    ordered = np.sort(some.ends, axis=1)
    twice = ordered[:, 1:] == ordered[:, :-1]
    if twice.any():
        what = f"endpoint {ordered[:, 1:][twice][0]} is in a group twice"
        raise _refused(first, "layout", what, "one rank on each endpoint")


def _run(group: GroupLayout, asked: JobDefaults) -> GroupJob:
    primitive = group.primitive or asked.primitive or (A2A if asked.skew.given else AR)
    size = group.size if group.size is not None else asked.size
    if asked.skew.matrix is not None and primitive is A2A:
        size = mean_bytes(asked.skew)
    if size is not None and not LEAST_BYTES <= size <= MAX_SIZE:
        raise _refused(
            group, "size", f"a size of {size} bytes", "a size is bytes per rank, such as 16MB"
        )
    return GroupJob(primitive, group.algorithm or asked.algorithm or default_of(primitive), size)


def _check_few(pairs: int) -> None:
    if pairs > MOST_MESSAGES:
        what = (
            f"{pairs} messages between pairs are more than the {MOST_MESSAGES} that are followed"
            " one by one"
        )
        raise ColltoolError(
            what,
            argument="group",
            fix="an all-to-all of at most 1448 ranks; smaller groups, or fewer",
        )


@contextmanager
def _named(group: GroupLayout) -> Iterator[None]:
    """Make errors name the group, and its place in the file where no option is to blame."""
    try:
        yield
    except ColltoolError as error:
        placed = group.where and error.argument in ("", "algorithm")
        what, place = f"group '{group.name}': {error.what}", group.where if placed else error.where
        argument = "" if place else error.argument or "algorithm"
        raise ColltoolError(what, where=place, argument=argument, fix=error.fix) from error


def _row(group: GroupLayout, run: GroupJob) -> TrafficRow:
    with _named(group):
        return any_row(run.primitive, run.algorithm)


def _traffic(
    run: GroupJob, row: TrafficRow, members: Members, skew: Skew
) -> tuple[Traffic, Floats]:
    plain = row.maker(members, run.primitive)
    if run.primitive is not A2A or not skew.given:
        return plain, plain.size
    if not row.dense:
        what = (
            f"{run.algorithm} forwards blocks through other ranks, and is not modelled under a skew"
        )
        raise ColltoolError(
            what, argument="algorithm", fix=f"take {given('algorithm', default_of(A2A))}"
        )
    return skewed(skew, members.ranks)


def _standing(
    fabric: Fabric, some: _Alike, row: TrafficRow
) -> Iterator[tuple[int, Indices, Members]]:
    """Groups and how their members stand: one by one where their traffic depends on it, else all at
    once."""
    ranks = some.ends.shape[1]
    if not row.by_axes and row.seats is None:
        yield some.start, some.ends, Members(ranks)
        return
    for number, ends in enumerate(some.ends):
        with _named(some.first):
            seats = row.seats(fabric, ends) if row.seats else None
        lattice = _sub_lattice(fabric, ends) if row.by_axes else None
        placed = ends if seats is None else ends[seats.order]
        yield some.start + number, placed[None], Members(ranks, lattice, seats)


def _sub_lattice(fabric: Fabric, ends: Indices) -> SubLattice | None:
    """The members by lattice coordinates, where they fill a sub-lattice of one domain of the
    innermost tier."""
    lattice, inside = capabilities_of(fabric.tiers[0]).axes, fabric.tiers[0].endpoints
    if not lattice or len(np.unique(ends // inside)) > 1:
        return None
    axes, rings, here = [], [], ends % inside
    for axis in lattice:
        places, place = np.unique(here % axis.size, return_inverse=True)
        axes.append(place)
        steps = set(np.diff(places, append=places[0] + axis.size).tolist())
        # evenly spaced all the way round
        rings.append(axis.is_ring and len(places) >= 3 and len(steps) == 1)
        here = here // axis.size
    extents = [int(place.max()) + 1 for place in axes]
    if prod(extents) != len(ends):
        return None
    grid = np.full(extents[::-1], -1, dtype=np.int64)
    grid[tuple(reversed(axes))] = np.arange(len(ends))
    return SubLattice(grid, tuple(reversed(rings)))
