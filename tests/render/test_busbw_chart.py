"""Charts of bus bandwidth over size: inside their frame, true to the data, on every kind of screen."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.render.busbw_chart import (
    FEWEST_SIZES,
    FURNITURE,
    LEAST_ROWS,
    MOST_CURVES,
    MOST_ROWS,
    BusbwChart,
    BusbwCurve,
    ChartPen,
    Scale,
    SizeAxis,
    curves,
    dots_of,
    draw,
)
from colltool.render.dispatch import rendered
from colltool.render.text import Screen

ASCII = ChartPen()
BRAILLE = ChartPen(unicode=True)
SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=20, unique=True).map(sorted)
RATES = st.floats(1e-3, 1e13)
WIDTHS = st.integers(20, 200)
ROWS = st.integers(LEAST_ROWS, MOST_ROWS)
LOGS = Path(__file__).parents[1] / "logs" / "logs"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@st.composite
def charts(draw_value: st.DrawFn) -> BusbwChart:
    found = []
    for number in range(draw_value(st.integers(1, 6))):
        sizes = draw_value(SIZES)
        rates = draw_value(st.lists(RATES, min_size=len(sizes), max_size=len(sizes)))
        points = zip((2.0**size for size in sizes), rates, strict=True)
        found.append(BusbwCurve(f"curve-{number}", tuple(points)))
    return BusbwChart("all-reduce, 64 ranks", tuple(found))


@given(charts(), WIDTHS, ROWS, st.booleans(), st.booleans())
def test_a_chart_stays_inside_its_frame(
    chart: BusbwChart, width: int, rows: int, unicode: bool, colour: bool
) -> None:
    lines = draw(chart, width, rows, ChartPen(unicode, colour))
    assert len(lines) == rows + FURNITURE
    shown = [ESCAPE.sub("", line) for line in lines]
    assert max(map(len, shown)) <= width
    assert colour or shown == lines
    assert unicode or "".join(shown).isascii()


@given(charts(), st.integers(2, 400), st.integers(2, 60))
def test_points_are_inside_and_curves_have_no_gaps(
    chart: BusbwChart, across: int, high: int
) -> None:
    most = max(value for curve in chart.curves for _, value in curve.points)
    scale = Scale.up_to(most, 3)
    sizes = chart.sizes
    axis = SizeAxis(sizes[0], sizes[-1], across)
    for curve in chart.curves:
        dots = dots_of(curve, axis, scale, high)
        assert all(0 <= column < across and 0 <= row < high for column, row in dots)
        for (left, low), (right, next_row) in pairwise(dots):
            assert right - left <= 1
            # a jump up or down is joined, but where two sizes fall on one column
            assert abs(next_row - low) <= 1 or left == right
        ends = {(axis.dot(size), scale.height(value, high)) for size, value in curve.points}
        assert ends <= set(dots)


@given(SIZES, st.integers(2, 400), st.integers(2, 60), st.data())
def test_rates_that_rise_never_fall_on_the_screen(
    sizes: list[int], across: int, high: int, data: st.DataObject
) -> None:
    rates = sorted(data.draw(st.lists(RATES, min_size=len(sizes), max_size=len(sizes))))
    points = tuple(zip((2.0**size for size in sizes), rates, strict=True))
    axis = SizeAxis(points[0][0], points[-1][0], across)
    dots = dots_of(BusbwCurve("up", points), axis, Scale.up_to(rates[-1], 4), high)
    for (left, low), (right, next_row) in pairwise(dots):
        assert left <= right
        assert low <= next_row


@given(st.floats(1e-6, 1e15), st.integers(1, 8))
def test_the_scale_has_room_and_round_steps(most: float, ticks: int) -> None:
    scale = Scale.up_to(most, ticks)
    assert most <= scale.top * (1 + 1e-6)
    assert scale.top <= scale.step * ticks * (1 + 1e-6)
    first, *rest = f"{scale.step / scale.unit:.12e}".split("e")[0].rstrip("0").split(".")
    assert f"{first}.{''.join(rest)}" in ("1.", "2.", "2.5", "5.")


def test_a_curve_stands_where_its_numbers_are() -> None:
    points = tuple((2.0**power, power * 1e9) for power in range(20, 31))
    lines = draw(BusbwChart("line", (BusbwCurve("Ring", points),)), 60, 7, ASCII)
    assert lines[0] == "busbw in GB/s, line"
    assert lines[1].startswith("40 +")
    assert lines[-1].split()[0] == "1MiB"
    assert lines[-1].split()[-1] == "1GiB"
    # 30 of 40 GB/s on six steps: the second row from the top but one, with the name beside it
    (named,) = [line for line in lines if line.endswith("* Ring")]
    assert lines.index(named) in (2, 3)
    # 20 of 40 GB/s at the first size: the middle
    assert lines[4].index("*") == lines[4].index("+") + 1


def test_four_curves_at_most_with_their_names() -> None:
    every = tuple(BusbwCurve(f"c{number}", ((1.0, 1e9), (1e6, 1e9))) for number in range(6))
    lines = "\n".join(draw(BusbwChart("all alike", every), 80, 8, BRAILLE))
    assert re.findall(r"c\d", lines) == [f"c{number}" for number in range(MOST_CURVES)]


def test_points_are_gathered_by_name() -> None:
    found = curves([("a", 2, 20), ("b", 1, 5), ("a", 1, 10), ("a", 1, 99)])
    assert found == (BusbwCurve("a", ((1.0, 10.0), (2.0, 20.0))), BusbwCurve("b", ((1.0, 5.0),)))


PRICES = colltool.price_list("dgx-h100", "ar", ranks=64, sizes=["1M", "4M", "16M", "64M", "256M"])


def has_chart(text: str) -> bool:
    return "busbw in GB/s, all-reduce on dgx-h100, 64 ranks" in text


def test_a_chart_is_drawn_where_the_screen_has_room() -> None:
    high = Screen(80, unicode=True, height=60)
    text = rendered(PRICES, "table", high)
    assert has_chart(text)
    assert "NVLSTree\n" in text
    assert text.index("NVLSTree\n") < text.index("--all adds")
    assert text.count("\n") < 60
    # the same screen without room, a pipe, and who does not want it
    assert not has_chart(rendered(PRICES, "table", high._replace(height=24)))
    assert not has_chart(rendered(PRICES, "table"))
    assert not has_chart(rendered(PRICES, "table", high, chart=False))
    few = colltool.price_list("dgx-h100", "ar", ranks=64, sizes=["1M", "64M"])
    assert len(few.prices) < FEWEST_SIZES
    assert not has_chart(rendered(few, "table", high))
    assert has_chart(rendered(few, "table", high, chart=True))


@swept("height", range(24, 60, 3))
def test_a_chart_never_pushes_the_answer_off_the_screen(height: int) -> None:
    text = rendered(PRICES, "table", Screen(80, height=height))
    without = rendered(PRICES, "table", Screen(80, height=height), chart=False)
    assert text == without or text.count("\n") < height


def test_a_pipe_gets_ascii_where_it_asks() -> None:
    text = rendered(PRICES, "table", chart=True)
    assert has_chart(text)
    assert text.isascii()
    assert "* NVLSTree" in text


def test_what_has_no_chart_says_so() -> None:
    one = colltool.price_list("dgx-h100", "ar", ranks=64, sizes=["1M"])
    with pytest.raises(ColltoolError, match="at least two sizes"):
        rendered(one, "table", chart=True)
    sent = colltool.price(
        "dgx-h100",
        "dispatch",
        ranks=64,
        library="deepep@1",
        tokens=128,
        top_k=8,
        hidden=7168,
        experts=256,
    )
    with pytest.raises(ColltoolError, match="no bandwidth over size"):
        rendered(sent, "table", chart=True)
    with pytest.raises(ColltoolError, match="json has no chart"):
        rendered(PRICES, "json", chart=True)


def test_kernels_have_a_chart() -> None:
    sizes = ["1K", "64K", "1M", "8M", "64M"]
    listed = colltool.price_list("hgx-h200", "ar", ranks=8, sizes=sizes, library="vllm@0.24.0")
    text = rendered(listed, "table", chart=True)
    assert "busbw in GB/s, all-reduce on hgx-h200, 8 ranks" in text
    assert "o symm_mem" in text


def test_fabrics_and_measurements_have_charts() -> None:
    compared = colltool.compare(["nvl72", "dgx-h100"], "ar", ranks=144)
    text = rendered(compared, "table", chart=True)
    assert "busbw in GB/s, all-reduce, 144 ranks" in text
    assert re.search(r"\* nvl72$", text, re.MULTILINE)
    assert re.search(r"o dgx-h100$", text, re.MULTILINE)
    log = LOGS / "nccl.log"
    checked = rendered(colltool.validate("dgx-h100", log), "table", chart=True)
    assert re.search(r"\* measured$", checked, re.MULTILINE)
    assert re.search(r"o expected$", checked, re.MULTILINE)
    assert "o expected" in rendered(colltool.doctor(log, "dgx-h100"), "table", chart=True)
