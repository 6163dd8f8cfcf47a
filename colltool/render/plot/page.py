"""Pictures for a page: a result as one inline ``<svg>`` that takes the colours of the page around it, and its text in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from colltool.base.result import Result
from colltool.render.plot import page_picture
from colltool.render.plot.style import GRID, INK, LINE, PAPER, SOFT

PAGE_COLOURS = {INK: "--ct-ink", SOFT: "--ct-soft", LINE: "--ct-line", GRID: "--ct-grid", PAPER: "--ct-paper"}
"""The CSS custom property for each colour of the style: a dark page sets these five; what data is drawn in stays."""

_OF_LETTERS = "scale(0.015625)"
"""How matplotlib scales the outline of a letter, and nothing else."""

_PIXELS_A_POINT = 1.25 * 96 / 72  # 8 points are read beside a page's text of 14 or 16 pixels
_XLINK = "{http://www.w3.org/1999/xlink}href"
_POINTS = re.compile(r"([\d.]+)pt")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LINK = re.compile(r"url\(#([^)]+)\)")
_NUMBER = re.compile(r"-?\d+\.\d+")
_ACROSS = re.compile(r"translate\((\S+) 0\)")
_PLACES = ("d", "x", "y", "width", "height", "points")


class Letters:
    """The outlines of letters that the pictures of a page share: each stands once in :attr:`svg`, which goes before them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def take(self, root: ElementTree.Element) -> None:
        """Refer to the shared outlines in place of a picture's own."""
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
    """The picture of a result as one ``<svg>`` element for a page of HTML; the same bytes for the same result.

    Its background is the page's, its letters are outlines, its ids begin with ``prefix``, and ``aria-label`` says in words what
    is to be seen. Colours of text, lines and paper are CSS custom properties (:data:`PAGE_COLOURS`) with a light value besides.

    Args:
        result: one of :data:`colltool.render.plot.views.VIEWS`.
        view: what to show, where there is a choice; the usual view when empty.
        prefix: of its ids, another one for each picture of a page.
        packages: what an error says to install where matplotlib is missing.
        letters: of the page, where its pictures share them; each has its own when None.

    Raises:
        ColltoolError: no matplotlib, a result without a picture or such a view, nothing to draw.
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
        "style": "stroke-linejoin: round; stroke-linecap: butt",  # what matplotlib says of every element of a document
    }
    return ElementTree.tostring(root, encoding="unicode")


def alternative(result: Result, view: str = "") -> str:
    """What is to be seen in the picture of a result, in a sentence or two.

    Raises:
        ColltoolError: a result without a picture, or without this view.
    """
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
        parent.set("style", styles.pop() or "")  # the marks of a line look the same
        for child in parent:
            del child.attrib["style"]


def _restyle(element: ElementTree.Element) -> None:
    for key in ("style", "fill", "stroke"):
        if key in element.attrib:
            element.set(key, _COLOUR.sub(_of_page, element.attrib[key]))
    if element.tag == "use" and (found := _ACROSS.fullmatch(element.attrib.get("transform", ""))):
        del element.attrib["transform"]  # a letter of a line
        element.set("x", found[1])
    for key in _PLACES:
        if key in element.attrib:
            element.set(key, " ".join(_NUMBER.sub(_rounded, element.attrib[key]).split()))


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _of_page(found: re.Match[str]) -> str:
    name = PAGE_COLOURS.get(found[0])
    return f"var({name}, {found[0]})" if name else found[0]
