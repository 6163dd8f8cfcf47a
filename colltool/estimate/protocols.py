"""Protocols: a collective runs under one throughout, so a group is priced once under each that all its tiers list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from colltool.base.errors import ColltoolError
from colltool.base.primitives import Primitive
from colltool.estimate.groups import Placed, Span
from colltool.fabric.model import Tier
from colltool.fabric.tier_parts import Protocol
from colltool.fabric.topology import capabilities_of


def under_protocols(placed: Placed, primitive: Primitive) -> tuple[Placed, ...]:
    """The group under each protocol, in the order of its innermost tier that lists any; itself alone where none does.

    A tier without a list keeps its own numbers under every protocol. The launch overhead and the local copy are paid once a
    call: the outermost tier that gives them knows the whole call.

    Raises:
        ColltoolError: tiers list protocols for the primitive but share none.
    """
    if primitive not in placed.under:
        placed.under[primitive] = tuple(_under_each(placed, primitive))
    return placed.under[primitive]


def _under_each(placed: Placed, primitive: Primitive) -> list[Placed]:
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


def _under(placed: Placed, chosen: dict[str, Protocol], name: str) -> Placed:
    spans = tuple(_span_under(span, chosen.get(span.tier.name)) for span in placed.spans)
    overhead, copy = placed.overhead_s, placed.local_copy_Bps
    for protocol in chosen.values():  # innermost first: the last one that speaks holds
        overhead = protocol.launch_overhead if protocol.launch_overhead is not None else overhead
        copy = protocol.local_copy if protocol.local_copy is not None else copy
    return replace(placed, spans=spans, overhead_s=overhead, local_copy_Bps=copy, protocol=name, bare=placed)


def _span_under(span: Span, protocol: Protocol | None) -> Span:
    return span if protocol is None else replace(span, tier=tier_under(span.tier, protocol))


def tier_under(tier: Tier, protocol: Protocol) -> Tier:
    """A tier with a protocol's numbers; its α is that of the nearest pairs, and farther ones keep what they add to it."""
    kind = capabilities_of(tier)
    given = {"bandwidth": protocol.bandwidth, "eta": protocol.eta}
    numbers: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if protocol.alpha is not None:
        numbers |= kind.at_alpha(protocol.alpha)
    switch = kind.in_network
    if switch is not None and switch.protocols is not None and protocol.name not in switch.protocols:
        numbers |= kind.with_switch(None)
    return tier.model_copy(update=numbers)
