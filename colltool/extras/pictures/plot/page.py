"""Plots as inline ``<svg>`` elements of an HTML page: small, in the page's colours, with ids that do
not clash with those of other plots.

:func:`inline_svg` takes the SVG file that matplotlib writes and goes over its elements step by step.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from colltool.extras.pictures.plot.look import GRID, INK, LINE, PAPER, SOFT

PAGE_COLOURS = {
    INK: "--ct-ink",
    SOFT: "--ct-soft",
    LINE: "--ct-line",
    GRID: "--ct-grid",
    PAPER: "--ct-paper",
}
"""The CSS custom properties that a dark page sets; the colours of data stay."""

_GLYPH_TRANSFORM = "scale(0.015625)"  # matplotlib gives this transform to glyph outlines only
# Enlarged, as 8 points stand beside a page's text of 14 or 16 pixels.
_PIXELS_PER_POINT = 1.25 * 96 / 72
_XLINK = "{http://www.w3.org/1999/xlink}href"
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")  # #1a1a1a
_LINK = re.compile(r"url\(#([^)]+)\)")  # url(#p5d3)
_NUMBER = re.compile(r"-?\d+\.\d+")  # -12.345678
_SHIFTED_RIGHT = re.compile(r"translate\((\S+) 0\)")


class GlyphOutlines:
    """Glyph outlines shared by the plots of a page, each once in :attr:`svg`, which the page puts
    before them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def share(self, root: ElementTree.Element) -> None:
        """Replace a plot's own outlines by references to the shared ones."""
        names: dict[str, str] = {}
        for defs in root.iter("defs"):
            for outline in defs.findall(f"*[@transform='{_GLYPH_TRANSFORM}']"):
                name = self._names.setdefault(outline.get("d", ""), f"letter-{len(self._names)}")
                names[f"#{outline.get('id')}"] = f"#{name}"
                defs.remove(outline)
        for use in root.iter("use"):
            link = use.attrib["href"]
            use.set("href", names.get(link, link))

    @property
    def svg(self) -> str:
        """An ``<svg>`` element that shows nothing itself."""
        hidden = {"width": "0", "height": "0", "aria-hidden": "true", "style": "position: absolute"}
        root = ElementTree.Element("svg", hidden)
        defs = ElementTree.SubElement(root, "defs")
        for outline, name in self._names.items():
            path = ElementTree.SubElement(defs, "path", id=name, transform=_GLYPH_TRANSFORM)
            if outline:  # a space has none
                path.set("d", outline)
        return ElementTree.tostring(root, encoding="unicode")


def inline_svg(drawn: bytes, alt: str, prefix: str, letters: GlyphOutlines | None) -> str:
    """matplotlib's SVG file as an element of a page.

    ``prefix``: starts all ids; each plot of a page needs its own. ``letters``: the outlines that the
    plots of a page share; without it a plot has its own.
    """
    root = ElementTree.fromstring(drawn)
    _strip(root)
    _rename(root, prefix)
    if letters is not None:
        letters.share(root)
    _flatten(root)
    for element in root.iter():
        _restyle(element)
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "role": "img",
        "aria-label": alt,
        "width": _pixels(root.attrib["width"]),
        "height": _pixels(root.attrib["height"]),
        "viewBox": root.attrib["viewBox"],
        # as in matplotlib's own style sheet, which was stripped
        "style": "stroke-linejoin: round; stroke-linecap: butt",
    }
    return ElementTree.tostring(root, encoding="unicode")


def _pixels(points: str) -> str:
    """``460.8pt`` in pixels of a page: ``768``."""
    return f"{float(points.removesuffix('pt')) * _PIXELS_PER_POINT:.0f}"


def _strip(root: ElementTree.Element) -> None:
    """Leave out namespaces, white space, metadata and style sheets."""
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.text = None
        element.tail = None
        link = element.attrib.pop(_XLINK, None)
        if link is not None:
            element.set("href", link)
    for parent in list(root.iter()):
        parent[:] = [child for child in parent if child.tag not in ("metadata", "style")]


def _rename(root: ElementTree.Element, prefix: str) -> None:
    """Keep the ids that something refers to, numbered in the order of the references."""
    referred: list[str] = []
    for element in root.iter():
        for key, value in element.items():
            # href="#p5d3", or a link within another attribute
            referred += [value[1:]] if key == "href" else _LINK.findall(value)
    distinct = dict.fromkeys(referred)
    names = {name: f"{prefix}-{number}" for number, name in enumerate(distinct)}
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in names:
            element.set("id", names[name])
        for key, value in element.items():
            if key == "href":
                element.set(key, f"#{names[value[1:]]}")
            else:
                element.set(key, _LINK.sub(lambda link: f"url(#{names[link[1]]})", value))


def _flatten(parent: ElementTree.Element) -> None:
    """Take the content out of groups without attributes, and put a style that all children share,
    such as that of the marks of a line, on their group."""
    children: list[ElementTree.Element] = []
    for child in parent:
        _flatten(child)
        children += list(child) if child.tag == "g" and not child.attrib else [child]
    parent[:] = children
    if parent.tag != "g" or len(parent) < 2 or "style" in parent.attrib:
        return
    style = parent[0].get("style")
    if style is not None and all(child.get("style") == style for child in parent):
        parent.set("style", style)
        for child in parent:
            del child.attrib["style"]


def _restyle(element: ElementTree.Element) -> None:
    """Write colours as properties of the page, and numbers with two digits after the point."""
    shift = _SHIFTED_RIGHT.fullmatch(element.attrib.get("transform", ""))
    # a glyph of a text: x says the same shorter
    if shift and element.tag == "use":
        del element.attrib["transform"]
        element.set("x", shift[1])
    for key, value in element.items():
        if key in ("style", "fill", "stroke"):
            element.set(key, _COLOUR.sub(_page_colour, value))
        elif key in ("d", "x", "y", "width", "height", "points"):
            element.set(key, " ".join(_NUMBER.sub(_rounded_number, value).split()))


def _rounded_number(number: re.Match[str]) -> str:
    """``-12.345678`` as ``-12.35``, ``3.000001`` as ``3``."""
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _page_colour(colour: re.Match[str]) -> str:
    """``#1a1a1a`` as ``var(--ct-ink, #1a1a1a)``; a colour of data as it is."""
    name = PAGE_COLOURS.get(colour[0])
    return f"var({name}, {colour[0]})" if name else colour[0]
