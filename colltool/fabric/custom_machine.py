"""A fabric priced with measured rows of the user's machine (layer 4), in place of those of a shipped
machine.

The rows are in a machine file: one that the user names, or ``NAME.machine.yaml`` in the folder of
the fabric's ``NAME.yaml``. :func:`on_machine` checks that the file fits the fabric. A row has a
``scope``: ``inside`` a node, or the medium between nodes across which it was measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from colltool.base.errors import ColltoolError, argument_text, nearest
from colltool.base.files import MACHINE_SUFFIX, read_text
from colltool.fabric.model import Fabric
from colltool.fabric.tier_media import media_of
from colltool.machines.factor import INSIDE, MeasuredMachine

if TYPE_CHECKING:
    from colltool.machines.machine_file import MachineFile, MachineRow

# A machine that was made of rows, or the path of its file.
CustomMachine = MeasuredMachine | str | os.PathLike[str]


def machine_file_of(fabric_file: str) -> str | None:
    """Return the machine file next to a fabric's file, ``cluster.machine.yaml`` of
    ``cluster.yaml``. None where there is none."""
    path = f"{os.path.splitext(fabric_file)[0]}{MACHINE_SUFFIX}"
    if path == fabric_file or not os.path.isfile(path):
        return None
    return path


def on_machine(fabric: Fabric, machine: CustomMachine) -> Fabric:
    """Return the fabric priced with the measured rows of a machine; the same object for the same file.

    Raises:
        ColltoolError: a file that cannot be read, or one of another device or other media; names
            both.
    """
    if isinstance(machine, MeasuredMachine):
        _check_device(fabric, machine.devices[0] if machine.devices else None, machine.name)
        return _with_machine(fabric, machine)
    if not isinstance(machine, str | os.PathLike):
        raise ColltoolError(
            f"expected a machine file, got a {type(machine).__name__}",
            argument="machine",
            fix=f"write {argument_text('machine', 'cluster.machine.yaml')}",
        )
    path = os.fspath(machine)
    text = read_text(path, "definition", path)
    return fabric.view(
        f"on {path}\n{text}", lambda: _with_machine(fabric, _machine_of(fabric, text, path))
    )


def _with_machine(fabric: Fabric, machine: MeasuredMachine) -> Fabric:
    """The fabric with a machine, which stays with it without its overrides and under others."""
    as_filed = fabric.as_filed
    reload = fabric.reload
    # an interval compares with the price without an override, which needs the same rows
    if as_filed is not None:
        as_filed = as_filed.with_custom_machine(machine)
    if reload is not None:
        reload = partial(_reload_with_machine, reload, machine)
    with_machine = fabric.with_custom_machine(machine)
    return with_machine.with_overrides(tuple(fabric.overrides), as_filed, reload)


def _reload_with_machine(
    load: Callable[[list[str]], Fabric], machine: MeasuredMachine, overrides: list[str]
) -> Fabric:
    """Load the fabric with other overrides, and put the machine on it again."""
    return load(overrides).with_custom_machine(machine)


def _machine_of(fabric: Fabric, text: str, path: str) -> MeasuredMachine:
    """The machine of a file's text, as a correction of the shipped machine of the fabric if it has one. Its
    ``idle`` are the scopes of rows that this fabric has no use for."""
    from colltool.machines.machine_file import machine_of, read_machine_file

    file = read_machine_file(text, path)
    _check_device(fabric, file.device, f"{path}: device")
    rows = _rows_of_media(fabric, file, path)
    shipped = fabric.machine
    # a machine of a file is the user's own already: it is replaced, not corrected
    if shipped is not None and shipped.file:
        shipped = None
    machine = machine_of(file.model_copy(update={"rows": rows}), shipped, path=path)
    used = {row.scope for row in rows}
    idle = dict.fromkeys(row.scope for row in file.rows if row.scope not in used)
    return replace(machine, idle=tuple(idle))


def _check_device(fabric: Fabric, device: str | None, where: str) -> None:
    """Raise an error if the machine and the fabric are known to have different devices."""
    if device is None or fabric.device is None or device == fabric.device:
        return
    raise ColltoolError(
        f"was measured on {device}, and {fabric.name} has {fabric.device}",
        where=where,
        argument="machine",
        fix=_other_machine_fix(fabric),
    )


def _rows_of_media(fabric: Fabric, file: MachineFile, path: str) -> tuple[MachineRow, ...]:
    """The rows of a file inside nodes, and across media that the fabric has; an error if it has another
    medium inside, or none of those across."""
    inner, *outer = [medium.name if medium else "" for medium in media_of(fabric)]
    if file.media.inside != inner:
        has = inner or "no known medium"
        what = f"was measured inside {file.media.inside}, and {fabric.name} has {has} there"
        raise ColltoolError(
            what, where=f"{path}: media.inside", argument="machine", fix=_other_machine_fix(fabric)
        )
    scopes = [INSIDE, *outer]
    rows = tuple(row for row in file.rows if row.scope in scopes)
    if not rows:
        measured = ", ".join(dict.fromkeys(row.scope for row in file.rows))
        hint = nearest(file.rows[0].scope, scopes)
        has = ", ".join(filter(None, scopes))
        what = f"was measured across {measured}, and {fabric.name} has {has}"
        raise ColltoolError(
            what,
            where=f"{path}: rows",
            argument="machine",
            fix=f"{hint} {_other_machine_fix(fabric)}".strip(),
        )
    return rows


def _other_machine_fix(fabric: Fabric) -> str:
    """The fix for a machine file of another machine."""
    return (
        f"measure {fabric.name} and write {argument_text('output', f'{fabric.name}{MACHINE_SUFFIX}')}, or"
        " leave this file out"
    )
