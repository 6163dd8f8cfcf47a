"""``fabric draw`` as it is typed, and ``draw_fabric`` in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from swept import swept

import colltool
from colltool.render.dispatch import rendered
from colltool.render.text import Screen
from colltool.render.views.fabric_boxes import boxes

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def test_a_drawing_is_a_file(run: Any, folder: Path) -> None:
    done = run("fabric", "draw", "nvl72", "-o", "nvl72.svg")
    assert (done.code, done.out, done.err) == (0, "", "")
    written = (folder / "nvl72.svg").read_text(encoding="utf-8")
    assert written == f"{HEAD}{colltool.draw_fabric('nvl72').svg}\n"
    assert ET.parse(folder / "nvl72.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    run("fabric", "draw", "nvl72", "-o", "again.SVG")
    assert (folder / "again.SVG").read_text(encoding="utf-8") == written
    assert run("fabric", "draw", "nvl72", "--format", "svg").out == written
    run("fabric", "draw", "nvl72", "--format", "svg", "-o", "any.name")
    assert (folder / "any.name").read_text(encoding="utf-8") == written


def test_text_has_a_box_for_each_tier(run: Any) -> None:
    drawn = run("fabric", "draw", "clos-4to1", "--set", "fabric.size=64").out
    assert drawn.isascii()
    assert drawn.startswith("clos-4to1 with fabric.size=64; ")
    assert "+- fabric: Clos of 64 nvlink domains, 512 ranks -" in drawn
    assert "| +- nvlink 1 of 64: 8 ranks on one switch -" in drawn
    assert "8 ports of 50 GB/s per nvlink domain" in drawn
    assert "== spine: 2 groups of 32, alpha 8 us, uplinks 1:1 ==" in drawn
    assert "[1] [2] [3] [4] [5] [6] [7] [8]" in drawn


@swept("name", colltool.list_fabrics())
def test_a_drawing_fits_a_screen(name: str) -> None:
    fabric = colltool.load_fabric(name)
    lines = boxes(fabric)
    # a list is indented by two
    assert {len(line) for line in lines} == {78}
    for tier in fabric.tiers:
        assert any(f"─ {tier.name}" in line for line in lines)
    shown = rendered(colltool.draw_fabric(fabric), "table", Screen(80, unicode=True))
    assert "╭─ " in shown
    # a line for the prompt
    assert shown.count("\n") + 1 <= 24
    assert max(map(len, shown.splitlines())) <= 80
    assert rendered(colltool.draw_fabric(fabric), "table").isascii()


def test_a_torus_wraps_and_a_mesh_does_not() -> None:
    wraps = "each axis wraps around"
    assert any(wraps in line for line in boxes(colltool.load_fabric("torus512")))
    assert not any(wraps in line for line in boxes(colltool.load_fabric("mesh512")))
    assert any("o──o──o──o──o──o──o──o" in line for line in boxes(colltool.load_fabric("mesh512")))


def test_what_if_is_drawn(run: Any) -> None:
    done = run(
        "fabric", "draw", "nvl72", "--set", "ib.levels.spine.oversubscription=2", "--format", "svg"
    )
    assert "with ib.levels.spine.oversubscription=2" in done.out
    assert ">uplinks 2:1<" in done.out
    document = run("fabric", "draw", "nvl72", "--set", "ib.size=8", "--format", "json").json
    assert document["set"] == {"ib.size": "8"}
    assert [tier["drawn"] for tier in document["tiers"]] == [8, 8]


def test_a_page_has_the_drawing(run: Any, folder: Path) -> None:
    assert run("fabric", "draw", "torus512", "-o", "torus.html").code == 0
    page = (folder / "torus.html").read_text(encoding="utf-8")
    assert page.count("<svg ") == page.count("</svg>") == 1
    assert "<title>torus512: Hypothetical 512 GPUs" in page
    assert "http" not in page
    assert colltool.draw_fabric("torus512")._repr_html_().count("<svg ") == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nvl72", "-o", "nvl72.png"), "name it nvl72.svg, or end it in .json,"),
        (("nvl72", "-o", "nvl72.svg", "--columns", "tier"), "a drawing has no columns"),
        (("nvl27", "-o", "x.svg"), "did you mean 'nvl72'"),
        (("nvl72", "--format", "png"), "'png' is not known"),
        (("nvl72", "--set", "ib.sise=4", "-o", "x.svg"), "did you mean 'size'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    args: tuple[str, ...], words: str, run: Any, folder: Path
) -> None:
    done = run("fabric", "draw", *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert not list(folder.glob("*.svg")) + list(folder.glob("*.png"))


def test_a_drawing_is_not_written_over_its_fabric(run: Any, folder: Path) -> None:
    assert run("fabric", "init", "-o", "mine.yaml").code == 0
    (folder / "mine.svg").symlink_to(folder / "mine.yaml")
    done = run("fabric", "draw", "mine.yaml", "-o", "mine.svg")
    assert done.code == 2
    assert "is read by this command" in done.err


def test_python_takes_what_load_fabric_returns() -> None:
    where = colltool.load_fabric("dgx-h100", {"ib.size": 64})
    drawn = colltool.draw_fabric(where)
    assert drawn == colltool.draw_fabric(where)
    assert drawn.svg.startswith("<svg ")
    assert drawn.fabric.ranks == 512
    assert drawn.summary().splitlines()[-1] == "512 ranks: nvlink star 8, ib clos 64"
    assert drawn.to_columns()["level"] == [None, "leaf", "spine"]
    with pytest.raises(colltool.ColltoolError, match="fabric"):
        colltool.draw_fabric(3)  # type: ignore[arg-type]
