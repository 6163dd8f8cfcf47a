"""The interval that nine of ten measurements lie in: how it widens, what it says, and what every
answer carries of it."""

from __future__ import annotations

import json
from math import exp, hypot, log, log2, sqrt
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from swept import swept
from whole_spread import spread_of

import colltool
from colltool.base.primitives import AR
from colltool.estimate import spread
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import place
from colltool.estimate.interval import Interval, error_model, interval_of, ratio_sigma
from colltool.estimate.spread import (
    ErrorRequest,
    MeasuredPlace,
    index,
    indexed,
    nearest_row,
    sigma_table,
)
from colltool.fabric.media import GENERATIONS
from colltool.render.intervals import within_words
from colltool.render.schemas import document_schema

PLACES = sorted(index())
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
SOURCES = sorted({series.source for several in index().values() for series in several})

places = st.sampled_from(PLACES)
ranks = st.sampled_from([2**power for power in range(1, 14)] + [72, 144, 1440])
sizes = st.floats(3, 36).map(lambda power: 2.0**power)
flags = st.booleans()
questions = st.builds(
    ErrorRequest,
    places,
    st.sampled_from(COLLECTIVES),
    ranks,
    sizes,
    amd=flags,
    racks=flags,
    peers=st.sampled_from([0, 8, 64, 1000]),
    one_process=flags,
    moved=st.floats(0, 3),
)


def sigma(asked: ErrorRequest, rows: spread.Index | None = None) -> float:
    return spread_of(asked, sigma_table(), index() if rows is None else rows).sigma


def interval(fabric: str, count: int, size: str, primitive: str = "ar", **options: Any) -> Interval:
    found = colltool.price(fabric, primitive, ranks=count, size=size, **options).best.interval
    assert found is not None
    return found


def width(one: Interval) -> float:
    """The factor between its ends."""
    return one.high_s / one.low_s


@given(questions, st.floats(0.01, 6))
def test_the_distance_never_falls_when_a_question_moves_away_from_all_rows(
    asked: ErrorRequest, away: float
) -> None:
    """Beyond the largest that was measured, in ranks and in size."""
    several = index()[asked.place]
    most, largest = max(one.ranks for one in several), max(one.sizes[-1] for one in several)
    asked = asked._replace(ranks=max(asked.ranks, most), size=max(asked.size, 2.0**largest))
    near = nearest_row(asked, sigma_table(), index())
    more_ranks = nearest_row(
        asked._replace(ranks=round(asked.ranks * 2**away)), sigma_table(), index()
    )
    larger = nearest_row(asked._replace(size=asked.size * 2**away), sigma_table(), index())
    assert near
    assert more_ranks
    assert larger
    assert more_ranks.squared >= near.squared - 1e-12
    assert larger.squared >= near.squared - 1e-12


@given(questions, st.floats(0, 2))
def test_sigma_never_falls_when_a_dial_moves_further(asked: ErrorRequest, more: float) -> None:
    assert sigma(asked._replace(moved=asked.moved + more)) >= sigma(asked) - 1e-12


@given(questions, st.sampled_from(["generation", "medium"]))
def test_sigma_never_falls_for_a_device_or_a_medium_without_rows(
    asked: ErrorRequest, part: str
) -> None:
    other = asked.place._replace(**{part: "never measured"})
    assert sigma(asked._replace(place=other)) >= sigma(asked) - 1e-12


@given(questions)
def test_sigma_never_falls_for_a_collective_without_rows(asked: ErrorRequest) -> None:
    assert sigma(asked._replace(collective="never measured")) >= sigma(asked) - 1e-12


@given(questions, st.sets(st.sampled_from(SOURCES), min_size=1, max_size=12))
def test_taking_sources_away_narrows_no_interval(asked: ErrorRequest, without: set[str]) -> None:
    left = {
        place: tuple(one for one in several if one.source not in without)
        for place, several in index().items()
    }
    assert sigma(asked, left) >= sigma(asked) - 1e-12


@given(st.floats(3, 36).map(lambda power: 2.0**power))
def test_across_nodes_is_no_surer_than_inside(size: float) -> None:
    """What is measured, and what is not."""
    inside, across = (
        ErrorRequest(MeasuredPlace("hopper", medium, far), "all_reduce", count, size)
        for medium, far, count in (("nvlink", False, 8), ("ib", True, 16))
    )
    assert sigma(across) >= sigma(inside)


@given(questions, st.floats(0.01, 2))
def test_a_machine_s_own_posterior_stands_for_racks_and_distance(
    asked: ErrorRequest, posterior: float
) -> None:
    found, without = (
        spread_of(asked, sigma_table(), index(), posterior),
        spread_of(asked, sigma_table(), index()),
    )
    distance = {"base", "racks", "ranks", "size", "collective", "unmeasured"}
    base = dict(without.parts)["base"]
    others = hypot(*(value for name, value in without.parts if name in distance))
    of_its_own = max(base, posterior)
    if asked.racks and asked.place.across:
        clouds = spread._clouds(asked, index())
        of_its_own = hypot(of_its_own, sigma_table()["racks"] / sqrt(1 + clouds))
    parts = distance | {"machine", "exchange"}
    kept = hypot(*(value for name, value in found.parts if name in parts))
    far = hypot(*(value for name, value in without.parts if name in parts))
    replaced = asked.in_a_rack or of_its_own < others
    assert kept == pytest.approx(of_its_own if replaced else far)


def test_more_clouds_narrow_a_price_between_racks_by_the_root_of_their_number() -> None:
    place = MeasuredPlace("blackwell", "roce", across=True)
    asked = ErrorRequest(place, "all_reduce", 128, 2.0**33, racks=True)
    row = {"generation": "blackwell", "medium": "ib", "scope": "racks", "bytes": str(2**33)}
    row |= {"collective": "all_reduce", "ranks": "128"}
    for clouds in (0, 1, 3):
        rows = indexed(row | {"source": str(cloud)} for cloud in range(clouds))
        parts = dict(spread_of(asked, sigma_table(), rows, 0.01).parts)
        assert parts["racks"] == pytest.approx(sigma_table()["racks"] / sqrt(1 + clouds))
    # of the machine's own rows only their scatter stays
    own = spread_of(asked._replace(own=True), sigma_table(), {}, 0.01)
    assert "racks" not in dict(own.parts)


def test_an_all_to_all_between_nodes_is_less_sure_by_its_peers_and_upwards() -> None:
    """Until one was measured there, to 32 peers; of NCCL and RCCL."""
    few, more, most, beyond = (
        interval("aws-p5", count, "8MB", "a2a") for count in (16, 24, 40, 512)
    )
    exchange = [dict(one.parts)["exchange"] for one in (few, more, most, beyond)]
    assert exchange[1] / exchange[0] == pytest.approx(4 / 3)
    assert exchange[2] == exchange[3] == pytest.approx(exchange[0] * 5 / 3)
    assert few.reason == "few all-to-alls between nodes were measured, and they differ this much"
    priced = float(colltool.price("aws-p5", "a2a", ranks=16, size="8MB").best.total_s)
    low, high = few.around(priced)
    assert high / (1 + high) > -low
    assert "exchange" not in dict(interval("dgx-h100", 16, "8GiB", "a2a").parts)
    assert "exchange" not in dict(interval("aws-p5", 16, "8MB", "ag").parts)
    assert "exchange" not in dict(interval("mpi-cluster", 16, "8MB", "a2a").parts)


def test_every_shipped_device_of_a_generation_is_as_its_file_says() -> None:
    """B300 and GB300 count as Blackwell, whose constants NCCL takes for them; GH200 has no switch
    and stands alone."""
    folder = Path(colltool.__file__).parent / "training" / "data" / "devices"
    for file in folder.glob("*.yaml"):
        told = yaml.safe_load(file.read_text(encoding="utf-8"))
        known = GENERATIONS.get(told["name"])
        assert known in (None, told["generation"].removesuffix("-ultra"), "gh200")


def test_a_changed_bandwidth_widens_by_how_far_it_moves_the_price() -> None:
    """A tenth of the bandwidth: k ln(price with / price without), apart from the other parts."""
    plain, half, tenth = (
        colltool.price(
            "dgx-h100" if not change else colltool.load_fabric("dgx-h100", change),
            "ar",
            ranks=64,
            size="1GB",
        ).best
        for change in ([], ["ib.bandwidth=25GB/s"], ["ib.bandwidth=5GB/s"])
    )
    assert plain.interval
    assert half.interval
    assert tenth.interval
    assert width(plain.interval) < width(half.interval) < width(tenth.interval)
    assert [one.interval.basis for one in (half, tenth)] == ["changed", "changed"]
    moved = log(float(tenth.total_s) / float(plain.total_s))
    assert dict(tenth.interval.parts)["dials"] == pytest.approx(
        sigma_table()["dials_across"] * moved, rel=0.02
    )
    assert dict(plain.interval.parts) == pytest.approx(
        {k: v for k, v in tenth.interval.parts if k != "dials"}
    )


def test_the_same_value_and_another_size_of_machine_are_no_dials() -> None:
    same = interval("dgx-h100", 64, "1GB")
    for change in (["ib.bandwidth=50GB/s"], ["ib.size=64", "ib.levels.spine.group=64"]):
        fabric = colltool.load_fabric("dgx-h100", change)
        found = colltool.price(fabric, "ar", ranks=64, size="1GB").best.interval
        assert found is not None
        assert found.parts == same.parts


def test_racks_are_never_surer_far_from_the_rows() -> None:
    two, sixteen, thirty_two = (
        width(interval("nvl72", count, "16MB")) for count in (144, 1152, 2304)
    )
    assert two < sixteen
    assert sixteen <= thirty_two * (1 + 1e-12)


def test_an_announced_machine_is_no_surer_than_the_class_of_measured_ones() -> None:
    announced, measured = interval("vera-rubin-nvl72", 72, "16GiB"), interval("nvl72", 72, "16GiB")
    assert width(announced) > width(measured)
    assert (announced.basis, announced.nearest) == ("announced", None)
    assert announced.reason == "announced: first measurements may differ this much"


def test_a_box_on_pcie_says_the_range_of_such_boxes() -> None:
    """They measure 1.5 to 20 GB/s, by whether P2P works; no end above what was priced."""
    priced = colltool.price("l40s-pcie", "ar", ranks=8, size="256MB").best
    assert priced.interval
    assert float(priced.busbw_Bps) * float(priced.total_s) / priced.interval.high_s <= 2e9
    assert "P2P" in priced.interval.reason


def test_what_an_engine_leaves_to_nccl_has_nccl_s_interval() -> None:
    left = colltool.price("gb300-nvl72", "ar", ranks=8, size="64KiB", library="sglang@0.5.14").best
    own = colltool.price("gb300-nvl72", "ar", ranks=8, size="64KiB", library="nccl").best
    assert left.kernel == "nccl"
    assert left.interval == own.interval


def test_datasheets_shift_what_they_say_and_ideal_prices_say_nothing() -> None:
    plain = colltool.price("dgx-h100", "ar", ranks=64, size="1MB", numbers="datasheet").best
    assert plain.interval
    assert plain.interval.basis == "datasheet"
    low, high = plain.interval.around(float(plain.total_s))
    assert 1 + high > 1 / (1 + low)  # mostly too fast
    ideal = colltool.price("dgx-h100", "ar", ranks=64, size="1MB", ideal=True)
    assert all(
        row.interval is None and row.no_interval.startswith("exact") for row in ideal.results
    )


def test_the_interval_is_the_law_s() -> None:
    """By hand: exp(+-kappa sigma) about the price, sigma from the parts."""
    fabric = colltool.load_fabric("mi355x")
    found = interval_of(fabric, AR, 16, 2.0**20, ModelOptions(), total_s=1e-3)
    assert found is not None
    parts = dict(found.parts)
    known = sigma_table()
    near = {"base": known["base_across_1MB"], "amd": known["amd"]}
    assert {name: parts[name] for name in near} == pytest.approx(near)
    squares = sum(value**2 for value in parts.values())
    assert found.high_s == pytest.approx(1e-3 * exp(known["kappa"] * squares**0.5))
    assert found.low_s * found.high_s == pytest.approx(1e-6)


def test_a_row_that_the_library_does_not_run_is_no_surer_than_its_own() -> None:
    found = colltool.price("dgx-h100", "ar", ranks=64, size="16MB", library="nccl")
    others = [row for row in found.others if row.interval]
    assert others
    assert all(
        width(row.interval) >= width(found.best.interval)
        for row in others
        if row.interval and found.best.interval
    )
    assert all("unmeasured" in dict(row.interval.parts) for row in others if row.interval)


@swept(
    ("ends", "words"),
    [
        ((-0.34, 0.51), "-34% to +51%"),
        ((1 / 4.1 - 1, 3.1), "within a factor of 4.1 either way"),
        ((-0.5, 1.99), "-50% to +199%"),
        ((-0.4, 5.0), "0.6 to 6 times that"),
    ],
)
def test_wide_intervals_are_told_as_a_factor(ends: tuple[float, float], words: str) -> None:
    assert within_words(*ends) == words


def test_the_reason_is_the_largest_part() -> None:
    assert interval("dgx-h100", 8, "1GB").reason.endswith("comparable measurements")
    assert interval("nvl72", 144, "4GB").reason == "its own measurements differ this much"
    assert interval("gb300-nvl72", 144, "16MB").reason.startswith("few racks were measured")
    assert interval("mi355x", 16, "1MB").reason.startswith("AMD clusters differ")
    far = error_model(
        colltool.load_fabric("dgx-a100"),
        AR,
        place(colltool.load_fabric("dgx-a100"), 160),
        2.0**30,
        ModelOptions(),
    )
    told = far.interval(2.0**30, 1e-3).reason
    most = max(one.ranks for one in index()[MeasuredPlace("ampere", "ib", True)])
    assert told == f"no measurement beyond {most} ranks"


@swept(
    ("command", "arguments"),
    [
        ("price", {"size": "1MB"}),
        ("breakdown", {"size": "1MB"}),
        ("sweep", {"sizes": ["1MB"]}),
        ("compare", {"sizes": ["1MB"]}),
    ],
)
@swept("ideal", [False, True])
def test_json_keeps_its_schema(command: str, arguments: dict[str, Any], ideal: bool) -> None:
    from colltool.render.dispatch import document

    fabric: Any = ["dgx-h100", "hgx-h200"] if command == "compare" else "dgx-h100"
    count = {"ranks": [16]} if command in ("sweep", "compare") else {"ranks": 16}
    found = json.loads(
        json.dumps(
            document(getattr(colltool, command)(fabric, "ar", **count, **arguments, ideal=ideal))
        )
    )
    Draft202012Validator(document_schema(command)).validate(found)
    rows = (
        found.get("results")
        or found.get("cells")
        or [value for row in found["rows"] for value in row["values"]]
    )
    for row in rows:
        assert ("no_interval" in row) == (row["interval"] is None) == ideal
        if not ideal:
            one = row["interval"]
            assert one["low_s"] < row["total_s"] < one["high_s"]
            assert one["share"] == 0.9
            assert row.get("accuracy", found.get("accuracy")) is not None


def test_the_table_s_bound_is_the_larger_side() -> None:
    found = colltool.price("dgx-h100", "ar", ranks=64, size="16MB")
    assert found.accuracy
    assert found.best.interval
    assert found.accuracy.p90 == pytest.approx(
        found.best.interval.high_s / float(found.best.total_s) - 1
    )


def test_sweeps_and_comparisons_print_the_interval_of_a_price() -> None:
    one = interval("dgx-h100", 64, "1GB")
    (cell,) = colltool.sweep("dgx-h100", "ar", ranks=[64], sizes=["1GB"]).cells
    assert cell.interval == one
    varied = colltool.sweep(
        "dgx-h100", "ar", ranks=[64], sizes=["1GB"], vary=["ib.bandwidth=50GB/s,5GB/s"]
    ).cells
    assert varied[0].interval == one
    changed = colltool.load_fabric("dgx-h100", ["ib.bandwidth=5GB/s"])
    alone = colltool.price(changed, "ar", ranks=64, size="1GB").best.interval
    assert varied[1].interval
    assert alone
    assert varied[1].interval.high_s == pytest.approx(alone.high_s)
    assert varied[1].interval.basis == alone.basis == "changed"


def test_a_ratio_keeps_only_what_differs() -> None:
    wide, narrow = interval("dgx-h100", 256, "16MB"), interval("dgx-h100", 64, "16MB")
    assert ratio_sigma(narrow, narrow, alike=True) == 0
    assert ratio_sigma(narrow, narrow, alike=False) == pytest.approx(2**0.5 * narrow.sigma)
    assert ratio_sigma(narrow, wide, alike=True) <= ratio_sigma(narrow, wide, alike=False)


def test_a_comparison_whose_ratio_may_be_one_names_no_winner() -> None:
    (line,) = colltool.compare(["dgx-h100", "dgx-b200"], "ar", ranks=[64], sizes=["16MB"]).lines
    found = line.ratio_interval(1)
    assert found is not None
    low, high = found
    assert low < 1 < high
    (finding,) = colltool.compare(
        ["dgx-h100", "dgx-b200"], "ar", ranks=[64], sizes=["16MB"]
    ).findings
    assert all(run.within is not None or run.outcome == "same" for run in finding.runs)


def test_plans_and_reshards_carry_intervals() -> None:
    planned = colltool.plan("llama3-70b", "dgx-h100", 256)
    by = {str(one.sent.call.primitive): one for one in planned.collectives}
    assert by["p2p"].interval is None
    gathered = by["all_gather"]
    assert gathered.interval
    assert gathered.interval.low_s < gathered.sent.each_s < gathered.interval.high_s


def test_a_price_is_judged_in_a_millisecond() -> None:
    from time import perf_counter

    ground = error_model(
        colltool.load_fabric("dgx-h100"),
        AR,
        place(colltool.load_fabric("dgx-h100"), 64),
        1e6,
        ModelOptions(),
    )
    ground.interval(1e6, 1e-3)
    start = perf_counter()
    for _ in range(100):
        ground.interval(1e6, 1e-3)
    assert (perf_counter() - start) / 100 < 5e-3


def test_the_index_is_the_rows_and_small() -> None:
    import bench_spread

    with bench_spread.INDEX.open(encoding="utf-8", newline="") as file:
        text = file.read()
    assert len(text) < 60_000
    assert indexed(bench_spread.lines()) == index()


@pytest.mark.thorough
def test_the_law_is_what_the_fit_makes_of_the_rows() -> None:
    """To the digits that are written; prices of ten minutes are made again unless they are kept."""
    import bench_spread

    found = bench_spread.fitted(bench_spread.judged())
    assert {name: f"{value:.3f}" for name, value in sigma_table().items()} == {
        name: f"{value:.3f}" for name, value in found.items()
    }


def test_law_s_knots_are_met() -> None:
    known = sigma_table()
    for scope in ("inside", "across"):
        for name, power in (("1KB", 10), ("1MB", 20), ("128MB", 27), ("4GB", 32)):
            assert spread.by_size(known, f"base_{scope}", log2(2.0**power)) == pytest.approx(
                known[f"base_{scope}_{name}"]
            )
