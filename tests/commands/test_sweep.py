"""``colltool sweep``: what it refuses, and what a script takes from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from swept import swept


def test_bad_input(run: Any) -> None:
    for args, words in (
        (("--vary", "ib.bandwith=1GB/s,2GB/s"), "did you mean 'bandwidth'"),
        (("--vary", "nothing=1,2"), "--vary nothing=1: unknown key 'nothing'"),
        (("--vary", "name=a,b"), "name changes nothing that is priced"),
        (("--set", "nothing=1"), "--set nothing=1: unknown key 'nothing'"),
        (("--vary", "ib.eta.beta=0.5,1.5"), "expected a number from 0.000001 to 1"),
        (
            ("-n", "8,64", "--vary", "ib.bandwidth=1GB/s:9GB/s:100", "--limit", "1000"),
            "1200 cells, more than 1000",
        ),
        (("--pivot", "busbw", "--rows", "ranges"), "no axis is called 'ranges'"),
        (("--pivot", "busbw", "--rows", "bytes", "--cols", "bytes"), "are the rows already"),
    ):
        refused = run("sweep", "ar", "-f", "nvl72", *args)
        assert (refused.code, refused.out) == (2, "")
        assert words in refused.err, refused.err


def test_the_document(run: Any) -> None:
    document = json.loads(
        run(
            "sweep", "ar", "-f", "dgx-h100,nvl72", "-n", "64", "-M", "1MB,1GB", "--format", "json"
        ).out
    )
    assert document["axes"] == {
        "fabric": ["dgx-h100", "nvl72"],
        "ranks": [64],
        "bytes": [1000000, 1000000000],
    }
    assert [(cell["fabric"], cell["bytes"]) for cell in document["cells"]] == [
        (name, size) for name in ("dgx-h100", "nvl72") for size in (1000000, 1000000000)
    ]
    shown = run(
        "sweep", "ar", "-f", "dgx-h100", "-n", "8,64", "-M", "1MB,1GB", "--pivot", "algorithm"
    ).out
    assert "\n\nalgorithm of all-reduce on dgx-h100, NCCL, with contention\n" in shown
    assert "Where the algorithm changes" in shown


def test_several_fabrics_under_numbers_that_may_be_off(run: Any) -> None:
    asked = (
        "sensitivity",
        "ar",
        "-f",
        "dgx-h100,hgx-h200",
        "-n",
        "64",
        "-M",
        "256MB",
        "--samples",
        "200",
    )
    table, document, csv = (run(*asked, "--format", form) for form in ("table", "json", "csv"))
    assert (table.code, document.code, csv.code) == (0, 0, 0)
    held = json.loads(document.out)
    assert held["schema"] == "colltool.sensitivity-compare/1"
    share = held["rows"][1]["faster"]
    assert f"hgx-h200 is faster than dgx-h100 in {100 * share:.1f}% of the samples" in table.out
    assert csv.out.splitlines()[2].startswith("hgx-h200,")
    assert run(*asked).out == table.out
    refused = run(*asked, "--plot", "x.svg")
    assert (refused.code, refused.out) == (2, "")
    assert "draws one fabric" in refused.err


@pytest.mark.parametrize("typed", ["-8", "8-"])
def test_what_is_no_range_is_no_number(run: Any, typed: str) -> None:
    done = run("sweep", "ar", "-f", "dgx-h100", "-M", "1MB", f"--ranks={typed}")
    assert (done.code, done.out) == (2, "")
    assert "range" not in done.err


@swept(
    ("text", "counts"),
    [
        ("8-64", [8, 16, 32, 64]),
        ("8:64", [8, 16, 32, 64]),
        ("8-72", [8, 16, 32, 64, 72]),
        ("8-32+8", [8, 16, 24, 32]),
        ("8-32/8", [8, 16, 24, 32]),
        ("8-512x8", [8, 64, 512]),
        ("16,8-32", [16, 8, 32]),
    ],
)
def test_ranges_of_ranks(text: str, counts: list[int], run: Any) -> None:
    asked = ("sweep", "ar", "-f", "star512", "-M", "1MB", "-n", text, "--format", "json")
    assert list(dict.fromkeys(cell["ranks"] for cell in run(*asked).json["cells"])) == counts


@swept("text", ["64-8", "8-8", "0-8", "8-9999999999", "8-64+0", "8-64x1", "1-1000000000+1"])
def test_what_is_no_range_of_ranks(text: str, run: Any) -> None:
    done = run("sweep", "ar", "-f", "star512", "-M", "1MB", "-n", text)
    assert (done.code, done.out) == (2, "")
    assert f"--ranks: '{text}' is not a range of numbers" in done.err
    assert "-n 8-64 for 8,16,32,64, or -n 8-64+8 for steps of 8" in done.err


@swept(
    ("args", "what", "fix"),
    [
        (
            ("plan", "llama3-70b", "--set", "layout.tp=4"),
            "--set: layout belongs to the job",
            "write --job-set layout.tp=4",
        ),
        (
            ("plan", "llama3-70b", "--job-set", "ib.size=64"),
            "--job-set: ib belongs to the fabric",
            "write --set ib.size=64",
        ),
        (
            ("sweep", "ar", "--set", "layout.tp=4"),
            "--set: layout belongs to the job",
            "colltool plan and report take --job-set layout.tp=4",
        ),
    ],
)
def test_values_of_jobs_and_fabrics_name_each_other_s_option(
    args: tuple[str, ...], what: str, fix: str, run: Any
) -> None:
    done = run(*args, "-f", "dgx-h100")
    assert (done.code, done.out) == (2, "")
    assert what in done.err
    assert fix in done.err
