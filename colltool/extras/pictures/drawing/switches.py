"""Drawings of switched tiers (star, Clos): a row per level, endpoints at the bottom.

The band of links between two rows is as wide as its bandwidth: at 4:1 oversubscription it has a
quarter of the full width. :func:`switch_tree` decides what is drawn of a large tier, and
:func:`draw_switches` draws it. Levels are counted from 0 at the bottom; -1 are the endpoints. A slot is the width
of an endpoint with the space around it, in which all widths are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from colltool.extras.pictures.drawing.endpoints import Focus, write_endpoints
from colltool.extras.pictures.drawing.svg import Area, Canvas, TextColumn, Tone
from colltool.render.views.fabric_diagram import (
    LevelDiagram,
    TierDiagram,
    level_texts,
    ports_text,
    uplink_texts,
)

# All in pixels.
_SWITCH_HEIGHT = 22.0
_WIDEST_SLOT = 30.0  # of an endpoint
_TEXT_GAP = 12.0
_SHORTEST_LINK = 44.0
_CLOSEST_PORTS = 2.5  # between their lines
_THINNEST_BAND = 1.5
_RAIL_OFFSET = 3.0  # how far other rails show from behind
_LARGEST_ENDPOINT = 22.0
_SIDE_GAP = 2.0  # free in a slot at each side of a switch
# Shares.
_BAND_SHARE = 0.7  # width of a band without oversubscription, of the switch's
_ENDPOINT_SHARE = 0.72  # side of an endpoint, of its slot

MOST_SLOTS = 27
"""Endpoints side by side, up to which every group in sight is drawn whole; beyond only the first."""
_SLOTS_PER_GROUP = {1: 9, 2: 4}
"""Slots of a group by the number of levels; from three levels on 3: first, gap, last."""


def draw_switches(canvas: Canvas, diagram: TierDiagram, words: TextColumn, room: Area) -> Focus:
    """Draw the levels of a tier above its endpoints, within ``room`` and beside ``words``, to which their texts
    are written; return the first endpoint."""
    # links lie under the switches
    links = canvas.group()
    boxes = canvas.group()
    tree = _tree_of(diagram)
    slot = min(_WIDEST_SLOT, room.width / tree.slots)
    side = min(_ENDPOINT_SHARE * slot, _LARGEST_ENDPOINT)
    # a line for each port, or one for all where they would be too close
    port_lines = diagram.ports if side >= _CLOSEST_PORTS * diagram.ports else 1
    tops = _write_levels(diagram, words, one_line=port_lines < diagram.ports)
    write_endpoints(words, diagram, tree.endpoints)
    levels = diagram.levels
    left = room.left + (room.width - slot * tree.slots) / 2
    drawing = _SwitchDrawing(
        links, boxes, levels, slot, side=side, port_lines=port_lines, tops=tops
    )
    drawing.draw(tree, left)
    middle = left + slot * tree.slots / 2
    width = slot * tree.slots - 2 * _SIDE_GAP
    for index, level in enumerate(levels):
        # a level above all that is used is only hinted at
        if index and not level.reached:
            boxes.box(middle - width / 2, tops[index], width, _SWITCH_HEIGHT, "ct-box", dashed=True)
            links.line(
                [(middle, tops[index] + _SWITCH_HEIGHT), (middle, tops[index - 1])], dashed=True
            )
    return Focus(left + slot / 2, tops[-1] + side, side / 2)


def drawn_endpoints(diagram: TierDiagram) -> int:
    """How many of a tier's endpoints are drawn."""
    return _tree_of(diagram).endpoints


def _write_levels(diagram: TierDiagram, words: TextColumn, *, one_line: bool) -> dict[int, float]:
    """Write the texts of all levels, top down; return the upper edge of each level by its number and, at -1, of
    the endpoints. ``one_line``: all ports of an endpoint are drawn as one line."""
    tops = {}
    for index, level in reversed(list(enumerate(diagram.levels))):
        tops[index] = words.bottom
        words.write(level.name or _text_without_name(level), most=2, bold=True)
        words.write_each(level_texts(diagram, level), most=3)
        words.bottom += _TEXT_GAP
        texts = uplink_texts(level)
        if index == 0:
            texts = [ports_text(diagram) + (", one line for all" if one_line else "")]
        is_tight = level.reached and level.distance.oversubscription > 1
        words.write_each(texts, tone="ct-accent" if is_tight else "ct-soft", most=3)
        words.bottom += _TEXT_GAP
        words.skip_to(tops[index] + _SWITCH_HEIGHT + _SHORTEST_LINK)
    tops[-1] = words.bottom
    return tops


def _text_without_name(level: LevelDiagram) -> str:
    return "1 switch" if level.switches == 1 else "switches"


@dataclass
class _SwitchDrawing:
    """What all switches of a drawing share; lengths in pixels."""

    links: Canvas
    boxes: Canvas
    levels: Sequence[LevelDiagram]
    slot: float  # width of an endpoint and the space around it
    side: float  # of the endpoint itself
    port_lines: int  # drawn from each endpoint
    tops: dict[int, float]  # upper edge of each level

    def draw(self, tree: SwitchTree, left: float) -> None:
        """Draw a switch, or an endpoint, and all that is below it, from its ``left`` edge on."""
        top = self.tops[tree.level]
        if tree.level < 0:
            self.boxes.square(left + self.slot / 2, top + self.side / 2, self.side)
            return
        width = tree.slots * self.slot
        x = left + _SIDE_GAP
        box_width = width - 2 * _SIDE_GAP
        if self.levels[tree.level].rails > 1:
            box_width -= _RAIL_OFFSET
            behind = (x + _RAIL_OFFSET, top - _RAIL_OFFSET)
            self.boxes.box(*behind, box_width, _SWITCH_HEIGHT, "ct-switch")
        self.boxes.box(x, top, box_width, _SWITCH_HEIGHT, "ct-switch")
        if not tree.below:
            self.boxes.gap(left + width / 2, top + _SWITCH_HEIGHT + 10, width)
        for branch in tree.below:
            if branch is None:
                height = _SWITCH_HEIGHT if tree.level else self.side
                middle = self.tops[tree.level - 1] + height / 2
                self.boxes.gap(left + self.slot / 2, middle, self.slot)
                left += self.slot
            else:
                self._link(branch, left + branch.slots * self.slot / 2, top + _SWITCH_HEIGHT)
                self.draw(branch, left)
                left += self.slot * branch.slots

    def _link(self, branch: SwitchTree, middle: float, above: float) -> None:
        """Draw the links between a switch, whose lower edge is at ``above``, and one of its branches
        around the ``middle``: a line for each port of an endpoint, or a band to a switch."""
        top = self.tops[branch.level]
        if branch.level < 0:
            for number in range(self.port_lines):
                x = middle + (number - (self.port_lines - 1) / 2) * self.side / self.port_lines
                self.links.line([(x, top), (x, above)])
            return
        oversubscription = self.levels[branch.level + 1].distance.oversubscription
        switch_width = branch.slots * self.slot - 2 * _SIDE_GAP
        width = max(_BAND_SHARE * switch_width / oversubscription, _THINNEST_BAND)
        tone: Tone = "ct-accent" if oversubscription > 1 else "ct-switch"
        left = middle - width / 2
        self.links.box(left, above, width, top - above, tone, round_=0, outlined=False)


@dataclass(frozen=True)
class SwitchTree:
    """A switch, or at level -1 an endpoint, and what is drawn below it."""

    level: int
    # None is a gap for those left out; a switch may have nothing drawn below it
    below: tuple[SwitchTree | None, ...] = ()

    @property
    def slots(self) -> int:
        """Its width in endpoints; a gap, and a switch with nothing below it, are as wide as one."""
        return sum(branch.slots if branch else 1 for branch in self.below) or 1

    @property
    def endpoints(self) -> int:
        """How many endpoints are drawn below it, or itself."""
        if self.level < 0:
            return 1
        return sum(branch.endpoints for branch in self.below if branch)


def switch_tree(groups: Sequence[int], endpoints: int) -> SwitchTree:
    """What is drawn of a tier whose levels have these group sizes, bottom up; the top level joins
    all endpoints.

    >>> tree = switch_tree([4, 32], 32)
    >>> [branch and branch.endpoints for branch in tree.below], tree.endpoints
    ([4, 4, None, 4], 12)
    """
    most_below = _SLOTS_PER_GROUP.get(len(groups), 3)
    # whether there is room for all that is below each switch, not only the first of a level
    is_whole = most_below ** len(groups) <= MOST_SLOTS

    def subtree(level: int, endpoints: int) -> SwitchTree:
        """A switch of a level with this many endpoints below it."""
        if level < 0:
            return SwitchTree(-1)
        endpoints_each = groups[level - 1] if level else 1
        branches = ceil(endpoints / endpoints_each)
        numbers: Sequence[int | None] = range(branches)
        # the first ones, a gap, and the last
        if branches > most_below:
            numbers = [*range(most_below - 2), None, branches - 1]
        below: list[SwitchTree | None] = []
        for number in numbers:
            if number is None:
                below.append(None)
            elif is_whole or number == 0 or level == 0:
                # the last branch may have fewer
                remaining = endpoints - number * endpoints_each
                below.append(subtree(level - 1, min(endpoints_each, remaining)))
            else:
                below.append(SwitchTree(level - 1))
        return SwitchTree(level, tuple(below))

    return subtree(len(groups) - 1, endpoints)


def _tree_of(diagram: TierDiagram) -> SwitchTree:
    """What is drawn of a tier, by the levels that two of its endpoints need to meet."""
    groups = [level.distance.group for level in diagram.levels if level.reached]
    return switch_tree(groups, diagram.facts.endpoints)
