"""Numbers of a fabric that are plausible each and odd together: tiers the wrong way round, levels, ports, sizing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import isclose
from typing import NamedTuple

from colltool.base.formatting import format_rate, format_time
from colltool.definitions.source_map import KeyPath
from colltool.fabric.derive import fabric_facts
from colltool.fabric.kind import DistanceClass
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import kind_of

PORT_GBPS = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800, 1600)
"""Rates at which network ports are sold, in Gb/s; those inside a node are quoted in GB/s."""

_MOST_SHARED = 16  # ranks behind one NIC, or NICs behind one rank


class Implausible(NamedTuple):
    """Something that is read as written, and is probably not meant: its key path, place, what it says and why that is odd."""

    path: KeyPath
    where: str
    what: str
    why: str


def odd_together(fabric: Fabric) -> Iterator[Implausible]:
    """What does not go together."""
    for index, (inner, outer) in enumerate(pairwise(fabric.tiers), start=1):
        yield from _wrong_way_round(index, inner, outer)
        yield from _no_port(index, outer)
    for index, (tier, facts) in enumerate(zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True)):
        yield from _levels(("tiers", index, "levels"), tier)
        for misfit in facts.misfits:
            yield Implausible(
                ("tiers", index, "sizing"), "", misfit, "counts and the bill follow sizing, prices the rest of the tier"
            )
    if fabric.prices is not None and fabric.prices.power is not None and not 0.01 <= fabric.prices.power <= 2:
        what = f"{fabric.prices.power:g} {fabric.prices.currency} for a kWh"
        yield Implausible(
            ("prices", "power"), "", what, "energy costs some 0.03 to 0.5 USD or EUR a kWh; other currencies scale it"
        )


def _wrong_way_round(index: int, inner: Tier, outer: Tier) -> Iterator[Implausible]:
    """An outer tier that is nearer or wider than the one within."""
    near, far = kind_of(outer).classes[0].alpha_s, min(one.alpha_s for one in kind_of(inner).classes)
    if near < far:
        what = f"alpha {format_time(near)} is below the {format_time(far)} of '{inner.name}' within"
        yield Implausible(("tiers", index, "alpha"), "", what, "tiers go from the inside out, and what is farther takes longer")
    wide, narrow = outer.bandwidth * outer.ports, inner.bandwidth * inner.ports * max(1, kind_of(inner).neighbours)
    if wide > narrow:
        what = f"{format_rate(wide)} is above the {format_rate(narrow)} of '{inner.name}' within"
        why = "tiers go from the inside out, and links inside a node are the wider ones; bandwidth is per rank"
        yield Implausible(("tiers", index, "bandwidth"), "", what, why)


def _no_port(index: int, tier: Tier) -> Iterator[Implausible]:
    """A rate at which no port is sold, nor a share of one, with eta on top: what was measured, counted down twice."""
    rate = tier.bandwidth * 8e-9
    sold = any(isclose(rate * n, one) or isclose(rate, one * n) for one in PORT_GBPS for n in range(1, _MOST_SHARED + 1))
    if kind_of(tier).joined_by == "switches" and tier.eta.beta < 1 and tier.protocols is None and not sold:
        what = f"no port is sold at {format_rate(tier.bandwidth)}, {rate:.4g} Gb/s, and eta.beta {tier.eta.beta:g} comes on top"
        why = "bandwidth is the line rate, eta.beta what is reached of it; of a measured rate eta.beta is 1"
        yield Implausible(("tiers", index, "bandwidth"), "", what, why)


def _levels(path: KeyPath, tier: Tier) -> Iterator[Implausible]:
    """Boundaries and leaves that nobody builds."""
    classes = kind_of(tier).classes
    for index, (below, above) in enumerate(pairwise(classes), start=1):
        if above.alpha_s < below.alpha_s:
            what = f"alpha falls from {format_time(below.alpha_s)} on '{below.name}' to {format_time(above.alpha_s)}"
            why = "a pair that meets at a higher level passes the lower ones as well"
            yield Implausible((*path, index, "alpha"), "", what, why)
        if above.oversubscription < below.oversubscription:
            yield _more_above(path, index, below, above)
    first, last = classes[0], tier.endpoints % classes[0].group
    if len(classes) > 1 and first.group == 1 < tier.endpoints:
        why = "then every pair pays the level above, and each ratio in full; group counts endpoints: nodes, not ports"
        yield Implausible((*path, 0, "group"), "", f"one endpoint to a '{first.name}'", why)
    elif len(classes) > 1 and last == 1 and tier.endpoints > first.group:
        what = f"{tier.endpoints} endpoints leave one alone on the last '{first.name}' of {first.group}"
        yield Implausible((*path, 0, "group"), "", what, "it pays the level above for every message; fill the leaf or move one")


def _more_above(path: KeyPath, index: int, below: DistanceClass, above: DistanceClass) -> Implausible:
    """A total that falls with the level: hop by hop below 1."""
    what = f"oversubscription falls from {below.oversubscription:g} on '{below.name}' to {above.oversubscription:g}"
    why = "a number is of all endpoints below, and a hop cannot widen what an earlier one narrowed; hop by hop write {uplinks: "
    return Implausible((*path, index, "oversubscription"), "", what, f"{why}{above.oversubscription:g}}}")
