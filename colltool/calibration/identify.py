"""Which of NCCL's protocols the segments of a fit are.

A segment is the protocol that NCCL picks at most of its sizes, unless its rate rules that out: LL
moves half of what the others do, so a clearly faster segment is not LL, and one clearly slower than
LL is neither LL128 nor Simple.
"""

from collections import Counter
from collections.abc import Sequence
from math import inf
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from colltool.base.primitives import A2A, P2P
from colltool.calibration.envelope import Prior
from colltool.calibration.protocol_fit import CollectiveFit, renamed
from colltool.calibration.samples import Member
from colltool.calibration.serialise import FittedProtocol
from colltool.libraries.nccl.model import estimates
from colltool.libraries.nccl.rules import (
    PROTOCOL_NAMES,
    SEGMENT_PREFIXES,
    UNKNOWN_SEGMENT,
    algorithms_of,
)

P2P_LL_MOST = 16384
"""Bytes up to which NCCL sends by LL, then by Simple: NCCL_P2P_LL_THRESHOLD, src/enqueue.cc."""

_UNKNOWN = (
    "segments are parts of a fit, small sizes first; naming the library's protocols needs the"
    " library and its facts in the fabric, such as library: {name: nccl, gpu: hopper, cpu: intel}"
)
_MOST = 0.6  # share of a segment's sizes that makes it a protocol
_NEAR = 4.0  # factor by which flip sizes may be off where the rate speaks against them
# Times LL's rate in NCCL's model: faster is not LL, slower is nothing else, far faster is too
# small to tell. LL measures 1.3 of it on H100 and B200 and 1.6 on A100; LL128 has 1.84 by the
# model.
_TOO_FAST = 1.8
_TOO_SLOW = 0.7
_NOT_FELT = 20.0
_FULL = 0.75  # of the fastest segment's rate: LL128 has 0.92 of it, LL measures up to 0.66


class IdentifiedPoint(NamedTuple):
    """A point that NCCL's model has a protocol for. ``near``: its protocols at sizes around.
    ``rate``: LL's modelled time per byte over the fitted one, None where there is none."""

    protocol: str
    near: set[str]
    rate: float | None
    size: float


def identified(fit: CollectiveFit, prior: Prior) -> CollectiveFit:
    """The fit with its protocols named; segments keep placeholder names where the evidence is
    missing or conflicting."""
    count = len(fit.names)
    by_segment = _points_by_segment(fit)
    slopes = fit.envelope.theta[:count, 2]
    per_byte = np.maximum(slopes, 1e-18)
    least = per_byte[slopes > 0].min(initial=np.inf)
    found = []
    for segment, points in enumerate(by_segment[:count]):
        share = float(least / per_byte[segment])
        found.append(_protocol(points, share, last=segment == count - 1))
    names = list(fit.names)
    for protocol, name in PROTOCOL_NAMES.items():
        # the largest sizes have the whole protocol, smaller ones parts of it
        same = [segment for segment, known in enumerate(found) if known == protocol]
        for part, segment in zip(("", *SEGMENT_PREFIXES), reversed(same), strict=False):
            names[segment] = part + name
    return renamed(fit, tuple(names), prior)


def notes_on(fits: Sequence[tuple[Member, Sequence[FittedProtocol]]]) -> list[str]:
    """What a reader should know of the protocols' names, by series."""
    notes = []
    for member, protocols in fits:
        names = [protocol.name for protocol in protocols]
        spoken = member.series.primitive.spoken
        unnamed = ", ".join(name for name in names if UNKNOWN_SEGMENT in name)
        if unnamed and member.on:
            notes.append(
                f"{spoken}, {unnamed}: sizes and rates do not show which of NCCL's protocols this is"
            )
        elif unnamed:
            notes.append(_UNKNOWN)
        for name in names:
            if name.startswith(SEGMENT_PREFIXES):
                whole = name.partition("-")[2]
                notes.append(
                    f"{spoken}, {name}: {whole} where messages are short, which takes less time"
                )
    return list(dict.fromkeys(notes))


def _points_by_segment(fit: CollectiveFit) -> list[list[IdentifiedPoint]]:
    """The points of each component whose protocol NCCL's model knows, members in order."""
    theta = fit.envelope.theta
    found: list[list[IdentifiedPoint]] = [[] for _ in theta]
    place = 0
    for member in fit.members:
        for _ in range(member.used.sum()):
            segment = fit.envelope.component[place]
            algorithm = fit.envelope.algorithm[place]
            per_call_s = fit.sample.x[algorithm, place, 2:] @ theta[segment, 2:]
            size = float(fit.sample.sizes[place])
            slope = max(float(per_call_s / size), 1e-18)
            point = _identified_point(member, member.costs[algorithm].algorithm, size, slope)
            if point is not None:
                found[segment].append(point)
            place += 1
    return found


def _identified_point(
    member: Member, spec: str, size: float, slope: float
) -> IdentifiedPoint | None:
    """One size of a series; ``slope``: the fitted time per byte."""
    times = _times(member, spec, size)
    if not times:
        return None
    near = set()
    for around in (size / _NEAR, size, size * _NEAR):
        modelled = _times(member, spec, around)
        near.add(min(modelled, key=modelled.__getitem__))
    rate = None
    if 0.0 < times.get("ll", inf) < inf:
        rate = (_times(member, spec, 2 * size)["ll"] - times["ll"]) / size / slope
    return IdentifiedPoint(min(times, key=times.__getitem__), near, rate, size)


def _times(member: Member, spec: str, size: float) -> dict[str, float]:
    """NCCL's modelled seconds by protocol; empty if NCCL did not run, or has no such schedule.
    Sends follow a size threshold: 0 or inf."""
    hardware = member.on
    series = member.series
    if hardware is None:
        return {}
    if series.primitive in (A2A, P2P):
        message = size / (series.ranks if series.primitive is A2A else 1)
        return {"ll": inf, "simple": 0.0} if message > P2P_LL_MOST else {"ll": 0.0, "simple": inf}
    found: dict[str, float] = {}
    if series.primitive not in hardware.constants.algorithms:
        return found
    theirs = algorithms_of(spec, series.primitive)
    for estimate in estimates(hardware, series.primitive, max(size, 1.0)):
        if estimate.algorithm in theirs and estimate.seconds is not None:
            found[estimate.protocol] = float(estimate.seconds)
    return found


def _protocol(points: Sequence[IdentifiedPoint], share: float, *, last: bool) -> str:
    """A segment's protocol by majority of its sizes, if its rate allows that; empty if undecided.
    ``share``: its rate over the fastest segment's. ``last``: it serves the largest sizes, where the
    bandwidth decides between LL128 and Simple."""
    if not points:
        return ""
    largest = max(points, key=lambda point: point.size)
    possible = _possible(largest.rate, share)
    votes: Counter[str] = Counter(map(attrgetter("protocol"), points))
    if last and len(votes) > 1 and "ll" not in votes and largest.protocol in possible:
        return largest.protocol
    most, count = votes.most_common(1)[0]
    if most in possible and count >= _MOST * len(points):
        return most
    # the model's flips may be off by some sizes
    near: Counter[str] = Counter()
    for point in points:
        near.update(point.near & possible)
    near.pop(most, None)
    likeliest = min(near, key=lambda name: (-near[name], name), default="")
    return likeliest if near[likeliest] >= _MOST * len(points) else ""


def _possible(rate: float | None, share: float) -> set[str]:
    """The protocols that reach a rate, in LL's by NCCL's model; None or a rate too far off excludes
    none."""
    if rate is not None and rate < _TOO_SLOW:
        return {"ll"}
    if rate is not None and _TOO_FAST < rate <= _NOT_FELT and share > _FULL:
        return {"ll128", "simple"}
    return set(PROTOCOL_NAMES)
