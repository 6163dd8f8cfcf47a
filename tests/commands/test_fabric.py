"""``fabric init``, ``size``, ``check`` and ``show --format yaml`` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dumps import NVSWITCHES, nccl_topo, rails
from swept import swept

from colltool.fabric.load import load_fabric

pytestmark = pytest.mark.usefixtures("datasheet")


def test_a_file_of_ones_own(run: Any, folder: Path) -> None:
    done = run(
        "fabric", "init", "--from", "dgx-h100", "--set", "ib.size=16", "-o", "my.cluster.yaml"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    fabric = load_fabric(folder / "my.cluster.yaml")
    assert (fabric.name, fabric.ranks) == ("my-cluster", 128)
    checked = run("fabric", "check", "my.cluster.yaml")
    assert checked.code == 0
    assert "warning" not in checked.out
    assert "  ib spine: 128 endpoints, alpha 11 us, s 1\n" in checked.out
    again = run("fabric", "init", "--from", "my.cluster.yaml", "-o", "my.cluster.yaml")
    assert (again.code, again.err.splitlines()[0]) == (
        2,
        "error: --output: my.cluster.yaml is read by this command",
    )


def test_without_a_file_it_goes_to_the_terminal(run: Any, folder: Path) -> None:
    done = run("fabric", "init", "--tiers", "nvlink:star:8:450GB/s:0.8us,ib:clos:32:400Gbps:5us")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("# ")
    assert run("fabric", "init").out == run("fabric", "init", "-o", "-").out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--tiers", "x"), "error: --tiers: 'x' has no TOPOLOGY"),
        (("--from", "nvl27"), "did you mean 'nvl72'"),
        (("--from", "nvl72", "--tiers", "x"), "leave out --from or --tiers"),
        (("-o", "mine.json"), "name it mine.yaml"),
        (("--set", "ib.sise=4"), "did you mean 'size'"),
    ],
)
def test_what_starts_no_file(args: tuple[str, ...], words: str, run: Any, folder: Path) -> None:
    done = run("fabric", "init", *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert not list(folder.glob("mine*"))


@pytest.mark.usefixtures("whole_nodes_alone")
def test_a_file_from_a_real_machine(run: Any, folder: Path) -> None:
    (folder / "node.xml").write_text(nccl_topo(8, NVSWITCHES, device="0x2330"), encoding="utf-8")
    (folder / "net.txt").write_text(
        rails(nodes=8, per_leaf=4, ports=8, spines=4).text(), encoding="utf-8"
    )
    done = run(
        "fabric", "import", "nccl-topo", "node.xml", "ibnetdiscover", "net.txt", "-o", "mine.yaml"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    fabric = load_fabric(folder / "mine.yaml")
    assert (fabric.name, fabric.ranks) == ("mine", 64)
    assert run("fabric", "check", "mine.yaml").code == 0
    printed = run("fabric", "import", "nccl-topo", "node.xml").out
    assert printed == run("fabric", "import", "nccl-topo", "node.xml", "-o", "-").out


@pytest.mark.usefixtures("whole_nodes_alone")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nccl", "node.xml"), "did you mean 'nccl-topo'"),
        (("nccl-topo",), "nccl-topo of which file"),
        (("nccl-topo", "nothing.xml"), "nothing.xml: cannot be read"),
        # before the file is searched, which takes seconds, or read at all
        (("nccl-topo", "nothing.xml", "--like", "dgx-h1000"), "did you mean 'dgx-h100'"),
        (("nccl-topo", "nothing.xml", "--nic", "fast"), "'fast' is no rate of a NIC"),
        (("ibnetdiscover", "node.xml"), "not the text of ibnetdiscover"),
        (("nccl-topo", "node.xml", "-o", "mine.json"), "name it mine.yaml"),
    ],
)
def test_what_is_not_imported(args: tuple[str, ...], words: str, run: Any, folder: Path) -> None:
    (folder / "node.xml").write_text(nccl_topo(8, NVSWITCHES, device="0x2330"), encoding="utf-8")
    done = run("fabric", "import", *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_show_as_yaml(run: Any, folder: Path) -> None:
    done = run("fabric", "show", "nvl72", "--set", "ib.size=16", "--format", "yaml")
    (folder / "shown.yaml").write_text(done.out, encoding="utf-8")
    assert load_fabric(folder / "shown.yaml") == load_fabric("nvl72", ["ib.size=16"])
    assert run("fabric", "show", "nvl72", "--set", "ib.size=16", "-o", "by-suffix.yaml").code == 0
    assert (folder / "by-suffix.yaml").read_text(encoding="utf-8") == done.out
    refused = run("fabric", "show", "nvl72", "--format", "yaml", "--columns", "tier")
    assert (refused.code, refused.err.splitlines()[0]) == (
        2,
        "error: --columns: a YAML file has no columns",
    )
    assert run("fabric", "show", "nvl72", "--format", "toml").code == 2
    assert run("fabric", "show", "nvl72", "-o", "x.toml").code == 2


def test_both_meanings_of_oversubscription_are_said(run: Any) -> None:
    sets = (
        "--set",
        "fabric.levels.spine.oversubscription=2",
        "--set",
        "fabric.levels.core.oversubscription={uplinks: 2}",
    )
    done = run("fabric", "show", "clos-4to1", *sets, "--all")
    assert "spine: 32 endpoints, alpha 8 us, s 2 of all endpoints below\n" in done.out
    assert (
        "core: 128 endpoints, alpha 14 us, s 4 of all endpoints below, {uplinks: 2} of the switches"
        " below\n" in done.out
    )


def test_size_with_prices_of_a_file(run: Any, folder: Path) -> None:
    (folder / "prices.yaml").write_text(
        "currency: EUR\nswitch: {price: 20000, draws: 1.5kW}\ncopper: [leaf]\n"
    )
    args = ("fabric", "size", "--endpoints", "2048", "--radix", "64", "--prices", "prices.yaml")
    done = run(*args, "--price", "nic=1000", "--format", "json").json
    assert done["bill"]["cost"] == {
        "currency": "EUR",
        "parts": 96 * 20000 + 2048 * 1000,
        "power_W": 96 * 1500,
        "energy_per_year": None,
        "years": None,
        "total": 96 * 20000 + 2048 * 1000,
        "unpriced": ["cable", "optic"],
    }
    assert [level["optics"] for level in done["levels"]] == [0, 4096]
    table = run(*args).out
    assert "parts 1,920,000 EUR, without NICs, cables, optics: no price given\n" in table
    assert "power 144 kW, without NICs, cables, optics: no watts given\n" in table
    watts = run(*args[:-2], "--price", "currency=USD", "--price", "switch.draws=1kW").out
    assert (
        "parts -: no price given\n  power 96 kW, without NICs, cables, optics: no watts given\n"
        in watts
    )
    (folder / "mine.yaml").write_text(
        run("fabric", "init").out.replace("# prices: ", "prices: "), encoding="utf-8"
    )
    whole = run(
        "fabric", "size", "--fat-tree", "4", "--prices", "mine.yaml", "--format", "json"
    ).json
    assert whole["bill"]["cost"]["parts"] == 20 * 30000 + 48 * 200 + 96 * 600 + 16 * 1500


@swept(
    ("args", "words"),
    [
        ((), "write --endpoints 2048 and --radix 64, or --fat-tree 64"),
        (("--fat-tree", "5"), "error: --fat-tree: a fat-tree needs an even number"),
        (("--fat-tree", "4", "--rails", "2"), "error: --rails: does not apply to a fat-tree"),
        (
            ("--endpoints", "4096", "--radix", "64", "--levels", "2"),
            "error: --levels: 4096 ports on one rail do not fit",
        ),
        (
            ("--endpoints", "64", "--radix", "64", "--price", "switch=3"),
            "key 'currency' is missing (with --price switch=3)",
        ),
        (("--endpoints", "64", "--radix", "64", "--price", "swich=3"), "did you mean 'switch'"),
        (("--endpoints", "x", "--radix", "64"), "error: --endpoints: 'x' is not a whole number"),
    ],
)
def test_what_cannot_be_sized(args: tuple[str, ...], words: str, run: Any) -> None:
    done = run("fabric", "size", *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


ODD = """\
name: odd
tiers:
  - {name: nvlink, topology: star, size: 8, alpha: 1us, bandwidth: 450GB/s}
  - name: ib
    topology: clos
    size: 33
    bandwidth: 46GB/s
    eta: {beta: 0.9}
    levels:
      - {name: leaf, group: 16, alpha: 0.5us}
      - {name: spine, group: 64, alpha: 8us, oversubscription: 2}
      - {name: core, group: 128, alpha: 9us, oversubscription: 1}
    sizing: {rails: 8, nics_per_rail: 1, radix: 64}
uncertainty: {ib.bandwidth: 10%}
prices: {currency: USD, switch: 20000, power: 10/kWh}
"""


def test_check_says_what_was_read_and_what_is_odd(run: Any, folder: Path) -> None:
    (folder / "odd.yaml").write_text(ODD)
    done = run("fabric", "check", "odd.yaml", "--all")
    for line in (
        "odd: 264 ranks, no launch overhead",
        (
            "ib core: 128 endpoints, alpha 9 us, s 1 of all endpoints below, {uplinks: 0.5} of the"
            " switches below"
        ),
        "ib sizing: 8 rails of 1 NICs an endpoint, switches of 64 ports",
        "uncertainty: ib.bandwidth 10%",
        "prices in USD: switch 20,000, power 10/kWh",
    ):
        assert f"  {line}\n" in done.out
    found = [
        line.split(": ", 3)[2:] for line in done.out.splitlines() if line.startswith("  warning: ")
    ]
    assert [path for path, _ in found] == [
        "tiers.1.alpha",
        "tiers.1.bandwidth",
        "tiers.1.levels.0.group",
        "tiers.1.levels.2.oversubscription",
        "tiers.1.sizing",
        "prices.power",
    ]
    assert "for one hop write {uplinks: 1}" in done.out


def test_a_tier_of_one_endpoint_is_shown(run: Any) -> None:
    """It has no links to cross, so no sigma."""
    done = run("fabric", "show", "dgx-h100", "--set", "nvlink.size=1")
    assert done.code == 0
    assert "nvlink: star of 1" in done.out


CLOUD = """\
<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel">
  <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
    <pci busid="0000:10:1c.0" class="0x030200" vendor="0x10de" device="0x20b0"/>
    <pci busid="0000:10:1b.0" class="0x020700" vendor="0x15b3" device="0x101e"/>
  </pci>
</cpu></system>
"""


def test_answers_say_what_their_fabric_assumes(run: Any, folder: Path) -> None:
    """In the title and in JSON; what is set for the call is no longer assumed."""
    (folder / "cloud.xml").write_text(CLOUD, encoding="utf-8")
    files = ("nccl-topo", "cloud.xml", "--like", "dgx-a100", "--nodes", "2")
    assert run("fabric", "import", *files, "-o", "made.yaml").code == 0
    assumed = load_fabric("made.yaml").assumed
    assert assumed[0].startswith("ib.bandwidth: NICs of 200 Gb/s, as usual for NVIDIA A100;")
    asked = ("price", "ar", "-f", "made.yaml", "-M", "1MB")
    text = " ".join(run(*asked).out.split())
    assert (
        f"(assumed: NICs of 200 Gb/s, as usual for NVIDIA A100, and {len(assumed) - 1} more)"
        in text
    )
    assert json.loads(run(*asked, "--format", "json").out)["fabric_assumed"] == list(assumed)
    stated = run(*asked, "--set", "ib.bandwidth=12.5GB/s", "--format", "json").out
    assert json.loads(stated)["fabric_assumed"] == list(assumed[1:])
    both = ("compare", "ar", "-f", "made.yaml", "-f", "dgx-a100", "-n", "2", "-M", "1MB")
    columns = json.loads(run(*both, "--format", "json").out)["columns"]
    assert [column.get("fabric_assumed") for column in columns] == [list(assumed), None]
    assert "made: NICs of 200 Gb/s" in run(*both, "--all").out
    shown = " ".join(run("fabric", "show", "made.yaml").out.split())
    assert f"assumed in the file: {assumed[0]}" in shown
    assert assumed[-1] in shown


def test_the_rate_of_a_nic_may_be_stated(run: Any, folder: Path) -> None:
    (folder / "cloud.xml").write_text(CLOUD, encoding="utf-8")
    files = ("nccl-topo", "cloud.xml", "--like", "dgx-a100", "--nodes", "2")
    made = run("fabric", "import", *files, "--nic", "100G").out
    assert "ib.bandwidth: 12.5GB/s" in made
    assert "no rate is given" not in made
    wrong = run("fabric", "import", *files, "--nic", "quick")
    assert wrong.code == 2
    assert "--nic: 'quick' is no rate of a NIC" in wrong.err
