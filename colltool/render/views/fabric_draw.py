"""``fabric draw``: the drawing of a fabric; as text the tree of ``fabric show``."""

from __future__ import annotations

from typing import Any, NamedTuple

from colltool.fabric.results import FabricDrawn
from colltool.render.blocks import Block, Picture, Table, label, number
from colltool.render.drawing import drawn_endpoints, fabric_svg
from colltool.render.drawing.diagram import LevelDiagram, TierDiagram, alternative_text, diagrams
from colltool.render.view import Document, View, fields, set_field, set_text
from colltool.render.views.fabric import fabric_summary, tree_of


class _DrawnRow(NamedTuple):
    tier: TierDiagram
    level: LevelDiagram | None


def _blocks(result: FabricDrawn) -> list[Block]:
    fabric = result.fabric
    return [Picture(fabric_svg(fabric, fabric.name, page=True), tree_of(fabric, result.facts))]


def _document(result: FabricDrawn) -> Document:
    fabric = result.fabric
    tiers = [_tier(diagram) for diagram in diagrams(fabric)]
    head = {"fabric": fabric.name, **set_field(fabric.overrides), "ranks": fabric.ranks}
    return {**head, "tiers": tiers, "text": alternative_text(fabric)}


def _tier(diagram: TierDiagram) -> Document:
    tier, facts, kind = diagram.tier, diagram.facts, diagram.kind
    return {
        "name": tier.name,
        "topology": tier.topology,
        "shape": [axis.size for axis in kind.axes] or None,
        "endpoints": facts.endpoints,
        "drawn": drawn_endpoints(diagram),
        "ranks": facts.ranks,
        "domains": facts.domains,
        "max_size": tier.max_size,
        "ports": diagram.ports,
        "bandwidth_Bps": tier.bandwidth,
        "alpha_s": None if kind.levels else kind.classes[0].alpha_s,
        "eta_alpha": tier.eta.alpha,
        "eta_beta": tier.eta.beta,
        "in_network": sorted(kind.operations),
        "levels": [_level(level) for level in diagram.levels],
    }


def _level(level: LevelDiagram) -> dict[str, Any]:
    return {
        "name": level.name or None,
        "group": level.pairs.group,
        "groups": level.groups,
        **fields(level.pairs, "alpha_s oversubscription"),
        **fields(level, "uplinks switches rails reached"),
    }


_COLUMNS = (
    label("tier", "tier", get=lambda row: row.tier.tier.name),
    label("topology", "topology", get=lambda row: row.tier.tier.topology),
    number("endpoints", "endpoints", get=lambda row: row.tier.facts.endpoints),
    number("drawn", "drawn", get=lambda row: drawn_endpoints(row.tier)),
    number("domains", "domains", get=lambda row: row.tier.facts.domains),
    number("ports", "ports", get=lambda row: row.tier.ports),
    label("level", "level", get=lambda row: row.level and row.level.name),
    number("group", "group", get=lambda row: row.level and row.level.pairs.group),
    number("groups", "groups", get=lambda row: row.level and row.level.groups),
    number("switches", "switches", get=lambda row: row.level and row.level.switches),
    number("oversubscription", "oversubscription", get=lambda row: row.level and row.level.pairs.oversubscription),
    number("uplinks", "uplinks", get=lambda row: row.level and row.level.uplinks),
)


def _table(result: FabricDrawn) -> Table:
    on = (
        label("fabric", "fabric", get=lambda _: result.fabric.name, hidden=True),
        label("set", "set", get=lambda _: set_text(result.fabric.overrides), hidden=True),
    )
    rows = (_DrawnRow(diagram, level) for diagram in diagrams(result.fabric) for level in diagram.levels or (None,))
    return Table((*on, *_COLUMNS), tuple(rows))


VIEWS = {FabricDrawn: View("fabric-draw", _blocks, _document, _table, fabric_summary)}
