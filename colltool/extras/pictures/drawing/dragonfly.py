"""Drawings of dragonflies: groups on a circle with their switches, and a line for every two groups
that cables join."""

from __future__ import annotations

from itertools import combinations

from colltool.algorithms.wires import DragonflyWires
from colltool.base.formatting import counted, format_rate
from colltool.extras.pictures.drawing.svg import Area, Canvas, Focus, on_circle
from colltool.render.views.fabric_diagram import TierDiagram, endpoint_text
from colltool.render.views.fabric_parts import switches_text

MOST_GROUPS = 9  # that are drawn
_MOST_SWITCHES = 4  # of a kind in each
_SIDE = 8.0
_RADIUS = 84.0


def draw_dragonfly(
    canvas: Canvas, diagram: TierDiagram, wires: DragonflyWires, words: Area, room: Area
) -> tuple[float, Focus]:
    """Groups with their switches, spines towards the middle; of many the first."""
    x, y = room.left + room.width / 2, room.top + _RADIUS + 2 * _SIDE
    drawn = min(wires.groups, MOST_GROUPS)
    spots = on_circle((x, y), _RADIUS, drawn)
    for a, b in combinations(spots, 2):
        canvas.line([a, b])
    rows = [wires.switches, *([wires.spines] if wires.spines else [])]
    tall = _SIDE * 1.5 * len(rows)
    for left, top in spots:
        wide = _SIDE * 1.5 * min(max(rows), _MOST_SWITCHES)
        canvas.box(left - wide / 2 - 3, top - tall / 2 - 3, wide + 6, tall + 6, "ct-box", round_=4)
        for row, count in enumerate(reversed(rows)):
            few = min(count, _MOST_SWITCHES)
            for place in range(few):
                at = left + (place - (few - 1) / 2) * 1.5 * _SIDE
                canvas.box(
                    at - _SIDE / 2,
                    top - tall / 2 + row * 1.5 * _SIDE + 2,
                    _SIDE,
                    _SIDE,
                    "ct-switch",
                    round_=1,
                )
    left, top = spots[0]
    focus = draw_endpoint(canvas, left, top + tall / 2 + 3)
    low = canvas.paragraph(
        words, f"{wires.endpoints} {endpoint_text(diagram, wires.endpoints)}", most=3, bold=True
    )
    low = canvas.paragraphs(words._replace(top=low), list(_told(wires, drawn)))
    return max(low, focus.y), focus


def draw_endpoint(canvas: Canvas, x: float, top: float) -> Focus:
    """One of a switch's, below it, in place of all."""
    canvas.line([(x, top), (x, top + 1.5 * _SIDE)])
    canvas.box(x - _SIDE / 2, top + 1.5 * _SIDE, _SIDE, _SIDE, "ct-soft", round_=2, outlined=False)
    return Focus(x, top + 2.5 * _SIDE, _SIDE / 2)


def _told(wires: DragonflyWires, drawn: int) -> list[str]:
    kinds = (
        f"{wires.switches} leaves, {counted(wires.spines, 'spine')}"
        if wires.spines
        else switches_text(wires.switches)
    )
    told = [
        f"{counted(wires.groups, 'group')} of {kinds}",
        f"{wires.hosts} a {'leaf' if wires.spines else 'switch'}",
    ]
    if wires.groups > 1:
        told.append(
            f"{counted(wires.cables, 'cable')} of {format_rate(wires.global_Bps)} between two"
            " groups"
        )
    told += [f"{drawn} groups drawn"] if drawn < wires.groups else []
    return [*told, f"{wires.routing} routing"]
