"""Draws tiers that are routed link by link: a graph on a circle, with its switches on a circle
inside, and a HyperX as a grid."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod
from typing import NamedTuple, assert_never

from colltool.base.formatting import counted
from colltool.extras.pictures.drawing.dragonfly import draw_dragonfly
from colltool.extras.pictures.drawing.endpoints import Focus, draw_endpoint, write_endpoints
from colltool.extras.pictures.drawing.svg import Area, Canvas, TextColumn, on_circle
from colltool.network.wires import DragonflyWires, GraphWires, HyperXWires, Wires
from colltool.render.views.fabric_diagram import TierDiagram
from colltool.render.views.fabric_parts import link_text, switches_text

MOST_NODES = 32  # ranks, and switches, that are drawn
MOST_PLACES = 5  # of an axis; two axes are drawn
_SIDE = 14.0
_RADIUS = 84.0  # of the circle of ranks
_INNER_RADIUS = 42.0  # of that of switches
_STEP = 36.0  # between places of a grid
_BOW = 0.22  # how far a longer link bows out, as a share of its length

Spots = Mapping[int, tuple[float, float]]


class Sketch(NamedTuple):
    """Nodes by number where they are drawn, the links between them, which are switches, and the
    texts about them."""

    spots: Spots
    links: list[tuple[int, int]]
    switches: frozenset[int]
    texts: list[str]
    bows: bool = False


def drawn_ranks(diagram: TierDiagram) -> int:
    wires = _wires(diagram)
    match wires:
        case GraphWires():
            return min(wires.endpoints, MOST_NODES)
        case HyperXWires():
            return 1 if wires.hosts else prod(min(size, MOST_PLACES) for size in wires.shape[:2])
        case DragonflyWires():
            return 1
        case _:
            assert_never(wires)


def draw_routed(canvas: Canvas, diagram: TierDiagram, words: TextColumn, room: Area) -> Focus:
    """The network itself; only the first nodes where there are many."""
    wires = _wires(diagram)
    if isinstance(wires, DragonflyWires):
        return draw_dragonfly(canvas, diagram, wires, words, room)
    sketch = _sketch(wires, room)
    for a, b in sketch.links:
        _draw_link(canvas, sketch.spots[a], sketch.spots[b], bows=sketch.bows)
    for node, (x, y) in sketch.spots.items():
        if node in sketch.switches:
            canvas.square(x, y, _SIDE, "ct-switch", outlined=True)
        else:
            canvas.square(x, y, _SIDE)
    write_endpoints(words, diagram, drawn_ranks(diagram))
    words.write_each(sketch.texts)
    words.write_each(map(link_text, diagram.kind.link_kinds))
    words.note(f"{counted(diagram.kind.links(diagram.ports), 'link')} in all")
    words.skip_to(max(y for _, y in sketch.spots.values()) + _SIDE)
    x, y = sketch.spots[0]
    if 0 in sketch.switches:
        return draw_endpoint(canvas, x, y + _SIDE / 2)
    return Focus(x, y + _SIDE / 2, _SIDE / 2)


def _wires(diagram: TierDiagram) -> Wires:
    wires = diagram.kind.wires(diagram.facts.endpoints)
    # another drawing is made of a tier that is not routed
    assert wires is not None
    return wires


def _sketch(wires: GraphWires | HyperXWires, room: Area) -> Sketch:
    match wires:
        case GraphWires():
            return _graph(wires, room)
        case HyperXWires():
            return _grid(wires, room)
        case _:
            assert_never(wires)


def _draw_link(
    canvas: Canvas, a: tuple[float, float], b: tuple[float, float], *, bows: bool
) -> None:
    """Straight, or past the places between its ends."""
    (x, y), (u, v) = a, b
    if not bows or max(abs(u - x), abs(v - y)) < 1.5 * _STEP:
        canvas.line([a, b])
        return
    bow_x = (x + u) / 2 + _BOW * (v - y)
    bow_y = (y + v) / 2 - _BOW * (u - x)
    canvas.path(f"M{x:.1f} {y:.1f}Q{bow_x:.1f} {bow_y:.1f} {u:.1f} {v:.1f}")


def _graph(wires: GraphWires, room: Area) -> Sketch:
    """Ranks on a circle, the first at the bottom, and switches on one inside it."""
    ranks = range(min(wires.endpoints, MOST_NODES))
    switches = range(wires.endpoints, min(wires.nodes, wires.endpoints + MOST_NODES))
    middle = (room.middle, room.top + _RADIUS + _SIDE / 2)
    spots = dict(zip(ranks, on_circle(middle, _RADIUS, len(ranks)), strict=True))
    spots |= zip(switches, on_circle(middle, _INNER_RADIUS, len(switches)), strict=True)
    links = set()
    for edge in wires.edges:
        if edge.src in spots and edge.dst in spots:
            links.add((min(edge.src, edge.dst), max(edge.src, edge.dst)))
    many = wires.nodes - wires.endpoints
    texts = [switches_text(many)] if many else []
    return Sketch(spots, sorted(links), frozenset(switches), texts)


def _grid(wires: HyperXWires, room: Area) -> Sketch:
    """Two axes, the first to the right; only the first places where an axis is long."""
    across, *others = wires.shape
    wide = min(across, MOST_PLACES)
    high = min(others[0], MOST_PLACES) if others else 1
    left = room.left + (room.width - _STEP * (wide - 1)) / 2
    top = room.top + _STEP
    spots = {}
    for row in range(high):
        for column in range(wide):
            x = left + column * _STEP
            spots[column + across * row] = (x, top + (high - 1 - row) * _STEP)
    # all pairs of each row, then of each column
    links: list[tuple[int, int]] = []
    nodes = list(spots)
    for row in range(high):
        links += combinations(nodes[row * wide : (row + 1) * wide], 2)
    for column in range(wide):
        links += combinations(nodes[column::wide], 2)
    if not wires.hosts:
        return Sketch(spots, links, frozenset(), [], bows=True)
    texts = [switches_text(prod(wires.shape)), f"{counted(wires.hosts, 'port')} each"]
    return Sketch(spots, links, frozenset(spots), texts, bows=True)
