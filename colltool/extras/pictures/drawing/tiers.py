"""How each kind of tier is drawn: :data:`DRAWN`. The drawing of an all-to-all of direct links, a circle,
is here; the others have modules of their own."""

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

MOST_ON_CIRCLE = 12  # endpoints up to which all are drawn
_FEW_ON_CIRCLE = 8  # of more
_SIDE = 14.0  # pixels: of an endpoint
_RADIUS = 84.0  # pixels: of the circle


def _drawn_on_circle(diagram: TierDiagram) -> int:
    """How many endpoints are drawn on the circle."""
    count = diagram.facts.endpoints
    return count if count <= MOST_ON_CIRCLE else _FEW_ON_CIRCLE


def draw_direct_links(canvas: Canvas, diagram: TierDiagram, words: TextColumn, room: Area) -> Focus:
    """Draw endpoints on a circle, each linked to every other; return the first."""
    drawn = _drawn_on_circle(diagram)
    # a single endpoint is in the middle
    radius = _RADIUS if drawn > 1 else 0.0
    centre = (room.middle, room.top + radius + _SIDE / 2)
    places = on_circle(centre, radius, drawn)
    for pair in combinations(places, 2):
        canvas.line(pair)
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
    "pair_links": (draw_direct_links, _drawn_on_circle),
    "routes": (draw_routed, drawn_ranks),
    "neighbour_links": (draw_lattice, drawn_places),
}
"""By what joins the endpoints of a tier: how to draw it, and how many endpoints are drawn."""
