"""Plots: refusals before any work, files that are what their suffix says, and the names and points
that a reader looks for."""

from __future__ import annotations

import io
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR, RS, Primitive
from colltool.base.whole_files import write_file
from colltool.calibration.calibrate import Calibration
from colltool.calibration.results import FittedSeries, Residual
from colltool.calibration.sentences import FitFinding
from colltool.calibration.usable_points import ExcludedSize
from colltool.diagnosis.results import ValidatedPoint, ValidatedSeries, Validation
from colltool.extras.pictures.plot import chart_of, check_plot, drawn, page_svg, picture
from colltool.extras.pictures.plot.curves import Quantity, calibration_panels, judged_panels
from colltool.fabric.model import Fabric
from colltool.logs.series import Point, Series

SIZES = [2.0**power for power in range(10, 29, 2)]
LAWS = [("ring", "LL"), ("ring", "LL128"), ("in-network", "Simple")]
OUTLIER = 3
EXCLUDED = FitFinding("outlier", {"first": "8 KiB, $so$ it goes", "ratio": 3.0})
REASON = EXCLUDED.words
TEXTS = re.compile(r"<text[^>]*>([^<]*)</text>")


def plot_calibration(result: Calibration, path: Path, what: Quantity = "time") -> None:
    """As the command does it: checked, drawn, written."""
    check_plot(path)
    write_file(path, picture(result, path.suffix, what))


def plot_validation(result: Validation, path: Path, what: Quantity = "time") -> None:
    """As the command does it: checked, drawn, written."""
    check_plot(path)
    write_file(path, picture(result, path.suffix, what))


def series(
    primitive: Primitive = AR, ranks: int = 8, repeats: int = 3, version: str = ""
) -> Series:
    points = []
    for i, size in enumerate(SIZES):
        seconds = (1e-5 + size / 4e11) * (3 if i == OUTLIER else 1)
        spread = 0.1 * seconds * (repeats > 1)
        points.append(
            Point(size, seconds, seconds - spread, seconds + 2 * spread, repeats, f"a.log:{i + 1}")
        )
    return Series(primitive, ranks, 1, tuple(points), "NCCL", version)


def law(i: int) -> tuple[str, str]:
    return LAWS[i * len(LAWS) // len(SIZES)]


def fitted(one: Series, *, left_out: bool = True) -> FittedSeries:
    residuals = tuple(
        Residual(
            p.bytes,
            p.seconds,
            p.seconds * 1.02,
            0.02,
            *law(i),
            used=not (left_out and i == OUTLIER),
        )
        for i, p in enumerate(one.points)
    )
    gone = (ExcludedSize(SIZES[OUTLIER], EXCLUDED),) if left_out else ()
    return FittedSeries(one, ("ring", "in-network"), (), (), (), residuals, gone, 0.02, 0.02, 0.03)


def calibration(*all_series: Series, left_out: bool = True) -> Calibration:
    fabric = Fabric.model_validate(
        {
            "schema": "colltool.fabric/1",
            "name": "small-box",
            "tiers": [
                {
                    "name": "link",
                    "topology": "star",
                    "size": 8,
                    "alpha": "1us",
                    "bandwidth": "100GB/s",
                }
            ],
        }
    )
    return Calibration(
        fabric, "link", tuple(fitted(one, left_out=left_out) for one in all_series), (), (), ""
    )


def validation(*all_series: Series) -> Validation:
    judged = []
    for one in all_series:
        rows = (
            ValidatedPoint(
                p.bytes, p.seconds, p.seconds / 2, -0.5, *law(i), 1.0, 2.0, "latency", "ring", 0.0
            )
            for i, p in enumerate(one.points)
        )
        judged.append(ValidatedSeries(one, tuple(rows), 0.5, -0.5, (), ()))
    return Validation("small", tuple(judged), 0.5, "does not hold", ())


def texts(path: Path) -> list[str]:
    return TEXTS.findall(path.read_text(encoding="utf-8"))


@swept("name", ["fit.jpg", "fit", "fit.png.txt"])
def test_another_suffix_is_refused_with_those_that_work(tmp_path: Path, name: str) -> None:
    with pytest.raises(ColltoolError, match="no format of a plot") as caught:
        check_plot(tmp_path / name)
    assert caught.value.argument == "plot"
    assert ".png, .svg, .pdf" in caught.value.fix


def test_without_matplotlib_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ColltoolError, match="needs matplotlib") as caught:
        check_plot(tmp_path / "fit.png")
    assert caught.value.argument == "plot"
    assert "[plot]" in caught.value.fix
    with pytest.raises(ColltoolError, match="needs matplotlib"):
        plot_calibration(calibration(series()), tmp_path / "fit.png")
    assert not list(tmp_path.iterdir())


@swept(("count", "panels"), [(1, 1), (12, 12), (13, 2), (40, 5), (200, 12)])
def test_panels_stay_few_and_lose_no_series(count: int, panels: int) -> None:
    drawn = calibration_panels(calibration(*(series(ranks=2 + i) for i in range(count))), "time")
    assert len(drawn) == panels
    assert [curve.series.ranks for panel in drawn for curve in panel.curves] == list(
        range(2, 2 + count)
    )


def test_series_that_share_panels_are_grouped_by_collective() -> None:
    both = [series(primitive, ranks) for ranks in range(2, 10) for primitive in (AR, RS)]
    assert [panel.title for panel in judged_panels(validation(*both).series, "time")] == [
        "all-reduce, 2 to 9 ranks",
        "reduce-scatter, 2 to 9 ranks",
    ]


def test_series_with_the_same_title_are_told_apart_by_what_differs() -> None:
    drawn = judged_panels(
        validation(series(version="2.27"), series(version="2.29"), series(RS)).series, "time"
    )
    titles = [panel.title for panel in drawn]
    assert titles == [
        "all-reduce, 8 ranks on 1 node, 2.27",
        "all-reduce, 8 ranks on 1 node, 2.29",
        "reduce-scatter, 8 ranks on 1 node",
    ]


def test_busbw_turns_the_spread_around() -> None:
    spot = judged_panels(validation(series(ranks=8)).series, "busbw")[0].curves[0].points[0]
    seconds = 1e-5 + 1024 / 4e11
    factor = 2 * 7 / 8
    assert spot.measured == pytest.approx(1024 / seconds * factor)
    assert spot.model == pytest.approx(2 * 1024 / seconds * factor)
    assert (spot.low, spot.high) == pytest.approx(
        (1024 / (1.2 * seconds) * factor, 1024 / (0.9 * seconds) * factor)
    )


def test_a_point_that_no_row_mentions_is_shown_as_left_out() -> None:
    whole = calibration(series(), left_out=False)
    cut = replace(
        whole, series=(whole.series[0]._replace(residuals=whole.series[0].residuals[1:]),)
    )
    spots = calibration_panels(cut, "time")[0].curves[0].points
    assert [spot.left_out for spot in spots] == ["no model at this size"] + [""] * (len(SIZES) - 1)


class TestDrawn:
    """With matplotlib."""

    @pytest.fixture(autouse=True)
    def _matplotlib(self) -> None:
        pytest.importorskip("matplotlib")

    @pytest.mark.alike(3)
    @pytest.mark.parametrize(
        ("name", "start"),
        [("a.png", b"\x89PNG\r\n\x1a\n"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF-")],
    )
    @pytest.mark.parametrize("what", ["time", "busbw"])
    def test_the_file_is_what_its_suffix_says_and_the_same_each_time(
        self, tmp_path: Path, name: str, start: bytes, what: Quantity
    ) -> None:
        path = tmp_path / name
        plot_calibration(calibration(series()), path, what)
        first = path.read_bytes()
        assert first.startswith(start)
        plot_calibration(calibration(series()), path, what)
        assert path.read_bytes() == first
        assert os.listdir(tmp_path) == [name]

    def test_the_picture_names_series_algorithms_protocols_and_reasons(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "fit.svg"
        plot_calibration(calibration(series()), path)
        found = texts(path)
        for text in (
            "small-box, tier link: measured and fitted",
            "all-reduce, 8 ranks on 1 node",
            "mean error 2.0%, worst +2.0%; ring + in-network",
            "model: ring, LL",
            "model: ring, LL128",
            "model: in-network, Simple",
            f"left out: {REASON}",
            "fastest to slowest repeat",
            "1KiB",
            "1MiB",
            "100 us",
        ):
            assert text in found

    def test_a_calibration_on_a_page(self) -> None:
        result = calibration(series())
        assert page_svg(result, "busbw").startswith("<svg ")
        assert chart_of(result).alt.startswith(
            "small-box, tier link: measured and fitted. time over message size: all-reduce, 8 ranks"
        )

    def test_a_page_has_few_panels(self) -> None:
        many = validation(*(series(ranks=ranks) for ranks in range(2, 9)))
        with drawn(many, paged=True) as figure:
            assert len(figure.axes) == 2, "a panel with its strip of errors"
        with drawn(many) as figure:
            assert len(figure.axes) == 14

    def test_what_there_is_not_is_not_in_the_legend(self, tmp_path: Path) -> None:
        path = tmp_path / "fit.svg"
        plot_calibration(calibration(series(repeats=1), left_out=False), path)
        found = " ".join(texts(path))
        assert "measured (median)" in found
        assert "repeat" not in found
        assert "left out" not in found

    def test_a_point_left_out_is_drawn_hollow_above_and_below(self, tmp_path: Path) -> None:
        white = re.compile(r"<use [^>]*fill: #ffffff")
        counts = []
        for left_out in (False, True):
            path = tmp_path / f"{left_out}.svg"
            plot_calibration(calibration(series(), left_out=left_out), path)
            counts.append(len(white.findall(path.read_text(encoding="utf-8"))))
        assert counts == [0, 3]  # the panel, the strip of errors, the legend

    def test_many_series_share_panels_with_a_colour_each(self, tmp_path: Path) -> None:
        path = tmp_path / "check.svg"
        plot_validation(validation(*(series(ranks=ranks) for ranks in range(2, 16))), path)
        found = texts(path)
        assert {
            "all-reduce, 2 to 9 ranks",
            "all-reduce, 10 to 15 ranks",
            "2 ranks on 1 node",
            "15 ranks on 1 node",
        } <= set(found)
        assert "small: measured and predicted, mean error 50.0%" in found

    def test_one_point_is_enough(self, tmp_path: Path) -> None:
        one = series()
        plot_validation(validation(one._replace(points=one.points[:1])), tmp_path / "one.png")
        assert (tmp_path / "one.png").stat().st_size > 0

    def test_the_user_s_style_is_neither_used_nor_changed(self, tmp_path: Path) -> None:
        import matplotlib

        plot_validation(validation(series()), tmp_path / "plain.svg")
        with matplotlib.rc_context({"axes.facecolor": "black", "svg.fonttype": "path"}):
            plot_validation(validation(series()), tmp_path / "dark.svg")
            assert matplotlib.rcParams["axes.facecolor"] == "black"
        assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "dark.svg").read_bytes()
        assert "matplotlib.pyplot" not in sys.modules

    def test_a_folder_that_is_not_there_is_refused_before_any_work(self, tmp_path: Path) -> None:
        with pytest.raises(ColltoolError, match="no such folder"):
            check_plot(tmp_path / "no" / "fit.png")

    def test_a_folder_in_the_place_of_the_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "fit.png").mkdir()
        with pytest.raises(ColltoolError, match="cannot write"):
            check_plot(tmp_path / "fit.png")

    def test_a_folder_that_cannot_be_written_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        check_plot(tmp_path / "fit.png")
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(ColltoolError, match="cannot write"):
            check_plot(tmp_path / "fit.png")

    def test_another_view_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ColltoolError, match="'speed'") as caught:
            plot_validation(validation(series()), tmp_path / "fit.png", "speed")  # type: ignore[arg-type]
        assert caught.value.fix == "write time or busbw"

    def test_nothing_measured_is_nothing_to_plot(self, tmp_path: Path) -> None:
        with pytest.raises(ColltoolError, match="no series to plot"):
            plot_validation(validation(), tmp_path / "fit.png")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("before", [None, b"the last plot"])
    def test_a_disk_that_fills_up_leaves_no_half_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
    ) -> None:
        path = tmp_path / "fit.png"
        if before:
            path.write_bytes(before)

        class Full(io.BytesIO):
            def __init__(self, name: str, _: str) -> None:
                super().__init__()
                Path(name).touch()

            def fileno(self) -> int:
                return os.open(os.devnull, os.O_RDONLY)  # whatever its permissions are set to

            def write(self, _: Any) -> int:
                raise OSError(28, "No space left on device")

        monkeypatch.setattr("colltool.base.whole_files.open", Full, raising=False)
        monkeypatch.setattr("colltool.base.whole_files.os.fchmod", lambda *_: None)
        monkeypatch.setattr("colltool.base.whole_files.os.fchown", lambda *_: None)
        with pytest.raises(ColltoolError, match="No space left on device") as caught:
            plot_calibration(calibration(series()), path)
        assert caught.value.where == str(path)
        assert [one.read_bytes() for one in tmp_path.iterdir()] == ([before] if before else [])
