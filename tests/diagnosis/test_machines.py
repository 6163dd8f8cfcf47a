"""Machines that no fabric file describes: times by a few lines of physics of their own, with noise,
and what is said of them.

Numbers of NCCL 2.27 to 2.29 on 8 H100, A100 and B200, ai-dynamo/aiconfigurator, and of the AMD ROCm
blog on RCCL and xGMI.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import machine_logs
import pytest
from machine_logs import log

import colltool
from colltool.diagnosis.results import Diagnosis

SIZES = [2.0**k for k in range(10, 33)]
FIVE = ("ar", "ag", "rs", "a2a", "p2p")


@dataclass(frozen=True)
class Machine:
    """Eight devices a host: us of a call and of a step, GB/s of a ring, of the switch's reduction,
    and of a NIC."""

    device: str
    call: float
    step: float
    ring: float
    nvls: float = 0.0
    nic: float = 47.5
    hosts: int = 1
    factor: float = 1.0
    late: float = 0.0
    flags: float = 1.0
    """The share that LL leaves."""

    def seconds(self, primitive: str, size: float) -> float:
        us = self.between(primitive, size) if self.hosts > 1 else self.inside(primitive, size)
        return (us * self.factor + self.late) * 1e-6

    def inside(self, primitive: str, size: float) -> float:
        rounds, steps = {"ar": (1.75, 14), "p2p": (1.0, 1), "a2a": (0.875 / 0.93, 4)}.get(
            primitive, (0.875, 7)
        )
        moved = rounds * size / 1e3 / self.ring
        ways = [self.call + self.step * steps + 2 * moved]
        if self.flags == 1.0:
            ways.append(self.call + 6 + 1.9 * self.step * steps + moved)
            ways += (
                [self.call + 42 + moved * self.ring / self.nvls]
                if primitive == "ar" and self.nvls
                else []
            )
        return min(ways)

    def between(self, primitive: str, size: float) -> float:
        """Two hosts: rings of all NICs, trees that carry every byte once, messages of a rank over
        its own NIC."""
        size, ranks = size / 1e3 / self.flags, 8 * self.hosts
        if primitive == "p2p":
            return self.call + 9 + size / min(self.nic, self.ring)
        if primitive == "a2a":
            return self.call + 12 + 0.3 * ranks + size * (ranks - 8) / ranks / self.nic
        if primitive in ("ag", "rs"):
            return (
                self.call
                + 7 * self.step
                + 18
                + size * (ranks - 1) / ranks / min(8 * self.nic * 0.97, self.ring)
            )
        tree = min(8 * self.nic * 1.6, self.ring * 0.9)
        ways = [
            self.call + 14 * self.step + 16 + 4 * size / tree,
            self.call + 35 + 21 * self.step + 2 * size / tree,
        ]
        return min(
            [*ways, self.call + 84 + 2 * size / min(8 * self.nic * 1.9, 0.88 * self.nvls)]
            if self.nvls
            else ways
        )


H100 = Machine("NVIDIA H100 80GB HBM3", 4.6, 0.8, 362, 480)
A100 = Machine("NVIDIA A100-SXM4-80GB", 7.9, 1.03, 232, nic=23.6)
B200 = Machine("NVIDIA B200", 7.6, 1.24, 690, 760)
MI300X = Machine("AMD Instinct MI300X", 11.1, 0.15, 318)  # all peers at once: two steps
ALL = {"H100": H100, "A100": A100, "B200": B200}
ALL |= {f"2 x {name}": replace(one, hosts=2) for name, one in ALL.items()}
FABRIC = {H100.device: "dgx-h100", A100.device: "dgx-a100", B200.device: "dgx-b200"}


def wire(machine: Machine, share: float) -> Machine:
    return replace(machine, ring=machine.ring * share, nvls=machine.nvls * share)


def ails(
    machine: Machine,
    folder: Path,
    seed: int = 1,
    which: tuple[str, ...] = FIVE,
    sizes: list[float] = SIZES,
    fabric: str | None = None,
) -> Diagnosis:
    """What is said of a machine whose times scatter by 5%."""
    draw = random.Random(seed)
    file = folder / "a.log"
    log(
        file,
        lambda primitive, size: machine.seconds(primitive, size) * draw.uniform(0.95, 1.05),
        which,
        sizes,
        ranks=8 * machine.hosts,
        device=machine.device,
    )
    if "AMD" in machine.device:
        file.write_text("rccl-tests: Version develop:1\n" + file.read_text())
    return colltool.doctor(file, fabric)


def causes(result: Diagnosis) -> list[str]:
    """Of the first finding, which is the only one."""
    assert len(result.findings) == 1
    return [one.name for one in result.findings[0].causes]


@pytest.mark.alike(6)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_healthy_machines_are_called_healthy(name: str, seed: int, tmp_path: Path) -> None:
    assert ails(ALL[name], tmp_path, seed).ok


@pytest.mark.alike(4)
@pytest.mark.parametrize("name", ["H100", "A100", "B200"])
@pytest.mark.parametrize("which", [FIVE, ("ar",)])
@pytest.mark.parametrize("sizes", [SIZES, [2.0**30]])
def test_a_host_at_sixty_percent_has_an_answer(
    name: str, which: tuple[str, ...], sizes: list[float], tmp_path: Path
) -> None:
    found = causes(ails(wire(ALL[name], 0.6), tmp_path, which=which, sizes=sizes))
    assert {"slow-rank", "nvlinks"} <= set(found)
    assert ("clocks" in found) == (sizes != SIZES), "small messages tell clocks from wires"


@pytest.mark.alike(3)
@pytest.mark.parametrize("name", ["H100", "A100", "B200"])
@pytest.mark.parametrize("rate", [12.0, 24.0, 48.0])
def test_a_path_over_pcie_leads(name: str, rate: float, tmp_path: Path) -> None:
    slow = replace(ALL[name], ring=rate, nvls=0.0, step=1.5 * ALL[name].step)
    result = ails(slow, tmp_path)
    assert causes(result)[0] == "pcie"
    assert {12.0: "Gen3", 24.0: "Gen4", 48.0: "Gen5 x16"}[rate] in str(
        result.findings[0].causes[0].said
    )


@pytest.mark.ci
@pytest.mark.alike(1)
@pytest.mark.parametrize("name", ALL)
def test_low_clocks_are_one_finding(name: str, tmp_path: Path) -> None:
    assert "clocks" in causes(ails(replace(ALL[name], factor=1.8), tmp_path))


@pytest.mark.alike(1)
@pytest.mark.parametrize("name", ALL)
def test_late_launches_are_one_finding(name: str, tmp_path: Path) -> None:
    late = causes(ails(replace(ALL[name], late=80.0), tmp_path))
    assert late == (["latency", "launch"] if ALL[name].hosts > 1 else ["launch"]), (
        "between hosts NICs delay as well"
    )


@pytest.mark.ci
@pytest.mark.alike(1)
@pytest.mark.parametrize("name", ALL)
def test_flags_beside_the_data_are_seen(name: str, tmp_path: Path) -> None:
    assert "protocol-ll" in causes(
        ails(replace(ALL[name], flags=0.5, nvls=0.0), tmp_path, fabric=FABRIC[ALL[name].device])
    )


@pytest.mark.alike(1)
@pytest.mark.parametrize("name", ["2 x H100", "2 x A100", "2 x B200"])
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_a_slow_network_and_idle_nics_are_told_apart_by_single_ones(
    name: str, share: float, tmp_path: Path
) -> None:
    result = ails(
        replace(ALL[name], nic=ALL[name].nic * share), tmp_path, fabric=FABRIC[ALL[name].device]
    )
    assert {"network", "rails"} <= set(causes(result))
    (test,) = [one for one in result.findings[0].experiments if " -N 1 " in one.command]
    rates = {one.cause: one.busbw_Bps for one in test.foretold}
    assert rates["rails"] == pytest.approx(rates["network"] / share, rel=0.2)


def test_amd_is_told_where_to_look_in_its_own_words(tmp_path: Path) -> None:
    assert ails(MI300X, tmp_path, which=("ar", "ag", "rs")).ok
    (finding,) = ails(wire(MI300X, 0.6), tmp_path, which=("ar",)).findings
    assert {"slow-rank", "links"} <= {one.name for one in finding.causes}
    said = " ".join(
        [one.look for one in finding.causes] + [str(one.said) for one in finding.causes]
    )
    assert "rocm-smi" in said
    assert "xgmi" in said
    assert not {"nvidia", "nvlink", "cuda"} & set(said.lower().replace("-", " ").split())
    (over,) = ails(wire(MI300X, 0.08), tmp_path, which=("ar", "ag")).findings
    assert over.causes[0].name == "pcie"


def test_a_setting_that_costs_little_is_a_note(tmp_path: Path) -> None:
    """Rings that reach 84 to 90% of what the switches reduce: no finding by the usual bar."""
    set_ = ["nvlink.in_network.eta_beta.all_reduce=0.57"]
    time = machine_logs.time_on("dgx-b200", only={"ar": ("ring",)})
    result = colltool.doctor(
        log(tmp_path / "a.log", time, ("ar", "ag"), device="NVIDIA B200"),
        "dgx-b200",
        overrides=set_,
    )
    assert result.ok
    assert any("NVLS may be off" in str(note) for note in result.notes)


@pytest.mark.parametrize(
    ("ranks", "share", "ok"), [(2, 0.65, True), (2, 0.5, False), (4, 0.78, True), (4, 0.7, False)]
)
def test_few_ranks_are_held_to_what_few_reach(
    ranks: int, share: float, ok: bool, tmp_path: Path
) -> None:
    fabric = colltool.load_fabric("dgx-h100")

    def seconds(primitive: str, size: float) -> float:
        return (
            float(colltool.price(fabric, primitive, ranks=ranks, size=size).leading[0].total_s)
            / share
        )

    file = log(tmp_path / "a.log", seconds, ("ag",), [2.0**29, 2.0**30], ranks=ranks)
    assert colltool.doctor(file).ok == ok
    assert not colltool.doctor(file, expect=0.95).ok


def test_small_messages_are_judged_where_the_fabric_knows_of_them(tmp_path: Path) -> None:
    """Not by a fabric without launches, not of MPI, not of an all-to-all."""
    slow = replace(H100, late=80.0)
    ails(slow, tmp_path)
    without = colltool.load_fabric("dgx-h100", ["launch_overhead=0us"])
    assert not colltool.doctor(tmp_path / "a.log").ok
    assert colltool.doctor(tmp_path / "a.log", without).ok
    assert ails(slow, tmp_path, which=("a2a",)).ok
    rows = "".join(f"{size:.0f}  {slow.seconds('ar', size) * 1e6:.2f}\n" for size in SIZES)
    osu = tmp_path / "osu.txt"
    osu.write_text(f"# OSU MPI-CUDA Allreduce Latency Test v7.2\n# Size  Avg Latency(us)\n{rows}")
    assert not any(
        one.size == "small" for one in colltool.doctor(osu, "dgx-h100", ranks=8).findings
    )


def test_a_slow_host_among_healthy_ones_is_found(tmp_path: Path) -> None:
    """A log a host: their median would be as expected."""
    healthy, ailing = (
        machine_logs.time_on(),
        machine_logs.time_on(set_=["nvlink.bandwidth=270GB/s"]),
    )
    logs = [
        machine_logs.log(
            tmp_path / f"node{at}.log", ailing if at == 3 else healthy, ("ag", "rs", "p2p")
        )
        for at in range(5)
    ]
    result = colltool.doctor(logs)
    assert [one.judged.series.run for one in result.series if one.low] == [str(logs[3])] * 3
    (finding,) = result.findings
    assert all(str(logs[3]) in title for title in finding.series)
    assert {"nvlinks", "slow-rank"} & {one.name for one in finding.causes}
    assert colltool.doctor(logs[3]).findings[0].causes == finding.causes


def test_logs_of_other_sizes_are_one_series(tmp_path: Path) -> None:
    time = machine_logs.time_on()
    small = machine_logs.log(tmp_path / "small.log", time, sizes=machine_logs.SMALL)
    large = machine_logs.log(tmp_path / "large.log", time, sizes=machine_logs.LARGE)
    (one,) = colltool.doctor([small, large]).series
    assert one.judged.series.run == ""
    assert len(one.judged.points) == len(machine_logs.SMALL) + len(machine_logs.LARGE)


def test_a_fabric_of_other_devices_is_said_to_be_one(tmp_path: Path) -> None:
    path = machine_logs.log(tmp_path / "h100.log", machine_logs.time_on())
    said = "the devices do not match dgx-a100: the nearest bundled fabric is dgx-h100"
    assert said in map(str, colltool.doctor(path, "dgx-a100").assumed.said)
    assert not [
        line
        for line in colltool.doctor(path, "dgx-h100").assumed.said
        if "not those of" in str(line)
    ]
