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
        """Such as ``3 rows of cluster.machine.yaml``. Empty for a machine that ships."""
        if not self.own:
            return ""
        text = f"{counted(self.rows, 'row')} of {self.file}"
        if self.idle:
            text += f" (without those of {', '.join(self.idle)})"
        return text


class Applied(tuple[tuple[str, str], ...]):
    """Key and value of each override, the machine in use, and what the file assumes."""

    machine: MachineUsed | None
    assumed: tuple[str, ...]

    def __new__(
        cls,
        overrides: Iterable[tuple[str, str]] = (),
        machine: MachineUsed | None = None,
        assumed: tuple[str, ...] = (),
    ) -> Self:
        found = super().__new__(cls, overrides)
        found.machine = machine
        found.assumed = assumed
        return found


Overrides = tuple[tuple[str, str], ...]


def machine_used(overrides: Overrides) -> MachineUsed | None:
    """Return the machine whose rows are in the prices of a fabric with these overrides."""
    return overrides.machine if isinstance(overrides, Applied) else None


def assumed_in(overrides: Overrides) -> tuple[str, ...]:
    """Return what the file of a fabric with these overrides assumes."""
    return overrides.assumed if isinstance(overrides, Applied) else ()


def assumed_text(overrides: Overrides) -> str:
    """Return the first thing that a file assumes and how many more there are. Empty for none.

    >>> assumed_text(Applied((), None, ("ib.bandwidth: NICs of 200 Gb/s", "device: A100")))
    'assumed: NICs of 200 Gb/s, and 1 more'
    """
    assumed = assumed_in(overrides)
    if not assumed:
        return ""
    key, _, what = assumed[0].partition(": ")
    # a text without a key may have a colon of its own
    if not what or " " in key:
        what = assumed[0]
    what = what.partition(";")[0]
    more = f", and {len(assumed) - 1} more" if len(assumed) > 1 else ""
    return f"assumed: {what}{more}"


def common(several: Sequence[Overrides]) -> Applied:
    """Return the overrides and assumptions that all fabrics have, and their machine if it is the
    same."""
    first, *others = several
    pairs = [pair for pair in first if all(pair in other for other in others)]
    machine = machine_used(first)
    if any(machine_used(other) != machine for other in others):
        machine = None
    assumed = [
        text for text in assumed_in(first) if all(text in assumed_in(other) for other in others)
    ]
    return Applied(pairs, machine, tuple(assumed))


def user_rows_of(named: Iterable[tuple[str, Overrides]]) -> Iterator[str]:
    """Yield a line for each fabric that is priced with a user's rows."""
    for machine, overrides in named:
        used = machine_used(overrides)
        if used is not None and used.own:
            yield f"{machine} with {used.label}"


def assumed_of(named: Iterable[tuple[str, Overrides]]) -> Iterator[str]:
    """Yield a line for each fabric whose file assumes something."""
    for machine, overrides in named:
        if text := assumed_text(overrides):
            yield f"{machine}: {text.removeprefix('assumed: ')}"
