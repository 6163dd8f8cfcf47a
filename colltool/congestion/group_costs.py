"""What groups cost, one record each."""

from collections.abc import Sequence
from operator import eq
from typing import NamedTuple, overload

import numpy as np

from colltool.congestion.arrays import Floats, Indices
from colltool.congestion.groups import GroupLayout
from colltool.congestion.links import Wires
from colltool.congestion.results import GroupCost
from colltool.congestion.runs import Run


class Columns(NamedTuple):
    """What groups cost, shape (groups,) each, as :class:`GroupCost` has it; ``busiest`` are (tier, line, resource)."""

    slowdown: Floats
    interference: Floats
    extra_hops: Indices
    eta_alpha: Floats
    tail_over_mean: Floats
    ideal_s: Floats
    together_s: Floats
    busiest: tuple[Indices, Indices, Indices]


class GroupCosts(Sequence[GroupCost]):
    """The groups of a layout and what they cost, each made when it is looked at: half a million are a dozen arrays.

    Args:
        groups: of the layout.
        runs: what groups run, each with the number of the first that does.
        columns: what they cost.
        wires: of every tier, for the names of resources.
    """

    def __init__(
        self, groups: Sequence[GroupLayout], runs: Sequence[tuple[int, Run]], columns: Columns, wires: list[Wires]
    ) -> None:
        self._groups, self._columns, self._wires = groups, columns, wires
        self._starts, self._runs = np.array([start for start, _ in runs]), [run for _, run in runs]

    def __len__(self) -> int:
        return len(self._groups)

    @overload
    def __getitem__(self, index: int) -> GroupCost: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[GroupCost, ...]: ...
    def __getitem__(self, index: int | slice) -> GroupCost | tuple[GroupCost, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(len(self))))
        return self._cost(range(len(self))[index])

    def _cost(self, number: int) -> GroupCost:
        group, columns = self._groups[number], self._columns
        run = self._runs[int(np.searchsorted(self._starts, number, side="right")) - 1]
        slowdown = float(columns.slowdown[number])
        tier, line, resource = (int(part[number]) for part in columns.busiest)
        sized = run.size is not None
        return GroupCost(
            name=group.name,
            ranks=len(group.endpoints),
            primitive=run.primitive,
            algorithm=run.algorithm,
            slowdown=slowdown,
            interference=float(columns.interference[number]),
            extra_hops=int(columns.extra_hops[number]),
            eta_alpha=float(columns.eta_alpha[number]),
            eta_beta=min(1.0, 1 / slowdown),
            tail_over_mean=float(columns.tail_over_mean[number]),
            busiest=self._wires[tier].name(line, resource),
            bytes=run.size,
            ideal_s=float(columns.ideal_s[number]) if sized else None,
            together_s=float(columns.together_s[number]) if sized else None,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} groups)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))
