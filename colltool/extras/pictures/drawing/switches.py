"""Drawings of switched tiers (star, Clos): a row per level, endpoints at the bottom.

The band of links between two rows is as wide as its bandwidth: at 4:1 oversubscription it has a
quarter of the full width.
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
SWITCH = 22.0  # height of a switch
WIDEST = 30.0  # slot of an endpoint, at most
SPACE = 12.0  # between texts
LONG = 44.0  # shortest link
_CLOSEST = 2.5  # between the lines of ports
_THINNEST = 1.5  # band
_BEHIND = 3.0  # how far other rails show from behind
_BAND = 0.7  # width of a band without oversubscription, as a share of the switch's
_ENDPOINT = 0.72  # side of an endpoint, as a share of its slot
_LARGEST_ENDPOINT = 22.0
_BESIDE = 2.0  # free in a slot at each side of a switch

MOST_SLOTS = 27
"""Endpoints side by side, up to which every group in sight is drawn whole; beyond only the first."""
_SLOTS_PER_GROUP = {1: 9, 2: 4}
"""Slots of a group by the number of levels; from three levels on 3: first, gap, last."""


def draw_switches(canvas: Canvas, diagram: TierDiagram, words: TextColumn, room: Area) -> Focus:
    """Draw the levels of a tier above its endpoints; return the first endpoint."""
    links = canvas.group()
    boxes = canvas.group()
    tree = _tree_of(diagram)
    slot = min(WIDEST, room.width / tree.slots)
    side = min(_ENDPOINT * slot, _LARGEST_ENDPOINT)
    port_lines = diagram.ports if side >= _CLOSEST * diagram.ports else 1
    tops = _write_levels(diagram, words, one_line=port_lines < diagram.ports)
    write_endpoints(words, diagram, tree.endpoints)
    levels = diagram.levels
    left = room.left + (room.width - slot * tree.slots) / 2
    drawing = _SwitchDrawing(
        links, boxes, levels, slot, side=side, port_lines=port_lines, tops=tops
    )
    drawing.draw(tree, left)
    middle = left + slot * tree.slots / 2
    wide = slot * tree.slots - 2 * _BESIDE
    for index, level in enumerate(levels):
        if index and not level.reached:
            boxes.box(middle - wide / 2, tops[index], wide, SWITCH, "ct-box", dashed=True)
            links.line([(middle, tops[index] + SWITCH), (middle, tops[index - 1])], dashed=True)
    return Focus(left + slot / 2, tops[-1] + side, side / 2)


def drawn_endpoints(diagram: TierDiagram) -> int:
    return _tree_of(diagram).endpoints


def _write_levels(diagram: TierDiagram, words: TextColumn, *, one_line: bool) -> dict[int, float]:
    """Write the texts of all levels, top down; return the top of each and, at -1, of the endpoints
    below them. ``one_line``: a line is drawn for all ports of one."""
    tops = {}
    for index, level in reversed(list(enumerate(diagram.levels))):
        tops[index] = words.bottom
        words.write(level.name or _unnamed(level), most=2, bold=True)
        words.write_each(level_texts(diagram, level), most=3)
        words.bottom += SPACE
        texts = uplink_texts(level)
        if index == 0:
            texts = [ports_text(diagram) + (", one line for all" if one_line else "")]
        tight = level.reached and level.distance.oversubscription > 1
        words.write_each(texts, tone="ct-accent" if tight else "ct-soft", most=3)
        words.bottom += SPACE
        words.skip_to(tops[index] + SWITCH + LONG)
    tops[-1] = words.bottom
    return tops


def _unnamed(level: LevelDiagram) -> str:
    return "1 switch" if level.switches == 1 else "switches"


@dataclass
class _SwitchDrawing:
    """A drawing of switches: ``tops`` is the upper edge of each level, at -1 of the endpoints."""

    links: Canvas
    boxes: Canvas
    levels: Sequence[LevelDiagram]
    slot: float  # width of an endpoint and the space around it
    side: float  # of the endpoint itself
    port_lines: int
    tops: dict[int, float]

    def draw(self, tree: SwitchTree, left: float) -> None:
        """Draw a switch, or an endpoint, and all that is below it."""
        top = self.tops[tree.level]
        if tree.level < 0:
            self.boxes.square(left + self.slot / 2, top + self.side / 2, self.side)
            return
        width = tree.slots * self.slot
        shown = width - 2 * _BESIDE
        if self.levels[tree.level].rails > 1:
            shown -= _BEHIND
            self.boxes.box(left + _BESIDE + _BEHIND, top - _BEHIND, shown, SWITCH, "ct-switch")
        self.boxes.box(left + _BESIDE, top, shown, SWITCH, "ct-switch")
        if not tree.below:
            self.boxes.gap(left + width / 2, top + SWITCH + 10, width)
        for branch in tree.below:
            if branch is None:
                high = SWITCH if tree.level else self.side
                middle = self.tops[tree.level - 1] + high / 2
                self.boxes.gap(left + self.slot / 2, middle, self.slot)
                left += self.slot
            else:
                self._link(branch, left + branch.slots * self.slot / 2, top + SWITCH)
                self.draw(branch, left)
                left += self.slot * branch.slots

    def _link(self, branch: SwitchTree, middle: float, above: float) -> None:
        """Draw the links between a switch and one of its branches."""
        top = self.tops[branch.level]
        if branch.level < 0:
            for number in range(self.port_lines):
                x = middle + (number - (self.port_lines - 1) / 2) * self.side / self.port_lines
                self.links.line([(x, top), (x, above)])
            return
        oversubscription = self.levels[branch.level + 1].distance.oversubscription
        switch_wide = branch.slots * self.slot - 2 * _BESIDE
        wide = max(_BAND * switch_wide / oversubscription, _THINNEST)
        tone: Tone = "ct-accent" if oversubscription > 1 else "ct-switch"
        self.links.box(middle - wide / 2, above, wide, top - above, tone, round_=0, outlined=False)


@dataclass(frozen=True)
class SwitchTree:
    """A switch, or at level -1 an endpoint, and what is drawn below it."""

    level: int
    # None is a gap for those left out; a switch may have nothing drawn below it
    below: tuple[SwitchTree | None, ...] = ()

    @property
    def slots(self) -> int:
        """Its width in endpoints."""
        return sum(branch.slots if branch else 1 for branch in self.below) or 1

    @property
    def endpoints(self) -> int:
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
    everywhere = most_below ** len(groups) <= MOST_SLOTS

    def tree(level: int, endpoints: int) -> SwitchTree:
        """A switch of a level with this many endpoints below it."""
        if level < 0:
            return SwitchTree(-1)
        endpoints_each = groups[level - 1] if level else 1
        branches = ceil(endpoints / endpoints_each)
        numbers: Sequence[int | None] = range(branches)
        if branches > most_below:
            numbers = [*range(most_below - 2), None, branches - 1]
        below: list[SwitchTree | None] = []
        for number in numbers:
            if number is None:
                below.append(None)
            elif everywhere or number == 0 or level == 0:
                below.append(
                    tree(level - 1, min(endpoints_each, endpoints - number * endpoints_each))
                )
            else:
                below.append(SwitchTree(level - 1))
        return SwitchTree(level, tuple(below))

    return tree(len(groups) - 1, endpoints)


def _tree_of(diagram: TierDiagram) -> SwitchTree:
    groups = [level.distance.group for level in diagram.levels if level.reached]
    return switch_tree(groups, diagram.facts.endpoints)
