"""What the drawings of all kinds of tiers have in common: their endpoints, in words and drawn."""

from __future__ import annotations

from typing import NamedTuple

from colltool.extras.pictures.drawing.svg import Canvas, TextColumn
from colltool.render.views.fabric_diagram import TierDiagram, endpoint_text

LINK = 12.0  # pixels from a switch to an endpoint below it
_SIDE = 8.0


class Focus(NamedTuple):
    """The endpoint of a tier from which lines zoom into the card of the next tier below, in
    pixels."""

    x: float  # middle of its bottom edge
    y: float
    half: float  # of its width


def write_endpoints(words: TextColumn, diagram: TierDiagram, drawn: int | None = None) -> None:
    """Write how many endpoints a tier has and, where not all are, how many are ``drawn``; None says
    nothing of that."""
    count = diagram.facts.endpoints
    words.write(f"{count} {endpoint_text(diagram, count)}", most=3, bold=True)
    if drawn is not None and drawn < count:
        words.note(f"{drawn} of them drawn")


def draw_endpoint(canvas: Canvas, x: float, top: float) -> Focus:
    """Draw one of a switch's endpoints in place of all, with a link down from the switch's lower edge
    at ``top``; return it."""
    canvas.line([(x, top), (x, top + LINK)])
    canvas.square(x, top + LINK + _SIDE / 2, _SIDE)
    return Focus(x, top + LINK + _SIDE, _SIDE / 2)
