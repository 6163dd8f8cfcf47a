"""Which wire of a traced run is slow, and what is said where none can be blamed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from small import clos, fabric, star
from swept import swept
from tracing import call, step, write

import colltool
from colltool.base.formatting import ranks_text
from colltool.base.statements import NOTHING
from colltool.diagnosis.link_health import HEALTHY_SMALL_A2A
from colltool.diagnosis.thresholds import HEALTHY_FEW, HEALTHY_PART, HEALTHY_SHARE, SLACK
from colltool.diagnosis.trace_results import TraceComparison

WHERE = fabric(star(4, 1.0, 400.0), clos(4, alpha=3.0))  # four hosts of four
INNER, OUTER = (tier.name for tier in WHERE.tiers)
BIG, SMALL = 2**24, 2**4  # elements of 4 bytes
HOST, RAIL = [0, 1, 2, 3], [0, 4, 8, 12]


def due_us(elements: int = BIG, primitive: str = "ar", **who: int) -> float:
    """What a call on a host, or on the given ranks, should take."""
    return float(
        colltool.price(WHERE, primitive, size=4 * elements, **(who or {"ranks": 4})).best.total_s
        * 1e6
    )


def on(
    ranks: list[int], reach: float, at: float = 0, elements: int = BIG, **more: Any
) -> dict[str, Any]:
    """A call that reaches so much of what is expected of its ranks."""
    stride = ranks[1] - ranks[0]
    lasts = due_us(elements, ranks=len(ranks), stride=stride) / reach
    return call(at, lasts, ranks, elements=elements, Seq=int(at), **more)


def traced(
    folder: Path, *events: dict[str, Any], of: Iterable[int] = (*HOST, *RAIL[1:])
) -> TraceComparison:
    """Traces of some of 16 ranks; each has the calls of its groups."""
    files = []
    for rank in of:
        mine = [one for one in events if rank in json.loads(one["args"]["Process Group Ranks"])]
        files.append(write(folder / f"r{rank}.json", [step(1, 0, 1e6), *mine], rank, 16))
    return colltool.trace(WHERE, files)


def test_the_wire_that_is_slow_is_named(tmp_path: Path) -> None:
    result = traced(tmp_path, on(HOST, 0.97), on(RAIL, 0.45, 1e5))
    inner, outer = result.wires
    assert (inner.tier, inner.verdict, inner.innermost, inner.calls, inner.clear) == (
        INNER,
        "fine",
        True,
        1,
        1,
    )
    assert (outer.tier, outer.verdict, outer.innermost, outer.beside, outer.why) == (
        OUTER,
        "slow",
        False,
        (),
        NOTHING,
    )
    assert (inner.of_expected, outer.of_expected) == pytest.approx((0.97, 0.45), rel=1e-4)
    assert outer.share == outer.exposed == pytest.approx(4 * outer.measured_s / 7)
    said = (
        f"{OUTER} is slow: calls that cross {OUTER} reach 45% of expected, those inside {INNER}"
        " 97%; "
    )
    assert said in result.summary()
    assert f"of 7 steps is exposed on {OUTER}" in result.summary()


def test_no_wire_is_slow(tmp_path: Path) -> None:
    result = traced(tmp_path, on(HOST, 0.97), on(RAIL, HEALTHY_SHARE + 0.01, 1e5))
    assert [one.verdict for one in result.wires] == ["fine", "fine"]
    assert (
        f"No tier is slow: calls inside {INNER} reach 97% of expected, those that cross {OUTER} 81%"
        in result.summary()
    )


def test_a_group_over_both_wires_does_not_tell_them_apart(tmp_path: Path) -> None:
    both, every = list(range(16)), range(16)
    alone = traced(tmp_path, on(both, 0.5), of=every)
    assert [(one.tier, one.beside) for one in alone.wires] == [(OUTER, (INNER,))]
    assert f"{OUTER} or {INNER} is slow: calls that cross {OUTER} reach 50%" in alone.summary()
    apart = traced(tmp_path, on(both, 0.5), on(HOST, 0.97, 1e5), of=every)
    assert [(one.tier, one.verdict, one.beside) for one in apart.wires] == [
        (INNER, "fine", ()),
        (OUTER, "slow", ()),
    ]


def test_two_slow_wires_are_told_apart_where_calls_do(tmp_path: Path) -> None:
    both, every = list(range(16)), range(16)
    rails = traced(tmp_path, on(HOST, 0.5), on(RAIL, 0.4, 1e5), on(both, 0.4, 2e5), of=every)
    assert [(one.verdict, one.beside) for one in rails.wires] == [("slow", ()), ("slow", ())]
    assert (
        f"{INNER} and {OUTER} are slow: calls inside {INNER} reach 50% of expected, those"
        in rails.summary()
    )
    alone = traced(tmp_path, on(HOST, 0.5), on(both, 0.4, 2e5), of=every)
    assert [(one.verdict, one.beside) for one in alone.wires] == [("slow", ()), ("slow", (INNER,))]
    assert f"{INNER} is slow: calls inside" in alone.summary()
    assert (
        f"Whether {OUTER} is slow too cannot be told: its calls also cross {INNER}"
        in alone.summary()
    )


def test_some_upper_bounds_are_said(tmp_path: Path) -> None:
    result = traced(tmp_path, on(HOST, 0.9), on([4, 5, 6, 7], 0.9, 1e5))
    assert [(one.verdict, one.calls, one.clear) for one in result.wires] == [("fine", 2, 1)]
    assert (
        f"1 of 2 times on {INNER} are upper bounds: a kernel waits for the slowest rank, and there"
        " is no trace of ranks 5 to 7" in (result._repr_html_())
    )


def test_upper_bounds_blame_nobody(tmp_path: Path) -> None:
    result = traced(tmp_path, on(HOST, 0.5), on(HOST, 0.5, 1e5, 2**20), of=[1])
    (wire,) = result.wires
    assert (wire.verdict, wire.clear, wire.missing) == ("unknown", 0, (0, 2, 3))
    assert (
        str(wire.why)
        == "a kernel waits for the slowest rank, and there is no trace of ranks 0, 2 to 3"
    )
    assert wire.measure == "./build/all_reduce_perf -b 4M -e 64M -f 2 -g 4"
    *_, blame, then = result.summary().splitlines()
    assert blame.startswith(
        "Cannot tell network from waiting: only rank 1 was traced, and up to 271 of 543 us on t1"
    )
    assert blame.endswith(" may be rank 1 waiting for ranks 0, 2 to 3")
    assert (
        then == "Trace all ranks (ranks 0, 2 to 3 are missing), or measure"
        f" {INNER} alone: {wire.measure}"
    )


def test_the_ranks_to_record_are_those_of_one_group(tmp_path: Path) -> None:
    result = traced(tmp_path, on(list(range(16)), 0.3), on(RAIL, 0.3, 1e5), of=[0])
    assert [one.missing for one in result.wires] == [(4, 8, 12)]


def test_upper_bounds_near_the_price_clear_a_wire(tmp_path: Path) -> None:
    result = traced(tmp_path, on(HOST, 0.9), on(RAIL, 0.5, 1e5), of=[0])
    assert [(one.verdict, one.clear) for one in result.wires] == [("fine", 0), ("unknown", 0)]
    assert (
        result.wires[1].measure
        == "mpirun -np 4 -N 1 ./build/all_reduce_perf -b 64M -e 64M -f 2 -g 1"
    )
    assert (
        f"{INNER} is not slow: calls inside {INNER} reach at least 90% of expected"
        in result.summary()
    )
    assert f"Cannot tell {OUTER} from waiting: only rank 0 was traced" in result.summary()


def test_the_first_call_may_set_connections_up(tmp_path: Path) -> None:
    (wire,) = traced(
        tmp_path, on(HOST, 0.001), *(on(HOST, 0.9, at) for at in (1e5, 2e5, 3e5))
    ).wires
    assert (wire.verdict, wire.of_expected) == ("fine", pytest.approx(0.9, rel=1e-4))


def test_small_messages_have_the_bar_of_doctor(tmp_path: Path) -> None:
    (wire,) = traced(tmp_path, on(HOST, HEALTHY_SHARE - SLACK / 2, elements=SMALL)).wires
    assert (wire.verdict, wire.bar) == ("fine", pytest.approx(HEALTHY_SHARE - SLACK))


@swept(
    ("ranks", "bar"),
    [([0, 1], HEALTHY_FEW), (list(range(6)), HEALTHY_PART), (list(range(8)), HEALTHY_SHARE)],
)
def test_a_part_of_a_host_is_held_to_less(ranks: list[int], bar: float, tmp_path: Path) -> None:
    host = fabric(star(8, 1.0, 400.0))
    due = float(colltool.price(host, "ar", ranks=len(ranks), size=4 * BIG).best.total_s * 1e6)
    verdicts = []
    for reach in (bar + 0.01, bar - 0.01):
        event = call(0, due / reach, ranks, elements=BIG, Seq=1)
        result = colltool.trace(
            host, [write(tmp_path / f"{rank}.json", [event], rank, 8) for rank in ranks]
        )
        verdicts.append(result.wires[0].verdict)
        assert ("healthy nodes also reach" in result.summary()) == (
            bar == HEALTHY_FEW and reach > bar
        )
    assert verdicts == ["fine", "slow"]
    assert result.wires[0].bar == pytest.approx(bar)


def test_small_all_to_alls_are_held_to_least(tmp_path: Path) -> None:
    due = due_us(SMALL, "a2a", ranks=4)
    event = call(
        0, due / 0.45, HOST, "ncclDevKernel_SendRecv(x)", called="all_to_all", elements=SMALL, Seq=1
    )
    (wire,) = colltool.trace(
        WHERE, [write(tmp_path / f"{rank}.json", [event], rank, 16) for rank in HOST]
    ).wires
    assert (wire.verdict, wire.bar, wire.of_expected) == (
        "fine",
        HEALTHY_SMALL_A2A,
        pytest.approx(0.45, rel=1e-3),
    )


def test_a_wire_that_is_too_fast_is_another(tmp_path: Path) -> None:
    result = traced(tmp_path, on(HOST, 5.0))
    assert result.wires[0].verdict == "fine"
    last = result.summary().splitlines()[-1]
    assert (
        last
        == f"Not judged: {INNER} of {WHERE.name} cannot be so fast, so this was another machine, or the ranks sit elsewhere"
        " (placed); calls are 5 times faster than expected"
    )


@swept(
    ("called", "name", "more", "why"),
    [
        (
            "send",
            "ncclDevKernel_SendRecv(x)",
            {"Src Rank": 0, "Dst Rank": 1},
            "the two ends of a message",
        ),
        ("all_to_allv", "ncclDevKernel_SendRecv(x)", {"In split size": "[1, 2]"}, "are uneven"),
        (
            "allreduce",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
            {"dtype": "Half"},
            "do not pair off",
        ),
    ],
)
def test_why_whole_groups_have_upper_bounds(
    called: str, name: str, more: dict[str, Any], why: str, tmp_path: Path
) -> None:
    one = call(0, 1e4, HOST, name, called=called, elements=BIG, **more)
    other = one | {"args": one["args"] | ({"dtype": "Float"} if called == "allreduce" else {})}
    files = [write(tmp_path / f"{rank}.json", [one if rank else other], rank, 16) for rank in HOST]
    (wire,) = colltool.trace(WHERE, files).wires
    assert (wire.verdict, wire.missing) == ("unknown", ())
    assert why in str(wire.why)


def test_calls_without_a_price_are_on_no_wire(tmp_path: Path) -> None:
    result = traced(tmp_path, call(0, 900, [0, 1, 5]), of=[0])
    assert result.wires == ()
    assert "no call has a price" in result.summary()
    assert (
        result.summary().splitlines()[-1]
        == "No tier can be judged: the ranks of the group are not evenly spaced"
    )


@swept(
    ("ranks", "text"),
    [
        ([1], "rank 1"),
        ([0, 1, 2], "ranks 0 to 2"),
        ([0, 2], "ranks 0, 2"),
        ([8, 16, 24], "ranks 8, 16, 24"),
        ([8, 16, 24, 32], "every 8th rank from 8 to 32"),
        ([1, 2, 3, 8, 10, 12, 14, 15], "ranks 1 to 3, 8, 10 and 3 more"),
    ],
)
def test_ranks_in_words(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text
