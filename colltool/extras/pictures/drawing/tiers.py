"""Drawings of one tier. Direct links: a torus or mesh as blocks of up to three axes (their visible
faces), all-to-all as a circle. Switches (star, Clos): a row per level, endpoints at the bottom; the
band of links between two rows is as wide as its
bandwidth: at 4:1 oversubscription it has a quarter of the full width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import ceil, prod
from typing import NamedTuple

from colltool.algorithms.group import Axis, JoinedBy
from colltool.base.formatting import counted
from colltool.extras.pictures.drawing.routed import draw_routed, drawn_ranks
from colltool.extras.pictures.drawing.svg import Area, Canvas, Focus, Tone, on_circle
from colltool.render.views.fabric_diagram import (
    LevelDiagram,
    TierDiagram,
    endpoint_text,
    level_texts,
    ports_text,
    uplink_texts,
)

AXES = 3  # of a block
MOST = 8  # places of an axis that are all drawn; of more, the first and last few
_HEAD, _TAIL = 4, 2
# pixels
# from a line to its wraparound, to the axis number without one, room for both
_ARC, _RIM, _MARGIN = 16.0, 8.0, 34.0
_BETWEEN, _STEP = 40.0, 30.0  # between blocks; between places at most
_DEPTH = (0.52, -0.42)  # x and y of a step along the third axis, in steps along the others
# the side of a block where the number and wraparound of each axis are drawn: x, y, how far below,
# anchor of the text
_SIDES = ((0.0, -1.0, 0.0, "middle"), (-1.0, 0.0, 5.0, "end"), (0.8, 0.6, 8.0, "start"))

Point = tuple[float, float]


class Place(NamedTuple):
    """A coordinate on an axis, and the slot where it is drawn."""

    number: int
    slot: int


def places(axis: Axis) -> list[Place]:
    """The places of an axis that are drawn; one slot is left free where some are left out."""
    if axis.size <= MOST:
        return [Place(number, number) for number in range(axis.size)]
    first = [Place(number, number) for number in range(_HEAD)]
    return first + [
        Place(axis.size - _TAIL + number, _HEAD + 1 + number) for number in range(_TAIL)
    ]


def blocks_of(axes: Sequence[Axis]) -> list[tuple[Axis, ...]]:
    """The axes in groups of up to three, innermost first."""
    return [tuple(axes[start : start + AXES]) for start in range(0, len(axes), AXES)]


def faces(axes: Sequence[Axis]) -> list[tuple[Place, ...]]:
    """The visible places of a block: on its front, top and right side."""
    lines = [places(axis) for axis in axes]
    sides = list(zip(range(AXES), (-1, -1, 0), lines, strict=False))
    return [
        at
        for at in product(*lines)
        if len(at) < AXES or any(at[axis] == line[side] for axis, side, line in sides)
    ]


def axis_text(number: int, axes: Sequence[Axis]) -> str:
    """Such as ``axis 1: rings of 8``, ``axis 2: a pair`` or what a twist closes."""
    axis = axes[number - 1]
    if axis.size == 1:
        return f"axis {number}: 1 place"
    if axis.twist:
        along = " and ".join(f"axis {other}" for other, by in enumerate(axis.twist, start=1) if by)
        return f"axis {number}: lines of {axis.size}, closed half way round {along} (dashed)"
    shape = "ring" if axis.is_ring else "pair" if axis.size == 2 else "line"
    alone = prod(other.size for other in axes) == axis.size
    return f"axis {number}: {f'a {shape}' if alone else f'{shape}s'}" + (
        f" of {axis.size}" if axis.size > 2 else ""
    )


def draw_lattice(
    canvas: Canvas, diagram: TierDiagram, words: Area, room: Area
) -> tuple[float, Focus]:
    blocks = blocks_of(diagram.kind.axes)
    top, focus = room.top, None
    for index, axes in reversed(list(enumerate(blocks))):
        block = _LatticeBlock(canvas, axes, room._replace(top=top), index * AXES + 1)
        if focus is not None:
            back = [line[-1] for line in block.lines]
            zoom(
                canvas,
                focus,
                top - _BETWEEN,
                block.at([block.lines[0][0], *back[1:2]]),
                block.at(back),
            )
        focus = block.draw(6.0 if index else 3.2)
        count = prod(axis.size for axis in axes)
        below = "x".join(str(axis.size) for inner in blocks[:index] for axis in inner)
        what = f"block{'s' * (count != 1)} of {below}" if index else endpoint_text(diagram, count)
        told = [
            axis_text(index * AXES + number, diagram.kind.axes)
            for number in range(1, 1 + len(axes))
        ]
        if len(axes) == AXES and min(axis.size for axis in axes) > 1:
            told.append("the faces in sight are drawn")
        if any(axis.size > MOST for axis in axes):
            told.append("dashed: places left out")
        told += [ports_text(diagram)] if diagram.ports > 1 else []
        head = f"{' x '.join(str(axis.size) for axis in axes)} {what}"
        y = canvas.paragraph(words._replace(top=top), head, most=4, bold=True)
        top = max(focus.y, canvas.paragraphs(words._replace(top=y), told)) + _BETWEEN
    assert focus is not None  # there is at least one axis
    return top - _BETWEEN, focus


def zoom(canvas: Canvas, focus: Focus, down: float, left: Point, right: Point) -> None:
    """Dashed lines from an endpoint straight down past the texts, then out to both corners of what
    it is made of."""
    for x, corner in ((focus.x - focus.half, left), (focus.x + focus.half, right)):
        canvas.line([(x, focus.y), (x, down), corner], dashed=True)


class _LatticeBlock:
    def __init__(self, canvas: Canvas, axes: Sequence[Axis], room: Area, first: int) -> None:
        self.canvas, self.axes, self.first = canvas, axes, first
        self.lines = [places(axis) for axis in axes]
        right, up, deep = self._slots([line[-1] for line in self.lines])
        wide, high = right + _DEPTH[0] * deep, up - _DEPTH[1] * deep
        self.step = min(_STEP, (room.width - 2 * _MARGIN) / max(wide, 1))
        self.left = room.left + (room.width - wide * self.step) / 2
        self.bottom = room.top + (_MARGIN if axes[0].size > 1 else _RIM) + high * self.step

    def _slots(self, place: Sequence[Place]) -> list[int]:
        return [one.slot for one in place] + [0] * (AXES - len(place))

    def at(self, place: Sequence[Place]) -> Point:
        right, up, deep = self._slots(place)
        return (
            self.left + (right + _DEPTH[0] * deep) * self.step,
            self.bottom + (_DEPTH[1] * deep - up) * self.step,
        )

    def draw(self, radius: float) -> Focus:
        seen = faces(self.axes)
        pairs = list(self._neighbours(seen))
        for dashed in (False, True):
            steps = [
                f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"
                for (x, y), (u, v), jumps in pairs
                if jumps is dashed
            ]
            if steps:
                self.canvas.path("".join(steps), dashed=dashed)
        for place in seen:
            self.canvas.dot(*self.at(place), radius)
        for index, axis in enumerate(self.axes):
            if axis.size > 1:
                self._name(index, axis)
        x, y = self.at([line[0] for line in self.lines])
        return Focus(x, y + radius, radius)

    def _neighbours(self, seen: Sequence[tuple[Place, ...]]) -> Iterator[tuple[Point, Point, bool]]:
        there = set(seen)
        for place in seen:
            for index, line in enumerate(self.lines):
                after = line.index(place[index]) + 1
                if (
                    after < len(line)
                    and (other := (*place[:index], line[after], *place[index + 1 :])) in there
                ):
                    yield (
                        self.at(place),
                        self.at(other),
                        line[after].number - place[index].number > 1,
                    )

    def _name(self, index: int, axis: Axis) -> None:
        rim, line = [one[0] for one in self.lines], self.lines[index]
        if index == 0:
            rim[1:] = [one[-1] for one in self.lines[1:]]
        if index == AXES - 1:
            rim[0] = self.lines[0][-1]
        (x, y), (u, v) = (
            self.at([*rim[:index], end, *rim[index + 1 :]]) for end in (line[0], line[-1])
        )
        across, down, below, anchor = _SIDES[index]
        dx, dy = across * _ARC, down * _ARC
        if axis.closed:
            arc = (
                f"M{x:.1f} {y:.1f}C{x + dx:.1f} {y + dy:.1f} {u + dx:.1f} {v + dy:.1f} {u:.1f}"
                f" {v:.1f}"
            )
            self.canvas.path(arc, dashed=bool(axis.twist))
        far = _ARC if axis.closed else _RIM
        middle, low = (x + u) / 2 + across * far, (y + v) / 2 + down * far + below
        self.canvas.text(
            middle, low, str(self.first + index), 2 * _ARC, tone="ct-soft", anchor=anchor
        )


MOST_PAIRS = 12  # endpoints that are all drawn; of more, only eight
_SIDE = 14.0
_RADIUS = 84.0


def _drawn_pairs(diagram: TierDiagram) -> int:
    count = diagram.facts.endpoints
    return count if count <= MOST_PAIRS else 8


def draw_pairs(
    canvas: Canvas, diagram: TierDiagram, words: Area, room: Area
) -> tuple[float, Focus]:
    count, drawn = diagram.facts.endpoints, _drawn_pairs(diagram)
    radius = _RADIUS if drawn > 1 else 0.0
    middle = (room.left + room.width / 2, room.top + radius + _SIDE / 2)
    spots = on_circle(middle, radius, drawn)
    for one, other in combinations(spots, 2):
        canvas.line([one, other])
    for x, y in spots:
        canvas.box(x - _SIDE / 2, y - _SIDE / 2, _SIDE, _SIDE, "ct-soft", round_=2, outlined=False)
    y = canvas.paragraph(words, f"{count} {endpoint_text(diagram, count)}", most=3, bold=True)
    links, each = diagram.kind.links(diagram.ports), "one" if diagram.ports == 1 else diagram.ports
    told = [f"{drawn} of them drawn"] if drawn < count else []
    told += [f"{counted(links, 'link')}, {each} for each pair"] if links else []
    y = canvas.paragraphs(words._replace(top=y), told)
    x, low = spots[0]
    return max(y, low + _SIDE / 2), Focus(x, low + _SIDE / 2, _SIDE / 2)


# pixels
# height of a switch, widest endpoint slot, between texts, shortest link
SWITCH, WIDEST, SPACE, LONG = 22.0, 30.0, 12.0, 44.0
# between port lines, thinnest band, how far other rails show from behind
_CLOSEST, _THINNEST, _BEHIND = 2.5, 1.5, 3.0
_BAND = 0.7  # width of a band without oversubscription, as a share of the switch's


def draw_switches(
    canvas: Canvas, diagram: TierDiagram, words: Area, room: Area
) -> tuple[float, Focus]:
    links, boxes = canvas.group(), canvas.group()
    tree = _switch_tree_of(diagram)
    slot = min(WIDEST, room.width / tree.slots)
    side = min(0.72 * slot, 22.0)
    port_lines = diagram.ports if side >= _CLOSEST * diagram.ports else 1
    tops, end = _switch_texts(
        canvas,
        diagram,
        words,
        ", one line for all" if port_lines < diagram.ports else "",
        tree.endpoints,
    )
    levels = diagram.levels
    left = room.left + (room.width - slot * tree.slots) / 2
    _SwitchDrawing(links, boxes, levels, slot, side=side, port_lines=port_lines, tops=tops).draw(
        tree, left
    )
    middle, wide = left + slot * tree.slots / 2, slot * tree.slots - 4
    for index, level in enumerate(levels):
        if index and not level.reached:
            boxes.box(middle - wide / 2, tops[index], wide, SWITCH, "ct-box", dashed=True)
            links.line([(middle, tops[index] + SWITCH), (middle, tops[index - 1])], dashed=True)
    return max(end, tops[-1] + side), Focus(left + slot / 2, tops[-1] + side, side / 2)


def _switch_texts(
    canvas: Canvas, diagram: TierDiagram, words: Area, lines: str, drawn: int
) -> tuple[dict[int, float], float]:
    """The top of each level and, at -1, of the endpoints; and where the texts end."""
    tops, top = {}, words.top
    for index, level in reversed(list(enumerate(diagram.levels))):
        tops[index] = top
        name = level.name or ("1 switch" if level.switches == 1 else "switches")
        y = canvas.paragraph(words._replace(top=top), name, most=2, bold=True)
        y = canvas.paragraphs(words._replace(top=y), level_texts(diagram, level), most=3) + SPACE
        tight = level.reached and level.pairs.oversubscription > 1
        told = uplink_texts(level) if index else [ports_text(diagram) + lines]
        y = canvas.paragraphs(
            words._replace(top=y), told, tone="ct-accent" if tight else "ct-soft", most=3
        )
        top = max(y + SPACE, top + SWITCH + LONG)
    count = diagram.facts.endpoints
    y = canvas.paragraph(
        words._replace(top=top), f"{count} {endpoint_text(diagram, count)}", most=3, bold=True
    )
    return tops | {-1: top}, canvas.paragraphs(
        words._replace(top=y), [f"{drawn} of them drawn"] if drawn < count else []
    )


@dataclass
class _SwitchDrawing:
    links: Canvas
    boxes: Canvas
    levels: Sequence[LevelDiagram]
    slot: float  # of an endpoint
    side: float
    port_lines: int
    tops: dict[int, float]

    def draw(self, tree: SwitchTree, left: float) -> None:
        top, width = self.tops[tree.level], tree.slots * self.slot
        if tree.level < 0:
            self.boxes.box(
                left + (self.slot - self.side) / 2,
                top,
                self.side,
                self.side,
                "ct-soft",
                round_=2,
                outlined=False,
            )
            return
        most = _BEHIND if self.levels[tree.level].rails > 1 else 0.0
        for behind in (most, 0.0) if most else (0.0,):
            self.boxes.box(left + 2 + behind, top - behind, width - 4 - most, SWITCH, "ct-switch")
        if not tree.below:
            self.boxes.gap(left + width / 2, top + SWITCH + 10, width)
        for one in tree.below:
            if one is None:
                high = SWITCH if tree.level else self.side
                self.boxes.gap(
                    left + self.slot / 2, self.tops[tree.level - 1] + high / 2, self.slot
                )
            else:
                self._link(one, left + one.slots * self.slot / 2, top + SWITCH)
                self.draw(one, left)
            left += self.slot * (one.slots if one else 1)

    def _link(self, one: SwitchTree, middle: float, above: float) -> None:
        top = self.tops[one.level]
        if one.level < 0:
            for number in range(self.port_lines):
                x = middle + (number - (self.port_lines - 1) / 2) * self.side / self.port_lines
                self.links.line([(x, top), (x, above)])
            return
        share = self.levels[one.level + 1].pairs.oversubscription
        wide = max(_BAND * (one.slots * self.slot - 4) / share, _THINNEST)
        tone: Tone = "ct-accent" if share > 1 else "ct-switch"
        self.links.box(middle - wide / 2, above, wide, top - above, tone, round_=0, outlined=False)


MOST_SLOTS = 27
# slots of a group, by the number of levels; 3 (first, gap, last) from three levels on
_MOST_OF_ONE = {1: 9, 2: 4}


@dataclass(frozen=True)
class SwitchTree:
    """A switch, or at level -1 an endpoint, and what is drawn below it."""

    level: int
    # None is a gap for those left out; a switch may have nothing drawn below it
    below: tuple[SwitchTree | None, ...] = ()

    @property
    def slots(self) -> int:
        """Its width in endpoints."""
        return sum(one.slots if one else 1 for one in self.below) or 1

    @property
    def endpoints(self) -> int:
        return 1 if self.level < 0 else sum(one.endpoints for one in self.below if one)


def switch_tree(groups: Sequence[int], endpoints: int) -> SwitchTree:
    """What is drawn of a tier, given the group sizes of its levels bottom up; the top level joins
    all endpoints.

    >>> tree = switch_tree([4, 32], 32)
    >>> [one and one.endpoints for one in tree.below], tree.endpoints
    ([4, 4, None, 4], 12)
    """
    most = _MOST_OF_ONE.get(len(groups), 3)
    everywhere = most ** len(groups) <= MOST_SLOTS

    def tree(level: int, endpoints: int) -> SwitchTree:
        if level < 0:
            return SwitchTree(-1)
        each = groups[level - 1] if level else 1
        count = ceil(endpoints / each)
        below: list[SwitchTree | None] = []
        for number in range(count) if count <= most else (*range(most - 2), None, count - 1):
            if number is None:
                below.append(None)
            elif everywhere or number == 0 or level == 0:
                below.append(tree(level - 1, min(each, endpoints - number * each)))
            else:
                below.append(SwitchTree(level - 1))
        return SwitchTree(level, tuple(below))

    return tree(len(groups) - 1, endpoints)


def _switch_tree_of(diagram: TierDiagram) -> SwitchTree:
    return switch_tree(
        [level.pairs.group for level in diagram.levels if level.reached], diagram.facts.endpoints
    )


Draw = Callable[[Canvas, TierDiagram, Area, Area], tuple[float, Focus]]
"""Draws a tier, given the areas for its texts and its drawing; returns where both end, and the
endpoint to zoom into."""

DRAWN: dict[JoinedBy, tuple[Draw, Callable[[TierDiagram], int]]] = {
    "switches": (draw_switches, lambda diagram: _switch_tree_of(diagram).endpoints),
    "pair_links": (draw_pairs, _drawn_pairs),
    "routes": (draw_routed, drawn_ranks),
    "neighbour_links": (draw_lattice, lambda diagram: len(faces(blocks_of(diagram.kind.axes)[0]))),
}
"""By what joins the endpoints of a tier: how to draw it, and how many endpoints are drawn."""
