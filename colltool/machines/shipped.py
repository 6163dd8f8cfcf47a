"""The machines that ship: ``data/NAME.json``, made by ``tests/benchmarks/fit_machines.py`` from
published rows.

``data/index.json`` says which file holds which device and media, so that a price reads one file.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, nearest
from colltool.machines.factor import INSIDE, Borrowed, MachineFactor, MeasuredMachine, RankLine

SCHEMA = "colltool.machine-data/1"
FOLDER = Path(__file__).parent / "data"


class Entry(NamedTuple):
    """A machine of the index."""

    name: str  # also of its file
    devices: tuple[str, ...]  # the names that fabrics have for its accelerator
    inside: str  # the medium inside a domain
    outside: tuple[str, ...]  # the media between domains


@cache
def index() -> tuple[Entry, ...]:
    """Return the shipped machines; of two with the same device the first one's numbers are used inside
    a domain."""
    entries = []
    for row in _read("index"):
        entries.append(
            Entry(row["name"], tuple(row["devices"]), row["inside"], tuple(row["outside"]))
        )
    return tuple(entries)


def _read(name: str) -> Any:
    """The content of a data file."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def machine_for(
    device: str | None, inside_medium: str, outside_medium: str | None
) -> MeasuredMachine | None:
    """Return the measured machine with this device and these media, None if there is none.

    Without rows on the outer medium the machine still has those inside a domain; d of its other
    scopes is 0.

    >>> machine_for("h100", "nvlink4", "ib").name
    'dgx-h100'
    """
    of_device = [entry for entry in index() if device in entry.devices]
    same_inside = [entry for entry in of_device if entry.inside == inside_medium]
    if not same_inside:
        return None
    # the first of the index is used inside a domain, and for all where none has the outer medium
    inside = same_inside[0]
    across = next((entry for entry in same_inside if outside_medium in entry.outside), inside)
    return _with_board(across.name, inside.name)


@cache
def _with_board(across: str, inside: str) -> MeasuredMachine:
    """The machine ``across`` with the numbers of ``inside`` within a domain: a cloud's instance has
    the vendor's board."""
    instance = machine(across)
    if across == inside:
        return instance
    board = machine(inside)
    # keys are (primitive, scope)
    factors = {key: factor for key, factor in instance.factors.items() if key[1] != INSIDE}
    factors |= {key: factor for key, factor in board.factors.items() if key[1] == INSIDE}
    prior = dict(instance.prior)
    if INSIDE in board.prior:
        prior[INSIDE] = board.prior[INSIDE]
    return replace(instance, factors=factors, prior=prior)


@cache
def machine(name: str) -> MeasuredMachine:
    """Return a shipped machine by name.

    Raises:
        ColltoolError: no such machine; names the nearest.
    """
    names = [entry.name for entry in index()]
    if name not in names:
        fix = f"{nearest(name, names)} machines: {', '.join(names)}".strip()
        raise ColltoolError(f"no measured machine '{name}'", fix=fix)
    return from_data(_read(name))


def from_data(data: dict[str, Any]) -> MeasuredMachine:
    """Return a machine from the data of its file."""
    # a row is one rank count of a primitive in a scope; a file has them ascending in ranks
    lines: dict[tuple[str, str], list[RankLine]] = {}
    for row in data["factors"]:
        line = RankLine(row["ranks"], tuple(row["d"]), tuple(row["sigma"]))
        lines.setdefault((row["primitive"], row["scope"]), []).append(line)
    return MeasuredMachine(
        name=data["name"],
        devices=tuple(data["devices"]),
        generation=data["generation"],
        inside=data["inside"],
        outside=tuple(data["outside"]),
        # keys are (primitive, scope), the first two fields of a factor
        factors={key: MachineFactor(*key, tuple(grid)) for key, grid in lines.items()},
        # each a primitive and a share: {"broadcast": ["all_gather", 0.5]}
        borrowed={primitive: Borrowed(*other) for primitive, other in data["borrowed"].items()},
        prior=data["prior"],
        sources=data["sources"],
        exceptions=tuple(data["exceptions"]),
    )
