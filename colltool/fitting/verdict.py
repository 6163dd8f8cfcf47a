"""The verdict on a whole validation, in one sentence: how far off, and from which size on the prices can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from colltool.fitting.results import Checked
from colltool.fitting.sizes import size_text

TRUSTED = 0.10
"""Mean error of a price that is worth planning with."""

FEWEST = 3
"""Points on which a mean is worth a word."""


def verdict(points: Sequence[Checked]) -> str:
    """``12% off on average over 84 sizes; trust it from 1 MiB on (4%), not below (25%)``."""
    ordered = sorted(points, key=lambda point: point.bytes)
    off = f"{_percent(ordered)} off on average over {len(points)} size{'s' * (len(points) != 1)}"
    return f"{off}; {_trust(ordered)}"


def _trust(points: list[Checked]) -> str:
    """Where the mean error is small: everywhere, on one side of the size at which it changes most, or nowhere."""
    below, from_on = _parted(points)
    good_below, good_from_on = (bool(side) and _mean(side) <= TRUSTED for side in (below, from_on))
    if good_below == good_from_on:
        nowhere = f"on no range of sizes within {TRUSTED:.0%}"
        return "trust it" if _mean(points) <= TRUSTED else nowhere
    change, left, right = size_text(from_on[0].bytes), _percent(below), _percent(from_on)
    if good_from_on:
        return f"trust it from {change} on ({right}), not below ({left})"
    return f"trust it below {change} ({left}), not from there on ({right})"


def _parted(points: list[Checked]) -> tuple[list[Checked], list[Checked]]:
    """The points below a size and from it on, so that errors differ least within each; nothing where they are too few."""
    cuts = [i for i in range(FEWEST, len(points) - FEWEST + 1) if points[i].bytes > points[i - 1].bytes]
    if not cuts:
        return [], []
    cut = min(cuts, key=lambda i: _scatter(points[:i]) + _scatter(points[i:]))
    return points[:cut], points[cut:]


def _scatter(points: Sequence[Checked]) -> float:
    """The sum of squared deviations from the mean error; beyond 100% an error is just that: one outlier is no regime."""
    errors = [min(abs(point.relative_error), 1.0) for point in points]
    mean = fmean(errors)
    return sum((error - mean) ** 2 for error in errors)


def _mean(points: Sequence[Checked]) -> float:
    return fmean(abs(point.relative_error) for point in points)


def _percent(points: Sequence[Checked]) -> str:
    mean = _mean(points)
    return f"{mean:.1%}" if mean < 0.0995 else f"{mean:.0%}"
