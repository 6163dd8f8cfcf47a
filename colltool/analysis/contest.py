"""``sensitivity`` of several fabrics: how often one beats another when the numbers of both are
uncertain.

Every fabric runs its fastest schedule in each sample; the sides are compared sample by sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.analysis.basis import (
    BasisDifference,
    basis_of,
    group_differences,
    joined,
    launch_missing,
)
from colltool.analysis.cells import Floats, PriceRequest, winner
from colltool.analysis.outcomes import SAME, launch_matters
from colltool.analysis.what_if import WhatIf, affordable, draws, percentiles, totals_of
from colltool.base.primitives import Primitive
from colltool.base.result import Result, result
from colltool.estimate.placement import GroupSpec
from colltool.fabric.model import Fabric
from colltool.fabric.ranges import ParameterRange

# Where one side states no launch overhead, and adding the other's to it would change the outcome of
# a larger share of the samples than this, the two are not compared.
MOST_CHANGED = 0.01


class ContestEntry(NamedTuple):
    """A fabric as it is asked about, with its uncertain numbers; ``assumed``: the ranges are
    defaults of ours."""

    name: str
    fabric: Fabric
    numbers: tuple[ParameterRange, ...]
    assumed: bool


class ContestSide(NamedTuple):
    """A :class:`ContestEntry` as it is answered: seconds of its fastest schedule, nominal and at
    percentiles over all samples."""

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

    subject: ClassVar[str] = "contest"
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
    sampled = []
    for entry in entries:
        question = WhatIf(entry.fabric, request, group, size)
        sampled.append(_sample_side(entry, question, drawn_samples, seed))
    bases = [basis_of(entry.fabric, request.primitive, group, ideal=ideal) for entry in entries]
    missing_s = tuple(launch_missing(bases))
    differences = tuple(
        group_differences(
            [entry.name for entry in entries],
            [entry.fabric for entry in entries],
            request.primitive,
            [group],
            ideal=ideal,
        )
    )
    return Contest(
        primitive=request.primitive,
        ranks=ranks,
        bytes=size,
        ideal=ideal,
        sides=tuple(entry.side for entry in sampled),
        beats=tuple(
            _compare_with_first(sampled[0], other, (missing_s[0], lacking_s))
            for other, lacking_s in zip(sampled[1:], missing_s[1:], strict=True)
        ),
        samples=drawn_samples,
        samples_asked=samples,
        seed=seed,
        ground=joined(differences),
    )


class _SampledSide(NamedTuple):
    """A side, and its seconds in each sample: ``times``, of shape (samples,)."""

    side: ContestSide
    times: Floats


def _sample_side(entry: ContestEntry, question: WhatIf, samples: int, seed: int) -> _SampledSide:
    """The fastest schedule's seconds in each sample, and their spread."""
    best = winner(question.fabric, question.request, question.group, question.size)
    nominal = float(np.ravel(best.total_s)[0])
    times = np.full(samples, nominal)
    if entry.numbers:
        _, totals = totals_of(question, draws(entry.numbers, samples, seed), best)
        times = np.asarray(totals.min(axis=0))
    side = ContestSide(
        entry.name,
        entry.fabric.name,
        best.title,
        nominal,
        *percentiles(times),  # p5_s, p50_s and p95_s
        numbers=entry.numbers,
        assumed=entry.assumed,
    )
    return _SampledSide(side, times)


def _compare_with_first(
    first: _SampledSide, other: _SampledSide, missing_s: tuple[float, float]
) -> Beats:
    """A side against the first one. ``missing_s``: the launch overhead that each of them lacks and
    another fabric states, 0 where it states its own."""
    keys_of_first = {number.key for number in first.side.numbers}
    shared = tuple(number.key for number in other.side.numbers if number.key in keys_of_first)
    ratios = other.times / first.times
    with_launch = (other.times + missing_s[1]) / (first.times + missing_s[0])
    faster = _share_faster(ratios)
    # whether the nominal outcome changes, launch_matters tells; of the samples it is the share of
    # faster ones that a reader goes by, and that must hold
    changed = abs(_share_faster(with_launch) - faster)
    nominal_s = (first.side.nominal_s, other.side.nominal_s)
    if launch_matters(nominal_s, missing_s) or changed > MOST_CHANGED:
        return Beats(other.side.name, shared=shared, compared=False)
    low, middle, high = percentiles(ratios)
    return Beats(
        other.side.name,
        shared,
        faster=faster,
        same=float((~_are_different(ratios)).mean()),
        slower=float(((ratios > 1) & _are_different(ratios)).mean()),
        ratio_p5=low,
        ratio_p50=middle,
        ratio_p95=high,
    )


def _are_different(ratios: Floats) -> NDArray[np.bool_]:
    """The samples in which two times are not the same, as a mask."""
    return np.abs(ratios - 1) > SAME


def _share_faster(ratios: Floats) -> float:
    """The share of samples in which a side is faster than the first."""
    return float(((ratios < 1) & _are_different(ratios)).mean())
