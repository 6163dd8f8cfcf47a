"""What ``fabric check`` warns of, and what it leaves alone."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from swept import swept

from colltool.fabric.lint import check_fabric
from colltool.fabric.load import shipped_fabrics

GOOD = """\
name: two-tiers
tiers:
  - {name: nvlink, topology: star, size: 8, alpha: 1us, bandwidth: 450GB/s, in_network: {reduce: true, alpha_switch: 0.2us}}
  - name: ib
    topology: clos
    size: 32
    bandwidth: 400Gbps
    levels:
      - {name: leaf, group: 8, alpha: 2us}
      - {name: spine, group: 32, alpha: 8us, oversubscription: 2}
"""


def warnings(text: str, folder: Path) -> list[str]:
    """Each warning as the text that stands at its place, its key path and what it says."""
    (folder / "f.yaml").write_text(text)
    found = []
    for one in check_fabric(folder / "f.yaml").warnings:
        place, _, path = one.where.removeprefix(f"{folder}/").partition(": ")
        _, line, column = place.split(":")
        there = re.split(r"[,}\n]", text.split("\n")[int(line) - 1][int(column) - 1 :])[0]
        found.append(f"{there} at {path}: {one.what}")
    return found


@swept("name", shipped_fabrics())
def test_shipped_fabrics_are_plausible(name: str) -> None:
    checked = check_fabric(name)
    assert (checked.file, checked.fabric.name, checked.warnings) == (name, name, ())


@swept(
    ("old", "new", "expected"),
    [
        ("450GB/s", "450GB/s", []),
        (
            "450GB/s",
            "900Gb/s",
            ["900Gb/s at tiers.0.bandwidth: 900Gb/s is in bits, an eighth of as many bytes"],
        ),
        ("450GB/s", "5GB/s", ["5GB/s at tiers.0.bandwidth: 5 GB/s is below 8 GB/s"]),
        ("400Gbps", "962TB/s", ["962TB/s at tiers.1.bandwidth: 962 TB/s is above 450 GB/s"]),
        ("alpha: 1us", "alpha: 4ms", ["4ms at tiers.0.alpha: 4 ms is above 200 us"]),
        (
            "alpha: 8us",
            "alpha: 1us",
            ["1us at tiers.1.levels.1.alpha: alpha falls from 2 us on 'leaf' to 1 us"],
        ),
        (
            "alpha_switch: 0.2us}",
            "alpha_switch: 0.2us, levels: 8}",
            ["8 at tiers.0.in_network.levels: reduces in 8 levels of switches, the tier has 1"],
        ),
        ("alpha_switch: 0.2us}", "alpha_switch: 0.2us, levels: 1}", []),
        (
            "alpha_switch: 0.2us",
            "alpha_switch: 0.2ms",
            ["0.2ms at tiers.0.in_network.alpha_switch: 200 us is above 100 us"],
        ),
        ("oversubscription: 2", "oversubscription: {uplinks: 2}", []),
        (
            "alpha: 2us",
            "alpha: 0.5us",
            ["name: ib at tiers.1.alpha: alpha 500 ns is below the 1 us of 'nvlink' within"],
        ),
        (
            "450GB/s",
            "40GB/s",
            ["400Gbps at tiers.1.bandwidth: 50 GB/s is above the 40 GB/s of 'nvlink' within"],
        ),
        ("group: 8", "group: 1", ["1 at tiers.1.levels.0.group: one endpoint to a 'leaf'"]),
        (
            "size: 32\n",
            "size: 25\n",
            ["8 at tiers.1.levels.0.group: 25 endpoints leave one alone on the last 'leaf' of 8"],
        ),
        ("    size: 32\n", "    size: 32\n    eta: {beta: 0.8}\n", []),
        ("400Gbps", "200Gbps\n    eta: {beta: 0.8}", []),
        ("400Gbps", "46GB/s", []),
        (
            "400Gbps",
            "46GB/s\n    eta: {beta: 0.8}",
            [
                "46GB/s at tiers.1.bandwidth: no port is sold at 46 GB/s, 368 Gb/s, and eta.beta"
                " 0.8 comes on top"
            ],
        ),
        (
            "oversubscription: 2}",
            (
                "oversubscription: 2}\n      - {name: core, group: 64, alpha: 9us,"
                " oversubscription: 1}"
            ),
            [
                "1 at tiers.1.levels.2.oversubscription: oversubscription falls from 2 on 'spine'"
                " to 1"
            ],
        ),
        (
            "    levels:",
            "    sizing: {rails: 8, nics_per_rail: 1, radix: 64}\n    levels:",
            [
                "{rails: 8 at tiers.1.sizing: a leaf of 64 ports has room for 42 endpoints, the"
                " level 'leaf' has 8"
            ],
        ),
        (
            "tiers:",
            "prices: {currency: USD, power: 10/kWh}\ntiers:",
            ["10/kWh at prices.power: 10 USD for a kWh"],
        ),
        (
            "oversubscription: 2",
            "oversubscription: 40",
            ["40 at tiers.1.levels.1.oversubscription: 40 is above 16"],
        ),
        (
            "    size: 32\n",
            "    size: 32\n    eta: {beta: 0.01}\n",
            ["0.01 at tiers.1.eta.beta: 0.01 is below 0.1"],
        ),
        ("tiers:", "launch_overhead: 1s\ntiers:", ["1s at launch_overhead: 1 s is above 1 ms"]),
    ],
)
def test_what_is_hardly_meant(old: str, new: str, expected: list[str], tmp_path: Path) -> None:
    assert old in GOOD
    assert warnings(GOOD.replace(old, new, 1), tmp_path) == expected


def test_a_lone_switch_may_be_a_network(tmp_path: Path) -> None:
    lone = (
        "name: x\ntiers:\n  - {name: eth, topology: star, size: 8, alpha: 5us, bandwidth: RATE}\n"
    )
    for rate in ("10Gbps", "400Gb/s", "1.6Tbps", "900GB/s"):
        assert warnings(lone.replace("RATE", rate), tmp_path) == []
    assert len(warnings(lone.replace("RATE", "900Gbps"), tmp_path)) == 1


def test_every_warning_has_its_reason() -> None:
    text = (
        GOOD.replace("1us", "4ms").replace("450GB/s", "900Gb/s").replace("alpha: 8us", "alpha: 1us")
    )
    found = check_fabric({"name": "x", "tiers": []} | yaml.safe_load(text)).warnings
    assert len(found) >= 3
    assert all(one.why for one in found)
