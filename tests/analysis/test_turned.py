"""``compare`` names what wins on one port, where that is not what wins."""

from __future__ import annotations

import colltool
from colltool.analysis.cells import Cell
from colltool.analysis.outcomes import CompareLine, changed_winners
from colltool.base.primitives import AR
from colltool.render.dispatch import document, rendered


def test_the_documents_conclusion_stands_below_the_default_one() -> None:
    found = colltool.compare(["star512", "torus512"], ["ar", "ag", "a2a"], sizes=["64KB", "16MB"])
    assert [
        (one.primitive.label, one.bytes, one.column, one.instead_of) for one in found.turned
    ] == [
        ("all-reduce", 16e6, "star512", "torus512"),
        ("all-gather", 16e6, "star512", "torus512"),
    ]
    text = rendered(found, "table", everything=True)
    only = 'if a rank can drive only one port at a time (ports="one"), star512 has the shorter time'
    assert f"All-reduce at 16MB: {only}" in text
    assert "All-to-all" not in text.partition("if a rank can drive")[2]
    assert document(found)["turned_on_one_port"][0]["column"] == "star512"


def test_nothing_turns_where_ports_or_algorithms_are_given() -> None:
    assert not colltool.compare(["star512", "torus512"], "ar", sizes=["16MB"], ports="one").turned
    assert not colltool.compare(
        ["star512", "torus512"], "ar", sizes=["16MB"], algorithms=["ring", "multi-ring"]
    ).turned


def test_all_rows_need_no_place() -> None:
    found = colltool.compare(["star512", "torus512"], "ar", sizes=["16MB"])
    text = rendered(found, "table", everything=True)
    assert "All-reduce: if a rank can drive only one port at a time" in text


def test_a_lead_within_what_prices_are_known_to_turns_nothing() -> None:
    def line(*times: float | None) -> CompareLine:
        cells = tuple(Cell((), total_s=time) for time in times)
        return CompareLine(AR, 8, 1e6, cells, (0.0, 0.0), (0.0, 0.0))

    def column(now: CompareLine, then: CompareLine) -> list[str]:
        return [row.column for row in changed_winners([now], [then], ["a", "b"])]

    assert column(line(2, 1), line(2, 3)) == ["a"]
    assert column(line(2, 1), line(2, 2.03)) == []
    assert column(line(2, 1), line(3, 1)) == []
    assert column(line(2, 1), line(2, None)) == ["a"]
    assert column(line(2, None), line(None, None)) == []
