"""Intervals of kernels, from the median error that their files state."""

from __future__ import annotations

from math import exp, log

from colltool.estimate.interval import SHARE, Interval
from colltool.estimate.spread import law

_MEDIAN_OF_T4 = 0.741
"""|t| of half of the draws of Student's t of 4 degrees; of nine tenths
:data:`_NINE_OF_TEN_OF_T4`."""
_NINE_OF_TEN_OF_T4 = 2.132


def kernel_interval(
    total_s: float, error: float | None, error_of: str, *, on_ground: bool
) -> Interval | None:
    """Nine of ten measurements of a kernel whose median error is stated; None where nobody knows
    it.

    ``on_ground``: it was measured on such a GPU, number of ranks and size.
    """
    if error is None:
        return None
    wide = log(1 + error) * _NINE_OF_TEN_OF_T4 / _MEDIAN_OF_T4
    return Interval(
        low_s=total_s * exp(-wide),
        high_s=total_s * exp(wide),
        share=SHARE,
        rows=0,
        basis="measured" if on_ground else "extrapolated",
        parts=(("kernel", wide / law()["kappa"]),),
        nearest=error_of or None,
        reason="the kernel's own rows" if on_ground else "the kernel was not measured there",
    )


NOBODY_KNOWS = "nobody has compared this kernel's law with rows that it was not made from"
