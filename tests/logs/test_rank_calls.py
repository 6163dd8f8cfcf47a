"""Records of single calls: every version of Inspector's output, NCCL's profiler with its bare tokens,
the Flight Recorder; files of several ranks are one series, and first calls count for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive
from colltool.logs.read import read_logs
from colltool.logs.series import Measurements

Read = Callable[..., Measurements]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reader(*texts: str, **stated: Any) -> Measurements:
        files = []
        for number, text in enumerate(texts):
            files.append(tmp_path / f"rank{number}.log")
            files[-1].write_text(text)
        return read_logs(files, **stated)

    return reader


def us_of(found: Measurements) -> list[float]:
    (series,) = found.series
    return [round(point.seconds * 1e6, 3) for point in series.points]


# --- Inspector


def inspector(
    version: str,
    calls: Sequence[tuple[int, float]],
    rank: int = 0,
    name: str = "AllReduce",
    size: int = 2**20,
) -> str:
    """A file of one rank of 4 on 2 hosts: numbers and times of its calls, as a version writes it."""
    header = {"id": "0xab12", "rank": rank, "n_ranks": 4, "nnodes": 2}
    if version != "v4.0":
        header["comm_name"] = "unknown"
    metadata = {"inspector_output_format_version": version, "hostname": f"host{rank}", "pid": 7}
    context = {"header": header, "metadata": metadata}
    lines: list[Any] = []
    if version != "v4.0":
        stats = {"coll_records": len(calls), "coll_dropped_total": 0, "p2p_records": 1}
        lines.append({**context, "dump_stats": stats})
    for number, us in calls:
        perf: dict[str, Any] = {
            "coll": name,
            "coll_sn": number,
            "coll_msg_size_bytes": size,
            "coll_exec_time_us": us,
            "coll_timing_source": "kernel_gpu",
        }
        if version in ("v4.2", "v4.3"):
            perf |= {"coll_algo": "RING", "coll_proto": "LL"}
        lines.append({"coll_perf": perf} if version == "v4.3" else {**context, "coll_perf": perf})
    if version != "v4.0":
        p2p = {
            "p2p": "Send",
            "p2p_sn": 1,
            "p2p_peer": 1,
            "p2p_msg_size_bytes": 8,
            "p2p_exec_time_us": 9,
        }
        lines.append({"p2p_perf": p2p} if version == "v4.3" else {**context, "p2p_perf": p2p})
    if version == "v4.3":
        lines.append({"proxy_trace": {"record_type": "proxy_op", "parent_sn": 1}})
    return "".join(json.dumps(line) + "\n" for line in lines)


@swept("version", ["v4.0", "v4.1", "v4.2", "v4.3"])
@swept(
    ("name", "primitive", "times"),
    [
        ("AllReduce", AR, 1),
        ("AllGather", AG, 4),
        ("ReduceScatter", RS, 4),
        ("Broadcast", BC, 1),
        ("Reduce", REDUCE, 1),
    ],
)
def test_inspector_of_every_version(
    read: Read, version: str, name: str, primitive: Primitive, times: int
) -> None:
    found = read(inspector(version, [(0, 9000), (1, 50), (2, 40)], name=name))
    (series,) = found.series
    assert (series.primitive, series.ranks, series.nodes) == (primitive, 4, 2)
    assert series.version == f"Inspector {version}"
    assert [(point.bytes, point.repeats) for point in series.points] == [(2**20 * times, 2)]
    assert us_of(found) == [45]
    reasons = " ".join(str(skipped.reason) for skipped in found.skipped)
    assert "the first call of an operation on a communicator" in reasons
    assert "used as recorded by 1 of 4 ranks" in reasons
    assert ("their two ends are measured apart" in reasons) == (version != "v4.0")


def test_a_dump_of_v43_without_its_marker_says_so_by_its_place(read: Read) -> None:
    text = inspector("v4.3", [(1, 50)])
    with pytest.raises(ColltoolError, match=r"rank0\.log:1: record 0"):
        read(
            '{"n_ranks": 0}\n'[:0]
            + "\n".join(text.splitlines()[1:]).replace('"coll"', '"n_ranks": 1, "coll"')
        )


def test_two_communicators_of_v43_keep_their_own_headers(read: Read) -> None:
    other = inspector("v4.3", [(1, 70)]).replace('"n_ranks": 4', '"n_ranks": 2')
    two = inspector("v4.3", [(1, 50)]) + other.replace("0xab12", "0xab13")
    assert [(series.ranks, series.points[0].seconds) for series in read(two).series] == [
        (2, 70e-6),
        (4, 50e-6),
    ]


def test_the_slowest_of_all_ranks_is_a_call_and_few_ranks_tell_nothing(read: Read) -> None:
    files = [
        inspector("v4.0", [(0, 9000), (1, 40), (2, 2), (3, 2), (4, 44)], rank=0),
        inspector("v4.0", [(0, 5), (1, 2), (2, 42), (4, 3)], rank=1),
        inspector("v4.0", [(0, 4), (1, 3), (2, 2), (4, 2)], rank=2),
        inspector("v4.0", [(0, 4), (1, 3), (2, 2), (4, 2)], rank=3),
    ]
    found = read(*files)
    (series,) = found.series
    assert (us_of(found), series.points[0].repeats, series.joined) == ([42], 3, True)
    few = [skipped for skipped in found.skipped if "recorded by 1 rank of 4" in str(skipped.reason)]
    assert [(skipped.rows, skipped.used) for skipped in few] == [(1, False)]


def test_the_same_rank_twice_is_one_rank(read: Read) -> None:
    text = inspector("v4.0", [(1, 40), (2, 44)])
    found = read(text, text)
    assert us_of(found) == [42]
    assert found.series[0].points[0].repeats == 2


def test_doctor_keeps_the_ranks_of_a_communicator_together(tmp_path: Path) -> None:
    files = []
    for rank, us in enumerate((400.0, 3.0, 2.0, 2.0)):
        files.append(tmp_path / f"host-pid{rank}.log")
        files[-1].write_text(inspector("v4.0", [(1, us), (2, us)], rank=rank, size=2**24))
    series = colltool.doctor(files, "dgx-h100").series
    assert [judged.judged.series.points[0].seconds for judged in series] == [400e-6]


def test_only_first_calls_are_refused_as_such(read: Read) -> None:
    with pytest.raises(ColltoolError, match="which connects it"):
        read(inspector("v4.2", [(0, 9000)]))


def test_a_cpu_clock_is_told(read: Read) -> None:
    found = read(inspector("v4.0", [(1, 40)]).replace("kernel_gpu", "collective_cpu"))
    assert any("CPU's clock" in str(skipped.reason) for skipped in found.skipped)


# --- Inspector's Prometheus text

OLD = (
    'comm_id="0x1f",hostname="pool0-1",rank="{rank}",slurm_job="unknown",slurm_job_id="unknown",'
    'nranks="4",n_nodes="2",gpu_device_id="GPU0",collective="{name}",coll_sn="{number}",'
    'timestamp="2026-03-01T03:31:47Z",message_size="{size}"'
)
NEW = (
    'version="v5.1",slurm_job_id="unknown",node="nvl01",gpu="GPU0",comm_name="DP, \\"0\\"",n_nodes="2",'
    'nranks="4",collective="{name}",message_size="{size}",algo_proto="Ring_ll"'
)


def prom(labels: str, us: float, busbw: float, algbw: bool = False) -> str:
    text = "# HELP nccl_bus_bandwidth_gbs bus bandwidth\n# TYPE nccl_bus_bandwidth_gbs gauge\n"
    if algbw:
        text += f"nccl_algorithm_bandwidth_gbs{{{labels}}} 1\n"
    text += f"nccl_bus_bandwidth_gbs{{{labels}}} {busbw:.6g}\n"
    return text + f"nccl_collective_exec_time_microseconds{{{labels}}} {us:.6g} 1748030377748\n"


@swept(
    ("name", "primitive", "size", "factor", "old", "new"),
    [
        ("AllReduce", AR, 2**22, 1.5, "4.00MB", "4-5MB"),
        ("AllGather", AG, 2**24, 0.75, "4.00MB", "4-5MB"),
        ("ReduceScatter", RS, 2**24, 0.75, "4.00MB", "4-5MB"),
        ("Broadcast", BC, 1000, 1.0, "1000B", "1000-1001B"),
    ],
)
def test_prometheus_text_of_both_generations(
    read: Read, name: str, primitive: Primitive, size: float, factor: float, old: str, new: str
) -> None:
    busbw = size * factor / 80 / 1e3
    for text in (
        prom(OLD.format(rank=0, name=name, number=7, size=old), 80, busbw, algbw=True),
        prom(NEW.format(name=name, size=new), 80, busbw),
    ):
        found = read(text)
        (series,) = found.series
        assert (series.primitive, series.ranks, series.nodes) == (primitive, 4, 2)
        assert series.points[0].bytes == pytest.approx(size, rel=0.024)
        assert us_of(found) == [80]


def test_prometheus_text_of_several_ranks_and_of_the_first_call(read: Read) -> None:
    def of_rank(rank: int, number: int, us: float) -> str:
        labels = OLD.format(rank=rank, name="AllReduce", number=number, size="4.00MB")
        return prom(labels, us, 2**22 * 1.5 / us / 1e3)

    assert us_of(read(of_rank(0, 7, 80), of_rank(1, 7, 90))) == [90]
    with pytest.raises(ColltoolError, match="which connects it"):
        read(of_rank(0, 0, 80))


@swept(
    "labels",
    [
        NEW.format(name="AllReduce", size="4-5GB"),  # not the size of its time and rate
        NEW.format(name="SomethingNew", size="4-5MB"),
        NEW.format(name="AllReduce", size="4-5MB").replace('nranks="4"', 'nranks="-1"'),
        NEW.format(name="AllReduce", size="4-5MB").replace(
            'nranks="4"', 'nranks="' + "9" * 50 + '"'
        ),
        "",
        'a="' + "\\" * 999,
    ],
)
def test_prometheus_text_that_says_too_little_is_refused(read: Read, labels: str) -> None:
    with pytest.raises(ColltoolError):
        read(prom(labels, 80, 78.6))


def test_messages_of_prometheus_text_are_named(read: Read) -> None:
    labels = 'n_nodes="1",nranks="4",p2p_operation="Send",message_size="512-513MB"'
    with pytest.raises(ColltoolError, match="their two ends are measured apart"):
        read(
            f"nccl_p2p_bus_bandwidth_gbs{{{labels}}} 464.9\nnccl_p2p_exec_time_microseconds{{{labels}}} 1154\n"
        )


# --- NCCL's profiler

BARE = [
    '"Stream": (nil)',
    '"Stream": 0x7f12ab',
    '"datatype": ncclBfloat16, "root": 0',
    '"ts": nan',
    '"ts": -inf',
]


def profile(
    calls: Sequence[tuple[int, float]], rank: int = 0, *, bare: str = "", closed: bool = True
) -> str:
    lines = ["["]
    for number, us in calls:
        head = f'"pid": 12, "tid": 1, "id": {number}'
        api = f'{{"name": "AllReduce", "cat": "COLL_API", "ph": "b", {head}, "ts": 1.0, "args": {{"count": 9'
        token = bare or '"x": 1'
        lines.append(f"{api}, {token}}}}},")
        lines.append(
            f'{{"name": "AllReduce", "cat": "COLL", "ph": "b", {head}, "ts": {1000.0 * number:f}, "args": '
            f'{{"SeqNum": {number}, "CommHash": 13708207818645718543, "Rank": {rank}, "Count": 262144, '
            f'"Datatype": "ncclFloat32", "Algorithm": "RING", "Protocol": "LL", "nChannels": 1}}}},'
        )
        lines.append(
            f'{{"name": "KernelCh", "cat": "GPU", "ph": "b", {head}, "ts": 3.0, "args": {{"Channel": 0}}}},'
        )
        lines.append(
            f'{{"name": "AllReduce", "cat": "COLL", "ph": "e", {head}, "ts": {1000.0 * number + us:f}}},'
        )
    return "\n".join([*lines, "{}]" if closed else ""])


@swept("bare", ["", *BARE])
@swept("closed", [True, False])
def test_the_profiler_with_bare_tokens(read: Read, bare: str, closed: bool) -> None:
    found = read(profile([(0, 900.0), (1, 50.0), (2, 40.0)], bare=bare, closed=closed), ranks=4)
    (series,) = found.series
    assert (series.primitive, series.points[0].bytes) == (AR, 2**20)
    assert us_of(found) == [45]


@pytest.mark.parametrize("token", ["ncclFloat32", "ncclBfloat16"])
def test_a_bare_token_in_a_collective_itself_is_read(read: Read, token: str) -> None:
    text = profile([(1, 50.0)]).replace('"ncclFloat32"', token)
    size = read(text, ranks=4).series[0].points[0].bytes
    assert size == 262144 * (4 if token == "ncclFloat32" else 2)


def test_the_profiles_of_several_ranks_are_one_series(read: Read) -> None:
    files = [profile([(1, us), (2, us)], rank) for rank, us in enumerate((50.0, 8.0, 9.0))]
    found = read(*files, ranks=4)
    assert (us_of(found), found.series[0].joined) == ([50], True)
    with pytest.raises(ColltoolError, match="of rank 2, ranks says 2"):
        read(*files, ranks=2)


def test_a_profile_that_was_written_again_is_read(read: Read) -> None:
    events = json.loads(profile([(1, 50.0), (2, 40.0)]).replace(",\n{}]", "]"))
    for text in (
        json.dumps(events),
        json.dumps(events, indent=1),
        json.dumps({"traceEvents": events}, indent=1),
    ):
        assert us_of(read(text, ranks=4)) == [45]


# --- Flight Recorder


def recorded(calls: Sequence[tuple[int, str, float | None]], **changes: Any) -> str:
    entries = []
    for number, name, ms in calls:
        entries.append(
            {
                "pg_id": 0,
                "process_group": ["0", "default_pg"],
                "collective_seq_id": number,
                "profiling_name": f"nccl:{name}",
                "duration_ms": ms,
                "input_sizes": [[1024, 256]],
                "input_dtypes": ["Float"],
                **changes,
            }
        )
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return json.dumps({"version": "2.10", "pg_config": groups, "entries": entries})


@swept(
    ("name", "primitive", "times"),
    [
        ("all_reduce", AR, 1),
        ("allreduce_coalesced", AR, 1),
        ("all_gather", AG, 4),
        ("_all_gather_base", AG, 4),
        ("_allgather_base", AG, 4),
        ("all_gather_into_tensor_coalesced", AG, 4),
        ("reduce_scatter", RS, 1),
        ("_reduce_scatter_base", RS, 1),
        ("reduce_scatter_tensor_coalesced", RS, 1),
        ("all_to_all", A2A, 1),
        ("alltoall_base", A2A, 1),
        ("broadcast", BC, 1),
        ("_broadcast_oop", BC, 1),
        ("reduce", REDUCE, 1),
    ],
)
def test_the_flight_recorder_by_every_name(
    read: Read, name: str, primitive: Primitive, times: int
) -> None:
    (series,) = read(recorded([(8, name, 0.5)])).series
    assert (series.primitive, series.ranks) == (primitive, 4)
    assert series.points[0].bytes == 2**20 * times


def test_first_calls_of_a_group_are_left_out_where_the_dump_has_them(read: Read) -> None:
    calls = [
        (1, "broadcast", 60.0),
        (2, "all_reduce", 70.0),
        (3, "all_reduce", 0.5),
        (4, "broadcast", 0.25),
    ]
    found = read(recorded(calls))
    assert [(series.primitive, series.points[0].seconds) for series in found.series] == [
        (AR, 5e-4),
        (BC, 2.5e-4),
    ]
    # a ring buffer that went round holds no first call
    later = [(number + 2000, name, ms) for number, name, ms in calls]
    assert len(read(recorded(later)).series[0].points) == 1
    assert read(recorded(later)).series[0].points[0].repeats == 2


@swept(
    ("name", "ms", "own"),
    [
        ("all_reduce", (295.0, 51.0, 285.0, 212.0), 51.0),
        ("broadcast", (0.07, 0.22, 2.4, 11.8), 0.22),
        ("reduce", (0.07, 0.08, 0.3, 0.2), 0.3),
    ],
)
def test_times_that_include_waiting_are_those_of_who_waits_least(
    read: Read, name: str, ms: Sequence[float], own: float
) -> None:
    found = read(*(recorded([(9, name, duration)]) for duration in ms))
    assert us_of(found) == [own * 1e3]


def test_two_jobs_of_the_same_group_name_stay_apart(read: Read) -> None:
    found = read(*(recorded([(9, "all_reduce", 0.5 + rank)]) for rank in range(6)))
    assert found.series[0].points[0].repeats == 6


@swept(
    ("changes", "why"),
    [
        ({"duration_ms": None}, "TORCH_NCCL_ENABLE_TIMING=1"),
        ({"duration_ms": None, "state": "started"}, "had not completed when it was dumped"),
        ({"collective_seq_id": 1}, "which connects it"),
        ({"collective_seq_id": 1, "duration_ms": None}, "or not timed"),
        ({"is_p2p": True}, "their two ends are measured apart"),
        ({"input_dtypes": ["Unheard"]}, "no size, or no group"),
        ({"process_group": ["9", ""], "pg_id": 9}, "no size, or no group"),
    ],
)
def test_a_dump_without_usable_calls_says_why(read: Read, changes: Any, why: str) -> None:
    with pytest.raises(ColltoolError, match=why):
        read(recorded([(9, "all_reduce", 0.5)], **changes))


# --- CSV


@swept(
    ("cell", "library", "version"),
    [
        ("NCCL", "NCCL", ""),
        ("NCCL 2.28.9", "NCCL", "2.28.9"),
        ("nccl-2.28.9+cuda12.9", "NCCL", "2.28.9+cuda12.9"),
        ("RCCL v2.22.3", "RCCL", "2.22.3"),
        ("MPI", "MPI", ""),
        ("Open MPI 5.0.3", "MPI", "5.0.3"),
        ("MVAPICH2 2.3.7", "MPI", "2.3.7"),
        ("MPICH/4.2", "MPI", "4.2"),
    ],
)
def test_a_csv_library_with_its_version(read: Read, cell: str, library: str, version: str) -> None:
    (series,) = read(f"collective,ranks,bytes,time_us,library\nar,8,1024,20,{cell}\n").series
    assert (series.library, series.version) == (library, version)
    with pytest.raises(ColltoolError, match="not a known library"):
        read("collective,ranks,bytes,time_us,library\nar,8,1024,20,NCCLish thing\n")


def test_a_csv_version_of_its_own(read: Read) -> None:
    text = "collective,ranks,bytes,time_us,library,nccl_version\nar,8,1024,20,NCCL,2.29.2\n"
    assert read(text).series[0].version == "2.29.2"
