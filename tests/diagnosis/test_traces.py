"""Traces in place of logs, and beside them: what waited for nobody is judged, what is an upper
bound is said to be one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from machine_logs import H100, LARGE, Time, log, time_on
from tracing import call, write

import colltool
from colltool.base.errors import ColltoolError

HARDWARE = [{"name": H100}] * 8


def traces(folder: Path, time: Time, ranks: int = 8, given: int = 8, **more: Any) -> list[Path]:
    """Traces of the first so many ranks of a job that all-reduces ever larger messages, each kernel
    as long as it must be."""
    group = list(range(ranks))
    events = [
        call(1e6 * at, time("ar", size) * 1e6, group, Seq=at, elements=int(size) // 4)
        for at, size in enumerate(LARGE)
    ]
    return [
        write(
            folder / f"r{rank}.json.gz",
            events,
            rank,
            ranks,
            **{"deviceProperties": HARDWARE} | more,
        )
        for rank in range(given)
    ]


def test_traces_of_all_ranks_are_judged(tmp_path: Path) -> None:
    result = colltool.doctor(traces(tmp_path, time_on()))
    assert result.ok
    (one,) = result.series
    assert (one.wire, one.judged.series.title) == ("nvlink", "all-reduce, 8 ranks on 1 node")
    assert one.large == pytest.approx(1, abs=0.02)
    assert (result.bounds, result.measure) == ((), ())


def test_a_trace_and_a_log_of_one_machine_have_one_cause(tmp_path: Path) -> None:
    slow = time_on(set_=["nvlink.bandwidth=300GB/s"])
    file = log(tmp_path / "a.log", slow, ("ag", "rs"), LARGE)
    (finding,) = colltool.doctor([*traces(tmp_path, slow), file]).findings
    assert len(finding.series) == 3
    assert {"nvlinks", "slow-rank"} <= {one.name for one in finding.causes}


def test_upper_bounds_are_no_finding_and_have_a_next_step(tmp_path: Path) -> None:
    result = colltool.doctor(traces(tmp_path, time_on(), given=3))
    assert result.ok
    assert result.series == ()
    (bound,) = result.bounds
    assert (bound.ranks, bound.calls, bound.missing, bound.wire) == (
        8,
        len(LARGE),
        (3, 4, 5, 6, 7),
        "nvlink",
    )
    (test,) = result.measure
    assert test.command == "NCCL_DEBUG=INFO ./build/all_reduce_perf -b 256M -e 4G -f 2 -g 8"
    assert test.foretold[0].seconds == pytest.approx(time_on()("ar", 2.0**30))


def test_ranks_of_more_hosts_fill_one_after_the_other(tmp_path: Path) -> None:
    result = colltool.doctor(traces(tmp_path, time_on(ranks=16), ranks=16, given=1))
    assert result.bounds[0].wire == "ib"
    assert result.measure[0].command.startswith(
        "mpirun -np 16 -N 8 -x NCCL_DEBUG=INFO ./build/all_reduce_perf "
    )


def test_a_wire_that_a_log_judges_needs_no_other_test(tmp_path: Path) -> None:
    file = log(tmp_path / "a.log", time_on(), ("ar",), LARGE)
    result = colltool.doctor([file, *traces(tmp_path, time_on(), given=1)])
    assert len(result.series) == len(result.bounds) == 1
    assert result.measure == ()


def test_a_collective_alone(tmp_path: Path) -> None:
    files = traces(tmp_path, time_on(), given=1)
    assert colltool.doctor(files, primitive="ar").bounds
    with pytest.raises(ColltoolError, match=r"hold no all-gather(.|\n)*they hold: all_reduce"):
        colltool.doctor(files, primitive="ag")


def test_what_tells_no_time_or_no_machine(tmp_path: Path) -> None:
    with pytest.raises(ColltoolError, match="do not name their devices"):
        colltool.doctor(traces(tmp_path, time_on(), given=1, deviceProperties=[]))
    odd = write(tmp_path / "odd.json", [call(0, 9, [0, 2])], 0, 8, deviceProperties=HARDWARE)
    with pytest.raises(
        ColltoolError,
        match="hold no collective whose time can be told: groups of other than consecutive",
    ):
        colltool.doctor(odd)
