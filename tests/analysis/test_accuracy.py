"""How sure an answer is: the shipped table, its widening, and what made it."""

from __future__ import annotations

from statistics import median

import bench_accuracy
import pytest
from measured_rows import rows

import colltool
from colltool.base.primitives import AG, AR, P2P
from colltool.estimate import accuracy
from colltool.estimate.accuracy import (
    ALL,
    CLASSES,
    DATASHEET,
    SMALLEST,
    WIDER,
    accuracy_of,
    size_class,
    table,
)
from colltool.estimate.assumptions import ModelOptions


def test_the_headline_is_within_the_bars() -> None:
    whole = [one for one in table() if (one.device, one.wire) == (ALL, ALL)]
    assert [one.size for one in whole] == list(range(len(CLASSES)))
    assert all(one.median <= bar for one, bar in zip(whole, bench_accuracy.BARS, strict=True))


def test_the_guide_shows_the_table() -> None:
    assert bench_accuracy.GUIDE.read_text(encoding="utf-8").endswith(
        "|---|---|---|---|---|---|---|\n" + bench_accuracy.guide_table()
    )


@pytest.mark.thorough
def test_the_table_is_what_the_benchmark_finds_without_a_source() -> None:
    """The only all-gather over two nodes of H200, made and priced again without its source."""
    mine = [
        row
        for row in rows()
        if row.source.source_id == "skypilot-a3ultra" and row.bytes <= 64 * 2**10
    ]
    (cell,) = [
        one
        for one in table()
        if (one.device, one.wire, one.collective, one.size) == ("h200", "across", "all_gather", 0)
    ]
    assert cell.rows == len(mine)
    assert cell.median == pytest.approx(
        median(abs(bench_accuracy.judge(row).error) for row in mine), abs=1e-4
    )


def test_every_size_is_in_the_class_that_its_name_says() -> None:
    sizes = (
        1.0,
        64 * 2**10,
        64 * 2**10 + 1,
        8 * 2**20,
        8 * 2**20 + 1,
        128 * 2**20 - 1,
        128 * 2**20,
        1e12,
    )
    assert [size_class(size) for size in sizes] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [size_class(size) for size in SMALLEST] == [0, 1, 2, 3]


def test_a_thin_cell_takes_a_wider_one_and_its_error_grows() -> None:
    fabric = colltool.load_fabric("dgx-b200")
    own = accuracy_of(fabric, AR, 8, 1e6, ModelOptions())
    assert own is not None
    assert own.rows >= accuracy.ENOUGH
    assert own.like == "b200 inside a node, all-reduce, 64 KiB to 8 MiB"
    held = accuracy_of(fabric, AR, 8, 1e6, ModelOptions(), extrapolated=True)
    assert held == (own.median * WIDER, own.p90 and own.p90 * WIDER, 0, "no measured row")
    # nobody measured an all-gather over nodes of B200
    lent = accuracy_of(fabric, AG, 64, 1e6, ModelOptions())
    assert lent is not None
    assert lent.like == "b200 across nodes, any collective, 64 KiB to 8 MiB"


def test_without_measured_tiers_it_is_the_datasheet_s() -> None:
    for fabric, readings in (
        ("tpu-v5p", ModelOptions()),
        ("dgx-h100", ModelOptions(numbers="datasheet")),
    ):
        found = accuracy_of(colltool.load_fabric(fabric), AR, None, 1e6, readings)
        assert found == (DATASHEET[1], None, 0, "datasheet")
    assert (
        accuracy_of(colltool.load_fabric("dgx-h100"), AR, 8, 1e6, ModelOptions(ideal=True)) is None
    )


def test_every_answer_carries_it() -> None:
    priced = colltool.price("dgx-h100", "ar", size="1MB", ranks=8)
    (cell,) = colltool.sweep("dgx-h100", "ar", ranks=[8], sizes=["1MB"]).cells
    (line,) = colltool.compare(["dgx-h100", "dgx-b200"], "ar", ranks=[8], sizes=["1MB"]).lines
    assert priced.accuracy == cell.accuracy == line.cells[0].accuracy
    assert (
        colltool.breakdown("dgx-h100", "ar", size="1MB", ranks=8).price.accuracy == priced.accuracy
    )
    assert line.cells[1].accuracy == colltool.price("dgx-b200", "ar", size="1MB", ranks=8).accuracy


def test_a_plan_s_collectives_carry_it_but_for_sends() -> None:
    planned = colltool.plan("llama3-70b", "dgx-h100", 256)
    by = {(one.sent.call.primitive, one.sent.call.dimension): one for one in planned.collectives}
    gathered = by[AG, "tp"]
    known = accuracy_of(
        colltool.load_fabric("dgx-h100"), AG, 8, gathered.sent.call.bytes, ModelOptions()
    )
    assert known
    assert gathered.interval
    assert gathered.accuracy == known._replace(
        p90=gathered.interval.larger_side(gathered.sent.each_s)
    )
    assert by[P2P, "pp"].accuracy is None
    (first, *_), _ = (
        one.collectives
        for one in colltool.compare_plans("llama3-70b", ["dgx-h100", "dgx-b200"], 256).plans
    )
    assert first.accuracy is not None


def test_another_machine_s_numbers_are_never_rows_like_this_one() -> None:
    """Inside a node of a device with rows they are; over wires that were taken over they are
    not."""
    for fabric, ranks, known in (
        ("hgx-h800", 8, False),
        ("aws-p5", 8, True),
        ("aws-p5", 16, False),
        ("dgx-b300", 16, False),
    ):
        found = accuracy_of(colltool.load_fabric(fabric), AR, ranks, 1e9, ModelOptions())
        assert found is not None
        assert bool(found.rows) == known
        assert (found.like == "no measured row") != known
