"""All-to-alls that are not uniform: what they cost at the busiest port, and what no distribution
has."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.congestion.skew import Skew, skewed
from tests.wiring import on

NAN, INF = float("nan"), float("inf")


@swept("factor", [1, 2, 3, 8])
def test_a_destination_three_times_as_hot_costs_three_times_at_its_port(factor: float) -> None:
    result = on("star512", group=64, count=1, hot=factor)
    assert result.slowdown == pytest.approx(factor, rel=1e-9)
    assert result.groups[0].tail_over_mean == pytest.approx(factor, rel=1e-9)
    if factor > 1:
        assert result.hottest[0].link == "star rank 0 in"


def test_zipf_is_its_largest_weight() -> None:
    weights = 1 / np.arange(1, 65)
    result = on("star512", group=64, count=1, zipf=1.0)
    assert result.slowdown == pytest.approx(64 * weights[0] / weights.sum())
    assert on("star512", group=64, count=1, zipf=0.0).slowdown == 1.0


def test_a_matrix_counts_bytes_off_the_diagonal() -> None:
    matrix = [[9e9, 100, 300], [100, 0, 300], [100, 100, 5]]
    (group,) = (result := on("star512", group=3, count=1, matrix=matrix)).groups
    assert (result.unit, result.hottest[0].link, result.hottest[0].load) == (
        "bytes",
        "star rank 2 in",
        600.0,
    )
    assert group.slowdown == pytest.approx(600 / (1000 / 3))
    assert group.together_s == pytest.approx(600 / 900e9)
    assert group.bytes == 500


@swept(
    ("matrix", "what"),
    [
        ([[0, 1], [1, 0]], "2x2"),
        ([[0, 1, 1], [1, 0, 1]], "2x3"),
        ([[0, 1, 1], [1, 0]], "no table"),
        ([[0, -1, 1], [1, 0, 1], [1, 1, 0]], "-1"),
        (np.diag([1, 1, 1]), "no bytes"),
        ([[0, float("nan"), 1], [1, 0, 1], [1, 1, 0]], "nan"),
        ([[0, float("inf"), 1], [1, 0, 1], [1, 1, 0]], "inf"),
        ([["a", "b"], ["c", "d"]], "no table"),
        ([], "matrix is 0"),
        (7, "matrix is a single number"),
        ([[0, 1e-320, 0], [0, 0, 0], [0, 0, 0]], "moves 4.99994e-321 bytes"),
        ([[0, 1e308, 1e308], [1e308, 0, 0], [0, 0, 0]], "moves inf bytes"),
        ([[0, 2e18, 1e18], [0, 0, 0], [0, 0, 0]], "1e-9 to 1 EB per rank"),
    ],
)
def test_a_matrix_that_is_none(matrix: Any, what: str) -> None:
    with pytest.raises(ColltoolError, match=what):
        on("star512", group=3, count=1, matrix=matrix)


@swept(
    ("options", "what"),
    [
        *(
            ({"hot": hot}, "hot: group 'g0': 1 destinations at")
            for hot in (0.5, 0, -1, 8.001, 9, NAN, INF, 5e-324)
        ),
        *(
            ({"hot": hot}, "hot: group 'g0': expected a number, got")
            for hot in ("x", "", True, [2], 10**400)
        ),
        ({"hot": 5, "hot_members": (0, 1)}, "2 destinations at 5 times"),
        *(
            ({"hot": 2, "hot_members": bad}, "a hot member is outside the group of 8")
            for bad in ((), (8,), (-1,), (0, 99))
        ),
        *(
            ({"hot": 2, "hot_members": bad}, "numbers of members")
            for bad in (5, None, ("a",), (0.5,), (True,))
        ),
        ({"hot": 2, "hot_members": (3, 1, 3)}, "hot member 3 is named twice"),
        *(
            ({"zipf": s}, "zipf: group 'g0': the exponent of Zipf")
            for s in (-1, -1e-300, 100.5, NAN, INF, -INF)
        ),
        *(({"zipf": s}, "zipf: group 'g0': expected a number") for s in ("x", True, [1])),
    ],
)
def test_a_skew_that_no_distribution_has(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ColltoolError, match=re.escape(what)):
        on("star512", group=8, count=1, **options)


@swept(
    "options",
    [{"hot": 8}, {"hot": 1, "hot_members": range(8)}, {"hot": 4, "hot_members": np.array([7, 0])}],
)
def test_the_edges_of_hot_are_taken(options: dict[str, Any]) -> None:
    group = on("star512", group=8, count=1, **options).groups[0]
    assert group.slowdown == options["hot"]


def test_zipf_may_leave_destinations_nothing() -> None:
    assert on("star512", group=8, count=1, zipf=100).slowdown == pytest.approx(8)


@pytest.mark.parametrize(
    "matrix", [[[0, 0, 0], [0, 0, 0], [4, 0, 0]], [[9, 0, 0], [0, 0, 0], [4, 1e-300, 0]]]
)
def test_rows_that_send_nothing(matrix: list[list[float]]) -> None:
    result = on("star512", group=3, count=1, matrix=matrix)
    # 4 bytes at one port; alone each would send 2/3 of 2 bytes
    assert result.groups[0].slowdown == 3.0
    assert (result.hottest[0].link, result.hottest[0].load) == ("star rank 2 out", 4.0)


def test_a_skew_needs_an_all_to_all() -> None:
    with pytest.raises(ColltoolError, match="no group runs one"):
        on("star512", group=8, primitive="ar", hot=2)


def test_skewed_totals() -> None:
    one, even = skewed(Skew(hot=3.0, hot_members=(1, 2)), 16)
    into = np.bincount(one.dst, one.size, 16)
    assert into[1] == into[2] == pytest.approx(3 * 15 / 16)
    assert one.size.sum() == pytest.approx(even.sum())
