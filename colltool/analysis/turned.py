"""Where a reading of the model turns the winner: what is fastest on all ports is not on one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from colltool.analysis.grid import Asked, Cell
from colltool.base.primitives import Primitive


class Turned(NamedTuple):
    """A row in which another column is the fastest once a rank sends one message at a time over one port."""

    primitive: Primitive
    ranks: int
    bytes: float
    column: str
    instead_of: str


class Row(Protocol):
    """The cells of all columns at a primitive, a number of ranks and a size."""

    @property
    def primitive(self) -> Primitive:
        """What is priced."""

    @property
    def ranks(self) -> int:
        """On how many."""

    @property
    def bytes(self) -> float:
        """The size, bytes."""

    @property
    def cells(self) -> tuple[Cell, ...]:
        """One for each column."""


def turned(asked: Asked, rows: Callable[[Asked], Iterable[Row]], columns: Sequence[str], least: float) -> Iterator[Turned]:
    """The rows whose fastest column is another one on one port, where it leads there by more than ``least``, a share.

    None where algorithms are named, or ports: then nothing else was asked.
    """
    if asked.only or asked.readings.ports != "all":
        return
    one_port = asked._replace(readings=asked.readings._replace(ports="one"))
    for now, then in zip(rows(asked), rows(one_port), strict=True):
        here, there = _fastest(now.cells), _fastest(then.cells)
        if here is None or there is None or here == there:
            continue
        before, after = then.cells[here].total_s, then.cells[there].total_s
        if before is None or after is None or before > after * (1 + least):
            yield Turned(now.primitive, now.ranks, now.bytes, columns[there], columns[here])


def _fastest(cells: Sequence[Cell]) -> int | None:
    priced = [(one.total_s, at) for at, one in enumerate(cells) if one.total_s is not None]
    return min(priced)[1] if priced else None
