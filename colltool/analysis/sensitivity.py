"""``sensitivity``: whether the winner stays the winner where numbers of the fabric are other than the file says."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.analysis.benchmark_command import experiment
from colltool.analysis.break_even import MANY, BreakEven, at_both_ends, break_evens, foremost
from colltool.analysis.grid import BLOCK, Floats, PriceRequest, leading_rows, winner
from colltool.base.arrays import TIE, first_least
from colltool.base.primitives import Primitive
from colltool.base.progress import followed
from colltool.base.result import Result
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.group_spec import GroupPlacement, GroupSpec
from colltool.estimate.groups import place
from colltool.estimate.library_selection import library_of
from colltool.fabric.model import Fabric
from colltool.fabric.parameter_ranges import ParameterRange
from colltool.fabric.variants import Place, with_values

SAMPLES, SEED = 100_000, 1
MOST_SAMPLES = 1_000_000
MOST_DRAWN = 10_000_000  # numbers times samples: their draws take 80 MB, their prices seconds
AT_ONCE = 1 << 18  # draws of all numbers priced at once, where numbers are many: a price holds several arrays for each
NOTHING = 1e-9  # of a time: less is the noise of sums
BINS = 20  # of one number, to ask what knowing it would change


class Spread(NamedTuple):
    """One schedule over all samples: seconds at the 5th, 50th and 95th percentile, and the share of samples that it wins."""

    algorithm: str
    spec: str
    nominal_s: float
    p5_s: float
    p50_s: float
    p95_s: float
    wins: float


class ValueOfInformation(NamedTuple):
    """One number: what the choice would gain on average, in seconds, if only this number were known; ``low`` to ``high``."""

    key: str
    value: float
    low: float
    high: float
    gain_s: float


class TornadoBar(NamedTuple):
    """A number at both of its ends, the others as the file says: seconds of today's winner there."""

    key: str
    low: float
    high: float
    low_s: float
    high_s: float


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Result):
    """What numbers that may be off do to a choice.

    ``holds``: the share of samples in which today's winner is the fastest. ``regret_p95`` and ``regret_mean``: what it takes
    longer than the fastest, as a share of that. ``telling``: the numbers, the one that settles most first; ``experiment``
    measures that. ``moves``: each number by itself. ``assumed``: the ranges are ours. Of very many numbers fewer ``samples`` are
    drawn than ``samples_asked``, as :func:`affordable` says, and ``flips`` are looked for among the ``flips_sought`` numbers that
    move times most. ``library_leads``: whether the library runs the winner; ``held``: where its
    measured time is that of another size or number of ranks.
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
    readings: Readings = USUAL
    library_leads: bool = True
    held: tuple[str, ...] = ()


def sensitivity(fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, numbers: Sequence[ParameterRange], *,
                samples: int = SAMPLES, seed: int = SEED, assumed: bool = False) -> Sensitivity:  # fmt: skip
    """A choice under numbers that may be off.

    Args:
        fabric: as the file says.
        asked: primitive, readings and names of algorithms.
        group: who takes part.
        size: bytes by nccl-tests' convention.
        numbers: those that may be off.
        samples: how many draws of all numbers at once, each independent of the others; fewer where numbers are very many.
        seed: of the draws.
        assumed: the ranges are ours, nobody's.

    Raises:
        ColltoolError: the group does not fit, nothing runs.
    """
    taken = affordable(samples, len(numbers))
    drawn = draws(numbers, taken, seed)
    best = winner(fabric, asked, group, size)
    names, totals = totals_of(fabric, asked, group, size, drawn, best)
    today = best.title
    named = leading_rows(fabric, group, asked._replace(only=tuple(names.values())), np.array([size]))
    nominal = {row.title: float(np.ravel(row.total_s)[0]) for row in named}
    regret = totals[list(names).index(today)] / totals.min(axis=0) - 1
    telling, seats = _value_of_information(numbers, drawn, totals), place(fabric, group).placement
    sought = foremost(fabric, asked, group, size, numbers)
    return Sensitivity(
        fabric=fabric.name,
        overrides=fabric.overrides,
        primitive=asked.primitive,
        group=seats,
        bytes=size,
        ideal=asked.readings.ideal,
        readings=asked.readings,
        library=library_of(fabric),
        winner=today,
        library_leads=best.selectable,
        held=best.software_time.notes(size),
        spec=names[today],
        holds=float((regret <= TIE).mean()),
        regret_mean=float(regret.mean()),
        regret_p95=float(np.quantile(regret, 0.95)),
        seed=seed,
        samples=taken,
        samples_asked=samples,
        rows=_spreads(names, nominal, totals),
        moves=_tornado(fabric, asked._replace(only=(names[today],)), group, size, numbers, today=today),
        flips=break_evens(fabric, asked, group, size, sought),
        flips_sought=len(sought),
        telling=telling,
        numbers=tuple(numbers),
        assumed=assumed,
        experiment=experiment(fabric, asked.primitive, telling[0].key, seats.ranks) if telling else "",
    )


def affordable(samples: int, numbers: int) -> int:
    """How many of so many samples of so many numbers are drawn: at most :data:`MOST_DRAWN` draws, fewer beyond :data:`MANY`."""
    draws_each = max(1, numbers) * max(1.0, numbers / MANY)
    return max(1, min(samples, int(MOST_DRAWN / draws_each)))


def draws(numbers: Sequence[ParameterRange], samples: int, seed: int) -> dict[Place, Floats]:
    """Independent draws of every number between its bounds, by factor or by value.

    A number's draws depend on the seed and its key alone: whatever else is drawn, and on whatever fabric, they are the same.
    """
    found: dict[Place, Floats] = {}
    for one in numbers:
        even = np.random.default_rng([seed, *one.key.encode()]).random(samples)
        found[one.place] = (
            one.low * (one.high / one.low) ** even if one.even and one.low > 0 else one.low + (one.high - one.low) * even
        )
    return found


def totals_of(fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, drawn: dict[Place, Floats],
            today: AlgorithmEstimate) -> tuple[dict[str, str], Floats]:  # fmt: skip
    """The spec of every schedule that matters by its title, today's winner first, and its seconds in every sample.

    Which choices of a composition are fastest somewhere is known after all blocks; those that a block had no use for are then
    priced there by name.
    """
    found: list[dict[str, Floats]] = []
    names = {today.title: today.spec}
    for values, count in _blocks(drawn):
        rows = leading_rows(with_values(fabric, values), group, asked, np.full(count, size))
        names |= {row.title: row.spec for row in rows}
        found.append({row.title: np.broadcast_to(row.total_s, (count,)) for row in rows})
    for (values, count), block in zip(_blocks(drawn), found, strict=True):
        missing = [title for title in names if title not in block]
        if missing:
            named = asked._replace(only=tuple(names[title] for title in missing))
            rows = leading_rows(with_values(fabric, values), group, named, np.full(count, size))
            block |= {row.title: np.broadcast_to(row.total_s, (count,)) for row in rows}
    return names, np.stack([np.concatenate([block[title] for block in found]) for title in names])


def _blocks(drawn: dict[Place, Floats]) -> Iterator[tuple[dict[Place, Floats], int]]:
    count = len(next(iter(drawn.values())))
    step = max(1, min(BLOCK, AT_ONCE // len(drawn)))
    for start in followed(range(0, count, step)):
        block = {spot: values[start : start + step].copy() for spot, values in drawn.items()}  # a view would keep all draws
        yield block, min(step, count - start)
        gc.collect(1)  # a price is made of few objects in reference cycles with large arrays, which would linger otherwise


def _spreads(names: dict[str, str], nominal: dict[str, float], totals: Floats) -> tuple[Spread, ...]:
    won = first_least(list(totals))
    found = []
    for index, (title, spec) in enumerate(names.items()):
        p5, p50, p95 = (float(one) for one in np.quantile(totals[index], (0.05, 0.5, 0.95)))
        found.append(Spread(title, spec, nominal[title], p5, p50, p95, wins=float((won == index).mean())))
    return tuple(sorted(found, key=lambda row: (-row.wins, row.p50_s)))


def _tornado(
    fabric: Fabric, asked: PriceRequest, group: GroupSpec, size: float, numbers: Sequence[ParameterRange], *, today: str
) -> tuple[TornadoBar, ...]:
    count = 2 * len(numbers)
    rows = leading_rows(at_both_ends(fabric, numbers), group, asked, np.full(count, size))
    row = next(one for one in rows if one.title == today)  # its name may stand for more than one
    seconds = [float(second) for second in np.broadcast_to(row.total_s, (count,))]
    found = (TornadoBar(one.key, one.low, one.high, *seconds[2 * at : 2 * at + 2]) for at, one in enumerate(numbers))
    return tuple(sorted(found, key=lambda one: -abs(one.high_s - one.low_s)))


def _value_of_information(
    numbers: Sequence[ParameterRange], drawn: dict[Place, Floats], totals: Floats
) -> tuple[ValueOfInformation, ...]:
    """What knowing a number alone is worth: the best choice on average, against the best in each of its bins on average.

    Numbers that are worth nothing are left out; the others with the largest gain first.
    """
    blind = totals.mean(axis=1).min()
    found = []
    for one in numbers:
        order = np.argsort(drawn[one.place], kind="stable")
        parts: list[NDArray[Any]] = np.array_split(order, BINS)
        knowing = sum(totals[:, part].mean(axis=1).min() * len(part) for part in parts if len(part)) / totals.shape[1]
        if blind - knowing > NOTHING * blind:
            found.append(ValueOfInformation(one.key, one.value, one.low, one.high, float(blind - knowing)))
    return tuple(sorted(found, key=lambda one: -one.gain_s))
