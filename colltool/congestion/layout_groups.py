"""A layout in memory: groups of ranks and what each runs (:class:`Layout`).

A pattern has up to half a million groups. They are a few arrays, of which a record is made when it is looked
at: :class:`PatternGroups`, a case of :class:`LazyRecords`, as are the costs of groups in ``contention``.
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
    """A group's members in order, and what it runs. Where it does not say what, the field is None, and the
    arguments of ``contention`` count."""

    name: str
    ranks: Ranks  # as the layout numbers them
    endpoints: (
        Ranks  # of the fabric: where the map of the layout puts each of the ranks, in their order
    )
    primitive: Primitive | None = None
    algorithm: str | None = None
    size: float | None = None  # bytes per rank
    where: str = ""  # its place in the layout file, for errors; empty of a pattern's


class Layout(NamedTuple):
    """Groups that run at the same time."""

    name: str
    groups: Sequence[GroupLayout]
    overrides: tuple[
        tuple[str, str], ...
    ] = ()  # keys and values that were set over those of the file


class LazyRecords(Sequence[T]):
    """A sequence of records, one for each group of a layout, that are made when they are looked at. A
    subclass defines ``__len__`` and :meth:`_record`. It equals any sequence of equal records."""

    def _record(self, number: int) -> T:
        """The record with this number: 0 or more, and below the length."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        # range() counts negative indices from the end, and raises IndexError for those outside
        return self._record(range(len(self))[index])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} groups)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))


class PatternGroups(LazyRecords[GroupLayout]):
    """The groups g0, g1 ... of one pattern, all of N ranks. Attributes ``ranks`` and ``ends``: the ranks of the
    groups and the endpoints of these, arrays of shape (groups, N).

    Args:
        ranks: the ranks of each group.
        endpoints: the endpoint of every rank of the fabric, by rank.
    """

    def __init__(self, ranks: Sequence[Ranks], endpoints: Ranks) -> None:
        # SMALL, 32 bits, holds any rank: fabrics of layouts are small enough
        self.ranks = np.array(ranks, dtype=SMALL)
        self.ends = np.array(endpoints, dtype=SMALL)[self.ranks]

    def __len__(self) -> int:
        return len(self.ranks)

    def _record(self, number: int) -> GroupLayout:
        ranks = tuple(self.ranks[number].tolist())
        return GroupLayout(f"g{number}", ranks, tuple(self.ends[number].tolist()))
