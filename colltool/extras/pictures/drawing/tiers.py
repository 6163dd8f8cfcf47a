"""How each kind of tier is drawn; an all-to-all of direct links as a circle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from colltool.base.formatting import counted
from colltool.extras.pictures.drawing import switches
from colltool.extras.pictures.drawing.endpoints import Focus, write_endpoints
from colltool.extras.pictures.drawing.lattice import draw_lattice, drawn_places
from colltool.extras.pictures.drawing.routed import draw_routed, drawn_ranks
from colltool.extras.pictures.drawing.svg import Area, Canvas, TextColumn, on_circle
from colltool.network.group import JoinedBy
from colltool.render.views.fabric_diagram import TierDiagram

MOST_PAIRS = 12  # endpoints that are all drawn; of more, only eight
_SIDE = 14.0
_RADIUS = 84.0


def _drawn_pairs(diagram: TierDiagram) -> int:
    count = diagram.facts.endpoints
    return count if count <= MOST_PAIRS else 8


def draw_pairs(canvas: Canvas, diagram: TierDiagram, words: TextColumn, room: Area) -> Focus:
    """Draw endpoints on a circle, each linked to every other."""
    drawn = _drawn_pairs(diagram)
    # A single endpoint is in the middle.
    radius = _RADIUS if drawn > 1 else 0.0
    middle = (room.middle, room.top + radius + _SIDE / 2)
    places = on_circle(middle, radius, drawn)
    for place, other in combinations(places, 2):
        canvas.line([place, other])
    for x, y in places:
        canvas.square(x, y, _SIDE)
    write_endpoints(words, diagram, drawn)
    links = diagram.kind.links(diagram.ports)
    if links:
        each = "one" if diagram.ports == 1 else diagram.ports
        words.note(f"{counted(links, 'link')}, {each} for each pair")
    x, y = places[0]
    return Focus(x, y + _SIDE / 2, _SIDE / 2)


Draw = Callable[[Canvas, TierDiagram, TextColumn, Area], Focus]
"""Draws a tier, with its texts in a column and its drawing in an area; returns the endpoint to zoom
into."""

DRAWN: dict[JoinedBy, tuple[Draw, Callable[[TierDiagram], int]]] = {
    "switches": (switches.draw_switches, switches.drawn_endpoints),
    "pair_links": (draw_pairs, _drawn_pairs),
    "routes": (draw_routed, drawn_ranks),
    "neighbour_links": (draw_lattice, drawn_places),
}
"""By what joins the endpoints of a tier: how to draw it, and how many endpoints are drawn."""
