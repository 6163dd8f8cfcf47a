"""Prices without a launch overhead say below which size they are lower bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from colltool.base.cost import Number
from colltool.base.formatting import format_bytes
from colltool.base.primitives import Primitive
from colltool.estimate.costed import Costed
from colltool.estimate.curve import Curve
from colltool.estimate.groups import Placed
from colltool.estimate.row import Row

LAUNCH_S = 10e-6
"""What a library takes at least to start a collective: measured 5 to 12 us, and 25 to 50 us with its framework."""


def lower_bound_notes(rows: Sequence[Row], candidates: Sequence[Costed], placed: Placed, primitive: Primitive) -> list[Row]:
    """Rows with a note where a launch of 10 us would be half or more of the fastest price.

    The fastest row carries it, of an array of sizes every row. Only on real hardware whose fabric gives no launch overhead,
    neither its own nor a protocol's: an overhead of 0 that somebody wrote is an answer, and what is hypothetical has no library.

    Args:
        rows: the priced rows, the fastest first, at one size or an array of sizes.
        candidates: what they were priced from.
        placed: the group, before any protocol.
        primitive: what they compute.
    """
    if placed.fabric.hypothetical or launch_is_known(placed, primitive):
        return list(rows)
    compared = [one for one in candidates if one.standing == 0] or candidates
    least = max((_reaches(one.pieces[0][1], LAUNCH_S) for one in compared), default=0.0)
    if _smallest(rows) >= least:
        return list(rows)
    note = f"no launch overhead in the fabric: below {format_bytes(least)} a lower bound, a launch of 10 us would be half of it"
    noted = len(rows) if rows and hasattr(rows[0].bytes, "__len__") else 1
    return [*(replace(row, notes=(*row.notes, note)) for row in rows[:noted]), *rows[noted:]]


def launch_is_known(placed: Placed, primitive: Primitive) -> bool:
    """Whether a fabric says what a call takes to start, itself or by a protocol."""
    listed = (protocol for span in placed.spans for protocol in span.tier.protocols_for(primitive).values())
    return "launch_overhead" in placed.fabric.model_fields_set or any(one.launch_overhead is not None for one in listed)


def _smallest(rows: Sequence[Row]) -> float:
    size: Number = rows[0].bytes if rows else 0.0
    return size if isinstance(size, float) else float(size.min())


def _reaches(curve: Curve, seconds: float) -> float:
    """The size in bytes at which a price reaches that time; 0 where it takes longer at any."""
    left = seconds - curve.a
    if left <= 0:
        return 0.0
    if not curve.b:
        return (left / curve.c) ** 2 if curve.c else float("inf")
    root = (sqrt(curve.c * curve.c + 4 * curve.b * left) - curve.c) / (2 * curve.b)
    return root * root
