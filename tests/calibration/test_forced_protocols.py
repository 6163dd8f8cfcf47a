"""Layer-3 values of a log that forces an algorithm and a protocol: recovered, written, and read by
the tuner export."""

from __future__ import annotations

from pathlib import Path

import pytest

import colltool
from colltool.base.primitives import AR
from colltool.estimate.groups import place
from colltool.estimate.machine_protocols import priced_under
from colltool.extras.interop.nccl_tuner import tuner_config
from colltool.fabric.model import Fabric
from colltool.libraries.numbers import ProtocolNumbers
from colltool.machines.machine_file import read_machine_file

SIZES = tuple(2**doublings for doublings in range(12, 31, 3))
RING = "ring"
TRUE = ProtocolNumbers(name="Simple", launch_s=6e-6, step_s=1.5e-6, share=0.75)


def seconds(fabric: Fabric, numbers: ProtocolNumbers, size: float) -> float:
    model = priced_under(place(fabric, 8), AR, RING, numbers)
    assert model is not None
    return model.curve.a + model.curve.b * size


def log_text(fabric: Fabric, setting: str) -> str:
    """The output of nccl-tests on a DGX whose ring under Simple has the numbers of TRUE."""
    ranks = [
        f"#  Rank {rank} Group 0 Pid 1 on node01 device {rank} [0000:1b:00] NVIDIA H100 80GB HBM3"
        for rank in range(8)
    ]
    rows = []
    for size in SIZES:
        us = seconds(fabric, TRUE, size) * 1e6
        rate = size / us / 1e3
        rows.append(
            f"{size} {size // 4} float sum -1 {us:.4f} {rate:.4f} {rate * 1.75:.4f} 0 {us:.4f}"
            f" {rate:.4f} {rate * 1.75:.4f} 0"
        )
    head = (
        "# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n# Collective test"
        " starting: all_reduce_perf"
    )
    titles = "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
    units = "#  (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)"
    return "\n".join(
        [setting, head, *ranks, titles, units, *rows, "# Out of bounds values : 0 OK", ""]
    )


@pytest.fixture
def fabric() -> Fabric:
    return colltool.load_fabric("dgx-h100")


def forced_log(
    path: Path,
    fabric: Fabric,
    setting: str = "NCCL_ALGO=Ring NCCL_PROTO=Simple mpirun all_reduce_perf",
) -> Path:
    path.write_text(log_text(fabric, setting))
    return path


def test_a_forced_log_gives_the_numbers_that_it_was_made_with(
    tmp_path: Path, fabric: Fabric
) -> None:
    found = colltool.calibrate(
        "dgx-h100", forced_log(tmp_path / "ring.log", fabric), machine_only=True
    )
    (row,) = read_machine_file(found.machine_text).protocols
    assert (row.algorithm, row.protocol, row.scope) == ("ring", "simple", "inside")
    numbers = TRUE._replace(launch_s=row.launch, step_s=row.step, share=row.share)
    for size in SIZES:
        assert seconds(fabric, numbers, size) == pytest.approx(
            seconds(fabric, TRUE, size), rel=0.01
        )
    assert row.share == pytest.approx(TRUE.share, rel=0.05)


def test_rows_of_a_forced_log_are_held_against_what_was_forced(
    tmp_path: Path, fabric: Fabric
) -> None:
    forced = colltool.calibrate(
        "dgx-h100", forced_log(tmp_path / "ring.log", fabric), machine_only=True
    )
    free = colltool.calibrate(
        "dgx-h100",
        forced_log(tmp_path / "free.log", fabric, "mpirun all_reduce_perf"),
        machine_only=True,
    )
    assert forced.machine_rows is not None
    assert free.machine_rows is not None
    assert forced.machine_rows.series[0].forced.spec
    assert not free.machine_rows.series[0].forced.spec
    # a ring takes longer than the switches do
    assert forced.machine_rows.file.rows[-1].r < free.machine_rows.file.rows[-1].r
    assert not free.machine_rows.file.protocols


@pytest.mark.parametrize(
    "setting",
    [
        "NCCL_ALGO=^NVLS NCCL_PROTO=Simple x",
        "NCCL_ALGO=Ring,Tree NCCL_PROTO=Simple x",
        "NCCL_ALGO=Ring x",
    ],
)
def test_a_log_that_leaves_a_choice_gives_no_numbers(
    tmp_path: Path, fabric: Fabric, setting: str
) -> None:
    found = colltool.calibrate(
        "dgx-h100", forced_log(tmp_path / "log.log", fabric, setting), machine_only=True
    )
    assert found.machine_rows is not None
    assert not found.machine_rows.file.protocols


def test_the_tuner_export_reads_them(tmp_path: Path, fabric: Fabric) -> None:
    found = colltool.calibrate(
        "dgx-h100", forced_log(tmp_path / "ring.log", fabric), machine_only=True
    )
    path = tmp_path / "mine.machine.yaml"
    path.write_text(found.machine_text)
    usual, own = (
        tuner_config(fabric, [8]),
        tuner_config(colltool.load_fabric("dgx-h100", machine=path), [8]),
    )
    assert own != usual
    assert "ring under simple" in " ".join(own.replace("\n#", " ").split())
    faster = found.machine_text.replace("launch: ", "launch: 0us, step: 0us, share: 9} # ")
    path.write_text(faster)
    rows = [
        line
        for line in tuner_config(colltool.load_fabric("dgx-h100", machine=path), [8]).splitlines()
        if line.startswith("allreduce")
    ]
    assert any(line.split(",")[3:5] == ["ring", "simple"] for line in rows)


def test_without_them_it_writes_what_it_did(tmp_path: Path, fabric: Fabric) -> None:
    free = colltool.calibrate(
        "dgx-h100",
        forced_log(tmp_path / "free.log", fabric, "mpirun all_reduce_perf"),
        machine_only=True,
    )
    assert tuner_config(
        colltool.load_fabric("dgx-h100", machine=free.machine), [8]
    ) == tuner_config(fabric, [8])
