"""Which of NCCL's protocols the segments of a fit are, where NCCL's cost model and the fitted rates agree.

A segment is the protocol that NCCL picks at most of its sizes, unless its rate rules that out: LL moves half of what the others
do, so a clearly faster segment is not LL, and one clearly slower than LL is neither LL128 nor Simple.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import NamedTuple

import numpy as np

from colltool.base.primitives import A2A, P2P
from colltool.calibration.least_squares import Prior
from colltool.calibration.sample import Member
from colltool.calibration.select import ChosenFit, under_names
from colltool.measurements.series import Series
from colltool.nccl.hardware import Hardware
from colltool.nccl.model import estimates
from colltool.nccl.rules import SEGMENT, SHORT, SPOKEN, algorithms_of

P2P_LL_MOST = 16384
"""Bytes up to which NCCL sends by LL, then by Simple: NCCL_P2P_LL_THRESHOLD, src/enqueue.cc."""

_UNTOLD = (
    "segments are parts of a fit, small sizes first; naming the library's protocols needs the library and its"
    " facts in the fabric, such as library: {name: nccl, gpu: hopper, cpu: intel}"
)

_MOST = 0.6  # share of a segment's sizes that makes it a protocol
_NEAR = 4.0  # factor by which flip sizes may be off where the rate speaks against them
_TOO_FAST, _TOO_SLOW, _NOT_FELT = 1.8, 0.7, 20.0
"""Times LL's rate in NCCL's model: faster is not LL, slower is nothing else, far faster is too small to tell. LL measures 1.3 of
it on H100 and B200 and 1.6 on A100; LL128 has 1.84 by the model."""

_FULL = 0.75  # of the fastest segment's rate: LL128 has 0.92 of it, LL measures up to 0.66


class IdentifiedPoint(NamedTuple):
    """A point that NCCL's model has a protocol for. ``near``: its protocols at sizes around. ``rate``: LL's modelled time per
    byte over the fitted one, None where there is none."""

    segment: int
    protocol: str
    near: frozenset[str]
    rate: float | None
    size: float


def identified(chosen: ChosenFit, prior: Prior) -> ChosenFit:
    """The fit with its protocols named; segments keep placeholder names where the evidence is missing or conflicting."""
    known, count = list(_known(chosen)), len(chosen.names)
    slopes = np.maximum(chosen.fit.theta[:count, 2], 1e-18)
    felt = slopes[chosen.fit.theta[:count, 2] > 0].min(initial=np.inf)
    found = [
        _protocol([one for one in known if one.segment == segment], float(felt / slope), last=segment == count - 1)
        for segment, slope in enumerate(slopes)
    ]
    names = list(chosen.names)
    for protocol, name in SPOKEN.items():
        same = [segment for segment, what in enumerate(found) if what == protocol]
        for before, segment in zip(("", *SHORT), reversed(same), strict=False):
            names[segment] = before + name
    return under_names(chosen, tuple(names), prior)


def notes_on(fits: Sequence[tuple[Member, Sequence[str]]]) -> list[str]:
    """Notes on segments without a name, and on names that stand for part of a protocol."""
    notes = []
    for member, names in fits:
        what = member.series.primitive.spoken
        bare = ", ".join(name for name in names if SEGMENT in name)
        if bare:
            told = f"{what}, {bare}: sizes and rates do not show which of NCCL's protocols this is"
            notes.append(told if member.on else _UNTOLD)
        parts = [(name, name.partition("-")[2]) for name in names if name.startswith(SHORT)]
        notes += [f"{what}, {name}: {whole} where messages are short, which takes less time" for name, whole in parts]
    return list(dict.fromkeys(notes))


def _known(chosen: ChosenFit) -> Iterator[IdentifiedPoint]:
    at = 0
    for member in chosen.members:
        for point in (one for one, used in zip(member.series.points, member.used, strict=True) if used):
            segment, algorithm = int(chosen.fit.component[at]), int(chosen.fit.algorithm[at])
            at += 1
            at_size = partial(_times, member.on, member.series, member.costs[algorithm].algorithm) if member.on else None
            times = at_size(point.bytes) if at_size else {}
            if not (at_size and times) or segment >= len(chosen.names):
                continue
            near = frozenset(_least(at_size(point.bytes * factor)) for factor in (1 / _NEAR, 1.0, _NEAR))
            told = 0.0 < times.get("ll", inf) < inf
            rate = (
                ((at_size(2 * point.bytes)["ll"] - at_size(point.bytes)["ll"]) / point.bytes) / _fitted_slope(chosen, at - 1)
                if told
                else None
            )
            yield IdentifiedPoint(segment, _least(times), near, rate, point.bytes)


def _fitted_slope(chosen: ChosenFit, point: int) -> float:
    sample, fit = chosen.sample, chosen.fit
    component, algorithm = int(fit.component[point]), int(fit.algorithm[point])
    row = sample.x[algorithm, point, 2:] @ fit.theta[component, 2:]
    return max(float(row / sample.sizes[point]), 1e-18)


def _times(on: Hardware, series: Series, spec: str, size: float) -> dict[str, float]:
    """NCCL's modelled seconds by protocol; empty if NCCL has no such schedule. Sends follow a size threshold: 0 or inf."""
    if series.primitive in (A2A, P2P):
        message = size / (series.ranks if series.primitive is A2A else 1)
        return {"ll": inf, "simple": 0.0} if message > P2P_LL_MOST else {"ll": 0.0, "simple": inf}
    if series.primitive not in on.constants.algorithms:
        return {}
    theirs = algorithms_of(spec, series.primitive)
    found = (one for one in estimates(on, series.primitive, max(size, 1.0)) if one.algorithm in theirs)
    return {one.protocol: float(one.seconds) for one in found if one.seconds is not None}


def _least(times: Mapping[str, float]) -> str:
    return min(times, key=lambda protocol: times[protocol])


def _protocol(points: Sequence[IdentifiedPoint], share: float, *, last: bool) -> str:
    """A segment's protocol by majority of its sizes, if its rate allows that; empty if undecided. ``share``: its rate over the
    fastest segment's. ``last``: it serves the largest sizes, where the bandwidth decides between LL128 and Simple."""
    if not points:
        return ""
    largest = max(points, key=lambda one: one.size)
    by_rate, votes = _by_rate(largest.rate, share), Counter(one.protocol for one in points)
    if last and len(votes) > 1 and "ll" not in votes and largest.protocol in by_rate:
        return largest.protocol
    most = votes.most_common(1)[0][0]
    near = {name: sum(name in one.near for one in points) for name in by_rate - {most}} | {most: votes[most]}
    likely = [most, *sorted(near.keys() - {most}, key=lambda name: (-near[name], name))]
    return next((name for name in likely if name in by_rate and near[name] >= _MOST * len(points)), "")


def _by_rate(rate: float | None, share: float) -> set[str]:
    """Protocols that can reach a rate, given in LL's by NCCL's model."""
    if rate is None or rate > _NOT_FELT:
        return set(SPOKEN)
    if rate < _TOO_SLOW:
        return {"ll"}
    return {"ll128", "simple"} if rate > _TOO_FAST and share > _FULL else set(SPOKEN)
