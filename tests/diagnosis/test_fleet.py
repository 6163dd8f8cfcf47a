"""Runs of many hosts as one question: which host is slow, which fails, what was slow only once;
drawn as a matrix."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import machine_logs
import pytest

import colltool
from colltool.diagnosis.results import Diagnosis
from tests.commands.conftest import run as run_cli

HOSTS = ("gpu1", "gpu2", "gpu3", "gpu4", "gpu10")
HEALTHY = machine_logs.time_on(ranks=16)


def run(folder: Path, one: str, other: str, slower: float = 1.0, *, again: str = "") -> Path:
    """A log of an all-reduce of 16 ranks on a pair of hosts."""
    path = folder / f"{one}-{other}{again}.log"
    machine_logs.log(path, lambda p, m: slower * HEALTHY(p, m), sizes=machine_logs.LARGE, ranks=16)
    path.write_text(path.read_text().replace("node0", one).replace("node1", other))
    return path


def failed(path: Path) -> Path:
    head = [line for line in path.read_text().splitlines() if line.startswith("# ")]
    path.write_text("\n".join([*head, "Test NCCL failure common.cu:1005 'unhandled system error'"]))
    return path


def pairs(folder: Path, slow: str = "", by: float = 2.0) -> list[Path]:
    return [run(folder, a, b, by if slow in (a, b) else 1.0) for a, b in combinations(HOSTS, 2)]


def states(found: Diagnosis) -> dict[str, str]:
    assert found.fleet is not None
    return {one.host: one.state for one in found.fleet.hosts}


@pytest.mark.alike(1)
@pytest.mark.parametrize("slow", HOSTS)
def test_a_slow_host_is_named(slow: str, tmp_path: Path) -> None:
    found = colltool.doctor(pairs(tmp_path, slow))
    assert states(found) == {one: "slow" if one == slow else "as the others" for one in HOSTS}
    assert found.summary().count(slow)
    assert not found.ok


def test_hosts_that_are_alike_are_healthy(tmp_path: Path) -> None:
    found = colltool.doctor(pairs(tmp_path))
    assert found.ok
    assert set(states(found).values()) == {"as the others"}


def test_a_host_of_failed_runs_is_named(tmp_path: Path) -> None:
    logs = [failed(one) if "gpu3" in one.name else one for one in pairs(tmp_path)]
    found = colltool.doctor(logs)
    assert states(found)["gpu3"] == "in failed runs"
    assert found.fleet is not None
    assert any(str(line) == "4 runs failed, all of them with gpu3" for line in found.fleet.said)


def test_a_pair_that_was_slow_once_blames_no_host(tmp_path: Path) -> None:
    logs = [*pairs(tmp_path), run(tmp_path, "gpu1", "gpu2", 2.0, again="-again")]
    assert "slow" not in states(colltool.doctor(logs)).values()


def test_two_hosts_are_no_fleet(tmp_path: Path) -> None:
    assert colltool.doctor([run(tmp_path, "gpu1", "gpu2")]).fleet is None


def test_pairs_stand_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    fleet = colltool.doctor(pairs(tmp_path, "gpu2")).fleet
    assert fleet is not None
    assert [one.host for one in fleet.hosts] == list(HOSTS)
    worst = {frozenset((one.a, one.b)) for one in fleet.pairs if (one.of_fleet or 1.0) < 0.85}
    assert worst == {frozenset(("gpu2", other)) for other in HOSTS if other != "gpu2"}


def test_a_fleet_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "fleet.svg"
    done = run_cli("doctor", *map(str, pairs(tmp_path, "gpu2")), "--plot", str(path))
    assert done.code == 1, done.err
    drawn = path.read_text()
    assert all(host in drawn for host in HOSTS)


ALONE = machine_logs.time_on()


def alone(folder: Path, host: str, slower: float = 1.0) -> Path:
    """A log of an all-reduce of the eight ranks of one host."""
    path = folder / f"{host}.log"
    machine_logs.log(path, lambda p, m: slower * ALONE(p, m), sizes=machine_logs.LARGE)
    path.write_text(path.read_text().replace("node0", host))
    return path


@pytest.mark.parametrize("hosts", [3, 16])
@pytest.mark.parametrize("share", [0.5, 0.62, 0.8])
def test_one_run_on_one_host_is_that_hosts(hosts: int, share: float, tmp_path: Path) -> None:
    names = [f"gpu{at}" for at in range(1, hosts + 1)]
    logs = [alone(tmp_path, name, 1 / share if name == "gpu2" else 1.0) for name in names]
    found = colltool.doctor(logs)
    assert states(found)["gpu2"] == "slow"
    assert list(states(found).values()).count("slow") == 1
    assert not found.ok
    assert f"gpu2 is slow: its run reaches only {share:.0%} of the median" in found.summary()


def test_one_run_of_a_pair_is_of_neither(tmp_path: Path) -> None:
    """Of a pair that ran once, and once, either may be slow."""
    ran = [("gpu1", "gpu2", 2.0), ("gpu3", "gpu4", 1.0), ("gpu10", "gpu11", 1.0)]
    logs = [run(tmp_path, one, other, slower) for one, other, slower in ran]
    assert "slow" not in states(colltool.doctor(logs)).values()


def test_single_hosts_that_are_alike_are_healthy(tmp_path: Path) -> None:
    logs = [alone(tmp_path, f"gpu{at}", 1 + at / 50) for at in range(5)]
    assert colltool.doctor(logs).ok
