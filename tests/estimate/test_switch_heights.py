"""How many switches an in-network collective climbs, and at which rate: by hand on one switch and
on two levels of them."""

from __future__ import annotations

import pytest
from swept import swept

import colltool
from colltool.fabric.model import Fabric
from tests import small

M, SWITCH = 1e9, 0.2e-6


def one_switch(levels: int | None) -> Fabric:
    more = {} if levels is None else {"levels": levels}
    return small.fabric(
        small.star(
            8,
            bw=100.0,
            eta={"alpha": 1.5, "beta": 0.8},
            in_network=small.switch(SWITCH * 1e6, eta_beta=0.5, **more),
        )
    )


def two_levels(levels: int | None = None) -> Fabric:
    more = {} if levels is None else {"levels": levels}
    return small.fabric(
        small.clos(8, (4, 1.0), (8, 4.0), in_network=small.switch(SWITCH * 1e6, **more))
    )


def climbed(fabric: Fabric, ranks: int, **readings: object) -> float:
    """Switches passed on the way up."""
    row = colltool.price(
        fabric, "ar", ranks=ranks, size=M, algorithms="in-network", ideal=True, **readings
    ).results[0]  # type: ignore[arg-type]
    flat = colltool.price(
        one_switch(1), "ar", ranks=ranks, size=M, algorithms="in-network", ideal=True
    ).results[0]
    return float(row.alpha_s / flat.alpha_s)


@swept(("levels", "expected"), [(None, 1), (1, 1), (2, 2), (3, 3)])
def test_one_level_of_a_file_may_be_several_of_switches(levels: int | None, expected: int) -> None:
    assert climbed(one_switch(levels), 8) == pytest.approx(expected)


@swept(
    ("ranks", "placement", "expected"),
    [(4, "packed", 1), (5, "packed", 2), (8, "packed", 2), (2, "scattered", 2)],
)
def test_a_tree_is_as_tall_as_the_group_is_wide(ranks: int, placement: str, expected: int) -> None:
    assert climbed(two_levels(), ranks, placement=placement) == pytest.approx(expected)
    assert climbed(two_levels(3), ranks, placement=placement) == pytest.approx(expected)
    assert climbed(two_levels(1), ranks, placement=placement) == pytest.approx(1)


def test_an_all_reduce_in_switches_has_an_eta_of_its_own_and_none_where_ideal() -> None:
    """One M up and one down at once, n_β = 1."""
    ideal, real = (
        colltool.price(
            one_switch(1), "ar", ranks=8, size=M, algorithms="in-network", ideal=ideal
        ).results[0]
        for ideal in (True, False)
    )
    assert float(ideal.bandwidth_s) == pytest.approx(M / 100e9)
    assert float(real.bandwidth_s) == pytest.approx(M / 100e9 / 0.5)
    assert float(real.alpha_s) == pytest.approx(1.5 * float(ideal.alpha_s))
