"""The first screens of prices: short, and in words that a colleague would use."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from effort import some
from swept import swept

import colltool
from colltool.render.blocks import Table
from colltool.render.dispatch import rendered
from colltool.render.estimates import change_text
from colltool.render.text import Screen

SCREEN = Screen(80)
LINES = 24

BANNED = re.compile(
    r"from [\d.]+ ?[KMGT]?i?B on\b|is of\b|goes with|so many|beside|nobody runs|\bleads\b|balance"
    r"|realistic|\bideal|software|own copy|own share|\bfloor|held at the nearest|\bcuts?\b|drafted"
    r"|\brungs?\b|\bgap\b|\bmargin\b|readings|\bproved|idealised|mismatch|turns it|gains little"
    r"|runner-up|\ba (rank|host|prompt)\b|\bwire\b"
)
"""Words and turns of phrase that stand in no first screen."""


def first_screen(result: Any) -> str:
    return rendered(result, "table", SCREEN)


def check(screen: str) -> None:
    found = BANNED.search(screen)
    assert found is None, f"'{found and found[0]}' in\n{screen}"
    assert len(screen.splitlines()) <= LINES, screen


# on which a first price takes seconds, as its messages are followed link by link
FOLLOWED = ["atlas-950", "frontier", "juwels-booster", "tpu-8i", "ub-mesh"]
SOME = some(sorted(set(colltool.list_fabrics()).difference(FOLLOWED)), 8)


@pytest.mark.parametrize(
    "fabric", [*SOME, *(pytest.param(name, marks=pytest.mark.ci) for name in FOLLOWED)]
)
def test_prices_of_every_fabric_are_in_plain_words(fabric: str) -> None:
    loaded = colltool.load_fabric(fabric)
    for size in ("64KB", "64MB"):
        check(first_screen(colltool.price(loaded, "ar", size=size)))
        check(first_screen(colltool.breakdown(loaded, "ar", size=size)))
    check(first_screen(colltool.price_list(loaded, "ar")))
    check(first_screen(colltool.crossover(loaded)))
    check(first_screen(colltool.price(loaded, "a2a", size="16MB")))


def test_the_banned_words_are_found() -> None:
    with pytest.raises(AssertionError, match="software"):
        check("81% is software\n")
    with pytest.raises(AssertionError):
        check("a line\n" * (LINES + 1))


@pytest.mark.parametrize("fabric", ["dgx-h100", "nvl72", "tpu-v4-512", "mi300x-cluster"])
def test_other_answers_about_prices_are_in_plain_words(fabric: str) -> None:
    asked = {"ranks": 64} if fabric == "dgx-h100" else {}
    check(first_screen(colltool.sensitivity(fabric, "ar", size="16MB", samples=200, **asked)))
    check(first_screen(colltool.explain("ring", "ar", fabric=fabric, size="16MB", **asked)))
    check(first_screen(colltool.price_list(fabric, "ar", sizes=["1MB", "1GB"], **asked)))


@swept("fabric", ["dgx-h100", "nvl72", "tpu-v4-512", "mi300x-cluster"])
def test_what_to_expect_is_in_plain_words(fabric: str) -> None:
    check(first_screen(colltool.expect(fabric)))
    check(first_screen(colltool.expect(fabric, "all", sizes=["1GiB", "8GiB"])))


def test_a_ladder_is_in_plain_words() -> None:
    check(first_screen(colltool.ladder()))


# --- the verdict


def opening(result: Any) -> str:
    """The sentences above the first table."""
    return " ".join(first_screen(result).partition("\n\n")[0].split())


def test_a_price_leads_with_its_verdict() -> None:
    priced = colltool.price("dgx-h100", "ar", size="16MB", ranks=64)
    verdict, following, largest, *_ = re.split(r"(?<=[a-zA-Z)])\. ", opening(priced))
    assert re.fullmatch(
        r"NVLSTree \(NCCL's pick\): 336\.5 us \(-\d+% to \+\d+%: .*\), busbw 93\.6 GB/s", verdict
    )
    assert following == "Tree might be faster, 300.7 us (-11%), too close to call"
    assert largest == "38% of the time is NCCL overhead; a faster network would barely help"


@pytest.mark.parametrize(
    "fabric",
    ["dgx-h100", "nvl72", "tpu-v4-512", pytest.param("frontier", marks=pytest.mark.ci)],
)
def test_the_parts_of_a_row_add_up_to_its_total(fabric: str) -> None:
    for row in colltool.price(fabric, "ar", size="16MB").results:
        parts = (row.steps_s, row.moved_s, row.overhead_s, row.rest_s)
        assert sum(map(float, parts)) == pytest.approx(float(row.total_s))


@swept("fabric", ["dgx-h100", "nvl72", "tpu-v4-512", "two-sites", "clos-4to1"])
@swept("size", ["1KB", "16MB", "1GB"])
def test_the_shares_of_a_breakdown_add_up_to_100_percent(fabric: str, size: str) -> None:
    broken = colltool.breakdown(fabric, "ar", size=size)
    text = rendered(broken, "table", Screen(200), everything=True)
    rows = text.split("\n\n")[1].splitlines()
    shares = [int(found[1]) for row in rows if (found := re.search(r"(-?\d+)% \|$", row))]
    assert len(shares) >= len(broken.price.results[0].phases)
    assert sum(shares) == 100


def test_a_crossover_says_what_nccl_runs_and_what_that_costs() -> None:
    said = opening(colltool.crossover("nvl72"))
    assert said.startswith("NCCL runs Tree below 379 KB and NVLSTree above. NCCL's choice costs up")
    cost = colltool.crossover("nvl72").pick_cost
    assert cost is not None
    priced = colltool.price("nvl72", "ar", size=cost.bytes)
    assert priced.best.name == cost.pick
    assert float(priced.best.total_s) == pytest.approx(cost.pick_s)
    assert float(priced.fastest.total_s) == pytest.approx(cost.fastest_s)
    assert not cost.close


def test_no_choice_costs_more_than_is_said() -> None:
    for fabric in ("dgx-h100", "nvl72", "aws-p5"):
        cost = colltool.crossover(fabric).pick_cost
        assert cost is not None
        sizes = [4.0**power for power in range(5, 17)]
        for price in colltool.price_list(fabric, "ar", sizes=sizes).prices:
            factor = float(price.best.total_s) / float(price.fastest.total_s)
            assert factor <= cost.factor * 1.1


def test_a_price_without_a_size_answers_as_a_crossover() -> None:
    for fabric in ("dgx-h100", "nvl72", "tpu-v4-512"):
        crossover = opening(colltool.crossover(fabric)).split(". All-reduce")[0]
        assert opening(colltool.price_list(fabric, "ar")).split(". All-reduce")[0] == crossover


def test_crossovers_beyond_16_GB_are_for_all() -> None:
    crossover = colltool.crossover("clos-4to1")
    assert any(pick.from_bytes > 16e9 for pick in crossover.picks)
    assert "46.18 GB" not in first_screen(crossover)
    everything = rendered(crossover, "table", SCREEN, everything=True)
    assert re.search(r"(?m)^\| 46\.18 GB", everything)


# --- what leads on the screen leads everywhere


@swept("fabric", SOME)
def test_the_best_is_what_leads_in_every_form(fabric: str) -> None:
    loaded = colltool.load_fabric(fabric)
    sizes = ["64KB", "64MB"]
    listed = colltool.price_list(loaded, "ar", sizes=sizes)
    frame = listed.to_columns()
    for price, size in zip(listed.prices, (64_000, 64_000_000), strict=True):
        at = frame["bytes"].index(size)
        assert (frame["spec"][at], frame["total_s"][at]) == (price.best.spec, price.best.total_s)
    single = colltool.price(loaded, "ar", size="64MB")
    assert single.best.name == listed.prices[1].best.name
    assert single.to_columns()["name"][0] == single.best.name
    assert first_screen(single).startswith(single.best.name)
    document = json.loads(rendered(single, "json"))
    leading = next((row for row in document["results"] if row["leads"]), document["results"][0])
    assert (leading["spec"], leading["total_s"]) == (single.best.spec, single.best.total_s)


def test_the_best_of_named_algorithms_leads_in_every_form() -> None:
    asked = ["tree", "ring"]
    named = colltool.price("dgx-h100", "ar", size="1GB", ranks=64, algorithms=asked)
    document = json.loads(rendered(named, "json"))
    assert named.best.name == named.to_columns()["name"][0] == document["results"][0]["name"]
    assert first_screen(named).startswith(named.best.name)


# --- differences


def document_of(size: str, **changes: str) -> dict[str, Any]:
    fabric = colltool.load_fabric("dgx-h100", overrides=changes)
    priced = colltool.price(fabric, "ar", size=size, ranks=64)
    read: dict[str, Any] = json.loads(rendered(priced, "json"))
    return read


def test_a_difference_leads_with_the_total_of_the_winner() -> None:
    old = document_of("16MB")
    found = colltool.diff(old, document_of("16MB", **{"ib.bandwidth": "60GB/s"}))
    assert opening(found).startswith("all-reduce 16MB: 336.5 -> 317.8 us (-5.6%). ")
    other = document_of("16MB", **{"library.nvls": "false"})
    said = opening(colltool.diff(old, other))
    assert said.startswith("all-reduce 16MB: 336.5 us (NVLSTree) -> 300.7 us (Tree) (-11%). ")
    larger = opening(colltool.diff(old, document_of("32MB")))
    assert larger.startswith("all-reduce 16MB -> 32MB: ")
    same = opening(colltool.diff(old, old))
    assert same == "Nothing changed by more than 0.0001%."


def test_a_changed_ladder_leads_with_its_winners() -> None:
    old = json.loads(rendered(colltool.ladder(), "json"))
    new = json.loads(rendered(colltool.ladder(), "json"))
    new["rows"][0]["realistic"]["total_s"] *= 1.02
    said = opening(colltool.diff(old, new))
    assert said.startswith("all-reduce 16MB: 35.19 -> 35.89 us (+2%). ")
    new["rows"][1]["realistic"]["total_s"] *= 0.1
    said = opening(colltool.diff(old, new))
    assert "(in-network on star512) -> 5.344 us (double-binary-tree on star512) (-85%)" in said


def test_a_ladder_shows_alpha_and_bandwidth_without_contention() -> None:
    text = rendered(colltool.ladder(), "table", Screen(400), everything=True)
    columns = [cell.strip() for cell in text.splitlines()[3].split("|")]
    for name, alpha, bandwidth in (
        ("in-network", "1 us", "17.78 us"),
        ("rabenseifner", "9 us", "35.49 us"),
        ("dim-ring", "21 us", "35.49 us"),
    ):
        row = next(line for line in text.splitlines() if f"| {name} " in line)
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[columns.index("alpha without")] == alpha
        assert cells[columns.index("BW without")] == bandwidth


@swept(
    ("share", "text"),
    [
        (-0.016, "-1.6%"),
        (0.32, "+32%"),
        (1.3, "+130%"),
        (4.0, "5x"),
        (-0.997, "-100%"),
        (0.0, "+0%"),
    ],
)
def test_changes_in_words(share: float, text: str) -> None:
    assert change_text(share) == text


def test_several_sizes_have_a_row_each() -> None:
    listed = colltool.price_list("dgx-h100", "ar", ranks=64, sizes=["1KB", "1MB", "1GB"])
    lines = first_screen(listed).splitlines()
    rows = [line.split("|")[2].strip() for line in lines if re.match(r"\| +1[KMG]B \|", line)]
    assert rows == [price.best.name for price in listed.prices]


def test_an_array_of_sizes_is_ranked_at_each() -> None:
    array = colltool.price("torus512", "ar", size=["1KB", "1GB"])
    for size in ("1KB", "1GB"):
        best = colltool.price("torus512", "ar", size=size).best
        assert f"| {best.name} " in first_screen(array)


def test_the_terms_of_an_explanation_add_up() -> None:
    told = colltool.explain("ring", "ar", fabric="nvl72", ranks=72, size="16MB")
    text = rendered(told, "table", Screen(200), everything=True)
    block = text.split("with contention:")[1].split("t = ")[0]
    terms = re.findall(r"(?:= |: |overhead )(-?[\d.]+) (us|ns)\n", block)
    seconds = sum(float(number) * {"us": 1e-6, "ns": 1e-9}[unit] for number, unit in terms)
    row = told.entries[0].row
    assert row is not None
    assert len(terms) == 5
    assert seconds == pytest.approx(float(row.total_s), rel=1e-3)


def test_a_long_range_of_sizes_is_shown_from_end_to_end() -> None:
    """The default view thins the sizes evenly and keeps the largest; ``--all`` has all of them."""
    sizes = [8.0 * 2**step for step in range(31)]
    result = colltool.sweep("nvl72", "ar", ranks=72, sizes=sizes)
    rows = re.findall(r"^\| +(\d+\w+) \|", first_screen(result), re.MULTILINE)
    assert rows == [
        "8B",
        "64B",
        "512B",
        "4KiB",
        "32KiB",
        "256KiB",
        "2MiB",
        "16MiB",
        "128MiB",
        "1GiB",
        "8GiB",
    ]
    assert "20 rows in between" in first_screen(result)
    everything = rendered(result, "table", SCREEN, everything=True)
    assert set(rows) < set(re.findall(r"^\| +(\d+\w+) \|", everything, re.MULTILINE))
    assert "in between" not in everything


def test_a_thinned_table_ends_on_its_last_record() -> None:
    for count in range(1, 40):
        table = Table((), tuple(range(count)), first=12, spread=True)
        assert table.brief[-1] == count - 1
        assert len(table.brief) <= 12
        steps = {later - here for here, later in pairwise(table.brief)}
        assert len(steps) <= 1


def test_an_overhead_below_zero_is_explained() -> None:
    """Only where the table shows one."""
    explained = "an overhead below 0"
    assert explained in first_screen(colltool.price("nvl72", "ar", ranks=144, size="256MB"))
    assert explained not in first_screen(colltool.price("dgx-h100", "ar", ranks=64, size="1GB"))
