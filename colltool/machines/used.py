"""What a price depends on besides the fabric's file: overrides, and the machine whose measured rows
are in it.

A fabric's overrides are pairs of a key and a value, and travel from the fabric to every result.
:class:`Applied` is such a tuple of pairs with two things more, which only the text of a result shows;
plain pairs have neither, such as those of a result that was read from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from colltool.base.formatting import counted
from colltool.machines.factor import MeasuredMachine


class MachineUsed(NamedTuple):
    """The measured machine that prices are multiplied by, as results name it."""

    file: str  # its path; the name of a shipped machine
    rows: int  # that it was made of
    own: bool  # it is a user's file
    idle: tuple[str, ...] = ()  # scopes of the file that the fabric does not have

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
    """Key and value of each override, the machine in use, and what the fabric's file assumes: texts, most
    with the key before a colon."""

    machine: MachineUsed | None
    assumed: tuple[str, ...]

    def __new__(
        cls,
        overrides: Iterable[tuple[str, str]] = (),
        machine: MachineUsed | None = None,
        assumed: tuple[str, ...] = (),
    ) -> Self:
        applied = super().__new__(cls, overrides)
        applied.machine = machine
        applied.assumed = assumed
        return applied


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
    key, _, text = assumed[0].partition(": ")
    # a text without a key may have a colon of its own
    if not text or " " in key:
        text = assumed[0]
    # reasons follow a semicolon
    text = text.partition(";")[0]
    others = f", and {len(assumed) - 1} more" if len(assumed) > 1 else ""
    return f"assumed: {text}{others}"


def common(of_fabrics: Sequence[Overrides]) -> Applied:
    """Return the overrides and assumptions that all fabrics have, and their machine if it is the
    same; of one fabric or more."""
    first, *others = of_fabrics
    pairs = [pair for pair in first if all(pair in other for other in others)]
    machine = machine_used(first)
    if any(machine_used(other) != machine for other in others):
        machine = None
    assumed = [
        text for text in assumed_in(first) if all(text in assumed_in(other) for other in others)
    ]
    return Applied(pairs, machine, tuple(assumed))


def user_rows_of(named: Iterable[tuple[str, Overrides]]) -> Iterator[str]:
    """Yield a line for each fabric, by its name, that is priced with a user's rows."""
    for fabric, overrides in named:
        used = machine_used(overrides)
        if used is not None and used.own:
            yield f"{fabric} with {used.label}"


def assumed_of(named: Iterable[tuple[str, Overrides]]) -> Iterator[str]:
    """Yield a line for each fabric, by its name, whose file assumes something."""
    for fabric, overrides in named:
        if text := assumed_text(overrides):
            yield f"{fabric}: {text.removeprefix('assumed: ')}"
