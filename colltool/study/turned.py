"""Where a reading of the model turns the winner: what is fastest on all ports is not on one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from colltool.primitives import Primitive
from colltool.study.grid import Cell


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
    def primitive(self) -> Primitive: ...  # noqa: D102
    @property
    def ranks(self) -> int: ...  # noqa: D102
    @property
    def bytes(self) -> float: ...  # noqa: D102
    @property
    def cells(self) -> tuple[Cell, ...]: ...  # noqa: D102


def turned(rows: Iterable[Row], one_port: Iterable[Row], columns: Sequence[str], least: float) -> Iterator[Turned]:
    """The rows whose fastest column is another one on one port, where it leads there by more than ``least``, a share."""
    for now, then in zip(rows, one_port, strict=True):
        here, there = _fastest(now.cells), _fastest(then.cells)
        if here is None or there is None or here == there:
            continue
        before, after = then.cells[here].total_s, then.cells[there].total_s
        if before is None or after is None or before > after * (1 + least):
            yield Turned(now.primitive, now.ranks, now.bytes, columns[there], columns[here])


def _fastest(cells: Sequence[Cell]) -> int | None:
    priced = [(one.total_s, at) for at, one in enumerate(cells) if one.total_s is not None]
    return min(priced)[1] if priced else None
