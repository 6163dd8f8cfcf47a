"""How well the points of a fit determine its numbers: bootstrap intervals, and what only the prior holds."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.fitting.envelope import Array, Envelope, Sample, relative_rows, solve

DRAWS = 200
_SAME = 1e-9


class Certainty(NamedTuple):
    """Of one component: 95% intervals of θ, (4, 2), and whether the points tell α from the launch overhead."""

    ci95: Array
    alpha_is_told: bool


def certainty(sample: Sample, fit: Envelope, component: int) -> Certainty:
    """How sure one component's numbers are, its points and their algorithms taken as assigned."""
    mine = fit.component == component
    if not mine.any():
        return Certainty(np.full((4, 2), np.nan), alpha_is_told=False)
    x, y = relative_rows(sample, mine, fit.algorithm)
    random = np.random.default_rng(0)
    count = len(y)
    draws = [_resampled(x, y, random, sample.alpha_s) for _ in range(DRAWS)] if count > 2 else []
    ci95 = np.percentile(draws, (2.5, 97.5), axis=0).T if draws else np.full((4, 2), np.nan)
    return Certainty(ci95, _told(sample.x[fit.algorithm[mine], np.flatnonzero(mine), 1]))


def _resampled(x: Array, y: Array, random: np.random.Generator, alpha_s: float) -> Array:
    weight = np.bincount(random.integers(0, len(y), len(y)), minlength=len(y)).astype(np.float64)
    return solve(x, y, weight, alpha_s)


def _told(n_alpha: NDArray[np.float64]) -> bool:
    """α and the launch overhead are one sum while all points take equally many steps."""
    return bool(np.ptp(n_alpha) > _SAME * max(1.0, float(n_alpha.max())))
