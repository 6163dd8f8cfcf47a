"""Pictures for pages: safe beside each other, in the page's colours, said in words; each has its
result's numbers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from pictured import EVIL, LONG, MAKERS, made
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_bytes
from colltool.calibration.calibrate import Calibration
from colltool.extras.pictures.plot import VIEWS, chart_of, drawn, page_svg, picture
from colltool.extras.pictures.plot.crossover_chart import ribbons_of
from colltool.extras.pictures.plot.look import COLOURS, DARK_TEXT, GRID, LIGHT_TEXT, PENS, text_on
from colltool.extras.pictures.plot.page import PAGE_COLOURS, GlyphOutlines
from colltool.extras.pictures.plot.trace_chart import longest_calls

pytestmark = pytest.mark.usefixtures("datasheet")

every_picture = pytest.mark.parametrize("name", MAKERS)
BYTES = 120_000
WHITE, DARK = "#ffffff", "#14161a"
REFERENCE = re.compile(r'(?:href="#|url\(#)([^)"]+)')


@pytest.fixture(autouse=True)
def _matplotlib() -> None:
    pytest.importorskip("matplotlib")


@cache
def svg(name: str, prefix: str = "fig") -> str:
    return page_svg(made(name), MAKERS[name][1], prefix)


def ids(text: str) -> list[str]:
    return re.findall(r'\bid="([^"]+)"', text)


def test_every_kind_of_result_with_a_picture_is_drawn_here() -> None:
    assert {type(made(name)) for name in MAKERS} == set(VIEWS) - {Calibration}, (
        "calibrations: tests/extras/pictures/test_plot.py"
    )


class TestPage:
    """What a page holds."""

    @pytest.mark.alike(2)
    @every_picture
    def test_one_small_element(self, name: str) -> None:
        text = svg(name)
        assert text.startswith("<svg ")
        assert text.count("<svg") == 1
        assert len(text.encode()) < BYTES
        root = ElementTree.fromstring(text)
        assert root.get("role") == "img"
        assert root.get("aria-label") == chart_of(made(name), MAKERS[name][1]).alt
        width, height = (float(root.attrib[side]) for side in ("width", "height"))
        box = [float(part) for part in root.attrib["viewBox"].split()]
        assert width / height == pytest.approx(box[2] / box[3], rel=0.01)

    @pytest.mark.alike(1)
    @pytest.mark.parametrize("name", ["plan", "map", "diagnosis"])
    def test_the_same_each_time(self, name: str) -> None:
        assert svg(name) == page_svg(made(name), MAKERS[name][1])

    @pytest.mark.alike(6)
    @every_picture
    def test_nothing_that_a_page_does_not_want(self, name: str) -> None:
        text = svg(name)
        for unwanted in (
            "<?xml",
            "<!DOCTYPE",
            "<!--",
            "xlink",
            "metadata",
            "<style",
            "<text",
            "<script",
            "ns0:",
            "nan",
        ):
            assert unwanted not in text, unwanted

    @pytest.mark.alike(4)
    @every_picture
    def test_ids_do_not_meet_and_all_that_is_referred_to_is_there(self, name: str) -> None:
        one, other = svg(name), svg(name, "b")
        assert len(set(ids(one + other))) == len(ids(one + other)) > 0
        for text, prefix in ((one, "fig-"), (other, "b-")):
            assert set(REFERENCE.findall(text)) == set(ids(text))
            assert all(found.startswith(prefix) for found in ids(text))

    @pytest.mark.alike(5)
    @every_picture
    def test_colours_of_the_style_are_the_page_s(self, name: str) -> None:
        text = svg(name)
        for colour, variable in PAGE_COLOURS.items():
            assert text.count(colour) == text.count(f"var({variable}, {colour})")
        assert "var(--ct-ink, #1a1a1a)" in text
        assert "#000000" not in text
        assert not re.search(
            r"<(path|rect)[^>]*(?<!-)fill: (var\(--ct-paper, )?#ffffff\)?[^>]*clip", text
        ), "no background"

    def test_names_are_outlines_and_only_words_of_the_label(self) -> None:
        text = svg("long names")
        label = re.search(r'aria-label="([^"]*)"', text)
        assert label is not None
        assert LONG in label[1]
        assert EVIL.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in label[1]
        assert "cluster" not in text.replace(label[0], "")
        assert EVIL in ElementTree.fromstring(text).attrib["aria-label"]

    def test_without_matplotlib_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ColltoolError, match="needs matplotlib") as caught:
            page_svg(made("plan"), extra="report")
        assert "[report]" in caught.value.fix
        assert chart_of(made("plan")).alt, "words need none"

    def test_a_result_without_a_picture_or_a_view_is_refused(self) -> None:
        with pytest.raises(ColltoolError, match="Price has no picture"):
            page_svg(colltool.price("dgx-h100", "ar", size="1MB", ranks=8))
        with pytest.raises(ColltoolError, match="cannot show 'time'") as caught:
            page_svg(made("map"), "time")
        assert caught.value.fix == "write map or busbw"


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


class TestColours:
    """Seen by everyone, on paper and on a dark screen."""

    def test_the_measure_of_contrast(self) -> None:
        assert contrast("#ffffff", "#000000") == pytest.approx(21)
        assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)

    @swept("pen", PENS)
    def test_thin_lines_stand_out_on_white_and_on_dark(self, pen: str) -> None:
        assert min(contrast(pen, WHITE), contrast(pen, DARK)) >= 3

    @swept("colour", COLOURS)
    def test_text_on_an_area_is_read(self, colour: str) -> None:
        assert contrast(text_on(colour), colour) >= 4.5

    def test_no_colour_of_data_is_one_of_the_page(self) -> None:
        assert not {*COLOURS, *PENS, DARK_TEXT, LIGHT_TEXT} & set(PAGE_COLOURS)
        assert GRID in PAGE_COLOURS


def widths(axes: Any) -> list[list[float]]:
    """The lengths of the pieces of every bar, row by row."""
    rows: dict[float, list[float]] = {}
    # others are the legend's
    for patch in (one for one in axes.patches if hasattr(one, "get_width")):
        rows.setdefault(patch.get_y(), []).append(patch.get_width())
    return [rows[at] for at in sorted(rows)]


def lines(axes: Any) -> list[tuple[list[float], list[float]]]:
    """The points of the lines that are drawn through several."""
    found = [
        (list(map(float, one.get_xdata())), list(map(float, one.get_ydata()))) for one in axes.lines
    ]
    return [one for one in found if len(one[0]) > 1]


def texts(figure: Any) -> list[str]:
    return [one.get_text() for one in all_texts(figure)]


def all_texts(figure: Any) -> Iterator[Any]:
    """Every text that is seen: of the ticks those between the ends of their axis."""
    from matplotlib.text import Text

    ticks = [
        (axis, tick)
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
    ]
    beyond = set()
    for axis, tick in ticks:
        low, high = sorted(axis.get_view_interval())
        if not low <= tick.get_loc() <= high:
            beyond |= {tick.label1, tick.label2}
    return (
        one
        for one in figure.findobj(Text)
        if one.get_visible() and one.get_text().strip() and one not in beyond
    )


class TestNumbers:
    """What is drawn is what the result says."""

    def test_lines_pass_through_the_cells(self) -> None:
        result = made("lines")
        with drawn(result, "busbw") as figure:
            found = lines(figure.axes[0])
        sizes = [1e3, 64e3, 1e6, 16e6, 1e9]
        assert found == [
            (sizes, [cell.busbw_Bps for cell in result.cells[at : at + 5]])
            for at in range(0, 20, 5)
        ]

    def test_a_mark_stands_wherever_the_winner_changes(self) -> None:
        result = made("lines")
        with drawn(result, "busbw") as figure:
            marks = [one for one in figure.axes[0].lines if len(one.get_xdata()) == 1]
        along = [one for one in result.changes if one.axis == "bytes"]
        assert len(marks) == len(along) > 0

    def test_of_many_lines_those_without_a_price_are_counted(self) -> None:
        with drawn(made("many lines"), "busbw") as figure:
            assert "4 of 16 lines" in texts(figure)
            assert len(lines(figure.axes[0])) == 4

    def test_a_map_has_a_cell_for_each_of_its_result(self) -> None:
        result = made("map")
        with drawn(result, "map") as figure:
            letters = [one.get_text() for axes in figure.axes for one in axes.texts]
        names = list(dict.fromkeys(cell.algorithm for cell in result.cells))
        order = [
            cell
            for bandwidth in ("25GB/s", "50GB/s")
            for cell in result.cells
            if cell.at[3] == bandwidth
        ]
        assert letters == ["ABCDEFGH"[names.index(cell.algorithm)] for cell in order]

    def test_a_map_too_fine_for_a_letter_in_each_cell_has_one_in_each_run(self) -> None:
        result = colltool.sweep(
            "dgx-h100",
            "ar",
            ranks=[8, 64],
            sizes=[round(2 ** (power / 4)) for power in range(40, 136)],
        )
        with drawn(result, "map", paged=True) as figure:
            found = [one.get_text() for one in figure.axes[0].texts]
        winners = [
            [cell.algorithm for cell in result.cells if cell.at[1] == ranks] for ranks in (8, 64)
        ]
        assert (
            len(found) == sum(1 + sum(a != b for a, b in pairwise(line)) for line in winners) < 10
        )

    def test_the_phases_of_a_breakdown_sum_to_its_total(self) -> None:
        result = made("breakdown")
        row = result.price.results[0]
        with drawn(result) as figure:
            found = widths(figure.axes[0])
        parts = [float(part) for phase in row.phases for part in (phase.alpha_s, phase.bandwidth_s)]
        assert found[0] == pytest.approx([*parts, row.overhead_s])
        assert sum(found[0]) == pytest.approx(row.total_s)
        most = 2.5 * row.total_s
        assert [sum(bar) for bar in found[1:]] == pytest.approx(
            [min(one.total_s, most) for one in result.baselines]
        )

    def test_phases_that_stream_are_bars_of_their_own(self) -> None:
        result = made("streamed")
        row = result.price.results[0]
        with drawn(result) as figure:
            found = widths(figure.axes[0])
        assert sum(found[0]) == pytest.approx(row.total_s)
        assert [sum(bar) for bar in found[1 : 1 + len(row.phases)]] == pytest.approx(
            [phase.total_s for phase in row.phases]
        )
        assert len(row.phases) > 1

    def test_a_plan_s_parts_sum_to_its_step_and_memory_to_its_bytes(self) -> None:
        result = made("plan")
        with drawn(result) as figure:
            step, sent, kept = (widths(axes) for axes in figure.axes)
            capacity = lines(figure.axes[2])[0][0]
        assert step[0] == pytest.approx([part.exposed_s for part in result.parts])
        assert sum(step[0]) == pytest.approx(result.step_s)
        assert step[1] == pytest.approx([result.control_step_s])
        assert sum(sum(bar) for bar in sent) == pytest.approx(result.exposed_s + result.hidden_s)
        assert sum(kept[0]) == pytest.approx(result.memory.bytes)
        assert capacity == [result.memory.capacity_bytes] * 2

    def test_plans_share_one_axis(self) -> None:
        result = made("plans")
        with drawn(result) as figure:
            (axes,) = figure.axes
            assert [sum(bar) for bar in widths(axes)] == pytest.approx(
                [one.step_s for one in result.plans]
            )
            assert [at[0] for at, _ in lines(axes)] == [one.control_step_s for one in result.plans]

    def test_ribbons_change_where_the_winner_does(self) -> None:
        result = made("crossover")
        rows = {one.title: one.stretches for one in ribbons_of(result)}
        changes = {
            title: [one.from_bytes for one in stretches[1:]] for title, stretches in rows.items()
        }
        assert changes["fastest of all"] == [one.from_bytes for one in result.winners[1:]]
        assert changes["what NCCL picks"] == [one.from_bytes for one in result.picks[1:]]
        assert changes["ring or tree"] == [one.bytes for one in result.pairs[0].crossings]
        with drawn(result) as figure:
            assert len(figure.axes[0].collections) == sum(map(len, rows.values()))
            assert {format_bytes(one.from_bytes, 3) for one in result.winners[1:]} <= set(
                texts(figure)
            )

    def test_a_trace_has_hidden_and_exposed_time_and_what_was_expected(self) -> None:
        result = made("trace")
        totals = longest_calls(result)
        with drawn(result) as figure:
            found, marks = widths(figure.axes[0]), [at[0] for at, _ in lines(figure.axes[0])]
        assert found == [
            pytest.approx([one.total_s - one.exposed_s, one.exposed_s]) for one in totals
        ]
        assert marks == pytest.approx([one.expected_s * one.calls for one in totals])
        assert [one.total_s for one in totals] == pytest.approx([3e-3, 9e-4])

    def test_a_diagnosis_has_a_panel_a_series_with_its_measured_points(self) -> None:
        result = made("diagnosis")
        with drawn(result) as figure:
            mains = [axes for axes in figure.axes if axes.get_title(loc="left")]
            assert [axes.get_title(loc="left").strip() for axes in mains] == [
                one.judged.series.title for one in result.series
            ]
            for axes, one in zip(mains, result.series, strict=True):
                rates = [point.busbw_measured_Bps for point in one.judged.points]
                assert any(
                    list(line.get_ydata()) == pytest.approx(rates)
                    for line in axes.lines
                    if len(line.get_xdata()) > 1
                )


@pytest.mark.alike(4)
@every_picture
@pytest.mark.parametrize("paged", [True, False])
def test_no_text_is_cut_off_or_lies_on_other_text(name: str, paged: bool) -> None:
    with drawn(made(name), MAKERS[name][1], paged=paged) as figure:
        figure.draw_without_rendering()
        width, height = figure.bbox.width, figure.bbox.height
        boxes = {
            one: one.get_window_extent()
            for one in all_texts(figure)
            if one.get_window_extent().width > 0
        }
        for one, box in boxes.items():
            inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
            assert inside, f"cut off: {one.get_text()}"
        for one, other in combinations(boxes, 2):
            a, b = boxes[one], boxes[other]
            if one.get_text().endswith("\n") or other.get_text().endswith("\n"):
                continue  # a title that leaves its second line to another one
            over = min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
            assert not over, f"{one.get_text()!r} lies on {other.get_text()!r}"


@pytest.mark.alike(4)
@every_picture
def test_files_are_drawn_too(name: str) -> None:
    view = MAKERS[name][1]
    assert picture(made(name), ".png", view).startswith(b"\x89PNG")


def test_a_suffix_may_be_in_capitals() -> None:
    assert picture(made("plan"), ".SVG").startswith(b"<?xml")


@pytest.mark.thorough
def test_pictures_of_a_page_share_their_letters() -> None:
    """By the way in which matplotlib writes outlines: were that another one, every picture would
    hold its own again."""
    letters = GlyphOutlines()
    pictures = [
        page_svg(made(name), MAKERS[name][1], f"p{at}", letters=letters)
        for at, name in enumerate(MAKERS)
    ]
    shared = set(ids(letters.svg))
    assert 40 < len(shared) < 200
    for at, one in enumerate(pictures):
        assert set(REFERENCE.findall(one)) <= shared | set(ids(one))
        assert shared & set(REFERENCE.findall(one))
        assert 'transform="scale(0.015625)"' not in one, at
    assert sum(map(len, pictures)) + len(letters.svg) < 0.8 * sum(len(svg(name)) for name in MAKERS)
