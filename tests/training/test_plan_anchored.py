"""A measured step as an anchor, and what the figures rest on."""

from __future__ import annotations

import pytest
from planning import adds_up, dense, part, shown, two_tiers
from swept import swept

import colltool
from colltool.base.errors import ColltoolError


@pytest.mark.parametrize("measured", [1.6, 2.3, 3.1])
def test_the_step_is_the_measured_one_and_the_network_stays(measured: float) -> None:
    plain = colltool.plan(dense(), two_tiers(), 64)
    found = colltool.plan(dense(measured={"step": f"{measured}s"}), two_tiers(), 64)
    assert found.step_s == pytest.approx(measured)
    assert found.anchor is not None
    assert found.anchor.before_s == plain.step_s
    assert found.measured_error == pytest.approx(plain.step_s / measured - 1)
    for name in ("compute", "optimizer"):
        assert part(found, name).exposed_s == pytest.approx(
            found.anchor.factor * part(plain, name).exposed_s,
            rel=1e-4,  # another stage may be the last to end
        )
    assert [
        one.sent.each_s for one in found.collectives if one.sent.call.dimension == "tp"
    ] == pytest.approx(
        [one.sent.each_s for one in plain.collectives if one.sent.call.dimension == "tp"]
    )
    adds_up(found)


def test_the_factor_is_a_key_of_its_own() -> None:
    """What was measured on 64 ranks plans 32: the same speed, nothing anchored again."""
    found = colltool.plan(dense(measured={"step": "2.5s"}), two_tiers(), 64)
    assert found.anchor is not None
    kept = colltool.plan(dense(slower=found.anchor.factor), two_tiers(), 64)
    assert kept.step_s == pytest.approx(2.5)
    assert kept.control_step_s == pytest.approx(found.control_step_s)
    beside = colltool.plan(
        dense(slower=found.anchor.factor, measured={"step": "2s"}), two_tiers(), 64
    )
    assert beside.anchor is None
    assert beside.measured_error == pytest.approx(0.25)


@pytest.mark.ci
def test_changes_are_those_of_the_anchored_step() -> None:
    job = dense(measured={"step": "2.5s"}, recompute="full")
    found = colltool.plan(job, two_tiers(), 64)
    for one in (one for one in found.changes if one.where == "job"):
        again = colltool.plan(
            colltool.load_job(job, [f"{key}={value}" for key, value in one.set]), two_tiers(), 64
        )
        assert again.step_s == pytest.approx(one.step_s, rel=1e-6), one.change
        assert one.gain == pytest.approx(1 - one.step_s / 2.5)


def test_a_step_that_the_network_alone_does_not_allow() -> None:
    with pytest.raises(ColltoolError, match="a step of 10 ms, and network and fixed time alone"):
        colltool.plan(dense(measured={"step": "10ms"}), two_tiers(), 64)


@pytest.mark.parametrize(("measured", "believable"), [("2.2s", True), ("9s", False)])
def test_what_no_stack_is_off_by_is_said(measured: str, believable: bool) -> None:
    found = colltool.plan(dense(measured={"step": measured}), two_tiers(), 64)
    assert found.anchor is not None
    assert found.anchor.believable is believable
    assert ("is outside 0.5 to 2, the error of stacks" in shown(found)) is not believable


def test_given_times_are_no_stack_to_anchor() -> None:
    job = {
        "layout": {"dp": 8},
        "compute": {"forward": "1s", "backward": "2s"},
        "measured": {"step": "4s"},
    }
    found = colltool.plan(job, two_tiers(), 8)
    assert found.anchor is None
    assert found.step_s == pytest.approx(3.0)
    assert found.measured_error == pytest.approx(-0.25)


def test_measured_memory_stands_beside() -> None:
    found = colltool.plan(dense(measured={"memory": "30GB"}), two_tiers(), 64)
    assert found.memory_bytes is not None
    assert found.memory_error == pytest.approx(found.memory_bytes / 30e9 - 1)
    assert found.anchor is None
    assert "measured memory 30 GB: the plan is off by" in shown(found)


GROUNDS = {
    "an assumed device": (
        {"device": "tpu-v5p", "stack": "jax", "layout": {"dp": 64}, "shard": {"mode": "fsdp"}},
        two_tiers(),
        "the efficiency of stack jax on tpu-v5p is partly assumed",
    ),
    "no launch overhead": ({}, two_tiers(), "nodes has no launch overhead, so "),
    "the library's own picks": ({}, "dgx-h100", "algorithms: what nccl picks"),
    "any library": ({}, two_tiers(), "algorithms: the fastest of any library"),
    "strides that do not tile": (
        {"layout": {"tp": 8, "sp": True, "pp": 4, "dp": 3}, "batch": {"global": 24}},
        two_tiers(16),
        "pp: groups of every 24th rank do not fill ib of 16, priced on 18",
    ),
    "times of a step": (
        {
            "layout": {"dp": 64},
            "shard": {"mode": "fsdp"},
            "compute": {"forward": "1s", "backward": "2s"},
        },
        two_tiers(),
        "compute is given for the whole step, so nothing hides under single layers",
    ),
}


@swept("name", GROUNDS)
def test_what_the_figures_rest_on_is_said(name: str) -> None:
    keys, fabric, says = GROUNDS[name]
    ranks = 96 if name == "strides that do not tile" else 64
    found = colltool.plan(dense(**keys), fabric, ranks)
    assert any(line.startswith(says) for line in found.grounds), found.grounds
    assert says in shown(found)


def test_a_measured_launch_needs_no_word() -> None:
    found = colltool.plan(dense(cuda_graphs=True), "dgx-h100", 64)
    assert not [
        line for line in found.grounds if "launch" in line or "assumed" in line or "tile" in line
    ]
