"""Traces as measurements, and how they are told from logs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from swept import swept
from tracing import call, kernel, step, text, write

from colltool.base.primitives import AG, AR
from colltool.logs.call_metadata import NO_METADATA
from colltool.logs.pytorch_trace import is_trace
from colltool.logs.traced_series import MESSAGE, SPREAD, TracedSeries, UpperBound, measured_calls

MIB = 2**20


def of(folder: Path, *ranks: list[Any], world: int = 4, **more: Any) -> TracedSeries:
    return measured_calls(
        [
            write(folder / f"r{rank}.json", events, rank, world, **more)
            for rank, events in enumerate(ranks)
        ]
    )


def test_whole_groups_are_series_by_size(tmp_path: Path) -> None:
    first, second, small = (
        call(at, lasts, [0, 1], Seq=at, **{"elements": n})
        for at, lasts, n in ((0, 50, MIB), (100, 70, MIB), (200, 9, 10))
    )
    waited = call(0, 90, [0, 1], Seq=0)
    read = of(
        tmp_path,
        [first, second, small],
        [waited, second, small],
        deviceProperties=[{"name": "NVIDIA H100"}] * 2,
    )
    (series,) = read.measurements.series
    assert (series.primitive, series.ranks, series.library, series.dtype) == (AR, 2, "NCCL", "")
    assert [(point.bytes, point.repeats) for point in series.points] == [(40, 1), (4 * MIB, 2)]
    assert series.points[1].seconds == pytest.approx(60e-6)
    assert (series.points[1].low_s, series.points[1].high_s) == pytest.approx((50e-6, 70e-6))
    assert series.files == tuple(str(tmp_path / f"r{rank}.json") for rank in (0, 1))
    assert (read.devices, read.world, read.bounds, read.left_out) == (("NVIDIA H100",), 4, (), ())


def test_calls_with_ranks_unseen_are_bounds(tmp_path: Path) -> None:
    read = of(
        tmp_path,
        [
            call(0, 9, [0, 1, 2, 3], "ncclDevKernel_AllGather_RING_LL", called="all_gather"),
            *(call(at, 9, [0, 1]) for at in (20, 40)),
        ],
        [kernel(0, 9), call(20, 9, [0, 1])],
    )
    assert read.measurements.series == ()
    assert read.bounds == (UpperBound(AR, 2, 3, ()), UpperBound(AG, 4, 1, (2, 3)))


def test_no_benchmark_runs_on_other_groups(tmp_path: Path) -> None:
    odd = [
        call(0, 9, [0, 2]),
        call(20, 9, [1, 2]),
        call(40, 9, [0, 1], "ncclDevKernel_SendRecv(x)", called="send"),
    ]
    read = of(tmp_path, [*odd, call(60, 9, [2, 3]), kernel(80, 9, "ncclDevKernel_SendRecv(x)")])
    assert read.bounds == (UpperBound(AR, 2, 1, (2, 3)),)
    assert [(one.reason, one.kernels) for one in read.left_out] == [
        (NO_METADATA, 1),
        (SPREAD, 2),
        (MESSAGE, 1),
    ]


def test_amd_runs_rccl(tmp_path: Path) -> None:
    events = [call(0, 9, [0, 1], Seq=1)]
    read = of(tmp_path, events, events, deviceProperties=[{"name": "AMD Instinct MI300X"}])
    assert read.measurements.series[0].library == "RCCL"


@swept(
    ("content", "yes"),
    [
        (text([step(1, 0, 9)]), True),
        (text([step(1, 0, 9)], deviceProperties=[{"name": "H100"}] * 16), True),
        ("\ufeff \n" + text([step(1, 0, 9)]), True),
        (json.dumps([step(1, 0, 9)]), True),
        (text([step(1, 0, 9)])[:60], True),
        ("", False),
        ('{"version": "2.17", "args": ["all_reduce_perf"], "config": {}}', False),
        ("# nccl-tests version 2.17.8 traceEvents: 1", False),
        ("[1, 2]", False),
    ],
)
def test_a_trace_is_told_by_its_beginning(content: str, yes: bool, tmp_path: Path) -> None:
    plain, packed, cut = tmp_path / "a.json", tmp_path / "a.json.gz", tmp_path / "cut.gz"
    plain.write_text(content)
    packed.write_bytes(gzip.compress(content.encode()))
    cut.write_bytes(gzip.compress(content.encode())[:-9])
    assert (is_trace(plain), is_trace(str(packed)), is_trace(cut)) == (yes, yes, yes)


def test_what_cannot_be_read_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "bad.gz").write_bytes(b"\x1f\x8bnot packed at all")
    assert [is_trace(tmp_path / name) for name in ("none", ".", "bad.gz", "a\0b")] == [False] * 4
