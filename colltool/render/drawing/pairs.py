"""A full mesh: its endpoints on a circle and a line for every pair."""

from __future__ import annotations

from itertools import combinations
from math import cos, pi, sin

from colltool.base.formatting import counted
from colltool.render.drawing.pen import Area, Focus, Pen
from colltool.render.drawing.sketch import TierSketch
from colltool.render.drawing.words import endpoint_text

MOST = 12
_OF_MANY = 8
"""Endpoints that are drawn: all up to ``MOST``, of more so many."""
_SIDE = 14.0
_RADIUS = 84.0


def drawn_pairs(sketch: TierSketch) -> int:
    """How many endpoints are drawn."""
    count = sketch.facts.endpoints
    return count if count <= MOST else _OF_MANY


def draw_pairs(pen: Pen, sketch: TierSketch, words: Area, room: Area) -> tuple[float, Focus]:
    """The circle on the right, its counts on the left. Where they end, and the endpoint in focus: the lowest one."""
    count, drawn = sketch.facts.endpoints, drawn_pairs(sketch)
    radius = _RADIUS if drawn > 1 else 0.0
    middle = (room.left + room.width / 2, room.top + radius + _SIDE / 2)
    turns = [2 * pi * number / drawn for number in range(drawn)]
    places = [(middle[0] - radius * sin(turn), middle[1] + radius * cos(turn)) for turn in turns]
    for one, other in combinations(places, 2):
        pen.line([one, other])
    for x, y in places:
        pen.box(x - _SIDE / 2, y - _SIDE / 2, _SIDE, _SIDE, "ct-soft", round_=2, outlined=False)
    y = pen.paragraph(words, f"{count} {endpoint_text(sketch, count)}", most=3, bold=True)
    links, each = sketch.kind.links(sketch.ports), "one" if sketch.ports == 1 else sketch.ports
    told = [f"{drawn} of them drawn"] if drawn < count else []
    told += [f"{counted(links, 'link')}, {each} for each pair"] if links else []
    for text in told:
        y = pen.paragraph(words._replace(top=y), text, tone="ct-soft")
    x, low = places[0]
    return max(y, low + _SIDE / 2), Focus(x, low + _SIDE / 2, _SIDE / 2)
