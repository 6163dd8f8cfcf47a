"""How a tier is drawn, by what joins its endpoints, and how many of them are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from colltool.algorithms.group import JoinedBy
from colltool.render.drawing.lattice import draw_lattice, drawn_lattice
from colltool.render.drawing.pairs import draw_pairs, drawn_pairs
from colltool.render.drawing.pen import Area, Focus, Pen
from colltool.render.drawing.rows import branch_of, draw_rows
from colltool.render.drawing.sketch import TierSketch


class Way(NamedTuple):
    """One way of drawing.

    Args:
        draw: given a pen and the rooms for words and for the drawing; returns where both end, and the endpoint in focus.
        count: endpoints that are drawn.
    """

    draw: Callable[[Pen, TierSketch, Area, Area], tuple[float, Focus]]
    count: Callable[[TierSketch], int]


_WAYS: Mapping[JoinedBy, Way] = {
    "switches": Way(draw_rows, lambda sketch: branch_of(sketch).endpoints),
    "pair_links": Way(draw_pairs, drawn_pairs),
    "neighbour_links": Way(draw_lattice, drawn_lattice),
}


def way_of(sketch: TierSketch) -> Way:
    """That of a tier."""
    return _WAYS[sketch.kind.joined_by]
