"""The drawing primitives: clipped text, boxes and lines in SVG, with all lengths in pixels.

A colour is set as an attribute, for programs without style sheets, and as a class, whose CSS rules
(of a page, or for a dark scheme) take precedence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import cos, pi, sin
from typing import Literal, NamedTuple
from xml.etree import ElementTree as ET

from colltool.base.errors import printable

Tone = Literal["ct-ink", "ct-soft", "ct-line", "ct-box", "ct-switch", "ct-accent"]
"""The class of a colour: ``ct-line`` colours strokes, the others fills."""
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

_DASHED = {"stroke-dasharray": "4 3"}
# Pixels: font size and line height.
TEXT = 14.0
LINE = 19.0


class Area(NamedTuple):
    """A part of the picture, open to the bottom."""

    left: float
    top: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def middle(self) -> float:
        return self.left + self.width / 2


def on_circle(middle: tuple[float, float], radius: float, count: int) -> list[tuple[float, float]]:
    """``count`` places evenly round a circle, the first at the bottom."""
    places = []
    for number in range(count):
        turn = 2 * pi * number / count
        places.append((middle[0] - radius * sin(turn), middle[1] + radius * cos(turn)))
    return places


def rules(colours: dict[Tone, str]) -> str:
    """CSS of the classes of a drawing."""
    found = []
    for tone, code in colours.items():
        painted = "stroke" if tone == "ct-line" else "fill"
        found.append(f".{tone} {{ {painted}: {code}; }}")
    return " ".join(found)


class Canvas:
    """Draws into an SVG element; what comes later lies on top."""

    def __init__(self, parent: ET.Element) -> None:
        self.parent = parent

    def group(self) -> Canvas:
        """A canvas that draws over what is there and under what comes later."""
        return Canvas(ET.SubElement(self.parent, "g"))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        room: float,
        *,
        tone: Tone = "ct-ink",
        size: float = TEXT,
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        """A line of text; if it does not fit, it is clipped and has the whole as its tooltip."""
        full_text = printable(text)
        line = clipped_to(full_text, room, size, bold=bold)
        self.text_with_tooltip(
            x, y, line, full_text, tone=tone, size=size, bold=bold, anchor=anchor
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        tone: Tone,
        *,
        round_: float = 4,
        dashed: bool = False,
        outlined: bool = True,
    ) -> ET.Element:
        """A rectangle from its upper left corner; ``round_`` is the radius of its corners."""
        attributes = {
            "x": _n(x),
            "y": _n(y),
            "width": _n(width),
            "height": _n(height),
            "rx": _n(round_),
            "fill": LIGHT[tone],
            "class": tone,
        }
        if outlined:
            attributes |= {"class": f"{tone} ct-line", "stroke": LIGHT["ct-line"]}
        if dashed:
            attributes |= _DASHED
        return ET.SubElement(self.parent, "rect", attributes)

    def square(
        self,
        x: float,
        y: float,
        side: float,
        tone: Tone = "ct-soft",
        *,
        round_: float = 2,
        outlined: bool = False,
    ) -> None:
        """An endpoint, or a switch in another tone, around its middle."""
        left = x - side / 2
        self.box(left, y - side / 2, side, side, tone, round_=round_, outlined=outlined)

    def line(self, points: Sequence[tuple[float, float]], *, dashed: bool = False) -> None:
        steps = " L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self.path(f"M{steps}", dashed=dashed)

    def path(self, steps: str, *, dashed: bool = False) -> None:
        """A line by the commands of an SVG path."""
        attributes = {
            "d": steps,
            "fill": "none",
            "class": "ct-line",
            "stroke": LIGHT["ct-line"],
            "stroke-width": "1",
        }
        if dashed:
            attributes |= _DASHED
        ET.SubElement(self.parent, "path", attributes)

    def dot(self, x: float, y: float, radius: float) -> None:
        place = {"cx": _n(x), "cy": _n(y), "r": _n(radius)}
        ET.SubElement(self.parent, "circle", place, fill=LIGHT["ct-soft"]).set("class", "ct-soft")

    def gap(self, x: float, y: float, width: float) -> None:
        """Three dots for what is left out."""
        step = min(5.0, width / 3)
        for number in (-1, 0, 1):
            self.dot(x + number * step, y, min(1.4, step / 3))

    def text_with_tooltip(
        self,
        x: float,
        y: float,
        line: str,
        full_text: str,
        *,
        tone: Tone,
        size: float = TEXT,
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        """A line as it is; where it is not ``full_text``, that is its tooltip."""
        attributes = {
            "x": _n(x),
            "y": _n(y),
            "fill": LIGHT[tone],
            "class": tone,
            "font-size": _n(size),
        }
        if bold:
            attributes["font-weight"] = "bold"
        if anchor != "start":
            attributes["text-anchor"] = anchor
        element = ET.SubElement(self.parent, "text", attributes)
        if line == full_text:
            element.text = line
        else:
            title = ET.SubElement(element, "title")
            title.text = full_text
            title.tail = line


class TextColumn:
    """Paragraphs one below the other; ``bottom`` is where the last one ends."""

    def __init__(self, canvas: Canvas, area: Area) -> None:
        self.canvas = canvas
        self.area = area
        self.bottom = area.top

    def write(self, text: str, *, tone: Tone = "ct-ink", most: int = 6, bold: bool = False) -> None:
        """Text wrapped into at most ``most`` lines, with a tooltip on the last if it is clipped."""
        full_text = printable(" ".join(text.split()))
        lines = lines_of(full_text, self.area.width, TEXT, most, bold=bold)
        last = len(lines) - 1
        for number, line in enumerate(lines):
            tooltip = full_text if number == last and line.endswith("...") else line
            y = self.bottom + LINE * number + TEXT
            self.canvas.text_with_tooltip(self.area.left, y, line, tooltip, tone=tone, bold=bold)
        self.bottom += LINE * len(lines)

    def note(self, text: str) -> None:
        """A text in the soft colour."""
        self.write(text, tone="ct-soft")

    def write_each(self, texts: Iterable[str], *, tone: Tone = "ct-soft", most: int = 6) -> None:
        for text in texts:
            self.write(text, tone=tone, most=most)

    def skip_to(self, y: float) -> None:
        """Go on below what is drawn down to ``y``."""
        self.bottom = max(self.bottom, y)


def _n(value: float) -> str:
    """A number in SVG."""
    return f"{value:.1f}".removesuffix(".0")


# Widths of letters, as shares of the font size, on the wide side: no font is at hand to measure.
_NARROW = 0.42
_USUAL = 0.65
_CAPITAL = 0.8
_WIDE = 1.0
_BOLD_FACTOR = 1.12  # times as wide as the same letter in regular weight
_LONGEST = 1000  # letters; no line has more
_NARROW_LETTERS = frozenset(" .,:;'|!()[]/-fijlrtI")
_WIDE_LETTERS = frozenset("mwMW%@+=<>~#")


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Estimated width in pixels at a font size of ``size`` pixels."""
    return sum(map(_width, text)) * _font(size, bold=bold)


def _width(letter: str) -> float:
    if letter in _NARROW_LETTERS:
        return _NARROW
    if letter in _WIDE_LETTERS or not letter.isascii():
        return _WIDE
    return _CAPITAL if letter.isupper() or letter in "&$" else _USUAL


def _font(size: float, *, bold: bool) -> float:
    """The size of a regular font whose letters are as wide."""
    return size * _BOLD_FACTOR if bold else size


def clipped_to(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """The text, cut and ended with ``...`` if it is wider than ``room`` pixels at this font size."""
    font = _font(size, bold=bold)
    if _fitting(text, room / font) == len(text):
        return text
    length = _fitting(text, (room - width_of("...", size, bold=bold)) / font)
    return f"{text[:length].rstrip()}..."


def _fitting(text: str, widest: float) -> int:
    """How many letters fit into ``widest`` font sizes."""
    width = 0.0
    for number, letter in enumerate(text):
        width += _width(letter)
        if width > widest + 1e-9:
            return number
    return len(text)


def lines_of(text: str, room: float, size: float, most: int, *, bold: bool = False) -> list[str]:
    """The text wrapped into at most ``most`` lines; the last ends in ``...`` if it was cut."""
    lines: list[str] = []
    font = _font(size, bold=bold)
    for word in text.split():
        start = 0
        while start < len(word):
            end = start + max(_fitting(word[start : start + _LONGEST], room / font), 1)
            piece = word[start:end]
            start = end
            longer = f"{lines[-1]} {piece}" if lines else piece
            if lines and width_of(longer, font) <= room:
                lines[-1] = longer
            else:
                lines.append(piece)
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], clipped_to(" ".join(lines[most - 1 :]), room, font)]
