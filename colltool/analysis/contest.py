"""``sensitivity`` of several fabrics: how often one beats another when the numbers of both are
uncertain.

Every fabric runs its fastest schedule in each sample; the sides are compared sample by sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from colltool.analysis.basis import (
    BasisDifference,
    basis_of,
    group_differences,
    joined,
    launch_missing,
)
from colltool.analysis.cells import Floats, PriceRequest, winner
from colltool.analysis.outcomes import SAME, launch_matters
from colltool.analysis.sensitivity import WhatIf, affordable, draws, percentiles, totals_of
from colltool.base.primitives import Primitive
from colltool.base.result import Result, result
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.variants import ParameterRange

# Samples whose outcome may change by a missing launch overhead, as a share, before no shares are
# reported.
MOST_CHANGED = 0.01


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
    """One fabric against the first: in which share of samples it is faster, in which the same
    (within :data:`SAME`), in which slower.

    Args:
        shared: keys that both have, drawn together.
        compared: False, and no shares, if a launch overhead that only one of them states matters.
        ratio_p5, ratio_p50, ratio_p95: percentiles of its time over the first's.
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


@result
class Contest(Result):
    """Several fabrics against the first, with what their prices do not have in common
    (``ground``)."""

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
    entries: Sequence[ContestEntry],
    request: PriceRequest,
    group: GroupSpec,
    size: float,
    *,
    samples: int,
    seed: int,
) -> Contest:
    """How often each of several fabrics beats the first; each runs its fastest schedule in every
    sample.

    A key that two fabrics share is drawn once, at the same place within each one's range: an error
    in a vendor's figure affects both.
    """
    ranks = group.ranks or min(entry.fabric.ranks for entry in entries)
    group = group._replace(ranks=ranks)
    ideal = request.readings.ideal
    drawn_samples = affordable(samples, max(len(entry.numbers) for entry in entries))
    times = []
    sides = []
    for entry in entries:
        seconds, side = _sampled(
            entry, WhatIf(entry.fabric, request, group, size), drawn_samples, seed
        )
        times.append(seconds)
        sides.append(side)
    bases = [basis_of(entry.fabric, request.primitive, group, ideal=ideal) for entry in entries]
    missing = tuple(launch_missing(bases))
    names = [entry.name for entry in entries]
    fabrics = [entry.fabric for entry in entries]
    differences = tuple(group_differences(names, fabrics, request.primitive, [group], ideal=ideal))
    return Contest(
        primitive=request.primitive,
        ranks=ranks,
        bytes=size,
        ideal=ideal,
        sides=tuple(sides),
        beats=tuple(_against(times, sides, missing, at) for at in range(1, len(entries))),
        samples=drawn_samples,
        samples_asked=samples,
        seed=seed,
        ground=joined(differences),
    )


def _sampled(
    entry: ContestEntry, question: WhatIf, samples: int, seed: int
) -> tuple[Floats, ContestSide]:
    """The fastest schedule's seconds in each sample, and their spread."""
    best = winner(question.fabric, question.request, question.group, question.size)
    nominal = float(np.ravel(best.total_s)[0])
    times = np.full(samples, nominal)
    if entry.numbers:
        _, totals = totals_of(question, draws(entry.numbers, samples, seed), best)
        times = np.asarray(totals.min(axis=0))
    return times, ContestSide(
        entry.name,
        entry.fabric.name,
        best.title,
        nominal,
        *percentiles(times),
        numbers=entry.numbers,
        assumed=entry.assumed,
    )


def _against(
    times: Sequence[Floats],
    sides: Sequence[ContestSide],
    missing_launches: Sequence[float],
    at: int,
) -> Beats:
    """The side at an index against the first one."""
    first, other = sides[0], sides[at]
    known = {number.key for number in first.numbers}
    shared = tuple(number.key for number in other.numbers if number.key in known)
    missing = missing_launches[0], missing_launches[at]
    ratios = times[at] / times[0]
    # Does the outcome change if the launch that one side lacks is added to it?
    filled = (times[at] + missing[1]) / (times[0] + missing[0])
    changed = abs(float((filled < 1 - SAME).mean() - (ratios < 1 - SAME).mean()))
    if launch_matters((first.nominal_s, other.nominal_s), missing) or changed > MOST_CHANGED:
        return Beats(other.name, shared=shared, compared=False)
    same = np.abs(ratios - 1) <= SAME
    low, middle, high = percentiles(ratios)
    return Beats(
        other.name,
        shared,
        faster=float(((ratios < 1) & ~same).mean()),
        same=float(same.mean()),
        slower=float(((ratios > 1) & ~same).mean()),
        ratio_p5=low,
        ratio_p50=middle,
        ratio_p95=high,
    )
