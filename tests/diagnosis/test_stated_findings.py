"""What the log states leads the answer: failures and wrong values whatever the times are, settings
and causes without times, on known and unknown machines."""

from __future__ import annotations

import json
from pathlib import Path

import machine_logs
import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.diagnosis.results import Diagnosis
from colltool.render.dispatch import rendered
from colltool.render.views.doctor_answer import diagnosed

UNKNOWN = ("NVIDIA Graphics Device", "NVIDIA Thingamajig 9")
NCCL = "n0:70:71 [0] NCCL INFO "
WARN = "n0:70:71 [0] transport/net_ib.cc:99 NCCL WARN "
ERRORS = {
    "node0: Test CUDA failure common.cu:389 'an illegal memory access was encountered'": "illegal",
    "node0: Test NCCL failure common.cu:958 'unhandled system error'": "unhandled system error",
    "node0: Test NCCL failure common.cu:961 'unhandled cuda error (run with X)'": "unhandled cuda",
    "node0: Test CUDA failure common.cu:892 'out of memory'": "out of memory",
    f"{WARN}NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129": "GID",
    f"{WARN}Call to ibv_modify_qp failed with error Connection timed out": "110",
    f"{WARN}Error : no algorithm/protocol available": "NCCL_ALGO",
    "NVRM: Xid (PCI:0000:4d:00): 79, pid=7, GPU has fallen off the bus.": "bus",
    "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE,"
    " Timeout(ms)=600000) ran for 600029 milliseconds": "600000 ms",
    "mpirun noticed that process rank 3 with PID 7 on node n1 exited on signal 11.": "crashed",
}


def written(folder: Path, *lines: str) -> Path:
    path = folder / "a.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def healthy(folder: Path, device: str = machine_logs.H100) -> list[str]:
    path = machine_logs.log(folder / "healthy.log", machine_logs.time_on(), device=device)
    return path.read_text().splitlines()


def is_row(line: str) -> bool:
    return line[:1].isdigit()


def names(result: Diagnosis) -> list[str]:
    return [cause.name for finding in result.findings for cause in finding.causes]


@swept("error", ERRORS)
def test_an_error_alone_is_a_failed_run(error: str, tmp_path: Path) -> None:
    result = colltool.doctor(written(tmp_path, error))
    said = diagnosed(result)
    assert not result.ok
    assert result.assumed.fabric == ""
    assert said.startswith("Failed: ")
    assert ERRORS[error] in said
    assert "a.log:1)" in said


@swept("error", ERRORS)
def test_rows_before_an_error_make_no_healthy_run(error: str, tmp_path: Path) -> None:
    rows = [line for line in healthy(tmp_path) if not line.startswith(("# Out", "# Coll"))]
    result = colltool.doctor(written(tmp_path, *rows, error))
    said = diagnosed(result)
    assert not result.ok
    assert result.series
    assert said.startswith("Failed: ")
    assert ERRORS[error] in said
    assert "ealthy" not in said


@swept("device", UNKNOWN)
@swept("error", list(ERRORS)[:3])
def test_a_failed_run_is_one_on_any_machine(error: str, device: str, tmp_path: Path) -> None:
    rows = [line for line in healthy(tmp_path, device) if not line.startswith(("# Out", "# Coll"))]
    said = diagnosed(colltool.doctor(written(tmp_path, *rows, error)))
    assert said.startswith("Failed: ")
    assert "not judged" in said
    assert "ealthy" not in said


@swept("cells", range(4, 13))
def test_an_error_in_a_row_is_the_answer(cells: int, tmp_path: Path) -> None:
    """The error is printed behind any cell of a row that was not finished."""
    error, word = next(iter(ERRORS.items()))
    lines = healthy(tmp_path)
    first = next(at for at, line in enumerate(lines) if "#wrong" in line) + 1
    for keep in (0, 3):
        row = "  ".join(lines[first + keep].split()[:cells])
        path = written(tmp_path, *lines[: first + keep], f"  {row}  {error}")
        result = colltool.doctor(path)
        said = diagnosed(result)
        assert said.startswith("Failed: "), cells
        assert word in said
        assert result.stated[0].line == first + keep + 1
        reasons = " ".join(str(skipped.reason) for skipped in result.skipped)
        assert "more values" not in reasons + " ".join(map(str, result.notes))
        if not keep:
            with pytest.raises(ColltoolError, match="the run failed in this row"):
                colltool.validate("dgx-h100", path)


@swept("half", ["out", "in", "both"])
@swept("rows", [1, 3, "all"])
@swept("device", [machine_logs.H100, UNKNOWN[0]])
def test_wrong_values_come_first(half: str, rows: int | str, device: str, tmp_path: Path) -> None:
    lines = healthy(tmp_path, device)
    places = [at for at, line in enumerate(lines) if is_row(line)]
    for at in places if rows == "all" else places[: int(rows)]:
        cells = lines[at].split()
        wrong = [place for place, cell in enumerate(cells) if place > 6 and cell == "0"]
        for place in {"out": wrong[:1], "in": wrong[-1:], "both": wrong}[half]:
            cells[place] = "250"
        lines[at] = "  ".join(cells)
    result = colltool.doctor(written(tmp_path, *lines))
    said = diagnosed(result)
    assert not result.ok
    assert said.startswith("Wrong values: 250 values are wrong at ")
    assert "ealthy" not in said


def test_the_closing_line_alone_says_wrong(tmp_path: Path) -> None:
    lines = [line.replace(": 0 OK", ": 2 FAILED") for line in healthy(tmp_path)]
    said = diagnosed(colltool.doctor(written(tmp_path, *lines)))
    assert said.startswith("Wrong values: nccl-tests found values out of bounds")


@swept("rows", [("Fail", "Fail"), ("Pass", "Fail"), ("Fail", "Pass")])
def test_validation_of_other_benchmarks(rows: tuple[str, str], tmp_path: Path) -> None:
    lines = ["# OSU MPI Allreduce Latency Test v7.4", "# Size   Avg Latency(us)   Validation"]
    for at, validation in enumerate(rows):
        lines.append(f"{1024 << at}    1.5{at}    {validation}")
    result = colltool.doctor(written(tmp_path, *lines), "mpi-cluster", ranks=64)
    said = diagnosed(result)
    assert not result.ok
    count = {1: "1 row", 2: "2 rows"}[rows.count("Fail")]
    assert said.startswith(f"Wrong values: the results of {count} are wrong")
    assert "cut short" not in said


# --- without times


@swept(
    ("line", "start", "word"),
    [
        ("NCCL_NET_GDR_LEVEL set by environment to SYS", "GPUDirect RDMA is forced", "SYS"),
        ("NCCL_ALGO set by environment to Tree,Ring,NVLS", "NCCL may run only Tree, Ring", "NVLS"),
        ("NCCL_ALGO set by environment to ^Ring", "NCCL may run only", "NCCL_ALGO=^Ring"),
        ("NCCL_PROTO set by environment to LL", "The LL protocol: ", "NCCL_PROTO=LL"),
        ("NCCL_P2P_DISABLE set by environment to 1.", "No peer-to-peer access", "unset"),
        ("NET/OFI Selected Provider is tcp;ofi_rxm", "Sockets: libfabric", "EFA"),
        ("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB e:10.0.0.1<0>", "", "RoCE"),
    ],
)
def test_what_one_line_states_is_the_answer(
    line: str, start: str, word: str, tmp_path: Path
) -> None:
    result = colltool.doctor(written(tmp_path, NCCL + line))
    said = diagnosed(result)
    assert not result.ok
    assert said.startswith(start)
    assert word in said
    assert "Next: " in said
    assert said.endswith("The log holds no times to judge.")


def test_warnings_are_no_failures(tmp_path: Path) -> None:
    options = ('"amd_iommu=on" from kernel command line', '"HSA_X=1" from environment')
    lines = [f"n0:7:7 [0] init.cpp:120 NCCL WARN Missing {option}" for option in options]
    result = colltool.doctor(written(tmp_path, *lines))
    assert names(result) == ["warning", "warning"]
    assert "ailed" not in diagnosed(result)


def test_facts_alone_are_no_finding(tmp_path: Path) -> None:
    lines = (
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "Using network IB",
        "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "16 coll channels, 16 nvls channels, 16 p2p channels",
    )
    result = colltool.doctor(written(tmp_path, *(NCCL + line for line in lines)))
    assert result.ok
    said = diagnosed(result)
    assert said.startswith("Not judged: the log holds no times, and states nothing that is off")
    assert "mlx5_0 and mlx5_1 (InfiniBand)" in said
    assert "GPUDirect RDMA is on" in said


def test_ordinary_lines_of_nccl_are_a_log(tmp_path: Path) -> None:
    lines = ("RCCL version 2.20.5+hip6.2 Unknown", f"{NCCL}Bootstrap : Using bond0:10.0.0.2<0>")
    said = diagnosed(colltool.doctor(written(tmp_path, *lines)))
    assert said.startswith("Not judged: the log holds no times")
    assert "RCCL 2.20.5" in said


def test_a_command_line_alone_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match="no table of measurements"):
        colltool.doctor(written(tmp_path, "mpirun -x NCCL_DEBUG=INFO ./all_reduce_perf -b 8"))


def test_a_table_that_cannot_be_read_keeps_its_reason(tmp_path: Path) -> None:
    lines = [line for line in healthy(tmp_path) if not is_row(line)]
    with pytest.raises(ColltoolError, match="without rows"):
        colltool.doctor(written(tmp_path, f"{NCCL}Using network IB", *lines))


# --- beside times


def test_a_setting_is_named_beside_times_that_pass(tmp_path: Path) -> None:
    lines = healthy(tmp_path)
    result = colltool.doctor(
        written(tmp_path, f"{NCCL}NCCL_PROTO set by environment to LL", *lines)
    )
    said = diagnosed(result)
    assert result.ok
    assert said.startswith("Healthy: ")
    assert "'NCCL_PROTO=LL'" in said


def test_what_is_stated_comes_before_slow_times(tmp_path: Path) -> None:
    fast = machine_logs.time_on(ranks=16)
    path = machine_logs.log(
        tmp_path / "slow.log", lambda p, m: 12 * fast(p, m), sizes=machine_logs.LARGE, ranks=16
    )
    stated = ("Using network Socket", "NCCL_PROTO set by environment to LL")
    result = colltool.doctor(written(tmp_path, *(NCCL + line for line in stated), path.read_text()))
    said = diagnosed(result)
    assert not result.ok
    assert "'NCCL_PROTO=LL'" in said.partition("Slow: ")[0]
    assert "Using network Socket" in said


def test_a_setting_on_an_unknown_machine_is_said(tmp_path: Path) -> None:
    lines = healthy(tmp_path, UNKNOWN[0])
    with pytest.raises(ColltoolError, match="has NVIDIA Graphics Device"):
        colltool.doctor(written(tmp_path, *lines))
    command = "mpirun -x NCCL_P2P_DISABLE=1 -x NCCL_SHM_DISABLE=1 -np 8 ./all_reduce_perf"
    result = colltool.doctor(written(tmp_path, command, *lines))
    said = diagnosed(result)
    assert not result.ok
    assert "'NCCL_P2P_DISABLE=1'" in said
    assert "Its times are not judged: " in said
    assert names(result) == ["pcie", "setting"]


def test_each_run_that_failed_is_no_measurement_of_its_hosts(tmp_path: Path) -> None:
    """One run of several failed after good rows: it is a failed run of the fleet."""
    paths = []
    for run in range(4):
        lines = [line.replace("node0", f"host{run}") for line in healthy(tmp_path)]
        if run == 2:
            lines = [*lines[:-3], "host2: Test NCCL failure common.cu:958 'unhandled cuda error'"]
        path = tmp_path / f"run{run}.log"
        path.write_text("\n".join(lines))
        paths.append(path)
    result = colltool.doctor(paths)
    assert result.fleet
    assert {host.host: host.failed for host in result.fleet.hosts}["host2"] == 1
    assert "run2.log" in diagnosed(result)


# --- as JSON


def test_records_in_json(tmp_path: Path) -> None:
    path = written(tmp_path, *[f"{NCCL}NCCL_ALGO set by environment to Ring"] * 3)
    document = json.loads(rendered(colltool.doctor(path), "json"))
    assert document["fabric"] is None
    assert document["verdict"].startswith("Rings only: ")
    (record,) = document["stated"]
    assert (record["kind"], record["cause"], record["quoted"], record["line"], record["times"]) == (
        "cause",
        "algorithm-ring",
        "NCCL_ALGO=Ring",
        1,
        3,
    )
    assert record["do"].startswith("unset NCCL_ALGO")
