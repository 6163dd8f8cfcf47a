"""What is shown is what runs: a price, a cell of a sweep or comparison and a plan's call are what
the library picks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import colltool
from colltool.render.views.price_answer import _rival_text

MACHINES = ("dgx-h100", "dgx-a100", "dgx-b200", "hgx-h200", "nvl72")
SIZES = st.integers(3, 34).map(lambda k: 2.0**k * 1.1)


@settings(max_examples=examples(25))
@given(
    st.sampled_from(MACHINES),
    st.sampled_from(["ar", "ag", "rs"]),
    st.sampled_from([8, 16, 64, 144]),
    SIZES,
)
def test_a_price_a_cell_a_column_and_a_plan_s_call_are_one(
    name: str, primitive: str, ranks: int, size: float
) -> None:
    if name == "nvl72" and 72 < ranks < 144:
        ranks = 144
    if name != "nvl72" and ranks == 144:
        ranks = 128
    priced = colltool.price(name, primitive, size=size, ranks=ranks)
    assert priced.library is not None
    assert priced.library.runs is priced.best
    (cell,) = colltool.sweep(name, primitive, ranks=[ranks], sizes=[size]).cells
    assert (cell.algorithm, cell.total_s) == (
        priced.best.title,
        pytest.approx(float(priced.best.total_s), rel=1e-12),
    )
    (line,) = colltool.compare([name, name], primitive, ranks=[ranks], sizes=[size]).lines
    assert [one.total_s for one in line.cells] == [cell.total_s] * 2
    found = colltool.plan(
        {"calls": [{"primitive": primitive, "group": "all", "size": f"{size:.0f}B"}]}, name, ranks
    )
    whole = colltool.price(name, primitive, size=round(size), ranks=ranks).best
    assert found.collectives[0].sent.cost.each_s == pytest.approx(float(whole.total_s), rel=1e-9)


def test_a_rate_that_is_varied_moves_the_pick_of_its_own_cells() -> None:
    rates = ("25GB/s", "50GB/s", "100GB/s")
    found = colltool.sweep(
        "dgx-h100",
        "ar",
        ranks=[64],
        sizes=["256KB", "4MB", "64MB", "4GB"],
        vary=f"ib.bandwidth={','.join(rates)}",
    )
    for cell in found.cells:
        _, ranks, size, rate = cell.at
        one = colltool.price(
            colltool.load_fabric("dgx-h100", [f"ib.bandwidth={rate}"]), "ar", size=size, ranks=ranks
        ).best
        assert (cell.algorithm, cell.total_s) == (
            one.title,
            pytest.approx(float(one.total_s), rel=1e-12),
        )
    assert len({cell.algorithm for cell in found.cells}) > 1


def test_of_named_algorithms_the_fastest_leads() -> None:
    both = colltool.price("nvl72", "ar", size="4MB", ranks=8, algorithms=["ring", "in-network"])
    assert float(both.best.total_s) == min(float(row.total_s) for row in both.results)


def test_the_fastest_is_named_only_where_it_gains_more_than_the_error() -> None:
    for size in [2.0**k for k in range(10, 34)]:
        priced = colltool.price("dgx-h100", "ar", size=size, ranks=64)
        assert priced.accuracy is not None
        priced = replace(priced, accuracy=priced.accuracy._replace(median=0.15))
        gain = 1 - float(priced.fastest.total_s) / float(priced.best.total_s)
        assert ("NCCL_ALGO=" in _rival_text(priced, priced.best)) == (gain > 0.15), size


def test_under_another_library_nothing_is_a_pick() -> None:
    priced = colltool.price("dgx-h100", "ar", size="1MB", ranks=64, library="all")
    assert not priced.shows_pick
    assert priced.best is priced.fastest
