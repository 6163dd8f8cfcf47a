"""The drawing of a fabric: true, whole, apart, and data whatever a file says. Looked at in a
browser too: see the last test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from shutil import which
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from small import clos, fabric, full_mesh, mesh, star, switch, torus
from swept import swept

import colltool
from colltool.extras.pictures.drawing import DARK, LIGHT, fabric_svg, rules
from colltool.extras.pictures.drawing.svg import LINE, clipped_to, lines_of, width_of
from colltool.extras.pictures.drawing.switches import SwitchTree, switch_tree
from colltool.fabric.model import Fabric
from colltool.render.dispatch import document

SVG = "{http://www.w3.org/2000/svg}"
LONG = "a-name_of_60-letters_" + "W" * 39
SHIPPED = colltool.list_fabrics()
ODD: dict[str, Fabric] = {
    "line": fabric(mesh(5)),
    "long ring": fabric(torus(100_000)),
    "grid": fabric(torus(16, 3)),
    "flat block": fabric(torus(1, 1, 4)),
    "pairs": fabric(torus(2, 2, 2)),
    "four axes": fabric(torus(8, 8, 8, 4)),
    "eight axes": fabric(mesh(2, 3, 2, 1, 2, 2, 3, 9)),
    "one rank": fabric(star(1)),
    "one of a mesh": fabric(full_mesh(1), clos(1, (1, 1.0))),
    "many pairs": fabric(full_mesh(64, ports=2)),
    "five tiers": fabric(
        full_mesh(4), star(4), torus(4, 4), clos(20, (8, 2.0), (32, 5.0, 3)), clos(8, alpha=3.0)
    ),
    "six levels": fabric(
        clos(
            4096,
            (4, 1.0),
            (16, 2.0, 2),
            (64, 3.0, 2),
            (256, 4.0, 4),
            (1024, 5.0, 8),
            (8192, 6.0, 1000),
        )
    ),
    "a million": fabric(clos(1_000_000, (1000, 1.0), (1_000_000, 2.0, 2))),
    "above": fabric(clos(3, (4, 1.0), (16, 2.0, 2), (64, 3.0, 4))),
    "long names": fabric(
        star(
            8,
            name=LONG,
            max_size=8,
            in_network=switch(protocols=[LONG], limits={"operations": [LONG, "sum"]}),
            protocols=[{"name": LONG}],
        ),
        {
            **clos(12345, (5, 2.0), (50000, 3.0)),
            "name": LONG[::-1],
            "energy": "60pJ/bit",
            "levels": [
                {"name": f"1{LONG}", "group": 5, "alpha": "2us", "cable": "100m"},
                {
                    "name": f"2{LONG}",
                    "group": 50000,
                    "alpha": "3us",
                    "oversubscription": {"uplinks": 12.345},
                },
            ],
        },
        name=LONG,
        description="A long line of words. " * 40,
        launch_overhead="5us",
    ),
}


class Box(NamedTuple):
    """What an element covers."""

    left: float
    top: float
    right: float
    bottom: float
    what: str


def every(name: str) -> Fabric:
    return ODD[name] if name in ODD else colltool.load_fabric(name)


def parsed(where: Fabric, **more: Any) -> ET.Element:
    return ET.fromstring(fabric_svg(where, **more))


def said(element: ET.Element) -> list[str]:
    """Every text, whole: its title where it was cut."""
    return [
        title.text or "" if (title := text.find(f"{SVG}title")) is not None else text.text or ""
        for text in texts(element)
    ]


def texts(element: ET.Element) -> list[ET.Element]:
    return list(element.iter(f"{SVG}text"))


def text_box(text: ET.Element) -> Box:
    """By the rule of ``letters.py``: letters from 0.8 above their line to 0.25 below."""
    title = text.find(f"{SVG}title")
    line = (title.tail if title is not None else text.text) or ""
    size = float(text.attrib["font-size"])
    wide = width_of(line, size, bold=text.get("font-weight") == "bold")
    x, y = float(text.attrib["x"]), float(text.attrib["y"])
    left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
    return Box(left, y - 0.8 * size, left + wide, y + 0.25 * size, line)


def shape_boxes(root: ET.Element) -> Iterator[Box]:
    for one in root.iter():
        given = {
            key: float(value)
            for key, value in one.attrib.items()
            if key in ("x", "y", "width", "height", "cx", "cy", "r")
        }
        if one.tag == f"{SVG}rect":
            x, y = given.get("x", 0.0), given.get("y", 0.0)
            assert min(given["width"], given["height"]) > 0
            yield Box(x, y, x + given["width"], y + given["height"], "rect")
        elif one.tag == f"{SVG}circle":
            x, y, r = given["cx"], given["cy"], given["r"]
            yield Box(x - r, y - r, x + r, y + r, "circle")
        elif one.tag == f"{SVG}path":
            numbers = [
                float(part)
                for part in (
                    one.attrib["d"]
                    .replace("M", " ")
                    .replace("L", " ")
                    .replace("C", " ")
                    .replace("Q", " ")
                    .split()
                )
            ]
            xs, ys = numbers[::2], numbers[1::2]
            yield Box(min(xs), min(ys), max(xs), max(ys), "path")


def apart(one: Box, other: Box) -> bool:
    return (
        one.right <= other.left
        or other.right <= one.left
        or one.bottom <= other.top
        or other.bottom <= one.top
    )


def holds_together(where: Fabric) -> ET.Element:
    """What is true of every drawing."""
    root = parsed(where)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert (root.get("width"), root.get("height")) == (f"{width:.0f}", f"{height:.0f}")
    written = [text_box(text) for text in texts(root)]
    for box in (*written, *shape_boxes(root)):
        assert box.left >= 0, box
        assert box.top >= 0, box
        assert box.right <= width, box
        assert box.bottom <= height, box
    for one, other in combinations(written, 2):
        assert apart(one, other), (one, other)
    whole = said(root)
    for tier in where.tiers:
        assert tier.name in whole
    names = " ".join(whole)
    assert str(where.ranks) in names
    return root


@swept("name", [*SHIPPED, *ODD])
def test_every_fabric_is_drawn(name: str) -> None:
    where = every(name)
    root = holds_together(where)
    for tier in where.tiers:
        for level in tier.level_names:
            assert any(text.startswith(level[:10]) for text in said(root))
    assert fabric_svg(where) == fabric_svg(where)


size = st.integers(1, 40)
lattice = st.lists(st.integers(1, 12), min_size=1, max_size=5).map(tuple)


@st.composite
def a_clos(draw: Any) -> dict[str, Any]:
    factors = draw(st.lists(st.integers(2, 12), min_size=1, max_size=4))
    levels, group = [], 1
    for index, factor in enumerate(factors):
        group *= factor
        levels.append(
            (group, 1.0 + index)
            if index == 0
            else (group, 1.0 + index, draw(st.sampled_from((1, 1.5, 4, 64))))
        )
    return clos(draw(st.integers(1, group)), *levels, ports=draw(st.integers(1, 9)))


tiers = st.one_of(
    size.map(star),
    size.map(full_mesh),
    lattice.map(lambda shape: torus(*shape)),
    lattice.map(lambda shape: mesh(*shape)),
    a_clos(),
    size.map(lambda count: clos(count, alpha=2.0, in_network=switch())),
)


def fits(several: list[dict[str, Any]]) -> bool:
    count = 1
    for tier in several:
        for number in tier.get("shape", [tier.get("size", 1)]):
            count *= number
    return count <= 10_000_000


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(tiers, min_size=1, max_size=4).filter(fits), st.text(max_size=300))
def test_any_fabric_is_drawn(several: list[dict[str, Any]], description: str) -> None:
    holds_together(fabric(*several).model_copy(update={"description": description}))


def test_the_counts_of_a_known_cluster() -> None:
    """32 pods of 72 on 4 rails of 8 leaves and 4 spines: the published SuperPOD."""
    words = " ".join(said(parsed(colltool.load_fabric("nvl72"))))
    for part in (
        "2304 ranks",
        "Clos of 32 nvlink domains; 2304 ranks in all",
        "16 switches, 4 on each of 4 rails",
        "8 groups of 4",
        "32 switches, 8 on each of 4 rails",
        "72 ports each, one line for all",
        "uplinks 1:1",
        "star of 72 ranks; 32 of these",
        "900 GB/s per port, one way",
        "alpha x 1.2, bandwidth x 0.9",
        "alpha 500 ns",
        "full: max_size is 72",
    ):
        assert part in words, part


def accents(root: ET.Element, tag: str) -> list[ET.Element]:
    return [one for one in root.iter(f"{SVG}{tag}") if one.get("class") == "ct-accent"]


def bands(root: ET.Element) -> dict[str, list[float]]:
    """Widths of uplinks by colour: rectangles without an outline that are no squares."""
    found: dict[str, list[float]] = {}
    for one in root.iter(f"{SVG}rect"):
        if one.get("rx") == "0":
            found.setdefault(one.attrib["class"], []).append(float(one.attrib["width"]))
    return found


def test_a_quarter_of_the_bandwidth_has_a_quarter_of_the_width() -> None:
    full, quarter = (bands(parsed(fabric(clos(16, (4, 1.0), (16, 2.0, s))))) for s in (1, 4))
    assert list(full) == ["ct-switch"]
    assert list(quarter) == ["ct-accent"]
    assert len(full["ct-switch"]) == len(quarter["ct-accent"]) == 4
    assert quarter["ct-accent"][0] == pytest.approx(full["ct-switch"][0] / 4, abs=0.1)


def test_colour_says_nothing_that_words_do_not() -> None:
    tight, calm = parsed(colltool.load_fabric("clos-4to1")), parsed(colltool.load_fabric("nvl72"))
    assert (
        "".join(text.text or "" for text in accents(tight, "text")) == "uplinks 4:1oversubscribed"
    )
    assert accents(tight, "rect")
    assert not [*accents(calm, "text"), *accents(calm, "rect")]


def test_a_level_that_no_pair_needs_is_dashed_and_says_so() -> None:
    root = parsed(colltool.load_fabric("dgx-h100"))
    assert "for up to 128, not reached" in " ".join(said(root))
    assert len([one for one in root.iter(f"{SVG}rect") if one.get("stroke-dasharray")]) == 1
    more = parsed(colltool.load_fabric("dgx-h100", ["ib.size=128"]))
    assert "not reached" not in " ".join(said(more))


def test_ports_are_lines_where_there_is_room() -> None:
    def lines(ports: int) -> int:
        root = parsed(fabric(star(2, ports=ports)))
        return len([one for one in root.iter(f"{SVG}path") if one.get("stroke-width") == "1"])

    assert [lines(ports) for ports in (1, 4, 8, 9)] == [2, 8, 16, 2]


@swept(
    ("tier", "drawn", "wraps"),
    [
        (torus(8), 8, 1),
        (mesh(8), 8, 0),
        (torus(16), 6, 1),
        (torus(2, 3), 6, 1),
        (torus(4, 4, 4), 64 - 27, 3),
        (mesh(3, 1, 1), 3, 0),
    ],
)
def test_places_and_wraparounds_of_lattices(tier: dict[str, Any], drawn: int, wraps: int) -> None:
    """Of a block those on three faces: all but the (n-1)^3 behind; two in a row are joined once,
    also on a torus."""
    where = fabric(tier)
    root = parsed(where)
    assert len(list(root.iter(f"{SVG}circle"))) == drawn
    assert len([one for one in root.iter(f"{SVG}path") if "C" in one.attrib["d"]]) == wraps
    assert document(colltool.draw_fabric(where))["tiers"][0]["drawn"] == drawn


@swept("name", [*SHIPPED, *ODD])
def test_as_many_are_drawn_as_the_document_says(name: str) -> None:
    """Endpoints are squares, or dots of 3.2 pixels in a lattice."""
    root = parsed(every(name))
    squares = [one for one in root.iter(f"{SVG}rect") if one.get("class") == "ct-soft"]
    dots = [one for one in root.iter(f"{SVG}circle") if one.get("r") == "3.2"]
    told = document(colltool.draw_fabric(every(name)))["tiers"]
    assert len(squares) + len(dots) == sum(tier["drawn"] for tier in told)
    for tier in told:
        assert 1 <= tier["drawn"] <= tier["endpoints"]


def test_every_axis_is_named() -> None:
    words = said(parsed(fabric(torus(8, 1, 2, 4))))
    for text in ("axis 1: rings of 8", "axis 2: 1 place", "axis 3: pairs", "axis 4: rings of 4"):
        assert text in words
    assert "axis 1: a line of 8" in said(parsed(fabric(mesh(8))))


def endpoints(tree: SwitchTree) -> list[int | None]:
    return [one and one.endpoints for one in tree.below]


def test_which_switches_are_drawn() -> None:
    assert switch_tree([9], 9).endpoints == 9
    assert switch_tree([100], 100).endpoints == 8
    assert endpoints(switch_tree([8, 32], 20)) == [3, 3, 4], "the last leaf has four of its eight"
    assert endpoints(switch_tree([4, 32], 32)) == [4, 4, None, 4]
    deep = switch_tree([4, 16, 64, 256], 256)
    assert endpoints(deep) == [2, None, 0], "below the last of them nothing is drawn"
    assert deep.slots < 12


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]><!-- & &lt; -->",
    "\x00\x07\x1b[31m\x7f\x85\u202e\u2028\ud800\ufffe",
    "{color: red} </style>",
)


@swept("text", HOSTILE)
@swept("page", [False, True])
def test_text_of_a_file_is_never_markup(text: str, page: bool) -> None:
    where = (
        fabric(star(8))
        .model_copy(update={"description": text})
        .with_overrides((("t1.alpha", text),))
    )
    drawing = fabric_svg(where, page=page)
    assert drawing.isprintable() or not text.isprintable()
    root = ET.fromstring(drawing)
    plain = ET.fromstring(fabric_svg(fabric(star(8)), page=page))
    kinds = {one.tag for one in plain.iter()}
    assert {one.tag for one in root.iter()} == kinds
    assert drawing.encode("utf-8").decode() == drawing
    assert not [char for char in drawing if not char.isprintable()]


def test_ids_stay_apart() -> None:
    where = colltool.load_fabric("nvl72")
    one, other = (parsed(where, prefix=prefix) for prefix in ("a", "b"))
    ids = [
        {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
        for root in (one, other)
    ]
    assert ids[0]
    assert not ids[0] & ids[1]
    for root, own in zip((one, other), ids, strict=True):
        assert set(root.attrib["aria-labelledby"].split()) == own
        assert root.get("role") == "img"


def test_the_alternative_text_says_it_all_from_the_inside_out() -> None:
    desc = parsed(colltool.load_fabric("clos-4to1")).find(f"{SVG}desc")
    assert desc is not None
    text = desc.text or ""
    assert text.startswith(
        "1024 ranks in 2 tiers, innermost first. nvlink: star of 8 ranks; 128 of these;"
    )
    assert (
        "fabric: Clos of 128 nvlink domains; 1024 ranks in all; 8 ports each; bandwidth 50 GB/s"
        " per port, one way" in text
    )
    assert "level core: joins all 128, alpha 14 us, uplinks 4:1 oversubscribed." in text


def test_values_that_are_not_the_files_are_told() -> None:
    root = parsed(colltool.load_fabric("nvl72", ["ib.bandwidth=100GB/s"]))
    assert "with ib.bandwidth=100GB/s" in said(root)
    assert root.findtext(f"{SVG}title") == "Fabric nvl72 with ib.bandwidth=100GB/s"


def test_every_element_has_a_class_and_a_colour() -> None:
    for name in (*SHIPPED, *ODD):
        for one in parsed(every(name)).iter():
            if one.tag.removeprefix(SVG) in ("rect", "circle", "path", "text"):
                tones = set(one.attrib["class"].split()) - {"ct-page"}
                assert tones <= set(LIGHT)
                for tone in tones:
                    assert one.get("stroke" if tone == "ct-line" else "fill") == LIGHT[tone]  # type: ignore[index]


def test_a_page_colours_it_itself() -> None:
    where = colltool.load_fabric("nvl72")
    file, page = fabric_svg(where), fabric_svg(where, page=True)
    assert f"(prefers-color-scheme: dark) {{ .ct-page {{ fill: #0d1117; }} {rules(DARK)} }}" in file
    assert "<style" not in page
    assert "ct-page" not in page
    assert "http" not in page
    assert set(LIGHT) == set(DARK)


def luminance(code: str) -> float:
    """Source: WCAG 2.2, relative luminance."""
    parts = [int(code[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_texts_and_lines_can_be_seen(colours: dict[str, str]) -> None:
    """Contrast of 4.5 for text and 3 for lines, WCAG 2.2 AA."""
    back = luminance(colours["ct-box"])
    for tone, least in (("ct-ink", 4.5), ("ct-soft", 4.5), ("ct-accent", 4.5), ("ct-line", 3.0)):
        low, high = sorted((luminance(colours[tone]), back))
        assert (high + 0.05) / (low + 0.05) >= least, tone


# --- letters
# -----------------------------------------------------------------------------------------------------------


def test_the_rule_is_not_passed_by_a_wide_font() -> None:
    """DejaVu Sans, the widest of the usual sans-serif fonts, comes with matplotlib."""
    pytest.importorskip("matplotlib")
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    for weight in ("normal", "bold"):
        found = font_manager.findfont(
            font_manager.FontProperties(family="DejaVu Sans", weight=weight)
        )
        font = FT2Font(found)
        font.set_size(100, 72)
        for phrase in (
            "Clos of 128 nvlink domains; 1024 ranks in all",
            "reduce, multicast, alpha_switch 20.2 us, 1 switch level, all-reduce eta_beta 0.61",
            (
                "Hypothetical 1024 GPUs, 128 H100 nodes on a three-level Clos, 4:1 oversubscribed"
                " to the core"
            ),
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            "abcdefghijklmnopqrstuvwxyz",
            "0123456789",
            "mmmmWWWW@@%%",
            "=== +++ <<<>>>",
        ):
            font.set_text(phrase)
            assert font.get_width_height()[0] / 64 <= width_of(
                phrase, 100, bold=weight == "bold"
            ), (phrase, weight)


@given(st.text(max_size=80), st.floats(60, 400))
def test_what_is_clipped_fits(text: str, room: float) -> None:
    found = clipped_to(text, room, 14)
    assert width_of(found, 14) <= room
    assert found == text or (found.endswith("...") and text.startswith(found[:-3]))


@given(st.text(alphabet="ab W-", max_size=200), st.integers(1, 5))
def test_lines_fit_and_lose_nothing_but_what_they_say(text: str, most: int) -> None:
    lines = lines_of(text, 100, 14, most)
    assert len(lines) <= most
    assert all(width_of(line, 14) <= 100 for line in lines)
    if not lines or not lines[-1].endswith("..."):
        assert "".join(lines).replace(" ", "") == "".join(text.split())


def test_a_long_text_takes_no_time() -> None:
    assert (
        len(lines_of("word " * 100_000, 100, 14, 4))
        == len(lines_of("w" * 500_000, 100, 14, 4))
        == 4
    )
    assert len(clipped_to("w" * 500_000, 100, 14)) < 10


def test_lines_are_as_far_apart_as_letters_are_high() -> None:
    assert LINE >= 17 * 1.05


# --- a browser
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.ci
def test_a_browser_finds_every_text_inside() -> None:
    """With its own fonts: no text leaves the drawing, none lies on another."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = which("chromium") or which("google-chrome")
    if chromium is None:
        pytest.skip("no browser here")
    script = """() => {
      const all = [...document.querySelectorAll('text')].map(one => [one.getBBox(), one.lastChild.textContent]);
      const box = document.querySelector('svg').viewBox.baseVal, bad = [];
      all.forEach(([a, text], i) => {
        if (a.x < 0 || a.y < 0 || a.x + a.width > box.width || a.y + a.height > box.height) bad.push(text);
        all.slice(0, i).forEach(([b, other]) => {
          if (a.x < b.x + b.width && b.x < a.x + a.width && a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height)
            bad.push(text + ' on ' + other);
        });
      });
      return bad;
    }"""
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        for name in ("nvl72", "clos-4to1", "tpu-v5p", "long names", "six levels", "eight axes"):
            page.set_content(fabric_svg(every(name), page=True))
            assert page.evaluate(script) == [], name
        browser.close()
