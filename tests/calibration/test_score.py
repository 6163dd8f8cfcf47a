"""``score``: predictions held to published rows, and the rows that ship beside what was measured."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import bench_score
import pytest
from measured_rows import rows
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.calibration.predictions import template
from colltool.calibration.published import PublishedRow, published_rows, published_sources
from colltool.calibration.score import Score, ScoreRow


def key(row: Any) -> tuple[str, int, str, int]:
    source = row.source
    return getattr(source, "source_id", "") or source.source, row.ranks, row.collective, row.bytes


def everything(result: Score) -> ScoreRow:
    return next(told for told in result.rows if told.by == "all")


def written(folder: Path, *lines: str, head: str = "machine,ranks,collective,bytes,time_us") -> str:
    path = folder / "mine.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return str(path)


def filled(folder: Path, times: Any) -> str:
    """The template with the times of a function of the row."""
    path = folder / "filled.csv"
    lines = list(csv.DictReader(StringIO(template())))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        for line, row in zip(lines, published_rows(), strict=True):
            writer.writerow(line | times(row))
    return str(path)


def test_shipped_rows_are_the_measured_ones_with_an_address() -> None:
    shipped = {key(told): told.time_s for told in published_rows()}
    measured = {key(told): told.time_s for told in rows() if bench_score.ships(told)}
    assert shipped.keys() == measured.keys()
    assert len(shipped) == len(published_rows()) > 2000
    for at, time_s in shipped.items():
        assert time_s == pytest.approx(measured[at], rel=1e-4)
    for source in published_sources().values():
        assert source.url.startswith("https://")
        assert source.url.rstrip("/") != bench_score.NO_ADDRESS
        assert colltool.load_fabric(source.machine).name


@pytest.mark.alike(6)
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(told, id=f"{key(told)}")
        for told in published_rows()[::97]
        if not told.unseen and told.source.library
    ],
)
def test_prices_of_seen_rows_are_those_of_today(row: PublishedRow) -> None:
    measured = next(one for one in rows() if key(one) == key(row))
    assert bench_score.priced(measured).price_s == pytest.approx(row.price_s, rel=1e-3)


def test_what_was_measured_is_without_error(tmp_path: Path) -> None:
    result = colltool.score(
        filled(
            tmp_path,
            lambda row: {
                "time_us": repr(row.time_s * 1e6),
                "low_us": repr(row.time_s * 9e5),
                "high_us": repr(row.time_s * 2e6),
            },
        )
    )
    row = everything(result)
    assert row.rows == result.published == len(published_rows())
    assert row.median < 1e-9
    assert row.p90 < 1e-9
    assert row.covered == 1
    assert row.nearer == pytest.approx(1, abs=0.02)
    assert len(result.lost) == pytest.approx(result.published - result.seen, rel=0.02)


def test_a_constant_factor_is_the_bias(tmp_path: Path) -> None:
    result = colltool.score(filled(tmp_path, lambda row: {"time_us": repr(row.time_s * 1.3e6)}))
    for told in result.rows:
        assert told.bias == pytest.approx(0.3)
        assert told.median == pytest.approx(0.3)
        assert told.covered is None


def test_colltool_is_scored_on_rows_it_has_not_seen() -> None:
    result = colltool.score()
    row = everything(result)
    assert row.rows == result.published - result.seen
    assert row.nearer is None
    assert not result.lost
    assert row.covered is not None
    assert 0.85 < row.covered < 0.97
    by_size = [scored.rows for scored in result.rows if scored.by == "size"]
    assert sum(by_size) == row.rows


@pytest.mark.ci
def test_plainer_models_are_scored_too() -> None:
    result = colltool.score(["colltool", "alpha-beta"])
    medians = {told.predictor: told.median for told in result.rows if told.by == "all"}
    assert medians["colltool"] < medians["alpha-beta"]
    # links alone are too fast
    assert next(told.bias for told in result.rows if told.predictor == "alpha-beta") < 0


@pytest.mark.parametrize(("factor", "unit"), [(1e3, "ms"), (1e6, "s"), (1e9, "us")])
def test_wrong_units_are_said(factor: float, unit: str, tmp_path: Path) -> None:
    path = filled(tmp_path, lambda row: {"time_us": repr(row.time_s / factor * 1e6)})
    result = colltool.score(path)
    expected = unit if factor < 1e9 else ""
    assert result.predictors[0].unit == expected
    if expected:
        assert f"rename the column time_{unit}" in result.summary()


GOOD = "dgx-h100,8,all_reduce,8589934592,31000"
WRONG = {
    "negative": (["dgx-h100,8,all_reduce,1048576,-3"], "mine.csv:2: time_us -3 is no time"),
    "no number": ([GOOD, "dgx-h100,8,ar,1048576,fast"], "mine.csv:3: time_us 'fast' is no number"),
    "infinite": (["dgx-h100,8,ar,1048576,inf"], "must be above 0"),
    "twice": ([GOOD, GOOD], "mine.csv:3: the same question as line 2"),
    "ranks": (["dgx-h100,eight,ar,1048576,3"], "ranks 'eight' is no whole number"),
    "collective": (["dgx-h100,8,all_redcue,1048576,3"], "unknown primitive 'all_redcue'"),
    "size": (["dgx-h100,8,ar,much,3"], "mine.csv:2"),
    "empty": (["dgx-h100,8,ar,1048576,"], "the time column is empty in all 1 lines"),
    "machine": (["dgx-x100,8,ar,1048576,3"], "no published row is of machine 'dgx-x100'"),
    "no line": ([], "no line answers a published row"),
}


@swept("name", WRONG)
def test_wrong_lines_are_named(name: str, tmp_path: Path) -> None:
    lines, expected = WRONG[name]
    with pytest.raises(ColltoolError) as caught:
        colltool.score(written(tmp_path, *lines))
    assert expected in str(caught.value)


INTERVALS = {
    "one end": ("3,2,", "one end of the interval is missing"),
    "outside": ("3,4,5", "the time is not between low and high"),
}


@pytest.mark.parametrize("name", INTERVALS)
def test_wrong_intervals_are_named(name: str, tmp_path: Path) -> None:
    cells, expected = INTERVALS[name]
    head = "machine,ranks,collective,bytes,time_us,low_us,high_us"
    with pytest.raises(ColltoolError, match=expected):
        colltool.score(written(tmp_path, f"dgx-h100,8,ar,1048576,{cells}", head=head))


def test_missing_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match="no column ranks, time_us"):
        colltool.score(written(tmp_path, head="machine,collective,bytes,latency"))


def test_the_same_predictor_twice_is_refused() -> None:
    with pytest.raises(ColltoolError, match="given twice"):
        colltool.score(["colltool", "colltool"])


def test_lines_that_answer_nothing_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD, "dgx-x100,8,ar,1048576,3", "dgx-h100,7,ar,1048576,3")
    told = colltool.score(path).predictors[0]
    assert told.unknown == (("dgx-x100", 1),)
    assert told.unasked == 1
    assert told.answered + told.missing == len(published_rows())


def test_a_line_without_a_source_answers_all_of_them(tmp_path: Path) -> None:
    same = [
        told
        for told in published_rows()
        if told.source.machine == "dgx-h100"
        and (told.ranks, told.collective, told.bytes) == (8, "all_reduce", 8589934592)
    ]
    assert len(same) > 1
    assert colltool.score(written(tmp_path, GOOD)).predictors[0].answered == len(same)
