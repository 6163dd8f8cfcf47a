"""``fabric show``, ``list`` and ``draw``: the tiers as a tree or drawn, derived facts, sizing, cost
and failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from operator import attrgetter
from typing import NamedTuple

from colltool.base.formatting import counted, format_bit_energy, format_rate, format_time
from colltool.base.pictures import drawing
from colltool.fabric.model import Fabric
from colltool.fabric.properties import FabricFacts, basis_of
from colltool.fabric.results import FabricDrawn, FabricList, FabricShown
from colltool.fabric.topology import capabilities_of
from colltool.render.blocks import Block, Headline, Lines, Picture, Table, label, later, number
from colltool.render.dispatch import (
    Document,
    View,
    context,
    described,
    fields,
    listed,
    on_fabric,
    set_field,
    set_text,
)
from colltool.render.views.fabric_diagram import (
    LevelDiagram,
    TierDiagram,
    alternative_text,
    diagrams,
)
from colltool.render.views.fabric_parts import (
    alpha_text,
    bill_blocks,
    bill_document,
    failure_blocks,
    library_text,
    part_lines,
    plan_lines,
    reached_text,
    sizing_document,
    uncounted,
)
from colltool.render.views.library import library_blocks, library_document, with_old_form


def _blocks(result: FabricShown) -> list[Block]:
    fabric, table = result.fabric, _table(result)
    tiers = {tier.name: tier for tier in fabric.tiers}
    sigma = number(
        "sigma",
        "sigma",
        "{:.3g}".format,
        get=lambda facts: capabilities_of(tiers[facts.name]).sigma_of(facts.planes),
    )
    columns = (*table.columns[:6], sigma, *table.columns[6:])
    title = (
        "per domain of each tier; diameter in links, bisection one way, sigma: injection of half"
        " the endpoints / bisection"
    )
    joined = (
        f"{tier.name} {capabilities_of(tier).spoken} of {capabilities_of(tier).extent} at"
        f" {format_rate(tier.bandwidth)}"
        for tier in fabric.tiers
    )
    name = on_fabric(fabric.name, fabric.overrides)
    return [
        Headline(f"{name} joins {fabric.ranks} ranks, innermost tier first: {'; '.join(joined)}."),
        _tree(fabric, result.facts),
        table._replace(columns=columns, title=title),
        *_sizing(result.fabric, result.facts),
        *map(
            later,
            [
                *library_blocks(fabric),
                *bill_blocks(result.bill),
                *failure_blocks(result.failures),
                *_notes(result),
            ],
        ),
    ]


def _tree(fabric: Fabric, facts: FabricFacts) -> Lines:
    """The tiers as a tree, outermost first."""
    overhead = (
        f", launch overhead {format_time(fabric.launch_overhead)}" if fabric.launch_overhead else ""
    )
    tree = [f"{fabric.ranks} ranks{overhead}"]
    for depth, (tier, derived) in enumerate(
        zip(reversed(fabric.tiers), reversed(facts.tiers), strict=True)
    ):
        indent, kind = "   " * depth, capabilities_of(tier)
        alpha = "" if kind.levels else f"{alpha_text(kind.classes[0])}, "
        rate = format_rate(tier.bandwidth) + (f" x {tier.ports} ports" if tier.ports > 1 else "")
        per = "port" if kind.has_ports else "link"
        beside = f", post {format_time(tier.post)}" if tier.post else ""
        beside += f", {format_bit_energy(tier.energy)}" if tier.energy is not None else ""
        numbers = f"{alpha}BW {rate} per {per}, eta {tier.eta.alpha:g}/{tier.eta.beta:g}{beside}"
        tree.append(f"{indent}+- {tier.name}: {kind.spoken} of {kind.extent}, {numbers}")
        tree += [f"{indent}|    {line}" for line in part_lines(tier, derived, outermost_first=True)]
    return Lines(_title(fabric), (*tree, "   " * len(fabric.tiers) + "+- rank"))


def _title(fabric: Fabric) -> str:
    name = on_fabric(fabric.name, fabric.overrides)
    return (
        f"{name}{'; ' if fabric.overrides else ': '}{described(fabric)}"
        if fabric.description
        else name
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


_FACTS = (
    label("tier", "tier", get=attrgetter("name")),
    label("topology", "topology", drop=4),
    number("endpoints", "endpoints"),
    number("domains", "domains", drop=3),
    number("diameter_links", "diameter"),
    number("bisection_Bps", "bisection", format_rate),
    number("neighbours", "neighbours", drop=5),
    number("links", "links", drop=1),
    number("switches", "switches", drop=2),
)


def _table(result: FabricShown) -> Table:
    return Table((*context(fabric=result.fabric.name), *_FACTS), result.facts.tiers)


def _document(result: FabricShown) -> Document:
    given = result.fabric.model_dump(by_alias=True, exclude_none=True)
    given.pop("schema")
    with_old_form(given["tiers"], result.fabric)
    facts = asdict(result.facts)
    for tier, told in zip(result.facts.tiers, facts["tiers"], strict=True):
        told["sizing"] = tier.sizing and sizing_document(tier.sizing)
    failures = [asdict(failure) for failure in result.failures]
    head = {"fabric": given, **set_field(result.fabric.overrides), "facts": facts}
    head["library"] = library_document(result.fabric)
    return head | {"bill": bill_document(result.bill), "failures": failures}


def _summary(result: FabricShown | FabricDrawn) -> str:
    return f"{_title(result.fabric)}\n{result.fabric.ranks} ranks: {_tiers_in_brief(result.fabric)}"


_LIST = (
    label("name", "name"),
    number("ranks", "ranks"),
    label("numbers", "numbers", get=basis_of),
    label("tiers", "tiers, innermost first", drop=1, get=lambda row: _extents(row)),
    label("description", "description", drop=2, get=lambda row: _one_line(row.description or "")),
)


def _list_table(result: FabricList) -> Table:
    return Table(_LIST, result.fabrics)


def _list_document(result: FabricList) -> Document:
    def row(fabric: Fabric) -> Document:
        return fields(fabric, "name description ranks") | {
            "numbers": basis_of(fabric),
            "tiers": [tier.name for tier in fabric.tiers],
        }

    return {"fabrics": [row(fabric) for fabric in result.fabrics]}


def _list_summary(result: FabricList) -> str:
    return f"{counted(len(result.fabrics), 'fabric')}: {', '.join(fabric.name for fabric in result.fabrics)}"


def _extents(fabric: Fabric) -> str:
    return ", ".join(f"{tier.name} {capabilities_of(tier).extent}" for tier in fabric.tiers)


def _tiers_in_brief(fabric: Fabric) -> str:
    return ", ".join(
        f"{tier.name} {capabilities_of(tier).spoken} {capabilities_of(tier).extent}"
        for tier in fabric.tiers
    )


def _sizing(fabric: Fabric, facts: FabricFacts) -> Iterator[Block]:
    for tier, of in zip(facts.tiers, fabric.tiers, strict=True):
        if tier.sizing is not None:
            rails = "rail-optimised" if tier.sizing.rails > tier.sizing.split else "sized"
            rails = "rails that never meet" if of.rail_only else rails
            lines = (
                *plan_lines(tier.sizing),
                *(() if of.rail_only else uncounted(tier.sizing)),
                *tier.misfits,
            )
            yield Lines(f"{tier.name}, {rails}", lines)
        if (tree := tier.fat_tree) is not None:
            counts = f"{tree.edge} edge, {tree.aggregation} aggregation, {tree.core} core"
            text = (
                f"k = {tree.k}: up to {tree.endpoints} endpoints, {tree.switches} switches"
                f" ({counts}), {tree.links} cables"
            )
            yield Lines(
                f"{tier.name}, as a non-blocking fat-tree of equal switches", (text, *tier.misfits)
            )


def _notes(result: FabricShown) -> Iterator[Block]:
    fabric, facts = result.fabric, result.facts
    if (library := fabric.library_facts) is not None:
        yield Lines(library_text(library), tuple(map(reached_text, library.reached)))
    of_file = [
        *_texts(fabric.notes),
        *(f"{tier.name}: {note}" for tier in fabric.tiers for note in _texts(tier.notes)),
    ]
    own = [
        *(f"{tier.name}: {note}" for tier in facts.tiers for note in tier.notes),
        *result.bill.notes,
    ]
    if fabric.overrides:
        yield from listed("notes of the file, before what is set", map(_one_line, of_file))
    yield from listed("notes", map(_one_line, own if fabric.overrides else of_file + own))


def _texts(notes: str | list[str] | dict[str, str] | None) -> list[str]:
    if isinstance(notes, dict):
        return [f"{key}: {text}" for key, text in notes.items()]
    return [notes] if isinstance(notes, str) else notes or []


class _DrawnRow(NamedTuple):
    tier: TierDiagram
    level: LevelDiagram | None


def _drawn_blocks(result: FabricDrawn) -> list[Block]:
    return [
        Picture(
            drawing().fabric_svg(result.fabric, result.fabric.name, page=True),
            _tree(result.fabric, result.facts),
        )
    ]


def _drawn_document(result: FabricDrawn) -> Document:
    fabric = result.fabric
    head = {"fabric": fabric.name, **set_field(fabric.overrides), "ranks": fabric.ranks}
    return head | {
        "tiers": [_tier(diagram) for diagram in diagrams(fabric)],
        "text": alternative_text(fabric),
    }


def _tier(diagram: TierDiagram) -> Document:
    tier, facts, kind = diagram.tier, diagram.facts, diagram.kind
    return (
        {
            "name": tier.name,
            "topology": tier.topology,
            "shape": [axis.size for axis in kind.axes] or None,
        }
        | {
            "endpoints": facts.endpoints,
            "drawn": drawing().drawn_endpoints(diagram),
            "ranks": facts.ranks,
            "domains": facts.domains,
        }
        | {"max_size": tier.max_size, "ports": diagram.ports, "bandwidth_Bps": tier.bandwidth}
        | {
            "alpha_s": None if kind.levels else kind.classes[0].alpha_s,
            "eta_alpha": tier.eta.alpha,
            "eta_beta": tier.eta.beta,
        }
        | {
            "in_network": sorted(kind.operations),
            "levels": [_level(level) for level in diagram.levels],
        }
    )


def _level(level: LevelDiagram) -> Document:
    head = {"name": level.name or None, "group": level.pairs.group, "groups": level.groups}
    return (
        head
        | fields(level.pairs, "alpha_s oversubscription")
        | fields(level, "uplinks switches rails reached")
    )


_DRAWN = (
    label("tier", "tier", get=attrgetter("tier.tier.name")),
    label("topology", "topology", get=attrgetter("tier.tier.topology")),
    number("endpoints", "endpoints", get=attrgetter("tier.facts.endpoints")),
    number("drawn", "drawn", get=lambda row: drawing().drawn_endpoints(row.tier)),
    number("domains", "domains", get=attrgetter("tier.facts.domains")),
    number("ports", "ports", get=attrgetter("tier.ports")),
    label("level", "level", get=lambda row: row.level and row.level.name),
    number("group", "group", get=lambda row: row.level and row.level.pairs.group),
    number("groups", "groups", get=lambda row: row.level and row.level.groups),
    number("switches", "switches", get=lambda row: row.level and row.level.switches),
    number(
        "oversubscription",
        "oversubscription",
        get=lambda row: row.level and row.level.pairs.oversubscription,
    ),
    number("uplinks", "uplinks", get=lambda row: row.level and row.level.uplinks),
)


def _drawn_table(result: FabricDrawn) -> Table:
    changed = label("set", "set", get=lambda _: set_text(result.fabric.overrides), hidden=True)
    rows = (
        _DrawnRow(diagram, level)
        for diagram in diagrams(result.fabric)
        for level in diagram.levels or (None,)
    )
    return Table((*context(fabric=result.fabric.name), changed, *_DRAWN), tuple(rows))


VIEWS = {
    FabricShown: View("fabric-show", _blocks, _document, _table, _summary),
    FabricList: View(
        "fabric-list",
        lambda result: [_list_table(result)],
        _list_document,
        _list_table,
        _list_summary,
    ),
    FabricDrawn: View("fabric-draw", _drawn_blocks, _drawn_document, _drawn_table, _summary),
}
