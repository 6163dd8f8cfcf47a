"""``sensitivity``: whether the winner still wins when numbers of the fabric are off.

All numbers are drawn at once within their ranges (:mod:`colltool.analysis.what_if`), which gives
how often each schedule wins and what knowing one number would gain. Each number is also moved
alone: to both ends of its range (the tornado), and away from the file's value until another
schedule wins (:mod:`colltool.analysis.break_even`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.analysis.benchmark_command import experiment
from colltool.analysis.break_even import BreakEven, break_evens
from colltool.analysis.cells import Floats, PriceRequest, winner
from colltool.analysis.what_if import (
    MOST_EXAMINED,
    WhatIf,
    affordable,
    draws,
    percentiles,
    seconds_by_title,
    totals_of,
)
from colltool.base.arrays import TIE, first_least
from colltool.base.primitives import Primitive
from colltool.base.result import Result, result
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.groups import place
from colltool.estimate.placement import GroupPlacement, GroupSpec
from colltool.estimate.running import library_of
from colltool.fabric.model import Fabric
from colltool.fabric.ranges import ParameterRange
from colltool.fabric.values import Place

# Draws by default: shares of samples are then within 0.2% or so.
SAMPLES = 100_000
# Fixed, so that the same question has the same answer.
SEED = 1
# Gains below this share of a time are rounding noise of sums.
ROUNDING = 1e-9
# Bins of equally many draws of one number, to find what knowing it would gain.
BINS = 20
# Numbers whose break-even is sought at least, however many there are.
LEAST_EXAMINED = 10


class Spread(NamedTuple):
    """A schedule over all samples: percentiles of its seconds, and the share of samples it wins."""

    algorithm: str
    spec: str
    nominal_s: float
    p5_s: float
    p50_s: float
    p95_s: float
    wins: float
    name: str = ""  # the library's name, else ours


class ValueOfInformation(NamedTuple):
    """The mean seconds gained if this number alone were known before choosing."""

    key: str
    value: float
    low: float
    high: float
    gain_s: float


class TornadoBar(NamedTuple):
    """Seconds of the nominal winner with one number at either end, the others as in the file."""

    key: str
    low: float
    high: float
    low_s: float
    high_s: float


@result
class Sensitivity(Result):
    """How uncertain numbers affect a choice.

    With very many numbers fewer ``samples`` are drawn than requested (``samples_asked``, see
    :func:`affordable`).

    Args:
        holds: share of samples that the nominal winner wins.
        regret_mean, regret_p95: its excess over the fastest in a sample, as a share.
        moves: tornado bars.
        flips: break-evens of the ``flips_sought`` most influential numbers.
        telling: numbers by their value of information; ``experiment`` is the command that measures
            the first.
        numbers: what was varied, with its ranges.
        assumed: whether the ranges are defaults of ours.
        library_leads: whether the user can run the nominal winner.
        held: where the winner's measured software time is extrapolated.
        how: what runs where, by title of ``rows``.
    """

    subject: ClassVar[str] = "sensitivity"
    fabric: str
    overrides: tuple[tuple[str, str], ...]
    primitive: Primitive
    group: GroupPlacement
    bytes: float
    ideal: bool
    library: str
    winner: str
    spec: str
    holds: float
    regret_mean: float
    regret_p95: float
    seed: int
    samples: int
    samples_asked: int
    rows: tuple[Spread, ...]
    moves: tuple[TornadoBar, ...]
    flips: tuple[BreakEven, ...]
    flips_sought: int
    telling: tuple[ValueOfInformation, ...]
    numbers: tuple[ParameterRange, ...]
    assumed: bool
    experiment: str
    readings: ModelOptions = USUAL
    library_leads: bool = True
    held: tuple[str, ...] = ()
    how: Mapping[str, str] = field(default_factory=dict)


def sensitivity(
    fabric: Fabric,
    request: PriceRequest,
    group: GroupSpec,
    size: float,
    numbers: Sequence[ParameterRange],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
    assumed: bool = False,
) -> Sensitivity:
    """Vary ``numbers`` independently within their ranges and see whether the winner changes."""
    question = WhatIf(fabric, request, group, size)
    drawn_samples = affordable(samples, len(numbers))
    drawn = draws(numbers, drawn_samples, seed)
    best = winner(fabric, request, group, size)
    listed, totals = totals_of(question, drawn, best)
    # of the nominal winner in each sample: its seconds over the fastest's, less 1
    regret = totals[list(listed).index(best.title)] / totals.min(axis=0) - 1
    telling = _value_of_information(numbers, drawn, totals)
    placement = place(fabric, group).placement
    sought = _most_influential(question, numbers)
    next_test = ""
    if telling:
        next_test = experiment(fabric, request.primitive, telling[0].key, placement.ranks)
    return Sensitivity(
        fabric=fabric.name,
        overrides=fabric.overrides,
        primitive=request.primitive,
        group=placement,
        bytes=size,
        ideal=request.readings.ideal,
        readings=request.readings,
        library=library_of(fabric),
        winner=best.title,
        library_leads=best.selectable,
        held=best.software_time.notes(size),
        spec=best.spec,
        holds=float((regret <= TIE).mean()),
        regret_mean=float(regret.mean()),
        regret_p95=float(np.quantile(regret, 0.95)),
        seed=seed,
        samples=drawn_samples,
        samples_asked=samples,
        rows=_spreads(question, listed, totals),
        how={title: estimate.how for title, estimate in listed.items()},
        moves=_tornado(question.only([best.spec]), numbers, best.title),
        flips=break_evens(question, sought),
        flips_sought=len(sought),
        telling=telling,
        numbers=tuple(numbers),
        assumed=assumed,
        experiment=next_test,
    )


def _spreads(
    question: WhatIf, listed: dict[str, AlgorithmEstimate], totals: Floats
) -> tuple[Spread, ...]:
    """The spread of each schedule, the most frequent winner first; ``totals`` are seconds, (schedules,
    samples)."""
    named = question.only([estimate.spec for estimate in listed.values()])
    nominal_s = seconds_by_title(named.rows({}), 1)
    won = first_least(list(totals))
    spreads = []
    for index, (title, row) in enumerate(listed.items()):
        quantiles = percentiles(totals[index])
        spreads.append(
            Spread(
                title,
                row.spec,
                float(nominal_s[title][0]),
                *quantiles,  # p5_s, p50_s and p95_s
                wins=float((won == index).mean()),
                name=row.name,
            )
        )
    return tuple(sorted(spreads, key=lambda row: (-row.wins, row.p50_s)))


def _tornado(
    question: WhatIf, numbers: Sequence[ParameterRange], nominal: str
) -> tuple[TornadoBar, ...]:
    """The nominal winner's seconds at both ends of each number, the widest bar first."""
    # by title: one spec may match several
    seconds = seconds_by_title(question.at_both_ends(numbers), 2 * len(numbers))[nominal].tolist()
    bars = []
    for index, number in enumerate(numbers):
        low_s, high_s = seconds[2 * index : 2 * index + 2]
        bars.append(TornadoBar(number.key, number.low, number.high, low_s, high_s))
    return tuple(sorted(bars, key=lambda bar: -abs(bar.high_s - bar.low_s)))


def _value_of_information(
    numbers: Sequence[ParameterRange], drawn: dict[Place, Floats], totals: Floats
) -> tuple[ValueOfInformation, ...]:
    """The numbers worth knowing, largest gain first.

    The gain of a number is the mean time of the best choice for all draws, less the mean over bins
    of the number of each bin's best choice: expected value of partial perfect information.
    """
    # ring and tree take 10 and 11 us in the mean, but where this number is high 14 and 11: knowing
    # it, the tree would run there
    best_s, count = totals.mean(axis=1).min(), totals.shape[1]
    bin_sizes = [len(part) for part in np.array_split(np.arange(count), BINS)]
    starts = [border for border in np.cumsum(bin_sizes)[:-1].tolist() if border < count]
    values_of_information = []
    for number in numbers:
        # A full sort is not needed: which draws fall into which bin is all that counts.
        order = np.argpartition(drawn[number.place], starts)
        parts: list[NDArray[Any]] = np.array_split(order, BINS)
        best_of_bins = [
            totals[:, part].mean(axis=1).min() * len(part) for part in parts if len(part)
        ]
        gain_s = best_s - sum(best_of_bins) / count
        if gain_s > ROUNDING * best_s:
            values_of_information.append(
                ValueOfInformation(number.key, number.value, number.low, number.high, float(gain_s))
            )
    return tuple(sorted(values_of_information, key=lambda value: -value.gain_s))


def _most_influential(
    question: WhatIf, numbers: Sequence[ParameterRange]
) -> Sequence[ParameterRange]:
    """The numbers whose break-even is worth seeking: all of them up to :data:`MOST_EXAMINED`, else
    those that change some schedule's time most."""
    if len(numbers) <= MOST_EXAMINED:
        return numbers
    totals = np.stack(
        [*seconds_by_title(question.at_both_ends(numbers), 2 * len(numbers)).values()]
    )
    # Of two numbers each schedule has four times: low, high, low, high. Half and twice the time are
    # equally far.
    change = np.abs(np.log(totals[:, 1::2] / totals[:, ::2])).max(axis=0)
    # pricing slows down with each number: 66 of 150, 10 of 1000
    examined = max(LEAST_EXAMINED, MOST_EXAMINED**2 // len(numbers))
    order = np.argsort(-change, kind="stable")
    return [numbers[index] for index in sorted(order[:examined])]
