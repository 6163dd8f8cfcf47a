"""A breakdown is one row of the price list, phase by phase, beside the flat schedules that it is to
beat."""

from __future__ import annotations

import pytest
from small import clos, fabric, star, torus
from swept import swept

import colltool
from colltool.base.errors import ColltoolError

TWO = fabric(star(8, 0.5, 900.0), clos(4, alpha=3.0, bw=50.0))
BASELINES = {
    "ar": {"ring", "outer-ring", "multi-rail-ring", "inner-ring"},
    "ag": {"ring", "outer-ring", "multi-rail-ring", "inner-ring"},
    "a2a": {"pairwise", "outer-pairwise", "inner-pairwise"},
    "bc": {"chain", "multi-rail-chain"},
    "p2p": {"send"},
}


@swept("primitive", BASELINES)
@swept("size", [1.0, 1e6, 1e9])
def test_without_a_name_it_is_the_best_row(primitive: str, size: float) -> None:
    found = colltool.breakdown(TWO, primitive, size=size)
    everything = colltool.price(TWO, primitive, size=size)
    assert found.price.results == (everything.best,)
    expected = BASELINES[primitive] - {everything.best.algorithm}
    assert {row.algorithm for row in found.baselines} == expected
    by_title = {row.title: row for row in everything.results}
    assert all(row == by_title[row.title] for row in found.baselines)


@swept(
    "name",
    [
        "ring",
        "tree",
        "hierarchical:ring/ring",
        "hierarchical:direct/tree",
        "leader:binomial/ring",
        "inner-ring",
    ],
)
def test_a_named_row_is_the_one_of_the_price(name: str) -> None:
    found = colltool.breakdown(TWO, "ar", size=1e6, algorithm=name)
    assert found.price.results == colltool.price(TWO, "ar", size=1e6, algorithms=name).results
    assert found.price.results[0].title not in [row.title for row in found.baselines]


@swept("model", [{}, {"phases": "pipelined"}, {"phases": "sequential"}, {"ideal": True}])
@swept("primitive", ["ar", "ag", "bc"])
@swept("size", [1.0, 1e6, 1e9])
def test_hierarchical_alone_is_its_fastest_composition(
    primitive: str, size: float, model: dict[str, object]
) -> None:
    found = colltool.breakdown(TWO, primitive, size=size, algorithm="hierarchical", **model)
    rows = [
        row
        for row in colltool.price(TWO, primitive, size=size, **model).results
        if row.algorithm == "hierarchical"
    ]
    leading = [row for row in rows if row.selectable] or rows
    assert found.price.results[0].total_s == min(float(row.total_s) for row in leading)


def test_phases_add_up_to_the_row() -> None:
    (row,) = colltool.breakdown(
        TWO, "ar", size=1e6, algorithm="hierarchical:ring/ring"
    ).price.results
    assert sum(phase.total_s for phase in row.phases) == pytest.approx(row.total_s)
    assert [(phase.tier, phase.primitive, phase.bytes) for phase in row.phases] == [
        ("t1", "reduce_scatter", 1e6),
        ("t2", "all_reduce", 125e3),
        ("t1", "all_gather", 1e6),
    ]


def test_the_phases_of_a_lattice_are_its_axes() -> None:
    (row,) = colltool.breakdown(
        fabric(torus(4, 3, 2)), "ar", size=24.0, algorithm="dim-ring"
    ).price.results
    assert [(phase.label, phase.ranks, phase.bytes) for phase in row.phases] == [
        ("axis 1 (4)", 4, 24.0),
        ("axis 2 (3)", 3, 6.0),
        ("axis 3 (2)", 2, 2.0),
        ("axis 3 (2)", 2, 2.0),
        ("axis 2 (3)", 3, 6.0),
        ("axis 1 (4)", 4, 24.0),
    ]


def test_a_group_inside_one_tier_is_compared_with_its_flat_schedules_only() -> None:
    found = colltool.breakdown(TWO, "ar", size=1e6, ranks=8)
    assert {row.algorithm for row in found.baselines} <= {"ring"}


def test_hypothetical_rows_are_baselines_and_never_the_answer() -> None:
    found = colltool.breakdown(TWO, "a2a", size=1e9)
    assert found.price.results[0].selectable
    assert "inner-pairwise" in {row.algorithm for row in found.baselines}


@swept("name", ["nonsense", "hierarchical:ring", "dim-ring", "in-network"])
def test_a_name_that_cannot_be(name: str) -> None:
    with pytest.raises(ColltoolError):
        colltool.breakdown(TWO, "ar", size=1e6, algorithm=name)
