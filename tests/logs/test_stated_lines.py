"""Every line of the table of statements, in the spellings and behind the prefixes of the wild; what
lines say together; settings by NCCL's own grammar; wrong values and rows that an error cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swept import swept

from colltool.base.statements import word_table
from colltool.logs.debug_conclusions import stated_together
from colltool.logs.debug_record import DebugLines
from colltool.logs.nccl_debug import debug_lines
from colltool.logs.nccl_settings import (
    ALGORITHMS,
    PROTOCOLS,
    Setting,
    SettingsReader,
    allowed_by_list,
    stated_by,
)
from colltool.logs.stated import StatedLine, line_rules, stated_in
from tests.test_english import HABITS

# launchers, collectors and versions put these before a message
PREFIXES = (
    "",
    "n1:70:71 [0] NCCL INFO ",
    "8gpu-n1.lab:70:71 [-1] NCCL INFO ",
    "[1,0]<stdout>:n1:70:71 [0] NCCL INFO ",
    "[1,15]<stderr>: n1:70:71 [7] ",
    "0: n1:70:71 [0] NCCL INFO ",
    "12: ",
    "[pod/worker-0/main] n1:70:71 [0] NCCL INFO ",
    "2026-01-05T10:11:12.123Z n1:70:71 [0] NCCL INFO ",
    "[2026-01-05 10:11:12] n1:70:71 [0] ",
    "(RayWorker pid=99, ip=10.0.0.9) n1:70:71 [0] NCCL INFO ",
    "\x1b[36m[rank3]:\x1b[0m ",
    "| 2026-01-05 10:11:12 | algo-1:70:71 [0] ",
)
# NCCL's names of collectives in a list per collective
COLLECTIVES = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
PLACES = ("", "transport/net_ib.cc:99 ", "/build/hipify/src/transport/net_ib/p2p.cc:1099 ")

# spellings by version and program; what varies is between | and |
LINES: dict[str, tuple[str, ...]] = {
    "out-of-bounds": ("# Out of bounds values : 3 FAILED", " Out of bounds values : 50 FAILED"),
    "xid": (
        "kernel: NVRM: Xid (PCI:0000:4d:00): 79, pid=1, GPU has fallen off the bus.",
        "NVRM: Xid (0000:4d:00): 79, GPU has fallen off the bus.",
    ),
    "illegal-memory-access": (
        "n1: Test CUDA failure common.cu:389 'an illegal memory access was encountered'",
        "NCCL WARN Cuda failure 'an illegal memory access was encountered'",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "NCCL WARN HIP failure 'hipErrorIllegalAddress'",
    ),
    "misaligned": ("NCCL WARN Cuda failure 716 'misaligned address'",),
    "ecc": ("RuntimeError: CUDA error: uncorrectable ECC error encountered",),
    "nvlink-error": ("CUDA error: uncorrectable NVLink error detected during the execution",),
    "fabric-manager": (
        "NCCL WARN Cuda failure 802 'system not yet initialized'",
        "CUDA initialization: system not yet initialized",
    ),
    "nvls-bind": (
        "NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error"
        " 401 'the operation cannot be performed in the present state'",
        "Failed to bind NVLink SHARP (NVLS) Multicast memory: CUDA error 401",
    ),
    "nvls-failed": ("transport/nvls.cc:598 NCCL WARN Cuda failure 1 'invalid argument'",),
    "driver-mismatch": ("NCCL WARN nvmlInit() failed: Driver/library version mismatch",),
    "imex": (
        "NCCL WARN Cuda failure 800 'operation not permitted'",
        "NCCL WARN IMEX channel is not there",
    ),
    "driver-too-old": (
        "NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
        "Test CUDA failure common.cu:892 'CUDA driver is a stub library'",
    ),
    "no-kernel": ("CUDA error: no kernel image is available for execution on the device",),
    "no-device": (
        "n1: Test CUDA failure common.cu:892 'invalid device ordinal'",
        "NCCL WARN Cuda failure 'no CUDA-capable device is detected'",
    ),
    "launch-failure": ("NCCL WARN Cuda failure 'unspecified launch failure'",),
    "launch-timeout": ("CUDA error: the launch timed out and was terminated",),
    "gpu-memory": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "NCCL WARN Cuda failure 2 'out of memory'",
        "n1: Test CUDA failure common.cu:892 'out of memory'",
    ),
    "peer-access": ("NCCL WARN Cuda failure 217 'peer access is not supported between devices'",),
    "duplicate-gpu": (
        "NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
        "NCCL WARN Duplicate GPU detected : rank 3 and rank 7 both on device c1000",
    ),
    "ib": (
        "NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
        "NCCL WARN NET/IB : Got completion from peer 10.1.0.2<4> with error 12, opcode 0, len 0,"
        " vendor err 129 (Recv) localGid ::ffff:10.1.5.2 remoteGid ::ffff:10.1.9.4",
        "NCCL WARN NET/IB: Got completion from peer 10.1.0.5<4> with status=12 opcode=129 len=0"
        " vendor err 129 (Send) hca mlx5_0",
        "NCCL WARN NET/IB: Got completion from peer 10.1.0.5<4> with"
        " status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129",
        " Failed status 12: wr_id 0 syndrom 0x81",
        "[[1,2],0][btl_openib_component.c:3] from n1 to: n2 error polling LP CQ with status RETRY"
        " EXCEEDED ERROR status number 12 for wr_id 1",
    ),
    "ucx-retry": (
        "ib_mlx5_log.c:171  Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)",
    ),
    "ucx-rnr": ("ib_mlx5_log.c:171  RNR retry count exceeded on mlx5_1:1/IB (synd 0x16)",),
    "modify-qp-timeout": (
        "NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
        "NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110",
        "NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_bond_0:1,"
        " curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.22.12",
    ),
    "modify-qp-invalid": (
        "NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
        "NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1",
    ),
    "modify-qp-no-data": (
        "NCCL WARN Call to ibv_modify_qp failed with error No data available errno 61",
        "NCCL WARN Call to ibv_modify_qp failed with 61 No data available, on dev mlx5_0:1",
    ),
    "modify-qp-unreachable": (
        "NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
        "NCCL WARN Call to ibv_modify_qp failed with 113 No route to host, on dev mlx5_0:1",
    ),
    "modify-qp-no-device": (
        "NCCL WARN Call to ibv_modify_qp failed with error No such device",
        "ibv_modify_qp failed (errno 19) (Ib failure: No such device)",
    ),
    "modify-qp-memory": (
        "NCCL WARN Call to ibv_modify_qp failed with error Cannot allocate memory",
    ),
    "modify-qp": ("NCCL WARN Call to ibv_modify_qp failed with error Remote I/O error",),
    "register-memory": (
        "NCCL WARN Call to ibv_reg_mr failed",
        "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        "NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
    ),
    "create-qp": ("NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory",),
    "ib-event": ("NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",),
    "link-down": ("kernel: mlx5_core 0000:1b:00.0 ib0: Link down",),
    "ucx-no-device": (
        "ucp_context.c:774  UCX  WARN  network device 'mlx5_9:1' is not available, please use one",
    ),
    "ucx-error": ("ib_md.c:309  UCX  ERROR mlx5dv_devx_obj_create(QP) failed",),
    "efa-error": (
        "libfabric:45:17085::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: Invalid"
        " address My EFA addr: fi_addr_efa://[fe80::1]",
        "NCCL WARN NET/OFI Request 0x7 completed with error. RC: 113. Error: 15 (Unresponsive"
        " remote)",
    ),
    "ofi-request": (
        "NCCL WARN NET/OFI Request 0x7f completed with error. RC: 107. Error: 4107 (Transport"
        " endpoint is not connected)",
        "NCCL WARN NET/OFI Request 0x7f completed with error. RC: 21. Error: unknown error",
    ),
    "ofi-no-provider": (
        "NCCL INFO NET/OFI No eligible providers were found",
        "libfabric:85:1747::core:core:fi_getinfo_():1392<warn> fi_getinfo: provider efa output empty"
        " list",
    ),
    "ofi-no-rdma": (
        "libfabric:462:16730:efa:core:rxr_info_to_rxr():506<warn> FI_HMEM capability requires RDMA,"
        " which this device does not support.",
        "NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR",
    ),
    "ofi-failed": ("NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",),
    "no-algorithm": (
        "NCCL WARN Error : no algorithm/protocol available",
        "NCCL WARN Error : no algorithm/protocol available for function AllReduce with datatype"
        " ncclFloat32. NCCL_ALGO was set to nvls.",
    ),
    "invalid-setting": (
        "NCCL WARN Invalid value for NCCL_NET_GDR_LEVEL : FOO",
        "NCCL INFO Unknown algorithm in NCCL_ALGO",
    ),
    "truncated": (
        "NCCL WARN NET/Socket : peer 10.0.0.2<4> message truncated : receiving 8 bytes instead of 4",
    ),
    "invalid-call": (
        "NCCL WARN AllReduce : sendbuff 0x7f is not a valid pointer",
        "NCCL WARN Broadcast : invalid root 9 (root should be in the 0..8 range)",
    ),
    "open-files": ("NCCL WARN Call to socket failed : Too many open files",),
    "port-in-use": ("RuntimeError: The server socket has failed to bind. Address already in use",),
    "mismatch": ("NCCL WARN Mismatched collective detected, please check your calls",),
    "shared-memory": (
        "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-1 (size 9637888)",
        "NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl- (size 19), error:"
        " No such file or directory (2)",
        "NCCL WARN Call to posix_fallocate failed : No space left on device",
    ),
    "no-interface": (
        "NCCL WARN Bootstrap : no socket interface found",
        "NCCL WARN NET/Socket : no interface found",
        "NCCL WARN Error: network AWS Libfabric not found.",
    ),
    "connect-retry": ("NCCL INFO Call to connect returned Connection refused, retrying",),
    "connect-refused": (
        "NCCL WARN Net : Connect to 10.0.0.2<4> failed : Connection refused",
        "NCCL WARN socketStartConnect: Connect to 10.0.0.2<4> failed : No route to host",
        "NCCL WARN socketStartConnect: Connect to 10.0.0.2<4> failed : Software caused connection"
        " abort",
    ),
    "connection-closed": (
        "NCCL WARN Net : Connection closed by remote peer n2<5>",
        "NCCL WARN socketProgress: Connection closed by remote peer n2<5>",
        "NCCL WARN NET/Socket : peer 10.0.0.2 message: Connection reset by peer",
        "ncclRemoteError: A call failed possibly due to a network error",
    ),
    "bootstrap": ("NCCL WARN Bootstrap Root : rank 1 of 2 ranks has already checked in",),
    "cuda-failure": (
        "NCCL WARN Cuda failure 'initialization error'",
        "NCCL WARN Cuda failure 999 'unknown error'",
        "n1: Test CUDA failure common.cu:892 'unknown error'",
        "NCCL WARN HIP failure 'shared object initialization failed'",
    ),
    "unhandled-cuda": (
        "n1: Test NCCL failure common.cu:961 'unhandled cuda error (run with NCCL_DEBUG=INFO for"
        " details)'",
        "n1: Test NCCL failure all_reduce.cu:1005 'unhandled cuda error / '",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
    ),
    "unhandled-system": (
        "n1: Test NCCL failure common.cu:958 'unhandled system error'",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
    ),
    "internal-error": (
        "Test NCCL failure common.cu:958 'internal error - please report this issue'",
        "ncclInternalError: Internal check failed.",
    ),
    "invalid-usage": (
        "Test NCCL failure common.cu:958 'invalid usage (run with NCCL_DEBUG=WARN for details)'",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    ),
    "tests-failure": (" .. n1 pid 62767: Test failure common.cu:519", "NCCL error test.cu:3 '5'"),
    "watchdog-timeout": (
        "[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught collective operation timeout:"
        " WorkNCCL(SeqNum=21, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for"
        " 600029 milliseconds before timing out.",
    ),
    "watchdog": (
        "[E ProcessGroupNCCL.cpp:475] [Rank 0] Watchdog caught collective operation timeout:"
        " WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800116 milliseconds",
        "[PG 0 Rank 1] Heartbeat monitor timed out! Process will be terminated",
    ),
    "aborted": (
        "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA",
        "To avoid data inconsistency, we are taking the entire process down.",
        "RuntimeError: NCCL communicator was aborted on rank 3.",
    ),
    "store-timeout": (
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients."
        " TCPStore wait timed out",
        "RuntimeError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
    ),
    "dist-backend": ("torch.distributed.DistBackendError: NCCL failed in: ProcessGroup.cpp:1",),
    "killed": (
        "mpirun noticed that process rank 3 with PID 7 on node n1 exited on signal 9 (Killed).",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.",
    ),
    "signal": (
        "[n9:80:0:81] Caught signal 11 (Segmentation fault: address not mapped to object)",
        "mpirun noticed that process rank 3 with PID 7 on node n1 exited on signal 7 (Bus error).",
    ),
    "time-limit": (
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-05T10:11:12 DUE TO TIME LIMIT",
    ),
    "mpi-abort": (
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
        "srun: error: n1: task 3: Exited with exit code 2",
        "Process name: [[1,1],3]; exited with non-zero status, thus causing the job to end",
    ),
    "missing-kernel-option": (
        'NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity'
        " or hang!",
        'NCCL WARN Missing "amd_iommu=on" from kernel command line which can lead to hang!',
    ),
    "missing-variable": (
        'NCCL WARN Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment which can lead to low'
        " RCCL performance",
    ),
    "numa-balancing": (
        "NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL"
        ' performance! Disable by "sudo sysctl kernel.numa_balancing=0"',
    ),
    "acs": ("NCCL WARN PCI ACS is enabled on this path",),
    "ignored-setting": ("NCCL WARN NCCL_IB_SL is deprecated, ignoring it",),
    "loopback": ("Bootstrap : Using lo:127.0.0.1<0>", "NET/Socket : Using [0]lo:127.0.0.1<0>"),
    "ib-no-device": ("NET/IB : No device found.", "NET/IB: No device found."),
    "version": ("NCCL version 2.28.9+cuda13.0", "RCCL version 2.20.5+hip6.2 HEAD:d380693+"),
    "warn-failed": ("NCCL WARN Could not frobnicate 7", "NCCL WARN frobnicate failed"),
    "warn": ("NCCL WARN That is no news: 7",),
}  # fmt: skip


def code_of(text: str) -> str:
    found = stated_in(text)
    return found.rule.code if found else ""


def test_every_row_of_the_table_has_lines() -> None:
    assert {rule.code for rule in line_rules()} == LINES.keys()


@swept("code", LINES)
def test_a_line_is_known_behind_every_prefix(code: str, tmp_path: Path) -> None:
    for line in LINES[code]:
        for prefix in PREFIXES:
            # what NCCL itself says has INFO or WARN once
            before = prefix.removesuffix("NCCL INFO ") if "NCCL " in line else prefix
            found = read(tmp_path, before + line)
            codes = [stated.code for stated in found.stated if stated.code != "setting"]
            assert codes == [code], before + line
            assert not any(mark in found.stated[0].quoted for mark in ("n1:70", "<stdout>", "\x1b"))


@swept("place", PLACES)
@swept("code", LINES)
def test_places_in_the_source_change_nothing(code: str, place: str) -> None:
    for line in LINES[code]:
        if line.startswith("NCCL WARN"):
            assert code_of(f"n1:70:71 [0] {place}{line}") == code


def test_words_name_their_fields() -> None:
    for code, lines in LINES.items():
        for line in lines:
            found = stated_in(line)
            assert found, line
            stated = found.stated(line, "f.log", 1)
            assert stated.means, code
            assert stated.do or stated.kind == "fact", code


STATUSES = {4: "protection", 5: "flushed", 9: "invalid", 10: "access", 11: "operation", 13: "ready"}


@swept("status", range(1, 24))
def test_completion_status_is_told_by_its_number(status: int, tmp_path: Path) -> None:
    spellings = (
        f"NCCL WARN NET/IB : Got completion with error {status}, opcode 12, len 5, vendor err 129",
        f"NCCL WARN NET/IB: Got completion from peer 10.0.12.5<12> with status={status} opcode=12",
        f"NCCL WARN NET/IB: Got completion from peer 10.0.12.5<1> with status=IBV_WC_X({status}) op",
    )
    for line in spellings:
        (stated,) = read(tmp_path, line).stated
        assert stated.kind == "failed"
        assert f"status {status}" in stated.means
        assert STATUSES.get(status, "") in stated.means


@swept(
    ("number", "word"),
    [(79, "fallen off"), (74, "NVLink"), (48, "ECC"), (94, "ECC"), (31, "kernel"), (119, "GSP"), (62, "driver")],
)  # fmt: skip
def test_xid_is_told_by_its_number(number: int, word: str, tmp_path: Path) -> None:
    for line in (
        f"NVRM: Xid (PCI:0000:4d:00): {number}, pid='<unknown>', name=x",
        f"[ 12.3] NVRM: Xid (0000:79:00): {number}, Ch 1",
    ):
        (stated,) = read(tmp_path, line).stated
        assert f"Xid {number}: " in stated.means
        assert word in stated.means


def read(folder: Path, *lines: str) -> DebugLines:
    path = folder / "debug.log"
    path.write_text("\n".join(lines) + "\n")
    return debug_lines([path])


def codes(found: DebugLines) -> list[str]:
    return [stated.code for stated in stated_together(found)]


# --- ordinary text


@swept(
    "line",
    [
        "NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
        "NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
        "NCCL INFO comm 0x55 rank 0 nranks 16 cudaDev 0 busId 101c0 - Init COMPLETE",
        "NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1",
        "NCCL INFO Connected all rings, use ring PXN 0 GDR 1",
        "# Out of bounds values : 0 OK",
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) validation: 1 graph: 0",
        "     1048576        262144     float     sum      -1   196.78    5.33    9.99       0",
        "job completed without an error",
        "timeout set to 600 s",
        "retries 12, completion of all ranks",
    ],
)
def test_ordinary_lines_state_nothing(line: str, tmp_path: Path) -> None:
    for prefix in PREFIXES:
        before = prefix.removesuffix("NCCL INFO ") if "NCCL " in line else prefix
        assert not read(tmp_path, before + line).stated


# --- failures that did not end a run


def test_a_warning_before_the_end_of_a_run_failed_nothing(tmp_path: Path) -> None:
    warn = "n1:7:7 [0] NCCL WARN Call to ibv_reg_mr failed"
    end = "# Avg bus bandwidth    : 100.0"
    (before,) = read(tmp_path, warn, end).stated
    (after,) = read(tmp_path, end, warn).stated
    assert (before.kind, after.kind) == ("warning", "failed")


def test_what_came_first_is_named_first(tmp_path: Path) -> None:
    lines = (
        "n1: Test NCCL failure common.cu:958 'unhandled system error'",
        "n2:7:7 [0] NCCL WARN Net : Connection closed by remote peer n1<5>",
        "n1:7:7 [0] NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 1",
    )
    first, *rest = stated_together(read(tmp_path, *lines))
    assert (first.code, first.line, first.host) == ("ib", 3, "n1")
    assert all(stated.follows for stated in rest)


# --- settings


def spelled(name: str, value: str) -> Iterator[str]:
    """A setting in the ways that logs have it."""
    yield f"n1:7:7 [0] NCCL INFO {name} set by environment to {value}"
    yield f"{name} set by environment to {value}."
    yield f"n1:7:7 [0] NCCL INFO {name} set to {value}"
    yield f"export {name}='{value}'"
    yield f'export {name}="{value}"; ./all_reduce_perf -b 8'
    yield f'os.environ["{name}"] = "{value}"'
    yield f'      "{name}": "{value}",' if "," not in value else f'{name}="{value}"'
    if ";" not in value:
        escaped = value.replace(",", "\\,")
        yield f"mpirun -np 2 -x NCCL_DEBUG=INFO -x {name}={value} -x NCCL_TOPO_FILE=a ./b -g 1"
        yield f"mpirun -x {name}={escaped} ./b"
        yield f"srun --export=ALL,{name}={value},NCCL_DEBUG=INFO ./b"
        yield f"mpiexec -genv {name} {value} ./b" if "=" not in value else f"{name}={value} ./b"


VALUES = {
    "NCCL_ALGO": (
        "Ring",
        "Tree,Ring,NVLS",
        "^NVLS,NVLSTree",
        "allreduce:tree,ring;allgather:^ring",
    ),
    "NCCL_PROTO": ("LL", "^LL128", "LL,LL128", "^LL128;allreduce:LL128"),
    "NCCL_IB_HCA": ("mlx5_0:1", "=mlx5_0:1,mlx5_1:1", "^mlx5_2", "mlx5"),
    "NCCL_SOCKET_IFNAME": ("eth0", "^docker0,lo", "=bond0"),
    "NCCL_P2P_LEVEL": ("NVL", "SYS"),
    "NCCL_IB_TIMEOUT": ("22",),
}


@swept("name", VALUES)
def test_a_setting_is_read_as_it_stands(name: str) -> None:
    for value in VALUES[name]:
        for line in spelled(name, value):
            found = {setting.name: setting.value for setting in SettingsReader().take(line)}
            assert found.get(name) == value, line


def test_settings_of_yaml_stand_on_two_lines() -> None:
    reader = SettingsReader()
    lines = ("  - name: NCCL_P2P_DISABLE", '    value: "1"', "  - name: OTHER", "    value: 2")
    found = [setting.text for line in lines for setting in reader.take(line)]
    assert found == ["NCCL_P2P_DISABLE=1"]


@swept(
    "line",
    [
        "Disable NVLS (NCCL_NVLS_ENABLE=0) if you wish to avoid this error in the future.",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "# export NCCL_P2P_DISABLE=1",
        "n1:7:7 [0] NCCL WARN try NCCL_P2P_DISABLE=1",
        "You could try NCCL_IB_DISABLE=1.",
    ],
)
def test_advice_sets_nothing(line: str) -> None:
    assert not list(SettingsReader().take(line))


def test_what_a_plugin_sets_itself_is_a_fact(tmp_path: Path) -> None:
    line = 'n1:7:7 [0] NCCL INFO NET/OFI Setting NCCL_PROTO to "simple"'
    found = read(tmp_path, line)
    assert dict(found.env) == {"NCCL_PROTO": "simple"}
    assert found.stated[0].kind == "fact"


words = st.sampled_from
lists = st.tuples(st.booleans(), st.lists(words(ALGORITHMS), min_size=1, max_size=7, unique=True))


def _text(excludes: bool, names: list[str], blanks: list[int], upper: bool) -> str:
    cells = list(names)
    for at in blanks:
        cells.insert(at % (len(cells) + 1), "")
    text = ",".join(cells)
    if upper:
        text = text.upper()
    return "^" + text if excludes else text


@given(
    parts=st.dictionaries(words(("", *COLLECTIVES)), lists, min_size=1, max_size=4),
    blanks=st.lists(st.integers(0, 9), max_size=2),
    upper=st.booleans(),
)
def test_lists_allow_what_nccl_allows(
    parts: dict[str, tuple[bool, list[str]]], blanks: list[int], upper: bool
) -> None:
    pieces = []
    for collective, (excludes, names) in parts.items():
        text = _text(excludes, names, blanks, upper)
        pieces.append(f"{collective}:{text}" if collective else text)
    allowed = allowed_by_list(";".join(pieces), ALGORITHMS)
    for collective in COLLECTIVES:
        excludes, names = parts.get(collective, parts.get("", (True, [])))
        want = {name for name in ALGORITHMS if (name in names) != excludes}
        assert set(allowed.get(collective, allowed.get("", ALGORITHMS))) == want


@swept(
    ("text", "kind", "cause"),
    [
        ("NCCL_ALGO=Ring", "cause", "algorithm-ring"),
        ("NCCL_ALGO=tree", "cause", "algorithm-tree"),
        ("NCCL_ALGO=allreduce:ring", "cause", "algorithm-ring"),
        ("NCCL_ALGO=^Ring", "setting", ""),
        ("NCCL_ALGO=Tree,Ring", "setting", "nvls-off"),
        ("NCCL_ALGO=^NVLS,NVLSTree", "setting", "nvls-off"),
        ("NCCL_ALGO=Tree,Ring,NVLS", "setting", ""),
        ("NCCL_ALGO=NVLS", "setting", ""),
        ("NCCL_ALGO=fancy", "setting", ""),
        (f"NCCL_ALGO={','.join(ALGORITHMS)}", "fact", ""),
        ("NCCL_PROTO=LL", "cause", "protocol-ll"),
        ("NCCL_PROTO=ll,ll128", "cause", "protocol-ll"),
        ("NCCL_PROTO=Simple", "setting", ""),
        ("NCCL_PROTO=^LL128", "setting", ""),
        (f"NCCL_PROTO={','.join(PROTOCOLS)}", "fact", ""),
        ("NCCL_IB_HCA=mlx5_0", "cause", "rails"),
        ("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", "cause", "rails"),
        ("NCCL_IB_HCA=mlx5", "fact", "rails"),
        ("NCCL_IB_HCA=^mlx5_2", "fact", "rails"),
        ("NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3", "fact", "rails"),
        ("NCCL_P2P_DISABLE=1", "cause", "pcie"),
        ("NCCL_P2P_DISABLE=0", "fact", ""),
        ("NCCL_P2P_LEVEL=LOC", "cause", "pcie"),
        ("NCCL_P2P_LEVEL=nvl", "setting", ""),
        ("NCCL_SHM_DISABLE=1", "setting", ""),
        ("NCCL_IB_DISABLE=1", "cause", "sockets"),
        ("NCCL_NET=Socket", "cause", "sockets"),
        ("NCCL_NET=IB", "fact", ""),
        ("NCCL_NET_GDR_LEVEL=SYS", "setting", ""),
        ("NCCL_NET_GDR_LEVEL=PHB", "fact", ""),
        ("NCCL_NET_GDR_LEVEL=0", "cause", "gpudirect"),
        ("NCCL_NVLS_ENABLE=0", "cause", "nvls-off"),
        ("NCCL_MAX_NCHANNELS=2", "setting", ""),
        ("NCCL_MAX_NCHANNELS=32", "fact", ""),
        ("NCCL_SOCKET_IFNAME=lo", "setting", ""),
        ("NCCL_SOCKET_IFNAME=eth0", "fact", ""),
        ("FI_PROVIDER=tcp;ofi_rxm", "cause", "sockets"),
        ("FI_PROVIDER=efa", "fact", ""),
        ("NCCL_WHATEVER=7", "fact", ""),
    ],
)
def test_a_value_states_its_cause(text: str, kind: str, cause: str) -> None:
    name, _, value = text.partition("=")
    found = stated_by(Setting(name, value), "f.log", 3)
    assert (found.kind, found.cause, found.quoted, found.where) == (kind, cause, text, "f.log:3")
    assert found.do or kind == "fact"


# --- what lines say together

LIBFABRIC = "n1:7:7 [{gpu}] NCCL INFO Channel {channel} : {a}[{gpu}] -> {b}[0] [send] via NET/{net}"


@swept(
    ("net", "nics", "code", "direct"),
    [
        ("AWS Libfabric/{nic}", 1, "nic-single", False),
        ("AWS Libfabric/{nic}/GDRDMA", 1, "nic-single", True),
        ("AWS Libfabric/{nic}/GDRDMA(PCI)", 4, "", True),
        ("IB/{nic}/GDRDMA", 4, "", True),
        ("IB/{nic}(8)/GDRDMA/Shared", 4, "", True),
        ("IBext_v8/{nic}", 1, "nic-single", False),
        ("FasTrak:{nic}", 2, "", False),
    ],
)
def test_nics_that_carry(net: str, nics: int, code: str, direct: bool, tmp_path: Path) -> None:
    lines = []
    for gpu in range(4):
        via = net.format(nic=gpu % nics)
        lines.append(LIBFABRIC.format(gpu=gpu, channel=gpu, a=gpu, b=gpu + 8, net=via))
    found = read(tmp_path, *lines)
    assert (found.carrying, found.gpus, found.gpudirect) == (nics, 4, direct)
    said = codes(found)
    assert ("nic-single" in said) is (code == "nic-single")
    assert ("no-gpudirect" in said) is not direct


@swept(
    ("provider", "code"),
    [
        ("efa", "provider"),
        ("efa, fabric is efa (found 4 nics)", "provider"),
        ("verbs;ofi_rxm", "provider"),
        ("cxi", "provider"),
        ("sockets", "provider-tcp"),
        ("tcp", "provider-tcp"),
        ("tcp;ofi_rxm", "provider-tcp"),
        ("udp", "provider-tcp"),
    ],
)
def test_providers(provider: str, code: str, tmp_path: Path) -> None:
    for word in ("Provider", "provider"):
        found = read(tmp_path, f"n1:7:7 [0] NCCL INFO NET/OFI Selected {word} is {provider}")
        assert codes(found) == [code]


@swept("second", ["IB", "RoCE"])
@swept("tail", ["", " [RO]; OOB ib0:10.0.0.1<0>", " ; OOB eth0:10.0.0.1<0>"])
def test_links_of_nics(second: str, tail: str, tmp_path: Path) -> None:
    line = f"n1:7:7 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/{second}{tail}"
    assert codes(read(tmp_path, line)) == ["nics-mixed" if second == "RoCE" else "nics"]


@pytest.mark.parametrize("speeds", [(200000, 200000), (400000, 100000)])
def test_speeds_of_nics(speeds: tuple[int, int], tmp_path: Path) -> None:
    lines = [
        f"n1:7:7 [0] NCCL INFO NET/IB: [{at}] mlx5_{at}:uverbs{at}:1/RoCE provider=Mlx5"
        f" speed={speed} context=0x55 pciPath=/sys/x ar=0"
        for at, speed in enumerate(speeds)
    ]
    found = stated_together(read(tmp_path, *lines))
    differ = speeds[0] != speeds[1]
    assert [stated.code for stated in found if "speed" in stated.code] == [
        "nic-speeds-differ" if differ else "nic-speeds"
    ]
    assert any(f"{speeds[0] // 1000} Gb/s" in stated.means for stated in found)


@swept("collnet", ["", "16 collnet channels, "])
@swept(
    ("lines", "code"),
    [
        ((), "no-nvls"),
        (("NCCL_ALGO set by environment to Tree,NVLS",), "no-nvls-wanted"),
        (("NVLS multicast support is available on dev 0",), "no-nvls-possible"),
        (("NVLS multicast support is not available on dev 0",), "no-multicast"),
        (("NCCL_ALGO set by environment to Ring",), "no-nvls"),
    ],
)
def test_no_nvls_channels(collnet: str, lines: tuple[str, ...], code: str, tmp_path: Path) -> None:
    channels = f"16 coll channels, {collnet}0 nvls channels, 16 p2p channels"
    found = read(tmp_path, *(f"n1:7:7 [0] NCCL INFO {line}" for line in (*lines, channels)))
    assert code in codes(found)


def test_a_network_over_rdma_needs_no_infiniband_of_nccl(tmp_path: Path) -> None:
    disabled = "n1:7:7 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1."
    plugin = "n1:7:7 [0] NCCL INFO Using network AWS Libfabric"
    assert "sockets" in {stated.cause for stated in stated_together(read(tmp_path, disabled))}
    both = stated_together(read(tmp_path, disabled, plugin))
    assert all(stated.kind == "fact" for stated in both)


@swept(
    ("line", "code"),
    [
        ("GPU Direct RDMA Disabled for GPU 1d000 / HCA 0 (distance 5 > 4)", "gpudirect-far"),
        ("GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "no-gpudirect"),
        ("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "no-gpudirect"),
        ("GPU Direct RDMA Enabled for GPU 1d000 / HCA 1 (distance 3 <= 4), read 1", "gpudirect"),
        ("DMA-BUF is available on GPU device 0", "gpudirect"),
    ],
)
def test_gpudirect(line: str, code: str, tmp_path: Path) -> None:
    assert codes(read(tmp_path, f"n1:7:7 [0] NCCL INFO {line}")) == [code]


@pytest.mark.parametrize("complete", [0, 1])
def test_ranks_that_never_finish_to_initialize(complete: int, tmp_path: Path) -> None:
    start = "n1:7:7 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 16 - Init START"
    lines = [start, start.replace("START", "COMPLETE")][: 1 + complete]
    assert ("init-unfinished" in codes(read(tmp_path, *lines))) is (not complete)


def test_what_nccl_picks(tmp_path: Path) -> None:
    picks = ("8 Bytes -> Algo TREE proto LL time 9.1", "1048576 Bytes -> Algo RING proto SIMPLE t")
    lines = [f"n1:7:7 [0] NCCL INFO AllReduce: {pick}" for pick in reversed(picks)]
    (stated,) = stated_together(read(tmp_path, *lines))
    assert stated.means == "NCCL picks TREE LL from 8 B and RING SIMPLE from 1 MiB"


# --- wrong values

HALF = "     time   algbw   busbw #wrong"
HEADER = f"#       size         count      type   redop    root{HALF}{HALF}"
ROW = (
    "{size:>12} {count:>13}     float     sum      -1    101.5    9.92   17.36 {out:>6}"
    "    101.4    9.93   17.38 {inside:>6}"
)


def table(wrong: dict[int, tuple[object, object]], rows: int) -> list[str]:
    lines = [HEADER]
    for at in range(rows):
        size = 1024 << at
        out, inside = wrong.get(at, (0, 0))
        lines.append(ROW.format(size=size, count=size // 4, out=out, inside=inside))
    return lines


@given(
    wrong=st.dictionaries(
        st.integers(0, 7),
        st.tuples(words([0, 3, "N/A"]), words([0, 250, "N/A"])),
        max_size=3,
    ),
    prefix=words(["", "0: ", "[1,0]<stdout>:", "2026-01-05T10:11:12Z stdout F ", "[rank0]: "]),
)
def test_wrong_values_are_found_in_any_row(
    wrong: dict[int, tuple[object, object]], prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [prefix + line for line in table(wrong, 8)]
    found = read(tmp_path_factory.mktemp("w"), *lines).stated
    counts = {at: [n for n in pair if isinstance(n, int) and n] for at, pair in wrong.items()}
    want = {f"{2**at} KiB" for at, numbers in counts.items() if numbers}
    assert {stated.quoted.partition(" at ")[2] for stated in found} == want
    assert all(stated.kind == "wrong" for stated in found)


def test_meanings_are_short_and_plain() -> None:
    """Marks of a renderer and of Python's formats do not come through."""
    everything: list[StatedLine] = []
    for lines in LINES.values():
        for line in lines:
            found = stated_in(line)
            assert found
            everything.append(found.stated(line, "f.log", 1))
    for stated in everything:
        assert not re.search(r"[\ue000-\uf8ff{}]", stated.means + stated.do)
        assert len(stated.means) < 260


@swept("file", ["stated_lines", "stated_settings", "stated_conclusions"])
def test_the_tables_are_english(file: str) -> None:
    for section in word_table("colltool.logs", f"{file}.toml").values():
        for row in section if isinstance(section, list) else [section]:
            for key in ("means", "do"):
                text = row.get(key, "")
                found = [name for name, habit in HABITS.items() if re.search(habit, text)]
                assert not found, f"{found}: {text}"
                assert not text.endswith("."), text
