"""Other benchmarks' output as their own programs print it, and JSON that records calls, each as
points of a series."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AR, P2P, Primitive
from colltool.logs.read import read_logs
from colltool.logs.series import Series

IMB = """#----------------------------------------------------------------
# Benchmarking Alltoall
# #processes = 16
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.03         0.05         0.03
        65536          640       120.10       130.30       125.00
"""
PINGPONG = """# Benchmarking PingPong
# #processes = 2
       #bytes #repetitions      t[usec]   Mbytes/sec
         1024         1000         2.50       409.60
"""
OSU_BW = """# OSU MPI Bandwidth Test v7.4
# Size      Bandwidth (MB/s)
1                       2.32
4194304             25000.00
"""
OSU_PAIRS = """# OSU MPI Multiple Bandwidth / Message Rate Test v7.4
# [ pairs: 4 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
4194304            100000.00          23841.86
"""
PERFTEST = """                    RDMA_Write BW Test
 Number of qps   : 8            Transport type : IB
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 2          5000           0.05               0.05                 3.1
 65536      1765470        185.37             184.00               0.352743
"""
STAS = """| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|   16MiB |  93.93GBps |  48.48GBps |
|   32MiB |  98.34GBps |  50.76GBps |
"""
NCCOM = """nccom-test allr -r 32
    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)
   33554432         8388608    fp32          1000.0          33.55          65.01
"""
TORCHCOMMS = """Size      NCCL(auto)  NCCLRing   Ctran
256KB           1.77      0.45    0.63
1MB             3.65      1.71    2.53
"""


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def series(text: str, **stated: Any) -> Series:
        (tmp_path / "a.log").write_text(text)
        (one,) = read_logs([tmp_path / "a.log"], **stated).series
        return one

    return series


@swept(
    ("text", "primitive", "ranks", "sized", "us"),
    [
        (IMB, A2A, 16, 65536 * 16, 125.0),
        (PINGPONG, P2P, 2, 1024, 2.5),
        (OSU_BW, P2P, 2, 64 * 4194304, 64 * 4194304 / 25e3),
        (OSU_PAIRS, P2P, 2, 64 * 4194304, 64 * 4194304 / 25e3),
        (PERFTEST, P2P, 2, 65536 * 1765470, 65536 * 1765470 / 23e3),
        (STAS, AR, 32, 32 * 2**20, 32 * 2**20 / 50.76e3),
        (NCCOM, AR, 32, 33554432, 1000.0),
    ],
)
def test_a_table_is_points(
    read: Any, text: str, primitive: Primitive, ranks: int, sized: float, us: float
) -> None:
    one = read(text)
    assert (one.primitive, one.ranks, one.points[-1].bytes) == (primitive, ranks, sized)
    assert one.points[-1].seconds * 1e6 == pytest.approx(us, rel=1e-6)


def test_torchcomms_says_neither_ranks_nor_collective(read: Any) -> None:
    with pytest.raises(ColltoolError, match="does not say which collective"):
        read(TORCHCOMMS, ranks=4)
    one = read(TORCHCOMMS, ranks=4, primitive=AR)
    assert one.points[0].seconds == pytest.approx(2**18 / 1.77e9)


def test_a_perftest_alone_names_the_speed_of_its_nic(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(PERFTEST)
    result = colltool.doctor(tmp_path / "a.log")
    assert result.ok
    assert result.summary().startswith(
        "If this is dgx-a100 with 1 x 200G per host, it is healthy: "
    )
    (tmp_path / "a.log").write_text(PERFTEST.replace("184.00", "110.00"))
    slow = colltool.doctor(tmp_path / "a.log", "dgx-a100")
    assert slow.findings[0].causes[0].name == "network"


def inspector(rank: int, us: float, size: int = 2**30) -> dict[str, Any]:
    head = {"id": "0x7f", "rank": rank, "n_ranks": 8, "nnodes": 1}
    perf = {
        "coll": "AllReduce",
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": us,
        "coll_algobw_gbs": size / us / 1e3,
    }
    return {"header": head, "metadata": {"hostname": "a"}, "coll_perf": perf}


def test_inspector_has_a_record_a_line(read: Any) -> None:
    one = read(
        "\n".join(json.dumps(inspector(rank, 4000 + rank)) for rank in range(3))
        + '\n{"header": {"id":'
    )
    assert (one.primitive, one.ranks, one.nodes) == (AR, 8, 1)
    assert (one.points[0].bytes, one.points[0].repeats) == (2**30, 3)
    assert one.points[0].seconds == pytest.approx(4001e-6)


def test_the_profiler_has_begin_and_end(read: Any) -> None:
    args = {
        "SeqNum": 1,
        "CommHash": 1,
        "Rank": 0,
        "Count": 268435456,
        "Datatype": "ncclFloat32",
        "Algorithm": "RING",
    }
    begin = {
        "name": "AllReduce",
        "cat": "COLL",
        "ph": "b",
        "id": 0,
        "pid": 1,
        "tid": 1,
        "ts": 100.0,
        "args": args,
    }
    text = json.dumps([begin, {**begin, "ph": "e", "ts": 4100.0, "args": {}}, {}])
    with pytest.raises(ColltoolError, match="how many ranks"):
        read(text)
    one = read(text, ranks=8)
    assert (one.primitive, one.points[0].bytes, one.points[0].seconds) == (
        AR,
        2**30,
        pytest.approx(4e-3),
    )


def test_the_flight_recorder_has_groups_and_durations(read: Any) -> None:
    entry = {
        "pg_id": 0,
        "process_group": ["0", "default_pg"],
        "profiling_name": "nccl:all_reduce",
        "duration_ms": 0.5,
        "input_sizes": [[1024, 256]],
        "input_dtypes": ["BFloat16"],
        "state": "completed",
    }
    dump = {
        "version": "2.3",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
    }
    one = read(json.dumps({**dump, "entries": [entry, {**entry, "duration_ms": None}]}))
    assert (one.primitive, one.ranks, one.points[0].bytes) == (AR, 4, 1024 * 256 * 2)
    with pytest.raises(ColltoolError, match="without a call that has a size and a time"):
        read(json.dumps({**dump, "entries": [{**entry, "duration_ms": None}]}))


@swept("text", [IMB, OSU_BW, PERFTEST, STAS, NCCOM, json.dumps(inspector(0, 4000))])
@swept("cut", [0.3, 0.6, 0.9])
def test_half_a_file_is_refused_or_read(read: Any, text: str, cut: float) -> None:
    with suppress(ColltoolError):
        assert read(text[: int(len(text) * cut)]).points
