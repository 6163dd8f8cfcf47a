"""A layout in memory: groups of ranks and what each runs (:class:`Layout`).

Those of a pattern, half a million of them, are a few arrays until one is looked at.
"""

from collections.abc import Sequence
from operator import eq
from typing import NamedTuple, TypeVar, overload

import numpy as np

from colltool.base.primitives import Primitive
from colltool.congestion.patterns import Ranks
from colltool.network.links import SMALL

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
    """Groups that run at the same time."""

    name: str
    groups: Sequence[GroupLayout]
    overrides: tuple[tuple[str, str], ...] = ()  # with which the file was read


class LazyRecords(Sequence[T]):
    """Records made when they are looked at: half a million of them are a few arrays until then."""

    def _record(self, number: int) -> T:
        """The record with a number from 0 on, below the length."""
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


class PatternGroups(LazyRecords[GroupLayout]):
    """The groups g0, g1 ... of one pattern, all of one size; ``ends`` has their endpoints, shape (groups,
    N).

    Args:
        ranks: the ranks of each group.
        endpoints: the endpoint of every rank.
    """

    def __init__(self, ranks: Sequence[Ranks], endpoints: Ranks) -> None:
        self.ranks = np.array(ranks, dtype=SMALL)
        self.ends = np.array(endpoints, dtype=SMALL)[self.ranks]

    def __len__(self) -> int:
        return len(self.ranks)

    def _record(self, number: int) -> GroupLayout:
        ranks = tuple(self.ranks[number].tolist())
        return GroupLayout(f"g{number}", ranks, tuple(self.ends[number].tolist()))
