"""The line chart of a page: where its lines, names and ticks stand."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from colltool.base.formatting import format_bytes, format_rate
from colltool.render.page.lines import HEIGHT, WIDTH, ChartLine, ChartPoint, line_chart

X = ("size", lambda size: format_bytes(size, 3))
Y = ("bus bandwidth", lambda rate: format_rate(rate, 3))


def drawn(*lines: ChartLine) -> ElementTree.Element:
    return ElementTree.fromstring(line_chart(lines, "what it shows", X, Y))


def straight(name: str, low: float, high: float) -> ChartLine:
    return ChartLine(
        name, [ChartPoint(1e3, low), ChartPoint(1e6, (low * high) ** 0.5), ChartPoint(1e9, high)]
    )


def names(chart: ElementTree.Element) -> dict[str, float]:
    """The height of each line's name."""
    found = {}
    for text in chart.iter("text"):
        if text.attrib["class"].startswith("ct-name"):
            found[str(text.text)] = float(text.attrib["y"])
    return found


def ticks(chart: ElementTree.Element, anchor: str) -> list[str]:
    return [str(one.text) for one in chart.iter("text") if one.get("text-anchor") == anchor]


def test_names_of_lines_that_end_together_are_apart() -> None:
    lines = [straight(f"fabric-{at}", 1e6, 1e11 * (1 + at / 1000)) for at in range(6)]
    heights = sorted(names(drawn(*lines)).values())
    assert len(heights) == 6
    assert all(after - before >= 15.9 for before, after in pairwise(heights))
    assert heights[0] > 0
    assert heights[-1] < HEIGHT - 40


def test_a_name_stands_where_its_line_ends() -> None:
    chart = drawn(straight("upper", 1e6, 1e11), straight("lower", 1e6, 1e8))
    heights = names(chart)
    assert heights["upper"] < heights["lower"]
    ends = {}
    for path in chart.iter("path"):
        if path.attrib["class"].startswith("ct-line-"):
            ends[path.attrib["class"][-1]] = float(path.attrib["d"].split()[-1])
    assert heights["upper"] == pytest.approx(ends["0"] + 4)
    assert heights["lower"] == pytest.approx(ends["1"] + 4)


def test_ticks_are_whole_powers_of_ten() -> None:
    chart = drawn(straight("one", 1e6, 1e11))
    assert ticks(chart, "middle")[:4] == ["1 KB", "100 KB", "10 MB", "1 GB"]
    assert "1 GB/s" in ticks(chart, "end")


def test_an_axis_of_less_than_a_power_has_steps_of_1_2_and_5() -> None:
    chart = drawn(straight("one", 120e9, 340e9))
    assert ticks(chart, "end") == ["100 GB/s", "200 GB/s", "500 GB/s"]


def test_a_band_is_drawn_where_an_interval_is_known() -> None:
    points = [ChartPoint(1e3, 1e6, 5e5, 2e6), ChartPoint(1e9, 1e11, 8e10, 2e11)]
    classes = [path.get("class") for path in drawn(ChartLine("one", points)).iter("path")]
    assert "ct-band-0" in classes
    assert "ct-band-0" not in [
        path.get("class") for path in drawn(straight("one", 1, 9)).iter("path")
    ]


def test_it_says_what_it_shows_and_escapes_names() -> None:
    text = line_chart([straight("<b>&", 1e6, 1e9)], 'a "quoted" <alt>', X, Y)
    assert 'role="img" aria-label="a &quot;quoted&quot; &lt;alt&gt;"' in text
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;" in text


def test_nothing_is_drawn_outside() -> None:
    chart = drawn(straight("a-name-that-is-longer-than-there-is-room-for", 3, 7e12))
    for path in chart.iter("path"):
        for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path.attrib["d"]):
            assert 0 <= float(x) <= WIDTH
            assert 0 <= float(y) <= HEIGHT
    (name,) = names(chart)
    assert name == "a-name-that-is-..."


def test_without_two_points_there_is_no_chart() -> None:
    assert line_chart([ChartLine("one", [ChartPoint(1e3, 1e6)])], "", X, Y) == ""
