"""Plots for HTML pages: inline ``<svg>`` elements that take the colours of the page around them, and their alt texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from colltool.base.result import Result
from colltool.render.plot import page_picture
from colltool.render.plot.style import GRID, INK, LINE, PAPER, SOFT

PAGE_COLOURS = {INK: "--ct-ink", SOFT: "--ct-soft", LINE: "--ct-line", GRID: "--ct-grid", PAPER: "--ct-paper"}
"""The CSS custom properties that a dark page sets; the colours of data stay."""

_OF_LETTERS = "scale(0.015625)"  # matplotlib gives this transform to glyph outlines only
_PIXELS_A_POINT = 1.25 * 96 / 72  # enlarged, as 8 points stand beside a page's text of 14 or 16 pixels
_XLINK = "{http://www.w3.org/1999/xlink}href"
_POINTS = re.compile(r"([\d.]+)pt")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LINK = re.compile(r"url\(#([^)]+)\)")
_NUMBER = re.compile(r"-?\d+\.\d+")
_ACROSS = re.compile(r"translate\((\S+) 0\)")
_PLACES = ("d", "x", "y", "width", "height", "points")


class Letters:
    """Glyph outlines shared by the plots of a page, each once in :attr:`svg`, which the page puts before them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def take(self, root: ElementTree.Element) -> None:
        """Replace a plot's own outlines by references to the shared ones."""
        names: dict[str, str] = {}
        for defs in root.iter("defs"):
            for outline in [one for one in defs if one.get("transform") == _OF_LETTERS]:
                drawn = outline.get("d", "")
                names[f"#{outline.get('id')}"] = "#" + self._names.setdefault(drawn, f"letter-{len(self._names)}")
                defs.remove(outline)
        for one in root.iter("use"):
            one.set("href", names.get(one.attrib["href"], one.attrib["href"]))

    @property
    def svg(self) -> str:
        root = ElementTree.Element("svg", {"width": "0", "height": "0", "aria-hidden": "true", "style": "position: absolute"})
        defs = ElementTree.SubElement(root, "defs")
        for drawn, name in self._names.items():
            ElementTree.SubElement(defs, "path", {"id": name, "transform": _OF_LETTERS} | ({"d": drawn} if drawn else {}))
        return ElementTree.tostring(root, encoding="unicode")


def page_svg(
    result: Result, view: str = "", prefix: str = "fig", *, packages: str = "matplotlib", letters: Letters | None = None
) -> str:
    """The plot of a result as one ``<svg>`` element for an HTML page.

    Colours of text, lines and paper are CSS custom properties (:data:`PAGE_COLOURS`) that default to light ones.

    Args:
        result: one of :data:`colltool.render.plot.views.VIEWS`.
        view: one of its views, the first by default.
        prefix: of all ids; each plot of a page needs its own.
        packages: what the error says to install when matplotlib is missing.
        letters: the outlines that the plots of a page share; without it a plot has its own.
    """
    root = ElementTree.fromstring(page_picture(result, view, packages=packages))
    _strip(root)
    _rename(root, prefix)
    if letters is not None:
        letters.take(root)
    _flatten(root)
    for element in root.iter():
        _restyle(element)
    width, height = (float(_POINTS.fullmatch(root.attrib[side])[1]) * _PIXELS_A_POINT for side in ("width", "height"))  # type: ignore[index]
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "role": "img",
        "aria-label": alternative(result, view),
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "viewBox": root.attrib["viewBox"],
        "style": "stroke-linejoin: round; stroke-linecap: butt",  # as in matplotlib's own style sheet, which was stripped
    }
    return ElementTree.tostring(root, encoding="unicode")


def alternative(result: Result, view: str = "") -> str:
    """The alt text of a plot, in a sentence or two; needs no matplotlib."""
    from colltool.render.plot.views import chart_of

    return chart_of(result, view).alt


def _strip(root: ElementTree.Element) -> None:
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.text, element.tail = None, None
        if (link := element.attrib.pop(_XLINK, None)) is not None:
            element.set("href", link)
    for parent in list(root.iter()):
        parent[:] = [child for child in parent if child.tag not in ("metadata", "style")]


def _rename(root: ElementTree.Element, prefix: str) -> None:
    names = {name: f"{prefix}-{at}" for at, name in enumerate(dict.fromkeys(_referred(root)))}
    for element in root.iter():
        name = element.attrib.pop("id", None)
        if name in names:
            element.set("id", names[name])
        for key, value in element.items():
            if key == "href":
                element.set(key, f"#{names[value[1:]]}")
            elif "url(#" in value:
                element.set(key, _LINK.sub(lambda found: f"url(#{names[found[1]]})", value))


def _referred(root: ElementTree.Element) -> Iterator[str]:
    for element in root.iter():
        for key, value in element.items():
            if key == "href":
                yield value[1:]
            else:
                yield from _LINK.findall(value)


def _flatten(parent: ElementTree.Element) -> None:
    found: list[ElementTree.Element] = []
    for child in parent:
        _flatten(child)
        found += list(child) if child.tag == "g" and not child.attrib else [child]
    parent[:] = found
    styles = {child.get("style") for child in parent}
    if parent.tag == "g" and len(parent) > 1 and len(styles) == 1 and None not in styles and "style" not in parent.attrib:
        parent.set("style", styles.pop() or "")  # as of the marks of a line
        for child in parent:
            del child.attrib["style"]


def _restyle(element: ElementTree.Element) -> None:
    for key in ("style", "fill", "stroke"):
        if key in element.attrib:
            element.set(key, _COLOUR.sub(_of_page, element.attrib[key]))
    if element.tag == "use" and (found := _ACROSS.fullmatch(element.attrib.get("transform", ""))):
        del element.attrib["transform"]  # one glyph of a text
        element.set("x", found[1])
    for key in _PLACES:
        if key in element.attrib:
            element.set(key, " ".join(_NUMBER.sub(_rounded, element.attrib[key]).split()))


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _of_page(found: re.Match[str]) -> str:
    name = PAGE_COLOURS.get(found[0])
    return f"var({name}, {found[0]})" if name else found[0]
