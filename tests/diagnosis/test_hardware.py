"""From names of devices to a fabric: what is taken, what is assumed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from machine_logs import H100, LARGE, log, time_on
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.logs.hardware_in_log import LoggedHardware, logged_hardware

DEVICES = {
    H100: "dgx-h100",
    "NVIDIA H200": "hgx-h200",
    "NVIDIA A100-SXM4-80GB": "dgx-a100",
    "NVIDIA B200": "dgx-b200",
    "AMD Instinct MI300X": "mi300x",
    "NVIDIA H800": "hgx-h800",
    "NVIDIA H20": "hgx-h20",
    "NVIDIA A800-SXM4-80GB": "hgx-a800",
    "NVIDIA B300 SXM6 AC": "dgx-b300",
    "AMD Instinct MI355X": "mi355x",
}


@swept("device", DEVICES)
def test_a_device_names_its_fabric(device: str, tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", time_on(DEVICES[device]), ("ar",), LARGE, device=device)
    result = colltool.doctor(file)
    assert result.ok
    assert result.assumed.fabric == DEVICES[device]
    assert result.assumed.devices == (device,)
    assert any(
        "the bundled fabric nearest to these devices" in str(line) for line in result.assumed.said
    )


def test_hosts_of_four_and_more_hosts_than_the_fabric_has(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", time_on(ranks=16), ("ar",), LARGE, ranks=16)
    text = file.read_text()
    for rank in range(16):
        text = text.replace(
            f"Pid {70 + rank} on node{rank // 8} ", f"Pid {70 + rank} on n{rank // 4} "
        )
    file.write_text(text)
    result = colltool.doctor(file)
    assert dict(result.assumed.overrides) == {"nvlink.size": "4"}
    assert len(result.assumed.hosts) == 4
    assert any(
        "(ib) is assumed: the logs name no NICs" in str(line) for line in result.assumed.said
    )


@swept("device", ["NVIDIA Tesla P100", "AMD Instinct MI250X", "Intel Max 1550"])
def test_a_device_that_no_fabric_is_of(device: str, tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", time_on(), device=device)
    with pytest.raises(ColltoolError, match=f"no bundled fabric has {device}(.|\n)*fabric="):
        colltool.doctor(file)
    assert colltool.doctor(file, "dgx-h100").ok


@swept(
    ("device", "fabric"),
    [
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie"),
        ("Tesla T4", "l40s-pcie"),
        ("NVIDIA L40S", "l40s-pcie"),
    ],
)
def test_devices_of_the_nearest_class(device: str, fabric: str, tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", time_on(fabric, ranks=4), ("ar",), LARGE, ranks=4, device=device)
    assert colltool.doctor(file).assumed.fabric == fabric


def test_racks_of_72_run_as_64(tmp_path: Path) -> None:
    time = time_on("gb300-nvl72", ranks=128, set_=["nvlink.size=64"])
    text = log(
        tmp_path / "a.log", time, ("ar",), LARGE, ranks=128, device="NVIDIA GB300"
    ).read_text()
    for rank in range(128):
        text = text.replace(
            f"Pid {70 + rank} on node{rank // 8} ", f"Pid {70 + rank} on n{rank // 4} "
        )
    (tmp_path / "a.log").write_text(text)
    result = colltool.doctor(tmp_path / "a.log")
    assert dict(result.assumed.overrides) == {"nvlink.size": "64"}
    assert result.ok


def test_logs_of_two_machines(tmp_path: Path) -> None:
    files = [
        log(tmp_path / f"{at}.log", time_on(), device=device)
        for at, device in enumerate((H100, "NVIDIA H200"))
    ]
    with pytest.raises(
        ColltoolError, match="different machines: NVIDIA H100 80GB HBM3, NVIDIA H200"
    ):
        colltool.doctor(files)


def test_a_log_that_names_no_device(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("collective,ranks,bytes,time_us\nall_reduce,8,1048576,40\n")
    with pytest.raises(ColltoolError, match="do not name their devices"):
        colltool.doctor(file)
    assert colltool.doctor(file, "dgx-h100").ok
    file.write_text("collective,ranks,bytes,time_us\nall_reduce,8,1073741824,4000\n")
    result = colltool.doctor(file)
    assert result.assumed.guessed, "long messages tell the usual machines apart"
    assert result.assumed.fabric == "dgx-h100"
    assert result.summary().startswith("If this is dgx-h100 or hgx-h200, it is healthy: ")


def test_overrides_are_of_either_fabric(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", time_on(set_=["nvlink.bandwidth=300GB/s"]), ("ar",), LARGE)
    assert not colltool.doctor(file).ok
    for fabric in (None, "dgx-h100"):
        for overrides in (["nvlink.bandwidth=300GB/s"], {"nvlink.bandwidth": "300GB/s"}):
            result = colltool.doctor(file, fabric, overrides=overrides)
            assert result.ok
            assert dict(result.assumed.overrides) == {"nvlink.bandwidth": "300GB/s"}


def test_devices_of_a_json_report(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    listed = [
        {"rank": 0, "hostname": "n0", "device_info": H100},
        {"rank": 1, "hostname": "n\x1b0", "device_info": H100},
        "odd",
    ]
    file.write_text(json.dumps({"config": {"devices": listed}}))
    assert logged_hardware([file]) == LoggedHardware((H100,), ("n0", "n\\x1b0"))
    file.write_text("{ torn")
    assert logged_hardware([file]) == LoggedHardware((), ())


def test_prefixes_of_launchers_are_no_part_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_text(
        f"[1,0]<stdout>:#  Rank  0 Group  0 Pid 7 on n7 device  0 [0000:1b:00] {H100}\n0: # size\n"
    )
    assert logged_hardware([file]) == LoggedHardware((H100,), ("n7",))
