"""``fabric show`` and ``fabric list``: the tiers as a tree, derived facts, sizing, cost and failures."""

from __future__ import annotations

from dataclasses import asdict

from colltool.base.formatting import counted, format_bit_energy, format_rate, format_time
from colltool.fabric.library import LibraryFacts
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import FabricFacts, TierFacts
from colltool.fabric.results import FabricDrawn, FabricList, FabricShown
from colltool.fabric.topology import capabilities_of
from colltool.render.blocks import Block, Column, Headline, Lines, Table, label, later, number
from colltool.render.view import Document, View, described, on_fabric, set_field
from colltool.render.views.fabric_size import (
    bill_blocks,
    bill_document,
    failure_blocks,
    failure_documents,
    plan_lines,
    sizing_document,
)
from colltool.render.views.fabric_words import (
    alpha_text,
    eta_text,
    in_network_text,
    library_text,
    oversubscription_text,
    protocol_text,
    reached_text,
)
from colltool.sizing.size_clos import FatTree


def _blocks(result: FabricShown) -> list[Block]:
    title = "per domain of each tier; diameter in links, bisection one way, sigma: injection of half the endpoints / bisection"
    table = _table(result, title)
    table = table._replace(columns=(*table.columns[:6], _sigma(result), *table.columns[6:]))
    out: list[Block] = [Headline(_answer(result)), tree_of(result.fabric, result.facts), table]
    for derived in result.facts.tiers:
        out += _sizing(derived)
    more = [*bill_blocks(result.bill), *failure_blocks(result.failures), *_library(result.fabric.library_facts), *_notes(result)]
    return [*out, *map(later, more)]


def _sigma(result: FabricShown) -> Column:
    """Injection bandwidth of half the endpoints over bisection; 1 is full bisection."""
    tiers = {tier.name: tier for tier in result.fabric.tiers}
    return number("sigma", "sigma", "{:.3g}".format, get=lambda facts: capabilities_of(tiers[facts.name]).sigma)


def _answer(result: FabricShown) -> str:
    fabric = result.fabric
    tiers = "; ".join(f"{tier.name} {tier.topology} of {capabilities_of(tier).extent} at {format_rate(tier.bandwidth)}"
                      for tier in fabric.tiers)  # fmt: skip
    return f"{on_fabric(fabric.name, fabric.overrides)} joins {fabric.ranks} ranks, innermost tier first: {tiers}."


def tree_of(fabric: Fabric, facts: FabricFacts) -> Lines:
    """The tiers as a tree, outermost first."""
    overhead = f", launch overhead {format_time(fabric.launch_overhead)}" if fabric.launch_overhead else ""
    tree = [f"{fabric.ranks} ranks{overhead}"]
    for depth, (tier, derived) in enumerate(zip(reversed(fabric.tiers), reversed(facts.tiers), strict=True)):
        tree += _tier_lines(tier, derived, "   " * depth)
    tree.append("   " * len(fabric.tiers) + "+- rank")
    return Lines(_title(fabric), tuple(tree))


def _title(fabric: Fabric) -> str:
    name = on_fabric(fabric.name, fabric.overrides)
    return f"{name}{'; ' if fabric.overrides else ': '}{described(fabric)}" if fabric.description else name


def _one_line(text: str) -> str:
    return " ".join(text.split())


_FACTS = (
    label("tier", "tier", get=lambda tier: tier.name),
    label("topology", "topology", drop=4),
    number("endpoints", "endpoints"),
    number("domains", "domains", drop=3),
    number("diameter_links", "diameter"),
    number("bisection_Bps", "bisection", format_rate),
    number("neighbours", "neighbours", drop=5),
    number("links", "links", drop=1),
    number("switches", "switches", drop=2),
)


def _table(result: FabricShown, title: str = "") -> Table:
    name = label("fabric", "fabric", get=lambda _: result.fabric.name, hidden=True)
    return Table((name, *_FACTS), result.facts.tiers, None, title)


def _document(result: FabricShown) -> Document:
    given = result.fabric.model_dump(by_alias=True, exclude_none=True)
    given.pop("schema")
    facts = asdict(result.facts)
    for tier, told in zip(result.facts.tiers, facts["tiers"], strict=True):
        told["sizing"] = tier.sizing and sizing_document(tier.sizing)
    return {"fabric": given} | set_field(result.fabric.overrides) | {
        "facts": facts, "bill": bill_document(result.bill), "failures": failure_documents(result.failures)
    }  # fmt: skip


def fabric_summary(result: FabricShown | FabricDrawn) -> str:
    tiers = ", ".join(_tier_in_brief(tier) for tier in result.fabric.tiers)
    return f"{_title(result.fabric)}\n{result.fabric.ranks} ranks: {tiers}"


_LIST = (
    label("name", "name"),
    number("ranks", "ranks"),
    label("tiers", "tiers, innermost first", drop=1, get=lambda one: ", ".join(map(_tier_in_brief, one.tiers))),
    label("description", "description", drop=2, get=lambda one: _one_line(one.description or "")),
)


def _list_table(result: FabricList) -> Table:
    return Table(_LIST, result.fabrics)


def _list_document(result: FabricList) -> Document:
    rows = [
        {"name": one.name, "description": one.description, "ranks": one.ranks, "tiers": [tier.name for tier in one.tiers]}
        for one in result.fabrics
    ]
    return {"fabrics": rows}


def _list_summary(result: FabricList) -> str:
    return f"{counted(len(result.fabrics), 'fabric')}: {', '.join(one.name for one in result.fabrics)}"


def _tier_in_brief(tier: Tier) -> str:
    return f"{tier.name} {tier.topology} {capabilities_of(tier).extent}"


def _tier_lines(tier: Tier, facts: TierFacts, indent: str) -> list[str]:
    rate = format_rate(tier.bandwidth) + (f" x {tier.ports} ports" if tier.ports > 1 else "")
    kind = capabilities_of(tier)
    per = "port" if kind.joined_by == "switches" else "link"
    listed_levels = bool(kind.levels)
    alpha = "" if listed_levels else f"{alpha_text(kind.classes[0])}, "
    beside = f", post {format_time(tier.post)}" if tier.post else ""
    beside += f", {format_bit_energy(tier.energy)}" if tier.energy is not None else ""
    lines = [
        f"{indent}+- {tier.name}: {tier.topology} of {kind.extent}, {alpha}BW {rate} per {per}, {eta_text(tier.eta)}{beside}"
    ]
    for index, (one, level) in reversed(list(enumerate(zip(kind.classes, facts.levels, strict=False)))):
        s = f", {oversubscription_text(level)}" if index else ""
        lines.append(f"{indent}|    {one.name}: {one.group} endpoints, {alpha_text(one)}{s}")
    if kind.in_network is not None:
        lines.append(f"{indent}|    in-network: {in_network_text(kind.in_network)}")
    lines += [f"{indent}|    protocol {one.name}: {protocol_text(one)}" for one in tier.protocols or ()]
    listed = (tier.algorithms or {}).items()
    return lines + [f"{indent}|    {primitive.spoken} runs {', '.join(names)}" for primitive, names in listed]


def _sizing(tier: TierFacts) -> list[Block]:
    out: list[Block] = []
    if tier.sizing is not None:
        rails = "rail-optimised" if tier.sizing.rails > 1 else "sized"
        out.append(Lines(f"{tier.name}, {rails}", tuple(plan_lines(tier.sizing))))
    if tier.fat_tree is not None:
        out.append(Lines(f"{tier.name}, as a non-blocking fat-tree of equal switches", (_tree(tier.fat_tree),)))
    return out


def _tree(tree: FatTree) -> str:
    counts = f"{tree.edge} edge, {tree.aggregation} aggregation, {tree.core} core"
    return f"k = {tree.k}: up to {tree.endpoints} endpoints, {tree.switches} switches ({counts}), {tree.links} cables"


def _library(facts: LibraryFacts | None) -> list[Block]:
    return [Lines(library_text(facts), tuple(map(reached_text, facts.reached)))] if facts else []


def _notes(result: FabricShown) -> list[Block]:
    fabric, facts = result.fabric, result.facts
    of_file = [*_texts(fabric.notes), *(f"{tier.name}: {note}" for tier in fabric.tiers for note in _texts(tier.notes))]
    own = [*(f"{tier.name}: {note}" for tier in facts.tiers for note in tier.notes), *result.bill.notes]
    blocks = {"notes of the file, before what is set": of_file, "notes": own} if fabric.overrides else {"notes": of_file + own}
    return [Lines(title, tuple(map(_one_line, lines))) for title, lines in blocks.items() if lines]


def _texts(notes: str | list[str] | dict[str, str] | None) -> list[str]:
    if isinstance(notes, dict):
        return [f"{key}: {text}" for key, text in notes.items()]
    return [notes] if isinstance(notes, str) else notes or []


VIEWS = {
    FabricShown: View("fabric-show", _blocks, _document, _table, fabric_summary),
    FabricList: View("fabric-list", lambda result: [_list_table(result)], _list_document, _list_table, _list_summary),
}
