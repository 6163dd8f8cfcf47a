"""The rows of a tuner file: which combination is best at each size, and which comes next where that
one is off.

The plugin takes the first matching row that NCCL can run. So the rows of a size go from fastest to
slowest, each only if it needs less than every one before it, down to one that needs nothing:
whatever is switched off, the first row left is the fastest one left. Curves are piecewise linear,
so the borders are exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import ceil, inf
from operator import attrgetter
from typing import NamedTuple

from colltool.libraries.nccl.model import Combination, Piece

MAX_BYTES = 2**64 - 1  # the plugin reads sizes as unsigned 64-bit numbers
GUARD_FACTOR = 1.4  # a way slower than the fastest guard by this factor goes behind all guards
"""A choice that costs this many times the best by NCCL's own model is put behind that: fits may be
wrong about what ran."""

_Order = tuple[tuple[str, str], ...]  # (algorithm, protocol) at one size, fastest first


class TunerRow(NamedTuple):
    """A row for sizes up to and including ``max_bytes``; ``depth``: the number of rows before it at
    these sizes."""

    depth: int
    min_bytes: int
    max_bytes: int
    algorithm: str
    protocol: str


def needs(algorithm: str, protocol: str, nodes: int) -> frozenset[str]:
    """What a combination needs and NCCL may have switched off, by machine, variable or missing
    plugin. Empty for rings and trees under LL and Simple.

    Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel).
    """
    needed = set()
    if protocol == "ll128":
        needed.add("LL128")
    if algorithm.startswith("nvls"):
        needed.add("NVLS")
    if algorithm.startswith("collnet") or (algorithm == "nvls" and nodes > 1):
        needed.add("SHARP")
    if algorithm == "pat":
        needed.add("PAT")
    return frozenset(needed)


def tuner_rows(
    ways: Sequence[Combination],
    nodes: int,
    model_ways: Sequence[Combination] = (),
    *,
    guarded: bool = False,
) -> tuple[TunerRow, ...]:
    """Rows for all sizes in file order: the best, those behind them, and last rings alone.

    ``model_ways``: the combinations by NCCL's own model. They give the last rings where ``ways``
    have none and, with ``guarded``, put ways behind that are slow by that model.
    """
    # NCCL cannot run a combination without pieces.
    runnable = list(filter(attrgetter("pieces"), ways))
    model_ways = list(filter(attrgetter("pieces"), model_ways))
    guard_ways: list[Combination] = []
    if guarded:
        named = {way.algorithm for way in runnable}
        guard_ways = [way for way in model_ways if way.algorithm in named]
    orders = _orders(runnable, nodes, guard_ways)
    rows = _by_depth(orders)
    if all(_always_a_ring(*order[-1], nodes) for _, order in orders):
        return tuple(rows)
    rings = _rings(runnable, nodes) or _rings(model_ways, nodes)
    last = max(row.depth for row in rows) + 1
    for row in _by_depth(_orders(rings, nodes, [])):
        rows.append(row._replace(depth=last))
    return tuple(rows)


def _rings(ways: Sequence[Combination], nodes: int) -> list[Combination]:
    return [way for way in ways if _always_a_ring(way.algorithm, way.protocol, nodes)]


def _always_a_ring(algorithm: str, protocol: str, nodes: int) -> bool:
    return algorithm == "ring" and not needs(algorithm, protocol, nodes)


def _orders(
    ways: Sequence[Combination], nodes: int, guard_ways: Sequence[Combination]
) -> list[tuple[int, _Order]]:
    """The size from which on each order holds, from 0."""
    # Where a way crosses this limit, the guard puts it behind, and the order changes.
    limits = []
    for way in guard_ways:
        pieces = tuple(Piece(at, a * GUARD_FACTOR, b * GUARD_FACTOR) for at, a, b in way.pieces)
        limits.append(way._replace(pieces=pieces))
    by_start: dict[int, _Order] = {}
    for start, size in _size_ranges([*ways, *guard_ways, *limits]):
        # Of two borders between the same two bytes the second counts.
        first = ceil(start) if by_start else 0
        by_start[first] = _order(_ranked(ways, guard_ways, size), nodes)
    orders: list[tuple[int, _Order]] = []
    for first, order in by_start.items():
        if not orders or orders[-1][1] != order:
            orders.append((first, order))
    return orders


def _ranked(
    ways: Sequence[Combination], guard_ways: Sequence[Combination], size: float
) -> list[Combination]:
    """The ways at a size, fastest first; those that are slow by the guard come after all of its."""

    def seconds(way: Combination) -> float:
        piece = _piece_at(way, size)
        return piece.a_s + piece.b_s_per_byte * size

    ranked = sorted(guard_ways, key=seconds)
    slow = {way[:2] for way in ranked if seconds(way) > GUARD_FACTOR * seconds(ranked[0])}
    first = []
    last = []
    for way in sorted(ways, key=seconds):
        if way[:2] in slow:
            last.append(way)
        else:
            first.append(way)
    return first + ranked + last


def _size_ranges(ways: Sequence[Combination]) -> Iterator[tuple[float, float]]:
    """Where the order of the ways can change, and a size before the next such place."""
    starts: set[float] = set()
    for way in ways:
        starts |= {piece.from_bytes for piece in way.pieces}
    borders = sorted(starts)
    for low, high in zip(borders, [*borders[1:], inf], strict=True):
        crossings = _crossings([_piece_at(way, low) for way in ways])
        within = sorted(size for size in crossings if low < size < min(high, MAX_BYTES))
        cuts = [low, *within]
        for start, end in zip(cuts, [*within, high], strict=True):
            yield start, min((start + end) / 2, 2 * start)


def _crossings(lines: Sequence[Piece]) -> set[float]:
    """Sizes at which two of the lines take the same time."""
    sizes = set()
    for a, b in combinations(lines, 2):
        if a.b_s_per_byte != b.b_s_per_byte:
            sizes.add((b.a_s - a.a_s) / (a.b_s_per_byte - b.b_s_per_byte))
    return sizes


def _piece_at(way: Combination, size: float) -> Piece:
    return way.pieces[bisect_right(way.pieces, size, key=attrgetter("from_bytes")) - 1]


def _order(ranked: Sequence[Combination], nodes: int) -> _Order:
    """The first way, and after it those that need less than all before them."""
    needs_of_rows: dict[tuple[str, str], frozenset[str]] = {}
    for way in ranked:
        needed = needs(way.algorithm, way.protocol, nodes)
        if not any(before <= needed for before in needs_of_rows.values()):
            needs_of_rows[way.algorithm, way.protocol] = needed
        if not needed:
            break
    return tuple(needs_of_rows)


def _by_depth(orders: Sequence[tuple[int, _Order]]) -> list[TunerRow]:
    """First the fastest of all sizes, then the rows behind them; each depth covers only sizes with
    that many rows."""
    rows: list[TunerRow] = []
    ends = [*(start - 1 for start, _ in orders[1:]), MAX_BYTES]
    for depth in range(max(len(order) for _, order in orders)):
        growing = False  # the last row may go on at the next sizes
        for (start, order), end in zip(orders, ends, strict=True):
            if depth >= len(order):
                growing = False
                continue
            if growing and rows[-1][3:] == order[depth]:
                rows[-1] = rows[-1]._replace(max_bytes=end)
            else:
                rows.append(TunerRow(depth, start, end, *order[depth]))
            growing = True
    return rows
