"""The three readings of a pipelined schedule, against trying every number of segments."""

from __future__ import annotations

from math import ceil, log2, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import clos, fabric, star, torus
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Pipeline

ALPHA, BW = 1e-6, 1e11


def seconds(depth: int, fill: float, load: float, size: float, segments: float) -> float:
    """t(P) = (L+P-1)·α + b·(F+P-1)/P·M/BW, from the definition."""
    return (depth + segments - 1) * ALPHA + load * (fill + segments - 1) / segments * size / BW


def smooth_optimum(depth: int, fill: float, load: float, size: float) -> float:
    """The least of t(P) over all positive P, whole or not: multiply t(P) out, and Pα + (F-1)x/P is
    what P moves."""
    transfer = load * size / BW
    return (depth - 1) * ALPHA + transfer + 2 * sqrt((fill - 1) * ALPHA * transfer)


def priced(depth: int, fill: float, load: float, size: float, reading: str | int) -> float:
    n_alpha, n_beta = Pipeline(depth, fill, load).counted(size, ALPHA, BW, reading)  # type: ignore[arg-type]
    return float(n_alpha * ALPHA + n_beta * size / BW)


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[int, float, float]:
    """(L, F, b): a chain or tree fills in its depth, the double binary tree in half of it."""
    depth = draw(st.integers(1, 600))
    return (
        depth,
        draw(st.sampled_from([depth, max(1.0, depth / 2 - 0.5)])),
        draw(st.sampled_from([1.0, 1.5, 2.0])),
    )


sizes = st.floats(0, 8).map(lambda exponent: 10**exponent)


@given(pipelines(), sizes)
def test_the_optimum_is_the_best_of_five_thousand(
    pipeline: tuple[int, float, float], size: float
) -> None:
    tried = min(seconds(*pipeline, size, segments) for segments in range(1, 5001))
    best = int(Pipeline(*pipeline).best_segments(size, ALPHA, BW))
    assert best >= 1
    assert best < 5000
    assert seconds(*pipeline, size, best) == pytest.approx(tried, rel=1e-12)
    assert priced(*pipeline, size, "optimal") == pytest.approx(tried, rel=1e-12)


@given(pipelines(), sizes)
def test_readings_are_ordered(pipeline: tuple[int, float, float], size: float) -> None:
    """The limit below the best whole number, below any other number; the smooth optimum below the
    whole one."""
    depth, _, load = pipeline
    asymptotic, optimal = priced(*pipeline, size, "asymptotic"), priced(*pipeline, size, "optimal")
    assert asymptotic == pytest.approx(depth * ALPHA + load * size / BW)
    assert asymptotic <= optimal * (1 + 1e-12)
    assert smooth_optimum(*pipeline, size) <= optimal * (1 + 1e-12)
    for segments in (1, 2, 7, 1000):
        assert optimal <= priced(*pipeline, size, segments) * (1 + 1e-12)


@given(pipelines(), sizes, st.integers(1, 5000))
def test_a_given_number_of_segments(
    pipeline: tuple[int, float, float], size: float, segments: int
) -> None:
    assert priced(*pipeline, size, segments) == pytest.approx(seconds(*pipeline, size, segments))


@given(pipelines(), sizes)
def test_one_segment_is_no_pipeline(pipeline: tuple[int, float, float], size: float) -> None:
    depth, fill, load = pipeline
    assert priced(*pipeline, size, 1) == pytest.approx(depth * ALPHA + fill * load * size / BW)


@given(pipelines(), st.lists(sizes, min_size=1, max_size=20))
def test_arrays_equal_scalars(pipeline: tuple[int, float, float], several: list[float]) -> None:
    array, one = np.array(several), Pipeline(*pipeline)
    together = one.best_segments(array, ALPHA, BW)
    assert [float(p) for p in together] == [
        float(one.best_segments(size, ALPHA, BW)) for size in several
    ]
    for reading in ("asymptotic", "optimal", 4):
        n_alpha, n_beta = one.counted(array, ALPHA, BW, reading)  # type: ignore[arg-type]
        total = n_alpha * ALPHA + n_beta * array / BW
        assert total == pytest.approx(
            [priced(*pipeline, size, reading) for size in several], rel=1e-15
        )


def test_a_depth_of_one_has_nothing_to_fill() -> None:
    assert Pipeline(1, 1, 1.0).best_segments(1e9, ALPHA, BW) == 1
    for reading in ("asymptotic", "optimal", 1):
        assert priced(1, 1, 1.0, 1e6, reading) == pytest.approx(ALPHA + 1e6 / BW)


PIPELINED = {
    ("bc", "chain"): (63, 63, 1.0),
    ("reduce", "chain"): (63, 63, 1.0),
    ("bc", "pipelined-tree"): (6, 6, 1.0),
    ("reduce", "pipelined-tree"): (6, 6, 1.0),
    ("ar", "double-binary-tree"): (12, 5.5, 2.0),
}


@swept("key", PIPELINED)
@swept("reading", ["asymptotic", "optimal", 1, 16])
@swept("size", [1.0, 1e4, 1e6, 1e9])
def test_the_rows_that_are_pipelined(key: tuple[str, str], reading: str | int, size: float) -> None:
    (row,) = colltool.price(
        fabric(star(64)), key[0], size=size, algorithms=key[1], pipelining=reading
    ).results
    assert row.total_s == pytest.approx(priced(*PIPELINED[key], size, reading))
    assert row.n_alpha * ALPHA == pytest.approx(row.alpha_s)
    assert row.n_beta * size / BW == pytest.approx(row.bandwidth_s)


@swept("size", [1e3, 1e6, 1e9])
def test_the_lattice_chains_are_pipelined(size: float) -> None:
    where = fabric(torus(8, 4))
    for name, (depth, n_beta) in {
        "dim-chain": (10, 1),
        "dim-chain-bidirectional": (6, 1),
        "multi-chain": (11, 1 / 4),
    }.items():
        for reading in ("asymptotic", "optimal", 3):
            (row,) = colltool.price(
                where, "bc", size=size, algorithms=name, pipelining=reading
            ).results
            assert row.total_s == pytest.approx(priced(depth, depth, n_beta, size, reading))


def test_nothing_else_changes_with_the_reading() -> None:
    """Rings carry their pipeline in the formula already; schedules that change partners cannot be
    cut."""
    for where in (fabric(star(64)), fabric(torus(4, 4, 4))):
        for primitive in ("ar", "ag", "rs", "a2a", "bc", "reduce", "p2p"):
            base, cut = (
                {
                    row.title: row
                    for row in colltool.price(
                        where, primitive, size="1MB", pipelining=reading
                    ).results
                }
                for reading in ("asymptotic", "optimal")
            )
            moved = {title for title in base if base[title].total_s != cut[title].total_s}
            assert moved <= {
                "chain",
                "pipelined-tree",
                "double-binary-tree",
                "dim-chain",
                "dim-chain-bidirectional",
                "multi-chain",
                "forest",
            }


def test_contention_moves_the_optimum() -> None:
    """P* follows the α and bandwidth that the traffic meets, η and oversubscription included."""
    where = fabric(star(64, eta={"alpha": 2.0, "beta": 0.5}))
    (row,) = colltool.price(where, "bc", size=1e8, algorithms="chain", pipelining="optimal").results
    expected = min((63 + p - 1) * (2 * ALPHA + 1e8 / (p * BW * 0.5)) for p in range(1, 5000))
    assert row.total_s == pytest.approx(expected, rel=1e-12)


def test_a_pipelined_phase_of_a_composition_is_cut_by_its_own_payload() -> None:
    where = fabric(star(8), clos(16, alpha=5.0, bw=50.0))
    row = colltool.price(
        where,
        "ar",
        size=1e9,
        algorithms="hierarchical:ring/double-binary-tree",
        pipelining="optimal",
    ).results[0]
    payload = 1e9 / 8
    depth = 2 * ceil(log2(16))
    fill = ceil(log2(16)) - 0.5
    expected = min(
        (depth + p - 1) * 5e-6 + 2 * (fill + p - 1) / p * payload / 50e9 for p in range(1, 3000)
    )
    (outer,) = [phase for phase in row.phases if phase.tier == "t2"]
    assert outer.total_s == pytest.approx(expected, rel=1e-12)


@swept("reading", [0, -1, 1.5, "best", True, None])
def test_a_reading_that_does_not_exist(reading: object) -> None:
    with pytest.raises(ColltoolError, match="pipelining"):
        colltool.price(fabric(star(4)), "bc", size=1, pipelining=reading)
