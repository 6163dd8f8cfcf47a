"""The numbers of a fit: the non-negative solution, one component, and the lower envelope of
several."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from swept import swept

from colltool.calibration.envelope import (
    Sample,
    _evaluate_starts,
    _refine,
    _starts,
    evaluate,
    fit_envelope,
    relative_errors,
    relative_rows,
)
from colltool.calibration.least_squares import (
    Array,
    Prior,
    _non_negative_minimum,
    robust_fit,
    solve,
)

SIZES = 1024.0 * 2.0 ** np.arange(21)
LOW, HIGH = (5e-6, 0.8e-6, 1 / 40e9, 0.0), (20e-6, 1.4e-6, 1 / 360e9, 0.0)


def sample(
    *ranks: int,
    thetas: tuple[tuple[float, ...], ...] = (LOW,),
    alpha_s: float = 1e-6,
    launch_s: float | None = None,
    components: int = 1,
) -> Sample:
    """Rings of all-reduce that take the least of what the components say."""
    rows = [(1.0, 2.0 * (n - 1), 2 * (n - 1) / n * size, size / n) for n in ranks for size in SIZES]
    x = np.array(rows)[None]
    seconds = np.min([x[0] @ np.array(theta) for theta in thetas], axis=0)
    allowed = np.ones((components, 1), dtype=bool)
    offset = np.zeros((1, 1, len(rows)))
    return Sample(seconds, np.tile(SIZES, len(ranks)), x, offset, allowed, Prior(alpha_s, launch_s))


def component(one: Sample) -> Array:
    points = len(one.seconds)
    x, y = relative_rows(one, np.zeros(points, dtype=np.intp), np.zeros(points, dtype=np.intp))
    return robust_fit(x, y, np.ones((1, points), dtype=bool), one.prior)[0]


def test_one_component_comes_back() -> None:
    launch, alpha, per_byte, copied = component(sample(2, 8, 32))
    assert launch == pytest.approx(5e-6, rel=2e-3)
    assert alpha == pytest.approx(0.8e-6, rel=2e-3)
    assert 1 / per_byte == pytest.approx(40e9, rel=2e-3)
    assert copied < 0.02 * per_byte


def test_a_local_copy_comes_back() -> None:
    *_, per_byte, copied = component(sample(2, 4, 8, thetas=((5e-6, 0.8e-6, 1 / 40e9, 1 / 200e9),)))
    assert 1 / per_byte == pytest.approx(40e9, rel=0.01)
    assert 1 / copied == pytest.approx(200e9, rel=0.01)


@swept("alpha_s", [1e-9, 1e-6, 3e-4])
def test_alpha_is_what_the_points_say_however_far_from_the_prior(alpha_s: float) -> None:
    launch, alpha, *_ = component(sample(2, 8, 32, thetas=((5e-6, alpha_s, 1 / 40e9, 0.0),)))
    assert alpha == pytest.approx(alpha_s, rel=2e-3, abs=1e-9)
    assert launch + 62 * alpha == pytest.approx(5e-6 + 62 * alpha_s, rel=2e-3)


def test_one_rank_count_leaves_alpha_at_the_prior() -> None:
    launch, alpha, *_ = component(sample(8, alpha_s=0.5e-6))
    assert alpha == pytest.approx(0.5e-6, rel=1e-4)
    assert launch + 14 * alpha == pytest.approx(5e-6 + 14 * 0.8e-6, rel=1e-4)


def test_one_rank_count_keeps_a_known_launch_overhead_and_gives_alpha_the_rest() -> None:
    for known in (5e-6, 2e-6):
        launch, alpha, *_ = component(sample(8, alpha_s=0.5e-6, launch_s=known))
        assert launch == pytest.approx(known, rel=0.3)
        assert launch + 14 * alpha == pytest.approx(5e-6 + 14 * 0.8e-6, rel=1e-2)


def test_on_hosts_nothing_is_launched() -> None:
    launch, alpha, *_ = component(sample(8, alpha_s=2e-6, launch_s=0.0))
    assert launch < 0.5e-6
    assert launch + 14 * alpha == pytest.approx(5e-6 + 14 * 0.8e-6, rel=1e-2)


def test_two_rank_counts_speak_louder_than_a_known_launch_overhead() -> None:
    launch, alpha, *_ = component(sample(2, 8, 32, launch_s=50e-6))
    assert launch == pytest.approx(5e-6, rel=0.01)
    assert alpha == pytest.approx(0.8e-6, rel=0.01)


def test_each_component_has_offsets_of_its_own() -> None:
    one = sample(2, 8, 32, thetas=(LOW, HIGH), components=2)
    fit = fit_envelope(one)
    own = np.stack([np.full((1, len(one.seconds)), 3e-6), np.full((1, len(one.seconds)), 9e-6)])
    moved = one._replace(offset=own, seconds=one.seconds + own[fit.component, 0, 0])
    again = fit_envelope(moved)
    assert np.abs(relative_errors(again, moved)).max() < 3e-3
    assert sorted(again.theta[:, 0]) == pytest.approx([5e-6, 20e-6], rel=0.02)


def test_what_the_library_would_not_run_needs_a_better_fit() -> None:
    one = sample(4)
    twice = one._replace(
        x=np.concatenate([one.x, one.x]),
        offset=np.zeros((1, 2, len(one.seconds))),
        allowed=np.ones((1, 2), bool),
    )
    for unlikely in (0, 1):
        flags = np.zeros((2, len(one.seconds)), dtype=bool)
        flags[unlikely] = True
        assert _evaluate_starts(np.array([[LOW]]), twice._replace(unlikely=flags)).loss[
            0
        ] == pytest.approx(0.03 if unlikely == 0 else 0.0, abs=1e-6)  # of equals the first is taken


def test_a_cliff_hardly_moves_one_component() -> None:
    one = sample(2, 8, 32)
    spoiled = one._replace(
        seconds=np.where(np.arange(len(one.seconds)) == 30, 5 * one.seconds, one.seconds)
    )
    assert component(spoiled)[:3] == pytest.approx(component(one)[:3], rel=0.03)


def test_two_components_come_back_and_so_does_who_serves_which_size() -> None:
    one = sample(2, 8, 32, thetas=(LOW, HIGH), components=2)
    fit = fit_envelope(one)
    assert np.abs(relative_errors(fit, one)).max() < 2e-3
    low, high = sorted(fit.theta.tolist())
    assert low[:3] == pytest.approx(LOW[:3], rel=0.01)
    assert high[:3] == pytest.approx(HIGH[:3], rel=0.01)
    serves = fit.component[: len(SIZES)]
    assert (np.diff(serves) != 0).sum() == 1  # small sizes with one, large with the other


def test_the_envelope_is_the_least_of_what_is_allowed() -> None:
    one = sample(4, components=2)
    x = np.concatenate([one.x, 2 * one.x])
    wide = one._replace(
        x=x, offset=np.zeros((1, *x.shape[:2])), allowed=np.array([[True, False], [False, True]])
    )
    theta = np.array([LOW, LOW])
    first = evaluate(theta, wide)
    assert (first.component == 0).all()
    assert first.fitted == pytest.approx(one.seconds)
    swapped = evaluate(theta, wide._replace(allowed=np.array([[False, True], [False, True]])))
    assert swapped.fitted == pytest.approx(2 * one.seconds)
    assert (swapped.algorithm == 1).all()


def test_an_offset_is_no_parameters() -> None:
    one = sample(2, 8, 32)
    offset = np.full((1, 1, len(one.seconds)), 3e-6)
    shifted = one._replace(offset=offset, seconds=one.seconds + offset[0, 0])
    assert component(shifted)[:3] == pytest.approx(component(one)[:3], rel=0.01)


numbers = st.floats(-1.0, 1.0)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=4, max_size=8),
    st.lists(numbers, min_size=4, max_size=4),
)
def test_no_other_non_negative_theta_is_better(rows: list[list[float]], right: list[float]) -> None:
    x, r = np.array(rows), np.array(right)
    gram = x.T @ x + 1e-3 * np.eye(4)
    first, theta = _non_negative_minimum(np.stack([np.eye(4), gram]), np.stack([np.ones(4), r]))
    assert (first == np.ones(4)).all()  # solved beside it, untouched
    slope = gram @ theta - r
    assert (theta >= 0).all()
    assert (slope >= -1e-7).all()  # growing a parameter does not help
    assert np.abs(slope * theta).max() < 1e-6  # and no positive one wants to move


def test_a_copy_is_part_of_what_a_port_carries() -> None:
    rows = np.array([[1.0, 2.0, 1.0 * size, 0.5 * size] for size in (1.0, 2.0, 4.0, 8.0)])
    (theta,) = solve(
        rows, rows @ np.array([1.0, 1.0, 0.0, 5.0]), np.ones((1, 4)), Prior(1.0), np.ones(1)
    )
    assert theta[2] >= theta[3] >= 0


def test_a_row_without_weight_is_not_there() -> None:
    one = sample(2, 8, 32)
    nothing = np.zeros(len(one.seconds), dtype=np.intp)
    x, y = relative_rows(one, nothing, nothing)
    kept = np.arange(len(y)) % 3 != 1
    both = robust_fit(x, y, np.stack([kept, np.ones_like(kept)]), one.prior)
    assert both[0] == pytest.approx(
        robust_fit(x[kept], y[kept], np.ones((1, kept.sum()), dtype=bool), one.prior)[0], rel=1e-9
    )


def test_many_starts_are_each_refined_as_alone() -> None:
    one = sample(2, 8, 32, thetas=(LOW, HIGH), components=2)
    one = one._replace(
        seconds=one.seconds * np.exp(0.05 * np.random.default_rng(1).normal(size=len(one.seconds)))
    )
    component, algorithm = _starts(one)
    together = _refine(one, component, algorithm, 12)
    for at in range(len(component)):
        alone = _refine(one, component[at : at + 1], algorithm[at : at + 1], 12)
        assert alone.loss[0] == pytest.approx(together.loss[at], rel=1e-9)
        assert alone.theta[0] == pytest.approx(together.theta[at], rel=1e-6)
        assert together.loss[at] == pytest.approx(
            np.abs(evaluate(together.theta[at], one).fitted / one.seconds - 1).mean()
        )
