"""Which algorithm and protocol is best at each size, and the next best where NCCL has switched that one off.

The plugin takes the first matching row that NCCL can run. So the rows of a size go from fastest to slowest, each only if it needs
less than every one before it, down to one that needs nothing: whatever is switched off, the first row left is the fastest one
left. Curves are piecewise linear, so the borders are exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import combinations, groupby
from math import ceil, inf
from typing import NamedTuple

from colltool.nccl.model import Combination, Piece

MAX_BYTES = 2**64 - 1
HURTS = 1.4
"""A choice that costs this many times the best by NCCL's own model is put behind that: fits may be wrong about what ran."""

_Order = tuple[tuple[str, str], ...]  # (algorithm, protocol) at one size, fastest first


class Advice(NamedTuple):
    """A row for sizes up to and including ``max_bytes``; ``depth``: how many rows stand before it at these sizes."""

    depth: int
    min_bytes: int
    max_bytes: int
    algorithm: str
    protocol: str


def needs(algorithm: str, protocol: str, nodes: int) -> frozenset[str]:
    """What NCCL may have switched off by machine, variable or missing plugin; empty for rings and trees under LL and Simple.
    Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel)."""
    needed = {"LL128"} if protocol == "ll128" else set()
    if algorithm.startswith("nvls"):
        needed.add("NVLS")
    if algorithm.startswith("collnet") or (algorithm == "nvls" and nodes > 1):
        needed.add("SHARP")
    if algorithm == "pat":
        needed.add("PAT")
    return frozenset(needed)


def advised(
    ways: Sequence[Combination], nodes: int, spare: Sequence[Combination] = (), *, guarded: bool = False
) -> tuple[Advice, ...]:
    """Rows for all sizes in file order: the best, those behind them, and last rings alone."""
    known = [way for way in ways if way.pieces]
    named = {way.algorithm for way in known}
    orders = _orders(known, nodes, [way for way in spare if way.pieces and way.algorithm in named] if guarded else [])
    found = _by_depth(orders)
    if all(_always_a_ring(*order[-1], nodes) for _, order in orders):
        return tuple(found)
    last = max(one.depth for one in found) + 1
    rings = _rings(known, nodes) or _rings(spare, nodes)
    return (*found, *(one._replace(depth=last) for one in _by_depth(_orders(rings, nodes, []))))


def _rings(ways: Sequence[Combination], nodes: int) -> list[Combination]:
    return [way for way in ways if way.pieces and _always_a_ring(way.algorithm, way.protocol, nodes)]


def _always_a_ring(algorithm: str, protocol: str, nodes: int) -> bool:
    return algorithm == "ring" and not needs(algorithm, protocol, nodes)


def _orders(ways: Sequence[Combination], nodes: int, guard: Sequence[Combination]) -> list[tuple[int, _Order]]:
    found: dict[int, _Order] = {}
    limits = [_dearer(way, HURTS) for way in guard]  # where the guard puts a way behind, the order changes
    for start, size in _stretches([*ways, *guard, *limits]):
        found[ceil(start) if found else 0] = _order(_ranked(ways, guard, size), nodes)
    return [next(same) for _, same in groupby(found.items(), key=lambda item: item[1])]


def _ranked(ways: Sequence[Combination], guard: Sequence[Combination], size: float) -> list[Combination]:
    fastest = sorted(ways, key=lambda way: _seconds(way, size))
    if not guard:
        return fastest
    limit = HURTS * min(_seconds(way, size) for way in guard)
    slow = {way[:2] for way in guard if _seconds(way, size) > limit}
    others = sorted(guard, key=lambda way: _seconds(way, size))
    return [*(way for way in fastest if way[:2] not in slow), *others, *(way for way in fastest if way[:2] in slow)]


def _dearer(way: Combination, factor: float) -> Combination:
    return way._replace(pieces=tuple(Piece(at, a * factor, b * factor) for at, a, b in way.pieces))


def _seconds(way: Combination, size: float) -> float:
    piece = _piece(way, size)
    return piece.a_s + piece.b_s_per_byte * size


def _stretches(ways: Sequence[Combination]) -> Iterator[tuple[float, float]]:
    starts = sorted({piece.from_bytes for way in ways for piece in way.pieces})
    for low, high in zip(starts, [*starts[1:], inf], strict=True):
        lines = [_piece(way, low) for way in ways]
        crossings = {size for one, other in combinations(lines, 2) for size in _crossing(one, other)}
        cuts = [low, *sorted(size for size in crossings if low < size < min(high, MAX_BYTES))]
        for start, end in zip(cuts, [*cuts[1:], high], strict=True):
            yield start, min((start + end) / 2, 2 * start)


def _crossing(one: Piece, other: Piece) -> list[float]:
    if one.b_s_per_byte == other.b_s_per_byte:
        return []
    return [(other.a_s - one.a_s) / (one.b_s_per_byte - other.b_s_per_byte)]


def _piece(way: Combination, size: float) -> Piece:
    return way.pieces[bisect_right(way.pieces, size, key=lambda piece: piece.from_bytes) - 1]


def _order(ranked: Sequence[Combination], nodes: int) -> _Order:
    """From the first on, those that need less than all before them."""
    kept: dict[tuple[str, str], frozenset[str]] = {}
    for way in ranked:
        needed = needs(way.algorithm, way.protocol, nodes)
        if not any(before <= needed for before in kept.values()):
            kept[way.algorithm, way.protocol] = needed
        if not needed:
            break
    return tuple(kept)


def _by_depth(orders: Sequence[tuple[int, _Order]]) -> list[Advice]:
    """First the fastest of all sizes, then what stands behind them; each depth covers only sizes with that many rows."""
    found = []
    ends = [*(start - 1 for start, _ in orders[1:]), MAX_BYTES]
    for depth in range(max(len(order) for _, order in orders)):
        each = [
            (order[depth] if depth < len(order) else None, start, end) for (start, order), end in zip(orders, ends, strict=True)
        ]
        for way, several in groupby(each, key=lambda one: one[0]):
            if way is not None:
                joined = list(several)
                found.append(Advice(depth, joined[0][1], joined[-1][2], *way))
    return found
