"""What NCCL_DEBUG=INFO lines say, and what the doctor makes of it; lines as NCCL writes them."""

from __future__ import annotations

from pathlib import Path

import machine_logs
from swept import swept

import colltool
from colltool.diagnosis.declared_causes import declared_causes, ruled_out_causes
from colltool.logs.debug_record import DebugLines
from colltool.logs.nccl_debug import debug_lines

HOST = "node0:70:70 [0] NCCL INFO "
INFINIBAND = (
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
    "Using network IB",
    "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
)
SOCKETS = (
    "NET/Socket : Using [0]eth0:10.0.0.1<0>",
    "Using network Socket",
    "Channel 0 : 8[0] -> 0[0] via NET/Socket/0",
)


def read(folder: Path, *lines: str) -> DebugLines:
    path = folder / "debug.log"
    path.write_text("\n".join(HOST + line for line in lines))
    return debug_lines([path])


def test_a_machine_with_infiniband(tmp_path: Path) -> None:
    found = read(tmp_path, *INFINIBAND)
    assert (found.network, found.nics, found.gpudirect) == ("IB", ("mlx5_0", "mlx5_1"), True)
    assert not any(declared_causes(found))
    assert set(ruled_out_causes(found)) == {"sockets", "gpudirect", "pcie"}


@swept(
    ("lines", "cause", "quoted"),
    [
        (SOCKETS, "sockets", "Using network Socket"),
        (("NCCL_IB_DISABLE set by environment to 1.",), "sockets", "NCCL_IB_DISABLE=1"),
        (
            ("Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0",),
            "gpudirect",
            "no connection via NET with GDRDMA",
        ),
        (("NCCL_NET_GDR_LEVEL set by environment to LOC",), "gpudirect", "NCCL_NET_GDR_LEVEL=LOC"),
        (("NCCL_P2P_DISABLE set by environment to 1",), "pcie", "NCCL_P2P_DISABLE=1"),
        (
            ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",),
            "pcie",
            "connections via SHM, none via P2P",
        ),
        (
            ("NVLS multicast support is not available on dev 0",),
            "nvls-off",
            "NVLS multicast support is not available",
        ),
        (("NCCL_ALGO set by environment to Ring",), "algorithm-ring", "NCCL_ALGO=Ring"),
        (("NCCL_PROTO set by environment to LL",), "protocol-ll", "NCCL_PROTO=LL"),
        (("NCCL_IB_HCA set by environment to mlx5_0",), "rails", "NCCL_IB_HCA=mlx5_0"),
    ],
)
def test_a_line_names_its_cause(
    lines: tuple[str, ...], cause: str, quoted: str, tmp_path: Path
) -> None:
    first, *_ = declared_causes(read(tmp_path, *lines))
    assert first == (cause, quoted)


def test_ordinary_text_says_nothing(tmp_path: Path) -> None:
    found = read(
        tmp_path, "Bootstrap : Using eth0:10.0.0.1<0>", "comm 0x55 rank 0 nranks 16 Init COMPLETE"
    )
    assert not any(declared_causes(found))
    assert not list(ruled_out_causes(found))
    assert not found.describes_machine


def test_a_slow_log_is_explained_by_its_own_line(tmp_path: Path) -> None:
    healthy = machine_logs.time_on(ranks=16)
    path = machine_logs.log(
        tmp_path / "slow.log", lambda p, m: 12 * healthy(p, m), sizes=machine_logs.LARGE, ranks=16
    )
    path.write_text("\n".join(HOST + line for line in SOCKETS) + "\n" + path.read_text())
    found = colltool.doctor(path)
    assert found.findings[0].causes[0].name == "sockets"
    assert "the log says 'Using network Socket'" in str(found.findings[0].causes[0].said)


def test_a_denied_cause_is_not_offered(tmp_path: Path) -> None:
    healthy = machine_logs.time_on(ranks=16)
    path = machine_logs.log(
        tmp_path / "slow.log", lambda p, m: 12 * healthy(p, m), sizes=machine_logs.LARGE, ranks=16
    )
    path.write_text("\n".join(HOST + line for line in INFINIBAND) + "\n" + path.read_text())
    named = [cause.name for one in colltool.doctor(path).findings for cause in one.causes]
    assert not {"sockets", "gpudirect", "pcie"} & set(named)


def test_a_failed_run_is_answered_by_its_error(tmp_path: Path) -> None:
    path = tmp_path / "failed.log"
    path.write_text(
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 64\n"
        "#  Rank  0 Group  0 Pid 70 on node0 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3\n"
        "node0: Test NCCL failure common.cu:1005 'unhandled system error'\n"
    )
    found = colltool.doctor(path)
    assert not found.ok
    assert found.findings[0].causes[0].name == "failed"
    assert "unhandled system error" in str(found.findings[0].causes[0].said)
