"""The least network for a target: bisection against trying every value, and the overrides that make
it."""

from __future__ import annotations

from typing import Any

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import dense, thin, two_tiers

import colltool
from colltool.base.errors import ColltoolError
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.plan import Plan
from colltool.training.step_time import step_time
from colltool.training.targets import (
    MAX_SHARE,
    MIN_SHARE,
    TOLERANCE,
    Needed,
    Target,
    least_share,
    rounded_up,
)

JOB = dense(layout={"tp": 2, "sp": True}, batch={"global": 64, "micro": 1})


def asked(fabric: Any, target: str, job: Any = JOB, ranks: int = 64) -> Plan:
    return colltool.plan(job, fabric, ranks, target=target)


def needed(found: Plan, what: str) -> Needed:
    assert found.targeted is not None
    return next(one for one in found.targeted.needed if one.what == what)


@pytest.mark.thorough
@settings(max_examples=examples(8), deadline=None)
@given(
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["zero1", "fsdp"]),
    st.floats(0.002, 0.5),
    st.sampled_from([8, 64]),
)
def test_bisection_finds_what_trying_every_rate_finds(
    tp: int, mode: str, over: float, batch: int
) -> None:
    job = dense(
        layout={"tp": tp, "sp": tp > 1},
        shard={"mode": mode},
        batch={"global": 64 * batch // 8, "micro": 1},
    )
    found = asked(two_tiers(), f"step={over}", job)
    assert found.targeted is not None
    limit = found.targeted.limit_s
    assert limit == pytest.approx((1 + over) * found.control_step_s)
    one = needed(found, "slowest ib")
    tried = [MIN_SHARE * (MAX_SHARE / MIN_SHARE) ** (step / 40) for step in range(0, 41, 4)]
    fabrics = (
        colltool.load_fabric(two_tiers(), [f"ib.bandwidth={50 * share}GB/s"]) for share in tried
    )
    steps = [step_time(found.setup, CollectiveCostCache(fabric)).step_s for fabric in fabrics]
    enough = [share for share, step_s in zip(tried, steps, strict=True) if step_s <= limit]
    if one.value is None:
        assert not enough
        return
    share, coarse = one.value / 50e9, (MAX_SHARE / MIN_SHARE) ** (1 / 10)
    assert enough[0] / coarse / TOLERANCE <= share <= enough[0] * TOLERANCE


@pytest.mark.alike(2)
@pytest.mark.parametrize("target", ["step=3%", "step=0.2", "mfu=30%"])
def test_the_overrides_reach_the_target(target: str) -> None:
    found = asked("dgx-h100", target)
    assert found.targeted is not None
    for one in found.targeted.needed:
        if one.value is None:
            continue
        again = colltool.plan(found.job, colltool.load_fabric("dgx-h100", dict(one.set)), 64)
        assert again.step_s == pytest.approx(one.step_s, rel=1e-6), one
        assert again.step_s <= found.targeted.limit_s * (1 + 1e-9), one


def test_a_free_network_is_the_most_that_any_is() -> None:
    found = asked(two_tiers(), "mfu=99%")
    assert found.targeted is not None
    assert (found.targeted.possible, found.targeted.needed) == (False, ())


def test_the_thinnest_spine() -> None:
    """Thinner by a hundredth does not do."""
    wide, now = (colltool.plan(JOB, thin(over), 128) for over in (1.0, 4.0))
    over = (wide.step_s + now.step_s) / 2 / now.control_step_s - 1
    found = asked(thin(4.0), f"step={over}", ranks=128)
    assert found.targeted is not None
    one = needed(found, "thinnest spine of ib")
    assert one.value is not None
    assert 1 < one.value < 4
    key = "ib.levels.spine.oversubscription"
    assert dict(one.set) == {key: f"{one.value:.6g}"}
    worse = colltool.plan(JOB, colltool.load_fabric(thin(4.0), [f"{key}={1.02 * one.value}"]), 128)
    assert worse.step_s > found.targeted.limit_s >= one.step_s


@pytest.mark.ci
def test_the_smallest_domain_is_the_first_that_does() -> None:
    job = dense(layout={"tp": 4, "sp": True}, batch={"global": 64, "micro": 1})
    now = colltool.plan(job, two_tiers(), 64)
    found = asked(two_tiers(), f"step={1.001 * now.step_s / now.control_step_s - 1}", job)
    one = needed(found, "smallest nvlink domain")
    sizes = {2: 32, 4: 16, 8: 8}
    steps = {}
    for size, nodes in sizes.items():
        with_size = colltool.load_fabric(two_tiers(), [f"nvlink.size={size}", f"ib.size={nodes}"])
        steps[size] = colltool.plan(job, with_size, 64).step_s
    assert found.targeted is not None
    first = min(size for size, step_s in steps.items() if step_s <= found.targeted.limit_s)
    assert one.value == first
    assert dict(one.set) == {"nvlink.size": str(first), "ib.size": str(sizes[first])}
    assert one.step_s == pytest.approx(steps[first])


@given(st.floats(1e-6, 1e15))
def test_rounding_never_takes_away(value: float) -> None:
    assert value * (1 - 1e-11) <= rounded_up(value) <= value * 1.0011


@given(st.floats(0.02, 60))
def test_smallest_of_a_falling_function(least: float) -> None:
    found = least_share(lambda share: 1 / share, 1 / least)
    assert found is not None
    assert least <= found <= least * TOLERANCE * (1 + 1e-9)


def test_what_is_no_target() -> None:
    assert Target(over=0.05).text == "a step within 5% of a free network"
    for wrong in ("mfu", "mfu=0", "mfu=120%", "step=-1", "speed=2", "", "step=x"):
        with pytest.raises(ColltoolError, match="expected mfu=45% or step=5%"):
            asked(two_tiers(), wrong)
