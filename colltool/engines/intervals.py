"""Intervals of kernels, from the median error that their files state."""

from __future__ import annotations

from math import exp, log

from colltool.estimate.interval import SHARE, Interval
from colltool.estimate.spread import sigma_table

# Quantiles of |t| of Student's t with 4 degrees of freedom: the median, and 90%. Heavier tails than a
# normal distribution, as the errors of prices have.
_MEDIAN_OF_T4 = 0.741
_NINE_OF_TEN_OF_T4 = 2.132


def rows_interval(
    total_s: float,
    nine_in_ten: tuple[float, float],
    times_wider: float,
    error_of: str,
    *,
    measured_here: bool,
) -> Interval:
    """Return the interval by the factors between which nine of ten rows of a kernel lie.

    Args:
        times_wider: how many times as wide it is where the kernel was not measured.
    """
    low, high = nine_in_ten
    return _interval(
        total_s, log(low) * times_wider, log(high) * times_wider, error_of, measured_here
    )


def kernel_interval(
    total_s: float, error: float | None, error_of: str, *, measured_here: bool
) -> Interval | None:
    """Return the interval that holds nine of ten measurements; None if the error is unknown.

    Args:
        error: median relative error of the formula.
        error_of: the rows on which the error was measured.
        measured_here: whether the kernel was measured on such a GPU, number of ranks and size.
    """
    if error is None:
        return None
    # half the width in ln t: the ratio of the quantiles turns the median error into the 90% one
    half_width = log(1 + error) * _NINE_OF_TEN_OF_T4 / _MEDIAN_OF_T4
    return _interval(total_s, -half_width, half_width, error_of, measured_here)


def _interval(
    total_s: float, low: float, high: float, error_of: str, measured_here: bool
) -> Interval:
    """An interval by its ends in ln t."""
    return Interval(
        low_s=total_s * exp(low),
        high_s=total_s * exp(high),
        share=SHARE,
        rows=0,
        basis="measured" if measured_here else "extrapolated",
        parts=(("kernel", max(-low, high) / sigma_table()["kappa"]),),
        nearest=error_of or None,
        reason="the kernel's own rows" if measured_here else "the kernel was not measured there",
    )


ERROR_UNKNOWN = "no measurement of this kernel was held out to judge its formula"
