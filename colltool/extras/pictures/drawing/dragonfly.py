"""Drawings of dragonflies: groups on a circle with their switches, and a line between every two, as
cables join all pairs of groups.

A dragonfly+ has spines beside its leaves, to which the cables lead; a dragonfly has switches alone.
"""

from __future__ import annotations

from itertools import combinations

from colltool.base.formatting import counted, format_rate
from colltool.extras.pictures.drawing.endpoints import Focus, draw_endpoint, write_endpoints
from colltool.extras.pictures.drawing.svg import Area, Canvas, TextColumn, on_circle
from colltool.network.wires import DragonflyWires
from colltool.render.views.fabric_diagram import TierDiagram
from colltool.render.views.fabric_parts import switches_text

MOST_GROUPS = 9  # that are drawn
_MOST_SWITCHES = 4  # of a kind in each
# All in pixels.
_SIDE = 8.0  # of a switch
_STEP = 1.5 * _SIDE  # from one switch to the next
_RADIUS = 84.0  # of the circle of groups
_RIM = 3.0  # from the switches of a group to its box


def draw_dragonfly(
    canvas: Canvas, diagram: TierDiagram, wires: DragonflyWires, words: TextColumn, room: Area
) -> Focus:
    """Draw the groups in ``room`` and write about them in ``words``; return the endpoint below the
    first group. Of many groups only the first are drawn."""
    centre = (room.middle, room.top + _RADIUS + 2 * _SIDE)
    drawn = min(wires.groups, MOST_GROUPS)
    places = on_circle(centre, _RADIUS, drawn)
    for pair in combinations(places, 2):
        canvas.line(pair)
    # spines are the upper row of a group
    rows = [wires.spines, wires.switches] if wires.spines else [wires.switches]
    for x, y in places:
        _draw_group(canvas, rows, x, y)
    x, y = places[0]
    focus = draw_endpoint(canvas, x, y + _STEP * len(rows) / 2 + _RIM)
    # nothing on how many are drawn: it is the one endpoint above
    write_endpoints(words, diagram)
    words.write_each(_texts(wires, drawn))
    return focus


def _draw_group(canvas: Canvas, rows: list[int], x: float, y: float) -> None:
    """Draw a box around ``x`` and ``y`` with rows of switches; ``rows``: how many a row has, of which
    the first few are drawn."""
    width = _STEP * min(max(rows), _MOST_SWITCHES)
    height = _STEP * len(rows)
    left = x - width / 2 - _RIM
    canvas.box(left, y - height / 2 - _RIM, width + 2 * _RIM, height + 2 * _RIM, "ct-box")
    for row, count in enumerate(rows):
        # each switch is in the middle of its step
        switch_y = y - height / 2 + (row + 0.5) * _STEP
        drawn = min(count, _MOST_SWITCHES)
        for number in range(drawn):
            switch_x = x + (number - (drawn - 1) / 2) * _STEP
            canvas.square(switch_x, switch_y, _SIDE, "ct-switch", round_=1, outlined=True)


def _texts(wires: DragonflyWires, drawn: int) -> list[str]:
    """What there is: ``9 groups of 8 leaves, 8 spines``, ``4 a leaf`` (endpoints), the cables, how many
    groups are ``drawn`` where not all are, and the routing."""
    leaf = "switch"
    switches = switches_text(wires.switches)
    if wires.spines:
        leaf = "leaf"
        switches = f"{wires.switches} leaves, {counted(wires.spines, 'spine')}"
    texts = [f"{counted(wires.groups, 'group')} of {switches}", f"{wires.hosts} a {leaf}"]
    if wires.groups > 1:
        cables = counted(wires.cables, "cable")
        texts.append(f"{cables} of {format_rate(wires.global_Bps)} between two groups")
    if drawn < wires.groups:
        texts.append(f"{drawn} groups drawn")
    return [*texts, f"{wires.routing} routing"]
