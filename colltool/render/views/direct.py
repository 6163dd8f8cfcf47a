"""``fabric size`` of a dragonfly, a dragonfly+ or a HyperX: cables of each kind, the keys of a
file, and a Clos beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from colltool.base.formatting import counted, format_money, shape_text, whole_percent
from colltool.fabric.direct_sized import DirectSized
from colltool.render.blocks import Block, Headline, Lines, Table, label, later, number
from colltool.render.dispatch import Document, View, fields, listed
from colltool.render.views.fabric_parts import (
    bill_blocks,
    bill_document,
    failure_blocks,
    optics_of,
    switches_text,
)
from colltool.sizing.size_direct import DirectPlan

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


def _blocks(result: DirectSized) -> list[Block]:
    plan = result.plan
    cables = counted(plan.cables + plan.ports, "cable")
    return [
        Headline(f"{switches_text(plan.switches)} and {cables} join {_summary(result)}."),
        _table(result),
        Lines("in all", tuple(_totals(result))),
        *(bill_blocks(result.bill) if result.bill.cost else []),
        *map(later, failure_blocks(result.failures, ranks=False)),
        *listed("notes", (*plan.notes, *result.bill.notes)),
    ]


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
    if (clos := result.clos) is not None:
        cost = result.clos_bill.cost if result.clos_bill else None
        money = (
            f", parts {format_money(cost.parts, cost.currency)}"
            if cost and cost.parts is not None
            else ""
        )
        bare = (
            f"{switches_text(clos.switches)} and {clos.cables} cables between them in"
            f" {counted(len(clos.levels), 'level')}"
        )
        yield f"a Clos at {clos.oversubscription:.4g}:1 takes {bare}{money}"
    else:
        yield f"a Clos of three levels of {plan.radix}-port switches does not join so many"
    if plan.tier:
        yield f"in a fabric file, beside rates and alpha: {_keys(plan.tier)}"


def _keys(tier: dict[str, object]) -> str:
    """As YAML within a line:
    ``topology: hyperx, hosts: 20, shape: [10, 21], links: [{links: 2}, {links: 1}]``."""
    return ", ".join(f"{key}: {_value(value)}" for key, value in tier.items())


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return f"{{{_keys(value)}}}" if isinstance(value, dict) else str(value)


def _extent(plan: DirectPlan) -> str:
    ends = counted(plan.hosts, "endpoint")
    if plan.topology == "hyperx":
        return f"HyperX of {shape_text(plan.shape)} switches with {ends} each"
    switches, groups = plan.shape
    if not plan.spines:
        return (
            f"dragonfly of {counted(groups, 'group')} of {switches_text(switches)}, {ends} at each"
            " switch"
        )
    leaves = "1 leaf" if switches == 1 else f"{switches} leaves"
    return (
        f"dragonfly+ of {counted(groups, 'group')} of {leaves} and {counted(plan.spines, 'spine')},"
        f" {ends} at each leaf"
    )


def _document(result: DirectSized) -> Document:
    plan, optics, clos = result.plan, optics_of(result.bill), result.clos
    levels = [asdict(level) | {"optics": optics.get(level.name, 0)} for level in plan.levels]
    cost = result.clos_bill.cost if result.clos_bill else None
    other = clos and {
        "switches": clos.switches,
        "cables": clos.cables,
        "levels": len(clos.levels),
        "cost": cost and asdict(cost),
    }
    return (
        fields(plan, "topology")
        | fields(result, "endpoints ports_per_endpoint")
        | fields(
            plan,
            "rails radix ports spare_ports hosts shape spines switches cables oversubscription"
            " bisection diameter",
        )
        | {"levels": levels, "tier": plan.tier, "clos": other, "notes": list(plan.notes)}
        | {
            "failures": [asdict(failure) for failure in result.failures],
            "bill": bill_document(result.bill),
        }
    )


def _summary(result: DirectSized) -> str:
    rails = f" on {result.plan.rails} rails" if result.plan.rails > 1 else ""
    return f"{counted(result.plan.ports, 'endpoint port')}{rails}: a {_extent(result.plan)}"


VIEWS = {DirectSized: View("fabric-size-direct", _blocks, _document, _table, _summary)}
