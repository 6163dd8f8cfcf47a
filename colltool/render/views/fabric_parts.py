"""Parts of a fabric in words and tables, for other views: how tiers are sized, what they are made of
and cost, what one failure takes down, and numbers of tiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from colltool.algorithms.libraries import LIBRARIES
from colltool.base.formatting import (
    counted,
    format_bytes,
    format_length,
    format_money,
    format_power,
    format_rate,
    format_time,
    short_percent,
    whole_percent,
)
from colltool.fabric.bill import Bill, BillLine, Cost
from colltool.fabric.capabilities import DistanceClass, LinkKind, TierCapabilities, cable_s
from colltool.fabric.failures import Failure
from colltool.fabric.library import PARTS, Efficiency, LibraryFacts, Prices
from colltool.fabric.model import Tier
from colltool.fabric.properties import LevelFacts, TierFacts
from colltool.fabric.tier_parts import InNetwork
from colltool.fabric.topology import capabilities_of
from colltool.network.sizing.size_clos import ClosLevel, ClosPlan
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Lines,
    Table,
    label,
    number,
)
from colltool.render.documents import Document, derived


def _rails_text(plan: ClosPlan) -> str:
    rails = plan.rails // plan.split
    if plan.split == 1:
        return f"{rails} rails"
    planes = f"{plan.split} planes"
    if rails == 1:
        return planes
    return f"{rails} rails of {planes}"


def plan_lines(plan: ClosPlan) -> Iterator[str]:
    """The levels in sentences, for ``fabric show``."""
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


def uncounted(plan: ClosPlan) -> Iterator[str]:
    """The switches above rails that end in leaves: the plan has only what belongs to a rail."""
    top = plan.levels[-1]
    uplinks = top.switches * top.up_ports
    # planes of one rail never meet above
    if uplinks and plan.rails > plan.split:
        spines = switches_text(ceil(uplinks / plan.radix))
        yield f"not counted, here and below: what joins the rails, {spines} for {uplinks} uplinks"


# --- documents


class SizingDocument(Document, of=ClosPlan):
    """The switches and cables of a sized tier."""

    rails: int
    down_ports: int
    up_ports: int
    leaves: int
    spines: int
    cables_per_pair: int
    switches: int
    cables: int
    notes: list[str]
    levels: list[ClosLevel]


class BillDocument(Document, of=Bill):
    """The parts of a network, and what they cost."""

    parts: list[BillLine] = derived("lines")
    cost: Cost | None
    notes: list[str]


_FAILURES: Columns[Failure] = (
    label("tier", drop=1),
    label("part", get=lambda row: "all switches" if row.part == "switches" else row.part),
    label("level", drop=2),
    number("count", "of", "{:,}".format, drop=3),
    number("nics", "ports dark", "{:,}".format, drop=4),
    number("endpoints", "endpoints hit", "{:,}".format, drop=5),
    number("ranks", "ranks hit", "{:,}".format),
    number("share", "each loses", short_percent),
    label(
        "beyond",
        "of its traffic",
        drop=6,
        get=lambda row: f"beyond its {row.beyond}" if row.beyond else "all",
    ),
    number("cut_off", "cut off", "{:,}".format),
)


def failure_blocks(failures: Sequence[Failure], *, ranks: bool = True) -> list[Block]:
    """The failure table; without ``ranks`` where the endpoints are not ranks."""
    if not failures:
        return []
    table = Table(_FAILURES, failures, title="what one failure takes down, at most")
    if not ranks:
        table = table.without("ranks")
    return [table.without_empty("tier")]


class _BillLevel(NamedTuple):
    """The parts of a level, by their kind."""

    tier: str
    level: str
    lines: dict[str, BillLine]

    @property
    def cost(self) -> float | None:
        """The sum over parts with a price. None if there are none, or one has no count."""
        return _sum([line.cost for line in self.lines.values() if line.price is not None])

    @property
    def power_W(self) -> float | None:
        return _sum([line.power_W for line in self.lines.values() if line.power_W is not None])


def _sum(amounts: list[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    # a sum without some of its parts would look like the whole
    if not known or len(known) < len(amounts):
        return None
    return sum(known)


PLURAL = {"nic": "NICs", "cable": "cables", "optic": "optics", "switch": "switches"}


def _counts(part: str) -> Column[_BillLevel]:
    return number(
        part,
        PLURAL[part],
        "{:,}".format,
        get=lambda row: row.lines[part].count if part in row.lines else 0,
    )


_BILL: Columns[_BillLevel] = (
    label("tier", drop=1),
    label("level"),
    *map(_counts, PLURAL),
    number("cost", "cost", format_money),
    number("power_W", "power", format_power, drop=2),
)


def bill_blocks(bill: Bill) -> Iterator[Block]:
    """What it is made of, and what that costs."""
    rows: dict[tuple[str, str], dict[str, BillLine]] = {}
    for line in bill.lines:
        rows.setdefault((line.tier, line.level), {})[line.part] = line
    levels = [_BillLevel(*place, lines) for place, lines in rows.items()]
    title = "what it is made of"
    if bill.cost:
        title += f", in {bill.cost.currency}"
    if levels:
        yield Table(_BILL, levels, title=title).without_empty()
    if bill.cost:
        yield Lines("what it costs", list(_sums(bill, bill.cost)))


def _sums(bill: Bill, cost: Cost) -> Iterator[str]:
    parts = "-: no price given"
    if cost.parts is not None:
        parts = format_money(cost.parts, cost.currency) + _left_out(bill, "price", "cost")
    yield f"parts {parts}"
    power = "-: no watts given"
    if cost.power_W is not None:
        power = format_power(cost.power_W)
        if cost.energy_per_year is not None:
            power += f", {format_money(cost.energy_per_year, cost.currency)} a year"
        power += _left_out(bill, "watts", "power_W")
    yield f"power {power}"
    if cost.total is not None and cost.total != cost.parts:
        yield f"{format_money(cost.total, cost.currency)} over {cost.years:g} years"


def _left_out(bill: Bill, what: str, field: str) -> str:
    """What a sum leaves out: ``, without NICs, cables: no watts given``."""
    unpriced: dict[str, None] = {}
    uncounted: dict[str, None] = {}
    for line in bill.lines:
        if getattr(line, field) is None:
            parts = uncounted if line.count is None else unpriced
            parts[PLURAL[line.part]] = None
    text = ""
    if unpriced:
        text = f", without {', '.join(unpriced)}: no {what} given"
    if uncounted:
        text += f", without {', '.join(uncounted)}: not counted"
    return text


def alpha_text(distance: DistanceClass) -> str:
    """Such as ``alpha 2.5 us, 500 ns of it in 100 m of cable``."""
    text = f"alpha {format_time(distance.alpha_s)}"
    if not distance.cable_m:
        return text
    cable = format_length(distance.cable_m)
    return f"{text}, {format_time(cable_s(distance.cable_m))} of it in {cable} of cable"


def operations_text(spec: InNetwork) -> str:
    """What the switches do: ``reduce, multicast``."""
    names = [
        capability
        for capability in ("reduce", "multicast", "all_to_all")
        if getattr(spec, capability)
    ]
    return ", ".join(names).replace("_", "-") or "nothing"


def in_network_text(spec: InNetwork) -> str:
    """Such as
    ``reduce, multicast, alpha_switch 200 ns, 1 switch level, all-reduce eta_beta 0.61; sum of bf16; 64 groups``.
    """
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
    """Such as ``library NCCL 2.30, hopper GPUs, intel hosts, CollNet off``."""
    known = LIBRARIES.get(facts.name)
    text = f"library {known.label if known else 'any'}"
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
    for seconds, what in (
        (efficiency.startup, "to start"),
        (efficiency.startup_per_rank, "a rank to start"),
        (efficiency.rise_per_rank, "a rank at 1 GB to get up to speed"),
    ):
        if seconds:
            parts.append(f"{format_time(seconds)} {what}")
    scope = ", ".join(primitive.label for primitive in efficiency.primitives)
    if efficiency.protocols:
        scope += f" under {', '.join(efficiency.protocols)}"
    return f"{', '.join(efficiency.algorithms)} ({scope}): {'; '.join(parts)}"


def planes_lines(kind: TierCapabilities[Tier]) -> Iterator[str]:
    """Such as
    ``8 planes of 12.5 GB/s, 1 failed, packets sprayed over all: 87.5 GB/s a message``."""
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
    """Such as
    ``trunk: 200 GB/s out of an endpoint, 781.3 MB/s for each of its 256 ranks at once``."""
    whole = kind.trunk_Bps
    if whole is not None:
        ranks = kind.tier.ranks_inside
        each = format_rate(min(kind.tier.bandwidth * kind.tier.ports, whole / ranks))
        yield (
            f"trunk: {format_rate(whole)} out of an endpoint, {each} for each of its {ranks} ranks"
            " at once"
        )


def part_lines(tier: Tier, facts: TierFacts, *, outermost_first: bool = False) -> Iterator[str]:
    """The levels, reductions in switches and protocols of a tier."""
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
    # a tier with a trunk has a class more than the file has levels
    levels = zip(kind.classes, facts.levels, strict=False)
    for index, (distance, level) in enumerate(levels):
        text = f"{distance.name}: {distance.group} endpoints, {alpha_text(distance)}"
        # nothing is oversubscribed below the first level
        if index:
            text += _oversubscription(level)
        yield text


def _oversubscription(level: LevelFacts) -> str:
    """Such as ``, s 4 of all endpoints below, {uplinks: 2} of the switches below``; ``, s 1`` is
    none."""
    if level.oversubscription == level.uplinks == 1:
        return ", s 1"
    text = f", s {level.oversubscription:g} of all endpoints below"
    if level.oversubscription == level.uplinks:
        return text
    return f"{text}, {{uplinks: {level.uplinks:.4g}}} of the switches below"


_PROPER_NAMES = {"clos": "Clos", "hyperx": "HyperX"}


def spoken_topology(tier: Tier) -> str:
    """The name of its topology, as it is written in a sentence."""
    spoken = capabilities_of(tier).label.replace("_", " ")
    return _PROPER_NAMES.get(tier.topology, spoken)


def switches_text(count: int) -> str:
    if count == 1:
        return "1 switch"
    return f"{count} switches"


def link_text(kind: LinkKind) -> str:
    """Such as ``axis 1: to 7 others, 50 GB/s and 1 us a link``."""
    return (
        f"{kind.name}: to {counted(kind.others, 'other')}, {format_rate(kind.Bps)} and"
        f" {format_time(kind.alpha_s)} a link"
    )


def prices_text(prices: Prices) -> str:
    """Such as ``prices in USD: switch 30,000 (1.7 kW), cable 200, power 0.1/kWh, 4 years``."""
    parts = []
    for part in PARTS:
        costs = prices.of(part)
        if costs is None:
            continue
        text = part
        text += " -" if costs.price is None else f" {format_money(costs.price)}"
        if costs.draws is not None:
            text += f" ({format_power(costs.draws)})"
        parts.append(text)
    if prices.power is not None:
        parts.append(f"power {prices.power:g}/kWh")
    if prices.years is not None:
        parts.append(f"{prices.years:g} years")
    if prices.copper:
        parts.append(f"copper to {', '.join(prices.copper)}")
    if prices.tiers:
        parts.append(f"only {', '.join(prices.tiers)}")
    return f"prices in {prices.currency}: {', '.join(parts) or 'none'}"
