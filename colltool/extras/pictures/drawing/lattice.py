"""Drawings of tori and meshes: blocks of up to three axes, of which the visible faces are drawn.

A lattice of more axes is drawn as a block of blocks, the outermost on top: :func:`draw_lattice`. A
point of a block is three :class:`Place`, one on each axis; the axes go to the right, up and into depth. Of a
long axis only the places at both ends are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from colltool.extras.pictures.drawing.endpoints import Focus
from colltool.extras.pictures.drawing.svg import Area, Canvas, TextColumn
from colltool.network.group import Axis
from colltool.render.views.fabric_diagram import TierDiagram, endpoint_text, ports_text

AXES = 3  # of a block
MOST_PLACES = 8  # of an axis, up to which all are drawn
_HEAD = 4  # places at the start of a longer axis that are drawn
_TAIL = 2  # at its end
# All in pixels.
_ARC = 16.0  # from a line to its wraparound
_RIM = 8.0  # from a line without one to the number of its axis
_MARGIN = 34.0  # room for both
_BETWEEN = 40.0  # from one block to the next
_STEP = 30.0  # from one place to the next, at most
_DEPTH = (0.52, -0.42)  # x and y of a step along the third axis, in steps along the others
_BLOCK_DOT = 6.0  # radius of a place that is a block itself
_ENDPOINT_DOT = 3.2  # of one that is an endpoint

Point = tuple[float, float]
"""x to the right and y down."""


class _AxisSide(NamedTuple):
    """The side of the block on which an axis has its number and its wraparound."""

    # the direction away from the block, of length 1
    right: float
    down: float
    lower: float  # pixels from the end of that direction down to the number's baseline
    anchor: str  # of the number's text


# The first axis along the upper edge, the second along the left one, the third along the lower right.
_SIDES = (
    _AxisSide(0.0, -1.0, 0.0, "middle"),
    _AxisSide(-1.0, 0.0, 5.0, "end"),
    _AxisSide(0.8, 0.6, 8.0, "start"),
)


class Place(NamedTuple):
    """A coordinate on an axis, and the slot where it is drawn: a distance from the first, in steps."""

    number: int
    slot: int


def places(axis: Axis) -> list[Place]:
    """The places of an axis that are drawn; one slot is left free where some are left out."""
    if axis.size <= MOST_PLACES:
        return [Place(number, number) for number in range(axis.size)]
    head = [Place(number, number) for number in range(_HEAD)]
    first = axis.size - _TAIL
    return head + [Place(first + number, _HEAD + 1 + number) for number in range(_TAIL)]


def blocks_of(axes: Sequence[Axis]) -> list[tuple[Axis, ...]]:
    """The axes in groups of up to three, innermost first."""
    return [tuple(axes[start : start + AXES]) for start in range(0, len(axes), AXES)]


def lines_of_block(axes: Sequence[Axis]) -> list[list[Place]]:
    """The drawn places of each of three axes; an axis that a block lacks has a single one."""
    missing = AXES - len(axes)
    return [*map(places, axes), *[[Place(0, 0)]] * missing]


def faces(lines: Sequence[Sequence[Place]]) -> list[tuple[Place, ...]]:
    """The visible places of a block: on its front, top and right side."""
    right = lines[0][-1]
    top = lines[1][-1]
    front = lines[2][0]
    return [
        place
        for place in product(*lines)
        if place[0] == right or place[1] == top or place[2] == front
    ]


def drawn_places(diagram: TierDiagram) -> int:
    """How many endpoints are drawn: those in sight of the innermost block."""
    return len(faces(lines_of_block(blocks_of(diagram.kind.axes)[0])))


def axis_text(number: int, axes: Sequence[Axis]) -> str:
    """``axis 1: rings of 8``, ``axis 2: a pair``, or what a twist closes; axes are counted from 1."""
    axis = axes[number - 1]
    name = f"axis {number}"
    if axis.size == 1:
        return f"{name}: 1 place"
    if axis.twist:
        # a twist has how far each axis is shifted where this one closes
        shifted = [f"axis {other}" for other, shift in enumerate(axis.twist, start=1) if shift]
        along = " and ".join(shifted)
        return f"{name}: lines of {axis.size}, closed half way round {along} (dashed)"
    shape = "line"
    if axis.is_ring:
        shape = "ring"
    elif axis.size == 2:
        shape = "pair"
    is_single = prod(other.size for other in axes) == axis.size
    text = f"{name}: a {shape}" if is_single else f"{name}: {shape}s"
    return f"{text} of {axis.size}" if axis.size > 2 else text


def draw_lattice(canvas: Canvas, diagram: TierDiagram, words: TextColumn, room: Area) -> Focus:
    """Draw the blocks of a tier, outermost first; return the first endpoint of the innermost."""
    outermost, *inner = reversed(list(enumerate(blocks_of(diagram.kind.axes))))
    focus = _draw_block(canvas, diagram, words, room, outermost, outer=None)
    for numbered in inner:
        words.skip_to(focus.y)
        words.bottom += _BETWEEN
        focus = _draw_block(canvas, diagram, words, room, numbered, focus)
    return focus


def _draw_block(
    canvas: Canvas,
    diagram: TierDiagram,
    words: TextColumn,
    room: Area,
    numbered: tuple[int, Sequence[Axis]],
    outer: Focus | None,
) -> Focus:
    """Draw a block of axes at the height of the next text, with lines to it from ``outer``, a place of
    the block around it; return its first place.

    ``numbered``: the number of the block from the innermost, 0, and its axes.
    """
    index, axes = numbered
    top = words.bottom
    first_axis = index * AXES + 1
    block = _LatticeBlock(canvas, axes, room._replace(top=top), first_axis)
    if outer is not None:
        upper_left = (block.front[0], block.back[1], block.front[2])
        zoom(canvas, outer, top - _BETWEEN, block.at(upper_left), block.at(block.back))
    focus = block.draw(_BLOCK_DOT if index else _ENDPOINT_DOT)
    count = prod(axis.size for axis in axes)
    noun = endpoint_text(diagram, count)
    if index > 0:
        inner_axes = diagram.kind.axes[: index * AXES]
        noun = f"{'block' if count == 1 else 'blocks'} of {_shape(inner_axes, 'x')}"
    words.write(f"{_shape(axes, ' x ')} {noun}", most=4, bold=True)
    numbers = range(first_axis, first_axis + len(axes))
    words.write_each(axis_text(number, diagram.kind.axes) for number in numbers)
    sizes = [axis.size for axis in axes]
    if len(axes) == AXES and min(sizes) > 1:
        words.note("the faces in sight are drawn")
    if max(sizes) > MOST_PLACES:
        words.note("dashed: places left out")
    if diagram.ports > 1:
        words.note(ports_text(diagram))
    return focus


def _shape(axes: Sequence[Axis], times: str) -> str:
    """``4x4x8``; ``times``: what stands between two sizes."""
    return times.join(str(axis.size) for axis in axes)


def zoom(canvas: Canvas, focus: Focus, down: float, left: Point, right: Point) -> None:
    """Draw dashed lines from both ends of an endpoint straight ``down`` past the texts, then out to the
    corners of what it is made of."""
    for x, corner in ((focus.x - focus.half, left), (focus.x + focus.half, right)):
        canvas.line([(x, focus.y), (x, down), corner], dashed=True)


class _LatticeBlock:
    """A block of up to three axes; the first goes to the right, the second up, the third into
    depth. ``front`` is the place where all axes begin, ``back`` where they end."""

    def __init__(self, canvas: Canvas, axes: Sequence[Axis], room: Area, first_axis: int) -> None:
        """Fit the block into the room: the step from place to place, and where the first one is.

        ``first_axis``: the number of its first axis in the lattice, from 1.
        """
        self.canvas = canvas
        self.axes = axes
        self.first_axis = first_axis
        self.lines = lines_of_block(axes)
        self.front = [line[0] for line in self.lines]
        self.back = [line[-1] for line in self.lines]
        right, up, deep = (place.slot for place in self.back)
        # in steps; the third axis goes to the right and up, which is negative in SVG
        width = right + _DEPTH[0] * deep
        height = up - _DEPTH[1] * deep
        self.step = min(_STEP, (room.width - 2 * _MARGIN) / max(width, 1))
        # pixels: of the first place
        self.left = room.left + (room.width - width * self.step) / 2
        above = _MARGIN if axes[0].size > 1 else _RIM
        self.bottom = room.top + above + height * self.step

    def at(self, place: Sequence[Place]) -> Point:
        """Where a place is drawn, pixels."""
        right, up, deep = (coordinate.slot for coordinate in place)
        x = self.left + (right + _DEPTH[0] * deep) * self.step
        return x, self.bottom + (_DEPTH[1] * deep - up) * self.step

    def draw(self, radius: float) -> Focus:
        """Draw links, places as dots of a radius, and the numbers of axes; return the first place."""
        visible = faces(self.lines)
        links = ""
        gaps = ""
        for place, other, is_gap in self._neighbours(visible):
            x, y = self.at(place)
            to_x, to_y = self.at(other)
            # SVG: move to a point, a line to another
            line = f"M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"
            if is_gap:
                gaps += line
            else:
                links += line
        if links:
            self.canvas.path(links)
        if gaps:
            self.canvas.path(gaps, dashed=True)
        for place in visible:
            self.canvas.dot(*self.at(place), radius)
        for index, axis in enumerate(self.axes):
            if axis.size > 1:
                self._draw_number(index, axis)
        x, y = self.at(self.front)
        return Focus(x, y + radius, radius)

    def _neighbours(
        self, visible: Sequence[tuple[Place, ...]]
    ) -> Iterator[tuple[Sequence[Place], Sequence[Place], bool]]:
        """Two visible places next to each other on an axis, and whether others between them were left
        out."""
        known = set(visible)
        for place in visible:
            for index, line in enumerate(self.lines):
                after = line.index(place[index]) + 1
                if after == len(line):
                    continue
                other = (*place[:index], line[after], *place[index + 1 :])
                if other in known:
                    yield place, other, line[after].number - place[index].number > 1

    def _draw_number(self, index: int, axis: Axis) -> None:
        """Draw the number of an axis, and its wraparound where it has one, along an edge of the block."""
        # The edges are in front above, in front on the left, and below on the right. The second begins
        # where the block does.
        start = list(self.front)
        if index == 0:
            start[1:] = self.back[1:]
        elif index == AXES - 1:
            start[0] = self.back[0]
        end = list(start)
        end[index] = self.back[index]
        x, y = self.at(start)
        to_x, to_y = self.at(end)
        side = _SIDES[index]
        distance = _RIM
        if axis.closed:
            distance = _ARC
            dx = side.right * _ARC
            dy = side.down * _ARC
            # a cubic curve from end to end, whose two control points lie away from the block
            curve = f"{x + dx:.1f} {y + dy:.1f} {to_x + dx:.1f} {to_y + dy:.1f}"
            self.canvas.path(
                f"M{x:.1f} {y:.1f}C{curve} {to_x:.1f} {to_y:.1f}", dashed=bool(axis.twist)
            )
        text_x = (x + to_x) / 2 + side.right * distance
        baseline = (y + to_y) / 2 + side.down * distance + side.lower
        number = str(self.first_axis + index)
        self.canvas.text(text_x, baseline, number, 2 * _ARC, tone="ct-soft", anchor=side.anchor)
