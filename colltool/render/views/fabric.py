"""``fabric show``, ``list`` and ``draw``: the tiers as a tree or drawn, derived facts, sizing, cost
and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from operator import attrgetter
from typing import NamedTuple

from colltool.base.extras import drawing
from colltool.base.formatting import counted, format_bit_energy, format_rate, format_time
from colltool.fabric.model import Fabric, Tier
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
    fabric = result.fabric
    table = _table(result)
    kinds = {tier.name: capabilities_of(tier) for tier in fabric.tiers}
    sigma = number(
        "sigma",
        "sigma",
        "{:.3g}".format,
        get=lambda facts: kinds[facts.name].sigma_of(facts.planes),
    )
    columns = (*table.columns[:6], sigma, *table.columns[6:])
    title = (
        "per domain of each tier; diameter in links, bisection one way, sigma: injection of half"
        " the endpoints / bisection"
    )
    joined = []
    for name, kind in kinds.items():
        rate = format_rate(kind.tier.bandwidth)
        joined.append(f"{name} {kind.spoken} of {kind.extent} at {rate}")
    name = on_fabric(fabric.name, fabric.overrides)
    details = [
        *library_blocks(fabric),
        *bill_blocks(result.bill),
        *failure_blocks(result.failures),
        *_notes(result),
    ]
    return [
        Headline(f"{name} joins {fabric.ranks} ranks, innermost tier first: {'; '.join(joined)}."),
        _tree(fabric, result.facts),
        table._replace(columns=columns, title=title),
        *_sizing(fabric, result.facts),
        *map(later, details),
    ]


def _tree(fabric: Fabric, facts: FabricFacts) -> Lines:
    """The tiers as a tree, outermost first."""
    root = f"{fabric.ranks} ranks"
    if fabric.launch_overhead:
        root += f", launch overhead {format_time(fabric.launch_overhead)}"
    tree = [root]
    indent = ""
    for tier, derived in zip(reversed(fabric.tiers), reversed(facts.tiers), strict=True):
        tree.append(f"{indent}+- {tier.name}: {_tier_text(tier)}")
        for line in part_lines(tier, derived, outermost_first=True):
            tree.append(f"{indent}|    {line}")
        indent += "   "
    return Lines(_title(fabric), (*tree, f"{indent}+- rank"))


def _tier_text(tier: Tier) -> str:
    kind = capabilities_of(tier)
    text = f"{kind.spoken} of {kind.extent}, "
    if not kind.levels:
        text += f"{alpha_text(kind.classes[0])}, "
    text += f"BW {format_rate(tier.bandwidth)}"
    if tier.ports > 1:
        text += f" x {tier.ports} ports"
    per = "port" if kind.has_ports else "link"
    text += f" per {per}, eta {tier.eta.alpha:g}/{tier.eta.beta:g}"
    if tier.post:
        text += f", post {format_time(tier.post)}"
    if tier.energy is not None:
        text += f", {format_bit_energy(tier.energy)}"
    return text


def _title(fabric: Fabric) -> str:
    name = on_fabric(fabric.name, fabric.overrides)
    if not fabric.description:
        return name
    return f"{name}{'; ' if fabric.overrides else ': '}{described(fabric)}"


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
    del given["schema"]
    with_old_form(given["tiers"], result.fabric)
    facts = asdict(result.facts)
    for tier, derived in zip(result.facts.tiers, facts["tiers"], strict=True):
        derived["sizing"] = tier.sizing and sizing_document(tier.sizing)
    return {
        "fabric": given,
        **set_field(result.fabric.overrides),
        "facts": facts,
        "library": library_document(result.fabric),
        "bill": bill_document(result.bill),
        "failures": list(map(asdict, result.failures)),
    }


def _summary(result: FabricShown | FabricDrawn) -> str:
    return f"{_title(result.fabric)}\n{result.fabric.ranks} ranks: {_tiers_in_brief(result.fabric)}"


_LIST = (
    label("name", "name"),
    number("ranks", "ranks"),
    label("numbers", "numbers", get=basis_of),
    label("tiers", "tiers, innermost first", drop=1, get=lambda fabric: _extents(fabric)),
    label(
        "description", "description", drop=2, get=lambda fabric: _one_line(fabric.description or "")
    ),
)


def _list_table(result: FabricList) -> Table:
    return Table(_LIST, result.fabrics)


def _list_document(result: FabricList) -> Document:
    rows = []
    for fabric in result.fabrics:
        row = fields(fabric, "name description ranks")
        row["numbers"] = basis_of(fabric)
        row["tiers"] = [tier.name for tier in fabric.tiers]
        rows.append(row)
    return {"fabrics": rows}


def _list_summary(result: FabricList) -> str:
    names = [fabric.name for fabric in result.fabrics]
    return f"{counted(len(names), 'fabric')}: {', '.join(names)}"


def _extents(fabric: Fabric) -> str:
    return ", ".join(f"{tier.name} {capabilities_of(tier).extent}" for tier in fabric.tiers)


def _tiers_in_brief(fabric: Fabric) -> str:
    texts = []
    for tier in fabric.tiers:
        kind = capabilities_of(tier)
        texts.append(f"{tier.name} {kind.spoken} {kind.extent}")
    return ", ".join(texts)


def _sizing(fabric: Fabric, facts: FabricFacts) -> Iterator[Block]:
    for tier, derived in zip(fabric.tiers, facts.tiers, strict=True):
        plan = derived.sizing
        if plan is not None:
            lines = list(plan_lines(plan))
            if tier.rail_only:
                rails = "rails that never meet"
            else:
                rails = "rail-optimised" if plan.rails > plan.split else "sized"
                lines += uncounted(plan)
            yield Lines(f"{tier.name}, {rails}", (*lines, *derived.misfits))
        tree = derived.fat_tree
        if tree is not None:
            counts = f"{tree.edge} edge, {tree.aggregation} aggregation, {tree.core} core"
            text = (
                f"k = {tree.k}: up to {tree.endpoints} endpoints, {tree.switches} switches"
                f" ({counts}), {tree.links} cables"
            )
            title = f"{tier.name}, as a non-blocking fat-tree of equal switches"
            yield Lines(title, (text, *derived.misfits))


def _notes(result: FabricShown) -> Iterator[Block]:
    fabric = result.fabric
    library = fabric.library_facts
    if library is not None:
        yield Lines(library_text(library), tuple(map(reached_text, library.reached)))
    of_file = _texts(fabric.notes)
    for tier in fabric.tiers:
        of_file = of_file + [f"{tier.name}: {note}" for note in _texts(tier.notes)]
    derived: list[str] = []
    for facts in result.facts.tiers:
        derived += [f"{facts.name}: {note}" for note in facts.notes]
    derived += result.bill.notes
    if fabric.overrides:
        yield from listed("notes of the file, before what is set", map(_one_line, of_file))
    else:
        derived = of_file + derived
    yield from listed("notes", map(_one_line, derived))


def _texts(notes: str | list[str] | dict[str, str] | None) -> list[str]:
    if isinstance(notes, dict):
        return [f"{key}: {text}" for key, text in notes.items()]
    if isinstance(notes, str):
        return [notes]
    return notes or []


class _DrawnRow(NamedTuple):
    """A level of a tier, or a tier without levels."""

    tier: TierDiagram
    level: LevelDiagram | None


def _drawn_blocks(result: FabricDrawn) -> list[Block]:
    svg = drawing().fabric_svg(result.fabric, result.fabric.name, page=True)
    return [Picture(svg, _tree(result.fabric, result.facts))]


def _drawn_document(result: FabricDrawn) -> Document:
    fabric = result.fabric
    return {
        "fabric": fabric.name,
        **set_field(fabric.overrides),
        "ranks": fabric.ranks,
        "tiers": list(map(_tier, diagrams(fabric))),
        "text": alternative_text(fabric),
    }


def _tier(diagram: TierDiagram) -> Document:
    tier = diagram.tier
    facts = diagram.facts
    kind = diagram.kind
    return {
        "name": tier.name,
        "topology": tier.topology,
        "shape": [axis.size for axis in kind.axes] or None,
        "endpoints": facts.endpoints,
        "drawn": drawing().drawn_endpoints(diagram),
        "ranks": facts.ranks,
        "domains": facts.domains,
        "max_size": tier.max_size,
        "ports": diagram.ports,
        "bandwidth_Bps": tier.bandwidth,
        "alpha_s": None if kind.levels else kind.classes[0].alpha_s,
        "eta_alpha": tier.eta.alpha,
        "eta_beta": tier.eta.beta,
        "in_network": sorted(kind.operations),
        "levels": list(map(_level, diagram.levels)),
    }


def _level(level: LevelDiagram) -> Document:
    return {
        "name": level.name or None,
        "group": level.pairs.group,
        "groups": level.groups,
        **fields(level.pairs, "alpha_s oversubscription"),
        **fields(level, "uplinks switches rails reached"),
    }


def _of_level(path: str) -> Callable[[_DrawnRow], object]:
    """Get a field of a row's level; nothing for a tier without levels."""
    get = attrgetter(path)
    return lambda row: row.level and get(row.level)


_DRAWN = (
    label("tier", "tier", get=attrgetter("tier.tier.name")),
    label("topology", "topology", get=attrgetter("tier.tier.topology")),
    number("endpoints", "endpoints", get=attrgetter("tier.facts.endpoints")),
    number("drawn", "drawn", get=lambda row: drawing().drawn_endpoints(row.tier)),
    number("domains", "domains", get=attrgetter("tier.facts.domains")),
    number("ports", "ports", get=attrgetter("tier.ports")),
    label("level", "level", get=_of_level("name")),
    number("group", "group", get=_of_level("pairs.group")),
    number("groups", "groups", get=_of_level("groups")),
    number("switches", "switches", get=_of_level("switches")),
    number("oversubscription", "oversubscription", get=_of_level("pairs.oversubscription")),
    number("uplinks", "uplinks", get=_of_level("uplinks")),
)


def _drawn_table(result: FabricDrawn) -> Table:
    changed = label("set", "set", get=lambda _: set_text(result.fabric.overrides), hidden=True)
    rows = []
    for diagram in diagrams(result.fabric):
        rows += [_DrawnRow(diagram, level) for level in diagram.levels or (None,)]
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
