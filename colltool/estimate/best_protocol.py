"""Merges a schedule's rows under several protocols into one: the fastest at each size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import LATE, AlgorithmEstimate, PhaseCost
from colltool.estimate.groups import PlacedGroup, Span
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import Protocol
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
