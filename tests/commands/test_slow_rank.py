"""``--slow-rank``: the same numbers in table, JSON and CSV of ``price``, ``breakdown`` and
``explain``; what is refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest
from swept import swept

pytestmark = pytest.mark.usefixtures("datasheet")

ON = ("-f", "star512", "-n", "16", "-M", "64MB")


def test_every_row_has_it_in_json_and_csv(run: Callable[..., Any]) -> None:
    document = run("price", "ar", *ON, "--slow-rank", "80%", "--format", "json").json
    rows = {one["spec"]: one for one in document["results"]}
    slow = rows["ring"]["slow_rank"]
    bandwidth, total = rows["ring"]["bandwidth_s"], rows["ring"]["total_s"]
    wanted = total + bandwidth / 4
    numbers = {"total_s": pytest.approx(wanted), "slowdown": pytest.approx(wanted / total)}
    assert slow == {"share": 0.8, "rank": None, "reason": ""} | numbers
    table = list(
        csv.DictReader(
            io.StringIO(run("price", "ar", *ON, "--slow-rank", "0.8", "--format", "csv").out)
        )
    )
    assert {one["spec"]: float(one["slow_total_s"]) for one in table} == {
        spec: one["slow_rank"]["total_s"] for spec, one in rows.items()
    }


def test_without_it_nothing_speaks_of_it(run: Callable[..., Any]) -> None:
    assert all(
        "slow_rank" not in one
        for one in run("price", "ar", *ON, "--format", "json").json["results"]
    )
    assert "slow" not in run("price", "ar", *ON).out


def test_the_table_says_what_leads_then(run: Callable[..., Any]) -> None:
    """A tree with a c of 1 is ahead of the ring by less than what is left of its other port."""
    out = run(
        "price", "bc", "-f", "star512", "-n", "16", "-M", "1KB", "--slow-rank", "0.001", "--all"
    ).out
    document = run(
        "price",
        "bc",
        "-f",
        "star512",
        "-n",
        "16",
        "-M",
        "1KB",
        "--slow-rank",
        "0.001",
        "--format",
        "json",
    ).json
    leads = [one for one in document["results"] if one["leads"]]
    fastest = min(leads, key=lambda one: one["slow_rank"]["total_s"])
    assert f"the fastest is then {fastest['algorithm']}" in out
    assert "at 0.001 of their bandwidth" in out


def test_breakdown_and_explain_say_the_same(run: Callable[..., Any]) -> None:
    args = ("-f", "dgx-h100", "-n", "64", "-M", "64MB", "--slow-rank", "0.5")
    row = run("price", "ar", *args, "-a", "multi-rail-ring", "--format", "json").json["results"][0][
        "slow_rank"
    ]
    broken = run("breakdown", "ar", *args, "-a", "multi-rail-ring", "--format", "json").json
    told = run("explain", "multi-rail-ring", "ar", *args, "--format", "json").json["primitives"][0][
        "result"
    ]
    assert broken["results"][0]["slow_rank"] == told["slow_rank"] == row
    assert all("slow_rank" in one for one in broken["baselines"])
    for text in (
        run("breakdown", "ar", *args).out,
        run("explain", "multi-rail-ring", "ar", *args).out,
    ):
        assert "with one rank at 0.5 of its bandwidth" in text


def test_a_row_that_is_too_large_says_so(run: Callable[..., Any]) -> None:
    args = (
        "price",
        "ar",
        "-f",
        "nvl72",
        "-n",
        "2304",
        "-M",
        "1MB",
        "--slow-rank",
        "0.8",
        "-a",
        "tree",
    )
    assert run(*args, "--format", "json").json["results"][0]["slow_rank"]["total_s"] is None
    assert "not known, 2304 ranks are too many to execute tree: tree" in run(*args).out


@swept(
    ("args", "why"),
    [
        (("price", "ar", "-f", "star512", "--slow-rank", "0.8"), "needs a size"),
        (("price", "ar", *ON, "--slow-rank", "0"), "not a share above 0 up to 1"),
        (
            ("price", "ar", *ON, "--slow-rank", "120%"),
            "not a share above 0 up to 1\n  write 80% or 0.8",
        ),
        (
            ("price", "ar", *ON, "--slow-rank", "3"),
            "not a share above 0 up to 1\n  write 80% or 0.8",
        ),
        (("explain", "ring", "ar", "--slow-rank", "0.8"), "needs a fabric"),
    ],
)
def test_what_makes_no_slow_rank_is_refused(
    run: Callable[..., Any], args: tuple[str, ...], why: str
) -> None:
    found = run(*args)
    assert found.code == 2
    assert found.out == ""
    assert why in found.err
