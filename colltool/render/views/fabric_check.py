"""``fabric check``: the values read from a fabric file, and warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltool.base.formatting import format_bit_energy, format_length, format_rate, format_time
from colltool.fabric.model import Tier
from colltool.fabric.properties import TierFacts, fabric_facts
from colltool.fabric.results import CheckedFabric, FabricsChecked
from colltool.fabric.topology import capabilities_of
from colltool.render.views.checked import checked_subject
from colltool.render.views.fabric_words import (
    alpha_text,
    in_network_text,
    library_text,
    oversubscription_text,
    prices_text,
    protocol_text,
)


def tier_in_values(tier: Tier) -> str:
    """Such as ``ib: clos of 32, alpha 2 us to 8 us, cable 100 m, 50 GB/s, eta 1.2/0.8, 30 pJ/bit``."""
    data: dict[str, Any] = tier.model_dump(exclude_none=True)
    extent = "x".join(map(str, data["shape"])) if "shape" in data else str(tier.endpoints)
    alphas = [data["alpha"]] if "alpha" in data else [level["alpha"] for level in data["levels"]]
    alpha = " to ".join(dict.fromkeys(format_time(one) for one in (alphas[0], alphas[-1])))
    rate = format_rate(tier.bandwidth) + (f" x {tier.ports} ports" if tier.ports > 1 else "")
    energy = f", {format_bit_energy(tier.energy)}" if tier.energy is not None else ""
    post = f"post {format_time(tier.post)}, " if tier.post else ""
    eta = f"eta {tier.eta.alpha:g}/{tier.eta.beta:g}"
    return f"{tier.name}: {tier.topology} of {extent}, alpha {alpha}, {post}{_cable(tier)}{rate}, {eta}{energy}"


def _cable(tier: Tier) -> str:
    found = [one.cable_m for one in capabilities_of(tier).classes]
    lengths = " to ".join(dict.fromkeys(format_length(one) for one in (found[0], found[-1])))
    return f"cable {lengths}, " if any(found) else ""


def _values(one: CheckedFabric) -> list[str]:
    fabric = one.fabric
    overhead = f", launch overhead {format_time(fabric.launch_overhead)}" if fabric.launch_overhead else ", no launch overhead"
    lines = [f"{fabric.name}: {fabric.ranks} ranks{overhead}{', hypothetical' if fabric.hypothetical else ''}"]
    for tier, facts in zip(fabric.tiers, fabric_facts(fabric).tiers, strict=True):
        lines += [tier_in_values(tier), *_parts(tier, facts)]
    lines += [library_text(fabric.library_facts)] if fabric.library_facts else []
    if fabric.uncertainty:
        lines.append(f"uncertainty: {', '.join(f'{key} {how}' for key, how in fabric.uncertainty.items())}")
    return [*lines, *([prices_text(fabric.prices)] if fabric.prices else [])]


def _parts(tier: Tier, facts: TierFacts) -> Iterator[str]:
    kind = capabilities_of(tier)
    for index, (one, level) in enumerate(zip(kind.classes, facts.levels, strict=False)):
        s = f", {oversubscription_text(level)}" if index else ""
        yield f"{tier.name} {one.name}: {one.group} endpoints, {alpha_text(one)}{s}"
    if kind.in_network is not None:
        yield f"{tier.name} in-network: {in_network_text(kind.in_network)}"
    for protocol in tier.protocols or ():
        yield f"{tier.name} protocol {protocol.name}: {protocol_text(protocol)}"
    if kind.sizing is not None:
        rails = f"{kind.sizing.rails} rails of {kind.sizing.nics_per_rail} NICs an endpoint"
        yield f"{tier.name} sizing: {rails}, switches of {kind.sizing.radix} ports"


VIEWS = {FabricsChecked: checked_subject("fabric", "value", _values)}
