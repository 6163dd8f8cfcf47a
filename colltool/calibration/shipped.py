"""What the library that ran may have chosen: the schedules that it ships for a primitive, on a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colltool.algorithms.libraries import LibraryName, Running
from colltool.algorithms.registry import algorithms, selectable
from colltool.base.primitives import Primitive
from colltool.estimate.catalogue import Catalogue
from colltool.estimate.groups import Placed, flat_group
from colltool.estimate.readings import Readings

_NAMES: dict[str, LibraryName] = {"NCCL": "nccl", "RCCL": "rccl", "MPI": "mpi", "MVAPICH": "mpi"}
"""What logs call them; one says MPI and seldom whose."""


def shipped(placed: Placed, primitive: Primitive, readings: Readings, library: str, sizes: Sequence[float]) -> list[str]:
    """Names of what a library ships and the group can run, for :func:`colltool.estimate.price.price`; no choice of another's.

    A fabric that says nothing of its library may be any hardware: a star the GPUs of a node, or hosts on one switch. There what
    the library runs on either counts.

    Args:
        library: as the log gives it; where it does not, the fabric's own; of one that is unknown, whatever anybody ships.
        sizes: at which compositions are at their fastest.
    """
    own: LibraryName = placed.fabric.library_facts.name if placed.fabric.library_facts and not library else "all"
    known: LibraryName = next((name for word, name in _NAMES.items() if word in library.upper()), own)
    under = replace(placed, fabric=placed.fabric.under(known))
    found = [one.choice.spec for one in Catalogue(under, primitive, readings).all(sizes) if one.standing == 0]
    hosts = [] if known == "all" or placed.fabric.library_facts else _between_hosts(placed, primitive, readings, known)
    return list(dict.fromkeys([*hosts, *found]))


def _between_hosts(placed: Placed, primitive: Primitive, readings: Readings, library: LibraryName) -> list[str]:
    """Flat schedules that the library runs where every rank is a host of its own."""
    whole, _ = flat_group(placed, readings)
    rows = [row for row in algorithms(primitive) if row.why_not(whole) is None and selectable(row.status_on(whole))]
    return [row.name for row in rows if not row.not_run_by(Running(library), whole._replace(scale_out=True))]
