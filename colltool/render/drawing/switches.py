"""Drawings of switched tiers (star, Clos): a row per level of switches, endpoints at the bottom.

The band of links between two rows is as wide as its bandwidth: at 4:1 oversubscription it has a quarter of the full width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from colltool.render.drawing.diagram import (
    LevelDiagram,
    TierDiagram,
    endpoint_text,
    level_name,
    level_texts,
    ports_text,
    uplink_texts,
)
from colltool.render.drawing.svg import Area, Canvas, Focus, Tone

# pixels
SWITCH, WIDEST, SPACE, LONG = 22.0, 30.0, 12.0, 44.0  # height of a switch, widest endpoint slot, between texts, shortest link
_CLOSEST, _THINNEST, _BEHIND = 2.5, 1.5, 3.0  # between port lines, thinnest band, how far other rails show from behind
_BAND = 0.7  # width of a band without oversubscription, as a share of the switch's


class _SwitchRow(NamedTuple):
    top: float
    level: LevelDiagram


def switch_tree_of(diagram: TierDiagram) -> SwitchTree:
    return switch_tree([level.pairs.group for level in diagram.levels if level.reached], diagram.facts.endpoints)


def draw_switches(canvas: Canvas, diagram: TierDiagram, words: Area, room: Area) -> tuple[float, Focus]:
    links, boxes = canvas.group(), canvas.group()
    tree = switch_tree_of(diagram)
    slot = min(WIDEST, room.width / tree.slots)
    rows, bottom, end = _texts(canvas, diagram, words, slot)
    left = room.left + (room.width - slot * tree.slots) / 2
    tops = {index: row.top for index, row in enumerate(rows)} | {-1: bottom}
    _Drawing(links, boxes, diagram, slot, tops).draw(tree, left)
    middle, wide = left + slot * tree.slots / 2, slot * tree.slots - 4
    for below, row in pairwise(rows):
        if not row.level.reached:
            boxes.box(middle - wide / 2, row.top, wide, SWITCH, "ct-box", dashed=True)
            links.line([(middle, row.top + SWITCH), (middle, below.top)], dashed=True)
    side = _side(slot)
    return max(end, bottom + side), Focus(left + slot / 2, bottom + side, side / 2)


def _side(slot: float) -> float:
    return min(0.72 * slot, 22.0)


def _port_lines(diagram: TierDiagram, slot: float) -> int:
    return diagram.ports if _side(slot) >= _CLOSEST * diagram.ports else 1


def _ports(diagram: TierDiagram, slot: float) -> str:
    return ports_text(diagram) + (", one line for all" if _port_lines(diagram, slot) < diagram.ports else "")


def _texts(canvas: Canvas, diagram: TierDiagram, words: Area, slot: float) -> tuple[list[_SwitchRow], float, float]:
    rows, top = [], words.top
    for index, level in reversed(list(enumerate(diagram.levels))):
        rows.append(_SwitchRow(top, level))
        y = canvas.paragraph(words._replace(top=top), level_name(level), most=2, bold=True)
        for text in level_texts(diagram, level):
            y = canvas.paragraph(words._replace(top=y), text, tone="ct-soft", most=3)
        tight = level.reached and level.pairs.oversubscription > 1
        y += SPACE
        for text in uplink_texts(level) if index else [_ports(diagram, slot)]:
            y = canvas.paragraph(words._replace(top=y), text, tone="ct-accent" if tight else "ct-soft", most=3)
        top = max(y + SPACE, top + SWITCH + LONG)
    count, drawn = diagram.facts.endpoints, switch_tree_of(diagram).endpoints
    y = canvas.paragraph(words._replace(top=top), f"{count} {endpoint_text(diagram, count)}", most=3, bold=True)
    if drawn < count:
        y = canvas.paragraph(words._replace(top=y), f"{drawn} of them drawn", tone="ct-soft")
    return rows[::-1], top, y


class _Drawing:
    def __init__(self, links: Canvas, boxes: Canvas, diagram: TierDiagram, slot: float, tops: dict[int, float]) -> None:
        self.links, self.boxes, self.slot, self.tops = links, boxes, slot, tops
        self.levels, self.port_lines = diagram.levels, _port_lines(diagram, slot)

    def draw(self, tree: SwitchTree, left: float) -> None:
        top, width, side = self.tops[tree.level], tree.slots * self.slot, _side(self.slot)
        if tree.level < 0:
            self.boxes.box(left + (self.slot - side) / 2, top, side, side, "ct-soft", round_=2, outlined=False)
            return
        most = _BEHIND if self.levels[tree.level].rails > 1 else 0.0
        for behind in (most, 0.0) if most else (0.0,):
            self.boxes.box(left + 2 + behind, top - behind, width - 4 - most, SWITCH, "ct-switch")
        if not tree.below:
            self.boxes.gap(left + width / 2, top + SWITCH + 10, width)
        for one, x in self._placed(tree, left):
            if one is None:
                high = SWITCH if tree.level else side
                self.boxes.gap(x + self.slot / 2, self.tops[tree.level - 1] + high / 2, self.slot)
            else:
                self._link(one, x + one.slots * self.slot / 2, top + SWITCH)
                self.draw(one, x)

    def _placed(self, tree: SwitchTree, left: float) -> Iterator[tuple[SwitchTree | None, float]]:
        for one in tree.below:
            yield one, left
            left += self.slot * (one.slots if one else 1)

    def _link(self, one: SwitchTree, middle: float, above: float) -> None:
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


MOST_SLOTS = 27
_MOST_OF_ONE = {1: 9, 2: 4}  # slots of a group, by the number of levels; 3 (first, gap, last) from three levels on


@dataclass(frozen=True)
class SwitchTree:
    """A switch, or at level -1 an endpoint, and what is drawn below it."""

    level: int
    below: tuple[SwitchTree | None, ...] = ()  # None is a gap for those left out; a switch may have nothing drawn below it

    @property
    def slots(self) -> int:
        """Its width in endpoints."""
        return sum(one.slots if one else 1 for one in self.below) or 1

    @property
    def endpoints(self) -> int:
        return 1 if self.level < 0 else sum(one.endpoints for one in self.below if one)


def switch_tree(groups: Sequence[int], endpoints: int) -> SwitchTree:
    """What is drawn of a tier, given the group sizes of its levels bottom up; the top level joins all endpoints.

    >>> tree = switch_tree([4, 32], 32)
    >>> [one and one.endpoints for one in tree.below], tree.endpoints
    ([4, 4, None, 4], 12)
    """
    most = _MOST_OF_ONE.get(len(groups), 3)
    return _switch_tree(groups, len(groups) - 1, endpoints, most, most ** len(groups) <= MOST_SLOTS)


def _switch_tree(groups: Sequence[int], level: int, endpoints: int, most: int, everywhere: bool) -> SwitchTree:
    if level < 0:
        return SwitchTree(-1)
    each = groups[level - 1] if level else 1
    count = ceil(endpoints / each)
    return SwitchTree(
        level,
        tuple(
            None
            if number is None
            else _switch_tree(groups, level - 1, min(each, endpoints - number * each), most, everywhere)
            if everywhere or number == 0 or level == 0
            else SwitchTree(level - 1)
            for number in _shown(count, most)
        ),
    )


def _shown(count: int, most: int) -> Iterator[int | None]:
    if count <= most:
        yield from range(count)
    else:
        yield from (*range(most - 2), None, count - 1)
