"""Calls out of traces: whose time counts, where groups sit, what compute hides, and what a job file
says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from small import clos, fabric, star
from swept import swept
from tracing import RING_LL, START, call, kernel, labels, step, text, write

import colltool
from colltool.base.errors import ColltoolError
from colltool.diagnosis.call_prices import axes_of
from colltool.diagnosis.trace_results import TraceComparison
from colltool.fabric.model import Fabric
from colltool.training.parallel_config import RankGroup

WHERE = fabric(star(4, 1.0, 400.0), clos(4, alpha=3.0))
MIB = 2**20


@pytest.fixture
def traced(tmp_path: Path) -> Any:
    """Traces of ranks 0, 1 ... with these events, against the fabric."""

    def run(*ranks: list[Any], on: Fabric = WHERE, world: int = 16, **more: Any) -> TraceComparison:
        files = [
            write(tmp_path / f"r{rank}.json.gz", events, rank, world, **more)
            for rank, events in enumerate(ranks)
        ]
        return colltool.trace(on, files)

    return run


def test_a_call_takes_what_its_shortest_kernel_took(traced: Any) -> None:
    result = traced([call(0, 90, [0, 1], Seq=1)], [call(50, 40, [0, 1], Seq=1)])
    (one,) = result.calls
    assert (one.measured_s, one.longest_s) == pytest.approx((40e-6, 90e-6))
    assert (one.seen, one.bound, one.bytes) == (2, False, 4 * MIB)
    assert one.expected_s == pytest.approx(
        colltool.price(WHERE, "ar", ranks=2, size=4 * MIB).best.total_s
    )
    assert result.of_expected == pytest.approx(one.expected_s / one.measured_s)


def test_with_one_trace_of_two_it_is_an_upper_bound(traced: Any) -> None:
    result = traced([call(0, 90, [0, 1])])
    assert result.calls[0].bound
    assert "Cannot tell network from waiting" in result._repr_html_()
    assert "may be rank 0 waiting for rank 1" in result.summary()


def test_calls_without_numbers_are_counted_where_all_ranks_made_the_same(traced: Any) -> None:
    one, other = call(0, 90, [0, 1]), call(200, 50, [0, 1], elements=99)
    assert [call.seen for call in traced([one, other], [one, other]).calls] == [2, 2]
    assert [call.seen for call in traced([one, other], [one]).calls] == [1, 1, 1]
    assert [call.bound for call in traced([one, other], [one]).calls] == [True] * 3


def test_kernels_of_several_tensors_at_once_are_one_call(traced: Any) -> None:
    """NCCL may cut a group of tensors into several kernels, each labelled with the elements of
    all."""
    parts = [
        call(at, lasts, [0, 1], called="allreduce_coalesced", **{"External id": 7})
        for at, lasts in ((0, 10), (12, 8))
    ]
    later = call(50, 10, [0, 1], called="allreduce_coalesced", **{"External id": 8})
    plain = call(90, 10, [0, 1], **{"External id": 9})
    result = traced([*parts, later, plain, kernel(5, 10)])
    assert [
        (one.coalesced, round(one.measured_s * 1e6), round(one.exposed_s * 1e6))
        for one in result.calls
    ] == [(True, 20, 10), (True, 10, 10), (False, 10, 10)]
    assert sorted((one.calls, one.coalesced, one.bytes) for one in result.totals) == [
        (1, False, 4 * MIB),
        (2, True, 4 * MIB),
    ]


def test_an_all_to_all_of_uneven_parts_is_an_upper_bound(traced: Any) -> None:
    uneven, even = (
        call(
            at,
            90,
            [0, 1],
            "ncclDevKernel_SendRecv(x)",
            called="all_to_allv",
            Seq=at,
            **{"In split size": split},
        )
        for at, split in ((1, "[9, 1]"), (200, "[5, 5]"))
    )
    assert [(one.seen, one.bound) for one in traced([uneven, even], [uneven, even]).calls] == [
        (2, True),
        (2, False),
    ]


def test_the_two_ends_of_a_message_count_apart(traced: Any) -> None:
    send, receive = (
        call(0, lasts, [0, 1], "ncclDevKernel_SendRecv(x)", called=called)
        for lasts, called in ((10, "send"), (9, "recv"))
    )
    result = traced([send], [receive])
    assert [(one.seen, one.bound, one.ranks) for one in result.calls] == [(1, True, (0, 1))] * 2
    assert yaml.safe_load(result.job)["calls"][0]["count"] == 1


def test_groups_whose_ranks_are_unknown_are_never_put_together(traced: Any) -> None:
    hidden = call(0, 90, [0, 1], Seq=1)
    hidden["args"]["Process Group Ranks"] = "[0, ..."
    result = traced([hidden], [hidden])
    assert [(one.seen, one.expected_s) for one in result.calls] == [(1, None)] * 2
    assert "does not list the ranks" in str(result.calls[0].reason)
    assert "no call has a price" in result.summary()


@pytest.mark.parametrize(
    ("ranks", "axes", "tiers"),
    [
        ([0, 1, 2, 3], ((4, 1),), ("tier0",)),
        ([4, 5, 6, 7], ((4, 1),), ("tier0",)),
        ([1, 5, 9, 13], ((4, 4),), ("tier1",)),
        ([0, 1, 4, 5], ((2, 1), (2, 4)), ("tier0", "tier1")),
    ],
)
def test_groups_lie_where_their_ranks_do(
    ranks: list[int], axes: Any, tiers: tuple[str, ...], traced: Any
) -> None:
    (one,) = traced([call(0, 900, ranks)]).calls
    names = {f"tier{index}": tier.name for index, tier in enumerate(WHERE.tiers)}
    assert one.axes == axes
    assert set(one.tiers) == {names[tier] for tier in tiers}


@pytest.mark.parametrize(
    ("ranks", "reason"),
    [([3, 4], "does not begin where"), ([0, 1, 5], "not evenly spaced"), ([0, 1, 2], "")],
)
def test_groups_that_lie_otherwise_have_no_price(
    ranks: list[int], reason: str, traced: Any
) -> None:
    (one,) = traced([call(0, 900, ranks)]).calls
    assert reason in str(one.reason)
    assert (one.expected_s is None) == bool(one.reason)


@given(
    st.lists(st.tuples(st.integers(2, 4), st.integers(1, 3)), min_size=1, max_size=3),
    st.integers(0, 9),
)
def test_axes_give_the_ranks_again(steps: list[tuple[int, int]], first: int) -> None:
    axes, reach = [], 1
    for size, times in steps:
        axes.append((size, reach * times))
        reach *= size * times
    ranks = sorted(first + member for member in RankGroup(tuple(axes)).members)
    found = axes_of(ranks)
    assert sorted(first + member for member in RankGroup(found).members) == ranks


def test_a_rank_beyond_the_fabric_is_refused(traced: Any) -> None:
    with pytest.raises(ColltoolError, match=r"rank 16, and .* has ranks 0 to 15"):
        traced([call(0, 900, list(range(17)))])


def test_exposed_is_what_other_kernels_do_not_cover(traced: Any) -> None:
    compute = [kernel(10, 20), kernel(20, 20), kernel(90, 50), kernel(0, 1000, device=1)]
    (one,) = traced([*compute, call(0, 100, [0, 1])]).calls
    assert one.exposed_s == pytest.approx(60e-6)


def test_shares_are_of_the_steps(traced: Any) -> None:
    events = [
        step(1, 0, 500),
        step(2, 500, 500),
        call(-200, 50, [0, 1]),
        call(100, 100, [0, 1]),
        call(600, 100, [0, 1]),
    ]
    result = traced(events)
    assert (result.steps, result.window_s) == (2, pytest.approx(1e-3))
    (total,) = result.totals
    assert (total.calls, total.a_step) == (3, 1)
    assert result.share == pytest.approx(0.2)
    assert result.exposed == pytest.approx(0.2)


def test_the_devices_own_steps_come_first(traced: Any) -> None:
    own = step(1, 0, 400) | {"cat": "gpu_user_annotation"}
    assert traced([own, step(1, 0, 1000), call(0, 100, [0, 1])]).share == pytest.approx(0.25)


def test_metadata_of_the_host_stands_in_by_its_number(traced: Any) -> None:
    host = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "ts": START, "dur": 1.0}
    bare = kernel(0, 10, RING_LL, 20, **{"External id": 7})
    result = traced(
        [bare, host | {"args": {"External id": 7} | labels([0, 1])}, kernel(5, 10, RING_LL, 20)]
    )
    assert len(result.calls) == 1
    ((reason, kernels, _),) = result.left_out
    assert ("no metadata" in str(reason), kernels) == (True, 1)


def test_the_job_holds_the_calls_of_a_step_and_is_priced(traced: Any) -> None:
    steps = [step(1, 0, 500), step(2, 500, 500)]
    often = [call(at, 10, [0, 1, 2, 3]) for at in (0, 100, 200, 600, 700, 800)]
    odd = [call(900, 10, [3, 4]), call(910, 10, [0, 1, 4, 5])]
    result = traced([*steps, *often, *odd])
    job = yaml.safe_load(result.job)
    assert job["layout"] == {"dp": 16}
    assert job["calls"] == [
        {"primitive": "ar", "group": {"ranks": 4, "stride": 1}, "size": f"{4 * MIB}B", "count": 3}
    ]
    assert result.job.count("# left out") == 2
    plan = colltool.plan(job, WHERE)
    assert plan.step_s == pytest.approx(3 * result.calls[0].expected_s)


def test_findings_of_whole_groups(traced: Any) -> None:
    """Every size takes three times as long as it should: validate says so, where all ranks have a
    trace."""
    sizes = [2**k for k in range(14, 25, 2)]
    due = {
        size: colltool.price(WHERE, "ar", ranks=2, size=4 * size).best.total_s * 1e6
        for size in sizes
    }
    events = [
        call(1e5 * index, 3 * due[size], [0, 1], elements=size, Seq=index)
        for index, size in enumerate(sizes)
    ]
    (finding,) = traced(events, events).findings
    assert finding.series == "all-reduce, 2 ranks"
    assert str(finding.findings[0]).startswith("reaches 34% of the busbw predicted for this fabric")
    assert traced(events).findings == ()


def test_two_traces_of_one_rank_or_of_two_jobs_are_refused(tmp_path: Path) -> None:
    events = [call(0, 10, [0, 1])]
    first, same = (write(tmp_path / name, events, 0) for name in ("a.json", "b.json"))
    other = write(tmp_path / "c.json", events, 1, 4)
    with pytest.raises(ColltoolError, match="is a trace of rank 0, and so is"):
        colltool.trace(WHERE, [first, same])
    with pytest.raises(ColltoolError, match="a job of 4 ranks"):
        colltool.trace(WHERE, [first, other])


def test_a_cut_trace_is_used_and_said_to_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(text([call(0, 10, [0, 1]), call(20, 10, [0, 1])])[:-40])
    result = colltool.trace(WHERE, path)
    assert len(result.calls) == 1
    assert result.files[0].broken
    assert "ends too early" in result._repr_html_()


@swept(
    ("content", "what"),
    [
        ("", "not a PyTorch profiler trace"),
        ("# nccl-tests version 2.17", "not a PyTorch profiler trace"),
        ('{"schema": "colltool.price/1"}', "not a PyTorch profiler trace"),
        ('{"traceEvents": []}', "a trace without events"),
        (
            '{"traceEvents": [1, null, {"ph": "X"}, {"ph": "X", "cat": 1, "name": 2}]}',
            "a trace without events",
        ),
        (
            json.dumps({"traceEvents": [kernel(0, 10), kernel(0, 1)]})[:-50],
            "holds no communication kernel: 1 kernel .* the file ends too early",
        ),
        (
            json.dumps({"traceEvents": [kernel(0, 0, RING_LL), kernel(0, 10**400)]}),
            "2 kernels: kernels without a time",
        ),
    ],
)
def test_what_is_no_trace_is_refused(content: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ColltoolError, match=what) as caught:
        colltool.trace(WHERE, path)
    assert caught.value.where == str(path)
    assert caught.value.fix


def test_names_of_a_trace_are_data(traced: Any) -> None:
    evil = call(
        0, 10, [0, 1], **{"Process Group Description": "<script>\x1b[31m|", "dtype": "Float8<b>"}
    )
    shown = traced([evil], deviceProperties=[{"name": "<img src=x>\n\x1b"}])._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown
    assert "\x1b" not in shown


ANY = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=3)
)
KEYS = [
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "dtype",
    "Process Group Ranks",
    "Seq",
    "Src Rank",
]


@given(
    st.dictionaries(st.sampled_from(KEYS), ANY),
    st.dictionaries(st.sampled_from(["ts", "dur", "args", "name", "cat"]), ANY),
)
def test_odd_values_are_left_out_or_told(
    tmp_path_factory: Any, args: dict[str, Any], fields: dict[str, Any]
) -> None:
    spoiled = call(50, 10, [0, 1])
    spoiled["args"] |= args
    spoiled |= fields
    path = tmp_path_factory.mktemp("odd") / "a.json"
    result = colltool.trace(WHERE, write(path, [call(0, 10, [0, 1]), spoiled]))
    assert 1 <= len(result.calls) <= 2
    for one in result.calls:
        assert 0 <= one.exposed_s <= one.measured_s <= one.longest_s
        assert (one.expected_s is None) == bool(one.reason)
    assert result.to_columns()
