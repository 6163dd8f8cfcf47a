"""How certain a fitted protocol's parameters are: intervals, and whether α can be told from the
launch overhead."""

from typing import NamedTuple

import numpy as np

from colltool.calibration.envelope import Envelope, Sample, relative_rows
from colltool.calibration.least_squares import (
    ALPHA,
    LAUNCH,
    NOISE,
    PER_BYTE,
    PER_OWN_BYTE,
    Array,
    prior_width,
    solve,
)

# Draws of the bootstrap: enough for 95% intervals.
DRAWS = 200
# Weights, one a point and draw, that are drawn in one batch, to bound memory.
_WEIGHTS_AT_ONCE = 200_000


class Certainty(NamedTuple):
    """95% intervals of one component's θ, (4, 2), and whether its points separate α from the launch
    overhead."""

    ci95: Array
    alpha_is_determined: bool


def certainty(sample: Sample, fit: Envelope, component: int) -> Certainty:
    """How certain the parameters of one component are. The intervals are by Bayesian bootstrap (random
    weights of the points), with the assignment of points to components held fixed; NaN with fewer
    than three points."""
    unknown = np.full((4, 2), np.nan)
    of_component = fit.component == component
    if not of_component.any():
        return Certainty(unknown, alpha_is_determined=False)
    all_x, all_y = relative_rows(sample, fit.algorithm, fit.component)
    x = all_x[of_component]
    y = all_y[of_component]
    theta = fit.theta[component]
    width_s = float(prior_width(theta, sample.prior))
    determined = _is_alpha_determined(x, width_s)
    points = len(y)
    # a line passes through two points, which leaves no error to judge it by
    if points <= 2:
        return Certainty(unknown, determined)
    # fixed, so that the same logs have the same intervals
    random = np.random.default_rng(0)
    draws_at_once = max(1, min(DRAWS, _WEIGHTS_AT_ONCE // points))
    draws = []
    for begin in range(0, DRAWS, draws_at_once):
        weight = random.exponential(size=(min(draws_at_once, DRAWS - begin), points))
        draws.append(solve(x, y, weight, sample.prior, np.full(len(weight), width_s)))
    low, high = np.percentile(np.concatenate(draws), (2.5, 97.5), axis=0)
    # theta is robust, unlike the draws: it may lie outside their interval
    ci95 = np.stack([np.minimum(low, theta), np.maximum(high, theta)], axis=1)
    return Certainty(ci95, determined)


def _is_alpha_determined(x: Array, width_s: float) -> bool:
    """Whether points constrain α more than its prior of this width does, with the other parameters
    free; ``x`` are their rows, (points, 4).

    They do not where all take equally many steps (α and launch overhead are one sum) or are too large
    for a step to matter. Of a ring of 8 alone the column of steps is 14 times that of launches: these
    explain it, and nothing of it is left for α.
    """
    scale = np.abs(x).max(axis=0)
    scaled = x / np.where(scale > 0, scale, 1.0)
    others = scaled[:, [LAUNCH, PER_BYTE, PER_OWN_BYTE]]
    steps = x[:, ALPHA]
    explained = others @ np.linalg.lstsq(others, steps, rcond=1e-9)[0]
    left_for_alpha = ((steps - explained) ** 2).sum()
    return bool(left_for_alpha > (NOISE / width_s) ** 2)
