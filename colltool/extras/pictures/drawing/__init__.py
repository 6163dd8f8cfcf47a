"""The drawing of a fabric: a card per tier, outermost first; each zooms into an endpoint of the one
above.

:func:`fabric_svg` is the entry. A card has texts in a column on the left and the tier's drawing beside it, for which
``DRAWN`` has a function for each kind of tier. A ``Focus`` is a drawn endpoint, which the next card shows.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from colltool.base.errors import printable
from colltool.base.formatting import counted, format_time
from colltool.extras.pictures.drawing.endpoints import Focus
from colltool.extras.pictures.drawing.lattice import zoom
from colltool.extras.pictures.drawing.svg import DARK, LIGHT, Area, Canvas, TextColumn, rules
from colltool.extras.pictures.drawing.tiers import DRAWN
from colltool.fabric.model import Fabric
from colltool.render.dispatch import description_line, on_fabric
from colltool.render.views.fabric_diagram import (
    TierDiagram,
    alternative_text,
    diagrams,
    fact_texts,
    kind_text,
    max_size_text,
    place_text,
)

# All in pixels.
WIDTH = 480.0
_MARGIN = 12.0  # around the cards
_PADDING = 16.0  # inside them
_BETWEEN = 30.0  # from one to the next
_TEXT_WIDTH = 150.0  # the column of texts in a card
_GAP = 12.0  # from there to the drawing
_PAPER = "#ffffff"
_DARK_PAPER = "#0d1117"


def fabric_svg(fabric: Fabric, prefix: str = "fabric", *, page: bool = False) -> str:
    """A fabric as one ``<svg>`` element; the same fabric gives the same text.

    ``prefix``: starts all ids, so that a page can have several drawings. ``page``: for an
    HTML page: no namespace, background or style. The page may colour its classes, see
    :func:`rules`.
    """
    root = ET.Element("svg")
    if not page:
        root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}-title {prefix}-desc")
    root.set("font-family", "system-ui, sans-serif")
    title = ET.SubElement(root, "title", id=f"{prefix}-title")
    title.text = printable(f"Fabric {on_fabric(fabric.name, fabric.overrides)}")
    description = ET.SubElement(root, "desc", id=f"{prefix}-desc")
    description.text = printable(alternative_text(fabric))
    width = f"{WIDTH:.0f}"
    sheet = None
    if not page:
        dark = f".ct-page {{ fill: {_DARK_PAPER}; }} {rules(DARK)}"
        style = ET.SubElement(root, "style")
        style.text = f"@media (prefers-color-scheme: dark) {{ {dark} }}"
        attributes = {"class": "ct-page", "width": width, "fill": _PAPER}
        sheet = ET.SubElement(root, "rect", attributes)
    canvas = Canvas(root)
    bottom = _head(canvas, fabric)
    focus = None
    for diagram in reversed(diagrams(fabric)):
        bottom, focus = _card(canvas, diagram, bottom, focus)
    height = f"{bottom + _MARGIN:.0f}"
    if sheet is not None:
        sheet.set("height", height)
    root.set("width", width)
    root.set("height", height)
    root.set("viewBox", f"0 0 {width} {height}")
    return ET.tostring(root, encoding="unicode")


def drawn_endpoints(diagram: TierDiagram) -> int:
    """How many of a tier's endpoints its drawing shows."""
    _, count_drawn = DRAWN[diagram.kind.joined_by]
    return count_drawn(diagram)


def _head(canvas: Canvas, fabric: Fabric) -> float:
    """Write what the fabric is; return the height to which :func:`_card` draws its first card."""
    area = Area(_MARGIN, _MARGIN, WIDTH - 2 * _MARGIN)
    canvas.text(area.left, area.top + 18, fabric.name, area.width, size=20, bold=True)
    texts = TextColumn(canvas, area._replace(top=area.top + 28))
    if fabric.overrides:
        texts.write(f"with {', '.join(map('='.join, fabric.overrides))}", most=3)
    ranks = counted(fabric.ranks, "rank")
    if fabric.launch_overhead:
        ranks += f", launch overhead {format_time(fabric.launch_overhead)}"
    texts.write(ranks)
    if fabric.description:
        texts.write(description_line(fabric), tone="ct-soft", most=4)
    # a card begins _BETWEEN below what is above it; the first one 12 pixels below these texts
    return texts.bottom + 12 - _BETWEEN


def _card(
    canvas: Canvas, diagram: TierDiagram, above: float, focus: Focus | None
) -> tuple[float, Focus]:
    """Draw a tier's card below the height ``above``, with lines from ``focus``, the endpoint of the tier
    above that it shows; return where the card ends, and the endpoint that the next card shows."""
    frame = Area(_MARGIN, above + _BETWEEN, WIDTH - 2 * _MARGIN)
    # the height is set below, once it is known
    box = canvas.box(frame.left, frame.top, frame.width, 0, "ct-box", round_=8)
    if focus is not None:
        zoom(canvas, focus, above, (frame.left, frame.top), (frame.right, frame.top))
    inside = Area(frame.left + _PADDING, frame.top + _PADDING, frame.width - 2 * _PADDING)
    canvas.text(inside.left, inside.top + 14, diagram.tier.name, inside.width, size=17, bold=True)
    texts = TextColumn(canvas, inside._replace(top=inside.top + 24))
    texts.write("; ".join(filter(None, (kind_text(diagram), place_text(diagram)))), most=4)
    texts.write_each(filter(None, [max_size_text(diagram)]))
    top = texts.bottom + 8
    for name, text in fact_texts(diagram):
        canvas.text(inside.left, top + 14, name, _TEXT_WIDTH, tone="ct-soft")
        fact = TextColumn(canvas, _beside_texts(inside, top))
        fact.write(text)
        top = fact.bottom
    top += _PADDING
    text_column = TextColumn(canvas, Area(inside.left, top, _TEXT_WIDTH))
    draw, _ = DRAWN[diagram.kind.joined_by]
    next_focus = draw(canvas, diagram, text_column, _beside_texts(inside, top))
    text_column.skip_to(next_focus.y)
    bottom = text_column.bottom + _PADDING
    box.set("height", f"{bottom - frame.top:.1f}")
    return bottom, next_focus


def _beside_texts(inside: Area, top: float) -> Area:
    """The part of a card on the right of its column of texts."""
    return Area(inside.left + _TEXT_WIDTH + _GAP, top, inside.width - _TEXT_WIDTH - _GAP)


__all__ = ["DARK", "LIGHT", "drawn_endpoints", "fabric_svg", "rules"]
