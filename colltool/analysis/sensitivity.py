"""``sensitivity``: whether the winner still wins when numbers of the fabric are off.

All numbers are drawn at once within their ranges (:func:`draws`, :func:`totals_of`), which gives
how often each schedule wins and what knowing one number would gain. Each number is also moved
alone: to both ends of its range (the tornado), and away from the file's value until another
schedule wins (the break-even).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.analysis.benchmark_command import experiment
from colltool.analysis.cells import BLOCK, Floats, PriceRequest, leading_rows, winner
from colltool.base.arrays import TIE, first_least
from colltool.base.primitives import Primitive
from colltool.base.result import Result, result, with_progress
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.groups import check_by_class, library_of, place
from colltool.estimate.placement import GroupPlacement, GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.variants import ParameterRange, Place, with_values

# Draws by default: shares of samples are then within 0.2% or so.
SAMPLES = 100_000
# Fixed, so that the same question has the same answer.
SEED = 1
# Numbers times samples: draws of so many take 80 MB, and pricing them seconds.
MOST_DRAWN = 10_000_000
# Draws priced at once where numbers are many: a price holds several arrays for each number.
DRAWS_AT_ONCE = 1 << 18
# Gains below this share of a time are rounding noise of sums.
ROUNDING = 1e-9
# Bins of equally many draws of one number, to find what knowing it would gain.
BINS = 20
# Factor up or down to which a break-even is sought: beyond it the number is another machine's.
FARTHEST = 100.0
# Values tried in each direction and round; five rounds of closing in settle the twelfth digit.
POINTS = 401
ROUNDS = 5
# Directions priced in one go: shared work is done once, and arrays stay small.
DIRECTIONS_AT_ONCE = 10
# Beyond so many numbers pricing slows down with each, so only the most influential are examined:
# fewer the more there are, but always LEAST_EXAMINED.
MOST_EXAMINED = 100
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


class BreakEven(NamedTuple):
    """The value of a number nearest to the file's (``factor`` times it) at which another schedule
    wins."""

    key: str
    value: float
    factor: float
    winner: str


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
        assumed: whether the ranges are defaults of ours.
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


class WhatIf(NamedTuple):
    """What is priced, again and again; ``size`` in bytes."""

    fabric: Fabric
    request: PriceRequest
    group: GroupSpec
    size: float

    def rows(self, values: Mapping[Place, Any], count: int = 1) -> list[AlgorithmEstimate]:
        """The schedules that may win with these values, ``count`` each, in place of the file's."""
        fabric = with_values(self.fabric, values)
        return leading_rows(fabric, self.group, self.request, np.full(count, self.size))

    def at_both_ends(self, numbers: Sequence[ParameterRange]) -> list[AlgorithmEstimate]:
        """Two elements per number: at its low and at its high end, with all others as in the
        file."""
        count = 2 * len(numbers)
        varied = {number.place: np.full(count, number.value) for number in numbers}
        for at, number in enumerate(numbers):
            varied[number.place][2 * at : 2 * at + 2] = number.low, number.high
        return self.rows(varied, count)

    def only(self, names: Sequence[str]) -> WhatIf:
        return self._replace(request=self.request._replace(only=tuple(names)))


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
        flips=_break_evens(question, sought),
        flips_sought=len(sought),
        telling=telling,
        numbers=tuple(numbers),
        assumed=assumed,
        experiment=next_test,
    )


def affordable(samples: int, numbers: int) -> int:
    """The number of samples to draw: numbers times samples stay within :data:`MOST_DRAWN`, and
    beyond :data:`MOST_EXAMINED` numbers pricing takes seconds at most."""
    draws_each = max(1, numbers) * max(1.0, numbers / MOST_EXAMINED)
    return max(1, min(samples, int(MOST_DRAWN / draws_each)))


def draws(numbers: Sequence[ParameterRange], samples: int, seed: int) -> dict[Place, Floats]:
    """Independent draws of every number, uniform by factor (``even``) or by value.

    A number's draws depend only on the seed and its key, so they are the same whatever else is
    drawn.
    """
    found: dict[Place, Floats] = {}
    for number in numbers:
        generator = np.random.default_rng([seed, *number.key.encode()])
        share = generator.random(samples)
        if number.even and number.low > 0:
            found[number.place] = number.low * (number.high / number.low) ** share
        else:
            found[number.place] = number.low + (number.high - number.low) * share
    return found


def totals_of(
    question: WhatIf, drawn: dict[Place, Floats], nominal: AlgorithmEstimate
) -> tuple[dict[str, AlgorithmEstimate], Floats]:
    """Every relevant schedule by title, the nominal winner first, and the seconds of each in every
    sample.

    Which choices of a composition ever win is known only after all blocks; the rest are then filled
    in by name.
    """
    check_by_class(question.fabric, question.group)
    found: list[dict[str, Floats]] = []
    listed = {nominal.title: nominal}
    for values, count in _blocks(drawn):
        rows = question.rows(values, count)
        listed |= {row.title: row for row in rows}
        found.append(_seconds(rows, count))
    for (values, count), block in zip(_blocks(drawn), found, strict=True):
        missing = [estimate.spec for title, estimate in listed.items() if title not in block]
        if missing:
            block |= _seconds(question.only(missing).rows(values, count), count)
    return listed, np.stack([np.concatenate([block[title] for block in found]) for title in listed])


def _seconds(rows: Sequence[AlgorithmEstimate], count: int) -> dict[str, Floats]:
    """Seconds of each row at ``count`` elements, by title."""
    return {row.title: np.broadcast_to(row.total_s, (count,)) for row in rows}


def _blocks(drawn: dict[Place, Floats]) -> Iterator[tuple[dict[Place, Floats], int]]:
    """The draws in parts that memory allows to price at once, each with its length."""
    count = len(next(iter(drawn.values())))
    step = max(1, min(BLOCK, DRAWS_AT_ONCE // len(drawn)))
    for start in with_progress(range(0, count, step)):
        # a view would keep all draws
        block = {spot: values[start : start + step].copy() for spot, values in drawn.items()}
        yield block, min(step, count - start)
        # a price is made of few objects in reference cycles with large arrays, which would linger
        # otherwise
        gc.collect(1)


def percentiles(values: Floats) -> tuple[float, float, float]:
    """The 5th, the 50th and the 95th percentile."""
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return low, middle, high


def _spreads(
    question: WhatIf, listed: dict[str, AlgorithmEstimate], totals: Floats
) -> tuple[Spread, ...]:
    """The spread of each schedule, the most frequent winner first."""
    named = question.only([estimate.spec for estimate in listed.values()])
    nominal_s = _seconds(named.rows({}), 1)
    won = first_least(list(totals))
    found = []
    for index, (title, row) in enumerate(listed.items()):
        wins = float((won == index).mean())
        quantiles = percentiles(totals[index])
        found.append(
            Spread(
                title, row.spec, float(nominal_s[title][0]), *quantiles, wins=wins, name=row.name
            )
        )
    return tuple(sorted(found, key=lambda row: (-row.wins, row.p50_s)))


def _tornado(
    question: WhatIf, numbers: Sequence[ParameterRange], nominal: str
) -> tuple[TornadoBar, ...]:
    """The nominal winner's seconds at both ends of each number, the widest bar first."""
    # by title: one spec may match several
    seconds = _seconds(question.at_both_ends(numbers), 2 * len(numbers))[nominal].tolist()
    found = []
    for at, number in enumerate(numbers):
        low_s, high_s = seconds[2 * at : 2 * at + 2]
        found.append(TornadoBar(number.key, number.low, number.high, low_s, high_s))
    return tuple(sorted(found, key=lambda bar: -abs(bar.high_s - bar.low_s)))


def _value_of_information(
    numbers: Sequence[ParameterRange], drawn: dict[Place, Floats], totals: Floats
) -> tuple[ValueOfInformation, ...]:
    """The numbers worth knowing, largest gain first.

    The gain of a number is the mean time of the best choice for all draws, less the mean over bins
    of the number of each bin's best choice: expected value of partial perfect information.
    """
    best_s, count = totals.mean(axis=1).min(), totals.shape[1]
    bin_sizes = [len(part) for part in np.array_split(np.arange(count), BINS)]
    starts = [at for at in np.cumsum(bin_sizes)[:-1].tolist() if at < count]
    found = []
    for number in numbers:
        # A full sort is not needed: which draws fall into which bin is all that counts.
        order = np.argpartition(drawn[number.place], starts)
        parts: list[NDArray[Any]] = np.array_split(order, BINS)
        best_of_bins = [
            totals[:, part].mean(axis=1).min() * len(part) for part in parts if len(part)
        ]
        gain_s = best_s - sum(best_of_bins) / count
        if gain_s > ROUNDING * best_s:
            found.append(
                ValueOfInformation(number.key, number.value, number.low, number.high, float(gain_s))
            )
    return tuple(sorted(found, key=lambda value: -value.gain_s))


def _most_influential(
    question: WhatIf, numbers: Sequence[ParameterRange]
) -> Sequence[ParameterRange]:
    """The numbers whose break-even is worth seeking: all of them up to :data:`MOST_EXAMINED`, else
    those that change some schedule's time most."""
    if len(numbers) <= MOST_EXAMINED:
        return numbers
    totals = np.stack([*_seconds(question.at_both_ends(numbers), 2 * len(numbers)).values()])
    moved = np.abs(np.log(totals[:, 1::2] / totals[:, ::2])).max(axis=0)
    count = max(LEAST_EXAMINED, MOST_EXAMINED**2 // len(numbers))
    order = np.argsort(-moved, kind="stable")
    return [numbers[at] for at in sorted(order[:count])]


@dataclass
class Direction:
    """A number, and values that lead away from the file's, nearest first; ``winner`` wins at the
    first of them, and is set once a change is known to lie between the first and the last."""

    number: ParameterRange
    values: Floats
    winner: str = ""


def _break_evens(question: WhatIf, numbers: Sequence[ParameterRange]) -> tuple[BreakEven, ...]:
    """The nearest change of winner for each number, up or down; nearest first, numbers that never
    change it left out."""
    factors = np.geomspace(1, FARTHEST, POINTS)
    directions = []
    for number in numbers:
        if number.value:
            for values in (number.value * factors, number.value / factors):
                directions.append(Direction(number, np.clip(values, *number.limits)))
    found: list[BreakEven] = []
    for start in with_progress(range(0, len(directions), DIRECTIONS_AT_ONCE)):
        some = directions[start : start + DIRECTIONS_AT_ONCE]
        found += [_break_even(question, direction) for direction in _closed_in(question, some)]
    nearest: dict[str, BreakEven] = {}
    for flip in sorted(found, key=lambda flip: abs(log(flip.factor))):
        nearest.setdefault(flip.key, flip)
    return tuple(nearest.values())


def _closed_in(question: WhatIf, directions: Sequence[Direction]) -> list[Direction]:
    """The directions in which the winner changes, closed in on their first change.

    All are priced together in each round. Where a closer look shows no change any more, it lies
    within rounding, and the last values stay.
    """
    open_directions = list(directions)
    for _ in range(ROUNDS):
        changing = []
        for direction, names in zip(
            open_directions, _winners(question, open_directions), strict=True
        ):
            other = next((index for index, name in enumerate(names) if name != names[0]), None)
            if other is not None:
                first, last = direction.values[other - 1], direction.values[other]
                direction.values = np.linspace(first, last, POINTS)
                direction.winner = names[0]
                changing.append(direction)
        open_directions = changing
        if not open_directions:
            break
    return [direction for direction in directions if direction.winner]


def _break_even(question: WhatIf, direction: Direction) -> BreakEven:
    """The first value past a change at which a single price names another winner too: at the change
    itself both tie up to rounding."""
    number = direction.number
    before, after = float(direction.values[0]), float(direction.values[-1])
    least, most = number.limits
    for distance in (0.0, *(10.0**power for power in range(-15, -9))):
        moved = after * (1 + distance if after > before else 1 - distance)
        tried = min(most, max(least, moved))
        fabric = with_values(question.fabric, {number.place: tried})
        now = winner(fabric, question.request, question.group, question.size).title
        if now != direction.winner:
            break
    return BreakEven(number.key, tried, tried / number.value, now)


def _winners(question: WhatIf, directions: Sequence[Direction]) -> list[list[str]]:
    """The winner's title at each value of each direction."""
    count = POINTS * len(directions)
    varied: dict[Place, Floats] = {
        direction.number.place: np.full(count, direction.number.value) for direction in directions
    }
    for at, direction in enumerate(directions):
        varied[direction.number.place][POINTS * at : POINTS * (at + 1)] = direction.values
    seconds = _seconds(question.rows(varied, count), count)
    titles = list(seconds)
    names = [titles[index] for index in first_least(list(seconds.values()))]
    return [names[start : start + POINTS] for start in range(0, count, POINTS)]
