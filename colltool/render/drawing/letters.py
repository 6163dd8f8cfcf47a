"""How wide a text is, by a rule that no common sans-serif passes by much, and what of it fits.

A drawing is laid out where no font can be asked. The rule has four widths, in parts of the font size: those of DejaVu Sans, the
widest of the fonts that ``system-ui`` and ``sans-serif`` stand for, rounded up.
"""

from __future__ import annotations

NARROW, USUAL, CAPITAL, WIDE = 0.42, 0.65, 0.8, 1.0
BOLD = 1.12
_NARROW = frozenset(" .,:;'|!()[]/-fijlrtI")
_WIDE = frozenset("mwMW%@")


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Pixels that a text takes in letters of ``size`` pixels."""
    return sum(map(_width, text)) * size * (BOLD if bold else 1.0)


def _width(char: str) -> float:
    if char in _NARROW:
        return NARROW
    if char in _WIDE or not char.isascii():
        return WIDE
    return CAPITAL if char.isupper() or char in "+=<>~#&_$" else USUAL


def clipped_to(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """The text, or its beginning and ``...`` where it is wider than the room."""
    if width_of(text, size, bold=bold) <= room:
        return text
    while text and width_of(f"{text}...", size, bold=bold) > room:
        text = text[:-1]
    return f"{text.rstrip()}..."


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


def _pieces(text: str, room: float, size: float) -> list[str]:
    """Its words; one that is wider than a line in pieces."""
    pieces = []
    for word in text.split():
        while width_of(word, size) > room:
            fits = next(end for end in range(len(word) - 1, 0, -1) if end == 1 or width_of(word[:end], size) <= room)
            pieces.append(word[:fits])
            word = word[fits:]
        pieces.append(word)
    return pieces
