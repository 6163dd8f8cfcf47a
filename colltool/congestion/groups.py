"""Groups of a layout: who is in each, and what it runs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import eq
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from colltool.base.primitives import Primitive
from colltool.schedules.links import SMALL, Indices

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


def numbers(ranks: Iterable[int]) -> Indices:
    return np.fromiter(ranks, dtype=SMALL)


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
    """The groups g0, g1 ... of one pattern, from the ranks of each group and the endpoint of each rank."""

    def __init__(self, ranks: Sequence[Ranks], endpoints: Indices) -> None:
        self.ranks = numbers(chain.from_iterable(ranks)).reshape(len(ranks), -1)
        self.ends = endpoints[self.ranks]

    def __len__(self) -> int:
        return len(self.ranks)

    def _record(self, number: int) -> GroupLayout:
        return GroupLayout(f"g{number}", tuple(self.ranks[number].tolist()), tuple(self.ends[number].tolist()))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PatternGroups):
            return np.array_equal(self.ranks, other.ranks) and np.array_equal(self.ends, other.ends)
        return super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self.ranks.tobytes(), self.ends.tobytes()))


class Alike(NamedTuple):
    """Consecutive groups of a layout that run the same on as many ranks."""

    first: GroupLayout
    start: int  # number of the first
    ends: Indices  # endpoints, shape (groups, N)


def alike(groups: Sequence[GroupLayout]) -> Iterator[Alike]:
    """The groups of a layout in order, in batches that run the same."""
    if isinstance(groups, PatternGroups):
        yield Alike(groups[0], 0, groups.ends)
        return
    start = 0
    for _, run in groupby(groups, key=_same_run):
        some = list(run)
        ends = np.array([group.endpoints for group in some])
        yield Alike(some[0], start, ends.reshape(len(some), len(some[0].endpoints)))
        start += len(some)


def _same_run(group: GroupLayout) -> tuple[Any, ...]:
    return group.primitive, group.algorithm, group.size, len(group.endpoints)
