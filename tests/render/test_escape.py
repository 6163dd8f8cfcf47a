"""Names of others through every format: nothing that a terminal, a spreadsheet, a parser or a
browser takes for more."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from small import fabric, star
from swept import swept

import colltool
from colltool.base.errors import printable
from colltool.base.primitives import AR
from colltool.congestion.contention import Contention, GroupCost
from colltool.congestion.heat import LinkLoad
from colltool.render.blocks import Lines, Table, label
from colltool.render.data_formats import csv_text, json_text
from colltool.render.dispatch import FORMATS, rendered
from colltool.render.markup import html, markdown, to_html, to_markdown
from colltool.render.text import Screen, to_text

NASTY = {
    "escape sequence": "a\x1b[31mb",
    "C1": "a\x9b2Jb",
    "line end": "a\nb",
    "carriage return": "a\rb",
    "tab": "a\tb",
    "bidirectional": "a\u202eb",
    "isolate": "a\u2066b",
    "line separator": "a\u2028b",
    "zero width": "a\u200bb",
    "surrogate": "a\udcffb",
    "tag": "a\U000e0041b",
    "delete": "a\x7fb",
}
MARKUP = {
    "bar": "a|b",
    "backtick": "a`b",
    "tag": "<script>alert(1)</script>",
    "image": "![x](https://example.org/x.png)",
    "quote": 'a"b',
    "formula": "=1+1",
    "comma": "a,b",
    "backslash": "a\\|b",
}
every_name = pytest.mark.parametrize(
    "name", [*NASTY.values(), *MARKUP.values()], ids=[*NASTY, *MARKUP]
)


@swept(
    ("text", "shown"),
    [
        ("plain α 16 MB", "plain α 16 MB"),
        ("a\nb", "a\\nb"),
        ("a\x1b[2J", "a\\x1b[2J"),
        ("\x9b", "\\x9b"),
        ("\u202e", "\\u202e"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
        ("", ""),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@swept(
    "code",
    [
        *range(0x20),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        0xD800,
        0xDFFF,
    ],
)
def test_no_control_character_is_printable(code: int) -> None:
    assert printable(chr(code)).isascii()
    assert printable(chr(code)).startswith("\\")


@every_name
def test_a_nasty_name_in_a_price(name: str) -> None:
    """Through the fabric's and the tier's name into every format."""
    where = fabric(star(8)).model_copy(update={"name": name})
    price = colltool.price(where, "ar", size=1e6, algorithms="ring")
    for form in FORMATS:
        text = rendered(price, form)
        assert text.encode("utf-8")
        assert text.replace("\n", "").isprintable(), form
    assert json.loads(rendered(price, "json"))["fabric"] == (
        printable(name) if "\udcff" in name else name
    )
    (row,) = csv.DictReader(io.StringIO(rendered(price, "csv"), newline=""))
    assert row["fabric"] == csv_text(name)
    on_screen = rendered(price, "table", Screen(120, colour=True, unicode=True))
    assert re.sub(r"\x1b\[[0-9;]*m", "", on_screen).replace("\n", "").isprintable()
    assert printable(name) in rendered(price, "table")


@every_name
def test_a_nasty_name_in_cells_lists_and_titles(name: str) -> None:
    parts = [
        Table((label("name", name, get=str),), (name,), None, name),
        Lines(name, (name, " " + name)),
        Lines(name, (name,), True),
    ]
    for text in (to_html(parts), to_markdown(parts), to_text(parts), to_text(parts, Screen(40))):
        assert text.encode()
        assert text.replace("\n", "").isprintable()
    assert "<script" not in to_html(parts)
    header, rule, row = to_markdown(parts).splitlines()[2:5]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", header)) == 2
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 2
    assert rule == "| :--- |"
    assert len(to_text(parts[:1]).splitlines()) == 6, "a name is a line"


@swept("text", ["=1+1", "+1", "-1+2", "@SUM(A1)", "=cmd|' /C calc'!A0"])
def test_no_spreadsheet_computes_a_name(text: str) -> None:
    assert csv_text(text) == f"'{text}"


@swept("text", ["ring", "-", "a=b", "1e-5"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert csv_text(text) == text


@swept("name", NASTY.values())
def test_json_reads_back(name: str) -> None:
    text = json_text(json.dumps({"a": name, "b": [name]}, ensure_ascii=False, indent=2))
    found = json.loads(text)
    assert found["a"] == found["b"][0] == (name if "\udcff" not in name else "a\\udcffb")


def test_markdown_and_html() -> None:
    assert markdown("a|b`c` <b> x*y* \\ [t](u)") == "a\\|b\\`c\\` \\<b> x\\*y\\* \\\\ [t\\](u)"
    assert html('<a href="x">\'&') == "&lt;a href=&quot;x&quot;&gt;&#x27;&amp;"


def test_a_summary_and_a_repr_are_lines() -> None:
    where = fabric(star(8)).model_copy(update={"name": "a\n\x1b[2Jb"})
    price = colltool.price(where, "ar", size=1e6)
    assert "\n" not in repr(price)
    assert "\x1b" not in repr(price) + price.summary() + price._repr_html_()


def test_nasty_group_names() -> None:
    group = GroupCost(
        "g\n|`=\u202e", 2, AR, "ring", 1.0, 1.0, 0, 1.0, 1.0, 1.0, "l", None, None, None
    )
    link = LinkLoad("l\x9b", "line", 1.0, 1e9, 1.0, 1)
    found = Contention("f", "layout\n", "M", (group,), 1.0, (link,), (), (), 1, 0, (), ())
    for form in FORMATS:
        assert rendered(found, form).replace("\n", "").isprintable()
    assert len(rendered(found, "csv").splitlines()) == 2
