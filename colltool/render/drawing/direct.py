"""Drawings of direct links: a torus or mesh as blocks of up to three axes (their visible faces), all-to-all as a circle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import cos, pi, prod, sin
from typing import NamedTuple

from colltool.algorithms.group import Axis
from colltool.base.formatting import counted
from colltool.render.drawing.diagram import TierDiagram, endpoint_text, ports_text
from colltool.render.drawing.svg import Area, Canvas, Focus

AXES = 3  # of a block
MOST = 8  # places of an axis that are all drawn; of more, the first and last few
_HEAD, _TAIL = 4, 2
# pixels
_ARC, _RIM, _MARGIN = 16.0, 8.0, 34.0  # from a line to its wraparound, to the axis number without one, room for both
_BETWEEN, _STEP = 40.0, 30.0  # between blocks; between places at most
_DEPTH = (0.52, -0.42)  # x and y of a step along the third axis, in steps along the others

Point = tuple[float, float]


class AxisSide(NamedTuple):
    """The side of the block where the number and wraparound of an axis are drawn."""

    x: float
    y: float
    below: float
    anchor: str


_SIDES = (AxisSide(0.0, -1.0, 0.0, "middle"), AxisSide(-1.0, 0.0, 5.0, "end"), AxisSide(0.8, 0.6, 8.0, "start"))


class Place(NamedTuple):
    """A coordinate on an axis, and the slot where it is drawn."""

    number: int
    slot: int


def places(axis: Axis) -> list[Place]:
    """The places of an axis that are drawn; one slot is left free where some are left out."""
    if axis.size <= MOST:
        return [Place(number, number) for number in range(axis.size)]
    first = [Place(number, number) for number in range(_HEAD)]
    return first + [Place(axis.size - _TAIL + number, _HEAD + 1 + number) for number in range(_TAIL)]


def blocks_of(axes: Sequence[Axis]) -> list[tuple[Axis, ...]]:
    """The axes in groups of up to three, innermost first."""
    return [tuple(axes[start : start + AXES]) for start in range(0, len(axes), AXES)]


def faces(axes: Sequence[Axis]) -> list[tuple[Place, ...]]:
    """The visible places of a block: on its front, top and right side."""
    lines = [places(axis) for axis in axes]
    return [at for at in product(*lines) if len(at) < AXES or _in_sight(at, lines)]


def _in_sight(at: Sequence[Place], lines: Sequence[Sequence[Place]]) -> bool:
    return at[0] == lines[0][-1] or at[1] == lines[1][-1] or at[2] == lines[2][0]


def drawn_lattice(diagram: TierDiagram) -> int:
    return len(faces(blocks_of(diagram.kind.axes)[0]))


def axis_text(number: int, axes: Sequence[Axis]) -> str:
    """Such as ``axis 1: rings of 8`` or ``axis 2: a pair``."""
    axis = axes[number - 1]
    if axis.size == 1:
        return f"axis {number}: 1 place"
    shape = "ring" if axis.is_ring else "pair" if axis.size == 2 else "line"
    alone = prod(other.size for other in axes) == axis.size
    return f"axis {number}: {f'a {shape}' if alone else f'{shape}s'}" + (f" of {axis.size}" if axis.size > 2 else "")


def draw_lattice(canvas: Canvas, diagram: TierDiagram, words: Area, room: Area) -> tuple[float, Focus]:
    blocks = blocks_of(diagram.kind.axes)
    top, focus = room.top, None
    for index, axes in reversed(list(enumerate(blocks))):
        block = _LatticeBlock(canvas, axes, room._replace(top=top), index * AXES + 1)
        if focus is not None:
            zoom(canvas, focus, top - _BETWEEN, *block.corners)
        focus = block.draw(6.0 if index else 3.2)
        y = _texts(canvas, diagram, words._replace(top=top), blocks, index)
        top = max(focus.y, y) + _BETWEEN
    assert focus is not None  # there is at least one axis
    return top - _BETWEEN, focus


def zoom(canvas: Canvas, focus: Focus, down: float, left: Point, right: Point) -> None:
    """Dashed lines from an endpoint straight down past the texts, then out to both corners of what it is made of."""
    for x, corner in ((focus.x - focus.half, left), (focus.x + focus.half, right)):
        canvas.line([(x, focus.y), (x, down), corner], dashed=True)


def _texts(canvas: Canvas, diagram: TierDiagram, words: Area, blocks: Sequence[Sequence[Axis]], index: int) -> float:
    shape = " x ".join(str(axis.size) for axis in blocks[index])
    below = "x".join(str(axis.size) for axes in blocks[:index] for axis in axes)
    count = prod(axis.size for axis in blocks[index])
    what = f"block{'s' * (count != 1)} of {below}" if index else endpoint_text(diagram, count)
    y = canvas.paragraph(words, f"{shape} {what}", most=4, bold=True)
    told = [axis_text(index * AXES + number, diagram.kind.axes) for number in range(1, 1 + len(blocks[index]))]
    if len(blocks[index]) == AXES and min(axis.size for axis in blocks[index]) > 1:
        told.append("the faces in sight are drawn")
    if any(axis.size > MOST for axis in blocks[index]):
        told.append("dashed: places left out")
    told += [ports_text(diagram)] if diagram.ports > 1 else []
    for text in told:
        y = canvas.paragraph(words._replace(top=y), text, tone="ct-soft")
    return y


class _LatticeBlock:
    def __init__(self, canvas: Canvas, axes: Sequence[Axis], room: Area, first: int) -> None:
        self.canvas, self.axes, self.first = canvas, axes, first
        self.lines = [places(axis) for axis in axes]
        right, up, deep = self._slots([line[-1] for line in self.lines])
        wide, high = right + _DEPTH[0] * deep, up - _DEPTH[1] * deep
        self.step = min(_STEP, (room.width - 2 * _MARGIN) / max(wide, 1))
        self.left = room.left + (room.width - wide * self.step) / 2
        self.bottom = room.top + (_MARGIN if axes[0].size > 1 else _RIM) + high * self.step

    @property
    def corners(self) -> tuple[Point, Point]:
        back = [line[-1] for line in self.lines]
        return self._at([self.lines[0][0], *back[1:2]]), self._at(back)

    def _slots(self, place: Sequence[Place]) -> list[int]:
        return [one.slot for one in place] + [0] * (AXES - len(place))

    def _at(self, place: Sequence[Place]) -> Point:
        right, up, deep = self._slots(place)
        return self.left + (right + _DEPTH[0] * deep) * self.step, self.bottom + (_DEPTH[1] * deep - up) * self.step

    def draw(self, radius: float) -> Focus:
        seen = faces(self.axes)
        pairs = list(self._neighbours(seen))
        for dashed in (False, True):
            of_kind = [ends for ends, jumps in pairs if jumps is dashed]
            if of_kind:
                self.canvas.path("".join(f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" for (x, y), (u, v) in of_kind), dashed=dashed)
        for place in seen:
            self.canvas.dot(*self._at(place), radius)
        for index, axis in enumerate(self.axes):
            if axis.size > 1:
                self._name(index, axis)
        x, y = self._at([line[0] for line in self.lines])
        return Focus(x, y + radius, radius)

    def _neighbours(self, seen: Sequence[tuple[Place, ...]]) -> Iterator[tuple[tuple[Point, Point], bool]]:
        there = set(seen)
        for place in seen:
            for index, line in enumerate(self.lines):
                after = line.index(place[index]) + 1
                if after < len(line) and (other := (*place[:index], line[after], *place[index + 1 :])) in there:
                    yield (self._at(place), self._at(other)), line[after].number - place[index].number > 1

    def _name(self, index: int, axis: Axis) -> None:
        rim, line = [one[0] for one in self.lines], self.lines[index]
        if index == 0:
            rim[1:] = [one[-1] for one in self.lines[1:]]
        if index == AXES - 1:
            rim[0] = self.lines[0][-1]
        (x, y), (u, v) = (self._at([*rim[:index], end, *rim[index + 1 :]]) for end in (line[0], line[-1]))
        side = _SIDES[index]
        dx, dy = side.x * _ARC, side.y * _ARC
        if axis.is_ring:
            self.canvas.path(f"M{x:.1f} {y:.1f}C{x + dx:.1f} {y + dy:.1f} {u + dx:.1f} {v + dy:.1f} {u:.1f} {v:.1f}")
        far = _ARC if axis.is_ring else _RIM
        middle, low = (x + u) / 2 + side.x * far, (y + v) / 2 + side.y * far + side.below
        self.canvas.text(middle, low, str(self.first + index), 2 * _ARC, tone="ct-soft", anchor=side.anchor)


MOST_PAIRS = 12  # endpoints that are all drawn; of more, only eight
_OF_MANY = 8
_SIDE = 14.0
_RADIUS = 84.0


def drawn_pairs(diagram: TierDiagram) -> int:
    count = diagram.facts.endpoints
    return count if count <= MOST_PAIRS else _OF_MANY


def draw_pairs(canvas: Canvas, diagram: TierDiagram, words: Area, room: Area) -> tuple[float, Focus]:
    count, drawn = diagram.facts.endpoints, drawn_pairs(diagram)
    radius = _RADIUS if drawn > 1 else 0.0
    middle = (room.left + room.width / 2, room.top + radius + _SIDE / 2)
    turns = [2 * pi * number / drawn for number in range(drawn)]
    places = [(middle[0] - radius * sin(turn), middle[1] + radius * cos(turn)) for turn in turns]
    for one, other in combinations(places, 2):
        canvas.line([one, other])
    for x, y in places:
        canvas.box(x - _SIDE / 2, y - _SIDE / 2, _SIDE, _SIDE, "ct-soft", round_=2, outlined=False)
    y = canvas.paragraph(words, f"{count} {endpoint_text(diagram, count)}", most=3, bold=True)
    links, each = diagram.kind.links(diagram.ports), "one" if diagram.ports == 1 else diagram.ports
    told = [f"{drawn} of them drawn"] if drawn < count else []
    told += [f"{counted(links, 'link')}, {each} for each pair"] if links else []
    for text in told:
        y = canvas.paragraph(words._replace(top=y), text, tone="ct-soft")
    x, low = places[0]
    return max(y, low + _SIDE / 2), Focus(x, low + _SIDE / 2, _SIDE / 2)
