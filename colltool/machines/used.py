"""What a price depends on besides the fabric's file: overrides, and the machine whose measured rows
are in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from colltool.base.formatting import counted
from colltool.machines.factor import MeasuredMachine


class MachineUsed(NamedTuple):
    """A machine file, or a shipped machine by its name, and how many rows it was made of.

    ``own``: whether it is a user's file. ``idle``: scopes of the file that the fabric does not have.
    """

    file: str
    rows: int
    own: bool
    idle: tuple[str, ...] = ()

    @classmethod
    def of(cls, machine: MeasuredMachine | None) -> MachineUsed | None:
        """Return the name and the rows of a machine; None without one."""
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
    """Return the machine whose rows are in the prices of a fabric with these overrides."""
    return overrides.machine if isinstance(overrides, Applied) else None


def common(several: Sequence[Overrides]) -> Applied:
    """Return the overrides that all fabrics have, and their machine if it is the same."""
    first, *others = several
    pairs = [pair for pair in first if all(pair in other for other in others)]
    machine = machine_used(first)
    if any(machine_used(other) != machine for other in others):
        machine = None
    return Applied(pairs, machine)


def user_rows_of(named: Iterable[tuple[str, Overrides]]) -> Iterator[str]:
    """Yield a line for each fabric that is priced with a user's rows."""
    for name, overrides in named:
        used = machine_used(overrides)
        if used is not None and used.own:
            yield f"{name} with {used.label}"
