"""``fabric size`` of a dragonfly, a dragonfly+ or a HyperX: cables of each kind, the keys of a
file, and a Clos to compare with.

Read from :data:`VIEWS`: :func:`_blocks` is the screen, :func:`_table` a row for each kind of switch and
cable. What it shares with a sized Clos is in ``fabric_size``. Of a plan, ``hosts`` are the endpoints of a switch,
``ports`` the cables to endpoints, ``cables`` those between switches, and ``tier`` the keys of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltool.base.formatting import counted, format_money, shape_text, whole_percent
from colltool.fabric.bill import Cost
from colltool.fabric.direct_sized import DirectSized
from colltool.fabric.failures import Failure
from colltool.network.sizing.size_direct import DirectLevel, DirectPlan
from colltool.render.blocks import Block, Columns, Table, label, number
from colltool.render.dispatch import View
from colltool.render.documents import Document, derived
from colltool.render.views.fabric_bill import BillDocument
from colltool.render.views.fabric_parts import switches_text
from colltool.render.views.fabric_size import (
    levels_table,
    levels_with_optics,
    sized_blocks,
    sized_text,
)

_COLUMNS: Columns[DirectLevel] = (
    label("name", "level"),
    number("switches"),
    number("ports", "ports per switch"),
    number("others", "to others"),
    number("parallel", "cables to each", drop=2),
    number("cables"),
    number("load", "load", "{:.3g}".format),
)


def _table(result: DirectSized) -> Table:
    return levels_table(_COLUMNS, result.plan, result.bill)


def _blocks(result: DirectSized) -> Iterator[Block]:
    return sized_blocks(result, _summary(result), _table(result), _total_lines(result))


def _total_lines(result: DirectSized) -> Iterator[str]:
    """Cables, loads, distances and spare ports of the whole, the Clos beside it, and keys of a file."""
    plan = result.plan
    switch_cables = counted(plan.cables, "cable")
    yield f"{switch_cables} between switches and {counted(plan.ports, 'cable')} to endpoints"
    # a single switch of a rail has neither a busiest cable nor a bisection
    if plan.switches > plan.rails:
        yield (
            f"uniform all-to-all traffic on minimal routes loads the busiest cable to"
            f" {whole_percent(plan.oversubscription)} of its rate"
        )
        yield (
            f"the bisection carries at least {whole_percent(plan.bisection)} of what half of the"
            " endpoints can send"
        )
    yield f"at most {plan.diameter} links between two endpoints, including their own"
    if plan.spare_ports:
        yield f"room for {counted(plan.spare_ports, 'more port')}"
    yield _clos_text(result)
    if plan.tier:
        yield f"keys for a fabric file (add rates and alpha): {_yaml_pairs(plan.tier)}"


def _clos_text(result: DirectSized) -> str:
    """What a Clos for as many endpoints would take."""
    clos = result.clos
    if clos is None:
        return f"a Clos of three levels of {result.plan.radix}-port switches cannot join as many endpoints"
    text = (
        f"a Clos at {clos.oversubscription:.4g}:1 takes {switches_text(clos.switches)} and"
        f" {clos.cables} cables between them in {counted(len(clos.levels), 'level')}"
    )
    cost = _clos_cost(result)
    if cost is None or cost.parts is None:
        return text
    return f"{text}, parts {format_money(cost.parts, cost.currency)}"


def _clos_cost(result: DirectSized) -> Cost | None:
    """What that Clos costs; None without prices."""
    return result.clos_bill.cost if result.clos_bill else None


def _yaml_pairs(tier: dict[str, object]) -> str:
    """Write YAML within a line: ``topology: hyperx, hosts: 20, shape: [10, 21], links: [{links: 2},
    {links: 1}]``."""
    return ", ".join(f"{key}: {_yaml_value(value)}" for key, value in tier.items())


def _yaml_value(value: object) -> str:
    """A number, a text, a list or a mapping within a line of YAML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{_yaml_pairs(value)}}}"
    return str(value)


def _network_text(plan: DirectPlan) -> str:
    """``dragonfly of 21 groups of 10 switches, 5 endpoints per switch``."""
    ends = counted(plan.hosts, "endpoint")
    if plan.topology == "hyperx":
        return f"HyperX of {shape_text(plan.shape)} switches with {ends} each"
    # both kinds of dragonfly: switches of a group that have endpoints, and groups
    switches, count = plan.shape
    groups = counted(count, "group")
    if not plan.spines:
        return f"dragonfly of {groups} of {switches_text(switches)}, {ends} per switch"
    leaves = "1 leaf" if switches == 1 else f"{switches} leaves"
    spines = counted(plan.spines, "spine")
    return f"dragonfly+ of {groups} of {leaves} and {spines}, {ends} per leaf"


class DirectLevelDocument(Document, extends=DirectLevel):
    """Switches or cables of a kind, with the optics on the cables."""

    optics: int


class ClosDocument(Document):
    """A Clos for as many endpoints."""

    switches: int
    cables: int
    levels: int = derived(lambda clos: len(clos.levels))
    cost: Cost | None


def _clos_document(result: DirectSized) -> dict[str, Any] | None:
    """The Clos with its cost; None where none joins as many endpoints."""
    if result.clos is None:
        return None
    return ClosDocument.of(result.clos, cost=_clos_cost(result))


class DirectSizeDocument(Document, at="plan"):
    """A network of direct links for a number of endpoints."""

    topology: str
    endpoints: int = derived("endpoints")
    ports_per_endpoint: int = derived("ports_per_endpoint")
    rails: int
    radix: int
    ports: int
    spare_ports: int
    hosts: int
    shape: list[int]
    spines: int
    switches: int
    cables: int
    oversubscription: float
    bisection: float
    diameter: int
    levels: list[DirectLevelDocument] = derived(
        lambda result: levels_with_optics(result, DirectLevelDocument)
    )
    tier: dict[str, Any]
    clos: ClosDocument | None = derived(_clos_document)
    notes: list[str]
    failures: list[Failure] = derived("failures")
    bill: BillDocument = derived("bill")


def _summary(result: DirectSized) -> str:
    """``228 switches (a dragonfly of ...) and 1,500 cables for 1,050 ports``."""
    plan = result.plan
    text = sized_text(
        plan.switches, f"a {_network_text(plan)}", plan.cables + plan.ports, plan.ports
    )
    return f"{text} on {plan.rails} rails" if plan.rails > 1 else text


VIEWS = {DirectSized: View("fabric-size-direct", _blocks, DirectSizeDocument.of, _table, _summary)}
