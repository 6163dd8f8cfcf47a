"""Verdicts on executions: :func:`judge` compares the counts of an execution with those of a formula,
:func:`judge_time` its seconds with a price.

A verdict is:

    proved        the execution agrees with formula and price
    counts only   it agrees with the formula; its time is not known
    idealised     it differs in a way that is known and stated
    mismatch      it differs otherwise
"""

from typing import Literal, NamedTuple, get_args

from colltool.algorithms.registry import Status
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup

Verdict = Literal["proved", "counts only", "idealised", "mismatch"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # from the best to the worst
COUNTS_ONLY: Verdict = "counts only"
# Relative differences that count as equal, for rounding errors of sums.
_SAME_COUNT = 1e-9  # of counts
_SAME_TIME = 1e-6  # of times, which add up over more terms
# Over several tiers a price is idealised if the execution differs by more than this part of it.
_NEAR_PRICE = 0.01


class Counts(NamedTuple):
    """Coefficients of α and of M/BW: messages one after the other, and bytes in units of M."""

    n_alpha: float
    n_beta: float


class Seconds(NamedTuple):
    """The time of an execution."""

    alpha_s: float  # latency of the farthest message of each step, added up
    # Transfer time with every step waiting for its busiest port, link or uplink; of streamed
    # schedules ``busiest_s``.
    carried_s: float
    # Transfer time of the port, link or uplink with the largest total: a lower bound for any order
    # of the same messages.
    busiest_s: float

    @property
    def total_s(self) -> float:
        """Latency and transfer time."""
        return self.alpha_s + self.carried_s


def judge(
    status: Status, expected: Counts, counted: Counts, busiest: float, *, streamed: bool = False
) -> tuple[Verdict, str]:
    """The verdict on the counts of an execution, and where they differ a note on how, else an empty one.

    Args:
        status: of the algorithm; ``idealised`` if its formula is known to leave something out.
        expected: the counts of the formula.
        counted: those of the execution.
        busiest: the largest total on one port or link, in units of M.
        streamed: whether the steps of the schedule overlap.
    """
    more_counted = []  # of α and of β: whether the execution counts more than the formula
    ratios = []
    for field_name, formula, execution in zip(Counts._fields, expected, counted, strict=True):
        margin = _SAME_COUNT * max(1.0, formula)
        more_counted.append(execution > formula + margin)
        # what differs, in either direction
        if more_counted[-1] or execution < formula - margin:
            ratios.append(f"{field_name} {execution / formula:.4g}")
    if not ratios:
        return "proved", ""
    more_alpha, more_beta = more_counted
    ratio = f"executed/formula: {', '.join(ratios)}"
    if not any(more_counted):
        return "idealised", f"the formula is an upper bound here, {ratio}"
    if streamed and not more_beta:
        return "idealised", f"up to the switch and down again is priced as one pass, {ratio}"
    if not more_alpha and busiest <= expected.n_beta * (1 + _SAME_COUNT):
        waits = "holds when messages wait only between phases; in strict lock step"
        return "idealised", f"{waits} {ratio}"
    if status == "idealised":
        return "idealised", f"on real wiring {ratio}"
    return "mismatch", ratio


class CountPair(NamedTuple):
    """What the formula counts, None where there is no formula, and what the execution counted."""

    formula: float | None
    executed: float


class TimePair(NamedTuple):
    """Seconds by the price and by the execution, both without launch and library overhead."""

    price_s: float
    executed_s: float


def price_s(cost_model: CostModel, size: float) -> float:
    """The latency and transfer time of a price in seconds, without launch and library overhead."""
    estimate = cost_model.at(size)
    return float(estimate.steps_s) + float(estimate.moved_s)


def judge_time(
    verdict: Verdict,
    placed: PlacedGroup,
    cost_model: CostModel,
    executed: Seconds | str,
    size: float,
) -> tuple[Verdict, str, TimePair | None]:
    """The verdict that takes the time into account, a note on it (empty without one), and both times
    (None where the execution's is not known).

    Where the time is not known (``executed`` is the reason) the verdict is on counts only. A price
    below the transfer time of the busiest port, link or uplink is a mismatch, even if the counts
    agree. A price that differs because steps wait for their slowest pair gets a note, and over
    several tiers, if it differs by more than a percent, the verdict idealised.
    """
    if isinstance(executed, str):
        return COUNTS_ONLY if verdict == "proved" else verdict, executed, None
    price = price_s(cost_model, size)
    time_s = TimePair(price, executed.total_s)
    if verdict != "proved":
        return verdict, "", time_s
    moved_s = float(cost_model.at(size).moved_s)
    if executed.busiest_s > moved_s * (1 + _SAME_TIME):
        times = f"{executed.busiest_s / moved_s:.4g} times their price"
        return "mismatch", f"bytes on the busiest port, link or uplink take {times}", time_s
    ratio = executed.total_s / price
    if abs(ratio - 1) <= _SAME_TIME:
        return verdict, "", time_s
    if len(placed.spans) > 1 and abs(ratio - 1) > _NEAR_PRICE:
        verdict = "idealised"
    note = f"with every step waiting for its slowest pair it takes {ratio:.4g} times the price"
    return verdict, note, time_s
