"""``fabric show`` and ``fabric list``: the tiers as a tree, and what follows from them."""

from __future__ import annotations

from dataclasses import asdict

from colltool.algorithms.libraries import LIBRARIES
from colltool.fabric.derive import TierFacts
from colltool.fabric.kind import DistanceClass, cable_s
from colltool.fabric.library import Library, Reached
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.results import FabricList, FabricShown
from colltool.fabric.sizing import FatTree, RailPods
from colltool.fabric.tier_parts import Eta, InNetwork, Limits, Protocol
from colltool.fabric.topology import kind_of
from colltool.render.parts import Block, Lines, Table, label, number
from colltool.render.subject import Document, Subject
from colltool.words import counted, format_bit_energy, format_bytes, format_length, format_rate, format_time, whole_percent


def _blocks(result: FabricShown) -> list[Block]:
    """One fabric: its tree (outermost first, so that what contains stands above), derived facts, sizing, notes."""
    fabric, facts = result.fabric, result.facts
    overhead = f", launch overhead {format_time(fabric.launch_overhead)}" if fabric.launch_overhead else ""
    tree = [f"{fabric.ranks} ranks{overhead}"]
    for depth, tier in enumerate(reversed(fabric.tiers)):
        tree += _tier_lines(tier, "   " * depth)
    tree.append("   " * len(fabric.tiers) + "+- rank")
    title = "per domain of each tier; diameter in links, bisection one way"
    out: list[Block] = [Lines(_title(fabric), tuple(tree)), _table(result, title)]
    for derived in facts.tiers:
        out += _sizing(derived)
    return [*out, *_library(fabric.library_facts), *_notes(result)]


def _title(fabric: Fabric) -> str:
    return f"{fabric.name}: {_one_line(fabric.description)}" if fabric.description else fabric.name


def _one_line(text: str) -> str:
    """A text of several lines, as YAML lets people write it, in one."""
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
    """The file's values in SI units, and what follows from them."""
    given = result.fabric.model_dump(by_alias=True, exclude_none=True)
    given.pop("schema")
    return {"fabric": given, "facts": asdict(result.facts)}


def _summary(result: FabricShown) -> str:
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
    return f"{tier.name} {tier.topology} {kind_of(tier).extent}"


def _tier_lines(tier: Tier, indent: str) -> list[str]:
    rate = format_rate(tier.bandwidth) + (f" x {tier.ports} ports" if tier.ports > 1 else "")
    kind = kind_of(tier)
    per = "port" if kind.joined_by == "switches" else "link"
    listed_levels = bool(kind.levels)
    alpha = "" if listed_levels else f"{_alpha(kind.classes[0])}, "
    energy = f", {format_bit_energy(tier.energy)}" if tier.energy is not None else ""
    lines = [f"{indent}+- {tier.name}: {tier.topology} of {kind.extent}, {alpha}BW {rate} per {per}, {_eta(tier.eta)}{energy}"]
    classes = kind.classes if listed_levels else ()
    for one in reversed(classes):
        s = f", s {one.oversubscription:g}" if one is not classes[0] else ""
        lines.append(f"{indent}|    {one.name}: {one.group} endpoints, {_alpha(one)}{s}")
    if kind.in_network is not None:
        lines.append(f"{indent}|    in-network: {_in_network(kind.in_network)}")
    lines += [f"{indent}|    protocol {one.name}: {_protocol(one)}" for one in tier.protocols or ()]
    listed = (tier.algorithms or {}).items()
    return lines + [f"{indent}|    {primitive.spoken} runs {', '.join(names)}" for primitive, names in listed]


def _alpha(one: DistanceClass) -> str:
    """``alpha 2.5 us, 500 ns of it in 100 m of cable``."""
    cable = f", {format_time(cable_s(one.cable_m))} of it in {format_length(one.cable_m)} of cable" if one.cable_m else ""
    return f"alpha {format_time(one.alpha_s)}{cable}"


def _eta(eta: Eta) -> str:
    return f"eta {eta.alpha:g}/{eta.beta:g}"


def _protocol(one: Protocol) -> str:
    """What a protocol gives; the rest is the tier's own."""
    given = (
        "" if one.launch_overhead is None else f"launch overhead {format_time(one.launch_overhead)}",
        "" if one.alpha is None else f"alpha {format_time(one.alpha)}",
        "" if one.bandwidth is None else f"BW {format_rate(one.bandwidth)}",
        "" if one.eta is None else _eta(one.eta),
        "" if one.local_copy is None else f"local copy {format_rate(one.local_copy)}",
    )
    numbers = ", ".join(text for text in given if text) or "the tier's own numbers"
    only = ", ".join(primitive.spoken for primitive in one.primitives or ())
    return f"{numbers}; only {only}" if only else numbers


def _in_network(spec: InNetwork) -> str:
    can = [name.replace("_", "-") for name in ("reduce", "multicast", "all_to_all") if getattr(spec, name)]
    levels = f", {spec.levels} switch level{'s' if spec.levels != 1 else ''}" if spec.levels else ""
    eta = "".join(f", {primitive.spoken} eta_beta {value:g}" for primitive, value in spec.own_eta.items())
    under = f"; only under {', '.join(spec.protocols)}" if spec.protocols else ""
    return (
        f"{', '.join(can) or 'nothing'}, alpha_switch {format_time(spec.alpha_switch)}{levels}{eta}{under}{_limits(spec.limits)}"
    )


def _limits(limits: Limits | None) -> str:
    """``; sum, max of bf16, fp32; aligned to 128 B; 64 groups at a time``."""
    if limits is None:
        return ""
    what = " of ".join(", ".join(names) for names in (limits.operations, limits.types) if names)
    aligned = f"aligned to {format_bytes(limits.alignment)}" if limits.alignment else ""
    room = f"{counted(limits.groups, 'group')} at a time" if limits.groups else ""
    return "".join(f"; {text}" for text in (what, aligned, room) if text)


def _sizing(tier: TierFacts) -> list[Block]:
    out: list[Block] = []
    if tier.sizing is not None:
        out.append(Lines(f"{tier.name}, rail-optimised", tuple(_rails(tier.sizing))))
    if tier.fat_tree is not None:
        out.append(Lines(f"{tier.name}, as a non-blocking fat-tree of equal switches", (_tree(tier.fat_tree),)))
    return out


def _rails(pods: RailPods) -> list[str]:
    return [
        f"{pods.rails} rails, each with {pods.leaves} leaves and {pods.spines} spines",
        f"{pods.down_ports} ports down and {pods.up_ports} up on a leaf",
        f"{pods.cables_per_pair} cables between each leaf and spine, {pods.cables} in all",
        f"{pods.switches} switches in all",
        *pods.notes,
    ]


def _tree(tree: FatTree) -> str:
    counts = f"{tree.edge} edge, {tree.aggregation} aggregation, {tree.core} core"
    return f"k = {tree.k}: up to {tree.endpoints} endpoints, {tree.switches} switches ({counts}), {tree.links} cables"


def _library(facts: Library | None) -> list[Block]:
    """Whose schedules are ranked, what its cost model is told, and what it reaches."""
    if facts is None:
        return []
    told = [
        f"{facts.gpu} GPUs" if facts.gpu else "",
        f"{facts.cpu} hosts" if facts.cpu else "",
        "" if facts.collnet is None else f"CollNet {'on' if facts.collnet else 'off'}",
        "" if facts.nvls is None else f"NVLS {'on' if facts.nvls else 'off'}",
        "channels given" if facts.channels else "",
    ]
    name = LIBRARIES[facts.name].spoken if facts.name in LIBRARIES else "any"
    version = f" {facts.version}" if facts.version else ""
    title = ", ".join(filter(None, (f"library {name}{version}", *told)))
    return [Lines(title, tuple(map(_reached, facts.reached)))]


def _reached(one: Reached) -> str:
    """What a library reaches of a schedule: ``multi-rail-ring (all-reduce): of its bandwidth 100% on 4 nodes``."""
    if isinstance(one.share, float):
        said = [whole_percent(one.share)] if one.share < 1 else []
    else:
        said = [f"{whole_percent(each.share)} on {counted(each.nodes, 'node')}" for each in one.share]
    parts = [f"of its bandwidth {', '.join(said)}" if said else ""]
    parts += [f"{format_time(one.startup)} to get going" if one.startup else ""]
    parts += [f"{format_time(one.startup_per_rank)} a rank to get going" if one.startup_per_rank else ""]
    parts += [f"{format_time(one.rise_per_rank)} a rank at 1 GB to get up to speed" if one.rise_per_rank else ""]
    primitives = ", ".join(primitive.spoken for primitive in one.primitives)
    return f"{one.algorithm} ({primitives}): {'; '.join(filter(None, parts))}"


def _notes(result: FabricShown) -> list[Block]:
    fabric, facts = result.fabric, result.facts
    lines = [*_texts(fabric.notes), *(f"{tier.name}: {note}" for tier in fabric.tiers for note in _texts(tier.notes))]
    lines += [f"{tier.name}: {note}" for tier in facts.tiers for note in tier.notes]
    return [Lines("notes", tuple(map(_one_line, lines)))] if lines else []


def _texts(notes: str | list[str] | dict[str, str] | None) -> list[str]:
    if isinstance(notes, dict):
        return [f"{key}: {text}" for key, text in notes.items()]
    return [notes] if isinstance(notes, str) else notes or []


SUBJECTS = {
    FabricShown: Subject("fabric-show", _blocks, _document, _table, _summary),
    FabricList: Subject("fabric-list", lambda result: [_list_table(result)], _list_document, _list_table, _list_summary),
}
