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
    """A machine of the index: the name of its file, its devices, its inner medium and its outer
    ones."""

    name: str
    devices: tuple[str, ...]
    inside: str
    outside: tuple[str, ...]


@cache
def index() -> tuple[Entry, ...]:
    """Return the shipped machines; of two with the same device the first one's numbers are used inside
    a domain."""
    found = []
    for row in _read("index"):
        devices, outside = tuple(row["devices"]), tuple(row["outside"])
        found.append(Entry(row["name"], devices, row["inside"], outside))
    return tuple(found)


def _read(name: str) -> Any:
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
    known = [entry for entry in of_device if entry.inside == inside_medium]
    if not known:
        return None
    across = next((entry for entry in known if outside_medium in entry.outside), known[0])
    return _joined(across.name, known[0].name)


@cache
def _joined(across: str, inside: str) -> MeasuredMachine:
    """The machine ``across`` with the numbers of ``inside`` within a domain: a cloud's instance has
    the vendor's board."""
    found = machine(across)
    if across == inside:
        return found
    board = machine(inside)
    factors = {key: factor for key, factor in found.factors.items() if key[1] != INSIDE}
    factors |= {key: factor for key, factor in board.factors.items() if key[1] == INSIDE}
    prior = dict(found.prior)
    if INSIDE in board.prior:
        prior[INSIDE] = board.prior[INSIDE]
    return replace(found, factors=factors, prior=prior)


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
        factors={key: MachineFactor(*key, tuple(grid)) for key, grid in lines.items()},
        borrowed={primitive: Borrowed(*other) for primitive, other in data["borrowed"].items()},
        prior=data["prior"],
        sources=data["sources"],
        exceptions=tuple(data["exceptions"]),
    )
