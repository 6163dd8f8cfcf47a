"""The rows of a tuner file: which combination is best at each size, and which comes next where that
one is off.

The plugin takes the first matching row that NCCL can run. So the rows of a size go from fastest to
slowest, each only if it needs less than every one before it, down to one that needs nothing:
whatever is switched off, the first row left is the fastest one left. Curves are piecewise linear,
so the borders are exact.

:func:`tuner_rows` is the entry: sizes are cut where the order of the ways can change
(:func:`_size_ranges`), the ways are sorted within each range (:func:`_fastest_first`), rows that never
count are left out (:func:`_without_needless`), and each depth becomes rows (:func:`_rows_by_depth`).

Guards are NCCL's own estimates of the algorithms that were fitted. They stand among the ways so that a
fit that is wrong about what ran does no harm: a way that costs ``GUARD_FACTOR`` times the fastest
guard or more, by the guards themselves, goes behind all of them.

A way (``Combination``) is an algorithm under a protocol; its ``pieces`` are its seconds, a + b M each from a
size on, ascending. A way without pieces cannot run.
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
GUARD_FACTOR = 1.4  # a way that takes more than this times the fastest guard goes behind them

_WayName = tuple[str, str]  # (algorithm, protocol)
_WayNames = tuple[_WayName, ...]  # at one size, fastest first


class TunerRow(NamedTuple):
    """A row of the file.

    Args:
        depth: how many rows before it match these sizes.
        min_bytes: the smallest size.
        max_bytes: the largest size, inclusive.
        algorithm: NCCL's word for it, as ``protocol``.
    """

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
    have none and, with ``guarded``, are the guards.
    """
    # NCCL cannot run a combination without pieces.
    runnable = list(filter(attrgetter("pieces"), ways))
    model_ways = list(filter(attrgetter("pieces"), model_ways))
    guard_ways: list[Combination] = []
    if guarded:
        named = {way.algorithm for way in runnable}
        guard_ways = [way for way in model_ways if way.algorithm in named]
    orders = _orders_by_size(runnable, nodes, guard_ways)
    rows = _rows_by_depth(orders)
    if all(_is_permanent_ring(*order[-1], nodes) for _, order in orders):
        return tuple(rows)
    rings = _rings(runnable, nodes) or _rings(model_ways, nodes)
    last_depth = max(row.depth for row in rows) + 1
    for row in _rows_by_depth(_orders_by_size(rings, nodes, [])):
        rows.append(row._replace(depth=last_depth))
    return tuple(rows)


def _rings(ways: Sequence[Combination], nodes: int) -> list[Combination]:
    """The rings that NCCL never switches off."""
    return [way for way in ways if _is_permanent_ring(way.algorithm, way.protocol, nodes)]


def _is_permanent_ring(algorithm: str, protocol: str, nodes: int) -> bool:
    """Whether it is a ring that NCCL never switches off: under LL or Simple."""
    return algorithm == "ring" and not needs(algorithm, protocol, nodes)


def _orders_by_size(
    ways: Sequence[Combination], nodes: int, guard_ways: Sequence[Combination]
) -> list[tuple[int, _WayNames]]:
    """Return (from bytes, names fastest first) wherever the order changes, ascending from 0."""
    # A guard is slow where it is above the limit of another: its time times the factor. Where it crosses
    # one, its way goes behind or comes back, so crossings with limits are places to look at too.
    limits = []
    for way in guard_ways:
        pieces = []
        for start, a_s, b_s_per_byte in way.pieces:
            pieces.append(Piece(start, a_s * GUARD_FACTOR, b_s_per_byte * GUARD_FACTOR))
        limits.append(way._replace(pieces=tuple(pieces)))
    by_start: dict[int, _WayNames] = {}
    for start, size in _size_ranges([*ways, *guard_ways, *limits]):
        # The plugin's first size is 0, wherever the curves begin. Sizes are whole bytes: of two
        # borders between the same two bytes the second counts, as it overwrites the first.
        from_bytes = ceil(start) if by_start else 0
        by_start[from_bytes] = _without_needless(_fastest_first(ways, guard_ways, size), nodes)
    orders: list[tuple[int, _WayNames]] = []
    last_order: _WayNames | None = None
    for from_bytes, order in by_start.items():
        if order != last_order:
            orders.append((from_bytes, order))
            last_order = order
    return orders


def _fastest_first(
    ways: Sequence[Combination], guard_ways: Sequence[Combination], size: float
) -> list[Combination]:
    """The ways and guards at a size: ways fastest first, then guards, then the ways that are slow by
    the guards."""

    def seconds(way: Combination) -> float:
        """Seconds of a way at this size."""
        piece = _piece_at(way, size)
        return piece.a_s + piece.b_s_per_byte * size

    guards = sorted(guard_ways, key=seconds)
    # A way and its guard have the same name.
    slow = {_name(guard) for guard in guards if seconds(guard) > GUARD_FACTOR * seconds(guards[0])}
    before_guards = []
    behind_guards = []
    for way in sorted(ways, key=seconds):
        if _name(way) in slow:
            behind_guards.append(way)
        else:
            before_guards.append(way)
    return before_guards + guards + behind_guards


def _name(way: Combination | TunerRow) -> _WayName:
    """Algorithm and protocol, which a way, its guard and its rows share."""
    return way.algorithm, way.protocol


def _size_ranges(ways: Sequence[Combination]) -> Iterator[tuple[float, float]]:
    """Yield each size where the order of the ways can change, and a size between there and the next such
    place, at which to compare them."""
    starts: set[float] = set()
    for way in ways:
        starts |= {piece.from_bytes for piece in way.pieces}
    borders = sorted(starts)
    for low, high in zip(borders, [*borders[1:], inf], strict=True):
        crossings = _crossings([_piece_at(way, low) for way in ways])
        within = sorted(size for size in crossings if low < size < min(high, MAX_BYTES))
        cuts = [low, *within]
        for start, end in zip(cuts, [*within, high], strict=True):
            # The middle, or twice the start where that comes first: the last range has no end. From
            # 1000 to 4000 bytes ways are compared at 2000.
            yield start, min((start + end) / 2, 2 * start)


def _crossings(lines: Sequence[Piece]) -> set[float]:
    """Sizes at which two of the lines take the same time."""
    sizes = set()
    for a, b in combinations(lines, 2):
        if a.b_s_per_byte != b.b_s_per_byte:
            sizes.add((b.a_s - a.a_s) / (a.b_s_per_byte - b.b_s_per_byte))
    return sizes


def _piece_at(way: Combination, size: float) -> Piece:
    """The piece of a way that holds at a size."""
    return way.pieces[bisect_right(way.pieces, size, key=attrgetter("from_bytes")) - 1]


def _without_needless(ranked: Sequence[Combination], nodes: int) -> _WayNames:
    """Algorithm and protocol of the first way, and after it of those that need less than all before
    them. Any other needs all that a faster one needs, and so never comes first."""
    needs_of_rows: dict[_WayName, frozenset[str]] = {}
    for way in ranked:
        needed = needs(way.algorithm, way.protocol, nodes)
        if not any(before <= needed for before in needs_of_rows.values()):
            needs_of_rows[_name(way)] = needed
        if not needed:
            break
    return tuple(needs_of_rows)


def _rows_by_depth(orders: Sequence[tuple[int, _WayNames]]) -> list[TunerRow]:
    """First the fastest of all sizes, then the rows behind them; each depth covers only sizes with
    that many rows.

    Tree before ring up to 999 bytes and ring alone from 1000 on: tree to 999 and ring from 1000 at
    depth 0, ring to 999 at depth 1.
    """
    rows: list[TunerRow] = []
    ends = [*(start - 1 for start, _ in orders[1:]), MAX_BYTES]
    for depth in range(max(len(order) for _, order in orders)):
        is_adjacent = False  # whether the last row ends where these sizes begin, at this depth
        for (start, order), end in zip(orders, ends, strict=True):
            if depth >= len(order):
                is_adjacent = False
                continue
            if is_adjacent and _name(rows[-1]) == order[depth]:
                rows[-1] = rows[-1]._replace(max_bytes=end)
            else:
                rows.append(TunerRow(depth, start, end, *order[depth]))
            is_adjacent = True
    return rows
