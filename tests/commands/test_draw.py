"""``fabric draw`` as it is typed, and ``draw_fabric`` in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import colltool

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


def test_a_terminal_has_the_tree_of_fabric_show(run: Any) -> None:
    tree = run("fabric", "draw", "clos-4to1", "--set", "fabric.size=64").out
    assert "+- fabric: clos of 64" in tree
    assert tree in run("fabric", "show", "clos-4to1", "--set", "fabric.size=64").out


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
