"""Drawings of dragonflies: groups on a circle with their switches, and a line for every two groups that cables join."""

from __future__ import annotations

from itertools import combinations
from math import cos, pi, sin

from colltool.algorithms.wires import DragonflyWires
from colltool.base.formatting import counted, format_rate
from colltool.render.drawing.diagram import TierDiagram, endpoint_text
from colltool.render.drawing.svg import Area, Canvas, Focus, Tone

MOST_GROUPS = 12  # that are drawn
_MOST_SWITCHES = 4  # of a kind in each
_SIDE = 8.0
_RADIUS = 84.0


def drawn_endpoints(wires: DragonflyWires) -> int:
    return min(wires.endpoints, wires.hosts * wires.switches * min(wires.groups, MOST_GROUPS))


def draw_dragonfly(canvas: Canvas, diagram: TierDiagram, wires: DragonflyWires, words: Area, room: Area) -> tuple[float, Focus]:
    """Groups with their switches, spines towards the middle; of many the first."""
    x, y = room.left + room.width / 2, room.top + _RADIUS + 2 * _SIDE
    drawn = min(wires.groups, MOST_GROUPS)
    spots = [(x - _RADIUS * sin(2 * pi * k / drawn), y + _RADIUS * cos(2 * pi * k / drawn)) for k in range(drawn)]
    for a, b in combinations(spots, 2):
        canvas.line([a, b])
    rows = [("ct-soft" if wires.spines else "ct-switch", wires.switches)] + [("ct-switch", wires.spines)] * bool(wires.spines)
    tall = _SIDE * 1.5 * len(rows)
    for left, top in spots:
        wide = _SIDE * 1.5 * min(max(count for _, count in rows), _MOST_SWITCHES)
        canvas.box(left - wide / 2 - 3, top - tall / 2 - 3, wide + 6, tall + 6, "ct-soft", round_=4, outlined=True)
        for row, (_, count) in enumerate(reversed(rows)):
            few = min(count, _MOST_SWITCHES)
            for place in range(few):
                at = left + (place - (few - 1) / 2) * 1.5 * _SIDE
                tone: Tone = "ct-switch"
                canvas.box(at - _SIDE / 2, top - tall / 2 + row * 1.5 * _SIDE + 2, _SIDE, _SIDE, tone, round_=1, outlined=True)
    low = canvas.paragraph(words, f"{wires.endpoints} {endpoint_text(diagram, wires.endpoints)}", most=3, bold=True)
    low = canvas.paragraphs(words._replace(top=low), list(_told(wires, drawn)))
    return max(low, room.top + 2 * _RADIUS + 5 * _SIDE), Focus(spots[0][0], spots[0][1] + tall / 2 + 3, _SIDE / 2)


def _told(wires: DragonflyWires, drawn: int) -> list[str]:
    kinds = f"{wires.switches} leaves, {counted(wires.spines, 'spine')}" if wires.spines else counted(wires.switches, "switch")
    told = [f"{counted(wires.groups, 'group')} of {kinds}", f"{wires.hosts} a {'leaf' if wires.spines else 'switch'}"]
    if wires.groups > 1:
        told.append(f"{counted(wires.cables, 'cable')} of {format_rate(wires.global_Bps)} between two groups")
    told += [f"{drawn} groups drawn"] if drawn < wires.groups else []
    return [*told, f"{wires.routing} routing"]
