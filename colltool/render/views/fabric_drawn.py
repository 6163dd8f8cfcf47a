"""``fabric draw``: a fabric's tiers and levels as a drawing, in rows, and as JSON.

The drawing itself is an extra (:mod:`colltool.extras.pictures.drawing`), which ``drawing()`` loads by its name;
where there is only text, ``fabric_boxes`` draws it.
"""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.extras import drawing
from colltool.fabric.results import FabricDrawn
from colltool.render.blocks import Block, Columns, Lines, Picture, Table, columns_at, label, number
from colltool.render.dispatch import context, set_text
from colltool.render.documents import Document, derived, or_null
from colltool.render.shared_documents import FabricFileDocument
from colltool.render.views.fabric_boxes import boxes
from colltool.render.views.fabric_diagram import (
    LevelDiagram,
    TierDiagram,
    alternative_text,
    diagrams,
    fabric_title,
)


def drawn_blocks(result: FabricDrawn) -> list[Block]:
    """The drawing, with the one in text that stands in its place where there is only text."""
    svg = drawing().fabric_svg(result.fabric, result.fabric.name, page=True)
    lines = boxes(result.fabric)
    return [Picture(svg, Lines(fabric_title(result.fabric), lines, verbatim=True))]


# --- the table


class _DrawnRow(NamedTuple):
    """A level of a tier, or a tier without levels."""

    tier: TierDiagram
    level: LevelDiagram | None


def _drawn_endpoints(diagram: TierDiagram) -> int:
    """How many endpoints of a tier the drawing shows."""
    return drawing().drawn_endpoints(diagram)


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


def drawn_table(result: FabricDrawn) -> Table:
    """A row for each level, bottom up, or for a tier without levels; tiers innermost first."""
    context_columns = context(fabric=result.fabric.name, set=set_text(result.fabric.overrides))
    rows = []
    for diagram in diagrams(result.fabric):
        rows += [_DrawnRow(diagram, level) for level in diagram.levels or (None,)]
    return Table((*context_columns, *_DRAWN), rows)


# --- the document


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


def _alpha_s(diagram: TierDiagram) -> float | None:
    """The latency of a tier without levels, which have their own."""
    return None if diagram.kind.levels else diagram.kind.classes[0].alpha_s


class DrawnTierDocument(Document, of=TierDiagram, at="tier"):
    """A tier as it is drawn."""

    name: str
    topology: str
    # of a lattice
    shape: list[int] | None = derived(
        lambda diagram: [axis.size for axis in diagram.kind.axes] or None
    )
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
