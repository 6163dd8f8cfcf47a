"""``sensitivity`` of several fabrics: how often one beats another when the numbers of both are uncertain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from colltool.analysis.basis import BasisDifference, PriceBasis, basis_of, group_differences, joined, launch_missing
from colltool.analysis.grid import Floats, PriceRequest, winner
from colltool.analysis.outcomes import SAME, launch_felt
from colltool.analysis.sensitivity import affordable, draws, totals_of
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.variants import ParameterRange

TURNED = 0.01
"""Largest share of samples whose outcome a missing launch overhead may turn before the shares are withheld."""


class ContestSide(NamedTuple):
    """One fabric: seconds of its fastest schedule, nominal and at percentiles over all samples."""

    name: str
    fabric: str
    algorithm: str
    nominal_s: float
    p5_s: float
    p50_s: float
    p95_s: float
    numbers: tuple[ParameterRange, ...]
    assumed: bool


class Beats(NamedTuple):
    """One fabric against the first: shares of samples in which it is faster, the same (within :data:`SAME`) or slower.

    ``ratio_*``: its time over the first's. ``shared``: keys that both have, drawn together. ``compared``: False, with no shares,
    if only one of them states a launch overhead and it would matter.
    """

    name: str
    shared: tuple[str, ...]
    compared: bool = True
    faster: float | None = None
    same: float | None = None
    slower: float | None = None
    ratio_p5: float | None = None
    ratio_p50: float | None = None
    ratio_p95: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Contest(Result):
    subject: ClassVar[str] = "sensitivity"
    primitive: Primitive
    ranks: int
    bytes: float
    ideal: bool
    sides: tuple[ContestSide, ...]
    beats: tuple[Beats, ...]
    samples: int
    samples_asked: int
    seed: int
    ground: tuple[BasisDifference, ...]


class ContestEntry(NamedTuple):
    """A fabric and its uncertain numbers; ``assumed``: the ranges are defaults of ours."""

    name: str
    fabric: Fabric
    numbers: tuple[ParameterRange, ...]
    assumed: bool


def contest(
    entries: Sequence[ContestEntry], asked: PriceRequest, group: GroupSpec, size: float, *, samples: int, seed: int
) -> Contest:
    """How often each of several fabrics beats the first; each runs its fastest schedule in every sample.

    A key that two fabrics share is drawn once, at the same place within each one's range: an error in a vendor's figure affects
    both.

    Raises:
        ColltoolError: the group does not fit on one of them, or nothing runs.
    """
    count = group.ranks or min(one.fabric.ranks for one in entries)
    who = group._replace(ranks=count)
    ideal = asked.readings.ideal
    taken = affordable(samples, max(len(one.numbers) for one in entries))
    times, sides = zip(*(_priced(one, asked, who, size, taken, seed) for one in entries), strict=True)
    grounds = [basis_of(one.fabric, asked.primitive, who, ideal=ideal) for one in entries]
    beats = [_against(entries, times, sides, grounds, at) for at in range(1, len(entries))]
    names, fabrics = [one.name for one in entries], [one.fabric for one in entries]
    ground = joined(group_differences(names, fabrics, asked.primitive, [who], ideal=ideal))
    return Contest(
        primitive=asked.primitive,
        ranks=count,
        bytes=size,
        ideal=ideal,
        sides=sides,
        beats=tuple(beats),
        samples=taken,
        samples_asked=samples,
        seed=seed,
        ground=ground,
    )


def _priced(
    one: ContestEntry, asked: PriceRequest, group: GroupSpec, size: float, samples: int, seed: int
) -> tuple[Floats, ContestSide]:
    best = winner(one.fabric, asked, group, size)
    nominal = float(np.ravel(best.total_s)[0])
    times = np.full(samples, nominal)
    if one.numbers:
        _, totals = totals_of(one.fabric, asked, group, size, draws(one.numbers, samples, seed), best)
        times = np.asarray(totals.min(axis=0))
    low, middle, high = (float(second) for second in np.quantile(times, (0.05, 0.5, 0.95)))
    return times, ContestSide(
        name=one.name,
        fabric=one.fabric.name,
        algorithm=best.title,
        nominal_s=nominal,
        p5_s=low,
        p50_s=middle,
        p95_s=high,
        numbers=one.numbers,
        assumed=one.assumed,
    )


def _against(
    entries: Sequence[ContestEntry], times: Sequence[Floats], sides: Sequence[ContestSide], grounds: Sequence[PriceBasis], at: int
) -> Beats:
    known = {one.key for one in entries[0].numbers}
    shared = tuple(one.key for one in entries[at].numbers if one.key in known)
    launches = launch_missing(grounds)
    missing = launches[0], launches[at]
    ratios = times[at] / times[0]
    filled = (times[at] + missing[1]) / (times[0] + missing[0])
    turned = abs(float((filled < 1 - SAME).mean() - (ratios < 1 - SAME).mean()))
    if launch_felt((sides[0].nominal_s, sides[at].nominal_s), missing) or turned > TURNED:
        return Beats(entries[at].name, shared=shared, compared=False)
    same = np.abs(ratios - 1) <= SAME
    low, middle, high = (float(ratio) for ratio in np.quantile(ratios, (0.05, 0.5, 0.95)))
    return Beats(
        name=entries[at].name,
        faster=float(((ratios < 1) & ~same).mean()),
        same=float(same.mean()),
        slower=float(((ratios > 1) & ~same).mean()),
        ratio_p5=low,
        ratio_p50=middle,
        ratio_p95=high,
        shared=shared,
    )
