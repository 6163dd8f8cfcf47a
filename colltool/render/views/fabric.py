"""``fabric show`` and ``fabric list``: the tiers as a tree, what follows from them, sizing, cost and
failures; and the shipped fabrics.

``show`` comes first (:func:`_blocks`, the screen, and its parts in their order), then ``list``
(``_list_*``). ``draw`` is in ``fabric_drawn``. ``facts`` are what a file does not say but what follows
from it, a record for each tier in the fabric's order, innermost first. ``capabilities_of(tier)`` (``kind``) is
what a tier's topology can do: its ``label`` and ``extent`` in words, ``levels`` of switches as the file has them,
and ``classes`` of pairs that are equally far apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from colltool.base.formatting import counted, format_bit_energy, format_rate, format_time
from colltool.fabric.failures import Failure
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import FabricFacts, TierFacts, basis_of
from colltool.fabric.results import FabricDrawn, FabricList, FabricShown
from colltool.fabric.topology import capabilities_of
from colltool.machines.used import assumed_in
from colltool.network.sizing.size_clos import ClosLevel, ClosPlan
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Table,
    label,
    later,
    number,
)
from colltool.render.dispatch import View, context, listed, on_fabric, one_line
from colltool.render.documents import Document, derived
from colltool.render.shared_documents import SetInFabricDocument
from colltool.render.views.fabric_bill import BillDocument, bill_blocks, failure_blocks
from colltool.render.views.fabric_diagram import fabric_title
from colltool.render.views.fabric_drawn import FabricDrawDocument, drawn_blocks, drawn_table
from colltool.render.views.fabric_parts import (
    alpha_text,
    library_text,
    operations_text,
    part_lines,
    plan_lines,
    reached_text,
    uncounted_lines,
)
from colltool.render.views.library import (
    TierLibraryDocument,
    library_blocks,
    library_document,
    with_protocols,
)


def _blocks(result: FabricShown) -> Iterator[Block]:
    """The tiers as a tree, what follows from them and how they are sized first; parts, bill and notes
    after them."""
    fabric = result.fabric
    kinds = {tier.name: capabilities_of(tier) for tier in fabric.tiers}
    tiers = " in ".join(f"{name} {kind.label} of {kind.extent}" for name, kind in kinds.items())
    name = on_fabric(fabric.name, fabric.overrides)
    yield Headline(f"{name} joins {fabric.ranks} ranks: {tiers}.")
    yield _tree(fabric, result.facts)
    yield from listed("assumed in the file", assumed_in(fabric.overrides))
    sigma: Column[TierFacts] = number(
        "sigma",
        "sigma",
        "{:.3g}".format,
        get=lambda facts: kinds[facts.name].sigma_of(facts.planes),
    )
    table = _table(result)
    # before the bisection that it is about; CSV does without, as it follows from the others
    columns: list[Column[TierFacts]] = []
    for column in table.columns:
        if column.key == "bisection_Bps":
            columns.append(sigma)
        columns.append(column)
    yield table._replace(columns=tuple(columns), title="one domain of each tier")
    yield from _sizing(fabric, result.facts)
    details = [
        *_parts(fabric, result.facts),
        *_fat_trees(fabric, result.facts),
        *library_blocks(fabric),
        *bill_blocks(result.bill),
        *failure_blocks(result.failures),
        *_notes(result),
    ]
    yield from map(later, details)


def _tree(fabric: Fabric, facts: FabricFacts) -> Lines:
    """The tiers as a tree, outermost first, a line each; the ranks are in the headline."""
    tree = []
    if fabric.launch_overhead:
        tree.append(f"launch overhead {format_time(fabric.launch_overhead)}")
    indent = ""
    for tier, tier_facts in zip(reversed(fabric.tiers), reversed(facts.tiers), strict=True):
        tree.append(
            f"{indent}+- {tier.name}: {_tier_text(tier)}{_levels_in_short(tier, tier_facts)}"
        )
        indent += "   "
    return Lines(fabric_title(fabric), tree)


def _levels_in_short(tier: Tier, facts: TierFacts) -> str:
    """What a price depends on in a tier's levels: long cables, oversubscription, and what switches compute.
    Empty, or begins with a comma."""
    kind = capabilities_of(tier)
    text = ""
    # a tier with a trunk has a class more than the file has levels
    for distance, level in zip(kind.classes, facts.levels, strict=False):
        # of a tier without levels the line has its alpha already
        if kind.levels and distance.cable_m:
            text += f", {level.name} {alpha_text(distance)}"
        if level.oversubscription != 1:
            text += f", {level.oversubscription:.4g}:1 oversubscribed at {level.name}"
    if kind.in_network is not None:
        text += f", in-network: {operations_text(kind.in_network)}"
    return text


_FACTS_IN_WORDS = (
    "diameter: the most links between two endpoints",
    "sigma: what half of the endpoints inject, divided by the bisection one way",
)


def _parts(fabric: Fabric, facts: FabricFacts) -> Iterator[Block]:
    """The levels, in-network operations and planes of each tier, and what the table counts."""
    for tier, tier_facts in zip(fabric.tiers, facts.tiers, strict=True):
        yield from listed(tier.name, part_lines(tier, tier_facts, outermost_first=True))
    yield Lines("the table counts", _FACTS_IN_WORDS)


def _tier_text(tier: Tier) -> str:
    """A tier in a line: its kind, extent, rates and overheads."""
    kind = capabilities_of(tier)
    text = f"{kind.label} of {kind.extent}, "
    if not kind.levels:
        text += f"{alpha_text(kind.classes[0])}, "
    text += f"BW {format_rate(tier.bandwidth)}"
    if tier.ports > 1:
        text += f" x {tier.ports} ports"
    if not kind.has_ports:
        text += " per link"
    text += f", eta {tier.eta.alpha:g}/{tier.eta.beta:g}"
    if tier.post:
        text += f", post {format_time(tier.post)}"
    if tier.energy is not None:
        text += f", {format_bit_energy(tier.energy)}"
    return text


def _sizing(fabric: Fabric, facts: FabricFacts) -> Iterator[Block]:
    """Blocks on how the switches of each tier that was sized by rule are counted, or why they are not."""
    for tier, tier_facts in zip(fabric.tiers, facts.tiers, strict=True):
        plan = tier_facts.sizing
        if plan is None:
            for misfit in tier_facts.misfits:
                yield Lines(f"{tier.name}: {misfit}", ())
            continue
        lines = list(plan_lines(plan))
        if tier.rail_only:
            kind = "rails that never meet"
        else:
            # more rails than the planes that one NIC's ports are split over
            kind = "rail-optimised" if plan.rails > plan.split else "sized"
            lines += uncounted_lines(plan)
        yield Lines(f"{tier.name}, {kind}: {'; '.join(lines)}", tier_facts.misfits)


def _fat_trees(fabric: Fabric, facts: FabricFacts) -> Iterator[Block]:
    """The fat-tree that each tier would be."""
    for tier, tier_facts in zip(fabric.tiers, facts.tiers, strict=True):
        tree = tier_facts.fat_tree
        if tree is not None:
            counts = f"{tree.edge} edge, {tree.aggregation} aggregation, {tree.core} core"
            text = (
                f"k = {tree.k}: up to {tree.endpoints} endpoints, {tree.switches} switches"
                f" ({counts}), {tree.links} cables"
            )
            yield Lines(f"{tier.name}, as a non-blocking fat-tree of equal switches", (text,))


def _notes(result: FabricShown) -> Iterator[Block]:
    """What the library reached, then the notes of the file, the facts and the bill."""
    fabric = result.fabric
    library = fabric.library_facts
    if library is not None:
        yield Lines(library_text(library), tuple(map(reached_text, library.reached)))
    file_notes = _note_texts(fabric.notes)
    derived_notes: list[str] = []
    for tier, facts in zip(fabric.tiers, result.facts.tiers, strict=True):
        file_notes += [f"{tier.name}: {note}" for note in _note_texts(tier.notes)]
        derived_notes += [f"{tier.name}: {note}" for note in facts.notes]
    derived_notes += result.bill.notes
    # what the file says of its numbers may no longer hold for those that were set
    if fabric.overrides:
        yield from listed("notes of the file, before what is set", map(one_line, file_notes))
        file_notes = []
    yield from listed("notes", map(one_line, file_notes + derived_notes))


def _note_texts(notes: str | list[str] | dict[str, str] | None) -> list[str]:
    """The notes of a file, which may be one text, a list, or texts by key."""
    if isinstance(notes, dict):
        return [f"{key}: {text}" for key, text in notes.items()]
    if isinstance(notes, str):
        return [notes]
    return list(notes or ())


_FACTS: Columns[TierFacts] = (
    label("tier", path="name"),
    label("topology", drop=4),
    number("endpoints"),
    number("domains", drop=3),
    number("diameter_links", "diameter"),
    number("bisection_Bps", "bisection"),
    number("neighbours", drop=5),
    number("links", drop=1),
    number("switches", drop=2),
)


def _table(result: FabricShown) -> Table:
    return Table((*context(fabric=result.fabric.name), *_FACTS), result.facts.tiers)


def _file_content(result: FabricShown) -> dict[str, Any]:
    """The fabric file, with what was set in it."""
    content = result.fabric.model_dump(by_alias=True, exclude_none=True)
    del content["schema"]
    content["tiers"] = list(with_protocols(content["tiers"], result.fabric))
    return content


class SizingDocument(Document, of=ClosPlan):
    """The switches and cables of a sized tier, in its facts."""

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


class GivenFabricDocument(Document):
    """The text of a fabric file as values."""

    fabric: dict[str, Any] = derived(_file_content)


class FabricShowDocument(GivenFabricDocument, SetInFabricDocument):
    """A fabric, and what follows from it."""

    facts: FabricFacts
    library: list[TierLibraryDocument] = derived(lambda result: library_document(result.fabric))
    bill: BillDocument
    failures: list[Failure]


def _summary(result: FabricShown | FabricDrawn) -> str:
    fabric = result.fabric
    kinds = map(capabilities_of, fabric.tiers)
    tiers = ", ".join(f"{kind.tier.name} {kind.label} {kind.extent}" for kind in kinds)
    return f"{fabric_title(fabric)}\n{fabric.ranks} ranks: {tiers}"


# --- the list of shipped fabrics


def _extents(fabric: Fabric) -> str:
    """``nvlink 8, ib 32``."""
    return ", ".join(f"{tier.name} {capabilities_of(tier).extent}" for tier in fabric.tiers)


_LIST: Columns[Fabric] = (
    label("name"),
    number("ranks"),
    label("numbers", get=basis_of),
    label("tiers", "tiers, innermost first", drop=1, get=_extents),
    label("description", drop=2, get=lambda fabric: one_line(fabric.description or "")),
)


def _list_table(result: FabricList) -> Table:
    return Table(_LIST, result.fabrics)


class FabricOfListDocument(Document, of=Fabric):
    """A shipped fabric."""

    name: str
    description: str | None
    ranks: int
    numbers: str = derived(basis_of)
    tiers: list[str] = derived(lambda fabric: [tier.name for tier in fabric.tiers])


class FabricListDocument(Document):
    """The shipped fabrics."""

    fabrics: list[FabricOfListDocument]


def _list_summary(result: FabricList) -> str:
    names = [fabric.name for fabric in result.fabrics]
    return f"{counted(len(names), 'fabric')}: {', '.join(names)}"


VIEWS = {
    FabricShown: View("fabric-show", _blocks, FabricShowDocument.of, _table, _summary),
    FabricList: View(
        "fabric-list",
        lambda result: [_list_table(result)],
        FabricListDocument.of,
        _list_table,
        _list_summary,
    ),
    FabricDrawn: View("fabric-draw", drawn_blocks, FabricDrawDocument.of, drawn_table, _summary),
}
