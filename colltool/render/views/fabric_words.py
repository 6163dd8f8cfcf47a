"""Parts of a fabric in words, for ``fabric show`` and ``fabric check``."""

from __future__ import annotations

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_length,
    format_money,
    format_power,
    format_rate,
    format_time,
    whole_percent,
)
from colltool.fabric.library import PARTS, Efficiency, LibraryFacts, Prices
from colltool.fabric.properties import LevelFacts
from colltool.fabric.tier_parts import Eta, InNetwork, Limits, Protocol
from colltool.fabric.topology import DistanceClass, cable_s


def alpha_text(one: DistanceClass) -> str:
    """Such as ``alpha 2.5 us, 500 ns of it in 100 m of cable``."""
    cable = f", {format_time(cable_s(one.cable_m))} of it in {format_length(one.cable_m)} of cable" if one.cable_m else ""
    return f"alpha {format_time(one.alpha_s)}{cable}"


def eta_text(eta: Eta) -> str:
    return f"eta {eta.alpha:g}/{eta.beta:g}"


def protocol_text(one: Protocol) -> str:
    given = (
        "" if one.launch_overhead is None else f"launch overhead {format_time(one.launch_overhead)}",
        "" if one.alpha is None else f"alpha {format_time(one.alpha)}",
        "" if one.bandwidth is None else f"BW {format_rate(one.bandwidth)}",
        "" if one.eta is None else eta_text(one.eta),
        "" if one.local_copy is None else f"local copy {format_rate(one.local_copy)}",
    )
    numbers = ", ".join(text for text in given if text) or "the tier's own numbers"
    only = ", ".join(primitive.spoken for primitive in one.primitives or ())
    return f"{numbers}; only {only}" if only else numbers


def in_network_text(spec: InNetwork) -> str:
    """Such as ``reduce, multicast, alpha_switch 200 ns, 1 switch level, all-reduce eta_beta 0.61``."""
    can = [name.replace("_", "-") for name in ("reduce", "multicast", "all_to_all") if getattr(spec, name)]
    levels = f", {spec.levels} switch level{'s' if spec.levels != 1 else ''}" if spec.levels else ""
    eta = "".join(f", {primitive.spoken} eta_beta {value:g}" for primitive, value in spec.own_eta.items())
    under = f"; only under {', '.join(spec.protocols)}" if spec.protocols else ""
    alpha = f"alpha_switch {format_time(spec.alpha_switch)}"
    return f"{', '.join(can) or 'nothing'}, {alpha}{levels}{eta}{under}{_limits(spec.limits)}"


def _limits(limits: Limits | None) -> str:
    """Such as ``; sum, max of bf16, fp32; aligned to 128 B; 64 groups at a time``."""
    if limits is None:
        return ""
    what = " of ".join(", ".join(names) for names in (limits.operations, limits.types) if names)
    aligned = f"aligned to {format_bytes(limits.alignment)}" if limits.alignment else ""
    room = f"{counted(limits.groups, 'group')} at a time" if limits.groups else ""
    return "".join(f"; {text}" for text in (what, aligned, room) if text)


def library_text(facts: LibraryFacts) -> str:
    """Such as ``library NCCL 2.30, hopper GPUs, intel hosts, CollNet off``."""
    told = [
        f"{facts.gpu} GPUs" if facts.gpu else "",
        f"{facts.cpu} hosts" if facts.cpu else "",
        "" if facts.collnet is None else f"CollNet {'on' if facts.collnet else 'off'}",
        "" if facts.nvls is None else f"NVLS {'on' if facts.nvls else 'off'}",
        "channels given" if facts.channels else "",
    ]
    name = LIBRARIES[facts.name].spoken if facts.name in LIBRARIES else "any"
    version = f" {facts.version}" if facts.version else ""
    return ", ".join(filter(None, (f"library {name}{version}", *told)))


def reached_text(one: Efficiency) -> str:
    """The measured efficiency of an algorithm: ``multi-rail-ring (all-reduce): of its bandwidth 100% on 4 nodes``."""
    if isinstance(one.share, float):
        said = [whole_percent(one.share)] if one.share < 1 else []
    else:
        said = [f"{whole_percent(each.share)} on {counted(each.nodes, 'node')}" for each in one.share]
    parts = [f"of its bandwidth {', '.join(said)}" if said else ""]
    parts += [f"{format_time(one.startup)} to start" if one.startup else ""]
    parts += [f"{format_time(one.startup_per_rank)} a rank to start" if one.startup_per_rank else ""]
    parts += [f"{format_time(one.rise_per_rank)} a rank at 1 GB to get up to speed" if one.rise_per_rank else ""]
    primitives = ", ".join(primitive.spoken for primitive in one.primitives)
    return f"{one.algorithm} ({primitives}): {'; '.join(filter(None, parts))}"


def oversubscription_text(one: LevelFacts) -> str:
    """Such as ``s 4 of all endpoints below, {uplinks: 2} of the switches below``; ``s 1`` is none."""
    if one.oversubscription == one.uplinks == 1:
        return "s 1"
    hop = "" if one.oversubscription == one.uplinks else f", {{uplinks: {one.uplinks:.4g}}} of the switches below"
    return f"s {one.oversubscription:g} of all endpoints below{hop}"


def prices_text(prices: Prices) -> str:
    """Such as ``prices in USD: switch 30,000 (1.7 kW), cable 200, power 0.1/kWh, 4 years``."""
    parts = []
    for part in PARTS:
        if (each := prices.of(part)) is not None:
            price = "-" if each.price is None else format_money(each.price)
            draws = f" ({format_power(each.draws)})" if each.draws is not None else ""
            parts.append(f"{part} {price}{draws}")
    parts += [f"power {prices.power:g}/kWh"] if prices.power is not None else []
    parts += [f"{prices.years:g} years"] if prices.years is not None else []
    parts += [f"copper to {', '.join(prices.copper)}"] if prices.copper else []
    parts += [f"only {', '.join(prices.tiers)}"] if prices.tiers else []
    return f"prices in {prices.currency}: {', '.join(parts) or 'none'}"
