"""``fabric show`` and ``fabric list`` as blocks: the tiers as a tree, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.fabric.derive import FabricFacts, TierFacts
from colltool.fabric.model import Eta, Fabric, InNetwork, Protocol, Tier
from colltool.fabric.sizing import FatTree, RailPods
from colltool.fabric.topology import kind_of
from colltool.render.parts import Block, Cell, Column, Lines, Table, plain
from colltool.units import format_rate, format_time


def show_blocks(fabric: Fabric, facts: FabricFacts) -> list[Block]:
    """One fabric: its tree (outermost first, so that what contains stands above), derived facts, sizing, notes."""
    title = f"{fabric.name}: {fabric.description}" if fabric.description else fabric.name
    overhead = f", launch overhead {format_time(fabric.launch_overhead)}" if fabric.launch_overhead else ""
    tree = [f"{fabric.ranks} ranks{overhead}"]
    for depth, tier in enumerate(reversed(fabric.tiers)):
        tree += _tier_lines(tier, "   " * depth)
    tree.append("   " * len(fabric.tiers) + "+- rank")
    out: list[Block] = [Lines(title, tuple(tree)), _facts_table(facts)]
    for derived in facts.tiers:
        out += _sizing(derived)
    return out + _notes(fabric, facts)


def list_blocks(fabrics: Sequence[Fabric]) -> list[Block]:
    """The shipped fabrics."""
    columns = (
        Column("name", "name", right=False),
        Column("ranks", "ranks"),
        Column("tiers", "tiers, innermost first", 1, right=False),
        Column("description", "description", 2, right=False),
    )
    rows = []
    for one in fabrics:
        tiers = ", ".join(f"{tier.name} {tier.topology} {kind_of(tier).extent}" for tier in one.tiers)
        texts = (one.name, str(one.ranks), tiers, one.description)
        rows.append(tuple(plain(text) for text in texts))
    return [Table(columns, tuple(rows))]


def _tier_lines(tier: Tier, indent: str) -> list[str]:
    rate = format_rate(tier.bandwidth) + (f" x {tier.ports} ports" if tier.ports > 1 else "")
    kind = kind_of(tier)
    per = "port" if kind.joined_by == "switches" else "link"
    alpha = "" if tier.alpha is None else f"alpha {format_time(tier.alpha)}, "
    lines = [f"{indent}+- {tier.name}: {tier.topology} of {kind.extent}, {alpha}BW {rate} per {per}, {_eta(tier.eta)}"]
    classes = kind.classes if kind.levels or len(kind.classes) > 1 else ()
    for one in reversed(classes):
        s = f", s {one.oversubscription:g}" if one is not classes[0] else ""
        lines.append(f"{indent}|    {one.name}: {one.group} endpoints, alpha {format_time(one.alpha_s)}{s}")
    if kind.in_network is not None:
        lines.append(f"{indent}|    in-network: {_in_network(kind.in_network)}")
    lines += [f"{indent}|    protocol {one.name}: {_protocol(one)}" for one in tier.protocols or ()]
    listed = (tier.algorithms or {}).items()
    return lines + [f"{indent}|    {primitive.spoken} runs {', '.join(names)}" for primitive, names in listed]


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
    eta = f", all-reduce eta_beta {spec.eta_beta:g}" if spec.eta_beta else ""
    under = f"; only under {', '.join(spec.protocols)}" if spec.protocols else ""
    return f"{', '.join(can) or 'nothing'}, alpha_switch {format_time(spec.alpha_switch)}{levels}{eta}{under}"


def _facts_table(facts: FabricFacts) -> Table:
    columns = (
        Column("tier", "tier", right=False),
        Column("topology", "topology", 4, right=False),
        Column("endpoints", "endpoints"),
        Column("domains", "domains", 3),
        Column("diameter_links", "diameter"),
        Column("bisection_Bps", "bisection"),
        Column("neighbours", "neighbours", 5),
        Column("links", "links", 1),
        Column("switches", "switches", 2),
    )
    rows = tuple(
        (
            plain(tier.name),
            plain(tier.topology),
            plain(tier.endpoints),
            plain(tier.domains),
            plain(tier.diameter_links),
            Cell(format_rate(tier.bisection_Bps), tier.bisection_Bps),
            plain(tier.neighbours),
            plain(tier.links),
            Cell("-" if tier.switches is None else str(tier.switches), tier.switches),
        )
        for tier in facts.tiers
    )
    return Table(columns, rows, None, "per domain of each tier; diameter in links, bisection one way")


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


def _notes(fabric: Fabric, facts: FabricFacts) -> list[Block]:
    lines = [*_texts(fabric.notes), *(f"{tier.name}: {note}" for tier in fabric.tiers for note in _texts(tier.notes))]
    lines += [f"{tier.name}: {note}" for tier in facts.tiers for note in tier.notes]
    return [Lines("notes", tuple(lines))] if lines else []


def _texts(notes: str | list[str] | dict[str, str] | None) -> list[str]:
    if isinstance(notes, dict):
        return [f"{key}: {text}" for key, text in notes.items()]
    return [notes] if isinstance(notes, str) else notes or []
