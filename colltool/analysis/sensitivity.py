"""``sensitivity``: whether the winner still wins when numbers of the fabric are off."""

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
from colltool.base.result import Result, followed
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import USUAL, Readings
from colltool.estimate.groups import library_of, place
from colltool.estimate.placement import GroupPlacement, GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.variants import ParameterRange, Place, with_values

SAMPLES, SEED = 100_000, 1
MOST_DRAWN = 10_000_000  # numbers times samples: draws take 80 MB, pricing seconds
AT_ONCE = 1 << 18  # draws priced at once, where numbers are many: a price holds several arrays for each
NOTHING = 1e-9  # relative to a time: less is rounding noise
BINS = 20  # of one number, for its value of information


class Spread(NamedTuple):
    """A schedule over all samples: percentiles of its seconds, and the share of samples it wins."""

    algorithm: str
    spec: str
    nominal_s: float
    p5_s: float
    p50_s: float
    p95_s: float
    wins: float


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


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity(Result):
    """How uncertain numbers affect a choice.

    ``holds``: share of samples that the nominal winner wins; ``regret_*``: its excess over the fastest, as a share. ``telling``:
    by value of information; ``experiment`` measures the first. ``moves``: tornado bars. ``assumed``: the ranges are defaults of
    ours. With very many numbers fewer ``samples`` are drawn than asked for (:func:`affordable`) and ``flips`` are sought only
    among the ``flips_sought`` most influential ones. ``held``: where the winner's measured software time is extrapolated.
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
    """Vary ``numbers`` independently within their ranges and see whether the winner changes.

    Raises:
        ColltoolError: the group does not fit, or nothing runs.
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
    """How many samples to draw so that their numbers stay within :data:`MOST_DRAWN`; fewer beyond :data:`MANY` numbers."""
    draws_each = max(1, numbers) * max(1.0, numbers / MANY)
    return max(1, min(samples, int(MOST_DRAWN / draws_each)))


def draws(numbers: Sequence[ParameterRange], samples: int, seed: int) -> dict[Place, Floats]:
    """Independent draws of every number, uniform by factor (``even``) or by value.

    A number's draws depend only on the seed and its key, so they are the same whatever else is drawn.
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
    """The spec of every relevant schedule by title, the nominal winner first, and the seconds of each in every sample.

    Which choices of a composition ever win is known only after all blocks; the rest are then filled in by name.
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
    row = next(one for one in rows if one.title == today)  # one spec may match several titles
    seconds = [float(second) for second in np.broadcast_to(row.total_s, (count,))]
    found = (TornadoBar(one.key, one.low, one.high, *seconds[2 * at : 2 * at + 2]) for at, one in enumerate(numbers))
    return tuple(sorted(found, key=lambda one: -abs(one.high_s - one.low_s)))


def _value_of_information(
    numbers: Sequence[ParameterRange], drawn: dict[Place, Floats], totals: Floats
) -> tuple[ValueOfInformation, ...]:
    """The best choice's mean time, less the mean over equal bins of each bin's best choice.

    Numbers worth nothing are left out; largest gain first.
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
