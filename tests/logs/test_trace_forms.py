"""The forms in which PyTorch's profiler has written traces, each made of the same call; traces that
hold no communication; headers and files of hostile hands."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept
from tracing import kernel, labels, step

import colltool
from colltool.base.errors import ColltoolError
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive
from colltool.logs.call_metadata import CallMetadata, call_metadata
from colltool.logs.pytorch_trace import is_trace
from colltool.logs.traced_series import measured_calls

EIGHT = list(range(8))
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
OLD = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
ELEMENTS = 2**20
GROUP = {
    "pg_name": "0",
    "pg_desc": "default_pg",
    "backend_config": "cuda:nccl",
    "pg_size": 8,
    "ranks": EIGHT,
}
JOB: dict[str, Any] = {"backend": "nccl", "rank": 0, "world_size": 8, "nccl_version": "2.28.9"}
# how torch and tools around it write the groups of a job
GROUPS: list[Any] = [
    [GROUP],
    json.dumps([GROUP]),
    str([GROUP]),
    {"0": GROUP},
    [GROUP | {"ranks": str(EIGHT)}],
    [GROUP | {"ranks": {str(rank): rank for rank in EIGHT}}],
    [],
    None,
]


def host(name: str, at: float, lasts: float, number: int, key: str, **args: Any) -> dict[str, Any]:
    """An event of the host."""
    kind = "user_annotation" if re.match(r"\w+:\w", name) else "cpu_op"
    about = {"ph": "X", "cat": kind, "name": name, "pid": 7, "tid": 7}
    return about | {"ts": 4_458_677_000_000.0 + at, "dur": lasts, "args": {key: number} | args}


def events(where: str, key: str = "External id", kind: str = "kernel") -> list[dict[str, Any]]:
    """A step with compute and one all-reduce of 4 MiB, its labels where a version puts them."""
    ranks = {"Process Group Ranks": str(EIGHT)}
    about = labels(EIGHT, elements=ELEMENTS) | ranks
    dims = {"Input Dims": [[[ELEMENTS]]], "Input type": ["float"]}
    found = [step(1, 0, 1000), kernel(0, 150)]
    match where:
        case "kernel":
            found.append(kernel(200, 100, NCCL, 20, **about))
        case "comms":
            found.append(host("record_param_comms", 100, 30, 5, key, **about))
            found.append(kernel(200, 100, NCCL, 20, **{key: 5}))
        case "numbered":  # PyTorch 2.1
            about["Process Group ID"] = 0
            del about["Process Group Name"]
            found.append(host("record_param_comms", 100, 30, 5, key, **about))
            found.append(kernel(200, 100, NCCL, 20, **{key: 5}))
        case "dims":
            found.append(host("record_param_comms", 100, 30, 5, key, **dims))
            found.append(kernel(200, 100, OLD, 20, **{key: 5}))
        case "annotation":
            found.append(host("record_param_comms", 100, 30, 5, key))
            found.append(host("nccl:all_reduce", 105, 20, 6, key, **dims))
            found.append(kernel(200, 100, OLD, 20, **{key: 5}))
        case "nested id":
            found.append(host("record_param_comms", 100, 30, 5, key))
            found.append(host("nccl:all_reduce", 105, 20, 6, key, **dims))
            found.append(kernel(200, 100, OLD, 20, **{key: 6}))
    for event in found:
        if event["cat"] == "kernel":
            event["cat"] = kind
    return found


WHERE = ("kernel", "comms", "numbered", "dims", "annotation", "nested id")
forms = st.fixed_dictionaries(
    {
        "order": st.permutations(["schemaVersion", "deviceProperties", "distributedInfo", "rest"]),
        "behind": st.booleans(),  # the header behind the events
        "groups": st.sampled_from(GROUPS),
        "as text": st.booleans(),
        "where": st.sampled_from(WHERE),
        "key": st.sampled_from(["External id", "external id"]),
        "kind": st.sampled_from(["kernel", "Kernel"]),
        "device": st.sampled_from(["NVIDIA H100 80GB HBM3", "AMD Instinct MI300X", ""]),
        "packed": st.booleans(),
        "bom": st.booleans(),
    }
)


def written(path: Path, form: dict[str, Any]) -> Path:
    """A trace of a form."""
    job: Any = JOB | {"pg_count": 1, "pg_config": form["groups"]}
    header: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": form["device"]}],
        "distributedInfo": json.dumps(job) if form["as text"] else job,
        "rest": {"displayTimeUnit": "ms"},
    }
    members = {key: header[key] for key in form["order"]}
    listed = {"traceEvents": events(form["where"], form["key"], form["kind"])}
    trace = listed | members if form["behind"] else members | listed
    content = json.dumps(trace).encode("utf-8-sig" if form["bom"] else "utf-8")
    path.write_bytes(gzip.compress(content) if form["packed"] else content)
    return path


@settings(deadline=None, max_examples=examples(150))
@given(form=forms)
def test_every_form_of_a_trace_is_read(
    form: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = written(tmp_path_factory.mktemp("form") / "rank0.json", form)
    assert is_trace(path)
    (call,) = colltool.trace("dgx-h100", path).calls
    assert (str(call.primitive), call.bytes, call.ranks) == ("all_reduce", 2**22, tuple(EIGHT))
    (bound,) = measured_calls([path]).bounds
    assert (bound.ranks, bound.missing) == (8, tuple(range(1, 8)))


@pytest.mark.parametrize("where", ["kernel", "comms"])
def test_a_trace_without_a_header_is_read(where: str, tmp_path: Path) -> None:
    """A job whose distributedInfo is missing, and a bare list of events."""
    for number, content in enumerate(({"traceEvents": events(where)}, events(where))):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(content))
        assert is_trace(path)
        (call,) = colltool.trace("dgx-h100", path).calls
        assert call.ranks == tuple(EIGHT)


def test_other_json_is_no_trace(tmp_path: Path) -> None:
    """A Flight Recorder's dump has entries; the word pg_config alone makes none."""
    others = (
        {"version": "2.5", "pg_config": {"0": {}}, "entries": []},
        {"header": {}, "coll_perf": {}, "traceEvents of": 1},
        [{"name": "AllReduce", "ph": "b", "cat": "COLL", "args": {"CommHash": 1}}],
    )
    for number, content in enumerate(others):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(content))
        assert not is_trace(path)


# as ProcessGroupNCCL.cpp, torchcomms and the functional collectives call them
SPELLINGS: dict[Primitive, str] = {
    AR: "allreduce all_reduce allreduce_coalesced nccl:all_reduce c10d::allreduce_ AllReduce",
    AG: "all_gather _allgather_base _all_gather_base allgather_into_tensor all_gather_single",
    RS: "reduce_scatter _reduce_scatter_base reduce_scatter_tensor reduce_scatter_single",
    A2A: "all_to_all all_to_allv alltoall_base all_to_all_single all_to_all_v_single",
    BC: "broadcast _broadcast_oop c10d::broadcast_ nccl:broadcast",
    REDUCE: "reduce _reduce_oop",
    P2P: "send recv",
}


@swept(
    ("primitive", "name"),
    [(primitive, name) for primitive, names in SPELLINGS.items() for name in names.split()],
)
def test_every_spelling_of_a_collective(primitive: Primitive, name: str) -> None:
    found = call_metadata(labels(EIGHT, name), {}, ())
    assert isinstance(found, CallMetadata)
    assert found.primitive is primitive


# --- traces without communication

CPU_ONLY = [host("aten::mm", 0, 10, 1, "External id"), host("aten::add", 20, 5, 2, "External id")]
GEMMS = [step(1, 0, 1000), kernel(0, 150), kernel(200, 50)]
GLOO = host("gloo:all_reduce", 40, 900, 3, "External id")
LAUNCH = host("nccl:all_to_all", 40, 9, 3, "External id")
ALONE = host("record_param_comms", 40, 9, 2, "External id", **labels([0]))
MTIA = [{"ph": "X", "cat": "mtia_ccp_events", "name": "work", "ts": 1.0, "dur": 2.0}]


@swept(
    ("content", "job", "says", "fix"),
    [
        (CPU_ONLY, {}, r"only what the CPU did: events of cpu_op \(2\)", "ProfilerActivity.CUDA"),
        ([*CPU_ONLY, GLOO], JOB, r"host: gloo:all_reduce \(1\)", "gloo and MPI run on the CPU"),
        ([*CPU_ONLY, LAUNCH], {}, r"host: nccl:all_to_all \(1\)", "ProfilerActivity.CUDA"),
        (MTIA, {}, r"no GPU kernels at all: events of mtia_ccp_events", "ProfilerActivity.CUDA"),
        (
            GEMMS,
            {},
            r"2 kernels of compute on 1 GPU, busy for 200 us of 1 step \(1 ms\)",
            "one GPU",
        ),
        (GEMMS, JOB, "2 kernels of compute on 1 GPU", "whole steps"),
        (GEMMS, JOB | {"world_size": 1}, "one process", "sends to nobody"),
        ([*GEMMS, ALONE, LAUNCH], {}, "one process", "sends to nobody"),
        ([*GEMMS, LAUNCH], JOB, "2 kernels of compute", "only their launches"),
    ],
)
@swept("packed", [False, True])
def test_a_trace_without_communication_says_what_it_holds(
    content: list[Any], job: dict[str, Any], says: str, fix: str, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    text = json.dumps({"schemaVersion": 1, "traceEvents": content, "distributedInfo": job}).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    for reads in (partial(colltool.trace, "dgx-h100"), colltool.doctor):
        with pytest.raises(ColltoolError, match="holds no communication kernel") as caught:
            reads(path)
        error = caught.value
        assert error.where == str(path)
        assert re.search(says, error.what), error.what
        assert fix in error.fix


def test_the_other_traces_are_counted(tmp_path: Path) -> None:
    paths = []
    for rank in range(3):
        path = tmp_path / f"{rank}.json"
        path.write_text(json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": GEMMS}))
        paths.append(path)
    with pytest.raises(ColltoolError, match="nor do the other 2 traces hold any"):
        colltool.trace("dgx-h100", paths)


@swept(
    ("content", "says"),
    [
        ('{"schemaVersion": 1, "traceEvents": []}', "a trace without events"),
        ('{"schemaVersion": 1, "traceEvents": {"a": 1}}', "traceEvents is no list"),
        ('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "ca', "ends within its first events"),
        ('{"schemaVersion": 1, "deviceProperties": [', "before its traceEvents"),
        ('{"schemaVersion": 1}', "it has no traceEvents"),
        ('{"version": "2.5", "pg_config": {}, "entries": []}', "Flight Recorder"),
        ('{"results": [], "b": 2}', r"its keys: results, b\)"),
        ("[[1, 2]]", "is a JSON list without complete events"),
    ],
)
def test_what_is_no_trace_is_named(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(ColltoolError, match=says) as caught:
        colltool.trace("dgx-h100", path)
    assert "2.1" not in str(caught.value)


# --- hostile hands

WRONG: list[Any] = [True, 1.5, "x", [], [1], {}, {"a": []}, -7, 10**30, [[]], [None]]
KEYS = (
    ("deviceProperties",),
    ("deviceProperties", 0),
    ("deviceProperties", 0, "name"),
    ("distributedInfo",),
    ("distributedInfo", "rank"),
    ("distributedInfo", "world_size"),
    ("distributedInfo", "nccl_version"),
    ("distributedInfo", "backend"),
    ("distributedInfo", "pg_config"),
    ("distributedInfo", "pg_config", 0),
    ("distributedInfo", "pg_config", 0, "pg_name"),
    ("distributedInfo", "pg_config", 0, "ranks"),
    ("distributedInfo", "pg_config", 0, "ranks", 0),
    ("traceEvents",),
    ("traceEvents", 2),
    *((("traceEvents", 2, key)) for key in ("ph", "cat", "name", "ts", "dur", "pid", "args")),
    *((("traceEvents", 2, "args", key)) for key in events("kernel")[2]["args"]),
)


@swept("place", KEYS)
def test_a_wrong_type_at_any_key_is_no_bug(place: tuple[Any, ...], tmp_path: Path) -> None:
    """The header's are refused by their key, an event's are left out."""
    path = tmp_path / "a.json"
    for wrong in WRONG:
        trace = {
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
            "distributedInfo": JOB | {"pg_config": [dict(GROUP)]},
            "traceEvents": events("kernel"),
        }
        inner: Any = trace
        for key in place[:-1]:
            inner[key] = inner[key].copy()
            inner = inner[key]
        inner[place[-1]] = wrong
        path.write_text(json.dumps(trace))
        said = None
        try:
            colltool.trace("dgx-h100", path)
        except ColltoolError as error:
            said = error
        assert said is None or str(path) in str(said.where) or said.argument
        if place in KEYS[4:6]:
            assert f"distributedInfo.{place[-1]} is" in str(said)


@pytest.mark.ci
def test_a_bomb_stops_after_seconds(tmp_path: Path) -> None:
    """Kilobytes that unpack to 24 megabytes: of blanks, and of events."""
    event = json.dumps({"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}).encode() + b","
    for number, filling in enumerate((b" " * 2**20, event * 2**14)):
        path = tmp_path / f"{number}.json.gz"
        with gzip.open(path, "wb", 9) as stream:
            stream.write(b'{"schemaVersion": 1, "traceEvents": [')
            for _ in range(24 * 2**20 // len(filling)):
                stream.write(filling)
            stream.write(b"{}]}")
        assert path.stat().st_size < 2**20
        for reads in (partial(colltool.trace, "dgx-h100"), colltool.doctor):
            begun = time.process_time()
            with pytest.raises(ColltoolError, match="unpacks to more than 100 times its size"):
                reads(path)
            assert time.process_time() - begun < 8


def test_traces_that_pack_well_are_read(tmp_path: Path) -> None:
    """Events that repeat each other but for their times, as a profiler's do."""
    path = tmp_path / "a.json.gz"
    found = events("kernel")
    found += [kernel(2000 + 3 * number, 2) for number in range(30_000)]
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": found}).encode()))
    assert len(colltool.trace("dgx-h100", path).calls) == 1


def test_all_orders_of_keys_are_told_from_logs(tmp_path: Path) -> None:
    members = ("schemaVersion", "deviceProperties", "distributedInfo", "traceEvents")
    path = tmp_path / "a.json"
    for order in itertools.permutations(members):
        values = {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {}}
        path.write_text(json.dumps({key: values.get(key, events("kernel")) for key in order}))
        assert is_trace(path)


def test_a_trace_of_another_program_is_named(tmp_path: Path) -> None:
    """Chrome traces of XLA have events without a category."""
    path = tmp_path / "a.json"
    found = [{"ph": "X", "name": "all-reduce.1", "pid": 3, "ts": 1, "dur": 5}]
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": found}))
    with pytest.raises(ColltoolError, match="a trace of another program"):
        colltool.trace("dgx-h100", path)


@swept(
    ("announced", "name", "calls"),
    [
        ("nccl:all_to_all", "ncclKernel_SendRecv_RING_LL_Sum_int8_t(ncclWorkElem)", ["all_to_all"]),
        ("nccl:_all_gather_base", "ncclKernel_AllGather_RING_LL_Sum_int8_t(x)", ["all_gather"]),
        ("nccl:send", "ncclKernel_SendRecv_RING_LL_Sum_int8_t(ncclWorkElem)", []),
        ("nccl:coalesced", "ncclKernel_SendRecv_RING_LL_Sum_int8_t(ncclWorkElem)", []),
    ],
)
def test_old_traces_name_a_call_by_its_annotation(
    announced: str, name: str, calls: list[str], tmp_path: Path
) -> None:
    """Before torch 2.1; a message's two ends are told nowhere there."""
    dims = {"Input Dims": [[8, 1024]], "Input type": ["float"]}
    if announced == "nccl:coalesced":
        dims = {}
    found = [
        step(1, 0, 1000),
        kernel(0, 150),
        host("record_param_comms", 100, 30, 5, "External id"),
        host(announced, 105, 20, 6, "External id", **dims),
        kernel(200, 100, name, 20, **{"External id": 5}),
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"distributedInfo": JOB, "traceEvents": found}))
    traced = colltool.trace("dgx-h100", path)
    assert [str(call.primitive) for call in traced.calls] == calls
    assert sum(kernel.calls for kernel in traced.unpriced) == 1 - len(calls)
