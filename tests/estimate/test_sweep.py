"""Every primitive on every kind of fabric, at many rank counts, under every reading: a price or a
reason, never anything else."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import isfinite
from typing import Any

import numpy as np
import pytest
from effort import some
from small import clos, dragonfly, fabric, full_mesh, mesh, routed, shipped, star, switch, torus
from swept import swept

import colltool
from colltool.algorithms.composed import every_composition
from colltool.algorithms.registry import usual_algorithms
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.groups import place
from colltool.fabric.load import shipped_fabrics
from colltool.fabric.model import Fabric

HARDWARE = switch(0.3, eta_beta=0.5)
MADE = {
    "star": fabric(star(64, in_network=HARDWARE)),
    "full_mesh": fabric(full_mesh(9)),
    "clos": fabric(clos(96, (4, 2.0), (24, 5.0, 2.0), (96, 9.0, 4.0), in_network=HARDWARE)),
    "torus": fabric(torus(4, 3, 2)),
    "ring": fabric(torus(8)),
    "closed": fabric(torus(4, 2, 4)),
    "mesh": fabric(mesh(5, 4)),
    "torus+clos": fabric(torus(4, 4, alpha=0.5), clos(12, (3, 2.0), (12, 6.0, 4.0))),
    "full_mesh+clos": fabric(full_mesh(8), clos(6, (2, 2.0), (6, 6.0, 3.0), in_network=HARDWARE)),
    "three tiers": fabric(
        star(8, in_network=HARDWARE), full_mesh(3), clos(10, (2, 2.0), (10, 6.0, 3.0))
    ),
    "ports": fabric(star(4, ports=2), clos(4, alpha=2.0, ports=3), launch_overhead="20us"),
    "dragonfly": fabric(dragonfly(2, 3, 5)),
    "mesh outside": fabric(star(4), mesh(3, 2)),
    "uneven": fabric(star(4), clos(3, alpha=5.0) | {"domains": [4, 2, 3]}),
}
FABRICS = [*MADE, *shipped_fabrics()]


@cache
def known(name: str) -> Fabric:
    return MADE.get(name) or shipped(name)


READINGS: list[dict[str, Any]] = [
    {
        "pipelining": pipelining,
        "phases": phases,
        "placement": placement,
        "ring_alpha": ring_alpha,
        "ideal": ideal,
    }
    for pipelining, phases, placement, ring_alpha, ideal in product(
        ["asymptotic", "optimal", 5],
        [None, "sequential", "pipelined"],
        ["packed", "scattered"],
        ["mean", "worst"],
        [False, True],
    )
]
OTHERS: list[dict[str, Any]] = [
    {"order": "outer-first"},
    {"order": "inner-first"},
    {"tree_beta": 1.0},
]


def some_ranks(where: Fabric) -> list[int]:
    """Rank counts that fit: small ones, every whole tier, and all."""
    wanted = {
        *range(2, 18),
        24,
        32,
        48,
        64,
        72,
        96,
        100,
        128,
        144,
        192,
        256,
        512,
        where.ranks // 2,
        where.ranks,
    }
    inside = 1
    for tier in where.tiers:
        wanted |= {inside * tier.endpoints, inside * 2, inside * 3, inside * 5}
        inside *= tier.endpoints
    fitting = []
    for n in sorted(n for n in wanted if 2 <= n <= where.ranks):
        try:
            place(where, n)
        except ColltoolError:
            continue
        fitting.append(n)
    return fitting


def check(where: Fabric, primitive: Primitive, n: int, size: float, model: dict[str, Any]) -> None:
    if model.get("placement") == "scattered" and (routed(where) or where.domains):
        # refused where messages are put on links one by one
        model = model | {"placement": "packed"}
    result = colltool.price(where, primitive, size=size, ranks=n, **model)
    assert result.results
    assert (result.ranks, result.bytes, result.primitive) == (n, size, primitive)
    for row in result.results:
        numbers = [row.alpha_s, row.bandwidth_s, row.total_s, row.algbw_Bps, row.busbw_Bps]
        assert all(isfinite(number) and number > 0 for number in numbers), row
        assert row.phases
        for phase in row.phases:
            assert isfinite(phase.alpha_s) and phase.alpha_s >= 0  # noqa: PT018
            assert isfinite(phase.bandwidth_s) and phase.bandwidth_s >= 0  # noqa: PT018
            assert 0 < phase.eta_beta <= 1 <= phase.eta_alpha * (1 + 1e-12)
            assert 0 < phase.share <= 1
            assert phase.ranks >= 2
            assert 0 < phase.bytes <= size * (1 + 1e-12)
        assert all(note for note in row.notes)
    assert len({row.title for row in result.results}) == len(result.results)
    for cannot in result.infeasible:
        assert len(cannot.reason) > 10
        assert "None" not in cannot.reason
    listed = {row.algorithm for row in result.results} | {
        cannot.algorithm for cannot in result.infeasible
    }
    every = {
        row.name
        for row in (*usual_algorithms(), *every_composition())
        if row.primitive is primitive
    }
    assert listed == every


@swept("primitive", list(Primitive))
@swept("name", FABRICS, most=1)
def test_every_rank_count_has_a_price(name: str, primitive: Primitive) -> None:
    where = known(name)
    # every other count: the next primitive takes those between
    turn = list(Primitive).index(primitive) % 2
    for number, n in enumerate(some_ranks(where)[turn::2]):
        check(
            where, primitive, n, (1.0, 64e3, 1e9)[number % 3], READINGS[number * 7 % len(READINGS)]
        )


@swept("primitive", list(Primitive))
@swept("name", FABRICS, most=1)
def test_every_reading_has_a_price(name: str, primitive: Primitive) -> None:
    where = known(name)
    counts = some_ranks(where)
    # A fifth of the readings each: the primitives of a fabric meet them all.
    first = FABRICS.index(name) + list(Primitive).index(primitive)
    for number, model in enumerate((READINGS + OTHERS)[first % 5 :: 5]):
        check(
            where,
            primitive,
            where.ranks if number % 2 else counts[number % len(counts)],
            1e6,
            model,
        )


@swept("primitive", list(Primitive))
def test_an_array_of_sizes_has_a_price_everywhere(primitive: Primitive) -> None:
    sizes = np.geomspace(1, 1e12, 7)
    for where in map(known, some(FABRICS, 6)):
        for row in colltool.price(where, primitive, size=sizes).results:
            assert np.all(np.isfinite(row.total_s))
            assert np.all(np.diff(row.modelled_s) >= 0)
            # a machine's factor is of what its library picks: times of other ways may dip by a
            # little where it falls
            assert np.all(np.diff(row.total_s) >= -0.06 * np.asarray(row.total_s)[:-1])


@pytest.mark.ci
def test_every_algorithm_runs_somewhere() -> None:
    seen, every = (
        set(),
        {(row.primitive, row.name) for row in (*usual_algorithms(), *every_composition())},
    )
    for where in map(known, FABRICS):
        if seen >= every:
            break
        for primitive in Primitive:
            for n in (
                where.ranks,
                some_ranks(where)[-2] if len(some_ranks(where)) > 1 else where.ranks,
            ):
                seen |= {
                    (primitive, row.algorithm)
                    for row in colltool.price(where, primitive, size=1e6, ranks=n).results
                }
    assert seen == every


@swept("name", FABRICS, most=4)
def test_crossovers_exist_everywhere(name: str) -> None:
    for primitive in Primitive:
        found = colltool.crossover(known(name), primitive)
        assert found.winners
        for pair in found.pairs:
            assert (pair.dominates is None) == bool(pair.crossings)


def test_equal_questions_get_equal_answers() -> None:
    for primitive in Primitive:
        for name in ("nvl72", "torus+clos"):
            assert colltool.price(known(name), primitive, size=1e6) == colltool.price(
                known(name), primitive, size=1e6
            )


@swept("name", FABRICS, most=5)
def test_sweep_of_price_lists(name: str) -> None:
    """Without sizes: the winner and the runner-up of those that may lead, from 1 KB to 1 GB."""
    listed = colltool.price_list(known(name), "ar")
    assert listed.winners_only
    assert [one.bytes for one in listed.prices] == [1e3, 64e3, 1e6, 16e6, 256e6, 1e9]
    for one in listed.prices:
        assert 1 <= len(one.results) <= 2
        assert all(row.selectable for row in one.results)
        assert (
            one.results[0].total_s == colltool.price(known(name), "ar", size=one.bytes).best.total_s
        )
