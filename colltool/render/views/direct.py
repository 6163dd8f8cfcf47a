"""``fabric size`` of a dragonfly, a dragonfly+ or a HyperX: cables of each kind, the keys of a
file, and a Clos to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from colltool.base.formatting import counted, format_money, shape_text, whole_percent
from colltool.fabric.direct_sized import DirectSized
from colltool.fabric.properties import Cost
from colltool.network.sizing.size_direct import DirectPlan
from colltool.render.blocks import Block, Table, label, number
from colltool.render.dispatch import Document, View, fields
from colltool.render.views.fabric_parts import (
    failures_and_bill,
    levels_table,
    levels_with_optics,
    sized_blocks,
    switches_text,
)

_COLUMNS = (
    label("name", "level"),
    number("switches", "switches"),
    number("ports", "ports of one"),
    number("others", "to others"),
    number("parallel", "cables to each", drop=2),
    number("cables", "cables"),
    number("load", "load", "{:.3g}".format),
)


def _table(result: DirectSized) -> Table:
    return levels_table(_COLUMNS, result.plan, result.bill)


def _blocks(result: DirectSized) -> list[Block]:
    cables = result.plan.cables + result.plan.ports
    return sized_blocks(result, cables, _summary(result), _table(result), _totals(result))


def _totals(result: DirectSized) -> Iterator[str]:
    plan = result.plan
    yield (
        f"{switches_text(plan.switches)}, {plan.cables} cables between them and"
        f" {counted(plan.ports, 'cable')} to endpoints"
    )
    if plan.switches > plan.rails:
        yield (
            f"all send alike to all on minimal routes: {whole_percent(plan.oversubscription)} of"
            " its rate on the busiest cable"
        )
        yield (
            f"the bisection carries at least {whole_percent(plan.bisection)} of what half of the"
            " endpoints inject"
        )
    yield f"at most {plan.diameter} links from endpoint to endpoint, their own included"
    if plan.spare_ports:
        yield f"room for {counted(plan.spare_ports, 'more port')}"
    yield _clos_text(result)
    if plan.tier:
        yield f"in a fabric file, beside rates and alpha: {_keys(plan.tier)}"


def _clos_text(result: DirectSized) -> str:
    """What a Clos for as many endpoints would take."""
    clos = result.clos
    if clos is None:
        return f"a Clos of three levels of {result.plan.radix}-port switches does not join so many"
    text = (
        f"a Clos at {clos.oversubscription:.4g}:1 takes {switches_text(clos.switches)} and"
        f" {clos.cables} cables between them in {counted(len(clos.levels), 'level')}"
    )
    cost = _clos_cost(result)
    if cost is None or cost.parts is None:
        return text
    return f"{text}, parts {format_money(cost.parts, cost.currency)}"


def _clos_cost(result: DirectSized) -> Cost | None:
    return result.clos_bill.cost if result.clos_bill else None


def _keys(tier: dict[str, object]) -> str:
    """YAML within a line:
    ``topology: hyperx, hosts: 20, shape: [10, 21], links: [{links: 2}, {links: 1}]``."""
    return ", ".join(f"{key}: {_value(value)}" for key, value in tier.items())


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{_keys(value)}}}"
    return str(value)


def _extent(plan: DirectPlan) -> str:
    ends = counted(plan.hosts, "endpoint")
    if plan.topology == "hyperx":
        return f"HyperX of {shape_text(plan.shape)} switches with {ends} each"
    switches, count = plan.shape
    groups = counted(count, "group")
    if not plan.spines:
        return f"dragonfly of {groups} of {switches_text(switches)}, {ends} at each switch"
    leaves = "1 leaf" if switches == 1 else f"{switches} leaves"
    spines = counted(plan.spines, "spine")
    return f"dragonfly+ of {groups} of {leaves} and {spines}, {ends} at each leaf"


def _document(result: DirectSized) -> Document:
    plan = result.plan
    clos = result.clos
    cost = _clos_cost(result)
    return {
        **fields(plan, "topology"),
        **fields(result, "endpoints ports_per_endpoint"),
        **fields(
            plan,
            "rails radix ports spare_ports hosts shape spines switches cables oversubscription"
            " bisection diameter",
        ),
        "levels": levels_with_optics(result),
        "tier": plan.tier,
        "clos": clos
        and {
            **fields(clos, "switches cables"),
            "levels": len(clos.levels),
            "cost": cost and asdict(cost),
        },
        "notes": list(plan.notes),
        **failures_and_bill(result),
    }


def _summary(result: DirectSized) -> str:
    rails = f" on {result.plan.rails} rails" if result.plan.rails > 1 else ""
    return f"{counted(result.plan.ports, 'endpoint port')}{rails}: a {_extent(result.plan)}"


VIEWS = {DirectSized: View("fabric-size-direct", _blocks, _document, _table, _summary)}
