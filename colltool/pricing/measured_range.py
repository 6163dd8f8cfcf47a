"""Prices beyond the sizes that a fabric's protocols were measured at say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from colltool.cost import Number
from colltool.fabric.tier_parts import Measured
from colltool.pricing.groups import Placed
from colltool.pricing.row import Row
from colltool.primitives import Primitive
from colltool.words import format_bytes

_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


def range_notes(rows: Sequence[Row], placed: Placed, primitive: Primitive) -> list[Row]:
    """Rows with a note where their size, or one of an array of sizes, was not measured under the protocol of that price.

    A call over several tiers is measured as a whole, on the outermost of them that lists protocols.
    """
    listed = next((own for span in reversed(placed.spans) if (own := span.tier.protocols_for(primitive))), {})
    ranges = {name: one.measured for name, one in listed.items() if one.measured is not None}
    return [replace(row, notes=(*row.notes, *_notes(row, ranges))) for row in rows] if ranges else list(rows)


def _notes(row: Row, ranges: Mapping[str, Measured]) -> list[str]:
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
