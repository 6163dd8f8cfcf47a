"""Fabrics grow to the ranks of a question, and say so; what the user stated stays."""

from __future__ import annotations

from typing import Any

import pytest
from swept import swept

import colltool
from colltool.analysis.fitted import AS_IT_IS, counts_of_all, fitted, most_of_all
from colltool.base.errors import ColltoolError
from colltool.estimate.placement import GroupSpec, fits
from colltool.render.dispatch import document
from colltool.render.fitted_words import fitted_sentences


def change(name: str, *ranks: int, varied: tuple[str, ...] = ()) -> Any:
    return fitted(colltool.load_fabric(name), [GroupSpec(count) for count in ranks], varied)


@swept(
    ("name", "ranks", "said"),
    [
        ("dgx-b200", [1152], ["dgx-b200 was grown to 144 nodes"]),
        ("dgx-b200", [8, 64, 1000], ["dgx-b200 was grown to 125 nodes"]),
        ("dgx-b200", [8, 256], []),
        ("nvl72", [1152], []),
        ("nvl72", [256], ["nvl72 runs 64 of the 72 ranks per rack"]),
        ("nvl72", [8, 256, 512], ["nvl72 runs 64 of the 72 ranks per rack"]),
        ("nvl72", [4096], ["nvl72 was grown to 64 racks and runs 64 of the 72 ranks per rack"]),
        ("nvl72", [4608], ["nvl72 was grown to 64 racks"]),
        # no part of a rack that is at least a half of it fills both
        ("nvl72", [72, 256], []),
        # a node runs whole
        ("dgx-b200", [100], []),
        # what has no nodes does not grow
        ("star512", [1024], []),
        ("torus512", [1024], []),
    ],
)
def test_what_is_done_to_a_fabric(name: str, ranks: list[int], said: list[str]) -> None:
    found = change(name, *ranks)
    assert fitted_sentences([(name, found)]) == said
    if found.overrides:
        grown = colltool.load_fabric(name, list(found.overrides))
        assert all(fits(grown, count) for count in ranks)


def test_a_size_that_was_stated_stays() -> None:
    assert change("dgx-b200:nodes=16", 1152) == AS_IT_IS
    assert change("dgx-b200", 1152, varied=("ib.size",)) == AS_IT_IS
    assert change("nvl72:per-rack=72", 256) == AS_IT_IS
    assert change("dgx-b200:ib.eta.beta=0.7", 1152).nodes == 144


def test_a_stride_needs_room_for_all_between() -> None:
    fabric = colltool.load_fabric("dgx-b200")
    assert fitted(fabric, [GroupSpec(64, stride=8)]).nodes == 64
    assert fitted(fabric, [GroupSpec(32, stride=8)]) == AS_IT_IS


def test_a_grown_fabric_is_the_one_that_can_be_typed() -> None:
    by_itself = colltool.compare(["nvl72", "dgx-b200"], "ar", ranks=1152, sizes=["1MB", "1GB"])
    typed = colltool.compare(
        ["nvl72", "dgx-b200:nodes=144"], "ar", ranks=1152, sizes=["1MB", "1GB"]
    )
    times = [[cell.total_s for cell in line.cells] for line in by_itself.lines]
    assert times == [[cell.total_s for cell in line.cells] for line in typed.lines]
    assert document(by_itself)["columns"][1]["fitted"]["nodes"] == 144
    assert document(by_itself)["columns"][1]["fitted"]["set"]["ib.size"] == "144"
    assert "fitted" not in document(typed)["columns"][1]


def test_groups_that_fit_anyway_take_as_long_on_a_grown_fabric() -> None:
    alone, grown = (
        colltool.sweep("dgx-b200", "ar", ranks=ranks, sizes=["1KB", "1MB", "1GB"])
        for ranks in ([8, 64], [8, 64, 1152])
    )
    assert [cell.total_s for cell in grown.cells[:6]] == [cell.total_s for cell in alone.cells]
    assert document(grown)["fitted"]["dgx-b200"]["nodes"] == 144
    assert document(alone)["fitted"] == {}


def test_a_mapping_grows_and_a_loaded_fabric_stays_as_it_was_loaded() -> None:
    tier = {"alpha": "1us", "bandwidth": "100GB/s"}
    mine = {
        "schema": "colltool.fabric/1",
        "name": "mine",
        "tiers": [
            {"name": "in", "topology": "star", "size": 8, **tier},
            {"name": "out", "topology": "clos", "size": 4, **tier},
        ],
    }
    found = colltool.compare([mine, "star512"], "ar", ranks=64, sizes=["1MB"])
    assert found.columns[0].fitted.nodes == 8
    assert found.lines[0].cells[0].total_s is not None
    loaded = colltool.load_fabric(mine)
    found = colltool.compare([loaded, "star512"], "ar", ranks=64, sizes=["1MB"])
    assert found.columns[0].fitted == AS_IT_IS
    assert "64 ranks do not fit" in found.lines[0].cells[0].reason


def test_without_a_count_all_can_run_the_one_that_is_taken() -> None:
    fabrics = ["nvl72", "dgx-b200"]
    found = colltool.compare(fabrics, "ar", sizes=["1MB"])
    assert found.taken == 216  # three racks, 27 nodes
    assert all(cell.total_s for cell in found.lines[0].cells)
    loaded = [colltool.load_fabric(name) for name in fabrics]
    assert not any(all(fits(one, count) for one in loaded) for count in range(217, 257))
    assert colltool.compare(["dgx-h100", "dgx-b200"], "ar", sizes=["1MB"]).taken is None


def test_counts_that_all_can_run() -> None:
    loaded = [colltool.load_fabric(name) for name in ("nvl72", "dgx-b200")]
    assert counts_of_all(loaded, GroupSpec(100)) == (72, 144)
    assert most_of_all(loaded, 71) == 64
    found = colltool.compare(["nvl72", "dgx-b200"], "ar", ranks=[72, 100], sizes=["1MB"])
    (offer,) = found.offers
    assert (offer.ranks, offer.nearest) == (100, (72, 144))


def test_where_nothing_can_run_it_is_an_error() -> None:
    with pytest.raises(ColltoolError, match="1024 ranks do not fit"):
        colltool.compare(["star512", "mi300x"], "ar", ranks=1024, sizes=["1MB"])


def test_several_that_grow_alike_are_one_sentence() -> None:
    found = [("dgx-b200", change("dgx-b200", 1152)), ("dgx-h100", change("dgx-h100", 1152))]
    assert fitted_sentences(found) == ["dgx-b200 and dgx-h100 were grown to 144 nodes"]


def test_more_ranks_than_any_fabric_has_do_not_fit() -> None:
    with pytest.raises(ColltoolError, match="20000000 ranks do not fit: dgx-b200 has 256"):
        colltool.compare(["dgx-b200", "dgx-h100"], "ar", ranks=20_000_000, sizes=["1MB"])
