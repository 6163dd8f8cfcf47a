"""``cable`` and ``energy`` through the commands: shown, explained, and columns only where the
fabric has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("datasheet")

SETS = ("--set", "ib.cable=100m", "--set", "ib.energy=100pJ/bit")


def test_fabric_show_and_explain(run: Callable[..., Any], tmp_path: Any) -> None:
    shown = run("fabric", "show", "nvl72", *SETS)
    assert "spine alpha 8.5 us, 500 ns of it in 100 m of cable" in " ".join(shown.out.split())
    assert "100 pJ/bit" in shown.out
    tier = run("fabric", "show", "nvl72", *SETS, "--format", "json").json["fabric"]["tiers"][1]
    assert (tier["cable"], tier["energy"]) == (100, pytest.approx(100e-12))
    said = run("explain", "ring", "ar", "-f", "nvl72", "-n", "144", "-M", "16MB", *SETS)
    assert "alpha of ib leaf: 500 ns of it are 100 m of cable, before eta" in said.out
    document = run(
        "explain", "ring", "ar", "-f", "nvl72", "-n", "144", "-M", "16MB", *SETS, "--format", "json"
    ).json
    assert document["cables"] == [
        {"tier": "ib", "level": "leaf", "metres": 100, "adds_s": pytest.approx(5e-7)}
    ]
    file = tmp_path / "far.yaml"
    net = (
        "{name: net, topology: star, size: 4, alpha: 1us, bandwidth: 50GB/s, cable: 2km, energy:"
        " 30pJ/bit}"
    )
    file.write_text(f"schema: colltool.fabric/1\nname: far\ntiers:\n  - {net}\n")
    assert (
        "net: star of 4, alpha 1 us, cable 2 km, 50 GB/s, eta 1/1, 30 pJ/bit"
        in run("fabric", "check", str(file)).out
    )


@pytest.mark.parametrize("command", ["price", "breakdown"])
def test_a_column_where_the_fabric_has_an_energy(run: Callable[..., Any], command: str) -> None:
    asked = (command, "ar", "-f", "nvl72", "-n", "144", "-M", "16MB")
    plain, metered = (
        run(*asked, "--format", "json").json,
        run(*asked, *SETS, "--format", "json").json,
    )
    assert "energy_J" not in plain["results"][0]
    assert "energy_J" not in plain["results"][0]["phases"][0]
    row = metered["results"][0]
    assert row["energy_J"] == pytest.approx(
        sum(phase.get("energy_J", 0) for phase in row["phases"])
    )
    assert [("energy_J" in phase) for phase in row["phases"]] == [
        phase["tier"] == "ib" for phase in row["phases"]
    ]
    assert "energy" not in run(*asked).out
    assert "energy" in run(*asked, *SETS).out
    assert "energy_J" in run(*asked, *SETS, "--format", "csv").out.splitlines()[0]


def test_an_array_of_sizes_has_an_energy_each(run: Callable[..., Any]) -> None:
    listed = run(
        "price",
        "ar",
        "-f",
        "nvl72",
        "-n",
        "144",
        "-M",
        "1MB,2MB",
        *SETS,
        "--format",
        "json",
        "--algorithm",
        "ring",
    ).json
    one, two = (entry["results"][0]["energy_J"] for entry in listed["sizes"])
    assert two == pytest.approx(2 * one)
