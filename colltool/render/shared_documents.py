"""Documents, and values of their keys, that several views share.

How a document declares its keys (more in :mod:`colltool.render.documents`): a bare annotation is the
attribute of that name; ``derived(path or function)`` takes the value from elsewhere; ``optional(...)`` does
too, and leaves the key out where the value is ``LEFT_OUT``. ``of=`` is the record that a document is made
of wherever one is met.

Two kinds of functions: one that takes a result or a record returns the value of a key
(:func:`whole_size`); :func:`whole` and :func:`mapping` take a path and declare a key.

What was set, what a file assumes and the machine in use are all in ``overrides``, which a fabric hands
on to its results: :func:`machine_of` and :func:`assumed_with` take the overrides, :func:`machine_in_use` and
:func:`assumed_by_file` a result or fabric that has them. :class:`OverridesDocument` has all three for a
result with overrides, :class:`SetInFabricDocument` for one with a fabric.
"""

from __future__ import annotations

from typing import Any

from colltool.base.formatting import whole_bytes
from colltool.estimate.placement import GroupPlacement
from colltool.machines.used import Applied, MachineUsed, Overrides, assumed_in, machine_used
from colltool.render.blocks import attribute_at
from colltool.render.documents import LEFT_OUT, Document, derived, optional


def whole_size(record: Any) -> Any:
    """The size of a record in whole bytes."""
    return whole_bytes(record.bytes)


def whole(path: str) -> Any:
    """Declare a key whose value is at a path, an integer where it is a whole number."""
    return derived(lambda record: whole_bytes(attribute_at(record, path)))


def mapping(path: str) -> Any:
    """Declare a key whose value is an object of the pairs at a path."""

    def pairs(record: Any) -> dict[str, Any]:
        # a statement is a key by its text
        return {str(key): value for key, value in dict(attribute_at(record, path)).items()}

    return derived(pairs)


def model_echo(result: Any) -> Any:
    """The options of the model that a result was made with, as JSON has them."""
    return result.readings.echo()


def ideal_or_realistic(result: Any) -> str:
    """The mode of a result, without contention or with it."""
    return "ideal" if result.ideal else "realistic"


class MachineDocument(Document, of=MachineUsed):
    """The machine file whose measured rows are in the prices of a fabric."""

    file: str
    rows: int


def values_set(result: Any) -> Any:
    """The values that were set over the file's, by key; left out where none were."""
    return dict(result.overrides) or LEFT_OUT


def machine_of(overrides: Overrides) -> Any:
    """The machine whose rows are in the prices; left out of results that take none."""
    # overrides that a fabric was loaded with are Applied and know the machine (or None, JSON's null); those of
    # a result that loaded no fabric, such as one read from a file, are plain pairs and do not
    return machine_used(overrides) if isinstance(overrides, Applied) else LEFT_OUT


def machine_in_use(result: Any) -> Any:
    """:func:`machine_of` for a result."""
    return machine_of(result.overrides)


def assumed_with(overrides: Overrides) -> Any:
    """What the file of a fabric assumes, a text each; left out where it assumes nothing."""
    return list(assumed_in(overrides)) or LEFT_OUT


def assumed_by_file(result: Any) -> Any:
    """:func:`assumed_with` for a result."""
    return assumed_with(result.overrides)


class OverridesDocument(Document):
    """What was set, if anything, what the fabric's file assumes, and the machine in use."""

    set: dict[str, str] = optional(values_set)
    fabric_assumed: list[str] = optional(assumed_by_file)
    machine: MachineDocument | None = optional(machine_in_use)


class FabricDocument(Document):
    """The fabric that a result is for, by its name."""

    fabric: str


# two bases for their order: the fabric comes before what was set
class OnFabricDocument(FabricDocument, OverridesDocument):
    """The fabric that a result is for, and what was set."""


class SetInFabricDocument(Document):
    """What was set in the fabric file that a result holds, what the file assumes, and the machine
    in use."""

    set: dict[str, str] = optional(lambda result: values_set(result.fabric))
    fabric_assumed: list[str] = optional(lambda result: assumed_by_file(result.fabric))
    machine: MachineDocument | None = optional(lambda result: machine_in_use(result.fabric))


class FileNameDocument(Document):
    """The fabric file that a result holds, by its name."""

    fabric: str = derived("fabric.name")


class FabricFileDocument(FileNameDocument, SetInFabricDocument):
    """The fabric file that a result holds, and what was set in it."""


def _open_axes(group: GroupPlacement) -> Any:
    """Which axes of a lattice are open in the group; left out where none is."""
    return group.open_axes if any(group.open_axes) else LEFT_OUT


class GroupDocument(Document, of=GroupPlacement):
    """Where the ranks of a group are; its fields are those of the record."""

    ranks: int
    stride: int
    per_domain: list[int]
    alone: bool
    shape: list[int] = optional("shape")
    domains: list[int] = optional("domains")
    open_axes: list[bool] = optional(_open_axes)


class MovedNumberDocument(Document):
    """Seconds of an answer with one number of the fabric at either end of its range (``low``, ``high``),
    and all others as in the file; ``value``: the file's."""

    key: str = derived("number.key")
    value: float = derived("number.value")
    low: float = derived("number.low")
    high: float = derived("number.high")
    low_s: float
    high_s: float
    span_s: float
