"""Notes on prices outside the sizes, rank counts and collectives that a fabric's protocols were measured at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

from colltool.base.formatting import format_bytes
from colltool.base.primitives import Number, Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.cost_model import CostModel
from colltool.estimate.curve import Curve
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.tier_parts import MeasuredRange

_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def range_notes(rows: Sequence[AlgorithmEstimate], placed: PlacedGroup, primitive: Primitive) -> list[AlgorithmEstimate]:
    """Add notes where a size, rank count or primitive was not measured under the protocol.

    A call over several tiers is measured as a whole, on the outermost one that lists protocols.
    """
    tier = next((span.tier for span in reversed(placed.spans) if span.tier.protocols), None)
    if tier is None:
        return list(rows)
    ranges = {name: one.measured for name, one in tier.protocols_for(primitive).items() if one.measured is not None}
    if not ranges and not tier.protocols_for(primitive) and any(one.measured for one in tier.protocols or ()):
        said = f"{primitive.spoken} was not measured on {tier.name}: priced with the tier's own numbers"
        return [replace(row, notes=(*row.notes, said)) for row in rows]
    ranks = _ranks_note(placed.ranks, ranges)
    return [replace(row, notes=(*row.notes, *_notes(row, ranges), *ranks)) for row in rows] if ranges else list(rows)


def _ranks_note(ranks: int, ranges: Mapping[str, MeasuredRange]) -> list[str]:
    known = sorted({count for one in ranges.values() for count in one.ranks or ()})
    if not known or ranks in known:
        return []
    how = "extrapolated" if not known[0] < ranks < known[-1] else "interpolated"
    return [f"measured on {', '.join(map(str, known))} ranks, not on {ranks}: {how}"]


def _notes(row: AlgorithmEstimate, ranges: Mapping[str, MeasuredRange]) -> list[str]:
    least, most = _ends(row.bytes)
    if all(known.smallest <= least and most <= known.largest for known in ranges.values()):
        return []
    pairs = [(size, ranges[name]) for size, name in _sizes(row) if name in ranges]
    below = [known.smallest for size, known in pairs if size < known.smallest]
    above = [known.largest for size, known in pairs if size > known.largest]
    notes = [f"below the smallest measured size of {_text(min(below))}: extrapolated"] if below else []
    return notes + ([f"above the largest measured size of {_text(max(above))}: extrapolated"] if above else [])


def _ends(size: Number) -> tuple[float, float]:
    return (size, size) if isinstance(size, float) else (float(size.min()), float(size.max()))


def _sizes(row: AlgorithmEstimate) -> list[tuple[float, str]]:
    if isinstance(row.bytes, float):
        return [(row.bytes, row.protocol)]
    sizes = row.bytes.tolist()
    return list(zip(sizes, [row.protocol] * len(sizes) if isinstance(row.protocol, str) else row.protocol, strict=True))


def _text(size: float) -> str:
    """``32 MiB`` or ``16 MB``."""
    exact = [f"{size / factor:.10g} {unit}" for unit, factor in _BINARY.items() if size % factor == 0]
    return min([format_bytes(size), *exact], key=len)


LAUNCH_S = 10e-6
"""A library's launch time: measured 5 to 12 us, and 25 to 50 us with its framework."""


def lower_bound_notes(
    rows: Sequence[AlgorithmEstimate], candidates: Sequence[CostModel], placed: PlacedGroup, primitive: Primitive
) -> list[AlgorithmEstimate]:
    """Note on the fastest row (for arrays on all) where a launch of 10 us would be half or more of its price.

    Only if no launch overhead is stated (0 counts as stated) and the hardware is real.
    """
    if placed.fabric.hypothetical or launch_is_known(placed, primitive):
        return list(rows)
    compared = [one for one in candidates if one.rank_class == 0] or candidates
    least = max((_reaches(one.pieces[0][1], LAUNCH_S) for one in compared), default=0.0)
    if _smallest(rows) >= least:
        return list(rows)
    what = f"the fabric gives no launch overhead: below {format_bytes(least)} this is a lower bound"
    note = f"{what} (a 10 us launch would be half of it)"
    noted = len(rows) if rows and hasattr(rows[0].bytes, "__len__") else 1
    return [*(replace(row, notes=(*row.notes, note)) for row in rows[:noted]), *rows[noted:]]


def launch_is_known(placed: PlacedGroup, primitive: Primitive) -> bool:
    def known() -> bool:
        listed = (protocol for span in placed.spans for protocol in span.tier.protocols_for(primitive).values())
        return "launch_overhead" in placed.fabric.model_fields_set or any(one.launch_overhead is not None for one in listed)

    return placed.once(("launch", primitive), known)


def _smallest(rows: Sequence[AlgorithmEstimate]) -> float:
    size: Number = rows[0].bytes if rows else 0.0
    return size if isinstance(size, float) else float(size.min())


def _reaches(curve: Curve, seconds: float) -> float:
    """The size in bytes at which a price reaches ``seconds``; 0 if it always takes longer."""
    left = seconds - curve.a
    if left <= 0:
        return 0.0
    if not curve.b:
        return (left / curve.c) ** 2 if curve.c else float("inf")
    root = (sqrt(curve.c * curve.c + 4 * curve.b * left) - curve.c) / (2 * curve.b)
    return root * root
