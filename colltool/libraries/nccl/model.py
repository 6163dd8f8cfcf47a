"""NCCL's cost model: its estimate for each algorithm and protocol at a size, and which it picks.

:func:`estimates` and :func:`pick` answer for a size, :func:`switch_points` for all. An estimate is
latency plus bytes over bandwidth. Corrections change the bandwidth at powers of two and the latency
at one size, so it is piecewise linear (:func:`pieces`) and crossings are exact. Callers reach what a
version computes through :func:`~colltool.libraries.nccl.rules.rules_of`.

Bytes are M of :mod:`colltool.base.primitives`: the vector of an all-reduce, the total of an
all-gather or reduce-scatter. One ungrouped call; a sum, minimum or maximum of a type that NVLS
reduces (NCCL avoids long rings for fp8, PAT for averages).

Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoGetAlgoTime), src/enqueue.cc.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, product
from math import isfinite
from typing import NamedTuple

from colltool.base.arrays import is_array
from colltool.base.errors import ColltoolError
from colltool.base.primitives import Number, Primitive
from colltool.libraries.nccl.hardware import ALGORITHMS, CACHE_CLEARS, PROTOCOLS, Hardware
from colltool.libraries.nccl.rules import rules_of


class Piece(NamedTuple):
    """A call takes ``a_s + b_s_per_byte·M`` seconds, from this size up to the next piece."""

    from_bytes: float
    a_s: float
    b_s_per_byte: float


class Combination(NamedTuple):
    """An algorithm under a protocol, one of NCCL's *ways* to run a call: its pieces, ascending by size,
    the first from 1 byte on. No pieces, but a reason, if NCCL cannot run it."""

    algorithm: str
    protocol: str
    pieces: tuple[Piece, ...]
    reason: str = ""


class NcclEstimate(NamedTuple):
    """NCCL's estimate of a call, by algorithm and protocol as in its tuner file; arrays for an
    array of sizes.

    Args:
        seconds: None if NCCL cannot run it.
        latency_s: the part independent of size within its piece.
        bandwidth_Bps: bytes over the rest of the time.
    """

    algorithm: str
    protocol: str
    seconds: Number | None
    latency_s: Number | None
    bandwidth_Bps: Number | None
    reason: str = ""


class SwitchPoint(NamedTuple):
    """The pick from a size on, up to the next switch point."""

    from_bytes: float
    algorithm: str
    protocol: str


def estimates(hardware: Hardware, primitive: Primitive, size: Number) -> list[NcclEstimate]:
    """Every algorithm under every protocol, in NCCL's scanning order; ``size`` is M in bytes, or an
    array, of 1 byte or more."""
    _check(size)
    return [_estimate(way, size) for way in pieces(hardware, primitive)]


def pick(hardware: Hardware, primitive: Primitive, size: float) -> NcclEstimate:
    """NCCL's choice: the least estimate, the first of equals."""
    return picks(hardware, primitive, (size,))[0]


def cheapest(ways: Iterable[NcclEstimate]) -> NcclEstimate:
    """The least of estimates of one size, the first of equals; one of them must be of what can run."""
    # seconds are never None here: ``or`` is for the type checker
    runnable = [way for way in ways if way.seconds is not None]
    return min(runnable, key=lambda way: float(way.seconds or 0.0))


def picks(hardware: Hardware, primitive: Primitive, sizes: Iterable[float]) -> list[NcclEstimate]:
    """NCCL's choice, as :func:`pick`, at each of many sizes."""
    size_list = list(map(float, sizes))
    ways = picked_ways(hardware, primitive, size_list)
    return [_estimate(way, size) for way, size in zip(ways, size_list, strict=True)]


def picked_ways(
    hardware: Hardware, primitive: Primitive, sizes: Sequence[float]
) -> list[Combination]:
    """The algorithm and protocol of :func:`pick` at each of many sizes, in bytes and in any order."""
    ways = [way for way in pieces(hardware, primitive) if way.pieces]
    for size in sizes:
        _check(size)
    picked = []
    for seconds in zip(*[_seconds_of(way, sizes) for way in ways], strict=True):
        picked.append(ways[seconds.index(min(seconds))])
    return picked


def _seconds_of(way: Combination, sizes: Sequence[float]) -> list[float]:
    """The seconds of a combination that NCCL can run, at each of many sizes."""
    starts = list(map(_start, way.pieces))
    found = []
    for size in sizes:
        found.append(_seconds(way.pieces[bisect_right(starts, size) - 1], size))
    return found


@lru_cache(maxsize=256)
def pieces(hardware: Hardware, primitive: Primitive) -> tuple[Combination, ...]:
    """The piecewise estimates of all algorithms and protocols, in NCCL's scanning order, from 1
    byte on.

    Raises:
        ColltoolError: NCCL does not choose for this primitive.
    """
    if primitive not in hardware.constants.algorithms:
        tuned = ", ".join(collective.label for collective in hardware.constants.algorithms)
        raise ColltoolError(
            f"NCCL has one way for {primitive.label}: there is nothing to choose",
            argument="primitive",
            fix=f"it chooses for {tuned}",
        )
    return tuple(_combination(hardware, primitive, *way) for way in product(ALGORITHMS, PROTOCOLS))


@lru_cache(maxsize=256)
def switch_points(hardware: Hardware, primitive: Primitive) -> tuple[SwitchPoint, ...]:
    """NCCL's picks from 1 byte on: the exact sizes where the pick changes."""
    ways = [way for way in pieces(hardware, primitive) if way.pieces]
    all_pieces = chain.from_iterable(way.pieces for way in ways)
    starts = sorted({piece.from_bytes for piece in all_pieces})
    points: list[SwitchPoint] = []
    # between two starts every way is a line
    for start, end in zip(starts, [*starts[1:], float("inf")], strict=True):
        lines = [_piece(way, start) for way in ways]
        for from_bytes, index in _lower_envelope(lines, start, end):
            point = SwitchPoint(from_bytes, ways[index].algorithm, ways[index].protocol)
            # two lines meet where a piece starts: only the second counts
            if points and points[-1].from_bytes == from_bytes:
                points.pop()
            # [1:]: the same algorithm and protocol go on
            if not points or points[-1][1:] != point[1:]:
                points.append(point)
    return tuple(points)


CACHE_CLEARS += [pieces.cache_clear, switch_points.cache_clear]


def _lower_envelope(
    lines: Sequence[Piece], start: float, end: float
) -> Iterable[tuple[float, int]]:
    """The lower envelope of lines between two sizes, as (from, index); the first of equals.

    10 us + 2 ns a byte and 20 us + 1 ns a byte: (1, 0), (10000, 1).
    """
    size = start
    best = min(range(len(lines)), key=lambda index: _seconds(lines[index], start))
    while size < end:
        yield size, best
        lowest = lines[best]
        crossing = end
        flattest = lowest.b_s_per_byte
        for index, line in enumerate(lines):
            flatter_by = lowest.b_s_per_byte - line.b_s_per_byte
            if flatter_by <= 0:
                continue
            crossed = (line.a_s - lowest.a_s) / flatter_by
            # of lines that cross at one size the flattest is lowest beyond it
            if (crossed, line.b_s_per_byte) < (crossing, flattest):
                crossing = crossed
                flattest = line.b_s_per_byte
                best = index
        size = max(size, crossing)


def _combination(
    hardware: Hardware, primitive: Primitive, algorithm: str, protocol: str
) -> Combination:
    """NCCL's time of an algorithm and protocol over size, piece by piece; without pieces where it
    cannot run."""
    rules = rules_of(hardware.constants)
    call = (hardware, primitive, algorithm, protocol)
    reason = rules.why_not(*call)
    if reason:
        return Combination(algorithm, protocol, (), reason)
    latency_s = sum(term.times * term.us for term in rules.latency_terms(*call)) * 1e-6
    s_per_byte = 1e-9 / rules.bandwidth_GBps(*call)
    # both by the size from which they hold
    slopes = {1.0: s_per_byte}
    for start, share in rules.corrections(*call).items():
        slopes[start] = s_per_byte / share
    plateau = rules.plateau(*call)
    own_pieces: list[Piece] = []
    factor = 1.0
    for start in sorted({*slopes, *plateau}):
        s_per_byte = slopes.get(start, s_per_byte)
        factor = plateau.get(start, factor)
        a_s = latency_s * factor
        # [1:]: where neither changes the piece before goes on
        if not own_pieces or own_pieces[-1][1:] != (a_s, s_per_byte):
            own_pieces.append(Piece(start, a_s, s_per_byte))
    return Combination(algorithm, protocol, tuple(own_pieces))


def _piece(way: Combination, size: float) -> Piece:
    """The piece of a combination that can run that holds at a size."""
    return way.pieces[bisect_right(way.pieces, size, key=_start) - 1]


def _start(piece: Piece) -> float:
    return piece.from_bytes


def _seconds(piece: Piece, size: float) -> float:
    """The time of a call of this size, which the piece must cover."""
    return piece.a_s + piece.b_s_per_byte * size


def _estimate(way: Combination, size: Number) -> NcclEstimate:
    """The time of a combination at a size, or at many."""
    if not way.pieces:
        return NcclEstimate(
            way.algorithm,
            way.protocol,
            seconds=None,
            latency_s=None,
            bandwidth_Bps=None,
            reason=way.reason,
        )
    if is_array(size):
        import numpy as np

        # columns of the pieces: from_bytes, a_s, b_s_per_byte
        starts, latencies, slopes = np.asarray(way.pieces, dtype=float).T
        index = np.searchsorted(starts, size, side="right") - 1
        latency_s = latencies[index]
        s_per_byte = slopes[index]
    else:
        _, latency_s, s_per_byte = _piece(way, float(size))
    seconds = latency_s + s_per_byte * size
    return NcclEstimate(
        way.algorithm,
        way.protocol,
        seconds=seconds,
        latency_s=latency_s,
        bandwidth_Bps=1 / s_per_byte,
    )


def _check(size: Number) -> None:
    """Raise ColltoolError for sizes below 1 byte, infinite ones and NaN."""
    smallest = largest = size
    if not isinstance(size, float | int):
        smallest = float(size.min())
        largest = float(size.max())
    # not (smallest < 1): NaN compares as neither
    if not (smallest >= 1 and isfinite(largest)):
        raise ColltoolError(
            f"NCCL's model needs sizes of 1 byte or more, got {smallest!r}", argument="size"
        )
