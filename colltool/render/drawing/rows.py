"""A star or a Clos: a row for each level of switches, its endpoints below, and what joins them.

A band between two rows is as wide as the bandwidth that goes through it: oversubscribed 4:1 it has a quarter of the width.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from colltool.render.drawing.branch import Branch, grown
from colltool.render.drawing.pen import Area, Focus, Pen, Tone
from colltool.render.drawing.sketch import LevelSketch, TierSketch
from colltool.render.drawing.words import endpoint_text, level_name, level_texts, ports_text, uplink_texts

SWITCH, WIDEST, SPACE, LONG = 22.0, 30.0, 12.0, 44.0
_CLOSEST, _THINNEST, _BEHIND = 2.5, 1.5, 3.0
"""Pixels: height of a switch, the widest slot of an endpoint, room between texts, the shortest link; between the lines of ports,
the thinnest band, how far the switches of another rail look out from behind."""
_BAND = 0.7
"""Of a switch's width: the band of uplinks that are not oversubscribed."""


class Row(NamedTuple):
    """Where the switches of a level stand, and what is said of them and of the links below."""

    top: float
    level: LevelSketch


def branch_of(sketch: TierSketch) -> Branch:
    """The switches and endpoints that are drawn."""
    return grown([level.pairs.group for level in sketch.levels if level.reached], sketch.facts.endpoints)


def draw_rows(pen: Pen, sketch: TierSketch, words: Area, room: Area) -> tuple[float, Focus]:
    """Texts on the left and rows on the right. Where they end, and the endpoint in focus."""
    links, boxes = pen.group(), pen.group()
    branch = branch_of(sketch)
    slot = min(WIDEST, room.width / branch.slots)
    rows, bottom, end = _texts(pen, sketch, words, slot)
    left = room.left + (room.width - slot * branch.slots) / 2
    tops = {index: row.top for index, row in enumerate(rows)} | {-1: bottom}
    _Drawing(links, boxes, sketch, slot, tops).draw(branch, left)
    middle, wide = left + slot * branch.slots / 2, slot * branch.slots - 4
    for below, row in pairwise(rows):
        if not row.level.reached:
            boxes.box(middle - wide / 2, row.top, wide, SWITCH, "ct-box", dashed=True)
            links.line([(middle, row.top + SWITCH), (middle, below.top)], dashed=True)
    side = _side(slot)
    return max(end, bottom + side), Focus(left + slot / 2, bottom + side, side / 2)


def _side(slot: float) -> float:
    return min(0.72 * slot, 22.0)


def _port_lines(sketch: TierSketch, slot: float) -> int:
    """One for each port of an endpoint where there is room, else one for all."""
    return sketch.ports if _side(slot) >= _CLOSEST * sketch.ports else 1


def _ports(sketch: TierSketch, slot: float) -> str:
    return ports_text(sketch) + (", one line for all" if _port_lines(sketch, slot) < sketch.ports else "")


def _texts(pen: Pen, sketch: TierSketch, words: Area, slot: float) -> tuple[list[Row], float, float]:
    """Beside each row, top level first; the rows bottom up, where the endpoints stand, and where the texts end."""
    rows, top = [], words.top
    for index, level in reversed(list(enumerate(sketch.levels))):
        rows.append(Row(top, level))
        y = pen.paragraph(words._replace(top=top), level_name(level), most=2, bold=True)
        for text in level_texts(sketch, level):
            y = pen.paragraph(words._replace(top=y), text, tone="ct-soft", most=3)
        tight = level.reached and level.pairs.oversubscription > 1
        y += SPACE
        for text in uplink_texts(level) if index else [_ports(sketch, slot)]:
            y = pen.paragraph(words._replace(top=y), text, tone="ct-accent" if tight else "ct-soft", most=3)
        top = max(y + SPACE, top + SWITCH + LONG)
    count, drawn = sketch.facts.endpoints, branch_of(sketch).endpoints
    y = pen.paragraph(words._replace(top=top), f"{count} {endpoint_text(sketch, count)}", most=3, bold=True)
    if drawn < count:
        y = pen.paragraph(words._replace(top=y), f"{drawn} of them drawn", tone="ct-soft")
    return rows[::-1], top, y


class _Drawing:
    """The boxes of a branch and the links between them."""

    def __init__(self, links: Pen, boxes: Pen, sketch: TierSketch, slot: float, tops: dict[int, float]) -> None:
        self.links, self.boxes, self.slot, self.tops = links, boxes, slot, tops
        self.levels, self.port_lines = sketch.levels, _port_lines(sketch, slot)

    def draw(self, branch: Branch, left: float) -> None:
        """A switch, all that is below it, and the links to it; or an endpoint."""
        top, width, side = self.tops[branch.level], branch.slots * self.slot, _side(self.slot)
        if branch.level < 0:
            self.boxes.box(left + (self.slot - side) / 2, top, side, side, "ct-soft", round_=2, outlined=False)
            return
        most = _BEHIND if self.levels[branch.level].rails > 1 else 0.0
        for behind in (most, 0.0) if most else (0.0,):
            self.boxes.box(left + 2 + behind, top - behind, width - 4 - most, SWITCH, "ct-switch")
        if not branch.below:
            self.boxes.gap(left + width / 2, top + SWITCH + 10, width)
        for one, x in self._placed(branch, left):
            if one is None:
                high = SWITCH if branch.level else side
                self.boxes.gap(x + self.slot / 2, self.tops[branch.level - 1] + high / 2, self.slot)
            else:
                self._link(one, x + one.slots * self.slot / 2, top + SWITCH)
                self.draw(one, x)

    def _placed(self, branch: Branch, left: float) -> Iterator[tuple[Branch | None, float]]:
        for one in branch.below:
            yield one, left
            left += self.slot * (one.slots if one else 1)

    def _link(self, one: Branch, middle: float, above: float) -> None:
        """From a switch or endpoint up to its own: a band for the uplinks, or its ports."""
        top = self.tops[one.level]
        if one.level < 0:
            for number in range(self.port_lines):
                x = middle + (number - (self.port_lines - 1) / 2) * _side(self.slot) / self.port_lines
                self.links.line([(x, top), (x, above)])
            return
        share = self.levels[one.level + 1].pairs.oversubscription
        wide = max(_BAND * (one.slots * self.slot - 4) / share, _THINNEST)
        tone: Tone = "ct-accent" if share > 1 else "ct-switch"
        self.links.box(middle - wide / 2, above, wide, top - above, tone, round_=0, outlined=False)
