"""Merges a schedule's rows under several protocols into one: the fastest at each size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_bytes
from colltool.base.primitives import Number, Primitive
from colltool.estimate.algorithm_estimate import LATE, AlgorithmEstimate, Curve, PhaseCost
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, Span
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import MeasuredRange, Protocol
from colltool.fabric.topology import capabilities_of

_ROW = ("n_alpha", "n_beta", "alpha_s", "overhead_s", "protocol")

_PHASE = ("n_alpha", "n_beta", "alpha_s", "bandwidth_s", "eta_alpha", "eta_beta", "bandwidth_Bps", "share", "energy_J")

Chosen = Callable[[Sequence[Any]], Any]


def best_protocol(rows: Sequence[AlgorithmEstimate]) -> AlgorithmEstimate:
    """The fastest of a schedule's rows, element by element for arrays.

    A phase that only some protocols have takes no time under the others.
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
    took = {field: chosen([getattr(row, name) for row in rows]) for field, name in LATE.items()}
    return replace(rows[0], notes=notes, late_phases=lambda: _phases(rows, chosen), **took, **fields)


def _phases(rows: Sequence[AlgorithmEstimate], chosen: Chosen) -> tuple[PhaseCost, ...]:
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


def _by_place(row: AlgorithmEstimate) -> dict[tuple[Any, ...], PhaseCost]:
    seen: Counter[tuple[Any, ...]] = Counter()
    places = {}
    for phase in row.phases:
        place = (phase.tier, phase.level, phase.primitive, phase.label)
        places[(*place, seen[place])] = phase
        seen[place] += 1
    return places


def under_protocols(placed: PlacedGroup, primitive: Primitive) -> tuple[PlacedGroup, ...]:
    """The group under each protocol, in the order of the innermost tier that lists any; the bare group if none does.

    A tier without a list keeps its own numbers. Launch overhead and local copy are paid once per call, so the outermost tier that
    states them wins.

    Raises:
        ColltoolError: the tiers list protocols for the primitive but share none.
    """
    return placed.once(("protocols", primitive), lambda: tuple(_under_each(placed, primitive)))


def _under_each(placed: PlacedGroup, primitive: Primitive) -> list[PlacedGroup]:
    lists = {span.tier.name: own for span in placed.spans if (own := span.tier.protocols_for(primitive))}
    if not lists:
        return [placed]
    first = next(iter(lists.values()))
    common = [name for name in first if all(name in own for own in lists.values())]
    if not common:
        listed = "; ".join(f"{tier}: {', '.join(own)}" for tier, own in lists.items())
        what = f"the tiers of {placed.fabric.name} share no protocol for {primitive.spoken} ({listed})"
        raise ColltoolError(what, fix="a collective runs under one protocol throughout: give it the same name on every tier")
    return [_under(placed, {tier: own[name] for tier, own in lists.items()}, name) for name in common]


def _under(placed: PlacedGroup, chosen: dict[str, Protocol], name: str) -> PlacedGroup:
    spans = tuple(_span_under(span, chosen.get(span.tier.name)) for span in placed.spans)
    overhead, copy = placed.overhead_s, placed.local_copy_Bps
    for protocol in chosen.values():  # innermost first: the last one that speaks holds
        overhead = protocol.launch_overhead if protocol.launch_overhead is not None else overhead
        copy = protocol.local_copy if protocol.local_copy is not None else copy
    return replace(placed, spans=spans, overhead_s=overhead, local_copy_Bps=copy, protocol=name, bare=placed)


def _span_under(span: Span, protocol: Protocol | None) -> Span:
    return span if protocol is None else replace(span, tier=tier_under(span.tier, protocol))


def tier_under(tier: Tier, protocol: Protocol) -> Tier:
    """A tier with a protocol's numbers; its α is that of the nearest pairs, and farther ones keep their extra."""
    kind = capabilities_of(tier)
    given = {"bandwidth": protocol.bandwidth, "eta": protocol.eta}
    numbers: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if protocol.alpha is not None:
        numbers |= kind.at_alpha(protocol.alpha)
    switch = kind.in_network
    if switch is not None and switch.protocols is not None and protocol.name not in switch.protocols:
        numbers |= kind.with_switch(None)
    return tier.model_copy(update=numbers)


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
