"""``validate`` as typed: logs in, what it promises out, and exit codes 0, 1 and 2."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.render.dispatch import blocks
from colltool.render.text import Screen, to_text

FABRIC = """\
schema: colltool.fabric/1
name: eight
launch_overhead: 5us
tiers:
  - {name: port, topology: star, size: 8, alpha: 1us, bandwidth: 100GB/s}
"""
NCCL = """\
# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22803
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 8 minBytes 1048576 maxBytes 1073741824 step: 32(factor) warmup iters: 5 iters: 20 agg iters: 1
{ranks}
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    40.00   26.21   45.88       0    38.00   27.59   48.29       0
    33554432       8388608     float     sum      -1   700.00   47.93   83.89       0   700.00   47.93   83.89       0
  1073741824     268435456     float     sum      -1  20000.0   53.69   93.95       0  20000.0   53.69   93.95       0
"""
RANK = "#  Rank {:2} Group  0 Pid {} on   host{:02} device {:2} [0000:1b:00] NVIDIA H100 80GB HBM3"


def rank_lines(ranks: int, nodes: int) -> str:
    return "\n".join(
        RANK.format(rank, 100 + rank, rank * nodes // ranks, rank) for rank in range(ranks)
    )


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("eight.yaml").write_text(FABRIC)
    Path("ar.log").write_text(NCCL.format(ranks=rank_lines(8, 1)))
    Path("spread.log").write_text(NCCL.format(ranks=rank_lines(8, 2)))
    Path("both.csv").write_text(
        "collective,ranks,nodes,bytes,time_us\nar,8,1,1000000,36.5\nar,8,1,100000000,1769\nag,4,1,1000000,20\n"
    )


def test_json_keeps_what_it_promises(run: Callable[..., Any]) -> None:
    done = run("validate", "ar.log", "-f", "eight.yaml", "--format", "json")
    assert (done.code, done.err) == (0, "")
    document = done.json
    assert (document["schema"], document["fabric"], document["holds"]) == (
        "colltool.validate/1",
        "eight",
        True,
    )
    (one,) = document["series"]
    assert list(one)[:6] == ["collective", "ranks", "mape", "worst", "points", "findings"]
    assert (one["collective"], one["ranks"], one["nodes"], one["library"]) == (
        "all_reduce",
        8,
        1,
        "NCCL",
    )
    first = one["points"][0]
    assert list(first)[:6] == [
        "bytes",
        "measured_s",
        "predicted_s",
        "relative_error",
        "algorithm",
        "protocol",
    ]
    assert list(first)[6:8] == ["busbw_measured_Bps", "busbw_expected_Bps"]
    # the double binary tree: 5 us, six steps of 1 us, two megabytes and a bit at 100 GB/s
    predicted = 5e-6 + 6e-6 + 2 * 1048576 / 100e9
    assert (first["bytes"], first["measured_s"]) == (1048576, pytest.approx(40e-6))
    assert first["predicted_s"] == pytest.approx(predicted)
    assert first["relative_error"] == pytest.approx(predicted / 40e-6 - 1)
    assert first["algorithm"] == "double-binary-tree"
    assert document["mape"] == one["mape"]


def test_a_series_for_people(run: Callable[..., Any]) -> None:
    out = run("validate", "ar.log", "-f", "eight.yaml", "--all").out
    assert out.startswith("eight is 13% off on average over 3 sizes; ")
    assert "\nall-reduce, 8 ranks on 1 node (NCCL " in out
    assert "|  1 MiB |" in out
    assert "protocol" not in out
    assert (
        "findings:\n  reaches the busbw predicted for this fabric: 94 of 99.9 GB/s at 1 GiB, but"
        " only above 1 GiB: " in out
    )


def test_a_narrow_terminal_keeps_what_is_reached() -> None:
    text = to_text(blocks(colltool.validate("eight.yaml", "ar.log")), Screen(80), everything=False)
    assert re.search(r"\| +of \|.*\n.*\| expected \|", text)
    assert re.search(r"--all adds .*columns: ", text)


def test_times_that_no_hardware_takes_are_refused_where_they_stand(run: Callable[..., Any]) -> None:
    rows = [
        "collective,ranks,bytes,time_us",
        "ar,8,1000000,36.5",
        "ar,8,4000000,89",
        "ar,8,16000000,0.299",
        "",
    ]
    Path("slipped.csv").write_text("\n".join(rows).replace("0.299", "0.0299"))
    done = run("validate", "slipped.csv", "-f", "eight.yaml")
    assert (done.code, done.out) == (2, "")
    assert "slipped.csv:4: implausible times: 16 MB in 29.9 ns, 535 TB/s" in done.err
    assert "check the unit of the times in the logs" in done.err
    Path("slipped.csv").write_text("\n".join(rows))
    # 53 TB/s: a price to be compared with
    assert run("validate", "slipped.csv", "-f", "eight.yaml").code == 0


def test_errors_beyond_percents_are_in_times(run: Callable[..., Any]) -> None:
    Path("fast.csv").write_text(
        "collective,ranks,bytes,time_us\nar,8,1000000,0.1\nar,8,4000000,0.2\nar,8,16000000,0.4\n"
    )
    out = run("validate", "fast.csv", "-f", "eight.yaml", "-a", "ring").out
    # a ring takes 36.5, 89 and 299 us
    assert ": 518 times off on average, worst +746 times" in out
    assert "+364 times" in out
    assert out.startswith("eight is 518 times off on average")


def test_several_series_have_a_summary_and_one_table_in_csv(run: Callable[..., Any]) -> None:
    args = ("validate", "both.csv", "-f", "eight.yaml", "-a", "ring")
    out = run(*args).out
    assert "\nmeasured times, compared with the prices of eight\n" in out
    rows = list(csv.DictReader(io.StringIO(run(*args, "--format", "csv").out)))
    assert [(row["collective"], row["ranks"], row["bytes"]) for row in rows] == [
        ("all_reduce", "8", "1000000"),
        ("all_reduce", "8", "100000000"),
        ("all_gather", "4", "1000000"),
    ]
    assert float(rows[0]["relative_error"]) == pytest.approx(0, abs=1e-9)
    # 5 us, three steps, three quarters of a megabyte: 15.5 us
    assert float(rows[2]["relative_error"]) == pytest.approx(15.5 / 20 - 1)


def test_in_place_takes_the_other_half(run: Callable[..., Any]) -> None:
    document = run("validate", "ar.log", "-f", "eight.yaml", "--in-place", "--format", "json").json
    assert document["series"][0]["points"][0]["measured_s"] == pytest.approx(38e-6)


@pytest.mark.parametrize("limit", ["20%", "0.2"])
def test_a_limit_that_holds(run: Callable[..., Any], limit: str) -> None:
    assert run("validate", "ar.log", "-f", "eight.yaml", "--max-mape", limit).code == 0


def test_a_limit_that_does_not_hold_names_the_series_on_stderr(run: Callable[..., Any]) -> None:
    done = run("validate", "both.csv", "-f", "eight.yaml", "-a", "ring", "--max-mape", "15%")
    assert done.code == 1
    assert (
        done.err
        == "does not hold: all-gather, 4 ranks on 1 node: 22.5% off on average, more than 15%\n"
    )
    assert " ".join(done.out.split()).startswith(
        "eight is 7.5% off on average over 3 sizes; too few sizes to judge. The worst size is -22.5%"
    )


@swept("limit", ["0", "-5%", "nan", "inf", "15", "much", "15%%", ""])
def test_a_limit_that_is_none(run: Callable[..., Any], limit: str) -> None:
    done = run("validate", "ar.log", "-f", "eight.yaml", f"--max-mape={limit}")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: --max-mape: ")


def test_ranks_that_ran_elsewhere(run: Callable[..., Any]) -> None:
    done = run("validate", "spread.log", "-f", "eight.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(
        "error: spread.log:15: all-reduce, 8 ranks on 2 nodes: eight puts 8 ranks in each domain of"
        " port, "
    )
    done = run("validate", "ar.log", "-f", "eight.yaml", "--set", "port.size=4")
    assert "8 ranks do not fit: eight has 4\n  type --set port.size=8, or" in done.err


def test_what_ran_can_be_named(run: Callable[..., Any]) -> None:
    document = run(
        "validate", "ar.log", "-f", "eight.yaml", "--algorithm", "ring", "--format", "json"
    ).json
    assert {point["algorithm"] for point in document["series"][0]["points"]} == {"ring"}
    assert run("validate", "ar.log", "-f", "eight.yaml", "--algorithm", "rang").code == 2


def test_readings_change_the_price(run: Callable[..., Any]) -> None:
    args = (
        "validate",
        "ar.log",
        "-f",
        "eight.yaml",
        "--set",
        "port.eta.beta=0.5",
        "--format",
        "json",
    )
    real, ideal = (
        run(*args, *more).json["series"][0]["points"][2]["predicted_s"]
        for more in ((), ("--ideal",))
    )
    assert real / ideal == pytest.approx(2, rel=1e-2)


def test_a_plot_only_where_asked(run: Callable[..., Any]) -> None:
    pytest.importorskip("matplotlib")
    assert run("validate", "ar.log", "-f", "eight.yaml", "--plot", "seen.svg").code == 0
    assert Path("seen.svg").read_text().startswith("<?xml")
    done = run("validate", "ar.log", "-f", "eight.yaml", "--plot", "seen.txt")
    assert (done.code, done.out) == (2, "")


@swept("typed", ["1", "1.0"])
@swept(
    "args",
    [
        ("validate", "a.log", "-f", "dgx-h100", "--max-mape"),
        ("doctor", "a.log", "--expect"),
        ("price", "ar", "-f", "dgx-h100", "-M", "1MB", "--slow-rank"),
    ],
)
def test_a_bare_1_is_1_or_100_percent(run: Any, args: tuple[str, ...], typed: str) -> None:
    done = run(*args, typed)
    assert (done.code, done.out) == (2, "")
    assert f"error: {args[-1]}: '{typed}' is 1% or 100%\n  write 1% or 100%\n" in done.err
