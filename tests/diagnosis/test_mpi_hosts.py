"""MPI on processors: hosts of the launch line, no cause of GPUs, and a size that stands out."""

from __future__ import annotations

from pathlib import Path

import pytest
from swept import swept

import colltool
from colltool.diagnosis.cliffs import outliers_in
from colltool.logs.series import point_of

ROWS = (
    (4, 5.2),
    (64, 5.4),
    (1024, 8.9),
    (16384, 38.0),
    (65536, 95.1),
    (262144, 260.3),
    (1048576, 990.0),
)


def log(tmp_path: Path, run: str, extra: tuple[tuple[int, float], ...] = ()) -> Path:
    rows = "".join(f"{size} {time}\n" for size, time in sorted((*ROWS, *extra)))
    path = tmp_path / "osu.txt"
    path.write_text(
        "mpirun -np 64 -H a:16,b:16,c:16,d:16 ./osu_allreduce\n\n"
        f"# OSU {run} Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n{rows}"
    )
    return path


def test_hosts_of_the_launch_line_are_the_machines(tmp_path: Path) -> None:
    found = colltool.doctor(log(tmp_path, "MPI"), "mpi-cluster")
    assert found.assumed.overrides == (("shm.size", "16"),)
    assert any("16 ranks per host ran" in str(said) for said in found.assumed.said)
    assert found.series[0].judged.series.title == "all-reduce, 64 ranks on 4 nodes"


@pytest.mark.parametrize("run", ["MPI", "MPI-CUDA"])
def test_gpudirect_and_rails_are_causes_of_devices_alone(tmp_path: Path, run: str) -> None:
    path = log(tmp_path, run)
    found = colltool.doctor(path, "mpi-cluster", overrides=["shm.size=16"])
    causes = {cause.name for finding in found.findings for cause in finding.causes}
    assert ("gpudirect" in causes or "rails" in causes) == (run == "MPI-CUDA")


def test_a_size_that_stands_out_is_said_beside_the_answer(tmp_path: Path) -> None:
    path = log(tmp_path, "MPI", ((32768, 412.0),))
    notes = [str(note) for note in colltool.doctor(path, "mpi-cluster").notes]
    assert any("412 us at 32 KiB, next to 38 us at 16 KiB" in note for note in notes)
    plain = [str(note) for note in colltool.doctor(log(tmp_path, "MPI"), "mpi-cluster").notes]
    assert not any("out of line" in note for note in plain)


@swept("step", [2, 4, 16])
@swept("times", [3.0, 10.0])
@swept("place", [2, 3, 4])
def test_a_lone_point_is_found_whatever_the_spacing(step: int, times: float, place: int) -> None:
    points = []
    for index in range(7):
        size = 1024.0 * step**index
        seconds = 1e-5 + size / 1e10
        if index == place:
            # times what any price takes
            seconds = times * (1e-5 + size * step / 1e10)
        points.append(point_of(size, [seconds], "a:1"))
    assert "one size is out of line" in str(outliers_in(points))


@swept("place", [2, 3, 4])
def test_a_step_that_lasts_is_no_outlier(place: int) -> None:
    points = []
    for index in range(7):
        size = 1024.0 * 2**index
        slow = 6.0 if index >= place else 1.0
        points.append(point_of(size, [slow * (1e-5 + size / 1e10)], "a:1"))
    assert not outliers_in(points)
