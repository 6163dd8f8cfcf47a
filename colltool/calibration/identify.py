"""Which of NCCL's protocols the segments of a fit are.

A segment is the part of a fit that one line explains. It is the protocol that NCCL's model picks at
most of its sizes, unless its rate rules that out: LL moves half of what the others do, so a clearly
faster segment is not LL, and one clearly slower than LL is neither LL128 nor Simple. Rates are
compared with LL's in NCCL's model.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from colltool.base.primitives import A2A, P2P
from colltool.calibration.least_squares import PER_BYTE, Prior
from colltool.calibration.protocol_fit import CollectiveFit, renamed
from colltool.calibration.samples import Member
from colltool.calibration.sentences import FitFinding
from colltool.calibration.serialise import FittedProtocol
from colltool.libraries.nccl.model import estimates
from colltool.libraries.nccl.names import (
    PROTOCOL_NAMES,
    SEGMENT_PREFIXES,
    UNKNOWN_SEGMENT,
    algorithms_of,
)

# Bytes up to which NCCL sends by LL, then by Simple: NCCL_P2P_LL_THRESHOLD, src/enqueue.cc.
P2P_LL_MOST = 16384

# Least time per byte, where a fit has none: 1e18 bytes/s.
_LEAST_PER_BYTE_S = 1e-18
# Share of a segment's sizes that must agree on a protocol.
_MAJORITY = 0.6
# Factor by which the sizes at which the model changes its protocol may be off.
_FLIP_TOLERANCE = 4.0
# Times LL's rate in NCCL's model: faster is not LL, slower is nothing else. LL measures 1.3 of it
# on H100 and B200 and 1.6 on A100; LL128 has 1.84 by the model.
_TOO_FAST_FOR_LL = 1.8
_TOO_SLOW_FOR_OTHERS = 0.7
# A segment this much faster than LL takes too little time per byte for its rate to tell anything.
_RATE_UNKNOWN = 20.0
# Share of the fastest segment's rate that LL does not reach: LL128 has 0.92 of it, LL measures up
# to 0.66.
_FULL_RATE = 0.75


class ModelledPoint(NamedTuple):
    """A measured size that NCCL's model has a protocol for.

    Args:
        protocol: the model's fastest one: ll, ll128 or simple.
        near: its fastest ones at this size, and at smaller and larger ones (:data:`_FLIP_TOLERANCE`).
        rate: LL's modelled time per byte over the fitted one; None where the model has no LL.
        size: bytes.
    """

    protocol: str
    near: set[str]
    rate: float | None
    size: float


def with_protocol_names(fit: CollectiveFit, prior: Prior) -> CollectiveFit:
    """The fit with its protocols named; segments keep placeholder names where the evidence is
    missing or conflicting."""
    segments = len(fit.names)
    slopes = fit.envelope.theta[:segments, PER_BYTE]
    per_byte_s = np.maximum(slopes, _LEAST_PER_BYTE_S)
    fastest = per_byte_s[slopes > 0].min(initial=np.inf)
    protocols = []
    # after the segments there may be the switch, which is no protocol
    for segment, points in enumerate(_points_by_segment(fit)[:segments]):
        rate_share = float(fastest / per_byte_s[segment])
        is_last = segment == segments - 1
        protocols.append(_identify(points, rate_share, serves_largest=is_last))
    names = list(fit.names)
    for protocol, name in PROTOCOL_NAMES.items():
        # Segments are in the order of their sizes. Of several of one protocol that of the largest sizes
        # has the protocol's name, those of smaller sizes that of a part of it.
        segments_of_protocol = [
            segment for segment, identified in enumerate(protocols) if identified == protocol
        ]
        for part, segment in zip(
            ("", *SEGMENT_PREFIXES), reversed(segments_of_protocol), strict=False
        ):
            names[segment] = part + name
    return renamed(fit, tuple(names), prior)


def name_findings(
    fits: Sequence[tuple[Member, Sequence[FittedProtocol]]],
) -> Iterator[FitFinding]:
    """What the names of fitted protocols say, by series."""
    for member, protocols in fits:
        names = [protocol.name for protocol in protocols]
        collective = member.series.primitive.label
        unnamed = ", ".join(name for name in names if UNKNOWN_SEGMENT in name)
        if unnamed and member.hardware:
            yield FitFinding("undecided_protocol", {"spoken": collective, "names": unnamed})
        elif unnamed:
            yield FitFinding("unknown_protocols")
        for name in names:
            if name.startswith(SEGMENT_PREFIXES):
                whole = name.partition("-")[2]
                fields = {"spoken": collective, "name": name, "whole": whole}
                yield FitFinding("part_of_protocol", fields)


def _points_by_segment(fit: CollectiveFit) -> list[list[ModelledPoint]]:
    """The points of each component, for which NCCL's model has a protocol, members in order."""
    theta = fit.envelope.theta
    by_segment: list[list[ModelledPoint]] = [[] for _ in theta]
    index = 0
    for member in fit.members:
        for _ in range(member.used.sum()):
            segment = fit.envelope.component[index]
            algorithm = fit.envelope.algorithm[index]
            # what wires and local copy take: the columns from PER_BYTE on
            x = fit.sample.x[algorithm, index, PER_BYTE:]
            moving_s = x @ theta[segment, PER_BYTE:]
            size = float(fit.sample.sizes[index])
            per_byte_s = max(float(moving_s / size), _LEAST_PER_BYTE_S)
            point = _modelled_point(member, member.costs[algorithm].algorithm, size, per_byte_s)
            if point is not None:
                by_segment[segment].append(point)
            index += 1
    return by_segment


def _modelled_point(
    member: Member, spec: str, size: float, per_byte_s: float
) -> ModelledPoint | None:
    """One size of a series, bytes, with the fitted time per byte. None without a modelled time."""
    times = _modelled_times(member, spec, size)
    if not times:
        return None
    protocols_near = set()
    for around in (size / _FLIP_TOLERANCE, size, size * _FLIP_TOLERANCE):
        modelled = _modelled_times(member, spec, around)
        protocols_near.add(min(modelled, key=modelled.__getitem__))
    rate = None
    if 0.0 < times.get("ll", inf) < inf:
        # what twice the size takes more, over the size: LL's seconds per byte
        ll_per_byte_s = (_modelled_times(member, spec, 2 * size)["ll"] - times["ll"]) / size
        rate = ll_per_byte_s / per_byte_s
    return ModelledPoint(min(times, key=times.__getitem__), protocols_near, rate, size)


def _modelled_times(member: Member, spec: str, size: float) -> dict[str, float]:
    """NCCL's modelled seconds by protocol. Empty if NCCL did not run, or has no such schedule.

    Sends follow a size threshold, not times: 0 for the protocol that is used, inf for the other.
    """
    hardware = member.hardware
    series = member.series
    if hardware is None:
        return {}
    if series.primitive in (A2A, P2P):
        message = size / (series.ranks if series.primitive is A2A else 1)
        if message > P2P_LL_MOST:
            return {"ll": inf, "simple": 0.0}
        return {"ll": 0.0, "simple": inf}
    seconds: dict[str, float] = {}
    if series.primitive not in hardware.constants.algorithms:
        return seconds
    nccl_algorithms = algorithms_of(spec, series.primitive)
    for estimate in estimates(hardware, series.primitive, max(size, 1.0)):
        if estimate.algorithm in nccl_algorithms and estimate.seconds is not None:
            seconds[estimate.protocol] = float(estimate.seconds)
    return seconds


def _identify(points: Sequence[ModelledPoint], rate_share: float, *, serves_largest: bool) -> str:
    """A segment's protocol by majority of its sizes, if its rate allows that. Empty if undecided.

    Args:
        rate_share: the segment's rate over the fastest segment's.
        serves_largest: whether it serves the largest sizes, where the bandwidth decides between
            LL128 and Simple.
    """
    if not points:
        return ""
    largest = max(points, key=attrgetter("size"))
    possible = _possible_protocols(largest.rate, rate_share)
    votes: Counter[str] = Counter(map(attrgetter("protocol"), points))
    if serves_largest and len(votes) > 1 and "ll" not in votes and largest.protocol in possible:
        return largest.protocol
    likeliest_by_size, count = votes.most_common(1)[0]
    if likeliest_by_size in possible and count >= _MAJORITY * len(points):
        return likeliest_by_size
    # the model may change its protocol too early or too late
    neighbours: Counter[str] = Counter()
    for point in points:
        neighbours.update(point.near & possible)
    neighbours.pop(likeliest_by_size, None)
    likeliest = min(neighbours, key=lambda name: (-neighbours[name], name), default="")
    return likeliest if neighbours[likeliest] >= _MAJORITY * len(points) else ""


def _possible_protocols(rate: float | None, rate_share: float) -> set[str]:
    """The protocols that can have a rate, over LL's in NCCL's model; None and rates that tell
    nothing exclude none. ``rate_share``: the rate over the fastest segment's."""
    if rate is not None and rate < _TOO_SLOW_FOR_OTHERS:
        return {"ll"}
    if rate is not None and _TOO_FAST_FOR_LL < rate <= _RATE_UNKNOWN and rate_share > _FULL_RATE:
        return {"ll128", "simple"}
    return set(PROTOCOL_NAMES)
