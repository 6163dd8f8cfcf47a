"""How well the points of a fit determine its numbers: bootstrap intervals, and what only the prior holds.

The bootstrap is the Bayesian one (Rubin 1981): it weighs the points at random rather than drawing some twice and others not at
all, which of three points would leave one too often.
"""

from typing import NamedTuple

import numpy as np

from colltool.calibration.envelope import Envelope, Sample, relative_rows
from colltool.calibration.least_squares import NOISE, Array, prior_width, solve

DRAWS = 200
_TOGETHER = 200_000
"""Weights that are drawn in one go."""


class Certainty(NamedTuple):
    """Of one component: 95% intervals of θ, (4, 2), and whether the points tell α from the launch overhead."""

    ci95: Array
    alpha_is_told: bool


def certainty(sample: Sample, fit: Envelope, component: int) -> Certainty:
    """How sure one component's numbers are, its points and their algorithms taken as assigned."""
    mine = fit.component == component
    if not mine.any():
        return Certainty(np.full((4, 2), np.nan), alpha_is_told=False)
    x, y = (rows[mine] for rows in relative_rows(sample, fit.algorithm, fit.component))
    random = np.random.default_rng(0)
    count = len(y)
    width = float(prior_width(fit.theta[component], sample.prior))
    if count <= 2:
        return Certainty(np.full((4, 2), np.nan), _told(x, width))
    together = max(1, min(DRAWS, _TOGETHER // count))
    draws = [
        solve(x, y, random.exponential(size=(some, count)), sample.prior, np.full(some, width))
        for some in np.diff([*range(0, DRAWS, together), DRAWS])
    ]
    low, high = np.percentile(np.concatenate(draws), (2.5, 97.5), axis=0)
    theta = fit.theta[component]  # weighs far points down, which the draws do not: their interval may lie beside it
    return Certainty(np.stack([np.minimum(low, theta), np.maximum(high, theta)], axis=1), _told(x, width))


def _told(x: Array, width_s: float) -> bool:
    """Whether the points weigh more on α than the prior does, the other numbers free to follow.

    They do not where all take equally many steps, when α and the launch overhead are one sum, or where all are so large that
    no step is felt.
    """
    scale = np.abs(x).max(axis=0)
    others = x[:, [0, 2, 3]] / np.where(scale > 0, scale, 1.0)[[0, 2, 3]]
    left = x[:, 1] - others @ np.linalg.lstsq(others, x[:, 1], rcond=1e-9)[0]
    return bool((left**2).sum() > (NOISE / width_s) ** 2)
