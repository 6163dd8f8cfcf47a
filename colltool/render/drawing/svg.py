"""What a drawing is made with: texts that fit their room, boxes and lines, each in one of six colours.

A colour is an attribute of its element, for programs that know no style sheets, and a class beside it: the rules of a page, or
of a file in a dark scheme, go before attributes. All text is data: ElementTree escapes it, and what XML forbids is spelt out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree as ET

from colltool.base.quoting import printable

Tone = Literal["ct-ink", "ct-soft", "ct-line", "ct-box", "ct-switch", "ct-accent"]
LIGHT: dict[Tone, str] = {
    "ct-ink": "#1f2328",
    "ct-soft": "#57606a",
    "ct-line": "#848d97",
    "ct-box": "#f6f8fa",
    "ct-switch": "#c5daf1",
    "ct-accent": "#a5430a",
}
DARK: dict[Tone, str] = {
    "ct-ink": "#e6edf3",
    "ct-soft": "#9da7b3",
    "ct-line": "#7d8590",
    "ct-box": "#161b22",
    "ct-switch": "#2f4f73",
    "ct-accent": "#f0a35e",
}
"""``ct-line`` colours strokes, the others fills."""

TEXT = 14.0
LINE = 19.0
"""Pixels of a letter and from line to line."""


class Area(NamedTuple):
    left: float
    top: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width


class Focus(NamedTuple):
    """The endpoint that the tier below is drawn for: the middle of its bottom, and half of its width."""

    x: float
    y: float
    half: float


def rules(colours: dict[Tone, str]) -> str:
    return " ".join(f".{tone} {{ {'stroke' if tone == 'ct-line' else 'fill'}: {code}; }}" for tone, code in colours.items())


class Canvas:
    def __init__(self, parent: ET.Element) -> None:
        self.parent = parent

    def group(self) -> Canvas:
        """A canvas for a group of its own, drawn over what is there and under what comes."""
        return Canvas(ET.SubElement(self.parent, "g"))

    def text(self, x: float, y: float, text: str, room: float, *, tone: Tone = "ct-ink", size: float = TEXT,
             bold: bool = False, anchor: str = "start") -> None:  # fmt: skip
        """A line of text; where it does not fit, its beginning, and the whole as its title."""
        whole = printable(text)
        self._text(x, y, clipped_to(whole, room, size, bold=bold), whole, tone=tone, size=size, bold=bold, anchor=anchor)

    def paragraph(self, area: Area, text: str, *, tone: Tone = "ct-ink", most: int = 6, bold: bool = False) -> float:
        """Text in lines below the top of an area; what does not fit ``most`` of them is in the title. Where it ends."""
        whole = printable(" ".join(text.split()))
        lines = lines_of(whole, area.width / (BOLD if bold else 1), TEXT, most)
        for number, line in enumerate(lines):
            said = whole if line.endswith("...") and number == len(lines) - 1 else line
            self._text(area.left, area.top + LINE * number + TEXT, line, said, tone=tone, bold=bold)
        return area.top + LINE * len(lines)

    def box(self, x: float, y: float, width: float, height: float, tone: Tone, *, round_: float = 4, dashed: bool = False,
            outlined: bool = True) -> ET.Element:  # fmt: skip
        given = {"x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height), "rx": _n(round_), "fill": LIGHT[tone]}
        given["class"] = tone
        if outlined:
            given |= {"class": f"{tone} ct-line", "stroke": LIGHT["ct-line"]}
        if dashed:
            given["stroke-dasharray"] = "4 3"
        return ET.SubElement(self.parent, "rect", given)

    def line(self, points: Sequence[tuple[float, float]], *, thick: float = 1, dashed: bool = False) -> None:
        first, *others = [f"{_n(x)} {_n(y)}" for x, y in points]
        self.path(f"M{first}" + "".join(f" L{one}" for one in others), thick=thick, dashed=dashed)

    def path(self, steps: str, *, thick: float = 1, dashed: bool = False, faint: bool = False) -> None:
        given = {"d": steps, "fill": "none", "class": "ct-line", "stroke": LIGHT["ct-line"], "stroke-width": _n(thick)}
        if dashed:
            given["stroke-dasharray"] = "4 3"
        if faint:
            given["stroke-opacity"] = "0.5"
        ET.SubElement(self.parent, "path", given)

    def dot(self, x: float, y: float, radius: float, tone: Tone = "ct-soft") -> None:
        given = {"cx": _n(x), "cy": _n(y), "r": _n(radius), "fill": LIGHT[tone], "class": tone}
        ET.SubElement(self.parent, "circle", given)

    def gap(self, x: float, y: float, width: float) -> None:
        """Three dots in the place of what is left out."""
        step = min(5.0, width / 3)
        for number in (-1, 0, 1):
            self.dot(x + number * step, y, min(1.4, step / 3))

    def _text(self, x: float, y: float, line: str, whole: str, *, tone: Tone, size: float = TEXT, bold: bool = False,
              anchor: str = "start") -> None:  # fmt: skip
        given = {"x": _n(x), "y": _n(y), "fill": LIGHT[tone], "class": tone, "font-size": _n(size)}
        if bold:
            given["font-weight"] = "bold"
        if anchor != "start":
            given["text-anchor"] = anchor
        element = ET.SubElement(self.parent, "text", given)
        element.text = line
        if line != whole:
            title = ET.SubElement(element, "title")
            title.text, element.text = whole, None
            title.tail = line


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


__all__ = ["DARK", "LIGHT", "LINE", "TEXT", "Area", "Canvas", "Focus", "Tone", "rules"]


NARROW, USUAL, CAPITAL, WIDE = 0.42, 0.65, 0.8, 1.0
BOLD = 1.12
_LONGEST = 1000
"""Letters of a line, more than any has."""
_NARROW = frozenset(" .,:;'|!()[]/-fijlrtI")
_WIDE = frozenset("mwMW%@+=<>~#")


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels that a text takes in letters of ``size`` pixels."""
    return sum(map(_width, text)) * size * (BOLD if bold else 1.0)


def _width(char: str) -> float:
    if char in _NARROW:
        return NARROW
    if char in _WIDE or not char.isascii():
        return WIDE
    return CAPITAL if char.isupper() or char in "&$" else USUAL


def clipped_to(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """The text, or its beginning and ``...`` where it is wider than the room."""
    if _fitting(text, room, size, bold) == len(text):
        return text
    fits = _fitting(text, room - width_of("...", size, bold=bold), size, bold)
    return f"{text[:fits].rstrip()}..."


def _fitting(text: str, room: float, size: float, bold: bool = False) -> int:
    widest, wide = room / (size * (BOLD if bold else 1.0)), 0.0
    for number, char in enumerate(text):
        wide += _width(char)
        if wide > widest + 1e-9:
            return number
    return len(text)


def lines_of(text: str, room: float, size: float, most: int) -> list[str]:
    """The text on as many lines as it needs, ``most`` of them; the last ends in ``...`` where that is not all."""
    lines: list[str] = []
    for word in _pieces(text, room, size):
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], clipped_to(" ".join(lines[most - 1 :]), room, size)]


def _pieces(text: str, room: float, size: float) -> Iterator[str]:
    for word in text.split():
        start = 0
        while start < len(word):
            end = start + max(_fitting(word[start : start + _LONGEST], room, size), 1)
            yield word[start:end]
            start = end
