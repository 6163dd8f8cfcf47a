"""Every key of every format that is JSON, with a value of another type: read or refused by the place,
never a bug of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from effort import some
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.logs.read import read_logs

WRONG = (None, True, 1, -1, 0, 10**30, 1e308, float("inf"), "x", "", [], [1], [[]], {}, {"a": {}})
LOGS = Path(__file__).parent / "logs"

INSPECTOR = {
    "header": {"id": "0x1f", "comm_name": "dp", "rank": 1, "n_ranks": 4, "nnodes": 2},
    "metadata": {
        "inspector_output_format_version": "v4.2",
        "git_rev": "",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": 1,
        "hostname": "host1",
        "pid": 7,
    },
    "coll_perf": {
        "coll": "AllGather",
        "coll_algo": "RING",
        "coll_proto": "LL",
        "coll_sn": 5,
        "coll_msg_size_bytes": 65536,
        "coll_exec_time_us": 40,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 6.55,
        "coll_busbw_gbs": 4.9,
        "event_trace_sn": {"coll_start_sn": 1, "kernel_events": [{"channel_id": 0}]},
    },
}
MARKER = {
    "header": INSPECTOR["header"],
    "metadata": INSPECTOR["metadata"],
    "dump_stats": {"coll_records": 1, "coll_dropped_total": 0, "p2p_records": 0},
}
FLIGHT = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
    "pg_status": {"0": {"last_enqueued_collective": 2}},
    "entries": [
        {
            "record_id": 0,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": number,
            "profiling_name": "nccl:all_reduce",
            "duration_ms": 0.5,
            "input_sizes": [[1024, 256]],
            "input_dtypes": ["BFloat16"],
            "output_sizes": [[1024, 256]],
            "state": "completed",
            "is_p2p": False,
        }
        for number in (6, 7)
    ],
}
BEGIN = {
    "name": "AllReduce",
    "cat": "COLL",
    "ph": "b",
    "id": 3,
    "pid": 1,
    "tid": 1,
    "ts": 100.0,
    "args": {
        "SeqNum": 2,
        "CommHash": 77,
        "Rank": 0,
        "Count": 1048576,
        "Datatype": "ncclFloat32",
        "Algorithm": "RING",
    },
}
END = {"name": "AllReduce", "cat": "COLL", "ph": "e", "id": 3, "pid": 1, "tid": 1, "ts": 4100.0}
PERFTEST = {
    "test_info": {"test": "RDMA_Write BW Test", "Device": "mlx5_0"},
    "results": {
        "MsgSize": 65536,
        "n_iterations": 5000,
        "BW_peak": 190.0,
        "BW_average": 184.0,
        "MsgRate": 0.351,
    },
}
DOCUMENTS = {
    "inspector": INSPECTOR,
    "flight recorder": FLIGHT,
    "profiler": [BEGIN, END],
    "perftest": PERFTEST,
    "nccl-tests": json.loads((LOGS / "report.json").read_text()),
}


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document, the whole first."""
    yield at
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value[:2])
    for key, inner in items:
        yield from paths(inner, (*at, key))


def changed(document: Any, at: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place."""
    if not at:
        return value
    copy = deepcopy(document)
    inner = copy
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return copy


def refusal(path: Path, **hints: Any) -> ColltoolError | None:
    try:
        read_logs([path], **hints)
    except ColltoolError as error:
        return error
    return None


def read_or_refused(path: Path) -> None:
    for error in (refusal(path, ranks=4), refusal(path)):
        assert error is None or (error.what and error.fix)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_value_of_another_type_at_any_key_is_read_or_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    tried = 0
    for at in some(paths(DOCUMENTS[name]), 30):
        for value in WRONG:
            path.write_text(json.dumps(changed(DOCUMENTS[name], at, value)))
            read_or_refused(path)
            tried += 1
    assert tried > 100


@swept("at", [(), ("header",), ("metadata",), ("dump_stats",), ("coll_perf",)])
@swept("value", WRONG)
def test_a_marker_or_a_record_behind_it_may_be_anything(
    at: tuple[str, ...], value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    record = {"coll_perf": INSPECTOR["coll_perf"]}
    for marker, behind in (
        (changed(MARKER, at, value), record),
        (MARKER, changed(record, at[-1:] if at == ("coll_perf",) else (), value)),
    ):
        path.write_text(f"{json.dumps(marker)}\n{json.dumps(behind)}\n")
        read_or_refused(path)


@swept(
    ("text", "place"),
    [
        ('{"header":1,"coll_perf":{},"n_ranks":0}', "a.log:1: record 0"),
        ('[{"coll_perf":1,"n_ranks":2}]', "a.log:1: record 0"),
        ('{"pg_config":1,"entries":[{"pg_id":0}]}', "a.log:1: entry 0"),
        ('{"pg_config":{},"entries":5}', "a.log:1: "),
        ('{"pg_config":{},"entries":[7]}', "a.log:1: entry 0"),
    ],
)
def test_what_is_no_record_is_refused_at_its_place(text: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(text)
    with pytest.raises(ColltoolError) as refused:
        read_logs([path])
    assert place in str(refused.value)


@swept("name", DOCUMENTS)
@swept("keep", [0.2, 0.5, 0.9, 0.99])
def test_a_cut_document_is_read_or_refused(name: str, keep: float, tmp_path: Path) -> None:
    text = json.dumps(DOCUMENTS[name], indent=1)
    path = tmp_path / "a.json"
    path.write_text(text[: int(len(text) * keep)])
    read_or_refused(path)


def test_a_cut_flight_recorder_is_refused_as_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(FLIGHT)[:-10])
    with pytest.raises(ColltoolError, match=r"a\.json:1:\d+: .*cut off or broken"):
        read_logs([path])


def test_a_broken_line_among_records_costs_that_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    line = json.dumps(INSPECTOR)
    path.write_text(f"{line}\n{line[:90]}\n{line.replace(': 5,', ': 6,')}\n")
    (series,) = read_logs([path]).series
    assert series.points[0].repeats == 2


@pytest.mark.parametrize("name", ["inspector", "flight recorder"])
def test_doctor_and_validate_refuse_in_words(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(
        json.dumps(DOCUMENTS[name]).replace('"nccl:all_reduce"', "7").replace("65536", "[]")
    )
    for command in (colltool.doctor, lambda logs: colltool.validate("dgx-h100", logs)):
        with suppress(ColltoolError):
            command(path)
