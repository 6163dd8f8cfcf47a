"""Steps a day where ranks fail: Daly's interval against the best of all, and a run that draws its
failures."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning import dense, two_tiers
from swept import swept

import colltool
from colltool.base.errors import ColltoolError
from colltool.training.goodput import best_interval, useful_share


@given(st.floats(1, 600), st.floats(3600, 1e6), st.floats(0, 1800))
def test_the_best_interval_is_the_best(write_s: float, mtbf_s: float, restart_s: float) -> None:
    """Of a thousand intervals none does more than half a percent better."""
    best = useful_share(best_interval(write_s, mtbf_s), write_s, mtbf_s, restart_s)
    tried = (
        useful_share(mtbf_s * 10 ** (step / 250 - 3), write_s, mtbf_s, restart_s)
        for step in range(1000)
    )
    assert best >= 0.995 * max(tried)


def test_young_where_a_checkpoint_is_short() -> None:
    """sqrt(2 C M) of Young 1974: 10 s of writing, a day between failures."""
    assert best_interval(10, 86400) == pytest.approx((2 * 10 * 86400) ** 0.5, rel=0.01)


def test_a_run_with_drawn_failures() -> None:
    """Failures at random instants, also while it writes and restarts: the share of Daly's equation
    20."""
    interval, write, mtbf, restart = 3000.0, 200.0, 20000.0, 600.0
    drawn, useful, passed = random.Random(7), 0.0, 0.0
    for _ in range(40_000):
        passed += interval + write  # as far as it comes without a failure
        while (left := drawn.expovariate(1 / mtbf)) < interval + write:
            passed += left
            while (again := drawn.expovariate(1 / mtbf)) < restart:
                passed += again
            passed += restart
        useful += interval
    assert useful / passed == pytest.approx(useful_share(interval, write, mtbf, restart), rel=0.02)


def test_a_plan_says_steps_a_day() -> None:
    job = dense(batch={"global": 256, "micro": 1})
    found = colltool.plan(job, two_tiers(), 64, mtbf="50000h", storage="10GB/s")
    told = found.goodput
    assert told is not None
    assert told.job_mtbf_s == pytest.approx(50000 * 3600 / 64)
    assert told.checkpoint_bytes == pytest.approx(12 * 8.03e9, rel=1e-3)
    assert told.write_s == pytest.approx(told.checkpoint_bytes / 10e9)
    assert told.steps_per_day == pytest.approx(told.share * 86400 / found.step_s)
    assert told.best_steps_per_day == told.steps_per_day
    often = colltool.plan(
        job, two_tiers(), 64, mtbf="50000h", storage="10GB/s", checkpoint="1min", restart="2h"
    ).goodput
    assert often is not None
    assert often.interval_s == 60
    assert often.steps_per_day < often.best_steps_per_day < told.steps_per_day


@swept(
    ("given", "what"),
    [
        ({"mtbf": "50000h"}, "needs the rate at which checkpoints are written"),
        ({"mtbf": "5", "storage": "1GB/s"}, "expected a time with its unit"),
        ({"mtbf": "0s", "storage": "1GB/s"}, "expected a time above 0"),
        ({"mtbf": "1h", "storage": "fast"}, "expected a rate with its unit"),
        ({"storage": "1GB/s"}, "acts only with mtbf"),
        ({"checkpoint": "1min"}, "acts only with mtbf"),
    ],
)
def test_what_cannot_be_read(given: dict[str, str], what: str) -> None:
    with pytest.raises(ColltoolError, match=what):
        colltool.plan(dense(), two_tiers(), 64, **given)
