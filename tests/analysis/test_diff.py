"""What moved between two documents: matched by identity, counted past a tolerance."""

from __future__ import annotations

import copy
import json
from math import inf, nan
from typing import Any

import pytest
from small import fabric, star
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.estimate.results import Price
from colltool.render.data_formats import to_json
from colltool.render.dispatch import blocks, document
from colltool.render.text import Screen, to_text

Document = dict[str, Any]


def priced(alpha: float = 1.0, bw: float = 100.0, size: float = 1e6, n: int = 12) -> Document:
    return as_document(colltool.price(fabric(star(n, alpha, bw)), "ar", size=size))


def as_document(result: Price) -> Document:
    """As ``--format json`` writes it."""
    listed = colltool.estimate.results.PriceList((result,))  # type: ignore[attr-defined]
    made: Document = json.loads(to_json(document(listed)))
    return made


def row(made: Document, name: str) -> Document:
    return next(r for r in made["results"] if r["algorithm"] == name)


def plain(where: str) -> str:
    """A place without blanks at the end of a record's name."""
    return where.replace(" ]", "]")


def test_a_document_has_not_moved_from_itself() -> None:
    one = priced()
    found = colltool.diff(one, copy.deepcopy(one))
    assert not found.moved
    assert (found.changed, found.added, found.removed) == ((), (), ())


def test_one_number_that_moved() -> None:
    old, new = priced(), priced()
    row(new, "ring")["total_s"] *= 1.5
    (change,) = colltool.diff(old, new).changed
    assert plain(change.where) == "results[ring].total_s"
    assert change.relative == pytest.approx(0.5)
    assert (change.old, change.new) == (row(old, "ring")["total_s"], row(new, "ring")["total_s"])


def test_a_record_without_a_detail_is_named_without_a_blank() -> None:
    old, new = priced(), priced()
    row(new, "ring")["total_s"] *= 1.5
    assert colltool.diff(old, new).changed[0].where == "results[ring].total_s"


TOLERANCES = [
    (1.01, 0.02, False),
    (1.01, 0.01, None),
    (1.01, 0.009, True),
    (0.97, 0.02, True),
    (1 + 1e-9, 1e-6, False),
    (1 + 1e-9, 0, True),
]


@swept(("factor", "rtol", "moved"), TOLERANCES)
def test_the_tolerance_is_relative_to_the_old_number(
    factor: float, rtol: float, moved: bool | None
) -> None:
    old, new = priced(), priced()
    row(new, "ring")["total_s"] *= factor
    found = colltool.diff(old, new, rtol)
    assert found.rtol == rtol
    if moved is not None:  # at the tolerance itself, rounding decides
        assert found.moved == moved


def test_a_row_that_only_changed_its_rank_has_not_moved() -> None:
    old, new = priced(), priced()
    new["results"].reverse()
    new["infeasible"].reverse()
    assert not colltool.diff(old, new).moved


def test_a_row_more_and_a_row_less_are_named_once() -> None:
    old, new = priced(), priced()
    new["results"] = [r for r in new["results"] if r["algorithm"] != "tree"]
    found = colltool.diff(old, new)
    assert (found.added, [plain(where) for where in found.removed], found.changed) == (
        (),
        ["results[tree]"],
        (),
    )
    back = colltool.diff(new, old)
    assert ([plain(where) for where in back.added], back.removed) == (["results[tree]"], ())
    assert found.moved
    assert back.moved


def test_a_key_more_in_a_row_that_both_have() -> None:
    old, new = priced(), priced()
    row(new, "ring")["joules"] = 1.0
    assert [plain(where) for where in colltool.diff(old, new).added] == ["results[ring].joules"]


def test_another_size_is_another_question() -> None:
    found = colltool.diff(priced(size=1e6), priced(size=2e6))
    assert "bytes" in [change.where for change in found.changed]


def test_every_price_moves_with_alpha() -> None:
    found = colltool.diff(priced(alpha=1.0), priced(alpha=2.0))
    moved = {
        plain(c.where): c.relative
        for c in found.changed
        if c.where.endswith("].alpha_s") and ".phases" not in c.where
    }
    assert moved == {f"results[{r['algorithm']}].alpha_s": 1.0 for r in priced()["results"]}


def test_the_version_is_no_change() -> None:
    old, new = priced(), priced()
    new["colltool"] = "99.0"
    assert not colltool.diff(old, new).moved


def test_text_and_missing_numbers() -> None:
    old, new = priced(), priced()
    row(new, "ring")["status"] = "reference"
    row(new, "tree")["n_alpha"] = None
    by_place = {plain(change.where): change for change in colltool.diff(old, new, rtol=0.5).changed}
    assert by_place.keys() == {"results[ring].status", "results[tree].n_alpha"}
    assert all(change.relative is None for change in by_place.values())


@swept(
    ("before", "after", "moved"),
    [(0.0, 0.0, False), (0.0, 1.0, True), (1.0, 0.0, True), (0, 0.0, False), (1, 1.0, False)],
)
def test_from_and_to_zero(before: float, after: float, moved: bool) -> None:
    old, new = ({"schema": "colltool.price/1", "overhead_s": number} for number in (before, after))
    assert colltool.diff(old, new).moved == moved


def test_phases_with_the_same_name_are_told_apart() -> None:
    where = colltool.load_fabric("nvl72")
    old, new = (
        as_document(colltool.price(where, "ar", size=1e6, algorithms="hierarchical:ring/ring"))
        for _ in range(2)
    )
    new["results"][0]["phases"][2]["alpha_s"] *= 2
    (change,) = colltool.diff(old, new).changed
    assert "all_gather" in change.where


def test_equal_identities_are_numbered() -> None:
    old = {
        "schema": "colltool.price/1",
        "results": [{"name": "x", "t": 1.0}, {"name": "x", "t": 2.0}],
    }
    new = {
        "schema": "colltool.price/1",
        "results": [{"name": "x", "t": 1.0}, {"name": "x", "t": 3.0}],
    }
    (change,) = colltool.diff(old, new).changed
    assert (change.old, change.new) == (2.0, 3.0)


def test_plain_lists_are_compared_whole() -> None:
    old, new = ({"schema": "colltool.price/1", "notes": notes} for notes in (["a"], ["a", "b"]))
    (change,) = colltool.diff(old, new).changed
    assert (change.where, change.old, change.new, change.relative) == (
        "notes",
        ["a"],
        ["a", "b"],
        None,
    )


@swept("broken", [{}, {"schema": "other/1"}, {"schema": None}, {"schema": 7}])
def test_not_a_document(broken: Document) -> None:
    for pair in ((broken, priced()), (priced(), broken)):
        with pytest.raises(ColltoolError, match="not a JSON document"):
            colltool.diff(*pair)


def test_documents_of_different_commands() -> None:
    with pytest.raises(ColltoolError, match="different commands"):
        colltool.diff({"schema": "colltool.price/1"}, {"schema": "colltool.ladder/1"})


@swept("rtol", [-0.1, nan, inf])
def test_a_tolerance_that_cannot_be(rtol: float) -> None:
    with pytest.raises(ColltoolError, match=r"^rtol: "):
        colltool.diff(priced(), priced(), rtol)


def test_two_fabrics_are_compared_row_by_row() -> None:
    wanted: dict[str, Any] = {"sizes": ["1KB", "1MB"], "ranks": 8, "algorithms": ["ring", "tree"]}
    listed = [colltool.price_list(name, "ar", **wanted) for name in ("dgx-h100", "mi300x")]
    one, other = (json.loads(to_json(document(prices))) for prices in listed)
    found = colltool.diff(one, other)
    unlike = [where for where in (*found.added, *found.removed) if ".phases[" not in where]
    told = ("library", "interval.parts")
    assert all(any(part in where for part in told) for where in unlike), (
        "other tiers, another library, and nothing else"
    )
    moved = {change.where: change for change in found.changed}
    assert (moved["fabric"].old, moved["fabric"].new) == ("dgx-h100", "mi300x")
    assert sum(where.endswith("total_s") for where in moved) == 4
    assert sum("fabric" in where for where in moved) == 1


def test_a_ladder_of_several_fabrics_keeps_them_apart() -> None:
    old = json.loads(to_json(document(colltool.ladder())))
    new = copy.deepcopy(old)
    for one in new["rows"]:
        one["fabric"] = "elsewhere" if one["fabric"] == "star512" else one["fabric"]
    found = colltool.diff(old, new)
    assert found.added
    assert len(found.added) == len(found.removed)
    assert all("elsewhere" in where for where in found.added)


@swept("value", [nan, inf, -inf, 10**400, [1.0, nan]])
def test_a_number_that_is_not_finite_is_refused_with_its_place(value: Any) -> None:
    old, new = priced(), priced()
    row(new, "ring")["total_s"] = value
    with pytest.raises(
        ColltoolError, match=r"^new: results\[ring\]\.total_s is .*, which cannot be compared"
    ):
        colltool.diff(old, new)
    with pytest.raises(ColltoolError, match=r"^old: "):
        colltool.diff(new, old)


def test_a_change_beyond_all_floats_has_no_relative() -> None:
    old, new = ({"schema": "colltool.x/1", "t": value} for value in (5e-324, 1e300))
    (change,) = colltool.diff(old, new).changed
    assert change.relative is None


def test_a_document_that_is_nested_beyond_reason() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"x": deep}
    with pytest.raises(ColltoolError, match="nested too deeply"):
        colltool.diff({"schema": "colltool.x/1", "x": deep}, {"schema": "colltool.x/1", "x": 1})


def test_long_texts_are_cut_in_a_table_and_whole_in_the_document() -> None:
    notes = ["a note of many words", "and another"]
    result = colltool.diff(
        {"schema": "colltool.price/1", "notes": notes},
        {"schema": "colltool.price/1", "notes": [*notes, "new"]},
    )
    assert "a note of many words;...</td>" in result._repr_html_()
    assert result.changed[0].new == [*notes, "new"]


def test_one_size_against_several() -> None:
    """The size that both have is compared, the other is added: nothing of the first is lost."""
    one, both = (as_listed(sizes) for sizes in (["1MB"], ["1MB", "2MB"]))
    found = colltool.diff(one, both)
    assert (found.changed, found.removed, len(found.added)) == ((), (), 1)
    assert "2000000" in found.added[0]
    assert colltool.diff(both, one).removed == found.added


def as_listed(sizes: list[str]) -> Document:
    made: Document = json.loads(
        to_json(document(colltool.price_list(fabric(star(12, 1.0, 100.0)), "ar", sizes=sizes)))
    )
    return made


def test_what_is_said_again_is_no_change_of_its_own() -> None:
    old, new = (document(colltool.price("star512", "ar", size=size)) for size in ("1MB", "2MB"))
    assert old["results"][0]["alpha_share"] != new["results"][0]["alpha_share"]
    moved = {one.where.rsplit(".", 1)[-1] for one in colltool.diff(old, new).changed}
    assert {"total_s", "bandwidth_s"} <= moved
    assert not moved & {"alpha_share", "bandwidth_share", "of_total"}
    cells = [
        document(
            colltool.sweep("star512", "ar", sizes=["1MB"], overrides=[f"star.bandwidth={one}GB/s"])
        )
        for one in (400, 900)
    ]
    assert "alpha_share" in {one.where.rsplit(".", 1)[-1] for one in colltool.diff(*cells).changed}


@pytest.mark.parametrize(
    "reading", [{"tree_beta": 1.0}, {"ports": "one"}, {"ring_alpha": "worst"}], ids=str
)
def test_ladders_under_other_readings_say_so(reading: dict[str, Any]) -> None:
    """A ladder leaves the usual readings out; the other's are what moved, and no formula is
    blamed."""
    usual, other = (document(colltool.ladder(**more)) for more in ({}, reading))
    (name,) = reading
    for old, new in ((usual, other), (other, usual)):
        found = colltool.diff(old, new)
        assert [change.where for change in found.readings] == [f"model.{name}"]
        text = to_text(blocks(found), Screen(200))
        assert "Made with other model options: " in text
        assert "a formula" not in text
    assert not colltool.diff(other, other).moved
    assert not colltool.diff(usual, usual).readings
