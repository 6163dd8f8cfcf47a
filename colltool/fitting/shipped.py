"""What the library that ran may have chosen: the algorithms that it ships for a primitive, on a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colltool.algorithms.registry import algorithms, find
from colltool.pricing.compose import Workbench, workbenches
from colltool.pricing.groups import Placed, flat_group
from colltool.pricing.protocols import under_protocols
from colltool.pricing.readings import Readings
from colltool.primitives import Primitive

_VENDORS = {
    "NCCL": ("NCCL",),
    "RCCL": ("RCCL",),
    "MPI": ("MPI", "MPICH", "Open MPI", "MVAPICH2"),
    "MVAPICH": ("MPI", "MPICH", "Open MPI", "MVAPICH2"),
}
"""Who in the registry answers for a library; a log says MPI and seldom whose."""


def shipped(placed: Placed, primitive: Primitive, readings: Readings, library: str, sizes: Sequence[float]) -> list[str]:
    """Names of what a library ships and the group can run, for :func:`colltool.pricing.price.price`; no choice of another's.

    Args:
        library: as the log gives it; of one that is unknown or not given, whatever anybody ships.
        sizes: at which compositions are at their fastest; the textbook choice is always among them.
    """
    known = next((name for name in _VENDORS if name in library.upper()), "")
    whole, _ = flat_group(placed, readings)
    flat = [row.name for row in algorithms(primitive) if row.why_not(whole) is None and _ships(known, primitive, row.name)]
    benches = [
        _own(bench, known) for each in under_protocols(placed, primitive) for bench in workbenches(each, primitive, readings)
    ]
    candidates = [costed for bench in benches if bench for costed in (*map(bench.fastest_of_any, sizes), bench.usual())]
    return list(dict.fromkeys([*flat, *(costed.choice.spec for costed in candidates)]))


def _own(bench: Workbench, library: str) -> Workbench | None:
    """A composition with the library's own choices on every tier; None where it has none."""
    first = {one.step.tier: one.step.primitive for one in reversed(bench.laid)}
    options = tuple(
        tuple(option for option in tier if _ships(library, first[index], option.name)) for index, tier in enumerate(bench.options)
    )
    return replace(bench, options=options, made={}) if all(options) and _names(library, bench.row.shipped_by) else None


def _ships(library: str, primitive: Primitive, name: str) -> bool:
    return _names(library, find(primitive, name).shipped_by)


def _names(library: str, shipped_by: tuple[str, ...]) -> bool:
    vendors = {vendor.partition(" (")[0] for vendor in shipped_by}
    return bool(vendors.intersection(_VENDORS[library]) if library else vendors)
