"""What of a priced fabric is not in its file: values that were set, and the machine whose measured
rows are in its prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from colltool.base.formatting import counted
from colltool.machines.factor import MeasuredMachine


class MachineUsed(NamedTuple):
    """A machine file, or a shipped machine by its name, and how many rows it was made of.

    ``own``: it is the file of a user. ``idle``: scopes of it that do not apply.
    """

    file: str
    rows: int
    own: bool
    idle: tuple[str, ...] = ()

    @classmethod
    def of(cls, machine: MeasuredMachine | None) -> MachineUsed | None:
        """The name and the rows of a machine."""
        if machine is None:
            return None
        return cls(machine.file or machine.name, machine.rows, bool(machine.file), machine.idle)

    @property
    def label(self) -> str:
        """Such as ``3 rows of cluster.machine.yaml``; empty for a machine that ships."""
        if not self.own:
            return ""
        text = f"{counted(self.rows, 'row')} of {self.file}"
        if self.idle:
            text += f" (without those of {', '.join(self.idle)})"
        return text


class Applied(tuple[tuple[str, str], ...]):
    """Key and value of each override, and the machine in use."""

    machine: MachineUsed | None

    def __new__(
        cls, overrides: Iterable[tuple[str, str]] = (), machine: MachineUsed | None = None
    ) -> Self:
        found = super().__new__(cls, overrides)
        found.machine = machine
        return found


Overrides = tuple[tuple[str, str], ...]


def machine_used(overrides: Overrides) -> MachineUsed | None:
    """The machine whose rows are in the prices of a fabric with these overrides."""
    return overrides.machine if isinstance(overrides, Applied) else None


def common(several: Sequence[Overrides]) -> Applied:
    """The overrides that all fabrics have, and the machine where it is that of all."""
    first, *others = several
    pairs = [pair for pair in first if all(pair in other for other in others)]
    machine = machine_used(first)
    if any(machine_used(other) != machine for other in others):
        machine = None
    return Applied(pairs, machine)


def own_rows_of(named: Iterable[tuple[str, Overrides]]) -> Iterator[str]:
    """A line for each fabric that is priced with rows of its owner."""
    for name, overrides in named:
        used = machine_used(overrides)
        if used is not None and used.own:
            yield f"{name} with {used.label}"
