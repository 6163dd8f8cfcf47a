"""Formats of a small table with everything that a format could stumble over, as golden text."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from typing import Any, NamedTuple

import pytest
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_bytes, format_rate, format_size, format_time
from colltool.render.blocks import Block, Headline, Lines, Table, label, number
from colltool.render.column_choice import choose
from colltool.render.data_formats import to_csv, to_json
from colltool.render.dispatch import blocks, document, rendered
from colltool.render.markup import MOST_ROWS, to_fragment, to_html, to_markdown
from colltool.render.text import Screen, to_text


class Record(NamedTuple):
    algorithm: str
    n_alpha: int | None
    total_s: float
    note: str


COLUMNS = (
    label("algorithm", "algorithm"),
    number("n_alpha", "n_alpha", drop=2),
    number("total_s", "total", format_time),
    label("note", "a | note", drop=1),
)
ROWS = (
    Record("ring [leaf]", 286, 1.877777777777778e-05, "a|b"),
    Record("hierarchical (ring / ring)", None, 0.0015, ':smile: "q", [bold]x[/]'),
)
TABLE = Table(COLUMNS, ROWS, 0, "small [title], 16MB")
LIST = Lines("notes", ("[red]not markup[/red]", "", "t = 2(N-1) α"))
PARTS: list[Block] = [TABLE, LIST, Lines("one sentence", ())]

TEXT = """\
small [title], 16MB
+---------------------------------------------------------------------------+
| algorithm                  | n_alpha |    total | a | note                |
|----------------------------+---------+----------+-------------------------|
| ring [leaf]                |     286 | 18.78 us | a|b                     |
| hierarchical (ring / ring) |       - |   1.5 ms | :smile: "q", [bold]x[/] |
+---------------------------------------------------------------------------+

notes:
  [red]not markup[/red]

  t = 2(N-1) α

one sentence
"""

NARROW = """\
small [title], 16MB
+---------------------------------------+
| algorithm                  |    total |
|----------------------------+----------|
| ring [leaf]                | 18.78 us |
| hierarchical (ring / ring) |   1.5 ms |
+---------------------------------------+

--all adds columns: n_alpha, a | note
"""

CONTINUED = """\
small [title], 16MB
+---------------------------------------+
| algorithm                  |    total |
|----------------------------+----------|
| ring [leaf]                | 18.78 us |
| hierarchical (ring / ring) |   1.5 ms |
+---------------------------------------+
+----------------------------------+
| algorithm              | n_alpha |
|------------------------+---------|
| ring [leaf]            |     286 |
| hierarchical (ring /   |       - |
| ring)                  |         |
+----------------------------------+
+--------------------------------------------------+
| algorithm              | a | note                |
|------------------------+-------------------------|
| ring [leaf]            | a|b                     |
| hierarchical (ring /   | :smile: "q", [bold]x[/] |
| ring)                  |                         |
+--------------------------------------------------+
"""

CSV = """\
algorithm,n_alpha,total_s,note
ring [leaf],286,1.877777777777778e-05,a|b
hierarchical (ring / ring),,0.0015,":smile: ""q"", [bold]x[/]"
"""

MARKDOWN = """\
**small [title], 16MB**

| algorithm | n_alpha | total | a \\| note |
| :--- | ---: | ---: | :--- |
| ring [leaf] | 286 | 18.78 us | a\\|b |
| hierarchical (ring / ring) | - | 1.5 ms | :smile: "q", [bold]x[/] |

notes:

- [red]not markup[/red]
- t = 2(N-1) α

one sentence
"""


def test_text() -> None:
    assert to_text(PARTS) == TEXT


def test_text_on_a_narrow_screen_leaves_whole_columns_out() -> None:
    assert to_text([TABLE], Screen(56), everything=False) == NARROW


def test_all_of_a_table_on_a_narrow_screen_goes_on_below() -> None:
    assert to_text([TABLE], Screen(56)) == CONTINUED


def test_the_default_view_counts_what_it_leaves_out() -> None:
    parts = [
        Headline("the answer"),
        TABLE._replace(first=1),
        LIST._replace(first=2),
        Lines("more", ("a", "b"), first=0),
    ]
    shown = to_text(parts, Screen(90), everything=False)
    assert shown.startswith("the answer\n\nsmall [title], 16MB\n")
    assert shown.endswith("\n--all adds 1 row; 3 notes\n")
    assert "hierarchical" not in shown
    assert "t = 2(N-1)" not in shown
    assert "more:" not in shown
    assert "--all" not in to_text(parts, Screen(90))
    assert to_markdown(parts, everything=False).endswith("`--all` adds 1 row; 3 notes\n")


@swept("width", range(1, 90))
def test_no_width_cuts_a_cell(width: int) -> None:
    """A total stands whole in its line; a name that finds no room goes on in the next one."""
    drawn, _, _ = to_text([TABLE], Screen(width), everything=False).partition("\n\n")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in drawn.splitlines()
        if line.startswith("| ")
    ]
    at = rows[0].index("total")
    assert (
        " ".join(row[0] for row in rows[1:]).split()
        == " ".join(row.algorithm for row in ROWS).split()
    )
    assert [row[at] for row in rows[1:] if row[at]] == [format_time(row.total_s) for row in ROWS]


@swept("width", range(32, 90))
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    assert max(map(len, to_text([TABLE], Screen(width), everything=False).splitlines())) <= max(
        width, 39 - 26 + 12
    )


def test_the_least_needed_column_goes_first() -> None:
    for width in range(90, 40, -1):
        shown = to_text([TABLE], Screen(width), everything=False)
        header = next(line for line in shown.splitlines() if line.startswith("| algorithm"))
        if "n_alpha" in header:
            assert "a | note" in header, "n_alpha is needed less, so it goes before the note"


def test_colour_changes_nothing_but_colour() -> None:
    import re

    coloured = to_text(PARTS, Screen(200, colour=True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == to_text(PARTS, Screen(200))


def test_unicode_borders() -> None:
    shown = to_text([TABLE], Screen(200, unicode=True))
    assert "╭" in shown
    assert "ring [leaf]" in shown


def test_csv() -> None:
    assert to_csv(TABLE) == CSV


def test_csv_reads_back() -> None:
    header, first, second = csv.reader(io.StringIO(to_csv(TABLE)))
    assert header == [column.key for column in COLUMNS]
    assert float(first[2]) == ROWS[0].total_s, "not a digit is lost"
    assert second == [ROWS[1].algorithm, "", "0.0015", ROWS[1].note]


def test_markdown() -> None:
    assert to_markdown(PARTS) == MARKDOWN


@swept("form", [to_text, to_html, to_markdown])
def test_a_table_without_rows(form: Any) -> None:
    assert "n_alpha" in form([Table(COLUMNS, ())])
    assert to_csv(Table(COLUMNS, ())) == "algorithm,n_alpha,total_s,note\n"


# --- HTML
# ---------------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The texts of cells, and whether every tag is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag == "meta":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.mark.parametrize("form", [to_html, to_fragment])
def test_html_holds_every_cell_and_loads_nothing(form: Any) -> None:
    page = Page(form(PARTS))
    assert page.rows[0] == [column.title for column in COLUMNS]
    assert page.rows[1:] == [[column.text(row) for column in COLUMNS] for row in ROWS]
    assert not page.links


def test_a_page_is_a_whole_one() -> None:
    page = to_html(PARTS)
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>small [title], 16MB</title>" in page
    assert page.endswith("</html>\n")


def test_a_notebook_is_spared_a_sweep() -> None:
    shown = to_fragment([Table(COLUMNS, ROWS * MOST_ROWS)])
    assert shown.count("<tr") == MOST_ROWS + 1
    assert f"{MOST_ROWS} more rows" in shown


# --- --columns
# ------------------------------------------------------------------------------------------------------------


def test_columns_are_chosen_and_ordered() -> None:
    table, *rest = choose(PARTS, ["total", "Algorithm"], "table")
    assert isinstance(table, Table)
    assert [column.key for column in table.columns] == ["total_s", "algorithm"]
    assert rest == PARTS[1:]
    assert to_csv(table).splitlines()[1] == "1.877777777777778e-05,ring [leaf]"


def test_what_is_named_first_stays_longest() -> None:
    (table,) = choose([TABLE], ["note", "algorithm", "n_alpha"], "table")
    assert (
        next(
            line for line in to_text([table], Screen(60)).splitlines() if line.startswith("| a |")
        ).count("|")
        == 4
    )


def test_a_hidden_column_can_be_named() -> None:
    hidden = TABLE.without("note")
    assert "a | note" not in to_text([hidden])
    (table,) = choose([hidden], ["note", "total_s"], "table")
    assert "a | note" in to_text([table])


def test_a_table_without_any_of_the_columns_stays_out() -> None:
    other = Table((label("link", "link", get=str),), ("x",))
    assert choose([TABLE, other], ["link"], "table") == [
        other._replace(columns=(other.columns[0]._replace(drop=0),))
    ]


@swept(
    ("name", "hint"),
    [("totl", "did you mean 'total'?"), ("n_alhpa", "did you mean 'n_alpha'?"), ("", "")],
)
def test_an_unknown_column_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ColltoolError, match=f"no column '{name}'") as caught:
        choose(PARTS, ["total", name], "table")
    assert caught.value.fix.startswith(hint)
    assert caught.value.fix.endswith("columns: algorithm, n_alpha, total_s, note")


@pytest.mark.parametrize(("parts", "form"), [([], "json"), ([LIST], "table")])
def test_nothing_to_choose_columns_of(parts: list[Block], form: str) -> None:
    with pytest.raises(ColltoolError, match="nothing to choose columns of"):
        choose(parts, ["total"], form)


# --- JSON
# -----------------------------------------------------------------------------------------------------------------


def test_json() -> None:
    content = {"schema": "s", "b": 0.1, "a": ["α", None, True, 1e-05]}
    text = to_json(content)
    assert list(json.loads(text)) == ["schema", "b", "a"]
    assert json.loads(text) == content
    assert text.endswith("}\n")
    assert "α" in text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_refuses_what_json_cannot_say(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": value})


def test_an_unknown_result_is_refused() -> None:
    with pytest.raises(TypeError, match="dict"):
        blocks({})
    with pytest.raises(TypeError, match="list"):
        document([])
    with pytest.raises(TypeError, match="str"):
        rendered("text", "table")


@swept(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (5e-7, "500 ns"),
        (1.877777e-5, "18.78 us"),
        (9.9996e-4, "1 ms"),
        (0.00354, "3.54 ms"),
        (1.0, "1 s"),
        (123.456, "123.5 s"),
        (1.2e-10, "0.12 ns"),
    ],
)
def test_times(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


@swept(
    ("rate", "text"),
    [
        (4.5e11, "450 GB/s"),
        (1.103e9, "1.103 GB/s"),
        (999.99e9, "1 TB/s"),
        (706962180.7, "707 MB/s"),
        (12.0, "12 B/s"),
    ],
)
def test_rates(rate: float, text: str) -> None:
    assert format_rate(rate) == text


@swept(
    ("size", "exact", "rounded"),
    [(16e6, "16MB", "16 MB"), (2.0**20, "1MiB", "1.049 MB"), (1.0, "1B", "1 B")],
)
def test_sizes(size: float, exact: str, rounded: str) -> None:
    assert format_size(size) == exact
    assert format_bytes(size) == rounded
