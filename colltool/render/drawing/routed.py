"""Drawings of tiers whose messages are routed link by link: ranks on a circle, switches on one inside it, and their links."""

from __future__ import annotations

from math import cos, pi, sin

from colltool.algorithms.wires import DragonflyWires, GraphWires
from colltool.base.formatting import counted
from colltool.render.drawing.diagram import TierDiagram, endpoint_text
from colltool.render.drawing.dragonfly import draw_dragonfly
from colltool.render.drawing.svg import Area, Canvas, Focus, Tone

MOST_NODES = 32  # ranks, and switches, that are drawn
_SIDE = 14.0
_RADII = (84.0, 42.0)  # of ranks and of switches


def drawn_ranks(diagram: TierDiagram) -> int:
    return min(diagram.facts.endpoints, MOST_NODES)


def draw_routed(canvas: Canvas, diagram: TierDiagram, words: Area, room: Area) -> tuple[float, Focus]:
    """The graph itself; of many nodes the first."""
    wires = diagram.kind.wires(diagram.facts.endpoints)
    if isinstance(wires, DragonflyWires):
        return draw_dragonfly(canvas, diagram, wires, words, room)
    assert wires is not None  # of a tier that is not routed another drawing is made
    spots = _spots(wires, room)
    for a, b in sorted({(min(edge.a, edge.b), max(edge.a, edge.b)) for edge in wires.edges}):
        if a in spots and b in spots:
            canvas.line([spots[a], spots[b]])
    for node, (x, y) in spots.items():
        tone: Tone = "ct-soft" if node < wires.endpoints else "ct-switch"
        canvas.box(x - _SIDE / 2, y - _SIDE / 2, _SIDE, _SIDE, tone, round_=2, outlined=node >= wires.endpoints)
    y = canvas.paragraph(words, f"{wires.endpoints} {endpoint_text(diagram, wires.endpoints)}", most=3, bold=True)
    switches, drawn = wires.nodes - wires.endpoints, drawn_ranks(diagram)
    told = [f"{drawn} of them drawn"] if drawn < wires.endpoints else []
    told += [counted(switches, "switch")] if switches else []
    told += [counted(diagram.kind.links(diagram.ports), "link")]
    y = canvas.paragraphs(words._replace(top=y), told)
    x, low = spots[0]
    return max(y, room.top + 2 * _RADII[0] + _SIDE), Focus(x, low + _SIDE / 2, _SIDE / 2)


def _spots(wires: GraphWires, room: Area) -> dict[int, tuple[float, float]]:
    """Where each node is drawn; the first rank at the bottom."""
    ranks, switches = (
        range(min(wires.endpoints, MOST_NODES)),
        range(wires.endpoints, min(wires.nodes, wires.endpoints + MOST_NODES)),
    )
    x, y = room.left + room.width / 2, room.top + _RADII[0] + _SIDE / 2
    found = {}
    for nodes, radius in zip((ranks, switches), _RADII, strict=True):
        for place, node in enumerate(nodes):
            turn = 2 * pi * place / len(nodes)
            found[node] = (x - radius * sin(turn), y + radius * cos(turn))
    return found
