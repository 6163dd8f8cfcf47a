"""Drawings of tiers that are routed link by link: a graph on a circle, its switches on one inside;
a HyperX as a grid."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple, assert_never

from colltool.algorithms.wires import DragonflyWires, GraphWires, HyperXWires, Wires
from colltool.base.formatting import counted
from colltool.extras.pictures.drawing.dragonfly import draw_dragonfly, draw_endpoint
from colltool.extras.pictures.drawing.svg import Area, Canvas, Focus, on_circle
from colltool.render.views.fabric_diagram import TierDiagram, endpoint_text
from colltool.render.views.fabric_parts import link_text, switches_text

MOST_NODES = 32  # ranks, and switches, that are drawn
MOST_PLACES = 5  # of an axis; two axes are drawn
_SIDE = 14.0
_RADII = (84.0, 42.0)  # of ranks and of switches
# between places of a grid; how far a longer link of one bows, in its length
_STEP, _BOW = 36.0, 0.22

Spots = Mapping[int, tuple[float, float]]


class Sketch(NamedTuple):
    """Nodes by number where they are drawn, the links between them, which are switches, and what is
    said of them."""

    spots: Spots
    links: list[tuple[int, int]]
    switches: frozenset[int]
    told: list[str]
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


def draw_routed(
    canvas: Canvas, diagram: TierDiagram, words: Area, room: Area
) -> tuple[float, Focus]:
    """The network itself; of many nodes the first."""
    wires = _wires(diagram)
    if isinstance(wires, DragonflyWires):
        return draw_dragonfly(canvas, diagram, wires, words, room)
    count, sketch = diagram.facts.endpoints, _sketch(wires, room)
    for a, b in sketch.links:
        _link(canvas, sketch.spots[a], sketch.spots[b], bows=sketch.bows)
    for node, (x, y) in sketch.spots.items():
        switch = node in sketch.switches
        canvas.box(
            x - _SIDE / 2,
            y - _SIDE / 2,
            _SIDE,
            _SIDE,
            "ct-switch" if switch else "ct-soft",
            round_=2,
            outlined=switch,
        )
    y = canvas.paragraph(words, f"{count} {endpoint_text(diagram, count)}", most=3, bold=True)
    drawn = drawn_ranks(diagram)
    told = [f"{drawn} of them drawn"] if drawn < count else []
    told += [
        *sketch.told,
        *map(link_text, diagram.kind.link_kinds),
        f"{counted(diagram.kind.links(diagram.ports), 'link')} in all",
    ]
    y = canvas.paragraphs(words._replace(top=y), told)
    x, low = sketch.spots[0]
    focus = (
        draw_endpoint(canvas, x, low + _SIDE / 2)
        if 0 in sketch.switches
        else Focus(x, low + _SIDE / 2, _SIDE / 2)
    )
    return max(y, focus.y, *(at[1] + _SIDE for at in sketch.spots.values())), focus


def _wires(diagram: TierDiagram) -> Wires:
    wires = diagram.kind.wires(diagram.facts.endpoints)
    assert wires is not None  # of a tier that is not routed another drawing is made
    return wires


def _sketch(wires: GraphWires | HyperXWires, room: Area) -> Sketch:
    match wires:
        case GraphWires():
            return _graph(wires, room)
        case HyperXWires():
            return _grid(wires, room)
        case _:
            assert_never(wires)


def _link(canvas: Canvas, a: tuple[float, float], b: tuple[float, float], *, bows: bool) -> None:
    """Straight, or past the places between its ends."""
    (x, y), (u, v) = a, b
    if not bows or max(abs(u - x), abs(v - y)) < 1.5 * _STEP:
        canvas.line([a, b])
        return
    bow = (x + u) / 2 + _BOW * (v - y), (y + v) / 2 - _BOW * (u - x)
    canvas.path(f"M{x:.1f} {y:.1f}Q{bow[0]:.1f} {bow[1]:.1f} {u:.1f} {v:.1f}")


def _graph(wires: GraphWires, room: Area) -> Sketch:
    """The first rank at the bottom."""
    ranks = range(min(wires.endpoints, MOST_NODES))
    switches = range(wires.endpoints, min(wires.nodes, wires.endpoints + MOST_NODES))
    middle = room.left + room.width / 2, room.top + _RADII[0] + _SIDE / 2
    spots: dict[int, tuple[float, float]] = {}
    for nodes, radius in zip((ranks, switches), _RADII, strict=True):
        spots |= zip(nodes, on_circle(middle, radius, len(nodes)), strict=True)
    links = sorted({(min(edge.a, edge.b), max(edge.a, edge.b)) for edge in wires.edges})
    many = wires.nodes - wires.endpoints
    return Sketch(
        spots,
        [(a, b) for a, b in links if a in spots and b in spots],
        frozenset(switches),
        [switches_text(many)] if many else [],
    )


def _grid(wires: HyperXWires, room: Area) -> Sketch:
    """Two axes, the first to the right; of a long one the first places."""
    wide, high = (min(size, MOST_PLACES) for size in (*wires.shape, 1)[:2])
    left, top = room.left + (room.width - _STEP * (wide - 1)) / 2, room.top + _STEP
    spots = {
        column + wires.shape[0] * row: (left + column * _STEP, top + (high - 1 - row) * _STEP)
        for row in range(high)
        for column in range(wide)
    }
    rows = [[column + wires.shape[0] * row for column in range(wide)] for row in range(high)]
    lines = [*rows, *(list(column) for column in zip(*rows, strict=True))]
    links = [(a, b) for line in lines for a in line for b in line if a < b]
    told = (
        [switches_text(prod(wires.shape)), f"{counted(wires.hosts, 'port')} each"]
        if wires.hosts
        else []
    )
    return Sketch(spots, links, frozenset(spots) if wires.hosts else frozenset(), told, bows=True)
