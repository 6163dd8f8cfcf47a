"""A price beyond the sizes that a protocol was measured at says so; within them it says nothing,
and no number moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small import clos, fabric, gb, star, us
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AG, AR
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.price import price
from colltool.fabric.model import Fabric

BELOW = "below the smallest measured size of 32 MiB: extrapolated"
ABOVE = "above the largest measured size of 8 GiB: extrapolated"
MIB, GIB = 2.0**20, 2.0**30


def protocol(
    name: str = "one", launch: float = 50.0, bw: float = 300.0, **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "launch_overhead": us(launch),
        "alpha": us(1.0),
        "bandwidth": gb(bw),
        **more,
    }


def known(smallest: str = "32MiB", largest: str = "8GiB") -> dict[str, Any]:
    return {"measured": {"smallest": smallest, "largest": largest}}


def ring(of: Fabric, size: Any, ranks: int = 8, primitive: Any = AR) -> AlgorithmEstimate:
    (row,) = price(of, primitive, size, ranks, only=["ring"]).results
    return row


def extrapolated(row: AlgorithmEstimate) -> list[str]:
    return [note for note in row.notes if "measured" in note]


ONE = fabric(star(8, protocols=[protocol(**known())]))


@swept(
    ("size", "notes"),
    [
        (1e3, [BELOW]),
        (32 * MIB - 1, [BELOW]),
        (32 * MIB, []),
        (GIB, []),
        (8 * GIB, []),
        (8 * GIB + 1, [ABOVE]),
        (1e18, [ABOVE]),
    ],
)
def test_outside_of_what_was_measured_a_price_says_so(size: float, notes: list[str]) -> None:
    assert extrapolated(ring(ONE, size)) == notes


def test_no_number_moves() -> None:
    bare = fabric(star(8, protocols=[protocol()]))
    for size in (1e3, 1e9):
        assert ring(bare, size) == replace(ring(ONE, size), notes=ring(bare, size).notes)


def test_every_row_of_a_price_says_so() -> None:
    assert all(BELOW in row.notes for row in price(ONE, AR, 1e3).results)


def test_an_array_says_so_where_one_of_its_sizes_is_outside() -> None:
    assert extrapolated(ring(ONE, np.array([GIB, 2 * GIB]))) == []
    assert extrapolated(ring(ONE, np.array([1e3, GIB]))) == [BELOW]
    assert extrapolated(ring(ONE, np.array([1e3, 1e11]))) == [BELOW, ABOVE]


def test_each_size_is_held_against_the_protocol_of_its_price() -> None:
    both = [
        protocol("small", 5.0, 10.0, **known("1KiB", "1MiB")),
        protocol("large", 50.0, 300.0, **known("1MiB", "8GiB")),
    ]
    two = fabric(star(8, protocols=both))
    assert [ring(two, size).protocol for size in (2e3, 1e9)] == ["small", "large"]
    assert extrapolated(ring(two, 2e3)) == extrapolated(ring(two, 1e9)) == []
    assert extrapolated(ring(two, np.array([2e3, 1e9]))) == []
    assert extrapolated(ring(two, 100.0)) == [
        "below the smallest measured size of 1 KiB: extrapolated"
    ]


def test_a_primitive_with_protocols_of_its_own_has_its_own_range() -> None:
    own = [protocol(**known()), protocol(**known("1KiB")) | {"primitives": ["all_gather"]}]
    mixed = fabric(star(8, protocols=own))
    assert extrapolated(ring(mixed, 1e6, primitive=AG)) == []
    assert extrapolated(ring(mixed, 1e6, primitive=AR)) == [BELOW]


def test_a_call_over_several_tiers_is_measured_as_a_whole() -> None:
    inner = star(8, protocols=[protocol(**known("1KiB"))])
    measured, not_measured = (
        fabric(inner, clos(4, alpha=5.0, protocols=[outer]))
        for outer in (protocol(**known()), protocol())
    )
    assert extrapolated(ring(measured, 1e6, ranks=32)) == [BELOW]
    assert extrapolated(ring(measured, 1e6, ranks=8)) == []
    assert extrapolated(ring(not_measured, 100.0, ranks=32)) == []


@swept("bad", [known("8GiB", "32MiB"), {"measured": {"smallest": "1KiB"}}, known("many")])
def test_a_range_that_is_none_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ColltoolError, match="measured"):
        fabric(star(8, protocols=[protocol(**bad)]))
