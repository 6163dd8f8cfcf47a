"""Which measured sizes a fit can follow, and why the others are left out: :func:`usable_points`."""

from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.formatting import size_text
from colltool.calibration.envelope import evaluate, fit_envelope
from colltool.calibration.least_squares import Prior
from colltool.calibration.samples import (
    Member,
    most_protocols,
    placeholder_names,
    sample_of,
)
from colltool.calibration.sentences import FitFinding

# Fewer points have no outliers, and are left out one by one in cross-validation.
ENOUGH_POINTS = 8
# A point slower than its neighbours or the fit allow by this share is an outlier.
_FAR_OFF = 0.35
# Times that outliers are sought anew after a fit without the last ones.
_OUTLIER_ROUNDS = 4


class ExcludedSize(NamedTuple):
    """A measured size that a fit does not use, and why."""

    bytes: float
    finding: FitFinding

    @property
    def reason(self) -> str:
        """The finding in words."""
        return self.finding.words


def usable_points(
    member: Member, prior: Prior
) -> tuple[NDArray[np.bool_], tuple[ExcludedSize, ...]]:
    """Which points an envelope of up to three lines can follow, as a mask, and why the others are
    left out; ``member`` uses all points.

    Such a curve rises with size, and no faster than size: a point far slower than a larger message,
    or than a smaller one in proportion, is off it, and so is one far slower than the best fit of
    the others.
    """
    points = member.series.points
    if len(points) < ENOUGH_POINTS:
        return np.ones(len(points), dtype=bool), ()
    seconds = member.seconds
    sizes = member.sizes
    # times of 10, 12, 40 and 13 us at 1, 2, 4 and 8 KB: no larger message is faster than 10, 12, 13
    # and 13 us (by_larger_s), and by the smaller ones 4 KB take at most 24 us (by_smaller_s): 40 us
    # are off the curve
    by_larger_s = np.minimum.accumulate(seconds[::-1])[::-1]
    by_smaller_s = np.minimum.accumulate(seconds / sizes) * sizes
    used = seconds <= (1 + _FAR_OFF) * np.minimum(by_larger_s, by_smaller_s)
    names = placeholder_names(most_protocols(int(used.sum())))
    all_points = sample_of([member], names, prior)
    # ratio and used: one for each point
    for _ in range(_OUTLIER_ROUNDS):
        fit = fit_envelope(sample_of([member._replace(used=used)], names, prior))
        ratio = seconds / evaluate(fit.theta, all_points).fitted
        within = ratio <= 1 + _FAR_OFF
        if (within == used).all() or within.sum() < 2:
            break
        used = within
    excluded: list[ExcludedSize] = []
    for is_used, group in groupby(range(len(points)), key=lambda place: bool(used[place])):
        run = list(group)
        if not is_used:
            finding = _off_the_curve(sizes[run], float(ratio[run].max()))
            excluded += [ExcludedSize(points[place].bytes, finding) for place in run]
    return used, tuple(excluded)


def _off_the_curve(sizes: NDArray[np.float64], ratio: float) -> FitFinding:
    """Why neighbouring sizes are left out; ``ratio``: the largest of measured over fitted time."""
    first, last = size_text(float(sizes[0])), size_text(float(sizes[-1]))
    code = "outlier" if len(sizes) == 1 else "off_curve"
    return FitFinding(code, {"first": first, "last": last, "ratio": ratio})
