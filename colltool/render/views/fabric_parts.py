"""``fabric size``, and parts of a fabric in words and tables: switches level by level, their cost,
failures, numbers of tiers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
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
from colltool.fabric.capabilities import DistanceClass, LinkKind, TierCapabilities, cable_s
from colltool.fabric.library import PARTS, Efficiency, LibraryFacts, Prices
from colltool.fabric.model import Tier
from colltool.fabric.properties import Bill, BillLine, Cost, TierFacts
from colltool.fabric.results import FabricSized, Failure
from colltool.fabric.tier_parts import InNetwork
from colltool.fabric.topology import capabilities_of
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, later, number
from colltool.render.dispatch import Document, View, fields, listed
from colltool.sizing.size_clos import ClosPlan

_COLUMNS = (
    label("name", "level"),
    number("switches", "switches"),
    number("per_rail", "on a rail", drop=4),
    number("least", "by ports alone", drop=5),
    number("down_ports", "down"),
    number("up_ports", "up"),
    number("oversubscription", "down/up", "{:.4g}".format, drop=2),
    number("cables", "cables below"),
    number("parallel", "to each below", drop=3),
)


def _table(result: FabricSized) -> Table:
    plan, optics = result.plan, optics_of(result.bill)
    columns = (
        *_COLUMNS,
        number("optics", "optics", drop=1, get=lambda row: optics.get(row.name, 0)),
    )
    rails = f" on {plan.rails} rails" if plan.rails > 1 else ""
    return Table(
        columns,
        plan.levels,
        None,
        f"{plan.ports} ports of endpoints{rails}, switches of {plan.radix} ports",
    )


def optics_of(bill: Bill) -> dict[str, int]:
    """Transceivers by level, on the cables below it; copper has none."""
    return {line.level: line.count or 0 for line in bill.lines if line.part == "optic"}


def _blocks(result: FabricSized) -> list[Block]:
    plan = result.plan
    cables = counted(plan.cables + plan.levels[0].cables, "cable")
    return [
        Headline(f"{switches_text(plan.switches)} and {cables} join {_summary(result)}."),
        _table(result),
        Lines("in all", tuple(_totals(plan))),
        *(bill_blocks(result.bill) if result.bill.cost else []),
        *map(later, failure_blocks(result.failures, ranks=False)),
        *listed("notes", (*plan.notes, *result.bill.notes)),
    ]


def _totals(plan: ClosPlan) -> Iterator[str]:
    on_rail = " on a rail" if plan.rails > 1 else ""
    between = f"{plan.cables} cables between them and " if plan.cables else ""
    yield (
        f"{switches_text(plan.switches)}, {between}{counted(plan.levels[0].cables, 'cable')} to"
        " endpoints"
    )
    if len(plan.levels) > 1:
        yield f"oversubscribed {plan.oversubscription:.4g}:1 against the endpoints"
        between = f"pods, in {counted(plan.planes, 'plane')}" if plan.pods > 1 else "leaves"
        yield f"{counted(plan.paths, 'equal path')} between {between}"
    if plan.pods > 1:
        yield f"{plan.pods} pods{on_rail}"
    if plan.spare_ports:
        yield f"{counted(plan.spare_ports, 'down-port')} of leaves to spare"
    tree = f"a reduction tree of such switches has {counted(plan.tree_levels, 'level')}{on_rail}"
    if plan.least_levels < plan.tree_levels:
        tree += (
            f"; {plan.least_levels} is what {plan.radix} ports could join without uplinks,"
            f" ceil(log_{plan.radix} N)"
        )
    yield tree


def _rails_text(plan: ClosPlan) -> str:
    rails, planes = plan.rails // plan.split, f"{plan.split} planes"
    if plan.split == 1:
        return f"{rails} rails"
    return planes if rails == 1 else f"{rails} rails of {planes}"


def plan_lines(plan: ClosPlan) -> Iterator[str]:
    """The levels in sentences, for ``fabric show``."""
    rails = f"{_rails_text(plan)}, each with " if plan.rails > 1 else ""
    yield (
        f"{rails}{', '.join(f'{level.per_rail} {level.name}' for level in plan.levels)} switches of"
        f" {plan.radix} ports"
    )
    for level in plan.levels:
        if level.up_ports:
            ports = f"{level.down_ports} ports down and {level.up_ports} up"
            yield f"{ports} on a {level.name} switch, {level.oversubscription:.4g}:1"
    for below, level in zip(plan.levels, plan.levels[1:], strict=False):
        cables = counted(level.parallel, "cable")
        yield (
            f"{cables} between a {below.name} and each {level.name} that it reaches, {level.cables}"
            " in all"
        )
    yield f"{switches_text(plan.switches)} in all"


def uncounted(plan: ClosPlan) -> Iterator[str]:
    """What rails that end in leaves lead to: it is part of no rail, and a plan is of rails."""
    top, several = plan.levels[-1], plan.rails > plan.split
    if several and (uplinks := top.switches * top.up_ports):
        spines = switches_text(-(-uplinks // plan.radix))
        yield f"not counted, here and below: what joins the rails, {spines} for {uplinks} uplinks"


def sizing_document(plan: ClosPlan) -> Document:
    names = "rails down_ports up_ports leaves spines cables_per_pair switches cables notes"
    return fields(plan, names) | {"levels": [asdict(level) for level in plan.levels]}


def _document(result: FabricSized) -> Document:
    plan, optics = asdict(result.plan), optics_of(result.bill)
    notes = list(plan.pop("notes"))
    del plan["split"]  # planes are a tier's, and there is none
    levels = [level | {"optics": optics.get(level["name"], 0)} for level in plan.pop("levels")]
    rest = {
        "failures": [asdict(failure) for failure in result.failures],
        "bill": bill_document(result.bill),
    }
    return (
        fields(result, "endpoints ports_per_endpoint")
        | plan
        | {"levels": levels, "notes": notes}
        | rest
    )


def _summary(result: FabricSized) -> str:
    levels = ", ".join(f"{level.switches} {level.name}" for level in result.plan.levels)
    return (
        f"{counted(result.plan.ports, 'endpoint port')}: {switches_text(result.plan.switches)}"
        f" ({levels})"
    )


_FAILURES = (
    label("tier", "tier", drop=1),
    label("part", "part", get=lambda row: "all switches" if row.part == "switches" else row.part),
    label("level", "level", drop=2),
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
    table = Table(_FAILURES, tuple(failures), None, "what one failure takes down, at most")
    idle = ([] if any(failure.tier for failure in failures) else ["tier"]) + (
        [] if ranks else ["ranks"]
    )
    return [table.without(*idle)] if failures else []


class _BillLevel(NamedTuple):
    tier: str
    level: str
    lines: dict[str, BillLine]


def _sum(several: list[float | None]) -> float | None:
    """None if there are none, or one is not known."""
    known = [amount for amount in several if amount is not None]
    return sum(known) if several and len(known) == len(several) else None


PLURAL = {"nic": "NICs", "cable": "cables", "optic": "optics", "switch": "switches"}


def _counts(part: str) -> Column:
    return number(
        part,
        PLURAL[part],
        "{:,}".format,
        get=lambda row: row.lines[part].count if part in row.lines else 0,
    )


_BILL = (
    label("tier", "tier", drop=1),
    label("level", "level"),
    *map(_counts, PLURAL),
    number(
        "cost",
        "cost",
        format_money,
        get=lambda row: _sum([line.cost for line in row.lines.values() if line.price is not None]),
    ),
    number(
        "power_W",
        "power",
        format_power,
        drop=2,
        get=lambda row: _sum(
            [line.power_W for line in row.lines.values() if line.power_W is not None]
        ),
    ),
)


def bill_blocks(bill: Bill) -> list[Block]:
    """What it is made of, and what that costs."""
    rows: dict[tuple[str, str], dict[str, BillLine]] = {}
    for line in bill.lines:
        rows.setdefault((line.tier, line.level), {})[line.part] = line
    levels = tuple(_BillLevel(tier, level, lines) for (tier, level), lines in rows.items())
    shown = tuple(
        column for column in _BILL if any(column.value(level) is not None for level in levels)
    )
    currency = f", in {bill.cost.currency}" if bill.cost else ""
    out: list[Block] = (
        [Table(shown, levels, None, f"what it is made of{currency}")] if bill.lines else []
    )
    return [*out, Lines("what it costs", tuple(_sums(bill, bill.cost)))] if bill.cost else out


def bill_document(bill: Bill) -> Document:
    return {
        "parts": [asdict(line) for line in bill.lines],
        "cost": bill.cost and asdict(bill.cost),
        "notes": list(bill.notes),
    }


def _sums(bill: Bill, cost: Cost) -> Iterator[str]:
    parts = None if cost.parts is None else format_money(cost.parts, cost.currency)
    yield f"parts {_known(parts, bill, 'price', lambda line: line.cost)}"
    energy = (
        ""
        if cost.energy_per_year is None
        else f", {format_money(cost.energy_per_year, cost.currency)} a year"
    )
    power = None if cost.power_W is None else f"{format_power(cost.power_W)}{energy}"
    yield f"power {_known(power, bill, 'watts', lambda line: line.power_W)}"
    if cost.total is not None and cost.total != cost.parts:
        yield f"{format_money(cost.total, cost.currency)} over {cost.years:g} years"


def _known(
    total: str | None, bill: Bill, what: str, of_line: Callable[[BillLine], float | None]
) -> str:
    """A sum with what it leaves out: ``100 kW, without NICs, cables: no watts given``."""
    if total is None:
        return f"-: no {what} given"
    missing = [line for line in bill.lines if of_line(line) is None]
    for reason, counted_ in ((f"no {what} given", True), ("not counted", False)):
        parts = dict.fromkeys(
            PLURAL[line.part] for line in missing if (line.count is not None) is counted_
        )
        total += f", without {', '.join(parts)}: {reason}" if parts else ""
    return total


def alpha_text(pairs: DistanceClass) -> str:
    """Such as ``alpha 2.5 us, 500 ns of it in 100 m of cable``."""
    cable = (
        f", {format_time(cable_s(pairs.cable_m))} of it in {format_length(pairs.cable_m)} of cable"
        if pairs.cable_m
        else ""
    )
    return f"alpha {format_time(pairs.alpha_s)}{cable}"


def in_network_text(spec: InNetwork) -> str:
    """Such as
    ``reduce, multicast, alpha_switch 200 ns, 1 switch level, all-reduce eta_beta 0.61; sum of bf16; 64 groups``.
    """
    can = [
        name.replace("_", "-")
        for name in ("reduce", "multicast", "all_to_all")
        if getattr(spec, name)
    ]
    levels = f", {spec.levels} switch level{'s' if spec.levels != 1 else ''}" if spec.levels else ""
    eta = "".join(
        f", {primitive.spoken} eta_beta {value:g}" for primitive, value in spec.own_eta.items()
    )
    more = [f"only under {', '.join(spec.protocols)}"] if spec.protocols else []
    if (limits := spec.limits) is not None:
        more.append(
            " of ".join(", ".join(names) for names in (limits.operations, limits.types) if names)
        )
        more.append(f"aligned to {format_bytes(limits.alignment)}" if limits.alignment else "")
        more.append(f"{counted(limits.groups, 'group')} at a time" if limits.groups else "")
    alpha = f"alpha_switch {format_time(spec.alpha_switch)}"
    return "; ".join((f"{', '.join(can) or 'nothing'}, {alpha}{levels}{eta}", *filter(None, more)))


def library_text(facts: LibraryFacts) -> str:
    """Such as ``library NCCL 2.30, hopper GPUs, intel hosts, CollNet off``."""
    told = [
        f"{facts.gpu} GPUs" if facts.gpu else "",
        f"{facts.cpu} hosts" if facts.cpu else "",
        "" if facts.collnet is None else f"CollNet {'on' if facts.collnet else 'off'}",
        "" if facts.nvls is None else f"NVLS {'on' if facts.nvls else 'off'}",
        "" if facts.gpudirect is None else f"GPUDirect {'on' if facts.gpudirect else 'off'}",
        "" if facts.p2p is None else f"P2P over PCIe {'on' if facts.p2p else 'off'}",
        "channels given" if facts.channels else "",
    ]
    name = LIBRARIES[facts.name].spoken if facts.name in LIBRARIES else "any"
    version = f" {facts.version}" if facts.version else ""
    return ", ".join(filter(None, (f"library {name}{version}", *told)))


def reached_text(efficiency: Efficiency) -> str:
    """The measured efficiency of an algorithm:
    ``multi-rail-ring (all-reduce): of its bandwidth 100% on 4 nodes``."""
    if isinstance(efficiency.share, float):
        shares = whole_percent(efficiency.share) if efficiency.share < 1 else ""
    else:
        shares = ", ".join(
            f"{whole_percent(each.share)} on {counted(each.nodes, 'node')}"
            for each in efficiency.share
        )
    parts = [f"of its bandwidth {shares}" if shares else ""]
    parts += [f"{format_time(efficiency.startup)} to start" if efficiency.startup else ""]
    parts += [
        f"{format_time(efficiency.startup_per_rank)} a rank to start"
        if efficiency.startup_per_rank
        else ""
    ]
    parts += [
        (
            f"{format_time(efficiency.rise_per_rank)} a rank at 1 GB to get up to speed"
            if efficiency.rise_per_rank
            else ""
        )
    ]
    primitives = ", ".join(primitive.spoken for primitive in efficiency.primitives)
    under = f" under {', '.join(efficiency.protocols)}" if efficiency.protocols else ""
    return f"{', '.join(efficiency.algorithms)} ({primitives}{under}): {'; '.join(filter(None, parts))}"


def planes_lines(kind: TierCapabilities[Tier]) -> Iterator[str]:
    """Such as
    ``8 planes of 12.5 GB/s, 1 failed, packets sprayed over all: 87.5 GB/s a message``."""
    if (planes := kind.planes) is not None:
        flows = "one flow" if planes.flows == 1 else f"{planes.flows} flows"
        how = (
            "packets sprayed over all"
            if planes.spread == "spray"
            else f"{flows} a message, hashed to one each (ECMP)"
        )
        failed = f", {planes.failed} failed" if planes.failed else ""
        each, message = (
            kind.tier.bandwidth * kind.tier.ports / planes.count,
            kind.rate_Bps * kind.message_share,
        )
        yield (
            f"{planes.count} planes of {format_rate(each)}{failed}, {how}: {format_rate(message)} a"
            " message"
        )


def _trunk_lines(kind: TierCapabilities[Tier]) -> Iterator[str]:
    """Such as
    ``trunk: 200 GB/s out of an endpoint, 781.3 MB/s for each of its 256 ranks at once``."""
    if (whole := kind.trunk_Bps) is not None:
        ranks, most = kind.tier.ranks_inside, kind.tier.bandwidth * kind.tier.ports
        each = format_rate(min(most, whole / ranks))
        yield (
            f"trunk: {format_rate(whole)} out of an endpoint, {each} for each of its {ranks} ranks"
            " at once"
        )


def part_lines(tier: Tier, facts: TierFacts, *, outermost_first: bool = False) -> Iterator[str]:
    """The levels, reductions in switches and protocols of a tier."""
    kind = capabilities_of(tier)
    levels = list(zip(kind.classes, facts.levels, strict=False)) if kind.levels else []
    yield from _trunk_lines(kind)
    yield from planes_lines(kind)
    if tier.rail_only:
        yield "rails only: to another rail by way of a neighbour inside the endpoint"
    for at in sorted(range(len(levels)), reverse=outermost_first):
        pairs, level = levels[at]
        # such as ``s 4 of all endpoints below, {uplinks: 2} of the switches below``; ``s 1`` is
        # none
        s = ""
        if at:
            hop = (
                f", {{uplinks: {level.uplinks:.4g}}} of the switches below"
                if level.oversubscription != level.uplinks
                else ""
            )
            none = level.oversubscription == level.uplinks == 1
            s = ", s 1" if none else f", s {level.oversubscription:g} of all endpoints below{hop}"
        yield f"{pairs.name}: {pairs.group} endpoints, {alpha_text(pairs)}{s}"
    yield from map(link_text, kind.link_kinds)
    if kind.in_network is not None:
        yield f"in-network: {in_network_text(kind.in_network)}"


def spoken_topology(tier: Tier) -> str:
    """As it is written in a sentence."""
    return {"clos": "Clos", "hyperx": "HyperX"}.get(
        tier.topology, capabilities_of(tier).spoken.replace("_", " ")
    )


def switches_text(count: int) -> str:
    return f"{count} switch{'es' * (count != 1)}"


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
        if (each := prices.of(part)) is not None:
            price = "-" if each.price is None else format_money(each.price)
            draws = f" ({format_power(each.draws)})" if each.draws is not None else ""
            parts.append(f"{part} {price}{draws}")
    parts += [f"power {prices.power:g}/kWh"] if prices.power is not None else []
    parts += [f"{prices.years:g} years"] if prices.years is not None else []
    parts += [f"copper to {', '.join(prices.copper)}"] if prices.copper else []
    parts += [f"only {', '.join(prices.tiers)}"] if prices.tiers else []
    return f"prices in {prices.currency}: {', '.join(parts) or 'none'}"


VIEWS = {FabricSized: View("fabric-size", _blocks, _document, _table, _summary)}
