"""Logs of MPI benchmarks, perftest and ucc_perftest as their programs print them, made by generators
that vary version, options and what stands before each line: the rows come out, whatever surrounds
them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.logs.launch_line import Launches
from colltool.logs.log_file import unstamped
from colltool.logs.read import read_logs
from colltool.logs.series import Measurements, Series

SIZES = (1024, 65536, 4194304)
TIMES = (12.5, 47.25, 910.75)
MIB = 2**20

# what CI, containers and launchers put before each line of a program
STAMPS = {
    "nothing": "",
    "Jenkins": "00:55:22  ",
    "Jenkins, in brackets": "[2026-03-01T12:00:05.123Z] ",
    "GitHub Actions": "2026-03-01T12:00:05.1234567Z ",
    "a container engine": "2026-03-01T12:00:05.123456789Z stdout F ",
    "compose": "launcher-1  | ",
    "Kubernetes": "[pod/launcher-0/main] ",
    "Python's logging": "2026-03-01 12:00:05,123 - INFO - ",
    "syslog": "Mar 01 12:00:05 node7 srun[1234]: ",
    "mpirun --tag-output": "[1,0]<stdout>: ",
    "srun -l": "0: ",
    "a rank": "[rank0]: ",
    "a rank in words": "rank 0: ",
    "two of them": "2026-03-01T12:00:05Z [INFO] 0: ",
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Measurements]:
    def reader(text: str, **stated: Any) -> Measurements:
        path = tmp_path / "a.log"
        path.write_text(text)
        return read_logs([path], **stated)

    return reader


Reader = Callable[..., Measurements]


def stamped(text: str, stamp: str) -> str:
    return "".join(f"{stamp}{line}\n" for line in text.splitlines())


def rows_of(series: Series) -> list[tuple[float, float]]:
    return [(point.bytes, round(point.seconds * 1e6, 2)) for point in series.points]


# --- Intel MPI Benchmarks

IMB_NAMES = {
    "Allreduce": (AR, 1),
    "Allgather": (AG, 16),
    "Allgatherv": (AG, 16),
    "Alltoall": (A2A, 16),
    "Alltoallv": (A2A, 16),
    "Bcast": (BC, 1),
    "Reduce": (REDUCE, 1),
    "Reduce_scatter": (RS, 1),
    "Reduce_scatter_block": (RS, 16),
    "Sendrecv": (P2P, 1),
    "Iallreduce": (AR, 1),
    "Ialltoall_pure": (A2A, 16),
}
IMB_COLUMNS = {
    "t_min[usec]  t_max[usec]  t_avg[usec]": lambda time: (
        f"{time - 1:.2f} {time + 1:.2f} {time:.2f}"
    ),
    "t_min[usec]  t_max[usec]  t_avg[usec]   Mbytes/sec": lambda time: (
        f"{time - 1:.2f} {time + 1:.2f} {time:.2f} 99.00"
    ),
    "t_min[usec]  t_max[usec]  t_avg[usec]      defects": lambda time: (
        f"{time - 1:.2f} {time + 1:.2f} {time:.2f} 0.00"
    ),
    "t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]": lambda time: (
        f"{2 * time:.2f} {time:.2f} {time:.2f} 55.00"
    ),
}


def imb(name: str, columns: str, ranks: int = 16, waiting: bool = False) -> str:
    lines = [
        "#" + "-" * 60,
        f"# Benchmarking {name} ",
        f"# #processes = {ranks} ",
        *(["# ( 48 additional processes waiting in MPI_Barrier)"] * waiting),
        "#" + "-" * 60,
        f"       #bytes #repetitions  {columns}",
        f"            0         1000  {IMB_COLUMNS[columns](0.05)}",
    ]
    for size, time in zip(SIZES, TIMES, strict=True):
        lines.append(f"      {size:7d}          640  {IMB_COLUMNS[columns](time)}")
    return "\n".join([*lines, "", "# All processes entering MPI_Finalize", ""])


@swept("columns", IMB_COLUMNS)
@swept("name", IMB_NAMES)
def test_imb_of_every_benchmark_and_column(read: Reader, name: str, columns: str) -> None:
    (series,) = read(imb(name, columns, waiting=True)).series
    primitive, times = IMB_NAMES[name]
    assert (series.primitive, series.ranks, series.library) == (primitive, 16, "MPI")
    assert rows_of(series) == [
        (size * times, time) for size, time in zip(SIZES, TIMES, strict=True)
    ]


@swept("stamp", STAMPS.values())
def test_imb_behind_any_stamp(read: Reader, stamp: str) -> None:
    text = imb("Allreduce", next(iter(IMB_COLUMNS)))
    assert read(stamped(text, stamp)).series[0].points[-1].bytes == SIZES[-1]
    assert rows_of(read(stamped(text, stamp)).series[0]) == rows_of(read(text).series[0])


def test_imb_groups_of_npmin_are_series_each_on_their_hosts(read: Reader) -> None:
    columns = next(iter(IMB_COLUMNS))
    text = "mpirun -np 64 -ppn 16 -hosts a,b,c,d IMB-MPI1 Allreduce -npmin 16\n"
    text += "".join(imb("Allreduce", columns, ranks) for ranks in (16, 32, 64))
    found = read(text).series
    assert [(series.ranks, series.nodes) for series in found] == [(16, 1), (32, 2), (64, 4)]


PINGPONG = """# Benchmarking {name}
# #processes = 2
# ( 62 additional processes waiting in MPI_Barrier)
       #bytes #repetitions      t[usec]   Mbytes/sec
            0         1000         1.50         0.00
        65536          640        47.25      1387.00
"""


@swept("name", ["PingPong", "PingPing", "PingPongSpecificSource", "PingPingAnySource"])
@swept(("ppn", "nodes"), [(1, 2), (32, 1)])
def test_imb_messages_are_between_two(read: Reader, name: str, ppn: int, nodes: int) -> None:
    launch = f"srun -n 64 --ntasks-per-node={ppn} IMB-MPI1 {name}\n"
    (series,) = read(launch + PINGPONG.format(name=name)).series
    assert (series.primitive, series.ranks, series.nodes) == (P2P, 2, nodes)
    assert rows_of(series) == [(65536, 47.25)]


@pytest.mark.parametrize(("name", "ways"), [("Uniband", 1), ("Biband", 2)])
def test_imb_bandwidths_are_streams_of_pairs(read: Reader, name: str, ways: int) -> None:
    text = (
        f"# Benchmarking {name}\n# #processes = 8\n"
        "       #bytes #repetitions   Mbytes/sec      Msg/sec\n"
        "            1         1000         5.00      5000000\n"
        f"      4194304           10     80000.00        19073\n"
    )
    (series,) = read(text).series
    (point,) = series.points
    assert (series.primitive, series.ranks, point.shown_bytes) == (P2P, 2, 4194304)
    assert point.bytes / point.seconds == pytest.approx(80000e6 / 4 / ways)


GROUPS = """# Benchmarking Multi-Alltoall
# ( 4 groups of 8 processes each running simultaneous )
# Group  0:     0    1
        Group        #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]

            0          1024         1000        11.00        14.00        12.50
            1          1024         1000        11.00        14.00        13.50
"""


def test_imb_groups_that_ran_at_once_are_told(read: Reader) -> None:
    found = read(GROUPS)
    (series,) = found.series
    assert (series.primitive, series.ranks, series.points[0].repeats) == (A2A, 8, 2)
    assert rows_of(series) == [(8192, 13.0)]
    assert "4 groups ran this at the same time" in str(found.skipped[0].reason)


UNPRICED = (
    "Exchange",
    "Gather",
    "Scatterv",
    "Unidir_Put",
    "Window",
    "S_Write_priv",
    "Reduce_local",
)


@swept("name", UNPRICED)
def test_imb_without_a_price_is_refused_by_name_and_left_out_beside_others(
    read: Reader, name: str
) -> None:
    columns = next(iter(IMB_COLUMNS))
    with pytest.raises(
        ColltoolError, match=f"there is no price of {name}(.|\n)*Allreduce"
    ) as refused:
        read(imb(name, columns))
    assert "cut short" not in str(refused.value)
    found = read(imb(name, columns) + imb("Allreduce", columns))
    assert [series.primitive for series in found.series] == [AR]
    assert f"there is no price of {name}" in str(found.skipped[0].reason)


def test_imb_barrier_is_named(read: Reader) -> None:
    text = (
        "# Benchmarking Barrier\n# #processes = 16\n"
        "#repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n 1000  1.0  2.0  1.5\n"
    )
    with pytest.raises(ColltoolError, match="there is no price of Barrier"):
        read(text)


def test_imb_rows_that_failed_are_no_rows(read: Reader) -> None:
    text = imb("Allreduce", next(iter(IMB_COLUMNS)))
    text += '     8388608 out-of-mem.; needed X=   1.250 GB; use flag "-mem X"\n'
    text += "    16777216 time-out.; Time limit (secs_per_sample * msg_sizes_list_len) is over\n"
    assert rows_of(read(text).series[0])[-1] == (SIZES[-1], TIMES[-1])


def test_imb_that_ended_before_its_first_row_is_cut_short(read: Reader) -> None:
    with pytest.raises(ColltoolError, match="cut short"):
        read("# Benchmarking Allreduce\n# #processes = 4\n")


# --- OSU micro-benchmarks

OSU_NAMES = {
    "Allreduce": (AR, 1),
    "Allgather": (AG, 8),
    "Allgatherv": (AG, 8),
    "All-to-All Personalized Exchange": (A2A, 8),
    "All-to-Allv": (A2A, 8),
    "Broadcast": (BC, 1),
    "Reduce": (REDUCE, 1),
    "Reduce_scatter": (RS, 1),
}
OSU_RUNS = {
    "MPI": "MPI",
    "MPI-CUDA": "MPI-CUDA",
    "MPI-ROCM": "MPI-ROCM",
    "MPI-CUDA MANAGED": "MPI-CUDA",
    "NCCL-CUDA": "NCCL",
    "NCCL": "NCCL",
    "RCCL": "RCCL",
}
FULL = "   Min Latency(us)   Max Latency(us)  Iterations"
TAILS = "   P50 Tail Lat(us)   P90 Tail Lat(us)   P99 Tail Lat(us)"
OSU_COLUMNS = {
    "average": ("", lambda time: ""),
    "full": (FULL, lambda time: f"{time - 1:18.2f}{time + 1:18.2f}{1000:12d}"),
    "full, unnamed": ("", lambda time: f"{time - 1:18.2f}{time + 1:18.2f}{1000:12d}"),
    "validated": ("        Validation", lambda time: "              Pass"),
    "percentiles": (TAILS, lambda time: f"{time:18.2f}{time:18.2f}{time:18.2f}"),
    "all of them": (
        FULL + "        Validation" + TAILS,
        lambda time: (
            f"{time - 1:18.2f}{time + 1:18.2f}{1000:12d}              Pass"
            f"{time:18.2f}{time:18.2f}{time:18.2f}"
        ),
    ),
}


def osu(title: str, run: str, version: str, columns: str) -> str:
    names, cells = OSU_COLUMNS[columns]
    lines = [
        f"# OSU {run} {title} Latency Test{version}",
        "# Datatype: MPI_CHAR." if "7" in version else "",
        f"# Size       Avg Latency(us){names}",
    ]
    for size, time in zip(SIZES, TIMES, strict=True):
        lines.append(f"{size:<10d}{time:18.2f}{cells(time)}")
    return "\n".join([*lines, ""])


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(sorted(OSU_NAMES)),
    st.sampled_from(sorted(OSU_RUNS)),
    st.sampled_from(["", " v3.1", " v4.4.1", " v5.6.3", " v7.4", " v7.5"]),
    st.sampled_from(sorted(OSU_COLUMNS)),
    st.sampled_from(sorted(STAMPS.values())),
    st.booleans(),
)
def test_osu_of_every_name_column_and_stamp(
    tmp_path_factory: pytest.TempPathFactory,
    title: str,
    run: str,
    version: str,
    columns: str,
    stamp: str,
    blocking: bool,
) -> None:
    path = tmp_path_factory.mktemp("osu") / "a.log"
    called = title if blocking else f"Persistent {title}"
    path.write_text(stamped(osu(called, run, version, columns), stamp))
    (series,) = read_logs([path], ranks=8).series
    primitive, times = OSU_NAMES[title]
    assert (series.primitive, series.library) == (primitive, OSU_RUNS[run])
    assert rows_of(series) == [
        (size * times, time) for size, time in zip(SIZES, TIMES, strict=True)
    ]


def test_osu_without_blocking_gives_the_time_without_overlap(read: Reader) -> None:
    text = (
        "# OSU MPI Non-blocking Allreduce Latency Test v7.5\n"
        "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n# Datatype: MPI_INT.\n"
        "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)\n"
        "1024                 25.00             12.60             12.50             99.00\n"
    )
    found = read(text, ranks=8)
    assert rows_of(found.series[0]) == [(1024, 12.5)]
    assert "without overlap" in str(found.skipped[0].reason)


def test_osu_values_beside_no_column_are_no_row(read: Reader) -> None:
    text = osu("Allreduce", "MPI", " v7.4", "average") + "2048 20.00 4096 30.00 8192 40.00\n"
    found = read(text, ranks=8)
    assert len(found.series[0].points) == 3
    assert "more values than columns" in str(found.skipped[0].reason)


@swept(
    ("title", "extra", "rate"),
    [
        ("Bandwidth", "", 25e9),
        ("Bi-Directional Bandwidth", "", 12.5e9),
        ("Multiple Bandwidth / Message Rate", "# [ pairs: 4 ] [ window size: 32 ]\n", 6.25e9),
    ],
)
def test_osu_bandwidths_show_the_size_of_a_message(
    read: Reader, title: str, extra: str, rate: float
) -> None:
    text = (
        f"# OSU MPI-CUDA {title} Test v7.4\n{extra}"
        "# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)\n"
        "# Size      Bandwidth (MB/s)   P50 Tail BW(MB/s)\n1  2.00 2.00\n8388608  25000.00 24999.00\n"
    )
    (series,) = read(text).series
    (point,) = series.points
    assert (point.shown_bytes, series.ranks) == (8 * MIB, 2)
    assert point.bytes / point.seconds == pytest.approx(rate)


def test_osu_tests_of_all_kinds_in_one_log(read: Reader) -> None:
    text = (
        "mpirun -np 2 -H a,b osu_bw\n# OSU MPI Bandwidth Test v7.4\n# Size      Bandwidth (MB/s)\n"
        "1048576  12000.00\n# OSU MPI Latency Test v7.4\n# Size          Latency (us)\n8  1.50\n"
        "mpirun -np 8 -H a:4,b:4 osu_allreduce\n" + osu("Allreduce", "MPI", " v7.4", "full")
    )
    found = read(text).series
    assert [(series.primitive, series.ranks, series.nodes) for series in found] == [
        (AR, 8, 2),
        (P2P, 2, 2),
    ]
    assert [series.ranks for series in read(text, ranks=8).series] == [8, 2]


@swept("title", ["Barrier Latency", "Gather Latency", "MPI_Put Latency", "Multi Latency"])
def test_osu_without_a_price_is_refused_by_name(read: Reader, title: str) -> None:
    with pytest.raises(ColltoolError, match="is not the latency of a modelled primitive"):
        read(f"# OSU MPI {title} Test v7.4\n# Size  Avg Latency(us)\n8  1.0\n", ranks=4)


# --- perftest

PERFTEST_HEAD = """                    {title}
 Dual-port       : OFF          Device         : mlx5_0
 Number of qps   : 1            Transport type : IB
 local address: LID 0000 QPN 0x008a PSN 0xfffb6d
---------------------------------------------------------------------------------------
"""
RATES = {
    "Gb/sec": (
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
        1e9 / 8,
    ),
    "MB/sec": (
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]",
        2.0**20,
    ),
    "MiB/sec": (
        " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]",
        2.0**20,
    ),
    "no peak": (
        " #bytes     #iterations    BW average[Gbps]   MsgRate[Mpps]    CUDA Kernel[ms]",
        1e9 / 8,
    ),
    "levels": (
        " #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
        1e9 / 8,
    ),
    "ports": (
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
        "   BW Port1[Gb/sec]   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]",
        1e9 / 8,
    ),
}
CELLS = {
    "no peak": "8388608  5000   184.00  0.35  12.0",
    "levels": "8388608  0  5000   0.00   184.00  0.35",
    "ports": "8388608  5000   0.00   184.00  0.35  92.0  0.17  92.0  0.17",
}


@swept("stamp", ["", "00:55:22  ", "[client] "])
@swept(
    ("title", "ways"),
    [
        ("RDMA_Write BW Test", 1),
        ("RDMA_Write Bidirectional BW Test", 2),
        ("RDMA_Read BW Test", 1),
        ("Send BW Test", 1),
        ("Send Bidirectional Post List BW Test", 2),
    ],
)
@swept("unit", RATES)
def test_perftest_of_every_unit(read: Reader, title: str, ways: int, unit: str, stamp: str) -> None:
    names, unit_Bps = RATES[unit]
    row = CELLS.get(unit, "8388608  5000   190.00   184.00  0.35")
    text = stamped(PERFTEST_HEAD.format(title=title) + f"{names}\n {row}\n", stamp)
    (series,) = read(text).series
    (point,) = series.points
    assert (series.ranks, series.nodes, point.shown_bytes) == (2, 2, 8 * MIB)
    assert point.bytes / point.seconds == pytest.approx(184.0 * unit_Bps / ways)


@swept(
    ("names", "row"),
    [
        (
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
            "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]",
            " 65536  1000  9.0  30.0  12.0  12.5  0.4  13.0  20.0",
        ),
        (
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]",
            " 65536  1000  9.0  30.0  12.5",
        ),
        (
            " #bytes        #iterations       t_avg[usec]    tps average",
            " 65536  1000  12.5  80000.0",
        ),
    ],
)
def test_perftest_latencies(read: Reader, names: str, row: str) -> None:
    (series,) = read(
        PERFTEST_HEAD.format(title="RDMA_Write Latency Test") + f"{names}\n{row}\n"
    ).series
    assert rows_of(series) == [(65536, 12.5)]


@swept("quote", ['"', ""])
@swept(("average", "rate"), [(184.0, 23e9), (23e9 / 2**20, 23e9)])
def test_perftest_json_tells_its_unit_by_the_rate_of_messages(
    read: Reader, quote: str, average: float, rate: float
) -> None:
    q = quote
    text = (
        f"{{\n{q}test_info{q}: {{\n{q}test{q}: {q}RDMA_Write BW Test{q}\n}},\n{q}results{q}: {{\n"
        f"{q}MsgSize{q}: 65536,\n{q}n_iterations{q}: 5000,\n{q}BW_peak{q}: 0.00,\n"
        f"{q}BW_average{q}: {average:.2f},\n{q}MsgRate{q}: {rate / 65536 / 1e6:.6f}\n}}\n}}\n"
    )
    (point,) = read(text).series[0].points
    assert point.bytes / point.seconds == pytest.approx(rate, rel=1e-3)
    assert point.shown_bytes == 65536


def test_perftest_of_short_messages_alone_says_why_not(read: Reader) -> None:
    names, _ = RATES["Gb/sec"]
    text = (
        PERFTEST_HEAD.format(title="RDMA_Write BW Test") + f"{names}\n 2  5000  0.05  0.05  3.1\n"
    )
    with pytest.raises(ColltoolError, match="below 64 KiB do not fill a link") as refused:
        read(text)
    assert "cut short" not in str(refused.value)


# --- ucc_perftest

UCC_NAMES = {
    "Allreduce": (AR, 1, 1),
    "Allgather": (AG, 8, 8),
    "Alltoall": (A2A, 8, 1),
    "Bcast": (BC, 1, 1),
    "Reduce": (REDUCE, 1, 1),
    "Reduce_scatter": (RS, 1, 1),
}
FACTORS = {AR: 1.75, AG: 0.875, A2A: 0.875, RS: 0.875, BC: 1.0, REDUCE: 1.0}


def ucc(name: str, primitive: Primitive, times: int, full: bool, newer: bool) -> str:
    lines = [
        f"Collective:             {name}",
        "Memory type:            cuda",
        "Datatype:               float32",
        "Reduction:              sum",
        "Inplace:                0",
        "Warmup:                 ",
        "  small                 100",
        "  large                 20",
        "",
        "       Count        Size                Time, us"
        + ("                           Bandwidth, GB/s" if full else ""),
        "                                 avg         min         max",
    ]
    for size, time in zip((1 << 20, 1 << 26, 1 << 30), TIMES, strict=True):
        row = f"{size // 4:12d}{size:12d}{time:12.2f}{time - 1:12.2f}{time + 1:12.2f}"
        if full:
            rate = size * times * FACTORS[primitive] / time / 1e3
            row += f"{rate:12.2f}{rate:12.2f}{rate:12.2f}"
        lines.append(row)
    if newer:
        lines.append("Total time: 12.3 ms")
    return "\n".join([*lines, ""])


@swept("full", [True, False])
@swept("newer", [True, False])
@swept("name", UCC_NAMES)
def test_ucc_perftest(read: Reader, name: str, full: bool, newer: bool) -> None:
    primitive, older_times, newer_times = UCC_NAMES[name]
    times = newer_times if newer else older_times
    text = ucc(name, primitive, times, full, newer)
    knows = full and primitive not in (BC, REDUCE)
    (series,) = read(text, **({} if knows else {"ranks": 8})).series
    assert (series.primitive, series.ranks, series.dtype) == (primitive, 8, "float32")
    assert rows_of(series) == [
        (size * times, time) for size, time in zip((1 << 20, 1 << 26, 1 << 30), TIMES, strict=True)
    ]
    if not knows:
        with pytest.raises(ColltoolError, match="on how many ranks"):
            read(text)


def test_ucc_perftest_takes_ranks_and_hosts_of_its_launch(read: Reader) -> None:
    text = "mpirun -np 16 --host a:8,b:8 ucc_perftest -c allreduce -m cuda -n 100\n"
    (series,) = read(text + ucc("Allreduce", AR, 1, full=False, newer=False)).series
    assert (series.ranks, series.nodes) == (16, 2)


@swept("name", ["Barrier", "Gather", "Memcpy", "Reduce DT"])
def test_ucc_perftest_without_a_price_is_named(read: Reader, name: str) -> None:
    text = ucc("Allreduce", AR, 1, full=False, newer=False).replace("Allreduce", name)
    with pytest.raises(ColltoolError, match=f"there is no price of {name}"):
        read(text)


# --- launch lines and stamps


@swept(
    ("line", "ranks", "nodes"),
    [
        ("mpirun -np 64 -H a:16,b:16,c:16,d:16 ./osu_allreduce -m 4:1048576", 64, 4),
        ("mpirun -n 32 -host a:16,b:16,c:16,d:16 osu_allreduce", 32, 2),
        ("$ mpirun --allow-run-as-root -x A=b -np 16 --host node1:8,node2:8 osu_bcast", 16, 2),
        ("mpirun -np 32 --map-by ppr:8:node --hostfile hosts ./osu_allgather", 32, 4),
        ("mpirun -np 32 --map-by ppr:8:node:PE=4 --hostfile hosts ./osu_allgather", 32, 4),
        ("mpirun -np 2 -npernode 1 -hostfile hosts osu_bw", 2, 2),
        ("mpirun -np 2 -N 1 osu_latency", 2, 2),
        ("mpiexec -n 64 -ppn 16 -hosts a,b,c,d IMB-MPI1 -npmin 64 Allreduce", 64, 4),
        ("mpiexec.hydra -n 64 -perhost 16 -f hosts IMB-MPI1 Allreduce", 64, 4),
        ("mpirun_rsh -np 4 n0 n1 n2 n3 MV2_USE_CUDA=1 ./osu_bw", 4, 4),
        ("+ srun -N 4 -n 64 --mpi=pmix ./osu_allreduce -f", 64, 4),
        ("srun -N4 --ntasks-per-node=16 osu_alltoall", 64, 4),
        ("srun --nodes=2 --ntasks=16 -w node[01-02] ./osu_reduce -x 10 -i 100", 16, 2),
        ("srun -w node[01-04,07] -n 40 --ntasks-per-node=8 ./osu_reduce", 40, 5),
        ("flux run -N4 -n64 ./osu_allreduce", 64, 4),
        ("aprun -n 64 -N 16 ./osu_allreduce", 64, 4),
        ("jsrun -n 12 -a 1 -r 6 ./osu_allreduce", 12, 2),
        ("mpirun -np 8 --map-by node -H a:8,b:8 ./osu_allreduce", 8, 2),
        ("mpirun -np 96 --use-hwthread-cpus --mca pml ob1 ./osu_reduce -d cuda -f", 96, None),
        ("mpirun -np 'a", None, None),
        ("srun -n 99999999999 -N 5 ./osu_bw", None, None),
        ("srun -N 8 -n 4 ./osu_bw", None, None),
        ("we run this with -n 4 on Mondays", None, None),
    ],
)
def test_a_launch_line(line: str, ranks: int | None, nodes: int | None) -> None:
    launches = Launches()
    launches.take(line)
    assert (launches.launch.ranks, launches.launch.nodes) == (ranks, nodes)


def test_a_job_script_and_a_command_over_two_lines() -> None:
    launches = Launches()
    for line in ("#SBATCH --nodes=4", "#SBATCH --ntasks-per-node=16", "#SBATCH -J job"):
        launches.take(line)
    assert launches.launch[:2] == (64, 4)
    for line in ("srun -n 32 \\", "  ./osu_allreduce"):
        launches.take(line)
    assert launches.launch[:2] == (32, 4)
    launches.take("#PBS -l select=3:ncpus=64:mpiprocs=8")
    assert launches.launch[:2] == (24, 3)


@settings(max_examples=examples(200), deadline=None)
@given(st.text(max_size=200))
def test_any_line_is_no_error(text: str) -> None:
    launches = Launches()
    launches.take(f"mpirun {text}")
    launches.take(f"#SBATCH -{text}")
    assert isinstance(unstamped(text), str)


@swept(
    "line",
    [
        "1024      12.50",
        "# [ pairs: 4 ] [ window size: 64 ]",
        "  65536  5000  190.00  184.00  0.35",
        "16MiB | 93.9GBps | 3",
        "| 16MiB | 93.9GBps | 48.5GBps |",
        "# OSU MPI Allreduce Latency Test v7.4",
    ],
)
def test_rows_and_headers_are_no_stamps(line: str) -> None:
    assert unstamped(line) == line
