"""No bus bandwidth falls by more than a tenth as the message doubles, but where the library's pick
changes or rows show it."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from effort import some
from measured_rows import rows
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.load import load_fabric, shipped_fabrics

MOST_FALL = 0.1
SIZES = [2.0**power for power in range(10, 35)]
COUNTS = 10
PRIMITIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


class Shown(NamedTuple):
    """A fall that rows of a machine show: from the size before to ``bytes``."""

    source: str
    collective: str
    ranks: int
    bytes: float


EXCEPTIONS = {
    ("mi300x-cluster", "mi325x", "mi355x"): (Shown("mi308x-2n", "all_reduce", 16, 2.0**23),),
}


def rank_counts(name: str) -> list[int]:
    """At most ten from two ranks to all: powers of two, a domain, whole domains."""
    fabric = load_fabric(name)
    found = {2, 4, 8, fabric.tiers[0].endpoints, fabric.ranks}
    count = fabric.tiers[0].endpoints
    while count < fabric.ranks:
        found.add(count)
        count *= 2
    usable = sorted(count for count in found if 2 <= count <= fabric.ranks)
    if len(usable) <= COUNTS:
        return usable
    return sorted({usable[round(at * (len(usable) - 1) / (COUNTS - 1))] for at in range(COUNTS)})


def falls(name: str, primitive: str, ranks: int) -> list[tuple[float, float]]:
    """Sizes at which the same way reaches less than at half of them, and the share of it."""
    found = []
    before: tuple[float, str, str | None] | None = None
    for size in SIZES:
        try:
            price = colltool.price(name, primitive, size=size, ranks=ranks)
        except ColltoolError:  # a group that the fabric's slices do not have
            return []
        row = price.library.runs if price.library and price.library.runs else price.best
        now = float(row.busbw_Bps), row.title, row.protocol
        if before is not None and before[1:] == now[1:] and now[0] < (1 - MOST_FALL) * before[0]:
            found.append((size, now[0] / before[0]))
        before = now
    return found


def excused(name: str, primitive: str, ranks: int) -> set[float]:
    """Sizes at which rows of such a machine, on half to twice the ranks, show a fall."""
    known = [one for names, shown in EXCEPTIONS.items() if name in names for one in shown]
    return {
        one.bytes for one in known if one.collective == primitive and 0.5 <= one.ranks / ranks <= 2
    }


@swept("primitive", PRIMITIVES, most=2)
@swept("name", shipped_fabrics(), most=5)
def test_bus_bandwidth_holds_as_the_message_doubles(name: str, primitive: str) -> None:
    counts = rank_counts(name)
    for ranks in some(counts, 3):
        left = [
            fall
            for fall in falls(name, primitive, ranks)
            if fall[0] not in excused(name, primitive, ranks)
        ]
        assert not left, f"{ranks} ranks"


@pytest.mark.parametrize("one", [one for shown in EXCEPTIONS.values() for one in shown])
def test_rows_show_every_exception(one: Shown) -> None:
    several = [
        row
        for row in rows()
        if (row.source.source_id, row.collective, row.ranks)
        == (one.source, one.collective, one.ranks)
    ]
    times = {float(row.bytes): row.time_s for row in several}
    assert times[one.bytes] > 2 / (1 - MOST_FALL) * times[one.bytes / 2]
