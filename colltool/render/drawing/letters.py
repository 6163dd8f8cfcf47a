"""How wide a text is, by a rule that no common sans-serif passes by much, and what of it fits.

A drawing is laid out where no font can be asked. The rule has four widths, in parts of the font size: those of DejaVu Sans, the
widest of the fonts that ``system-ui`` and ``sans-serif`` stand for, rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    """How many of its letters fit."""
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
    """Its words; one that is wider than a line in pieces."""
    for word in text.split():
        start = 0
        while start < len(word):
            end = start + max(_fitting(word[start : start + _LONGEST], room, size), 1)
            yield word[start:end]
            start = end
