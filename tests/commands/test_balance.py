"""n*, the size at which latency and bytes take the same time, through ``explain`` and
``crossover``."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from swept import swept

LINKS = [
    ("NVLink 4", 1.5, 450, 675e3),
    ("IB NDR", 2, 50, 100e3),
    ("IB HDR", 3.5, 25, 87.5e3),
    ("PCIe Gen5", 3.5, 64, 224e3),
    ("RoCE 100G", 7.5, 12.5, 93.75e3),
]
"""α in us, GB/s one way, α times bandwidth in bytes."""


def star_file(folder: Path, ranks: int, alpha_us: float, bw_GBs: float, more: str = "") -> str:
    file = folder / "one.yaml"
    tier = (
        f"{{name: net, topology: star, size: {ranks}, alpha: {alpha_us}us, bandwidth:"
        f" {bw_GBs}GB/s}}"
    )
    file.write_text(f"schema: colltool.fabric/1\nname: one\n{more}tiers:\n  - {tier}\n")
    return str(file)


@swept(("link", "alpha_us", "bw_GBs", "expect"), LINKS)
def test_a_message_on_a_link(
    run: Callable[..., Any],
    tmp_path: Path,
    link: str,
    alpha_us: float,
    bw_GBs: float,
    expect: float,
) -> None:
    file = star_file(tmp_path, 2, alpha_us, bw_GBs)
    found = run("crossover", "p2p", "-f", file, "--format", "json").json["winners"]
    assert found[0]["balance"] == pytest.approx(expect), link
    told = run("explain", "send", "-f", file, "-M", "1MB", "--format", "json").json["primitives"][0]
    assert told["balance"] == pytest.approx(expect), link


def test_a_double_binary_tree_of_512(run: Callable[..., Any]) -> None:
    """18 x 0.5 us x 900 GB/s / 2: 4050 KB."""
    asked = ("ar", "-f", "star512", "--ideal")
    told = run("explain", "double-binary-tree", *asked, "-M", "16MB", "--all")
    assert "latency = transfer at 4.05 MB; at 16MB transfer takes longer" in told.out
    assert (
        "at 1MB latency takes longer"
        in run("explain", "double-binary-tree", *asked, "-M", "1MB", "--all").out
    )
    document = run("crossover", *asked, "--format", "json").json
    assert document["balance"]["double-binary-tree"] == pytest.approx(4050e3)
    rows = csv.DictReader(run("crossover", *asked, "--format", "csv").out.splitlines())
    assert [float(row["balance_b"]) for row in rows if row["b"] == "double-binary-tree"] == [
        pytest.approx(4050e3)
    ]


def test_each_winner_has_its_own(run: Callable[..., Any]) -> None:
    """At n* the price is twice its bytes' time."""
    for one in run("crossover", "ag", "-f", "star512", "--ideal", "--format", "json").json[
        "winners"
    ]:
        price = run(
            "price",
            "ag",
            "-f",
            "star512",
            "--ideal",
            "-M",
            f"{one['balance']:.0f}",
            "--algorithm",
            one["spec"],
            "--format",
            "json",
        )
        row = price.json["results"][0]
        assert row["alpha_s"] == pytest.approx(row["bandwidth_s"], rel=1e-5)
    assert "bandwidth-bound above" in run("crossover", "ag", "-f", "star512", "--all").out


def test_a_launch_overhead_counts_as_latency(run: Callable[..., Any], tmp_path: Path) -> None:
    file = star_file(tmp_path, 2, 2, 50, "launch_overhead: 8us\n")
    assert (
        "latency with the launch = transfer at 500 KB"
        in run("explain", "send", "-f", file, "-M", "1MB", "--all").out
    )


def test_the_best_number_of_segments_has_none(run: Callable[..., Any]) -> None:
    """Its price has a root in it."""
    told = run(
        "explain",
        "double-binary-tree",
        "ar",
        "-f",
        "star512",
        "-M",
        "16MB",
        "--pipelining",
        "optimal",
    )
    assert told.code == 0
    assert "n* =" not in told.out
