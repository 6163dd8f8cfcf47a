"""Formats of a small table with everything that a format could stumble over, as golden text."""

from __future__ import annotations

import csv
import io
import json

import pytest

from colltool.render.blocks import Block, Cell, Column, Lines, Table, blocks
from colltool.render.delimited import to_csv
from colltool.render.documents import document
from colltool.render.machine import to_json
from colltool.render.markdown import to_markdown
from colltool.render.text import Screen, to_text
from colltool.units import format_bytes, format_rate, format_size, format_time

COLUMNS = (
    Column("algorithm", "algorithm", right=False),
    Column("n_alpha", "n_alpha", 2),
    Column("total_s", "total"),
    Column("note", "a | note", 1, right=False),
)
ROWS = (
    (Cell("ring [leaf]", "ring [leaf]"), Cell("286", 286), Cell("18.78 us", 1.877777777777778e-05), Cell("a|b", "a|b")),
    (Cell("hierarchical (ring / ring)", "h"), Cell("-", None), Cell("1.5 ms", 0.0015), Cell(':smile: "q", [bold]x[/]', 'x, "y"')),
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
columns left out for want of width: n_alpha; a | note
"""

CSV = '''\
algorithm,n_alpha,total_s,note
ring [leaf],286,1.877777777777778e-05,a|b
h,,0.0015,"x, ""y"""
'''

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
    assert to_text([TABLE], Screen(56)) == NARROW


@pytest.mark.parametrize("width", range(1, 90))
def test_no_width_cuts_a_cell(width: int) -> None:
    drawn, _, _ = to_text([TABLE], Screen(width)).partition("columns left out")
    lines = [line for line in drawn.splitlines() if line.startswith("| ")]
    for line, row in zip(lines[1:], ROWS, strict=True):
        assert row[0].text in line
        assert row[2].text in line


def test_the_least_needed_column_goes_first() -> None:
    for width in range(90, 40, -1):
        shown = to_text([TABLE], Screen(width))
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
    assert to_csv(PARTS) == CSV


def test_csv_reads_back() -> None:
    header, first, second = csv.reader(io.StringIO(to_csv(PARTS)))
    assert header == [column.key for column in COLUMNS]
    assert float(first[2]) == ROWS[0][2].value, "not a digit is lost"
    assert second == ["h", "", "0.0015", 'x, "y"']


def test_csv_without_a_table_is_empty_or_a_list_but_no_crash() -> None:
    rows = list(csv.reader(io.StringIO(to_csv([LIST]))))
    assert len({len(row) for row in rows}) <= 1


def test_csv_takes_the_first_table() -> None:
    assert to_csv([Lines("before", ()), TABLE, Table(COLUMNS, ())]) == CSV


def test_markdown() -> None:
    assert to_markdown(PARTS) == MARKDOWN


@pytest.mark.parametrize("form", [to_text, to_csv, to_markdown])
def test_a_table_without_rows(form: object) -> None:
    assert "n_alpha" in form([Table(COLUMNS, ())])  # type: ignore[operator]


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("rate", "text"),
    [(4.5e11, "450 GB/s"), (1.103e9, "1.103 GB/s"), (999.99e9, "1 TB/s"), (706962180.7, "707 MB/s"), (12.0, "12 B/s")],
)
def test_rates(rate: float, text: str) -> None:
    assert format_rate(rate) == text


@pytest.mark.parametrize(
    ("size", "exact", "rounded"), [(16e6, "16MB", "16 MB"), (2.0**20, "1.048576MB", "1.049 MB"), (1.0, "1B", "1 B")]
)
def test_sizes(size: float, exact: str, rounded: str) -> None:
    assert format_size(size) == exact
    assert format_bytes(size) == rounded
