"""The drawing primitives: clipped text, boxes and lines in SVG, with all lengths in pixels.

A colour is set as an attribute, for programs without style sheets, and as a class, whose CSS rules
(of a page, or for a dark scheme) take precedence. The y of a text is its baseline; all others go from the
upper left corner.

:class:`Canvas` draws, :class:`TextColumn` writes paragraphs, and the functions after them estimate how wide
text is, for want of a font.
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
TEXT = 14.0  # pixels: font size
LINE = 19.0  # pixels: from one line of text to the next


class Area(NamedTuple):
    """A part of the picture, open to the bottom; pixels from its upper left corner."""

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
    x, y = middle
    places = []
    for number in range(count):
        angle = 2 * pi * number / count
        places.append((x - radius * sin(angle), y + radius * cos(angle)))
    return places


def rules(colours: dict[Tone, str]) -> str:
    """CSS rules of the classes of a drawing: ``.ct-ink { fill: #1f2328; } ...``."""
    texts = []
    for tone, colour in colours.items():
        attribute = "stroke" if tone == "ct-line" else "fill"
        texts.append(f".{tone} {{ {attribute}: {colour}; }}")
    return " ".join(texts)


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
        """A line of text; if it is wider than ``room``, it is clipped and has the whole as its
        tooltip. ``anchor``: ``middle`` or ``end`` where ``x`` is that of the text."""
        full_text = printable(text)
        line = clipped_to(full_text, room, size, bold=bold)
        self.text_with_tooltip(
            x, y, line, full_text, tone=tone, size=size, bold=bold, anchor=anchor
        )

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
        """A line from point to point."""
        steps = " L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self.path(f"M{steps}", dashed=dashed)

    def path(self, steps: str, *, dashed: bool = False) -> None:
        """A line by the commands of an SVG path, such as ``M0 0 L10 20``."""
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
        """A filled circle around a point."""
        place = {"cx": _n(x), "cy": _n(y), "r": _n(radius)}
        ET.SubElement(self.parent, "circle", place, fill=LIGHT["ct-soft"]).set("class", "ct-soft")

    def gap(self, x: float, y: float, width: float) -> None:
        """Three dots beside each other for what is left out, within a width."""
        step = min(5.0, width / 3)
        for number in (-1, 0, 1):
            self.dot(x + number * step, y, min(1.4, step / 3))


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
        """A paragraph for each text, of at most ``most`` lines."""
        for text in texts:
            self.write(text, tone=tone, most=most)

    def skip_to(self, y: float) -> None:
        """Go on below what is drawn down to ``y``."""
        self.bottom = max(self.bottom, y)


def _n(value: float) -> str:
    """A number in SVG: ``12.5``, ``12``."""
    return f"{value:.1f}".removesuffix(".0")


# Widths of letters, as shares of the font size, on the wide side: no font is at hand to measure.
_NARROW = 0.42
_USUAL = 0.65
_CAPITAL = 0.8
_WIDE = 1.0
_BOLD_FACTOR = 1.12  # times as wide as the same letter in regular weight
# letters of a word that are measured at once, more than any line has: a very long word takes no longer
_LONGEST = 1000
_NARROW_LETTERS = frozenset(" .,:;'|!()[]/-fijlrtI")
_WIDE_LETTERS = frozenset("mwMW%@+=<>~#")


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Estimated width in pixels at a font size of ``size`` pixels."""
    return sum(map(_width, text)) * _regular_size(size, bold=bold)


def _width(letter: str) -> float:
    """Width of a letter as a share of the font size."""
    if letter in _NARROW_LETTERS:
        return _NARROW
    if letter in _WIDE_LETTERS or not letter.isascii():
        return _WIDE
    return _CAPITAL if letter.isupper() or letter in "&$" else _USUAL


def _regular_size(size: float, *, bold: bool) -> float:
    """The font size at which regular letters are as wide as these."""
    return size * _BOLD_FACTOR if bold else size


def clipped_to(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """The text, cut and ended with ``...`` if it is wider than ``room`` pixels at this font size."""
    regular_size = _regular_size(size, bold=bold)
    if _fitting(text, room / regular_size) == len(text):
        return text
    length = _fitting(text, (room - width_of("...", size, bold=bold)) / regular_size)
    return f"{text[:length].rstrip()}..."


def _fitting(text: str, widest: float) -> int:
    """How many letters fit into a width of ``widest``, in font sizes."""
    width = 0.0
    for count, letter in enumerate(text):
        width += _width(letter)
        # what fits exactly may be a rounding error wider
        if width > widest + 1e-9:
            return count
    return len(text)


def lines_of(text: str, room: float, size: float, most: int, *, bold: bool = False) -> list[str]:
    """The text wrapped into at most ``most`` lines of ``room`` pixels; the last ends in ``...`` if it
    was cut. Words that are wider than a line are broken."""
    lines: list[str] = []
    # with the boldness in it, which the calls below need not be told
    regular_size = _regular_size(size, bold=bold)
    for word in text.split():
        start = 0
        while start < len(word):
            letters = _fitting(word[start : start + _LONGEST], room / regular_size)
            # one letter at least, however narrow the room
            end = start + max(letters, 1)
            piece = word[start:end]
            start = end
            longer = f"{lines[-1]} {piece}" if lines else piece
            if lines and width_of(longer, regular_size) <= room:
                lines[-1] = longer
            else:
                lines.append(piece)
    if len(lines) <= most:
        return lines
    rest = " ".join(lines[most - 1 :])
    return [*lines[: most - 1], clipped_to(rest, room, regular_size)]
