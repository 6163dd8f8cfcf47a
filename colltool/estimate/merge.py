"""One schedule under several protocols as one row: at each size the fastest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from colltool.estimate.row import TOOK, Phase, Row

_ROW = ("n_alpha", "n_beta", "alpha_s", "overhead_s", "protocol")
_PHASE = ("n_alpha", "n_beta", "alpha_s", "bandwidth_s", "eta_alpha", "eta_beta", "bandwidth_Bps", "share", "energy_J")

Chosen = Callable[[Sequence[Any]], Any]


def fastest(rows: Sequence[Row]) -> Row:
    """The fastest of a schedule's rows, one under each protocol; for an array of sizes the fastest at each of them.

    A phase that only some of the protocols have takes no time under the others.
    """
    if len(rows) == 1:
        return rows[0]
    if not hasattr(rows[0].bytes, "shape"):
        return min(rows, key=lambda row: float(row.total_s))
    import numpy as np

    winner = np.argmin(np.asarray([row.total_s for row in rows]), axis=0)

    def chosen(values: Sequence[Any]) -> Any:
        first = values[0]
        if all(value is first or (np.ndim(value) == np.ndim(first) == 0 and value == first) for value in values):
            return first
        return np.stack([np.broadcast_to(value, winner.shape) for value in values])[winner, np.arange(winner.size)]

    notes = tuple(dict.fromkeys(note for row in rows for note in row.notes))
    fields = {name: chosen([getattr(row, name) for row in rows]) for name in _ROW}
    took = {field: chosen([getattr(row, name) for row in rows]) for field, name in TOOK.items()}
    return replace(rows[0], notes=notes, laid=lambda: _phases(rows, chosen), **took, **fields)


def _phases(rows: Sequence[Row], chosen: Chosen) -> tuple[Phase, ...]:
    """The phases of all rows, matched by where they run and what they do."""
    found = [_by_place(row) for row in rows]
    everywhere = {place: phase for phases in reversed(found) for place, phase in phases.items()}
    order = sorted(everywhere, key=lambda place: max(list(phases).index(place) for phases in found if place in phases))
    merged = []
    for place in order:
        there = everywhere[place]
        absent = there._replace(
            n_alpha=0, n_beta=0, alpha_s=0.0, bandwidth_s=0.0, energy_J=None if there.energy_J is None else 0.0
        )
        same = [phases.get(place, absent) for phases in found]
        merged.append(absent._replace(**{name: chosen([getattr(phase, name) for phase in same]) for name in _PHASE}))
    return tuple(merged)


def _by_place(row: Row) -> dict[tuple[Any, ...], Phase]:
    """Phases by tier, level, primitive and step, numbered where several share them."""
    seen: Counter[tuple[Any, ...]] = Counter()
    places = {}
    for phase in row.phases:
        place = (phase.tier, phase.level, phase.primitive, phase.label)
        places[(*place, seen[place])] = phase
        seen[place] += 1
    return places
