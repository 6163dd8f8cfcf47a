"""The next experiment: whole command lines, of what the logs' library runs, whose outcomes tell
causes apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from machine_logs import LARGE, log, time_on

import colltool
from colltool.analysis.benchmark_command import LARGE_SIZES, SMALL_SIZES, command_line
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS
from colltool.diagnosis.causes import SupportedCause
from colltool.diagnosis.experiments import (
    AS_IS,
    SEPARATES,
    ExperimentMachine,
    next_experiments,
)
from colltool.diagnosis.hypotheses import HostFacts, hypotheses
from colltool.diagnosis.scenario import Scenario

BASE = Scenario(colltool.load_fabric("dgx-h100"))
NODE, PAIR = ExperimentMachine(8, 1, "NCCL"), ExperimentMachine(16, 2, "NCCL")


def supported(name: str, value: float, spans: int = 1, library: str = "NCCL") -> SupportedCause:
    cause = next(
        one for one in hypotheses(BASE, HostFacts(spans, 8, library, "NVIDIA")) if one.name == name
    )
    return SupportedCause(cause, value, cause.scenario(value), frozenset({0}), 0.0, 0.0)


def test_every_cause_is_told_from_the_fabric_as_it_is() -> None:
    for name, value in (
        ("nvls-off", 0),
        ("protocol-ll", 0),
        ("nvlinks", 9),
        ("slow-rank", 0.5),
        ("clocks", 0.6),
        ("launch", 3e-5),
    ):
        (one,) = next_experiments([supported(name, value)], BASE, NODE)
        cause, plain = one.foretold
        assert (cause.cause, plain.cause) == (name, AS_IS)
        assert abs(cause.seconds / plain.seconds - 1) > SEPARATES


def test_a_late_launch_is_looked_for_in_small_messages() -> None:
    (one,) = next_experiments([supported("launch", 3e-5)], BASE, NODE)
    assert one.command == "NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -e 64K -f 2 -g 8"
    assert one.foretold[0].seconds == pytest.approx(one.foretold[1].seconds + 3e-5)


def test_a_slow_rank_is_told_from_links_by_halves() -> None:
    (one,) = next_experiments([supported("slow-rank", 0.5), supported("nvlinks", 9)], BASE, NODE)
    assert one.command.startswith(
        "CUDA_VISIBLE_DEVICES=0,1,2,3 NCCL_NVLS_ENABLE=0 NCCL_DEBUG=INFO ./build/all_reduce_perf "
    )
    assert one.command.endswith(" -g 4")
    assert one.note


def test_what_nothing_tells_apart_has_no_experiment() -> None:
    assert next_experiments([supported("nvlinks", 9), supported("nvlinks", 9)], BASE, NODE) == ()


def test_a_slow_network_is_told_from_slow_links_on_one_host() -> None:
    (one,) = next_experiments(
        [supported("network", 0.5, 2), supported("slow-rank", 0.5, 2)], BASE, PAIR
    )
    network, rank = one.foretold
    assert abs(network.seconds / rank.seconds - 1) > SEPARATES


def test_command_lines() -> None:
    run = {"NCCL_ALGO": "ring"}
    assert command_line(AR, SMALL_SIZES, 8) == "./build/all_reduce_perf -b 8 -e 64K -f 2 -g 8"
    assert (
        command_line(P2P, LARGE_SIZES, 16, 2, settings=run)
        == "mpirun -np 16 -N 8 -x NCCL_ALGO=ring ./build/sendrecv_perf -b 256M -e 4G -f 2 -g 1"
    )
    assert command_line(AG, LARGE_SIZES, 4, settings=run).startswith(
        "NCCL_ALGO=ring ./build/all_gather_perf "
    )
    assert command_line(BC, SMALL_SIZES, 4, 2, mpi=True) == "mpirun -np 4 -N 2 osu_bcast -m 8:65536"
    for primitive in (RS, A2A, REDUCE):
        assert "_perf" in command_line(primitive, LARGE_SIZES, 8)


def test_rccl_is_asked_in_its_own_words(tmp_path: Path) -> None:
    device = "AMD Instinct MI300X"
    time = time_on("mi300x", set_=["xgmi.bandwidth=32GB/s"])
    file = log(tmp_path / "a.log", time, ("ar", "ag"), LARGE, device=device)
    file.write_text("rccl-tests: Version develop:1\n" + file.read_text())
    result = colltool.doctor(file)
    (finding,) = result.findings
    assert "nvlinks" not in {cause.name for cause in finding.causes}
    commands = [one.command for one in finding.experiments]
    assert commands
    assert not any("NVLS" in one or "CUDA" in one for one in commands)
