"""Parts of a fabric in words, for other views: the tiers with their levels, planes and links, what
switches compute, how a tier is sized, and what the file says of the library.

What the parts are counted as, cost, and take down with them is in ``fabric_bill``. Each function takes a record
of the fabric and returns words, as its example has them; what is None or 0 in the record is left out of the words.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import ceil

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_length,
    format_rate,
    format_time,
    whole_percent,
)
from colltool.fabric.capabilities import DistanceClass, LinkKind, TierCapabilities, cable_s
from colltool.fabric.library import Efficiency, LibraryFacts
from colltool.fabric.model import Tier
from colltool.fabric.properties import LevelFacts, TierFacts
from colltool.fabric.tier_parts import InNetwork
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.size_clos import ClosPlan


def alpha_text(distance: DistanceClass) -> str:
    """``alpha 2.5 us, 500 ns of it in 100 m of cable``."""
    text = f"alpha {format_time(distance.alpha_s)}"
    if not distance.cable_m:
        return text
    cable = format_length(distance.cable_m)
    return f"{text}, {format_time(cable_s(distance.cable_m))} of it in {cable} of cable"


def operations_text(spec: InNetwork) -> str:
    """What the switches do: ``reduce, multicast``, or ``nothing``."""
    operations = ("reduce", "multicast", "all_to_all")
    names = [operation for operation in operations if getattr(spec, operation)]
    return ", ".join(names).replace("_", "-") or "nothing"


def in_network_text(spec: InNetwork) -> str:
    """``reduce, multicast, alpha_switch 200 ns, 1 switch level, all-reduce eta_beta 0.61; sum of bf16; 64 groups``."""
    text = f"{operations_text(spec)}, alpha_switch {format_time(spec.alpha_switch)}"
    if spec.levels:
        text += f", {counted(spec.levels, 'switch level')}"
    for primitive, value in spec.switch_eta_beta.items():
        text += f", {primitive.label} eta_beta {value:g}"
    if spec.protocols:
        text += f"; only under {', '.join(spec.protocols)}"
    limits = spec.limits
    if limits is None:
        return text
    kinds = [", ".join(names) for names in (limits.operations, limits.types) if names]
    if kinds:
        text += f"; {' of '.join(kinds)}"
    if limits.alignment:
        text += f"; aligned to {format_bytes(limits.alignment)}"
    if limits.groups:
        text += f"; {counted(limits.groups, 'group')} at a time"
    return text


def library_text(facts: LibraryFacts) -> str:
    """``library NCCL 2.30, hopper GPUs, intel hosts, CollNet off``."""
    library = LIBRARIES.get(facts.name)
    text = f"library {library.label if library else 'any'}"
    if facts.version:
        text += f" {facts.version}"
    if facts.gpu:
        text += f", {facts.gpu} GPUs"
    if facts.cpu:
        text += f", {facts.cpu} hosts"
    switched = (
        ("CollNet", facts.collnet),
        ("NVLS", facts.nvls),
        ("GPUDirect", facts.gpudirect),
        ("P2P over PCIe", facts.p2p),
    )
    # of what the file does not say, the library's own default holds
    for capability, is_on in switched:
        if is_on is not None:
            text += f", {capability} {'on' if is_on else 'off'}"
    if facts.channels:
        text += ", channels given"
    return text


def reached_text(efficiency: Efficiency) -> str:
    """The measured efficiency of an algorithm:
    ``multi-rail-ring (all-reduce): of its bandwidth 100% on 4 nodes``."""
    parts = []
    if not isinstance(efficiency.share, float):
        shares = []
        for point in efficiency.share:
            shares.append(f"{whole_percent(point.share)} on {counted(point.nodes, 'node')}")
        parts.append(f"of its bandwidth {', '.join(shares)}")
    elif efficiency.share < 1:
        parts.append(f"of its bandwidth {whole_percent(efficiency.share)}")
    for seconds, purpose in (
        (efficiency.startup, "to start"),
        (efficiency.startup_per_rank, "a rank to start"),
        (efficiency.rise_per_rank, "a rank at 1 GB to get up to speed"),
    ):
        if seconds:
            parts.append(f"{format_time(seconds)} {purpose}")
    scope = ", ".join(primitive.label for primitive in efficiency.primitives)
    if efficiency.protocols:
        scope += f" under {', '.join(efficiency.protocols)}"
    return f"{', '.join(efficiency.algorithms)} ({scope}): {'; '.join(parts)}"


def planes_lines(kind: TierCapabilities[Tier]) -> Iterator[str]:
    """``8 planes of 12.5 GB/s, 1 failed, packets sprayed over all: 87.5 GB/s a message``."""
    planes = kind.planes
    if planes is None:
        return
    each = format_rate(kind.tier.bandwidth * kind.tier.ports / planes.count)
    text = f"{planes.count} planes of {each}"
    if planes.failed:
        text += f", {planes.failed} failed"
    if planes.spread == "spray":
        text += ", packets sprayed over all"
    else:
        flows = "one flow" if planes.flows == 1 else f"{planes.flows} flows"
        text += f", {flows} a message, hashed to one each (ECMP)"
    yield f"{text}: {format_rate(kind.rate_Bps * kind.message_share)} a message"


def _trunk_lines(kind: TierCapabilities[Tier]) -> Iterator[str]:
    """``trunk: 200 GB/s out of an endpoint, 781.3 MB/s for each of its 256 ranks at once``."""
    trunk_Bps = kind.trunk_Bps
    if trunk_Bps is not None:
        ranks = kind.tier.ranks_inside
        # no rank sends more than its own ports take
        each_Bps = min(kind.tier.bandwidth * kind.tier.ports, trunk_Bps / ranks)
        yield (
            f"trunk: {format_rate(trunk_Bps)} out of an endpoint, {format_rate(each_Bps)} for each"
            f" of its {ranks} ranks at once"
        )


def part_lines(tier: Tier, facts: TierFacts, *, outermost_first: bool = False) -> Iterator[str]:
    """What a tier has beside its own numbers, a line each: trunk, planes, rails, levels, kinds of
    links, and what its switches compute."""
    kind = capabilities_of(tier)
    yield from _trunk_lines(kind)
    yield from planes_lines(kind)
    if tier.rail_only:
        yield "rails only: to another rail by way of a neighbour inside the endpoint"
    if kind.levels:
        levels = list(_level_lines(kind, facts))
        if outermost_first:
            levels.reverse()
        yield from levels
    yield from map(link_text, kind.link_kinds)
    if kind.in_network is not None:
        yield f"in-network: {in_network_text(kind.in_network)}"


def _level_lines(kind: TierCapabilities[Tier], facts: TierFacts) -> Iterator[str]:
    """``leaf: 32 endpoints, alpha 2 us``, innermost first."""
    # a tier with a trunk has a class more than the file has levels
    levels = zip(kind.classes, facts.levels, strict=False)
    for index, (distance, level) in enumerate(levels):
        text = f"{distance.name}: {distance.group} endpoints, {alpha_text(distance)}"
        # nothing is oversubscribed below the first level
        if index:
            text += _oversubscription_text(level)
        yield text


def _oversubscription_text(level: LevelFacts) -> str:
    """The oversubscription s of a level's uplinks, as a file has it: ``, s 4 of all endpoints below, {uplinks: 2}
    of the switches below``; ``, s 1`` for none."""
    if level.oversubscription == level.uplinks == 1:
        return ", s 1"
    text = f", s {level.oversubscription:g} of all endpoints below"
    if level.oversubscription == level.uplinks:
        return text
    return f"{text}, {{uplinks: {level.uplinks:.4g}}} of the switches below"


_PROPER_NAMES = {"clos": "Clos", "hyperx": "HyperX"}


def topology_text(tier: Tier) -> str:
    """The name of its topology as it is written in a sentence: ``Clos``, ``full mesh``."""
    spelled = capabilities_of(tier).label.replace("_", " ")
    return _PROPER_NAMES.get(tier.topology, spelled)


def switches_text(count: int) -> str:
    """``1 switch``, ``32 switches``."""
    if count == 1:
        return "1 switch"
    return f"{count} switches"


def link_text(kind: LinkKind) -> str:
    """``axis 1: to 7 others, 50 GB/s and 1 us a link``."""
    return (
        f"{kind.name}: to {counted(kind.others, 'other')}, {format_rate(kind.Bps)} and"
        f" {format_time(kind.alpha_s)} a link"
    )


# --- how a tier is sized


def _rails_text(plan: ClosPlan) -> str:
    """``8 rails of 2 planes``: ``rails`` of a plan are networks apart, ``split`` of them of one NIC."""
    rails = plan.rails // plan.split
    if plan.split == 1:
        return f"{rails} rails"
    planes = f"{plan.split} planes"
    if rails == 1:
        return planes
    return f"{rails} rails of {planes}"


def plan_lines(plan: ClosPlan) -> Iterator[str]:
    """The switches of each level, their ports and cables, in sentences."""
    levels = ", ".join(f"{level.per_rail} {level.name}" for level in plan.levels)
    noun = "switch" if levels == f"1 {plan.levels[0].name}" else "switches"
    switches = f"{levels} {noun} of {plan.radix} ports"
    if plan.rails > 1:
        switches = f"{_rails_text(plan)}, each with {switches}"
    yield switches
    for level in plan.levels:
        if level.up_ports:
            ports = f"{level.down_ports} ports down and {level.up_ports} up"
            yield f"{ports} on a {level.name} switch, {level.oversubscription:.4g}:1"
    for below, level in pairwise(plan.levels):
        cables = counted(level.parallel, "cable")
        yield (
            f"{cables} between a {below.name} and each {level.name} that it reaches, {level.cables}"
            " in all"
        )
    yield f"{switches_text(plan.switches)} in all"


def uncounted_lines(plan: ClosPlan) -> Iterator[str]:
    """A line on the switches that join rails above their top level, if that has uplinks: a plan has only what
    belongs to one rail."""
    top = plan.levels[-1]
    uplinks = top.switches * top.up_ports
    # planes of one rail never meet above
    if uplinks and plan.rails > plan.split:
        spines = switches_text(ceil(uplinks / plan.radix))
        yield f"not counted, here and below: what joins the rails, {spines} for {uplinks} uplinks"
