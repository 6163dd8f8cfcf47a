"""Draws tiers that are routed link by link: a graph on a circle, with its switches on a circle
inside, and a HyperX as a grid. A dragonfly has a module of its own.

A graph and a HyperX are first laid out as a :class:`Sketch`, which :func:`draw_routed` then draws.
"""

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
# All in pixels but the last.
_SIDE = 14.0  # of a node
_RADIUS = 84.0  # of the circle of ranks
_INNER_RADIUS = 42.0  # of that of switches
_STEP = 36.0  # between places of a grid
_BOW = 0.22  # how far a longer link bows out, as a share of its length

Point = tuple[float, float]


class Sketch(NamedTuple):
    """What is drawn of a network; its nodes have the numbers that they have in the wires."""

    points: Mapping[int, Point]  # the middle of each node that is drawn, by its number
    links: list[tuple[int, int]]  # between them
    switches: frozenset[int]  # the nodes that are switches, not ranks
    texts: list[str]  # about the network
    bows: bool = False  # whether links bow out past the nodes between their ends


def drawn_ranks(diagram: TierDiagram) -> int:
    """How many ranks are drawn; where all nodes are switches, only one, below the first of them."""
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
    """Draw the network itself, only the first nodes where there are many; return the first rank."""
    wires = _wires(diagram)
    match wires:
        case DragonflyWires():
            return draw_dragonfly(canvas, diagram, wires, words, room)
        case GraphWires():
            sketch = _graph(wires, room)
        case HyperXWires():
            sketch = _grid(wires, room)
        case _:
            assert_never(wires)
    for a, b in sketch.links:
        _draw_link(canvas, sketch.points[a], sketch.points[b], bows=sketch.bows)
    for node, (x, y) in sketch.points.items():
        if node in sketch.switches:
            canvas.square(x, y, _SIDE, "ct-switch", outlined=True)
        else:
            canvas.square(x, y, _SIDE)
    write_endpoints(words, diagram, drawn_ranks(diagram))
    words.write_each(sketch.texts)
    words.write_each(map(link_text, diagram.kind.link_kinds))
    words.note(f"{counted(diagram.kind.links(diagram.ports), 'link')} in all")
    words.skip_to(max(y for _, y in sketch.points.values()) + _SIDE)
    x, y = sketch.points[0]
    if 0 in sketch.switches:
        return draw_endpoint(canvas, x, y + _SIDE / 2)
    return Focus(x, y + _SIDE / 2, _SIDE / 2)


def _wires(diagram: TierDiagram) -> Wires:
    """The nodes and links of a routed tier."""
    wires = diagram.kind.wires(diagram.facts.endpoints)
    # only other tiers have None, and DRAWN of tiers.py draws those otherwise
    assert wires is not None
    return wires


def _draw_link(canvas: Canvas, start: Point, end: Point, *, bows: bool) -> None:
    """Draw a link straight, or where it ``bows`` and is longer than a step of the grid, as a curve past
    the nodes between its ends."""
    (x, y), (to_x, to_y) = start, end
    right = to_x - x
    down = to_y - y
    if not bows or max(abs(right), abs(down)) < 1.5 * _STEP:
        canvas.line([start, end])
        return
    # a quadratic curve, whose control point lies beside the middle
    bow_x = (x + to_x) / 2 + _BOW * down
    bow_y = (y + to_y) / 2 - _BOW * right
    canvas.path(f"M{x:.1f} {y:.1f}Q{bow_x:.1f} {bow_y:.1f} {to_x:.1f} {to_y:.1f}")


def _graph(wires: GraphWires, room: Area) -> Sketch:
    """Ranks on a circle, the first at the bottom, and switches on one inside it."""
    # of all nodes the ranks come first
    ranks = range(min(wires.endpoints, MOST_NODES))
    switches = range(wires.endpoints, min(wires.nodes, wires.endpoints + MOST_NODES))
    centre = (room.middle, room.top + _RADIUS + _SIDE / 2)
    points = dict(zip(ranks, on_circle(centre, _RADIUS, len(ranks)), strict=True))
    points |= zip(switches, on_circle(centre, _INNER_RADIUS, len(switches)), strict=True)
    # edges are one way: both ways of a link are drawn once
    links = set()
    for edge in wires.edges:
        if edge.src in points and edge.dst in points:
            links.add((min(edge.src, edge.dst), max(edge.src, edge.dst)))
    switch_count = wires.nodes - wires.endpoints
    texts = [switches_text(switch_count)] if switch_count else []
    return Sketch(points, sorted(links), frozenset(switches), texts)


def _grid(wires: HyperXWires, room: Area) -> Sketch:
    """The first two axes of a HyperX, one to the right and one up; only the first places where an axis
    is long."""
    across, *others = wires.shape
    columns = min(across, MOST_PLACES)
    rows = min(others[0], MOST_PLACES) if others else 1
    left = room.left + (room.width - _STEP * (columns - 1)) / 2
    top = room.top + _STEP
    points = {}
    for row in range(rows):
        for column in range(columns):
            # nodes are numbered along the first axis first
            node = column + across * row
            points[node] = (left + column * _STEP, top + (rows - 1 - row) * _STEP)
    # all pairs of each row, then of each column
    links: list[tuple[int, int]] = []
    nodes = list(points)
    for row in range(rows):
        links += combinations(nodes[row * columns : (row + 1) * columns], 2)
    for column in range(columns):
        links += combinations(nodes[column::columns], 2)
    if not wires.hosts:
        return Sketch(points, links, frozenset(), [], bows=True)
    texts = [switches_text(prod(wires.shape)), f"{counted(wires.hosts, 'port')} each"]
    return Sketch(points, links, frozenset(points), texts, bows=True)
