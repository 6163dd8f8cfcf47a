"""Prices beyond what a fabric's protocols were measured at say so: sizes, rank counts, and collectives that were not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from colltool.base.cost import Number
from colltool.base.formatting import format_bytes
from colltool.base.primitives import Primitive
from colltool.estimate.groups import Placed
from colltool.estimate.row import Row
from colltool.fabric.tier_parts import MeasuredRange

_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def range_notes(rows: Sequence[Row], placed: Placed, primitive: Primitive) -> list[Row]:
    """Rows with a note where their size, or one of an array of sizes, was not measured under the protocol of that price.

    A call over several tiers is measured as a whole, on the outermost of them that lists protocols.
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
    """What a price on a rank count that was not measured says."""
    known = sorted({count for one in ranges.values() for count in one.ranks or ()})
    if not known or ranks in known:
        return []
    how = "extrapolated" if not known[0] < ranks < known[-1] else "interpolated"
    return [f"measured on {', '.join(map(str, known))} ranks, not on {ranks}: {how}"]


def _notes(row: Row, ranges: Mapping[str, MeasuredRange]) -> list[str]:
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


def _sizes(row: Row) -> list[tuple[float, str]]:
    """Each size of a row, and the protocol of its price."""
    if isinstance(row.bytes, float):
        return [(row.bytes, row.protocol)]
    sizes = row.bytes.tolist()
    return list(zip(sizes, [row.protocol] * len(sizes) if isinstance(row.protocol, str) else row.protocol, strict=True))


def _text(size: float) -> str:
    """``32 MiB`` or ``16 MB``."""
    exact = [f"{size / factor:.10g} {unit}" for unit, factor in _BINARY.items() if size % factor == 0]
    return min([format_bytes(size), *exact], key=len)
