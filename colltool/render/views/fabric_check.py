"""``fabric check``: what was read from a fabric file, in lines (:func:`_values`); ``checked_files`` makes the view
of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from colltool.base.formatting import (
    format_bit_energy,
    format_length,
    format_rate,
    format_time,
    shape_text,
)
from colltool.fabric.lint import CheckedFabric
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import fabric_facts
from colltool.fabric.results import FabricsChecked
from colltool.fabric.topology import capabilities_of
from colltool.render.views.checked_files import view_of_checks
from colltool.render.views.fabric_bill import prices_text
from colltool.render.views.fabric_parts import library_text, part_lines


def _values(check: CheckedFabric) -> Iterator[str]:
    """What a fabric's file says, tier by tier."""
    fabric = check.fabric
    text = f"{fabric.name}: {fabric.ranks} ranks, {_launch_text(fabric)}"
    if fabric.hypothetical:
        text += ", hypothetical"
    yield text
    for tier, facts in zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True):
        yield _tier_text(tier)
        for line in part_lines(tier, facts):
            yield f"{tier.name} {line}"
        sizing = capabilities_of(tier).sizing
        if sizing is not None:
            yield (
                f"{tier.name} sizing: {sizing.rails} rails of {sizing.nics_per_rail} NICs an"
                f" endpoint, switches of {sizing.radix} ports"
            )
    if fabric.library_facts:
        yield library_text(fabric.library_facts)
    if fabric.uncertainty:
        # in the words of the file: such as 0.4:1, or ±10%
        ranges = []
        for key, words in fabric.uncertainty.items():
            ranges.append(f"{key} {words}")
        yield f"uncertainty: {', '.join(ranges)}"
    if fabric.prices:
        yield prices_text(fabric.prices)


def _launch_text(fabric: Fabric) -> str:
    """The launch overhead of the file, or that a library's protocols have their own."""
    if fabric.launch_overhead:
        return f"launch overhead {format_time(fabric.launch_overhead)}"
    for tier in fabric.tiers:
        protocols = tier.library.protocols if tier.library else ()
        if any(protocol.launch_s for protocol in protocols):
            return "launch as the library takes it"
    return "no launch overhead"


def _tier_text(tier: Tier) -> str:
    """``ib: clos of 32, alpha 2 us to 8 us, cable 100 m, 50 GB/s, eta 1.2/0.8, 30 pJ/bit``."""
    # as the file has it: which keys a tier has depends on its topology
    data: dict[str, Any] = tier.model_dump(exclude_none=True)
    kind = capabilities_of(tier)
    extent = str(tier.endpoints)
    if "shape" in data:
        extent = shape_text(data["shape"])
    # a tier without an alpha of its own has one a level
    levels = data.get("levels", ())
    alphas = [level["alpha"] for level in levels]
    if "alpha" in data:
        alphas = [data["alpha"]]
    parts = [
        f"{tier.name}: {kind.label} of {extent}",
        f"alpha {_span(format_time, alphas)}",
    ]
    if tier.post:
        parts.append(f"post {format_time(tier.post)}")
    cables = [level.cable_m for level in kind.classes]
    if any(cables):
        parts.append(f"cable {_span(format_length, cables)}")
    rate = format_rate(tier.bandwidth)
    if tier.ports > 1:
        rate += f" x {tier.ports} ports"
    parts.append(rate)
    parts.append(f"eta {tier.eta.alpha:g}/{tier.eta.beta:g}")
    if tier.energy is not None:
        parts.append(format_bit_energy(tier.energy))
    return ", ".join(parts)


def _span(show: Callable[[float], str], values: Sequence[float]) -> str:
    """The first and the last value, such as ``2 us to 8 us``, or one where they look alike."""
    return " to ".join(dict.fromkeys((show(values[0]), show(values[-1]))))


VIEWS = {FabricsChecked: view_of_checks("fabric", _values)}
