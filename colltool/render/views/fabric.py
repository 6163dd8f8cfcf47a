"""``fabric show``, ``list`` and ``draw``: the tiers as a tree or drawn, derived facts, sizing, cost
and failures.

Read from :data:`VIEWS`, at the end: ``show`` (:func:`_blocks`), ``list`` (``_list_*``) and
``draw`` (``_drawn_*``) follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from colltool.base.extras import drawing
from colltool.base.formatting import counted, format_bit_energy, format_rate, format_time
from colltool.fabric.failures import Failure
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.properties import FabricFacts, TierFacts, basis_of
from colltool.fabric.results import FabricDrawn, FabricList, FabricShown
from colltool.fabric.topology import capabilities_of
from colltool.machines.used import assumed_in
from colltool.render.blocks import (
    Block,
    Column,
    Columns,
    Headline,
    Lines,
    Picture,
    Table,
    columns_at,
    label,
    later,
    number,
)
from colltool.render.dispatch import View, context, described, listed, on_fabric, one_line, set_text
from colltool.render.documents import Document, derived, or_null
from colltool.render.shared_documents import FabricFileDocument, SetInFabricDocument
from colltool.render.views.fabric_boxes import boxes
from colltool.render.views.fabric_diagram import (
    LevelDiagram,
    TierDiagram,
    alternative_text,
    diagrams,
)
from colltool.render.views.fabric_parts import (
    BillDocument,
    alpha_text,
    bill_blocks,
    failure_blocks,
    library_text,
    operations_text,
    part_lines,
    plan_lines,
    reached_text,
    uncounted,
)
from colltool.render.views.library import (
    TierLibraryDocument,
    library_blocks,
    library_document,
    with_protocols,
)


def _blocks(result: FabricShown) -> Iterator[Block]:
    fabric = result.fabric
    kinds = {tier.name: capabilities_of(tier) for tier in fabric.tiers}
    joined = " in ".join(f"{name} {kind.label} of {kind.extent}" for name, kind in kinds.items())
    yield Headline(f"{_name(fabric)} joins {fabric.ranks} ranks: {joined}.")
    yield _tree(fabric, result.facts)
    yield from listed("assumed in the file", assumed_in(fabric.overrides))
    sigma: Column[TierFacts] = number(
        "sigma",
        "sigma",
        "{:.3g}".format,
        get=lambda facts: kinds[facts.name].sigma_of(facts.planes),
    )
    table = _table(result)
    # beside the bisection that it is about; CSV does without, as it follows from the others
    columns = (*table.columns[:6], sigma, *table.columns[6:])
    yield table._replace(columns=columns, title="one domain of each tier")
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


def _name(fabric: Fabric) -> str:
    return on_fabric(fabric.name, fabric.overrides)


def _tree(fabric: Fabric, facts: FabricFacts) -> Lines:
    """The tiers as a tree, outermost first: a line each, as the headline has the ranks."""
    tree = []
    if fabric.launch_overhead:
        tree.append(f"launch overhead {format_time(fabric.launch_overhead)}")
    indent = ""
    for tier, tier_facts in zip(reversed(fabric.tiers), reversed(facts.tiers), strict=True):
        tree.append(f"{indent}+- {tier.name}: {_tier_text(tier)}{_in_short(tier, tier_facts)}")
        indent += "   "
    return Lines(_title(fabric), tree)


def _in_short(tier: Tier, facts: TierFacts) -> str:
    """The cables of a tier, whether it is oversubscribed, and what its switches do: what a price
    turns on."""
    kind = capabilities_of(tier)
    text = ""
    # a tier with a trunk has a class more than the file has levels
    for distance, level in zip(kind.classes, facts.levels, strict=False):
        # without levels of its own the tier has said it
        if kind.levels and distance.cable_m:
            text += f", {level.name} {alpha_text(distance)}"
        if level.oversubscription != 1:
            text += f", {level.oversubscription:.4g}:1 oversubscribed at {level.name}"
    if kind.in_network is not None:
        text += f", in-network: {operations_text(kind.in_network)}"
    return text


_COUNTED = (
    "diameter: the most links between two endpoints",
    "sigma: what half of the endpoints inject, divided by the bisection one way",
)


def _parts(fabric: Fabric, facts: FabricFacts) -> Iterator[Block]:
    """The levels, in-network operations and planes of each tier, and what the table counts."""
    for tier, tier_facts in zip(fabric.tiers, facts.tiers, strict=True):
        yield from listed(tier.name, part_lines(tier, tier_facts, outermost_first=True))
    yield Lines("the table counts", _COUNTED)


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


def _title(fabric: Fabric) -> str:
    if not fabric.description:
        return _name(fabric)
    mark = ";" if fabric.overrides else ":"
    return f"{_name(fabric)}{mark} {described(fabric)}"


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
    return f"{_title(fabric)}\n{fabric.ranks} ranks: {tiers}"


def _extents(fabric: Fabric) -> str:
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


def _sizing(fabric: Fabric, facts: FabricFacts) -> Iterator[Block]:
    """How the switches of each tier that was sized by rule are counted, or why they are not."""
    for tier, tier_facts in zip(fabric.tiers, facts.tiers, strict=True):
        plan = tier_facts.sizing
        if plan is None:
            for misfit in tier_facts.misfits:
                yield Lines(f"{tier.name}: {misfit}", ())
            continue
        lines = list(plan_lines(plan))
        if tier.rail_only:
            rails = "rails that never meet"
        else:
            rails = "rail-optimised" if plan.rails > plan.split else "sized"
            lines += uncounted(plan)
        yield Lines(f"{tier.name}, {rails}: {'; '.join(lines)}", tier_facts.misfits)


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
    of_file = _texts(fabric.notes)
    derived_notes: list[str] = []
    for tier, facts in zip(fabric.tiers, result.facts.tiers, strict=True):
        of_file += [f"{tier.name}: {note}" for note in _texts(tier.notes)]
        derived_notes += [f"{tier.name}: {note}" for note in facts.notes]
    derived_notes += result.bill.notes
    # what the file says of its numbers may no longer hold for those that were set
    if fabric.overrides:
        yield from listed("notes of the file, before what is set", map(one_line, of_file))
        of_file = []
    yield from listed("notes", map(one_line, of_file + derived_notes))


def _texts(notes: str | list[str] | dict[str, str] | None) -> list[str]:
    if isinstance(notes, dict):
        return [f"{key}: {text}" for key, text in notes.items()]
    if isinstance(notes, str):
        return [notes]
    return list(notes or ())


class _DrawnRow(NamedTuple):
    """A level of a tier, or a tier without levels."""

    tier: TierDiagram
    level: LevelDiagram | None


def _drawn_blocks(result: FabricDrawn) -> list[Block]:
    # the drawing is an extra, which is loaded by its name alone
    svg = drawing().fabric_svg(result.fabric, result.fabric.name, page=True)
    lines = boxes(result.fabric)
    return [Picture(svg, Lines(_title(result.fabric), lines, verbatim=True))]


class DrawnLevelDocument(Document, of=LevelDiagram):
    """A level of switches."""

    name: str | None = or_null("name")
    group: int = derived("distance.group")
    groups: int
    alpha_s: float = derived("distance.alpha_s")
    oversubscription: float = derived("distance.oversubscription")
    uplinks: float = derived("hop_oversubscription")
    switches: int | None
    rails: int
    reached: bool


def _shape(diagram: TierDiagram) -> list[int] | None:
    return [axis.size for axis in diagram.kind.axes] or None


def _alpha_s(diagram: TierDiagram) -> float | None:
    """The latency of a tier without levels, which have their own."""
    return None if diagram.kind.levels else diagram.kind.classes[0].alpha_s


def _drawn_endpoints(diagram: TierDiagram) -> int:
    return drawing().drawn_endpoints(diagram)


class DrawnTierDocument(Document, of=TierDiagram, at="tier"):
    """A tier as it is drawn."""

    name: str
    topology: str
    shape: list[int] | None = derived(_shape)
    endpoints: int = derived("facts.endpoints")
    drawn: int = derived(_drawn_endpoints)
    ranks: int = derived("facts.ranks")
    domains: int = derived("facts.domains")
    max_size: int | None
    ports: int = derived("ports")
    bandwidth_Bps: float = derived("tier.bandwidth")
    alpha_s: float | None = derived(_alpha_s)
    eta_alpha: float = derived("tier.eta.alpha")
    eta_beta: float = derived("tier.eta.beta")
    in_network: list[str] = derived(lambda diagram: sorted(diagram.kind.operations))
    levels: list[DrawnLevelDocument] = derived("levels")


class FabricDrawDocument(FabricFileDocument):
    """The drawing of a fabric in words and numbers."""

    ranks: int = derived("fabric.ranks")
    tiers: list[DrawnTierDocument] = derived(lambda result: diagrams(result.fabric))
    text: str = derived(lambda result: alternative_text(result.fabric))


_DRAWN: Columns[_DrawnRow] = (
    *columns_at(
        "tier",
        (
            label("tier", path="tier.name"),
            label("topology", path="tier.topology"),
            number("endpoints", path="facts.endpoints"),
            number("drawn", get=lambda row: _drawn_endpoints(row.tier)),
            number("domains", path="facts.domains"),
            number("ports"),
        ),
    ),
    *columns_at(
        "level",
        (
            label("level", path="name"),
            number("group", path="distance.group"),
            number("groups"),
            number("switches"),
            number("oversubscription", path="distance.oversubscription"),
            number("uplinks", path="hop_oversubscription"),
        ),
    ),
)


def _drawn_table(result: FabricDrawn) -> Table:
    hidden = context(fabric=result.fabric.name, set=set_text(result.fabric.overrides))
    rows = []
    for diagram in diagrams(result.fabric):
        rows += [_DrawnRow(diagram, level) for level in diagram.levels or (None,)]
    return Table((*hidden, *_DRAWN), rows)


VIEWS = {
    FabricShown: View("fabric-show", _blocks, FabricShowDocument.of, _table, _summary),
    FabricList: View(
        "fabric-list",
        lambda result: [_list_table(result)],
        FabricListDocument.of,
        _list_table,
        _list_summary,
    ),
    FabricDrawn: View("fabric-draw", _drawn_blocks, FabricDrawDocument.of, _drawn_table, _summary),
}
