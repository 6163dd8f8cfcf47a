"""A row's price by a machine that has not seen its source: library, contention and the machine's
factor made without it."""

from __future__ import annotations

import sys
from functools import cache
from math import exp
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import fit_fabrics  # noqa: E402
import fit_machines  # noqa: E402
from measured_rows import Row  # noqa: E402

import colltool  # noqa: E402

SAME_MACHINE = (
    ("mi350x-2n", "mi350x-2n-2.30"),
    ("azure-h200-vm", "azure-h200-vm-2"),
    ("nccl-1801", "nccl-1801-2"),
    ("coreweave-20racks", "coreweave-48"),
    ("dstack-3961", "dstack-p6-b200"),
    ("nccl-tests-309", "nccl-tests-309a", "nccl-tests-309b"),
    ("oci-gb300-64", "oci-gb300-128", "oci-gb300-rack"),
)
"""Sources that are left out together: one machine, or one thread."""


class LeftOut(NamedTuple):
    """Seconds of a price that has not seen a row's source, and sigma of the machine's factor in it;
    None without one."""

    seconds: float
    posterior: float | None


def left_out(row: Row) -> LeftOut:
    """The price of a row on its machine made without the row's source, its own factor too."""
    name, source = row.source.fabric, row.source.source_id
    of_kind = name in fit_fabrics.INSIDE or name in fit_fabrics.SAME_AS
    without = together(source) if row.role == "fit" and of_kind else ()
    fabric = fabric_without(name, without, row.source.set)
    took = seconds(fabric, row, "library" if without else "measured")
    shipped = colltool.load_fabric(name).machine
    if shipped is None:
        return LeftOut(took, None)
    machine = machine_without(shipped.name, without) if without else shipped
    if name not in fit_machines.OF_FABRIC:  # a machine of the same kind, that no row was taken from
        return LeftOut(took, None)
    at = row.collective, fit_machines.scope_of(row), row.ranks, float(row.bytes)
    return LeftOut(took * exp(float(machine.d(*at))) if without else took, machine.sigma(*at))


@cache
def machine_without(name: str, without: tuple[str, ...]) -> Any:
    """A machine's factors that have not seen some sources, over layers 1 to 3 that have not
    either."""
    return fit_machines.made(name, without, refit=True, keep_order=False)


@cache
def fabric_without(name: str, without: tuple[str, ...], change: str) -> Any:
    if without:
        return fit_fabrics.loaded_without(name, change, without)
    return colltool.load_fabric(name, change.split())


def together(source: str) -> tuple[str, ...]:
    """A source and those that are left out with it."""
    return next((same for same in SAME_MACHINE if source in same), (source,))


def seconds(fabric: Any, row: Row, numbers: str = "measured") -> float:
    """Of what the library picks, else of the fastest."""
    stride = {"stride": int(row.source.stride)} if row.source.stride else {}
    found = colltool.price(
        fabric, row.collective, size=row.bytes, ranks=row.ranks, numbers=numbers, **stride
    )
    runs = found.library.runs if found.library else None
    return float((runs or found.best).total_s)
