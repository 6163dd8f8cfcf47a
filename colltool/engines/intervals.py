"""Intervals of kernels: between which times nine of ten measurements lie.

A kernel's file states the factors themselves, or the median relative error of its formula, which
:func:`log_factors` turns into factors; :func:`kernel_interval` puts them around a price.
"""

from __future__ import annotations

from math import exp, log

from colltool.estimate.interval import SHARE, Basis, Interval
from colltool.estimate.spread import sigma_table

# Quantiles of |t| of Student's t with 4 degrees of freedom: the median, and 90%. Its tails are heavier
# than those of a normal distribution, as are those of the errors of prices.
_MEDIAN_OF_T4 = 0.741
_NINE_OF_TEN_OF_T4 = 2.132
# why a kernel's row has no error: colltool.render.views.kernels prints it
ERROR_UNKNOWN = "no measurement of this kernel was held out to judge its formula"


def log_factors(error: float) -> tuple[float, float]:
    """Return the factors of a price between which nine of ten measurements lie, as natural logarithms:
    low and high.

    Args:
        error: the median relative error of the formula: 0.05 gives the factors 0.87 and 1.15.
    """
    # the ratio of the quantiles turns the median error into the one that 90% are within
    half_width = log(1 + error) * _NINE_OF_TEN_OF_T4 / _MEDIAN_OF_T4
    return -half_width, half_width


def kernel_interval(
    total_s: float, ends: tuple[float, float], error_of: str, *, measured_here: bool
) -> Interval:
    """Return the interval that holds nine of ten measurements of a kernel.

    Args:
        total_s: the price.
        ends: factors of the price, as :func:`log_factors` has them.
        error_of: the rows on which the error was measured; empty if unknown.
        measured_here: whether the kernel was measured on such a GPU, number of ranks and size.
    """
    low, high = ends
    basis: Basis = "extrapolated"
    reason = "the kernel was not measured there"
    if measured_here:
        basis = "measured"
        reason = "the kernel's own rows"
    return Interval(
        low_s=total_s * exp(low),
        high_s=total_s * exp(high),
        share=SHARE,
        # of measured prices: a kernel's own rows are in its file
        rows=0,
        basis=basis,
        # the part's standard deviation: kappa of them reach the end of an interval
        parts=(("kernel", max(-low, high) / sigma_table()["kappa"]),),
        nearest=error_of or None,
        reason=reason,
    )
