"""Which machine a log is of: by its devices' names as drivers and tools print them, by what runs on
it, or by asking; and what follows where the fabric is of other hardware."""

from __future__ import annotations

import re
from pathlib import Path

import machine_logs
import pytest
from machine_logs import LARGE, time_on
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.fabric.bundled_for import bundled_for
from tests.commands.conftest import run as run_cli

# names by NVML, ROCm and PCI, as nvidia-smi, rocm-smi, lspci and nccl-tests print them
DRIVER_NAMES = [
    ("NVIDIA GB10", "dgx-spark"),
    ("NVIDIA GeForce RTX 4090", "l40s-pcie"),
    ("NVIDIA GeForce RTX 3090 Ti", "l40s-pcie"),
    ("NVIDIA RTX 6000 Ada Generation", "l40s-pcie"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-pcie"),
    ("NVIDIA GeForce GTX 1080 Ti", "l40s-pcie"),
    ("Quadro RTX 8000", "l40s-pcie"),
    ("NVIDIA L20", "l40s-pcie"),
    ("NVIDIA L4", "l40s-pcie"),
    ("NVIDIA A10G", "l40s-pcie"),
    ("NVIDIA A800-SXM4-80GB", "hgx-a800"),
    ("NVIDIA H800", "hgx-h800"),
    ("NVIDIA H20", "hgx-h20"),
    ("GRID A100X-40C", "dgx-a100"),
    ("NVIDIA GH200 144G HBM3e", "gh200"),
    ("NVIDIA H200 NVL", "a100-pcie"),
    ("AMD Instinct MI300X VF", "mi300x"),
    ("AMD Instinct MI308X", "mi300x"),
    ("gfx942:sramecc+:xnack-", "mi300x"),
    ("gfx950", "mi355x"),
    ("AMD Radeon PRO W7900", "l40s-pcie"),
    ("10de:2330", "dgx-h100"),
    ("10de:20b2", "dgx-a100"),
    ("1002:74a1", "mi300x"),
]


@swept(("device", "fabric"), DRIVER_NAMES)
def test_a_name_as_a_driver_gives_it(device: str, fabric: str) -> None:
    found = bundled_for(device)
    assert found is not None
    assert found.fabric == fabric


@swept("device", ["NVIDIA Graphics Device", "Device 2901", "10de:22a3", "x"])
def test_a_name_that_tells_nothing(device: str) -> None:
    assert bundled_for(device) is None


def nameless(folder: Path, fabric: str, ranks: int, *set_: str, only: str = "") -> Path:
    """A log of a machine that names none of its devices."""
    ways = {"ar": only} if only else None
    path = machine_logs.log(
        folder / "a.log", time_on(fabric, ranks, set_, ways), ("ar",), LARGE, ranks=ranks
    )
    kept = [line for line in path.read_text().splitlines() if not line.startswith("#  Rank")]
    text = "\n".join(["# nccl-tests version 2.17.1 nccl-library=22803", *kept])
    path.write_text(text.replace("nThread 1", "nThread 1", 1))
    return path


BESIDE = [
    "GPU 0: NVIDIA H200 (UUID: GPU-00000000-1111-2222-3333-444444444444)",
    "node0: GPU 7: NVIDIA H200 (UUID: GPU-00000000-1111-2222-3333-444444444444)",
    "1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2335] (rev a1)",
]


@swept("line", BESIDE)
def test_what_other_tools_print_beside_it(line: str, tmp_path: Path) -> None:
    path = nameless(tmp_path, "hgx-h200", 8)
    switch = "05:00.0 Bridge [0680]: NVIDIA Corporation GH100 [10de:22a3] (rev a1)"
    path.write_text(f"{switch}\n{line}\n{path.read_text()}")
    found = colltool.doctor(path)
    assert found.assumed.fabric == "hgx-h200"
    assert not found.assumed.guessed


# NICs that several generations of machines have, by what a rank gets of them
SHARED = [
    ("dgx-a100", "ib.bandwidth=25GB/s"),
    ("dgx-h100", "ib.bandwidth=25GB/s"),
    ("hgx-h200", "roce.bandwidth=25GB/s"),
    ("dgx-b200", "ib.bandwidth=25GB/s"),
]


@pytest.mark.parametrize(("fabric", "rate"), SHARED)
def test_machines_of_several_generations_are_asked_for(
    fabric: str, rate: str, tmp_path: Path
) -> None:
    path = nameless(tmp_path, fabric, 32, rate, only="multi-rail-ring")
    done = run_cli("doctor", str(path), "-n", "32")
    assert (done.code, done.out) == (2, "")
    assert "which GPUs ran this?" in done.err
    assert "-f " in done.err
    assert fabric in done.err
    assert not re.search("mi3|healthy", done.err, re.IGNORECASE), "NCCL runs on none of AMD's"


@pytest.mark.parametrize("device", ["NVIDIA Graphics Device", "NVIDIA Neue Karte"])
def test_an_unknown_device_is_asked_for_with_what_would_fit(device: str, tmp_path: Path) -> None:
    path = machine_logs.log(tmp_path / "a.log", time_on(), ("ar",), LARGE, device=device)
    with pytest.raises(ColltoolError) as error:
        colltool.doctor(path)
    assert device in error.value.what
    assert "would fit the times: dgx-h100" in error.value.what


def test_one_generation_is_a_condition(tmp_path: Path) -> None:
    found = colltool.doctor(nameless(tmp_path, "dgx-h100", 8), ranks=8)
    assert found.summary().startswith("If this is dgx-h100 or hgx-h200, it is healthy")


@pytest.mark.ci
def test_what_is_too_slow_for_all_says_what_it_was_held_to(tmp_path: Path) -> None:
    path = nameless(tmp_path, "dgx-a100", 16, "ib.bandwidth=1GB/s", only="multi-rail-ring")
    found = colltool.doctor(path, ranks=16)
    assert not found.ok
    assert found.summary().startswith("Slow, assuming dgx-a100")
    assert "the logs name no GPUs" in found.summary()


# --- hosts of cards


def cards(folder: Path, hosts: int, device: str, seconds: float, *lines: str) -> Path:
    """All-reduces of 1 GiB at most on hosts of one card each, in proportion to their size."""
    head = [
        f"#  Rank {at:2d} Group  0 Pid {70 + at} on node{at} device  0 [0000:1b:00] {device}"
        for at in range(hosts)
    ]
    rows = []
    for size in LARGE:
        us = seconds * size / 2**30 * 1e6
        half = (
            f"  {us:.2f}  {size / us / 1e3:.2f}  {size / us / 1e3 * 2 * (hosts - 1) / hosts:.2f}  0"
        )
        rows.append(f"{size:.0f}  {size / 4:.0f}  float  sum  -1{half}{half}")
    path = folder / "cards.log"
    path.write_text("\n".join([*head, *lines, machine_logs.NAMES, *rows, ""]))
    return path


@swept("hosts", [2, 3, 4])
@swept("given", [None, "dgx-spark"])
def test_sparks_are_hosts_of_one_device(hosts: int, given: str | None, tmp_path: Path) -> None:
    path = cards(tmp_path, hosts, "NVIDIA GB10", 2 * (hosts - 1) / hosts * 2**30 / 23e9)
    if given and hosts > 2:
        with pytest.raises(ColltoolError, match="dgx-spark"):
            colltool.doctor(path, given)
        return
    found = colltool.doctor(path, given)
    assert found.ok
    assert found.assumed.fabric == "dgx-spark"
    if hosts == 2:
        assert colltool.validate("dgx-spark", path).series[0].mape < 0.15


@swept("device", ["NVIDIA L40S", "NVIDIA GeForce RTX 4090", "Tesla T4"])
@swept(
    ("line", "tier"),
    [
        ("n0:1:1 [0] NCCL INFO Using network IB", "ib"),
        ("n0:1:1 [0] NCCL INFO Using network Socket", "tcp"),
        ("n0:1:1 [0] NCCL INFO Using network AWS Libfabric", "efa"),
        ("", "ib"),
    ],
)
def test_hosts_of_cards_meet_on_a_network(
    device: str, line: str, tier: str, tmp_path: Path
) -> None:
    found = colltool.doctor(cards(tmp_path, 2, device, 2**30 / 9e9, line))
    assert found.assumed.fabric == "l40s-pcie"
    assert {health.wire for health in found.series} == {tier}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "n0:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",
            "P2P between the cards works",
        ),
        (
            "n0:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
            "P2P between the cards is off",
        ),
    ],
)
def test_whether_cards_reach_each_other_is_read(line: str, said: str, tmp_path: Path) -> None:
    path = machine_logs.log(
        tmp_path / "a.log",
        time_on("l40s-pcie", set_=[f"library.p2p={str('P2P/' in line).lower()}"]),
        ("ar",),
        LARGE,
        device="NVIDIA L40S",
    )
    path.write_text(f"{line}\n{path.read_text()}")
    found = colltool.doctor(path)
    assert found.ok
    assert any(said in str(line) for line in found.assumed.said)


# --- other hardware

OTHERS = [
    ("dgx-h100", "NVIDIA H100 80GB HBM3", "nvl72"),
    ("dgx-a100", "NVIDIA A100-SXM4-80GB", "dgx-h100"),
    ("dgx-b200", "NVIDIA B200", "dgx-a100"),
    ("dgx-a100", "NVIDIA A100-SXM4-80GB", "l40s-pcie"),
    ("mi300x", "AMD Instinct MI300X", "dgx-h100"),
]


@swept(("ran", "device", "fabric"), OTHERS)
def test_a_log_of_other_hardware_fits_nothing_in_silence(
    ran: str, device: str, fabric: str, tmp_path: Path
) -> None:
    path = machine_logs.log(tmp_path / "a.log", time_on(ran), ("ar",), LARGE, device=device)
    with pytest.raises(ColltoolError, match=f"the logs are of {device}, {fabric} is a machine"):
        colltool.calibrate(fabric, path)
    for found in (colltool.validate(fabric, path), colltool.doctor(path, fabric)):
        assert found.summary().startswith(f"The logs are of {device}, ")


@pytest.mark.parametrize("fabric", ["dgx-h100", "hgx-h200", "star512"])
def test_a_log_of_the_same_generation_fits(fabric: str, tmp_path: Path) -> None:
    path = machine_logs.log(tmp_path / "a.log", time_on(), ("ar",), LARGE)
    assert colltool.calibrate(fabric, path).series
    assert not colltool.validate(fabric, path).other_hardware


# --- causes


@pytest.mark.alike(2)
@pytest.mark.parametrize("fabric", ["dgx-h100", "dgx-a100", "hgx-h200", "dgx-b200"])
@pytest.mark.parametrize("hosts", [4, 8])
@pytest.mark.parametrize("share", [0.5, 0.25])
def test_a_part_of_the_nics_rate_is_no_setting(
    fabric: str, hosts: int, share: float, tmp_path: Path
) -> None:
    """Half of the rate is NICs, rails or the network, and a protocol that fits worse follows."""
    loaded = colltool.load_fabric(fabric)
    rate = loaded.tiers[-1].bandwidth * share / 1e9
    time = time_on(fabric, 8 * hosts, [f"{loaded.tiers[-1].name}.bandwidth={rate}GB/s"])
    path = machine_logs.log(tmp_path / "a.log", time, ranks=8 * hosts)
    (finding, *_) = colltool.doctor(path, fabric).findings
    assert finding.causes[0].name in ("network", "rails")


def test_a_network_of_sockets_lacks_no_rdma(tmp_path: Path) -> None:
    time = time_on("sockets", 16, ["tcp.bandwidth=0.4GB/s"])
    path = cards(tmp_path, 16, machine_logs.H100, time("ar", 2.0**30))
    found = colltool.doctor(path, "sockets")
    names = {cause.name for finding in found.findings for cause in finding.causes}
    assert "network" in names
    assert not names & {"sockets", "gpudirect"}


@pytest.mark.parametrize(
    "line", ["Using network Socket", "NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'"]
)
def test_what_a_log_states_of_sockets_is_no_cause_on_sockets(line: str, tmp_path: Path) -> None:
    time = time_on("sockets", 16, ["tcp.bandwidth=0.4GB/s"])
    stated = f"n0:1:1 [0] NCCL INFO {line}"
    path = cards(tmp_path, 16, machine_logs.H100, time("ar", 2.0**30), stated)
    found = colltool.doctor(path, "sockets")
    names = {cause.name for finding in found.findings for cause in finding.causes}
    assert not names & {"sockets", "gpudirect"}
    assert found.summary().startswith("Slow: ")


def test_what_is_too_fast_is_said_beside_what_is_slow(tmp_path: Path) -> None:
    """Small messages of another machine may be slow where its large ones are faster than can be."""

    def seconds(primitive: str, size: float) -> float:
        return 4 * usual(primitive, size) if size < 2**20 else usual(primitive, size) / 2

    usual = time_on()
    path = machine_logs.log(tmp_path / "a.log", seconds)
    found = colltool.doctor(path, "dgx-h100")
    assert not found.ok
    assert "is 2 times faster than dgx-h100 allows, so another machine ran it" in found.summary()
