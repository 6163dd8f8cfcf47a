"""Groups laid out: who is in each, and what it runs."""

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
    """A group: its members in order, and what it runs; None is left to the caller. ``size`` in bytes per rank.

    ``ranks`` are as the file numbers them, ``endpoints`` where the map puts them; ``where`` is its place in the file.
    """

    name: str
    ranks: Ranks
    endpoints: Ranks
    primitive: Primitive | None = None
    algorithm: str | None = None
    size: float | None = None
    where: str = ""


class Layout(NamedTuple):
    """The groups that run at the same time; ``overrides`` are those that the layout was read with."""

    name: str
    groups: Sequence[GroupLayout]
    overrides: tuple[tuple[str, str], ...] = ()


def numbers(ranks: Iterable[int]) -> Indices:
    return np.fromiter(ranks, dtype=SMALL)


class MadeWhenSeen(Sequence[T]):
    """Records that are each made when they are looked at: half a million of them are a few arrays."""

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
    """The groups of one pattern, called g0, g1 ...

    Args:
        ranks: of every group, shape (groups, N).
        endpoints: of every rank.
    """

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
    """Groups that follow each other in a layout and run the same on as many ranks.

    Args:
        first: the first of them, and ``start``, its number.
        ends: their endpoints, shape (groups, N).
    """

    first: GroupLayout
    start: int
    ends: Indices


def alike(groups: Sequence[GroupLayout]) -> Iterator[Alike]:
    """The groups of a layout in order, as many at a time as run the same."""
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
