"""The drawing of a fabric: a card per tier, outermost first, each zooming into an endpoint of the
one above."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from colltool.base.errors import printable
from colltool.base.formatting import counted, format_time
from colltool.extras.pictures.drawing.svg import DARK, LIGHT, Area, Canvas, Focus, rules
from colltool.extras.pictures.drawing.tiers import DRAWN, zoom
from colltool.fabric.model import Fabric
from colltool.render.dispatch import described, on_fabric
from colltool.render.views.fabric_diagram import (
    TierDiagram,
    alternative_text,
    diagrams,
    fact_texts,
    kind_text,
    most_text,
    place_text,
)

# pixels
WIDTH = 480.0
_MARGIN, _PADDING, _BETWEEN = 12.0, 16.0, 30.0  # around, inside and between cards
_WORDS, _APART = 150.0, 12.0  # the column of texts in a card, and the gap beside it
_PAGE = {"light": "#ffffff", "dark": "#0d1117"}


def fabric_svg(fabric: Fabric, prefix: str = "fabric", *, page: bool = False) -> str:
    """A fabric as one ``<svg>`` element; the same fabric gives the same text.

    ``prefix``: of all ids, so that several drawings can stand on one page. ``page``: for an HTML
    page: no namespace, background or style. The page may colour its classes, see :func:`rules`.
    """
    root = ET.Element(
        "svg", {"role": "img"} if page else {"xmlns": "http://www.w3.org/2000/svg", "role": "img"}
    )
    root.set("aria-labelledby", f"{prefix}-title {prefix}-desc")
    root.set("font-family", "system-ui, sans-serif")
    ET.SubElement(root, "title", {"id": f"{prefix}-title"}).text = printable(
        f"Fabric {on_fabric(fabric.name, fabric.overrides)}"
    )
    ET.SubElement(root, "desc", {"id": f"{prefix}-desc"}).text = printable(alternative_text(fabric))
    if not page:
        style = (
            f"@media (prefers-color-scheme: dark) {{ .ct-page {{ fill: {_PAGE['dark']}; }}"
            f" {rules(DARK)} }}"
        )
        ET.SubElement(root, "style").text = style
        sheet = ET.SubElement(
            root, "rect", {"class": "ct-page", "width": f"{WIDTH:.0f}", "fill": _PAGE["light"]}
        )
    canvas, focus = Canvas(root), None
    bottom = _head(canvas, fabric)
    for diagram in reversed(diagrams(fabric)):
        bottom, focus = _card(canvas, diagram, bottom, focus)
    height = f"{bottom + _MARGIN:.0f}"
    if not page:
        sheet.set("height", height)
    for key, value in (
        ("width", f"{WIDTH:.0f}"),
        ("height", height),
        ("viewBox", f"0 0 {WIDTH:.0f} {height}"),
    ):
        root.set(key, value)
    return ET.tostring(root, encoding="unicode")


def drawn_endpoints(diagram: TierDiagram) -> int:
    return DRAWN[diagram.kind.joined_by][1](diagram)


def _head(canvas: Canvas, fabric: Fabric) -> float:
    area = Area(_MARGIN, _MARGIN, WIDTH - 2 * _MARGIN)
    canvas.text(area.left, area.top + 18, fabric.name, area.width, size=20, bold=True)
    y = area.top + 28
    if fabric.overrides:
        overrides = ", ".join(f"{key}={value}" for key, value in fabric.overrides)
        y = canvas.paragraph(area._replace(top=y), f"with {overrides}", most=3)
    overhead = (
        f", launch overhead {format_time(fabric.launch_overhead)}" if fabric.launch_overhead else ""
    )
    y = canvas.paragraph(area._replace(top=y), f"{counted(fabric.ranks, 'rank')}{overhead}")
    if fabric.description:
        y = canvas.paragraph(area._replace(top=y), described(fabric), tone="ct-soft", most=4)
    return y + 12 - _BETWEEN


def _card(
    canvas: Canvas, diagram: TierDiagram, above: float, focus: Focus | None
) -> tuple[float, Focus]:
    frame = Area(_MARGIN, above + _BETWEEN, WIDTH - 2 * _MARGIN)
    box = canvas.box(frame.left, frame.top, frame.width, 0, "ct-box", round_=8)
    inside = Area(frame.left + _PADDING, frame.top + _PADDING, frame.width - 2 * _PADDING)
    if focus is not None:
        zoom(canvas, focus, above, (frame.left, frame.top), (frame.right, frame.top))
    words = inside._replace(width=_WORDS)
    canvas.text(inside.left, inside.top + 14, diagram.tier.name, inside.width, size=17, bold=True)
    place = place_text(diagram)
    y = canvas.paragraph(
        inside._replace(top=inside.top + 24),
        kind_text(diagram) + (f"; {place}" if place else ""),
        most=4,
    )
    y = canvas.paragraphs(inside._replace(top=y), filter(None, [most_text(diagram)])) + 8
    for name, text in fact_texts(diagram):
        canvas.text(words.left, y + 14, name, words.width, tone="ct-soft")
        y = canvas.paragraph(_beside(inside, y), text)
    y += _PADDING
    bottom, focus = DRAWN[diagram.kind.joined_by][0](
        canvas, diagram, words._replace(top=y), _beside(inside, y)
    )
    box.set("height", f"{bottom + _PADDING - frame.top:.1f}")
    return bottom + _PADDING, focus


def _beside(inside: Area, top: float) -> Area:
    return Area(inside.left + _WORDS + _APART, top, inside.width - _WORDS - _APART)


__all__ = ["DARK", "LIGHT", "drawn_endpoints", "fabric_svg", "rules"]
