"""Errors of planned steps and memory against published runs, their source left out of the fit.

``tests/benchmarks/fit_stacks.py --errors`` leaves each source out in turn and writes
``data/errors.csv``: a row for each class of plans, "memory", or a stack ("fsdp", "fsdp moe" where the
model has experts).
"""

from __future__ import annotations

import csv
from functools import cache
from math import exp, log, sqrt
from pathlib import Path
from typing import NamedTuple

from colltool.training.stack_words import family_of

FILE = Path(__file__).parent / "data" / "errors.csv"


class PublishedError(NamedTuple):
    """Error of plans of published runs. The fields after ``runs`` are the columns of the table."""

    runs: int  # that were planned
    median: float  # of |plan / measured - 1|
    mean: float  # of the same
    low: float  # nine runs in ten took from this share of their plan
    high: float  # to this one
    control: float  # the median error with a free network

    def spread(self, planned: float) -> tuple[float, float]:
        """Return the interval in which nine runs in ten with this plan lie."""
        return self.low * planned, self.high * planned


# nine in ten GEMMs take this near to their law, of the time: tests/data/h100, other shapes than
# those of the fit (tests/benchmarks/bench_card.py)
GEMM_ERROR = 0.12


def with_measured_gemms(error: PublishedError, share: float) -> PublishedError:
    """The error where the GEMMs of a step, a share of it, are a user's own measured times.

    What GEMMs were off by adds to what the rest was off by as independent errors do, so its square
    is taken from that of each side of the interval.
    """
    gemm_error = share * GEMM_ERROR
    low = exp(-_remaining_error(abs(log(error.low)), gemm_error))
    high = exp(_remaining_error(log(error.high), gemm_error))
    return error._replace(low=low, high=high)


def _remaining_error(side: float, known: float) -> float:
    """A side of an interval, as a logarithm, without a known part; it keeps a half at least, as the
    rest is off too."""
    if known > side:
        return side / 2
    return max(sqrt(side**2 - known**2), side / 2)


@cache
def _table() -> dict[str, PublishedError]:
    """Read the errors by class of plans."""
    errors = {}
    with FILE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shares = [float(row[name]) for name in PublishedError._fields[1:]]
            errors[row["class"]] = PublishedError(int(row["runs"]), *shares)
    return errors


def published_error(stack: str, *, moe: bool = False) -> PublishedError | None:
    """The error of plans under a stack, or under the stacks of its family together where there are
    too few runs of it alone; None where no published runs were planned under either."""
    suffix = " moe" if moe else ""
    table = _table()
    return table.get(stack + suffix) or table.get(family_of(stack) + suffix)


def memory_error() -> PublishedError:
    """The error of the memory of plans, over all stacks."""
    return _table()["memory"]
