"""NCCL's cost model: its estimate for each algorithm and protocol at a size, and which it picks.

An estimate is latency plus bytes over bandwidth. Corrections change the bandwidth at powers of two
and the latency at one size, so it is piecewise linear (:func:`pieces`) and crossings are exact
(:func:`switch_points`).

Bytes are M of :mod:`colltool.base.primitives`: the vector of an all-reduce, the total of an
all-gather or reduce-scatter. One ungrouped call; a sum, minimum or maximum of a type that NVLS
reduces (NCCL avoids long rings for fp8, PAT for averages).

Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoGetAlgoTime), src/enqueue.cc.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Number, Primitive
from colltool.nccl.hardware import ALGORITHMS, FORGET, PROTOCOLS, Hardware
from colltool.nccl.rules import rules_of


class Piece(NamedTuple):
    """From this size up to the next piece a call takes ``a_s + b_s_per_byte·M`` seconds."""

    from_bytes: float
    a_s: float
    b_s_per_byte: float


class Combination(NamedTuple):
    """An algorithm under a protocol: its pieces, ascending; empty, with a reason, if NCCL cannot
    run it."""

    algorithm: str
    protocol: str
    pieces: tuple[Piece, ...]
    reason: str = ""


class NcclEstimate(NamedTuple):
    """NCCL's estimate of one call, by algorithm and protocol as in its tuner file; arrays for an
    array of sizes.

    ``seconds``: None if NCCL cannot run it. ``latency_s``: the part independent of size within its
    piece. ``bandwidth_Bps``:
    bytes over the rest of the time.
    """

    algorithm: str
    protocol: str
    seconds: Number | None
    latency_s: Number | None
    bandwidth_Bps: Number | None
    reason: str = ""


class SwitchPoint(NamedTuple):
    from_bytes: float
    algorithm: str
    protocol: str


def estimates(on: Hardware, primitive: Primitive, size: Number) -> list[NcclEstimate]:
    """Every algorithm under every protocol, in NCCL's scanning order; ``size`` is M in bytes, or an
    array, of 1 byte or more."""
    _check(size)
    return [_estimate(way, size) for way in pieces(on, primitive)]


def pick(on: Hardware, primitive: Primitive, size: float) -> NcclEstimate:
    """NCCL's choice: the least estimate, the first of equals."""
    return picks(on, primitive, (size,))[0]


def cheapest(ways: Iterable[NcclEstimate]) -> NcclEstimate:
    return min(
        (way for way in ways if way.seconds is not None), key=lambda way: float(way.seconds or 0.0)
    )


def picks(on: Hardware, primitive: Primitive, sizes: Iterable[float]) -> list[NcclEstimate]:
    """As :func:`pick`, for many sizes."""
    ways, found = [way for way in pieces(on, primitive) if way.pieces], []
    for size in map(float, sizes):
        _check(size)
        found.append(_estimate(min(ways, key=lambda way: _seconds(_piece(way, size), size)), size))
    return found


@lru_cache(maxsize=256)
def pieces(on: Hardware, primitive: Primitive) -> tuple[Combination, ...]:
    """The piecewise estimates of all algorithms and protocols, in NCCL's scanning order, from 1
    byte on."""
    if primitive not in on.constants.algorithms:
        fix = f"it chooses for {', '.join(one.spoken for one in on.constants.algorithms)}"
        raise ColltoolError(
            f"NCCL has one way for {primitive.spoken}: there is nothing to choose",
            argument="primitive",
            fix=fix,
        )
    return tuple(
        _combination(on, primitive, algorithm, protocol)
        for algorithm in ALGORITHMS
        for protocol in PROTOCOLS
    )


@lru_cache(maxsize=256)
def switch_points(on: Hardware, primitive: Primitive) -> tuple[SwitchPoint, ...]:
    """NCCL's picks from 1 byte on: the exact sizes where the pick changes."""
    ways = [way for way in pieces(on, primitive) if way.pieces]
    starts = sorted({piece.from_bytes for way in ways for piece in way.pieces})
    found: list[SwitchPoint] = []
    for start, end in zip(starts, [*starts[1:], float("inf")], strict=True):
        lines = [_piece(way, start) for way in ways]
        for at, index in _lowest(lines, start, end):
            flip = SwitchPoint(at, ways[index].algorithm, ways[index].protocol)
            if found and found[-1].from_bytes == at:  # two lines meet where a piece starts
                found.pop()
            if not found or found[-1][1:] != flip[1:]:
                found.append(flip)
    return tuple(found)


FORGET += [pieces.cache_clear, switch_points.cache_clear]


def _lowest(lines: Sequence[Piece], start: float, end: float) -> Iterable[tuple[float, int]]:
    """The lower envelope of lines between two sizes, as (from, index); the first of equals."""
    at, best = start, min(range(len(lines)), key=lambda index: _seconds(lines[index], start))
    while at < end:
        yield at, best
        own = lines[best]
        flatter = [
            index for index, line in enumerate(lines) if line.b_s_per_byte < own.b_s_per_byte
        ]
        crossed = [
            ((lines[index].a_s - own.a_s) / (own.b_s_per_byte - lines[index].b_s_per_byte), index)
            for index in flatter
        ]
        crossing, best = min(
            crossed, key=lambda one: (one[0], lines[one[1]].b_s_per_byte), default=(end, best)
        )
        at = max(at, crossing)


def _combination(on: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> Combination:
    rules, what = rules_of(on.constants), (on, primitive, algorithm, protocol)
    if reason := rules.why_not(*what):
        return Combination(algorithm, protocol, (), reason)
    a_s, plateau = (
        sum(term.times * term.us for term in rules.latency_terms(*what)) * 1e-6,
        rules.plateau(*what),
    )
    b = 1e-9 / rules.bandwidth_GBps(*what)
    slopes = {1.0: b} | {start: b / share for start, share in rules.corrections(*what).items()}
    found: list[Piece] = []
    for start in sorted({*slopes, *plateau, 1.0}):
        slope = slopes[max(one for one in slopes if one <= start)]
        lifted = a_s * next((factor for at, factor in plateau.items() if at <= start), 1.0)
        if not found or found[-1][1:] != (lifted, slope):
            found.append(Piece(start, lifted, slope))
    return Combination(algorithm, protocol, tuple(found))


def _piece(way: Combination, size: float) -> Piece:
    return way.pieces[bisect_right(way.pieces, size, key=lambda piece: piece.from_bytes) - 1]


def _seconds(piece: Piece, size: float) -> float:
    return piece.a_s + piece.b_s_per_byte * size


def _estimate(way: Combination, size: Number) -> NcclEstimate:
    if not way.pieces:
        return NcclEstimate(way.algorithm, way.protocol, None, None, None, way.reason)
    if not hasattr(size, "shape"):
        piece = _piece(way, float(size))
        return NcclEstimate(
            way.algorithm,
            way.protocol,
            _seconds(piece, float(size)),
            piece.a_s,
            1 / piece.b_s_per_byte,
        )
    import numpy as np

    starts, latencies, slopes = np.asarray(way.pieces, dtype=float).T
    index = np.searchsorted(starts, size, side="right") - 1
    return NcclEstimate(
        way.algorithm,
        way.protocol,
        latencies[index] + slopes[index] * size,
        latencies[index],
        1 / slopes[index],
    )


def _check(size: Number) -> None:
    smallest, most = (
        (size, size) if isinstance(size, float | int) else (float(size.min()), float(size.max()))
    )
    if not (smallest >= 1 and isfinite(most)):
        raise ColltoolError(
            f"NCCL's model needs sizes of 1 byte or more, got {smallest!r}", argument="size"
        )
