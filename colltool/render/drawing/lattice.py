"""A torus or a mesh: up to three axes as a block whose faces in sight are drawn, further ones as a block of such blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from colltool.algorithms.group import Axis
from colltool.render.drawing.pen import Area, Focus, Pen
from colltool.render.drawing.sketch import TierSketch
from colltool.render.drawing.words import endpoint_text, ports_text

AXES = 3
MOST = 8
_HEAD, _TAIL = 4, 2
"""Axes of a block; places of an axis that are drawn: all up to ``MOST``, of more the first four and the last two."""
_ARC = 16.0
_MARGIN = 34.0
"""Pixels: how far a wraparound leaves its line, and what it takes with the number of its axis."""
_STEP = 30.0
_DEPTH = (0.52, -0.42)
"""Of a step along the third axis, to the right and up."""


class Place(NamedTuple):
    """A place on an axis: its number, and the slot where it is drawn."""

    number: int
    slot: int


def places(axis: Axis) -> list[Place]:
    """The places of an axis that are drawn; a slot is free where some are left out."""
    if axis.size <= MOST:
        return [Place(number, number) for number in range(axis.size)]
    first = [Place(number, number) for number in range(_HEAD)]
    return first + [Place(axis.size - _TAIL + number, _HEAD + 1 + number) for number in range(_TAIL)]


def blocks_of(axes: Sequence[Axis]) -> list[tuple[Axis, ...]]:
    """The axes in blocks of up to three, innermost first."""
    return [tuple(axes[start : start + AXES]) for start in range(0, len(axes), AXES)]


def faces(axes: Sequence[Axis]) -> list[tuple[Place, ...]]:
    """The places of a block that are in sight: on its front, its top and its right side."""
    lines = [places(axis) for axis in axes]
    return [at for at in product(*lines) if len(at) < AXES or _in_sight(at, lines)]


def _in_sight(at: Sequence[Place], lines: Sequence[Sequence[Place]]) -> bool:
    return at[0] == lines[0][-1] or at[1] == lines[1][-1] or at[2] == lines[2][0]


def drawn_lattice(sketch: TierSketch) -> int:
    """How many endpoints are drawn: those of the innermost block."""
    return len(faces(blocks_of(sketch.kind.axes)[0]))


def axis_text(number: int, axis: Axis) -> str:
    """``axis 1: rings of 8``."""
    if axis.size == 1:
        return f"axis {number}: 1 place"
    shape = "rings" if axis.is_ring else "pairs" if axis.size == 2 else "lines"
    return f"axis {number}: {shape}" + (f" of {axis.size}" if axis.size > 2 else "")


def draw_lattice(pen: Pen, sketch: TierSketch, words: Area, room: Area) -> tuple[float, Focus]:
    """Blocks on the right, outermost first; counts and axes on the left. Where they end, and the endpoint in focus."""
    blocks = blocks_of(sketch.kind.axes)
    top, focus = room.top, None
    for index, axes in reversed(list(enumerate(blocks))):
        block = _Block(pen, axes, room._replace(top=top), index * AXES + 1)
        if focus is not None:
            zoom(pen, focus, top - 24, Area(block.left, block.top, block.right - block.left))
        focus = block.draw(6.0 if index else 3.2)
        y = _texts(pen, sketch, words._replace(top=top), blocks, index)
        top = max(focus.y, y) + 24
    assert focus is not None  # a shape has an axis
    return top - 24, focus


def zoom(pen: Pen, focus: Focus, down: float, into: Area) -> None:
    """From an endpoint to what it is made of: straight down past the texts beside it, then out to both corners."""
    for x, corner in ((focus.x - focus.half, into.left), (focus.x + focus.half, into.right)):
        pen.line([(x, focus.y), (x, down), (corner, into.top)], dashed=True)


def _texts(pen: Pen, sketch: TierSketch, words: Area, blocks: Sequence[Sequence[Axis]], index: int) -> float:
    shape = " x ".join(str(axis.size) for axis in blocks[index])
    y = pen.paragraph(words, shape, most=2, bold=True)
    below = " x ".join(str(axis.size) for axes in blocks[:index] for axis in axes)
    told = [f"blocks of {below}" if index else endpoint_text(sketch, 2)]
    told += [axis_text(index * AXES + number, axis) for number, axis in enumerate(blocks[index], 1)]
    if len(blocks[index]) == AXES and min(axis.size for axis in blocks[index]) > 1:
        told.append("the faces in sight are drawn")
    if any(axis.size > MOST for axis in blocks[index]):
        told.append("dashed: places left out")
    told += [ports_text(sketch)] if sketch.ports > 1 else []
    for text in told:
        y = pen.paragraph(words._replace(top=y), text, tone="ct-soft")
    return y


class _Block:
    """Up to three axes: the first to the right, the second up, the third into the depth."""

    def __init__(self, pen: Pen, axes: Sequence[Axis], room: Area, first: int) -> None:
        self.pen, self.axes, self.first = pen, axes, first
        slots = [places(axis)[-1].slot for axis in axes] + [0] * (AXES - len(axes))
        wide, high = slots[0] + _DEPTH[0] * slots[2], slots[1] - _DEPTH[1] * slots[2]
        self.step = min(_STEP, (room.width - 2 * _MARGIN) / max(wide, 1))
        self.left = room.left + (room.width - wide * self.step) / 2
        self.right = self.left + wide * self.step
        above = _MARGIN if len(axes) > 0 and axes[0].size > 1 else 8.0
        self.top = room.top + above - 8
        self.bottom = room.top + above + high * self.step

    def at(self, place: Sequence[Place]) -> tuple[float, float]:
        """Where a place is drawn."""
        slots = [one.slot for one in place] + [0] * (AXES - len(place))
        x = self.left + (slots[0] + _DEPTH[0] * slots[2]) * self.step
        return x, self.bottom + (-slots[1] + _DEPTH[1] * slots[2]) * self.step

    def draw(self, radius: float) -> Focus:
        """Its lines, its places and its wraparounds; the first place is in focus."""
        seen = faces(self.axes)
        solid: list[str] = []
        dotted: list[str] = []
        for one, other in self._neighbours(seen):
            (x, y), (u, v) = self.at(one), self.at(other)
            step = f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"
            (solid if max(b.number - a.number for a, b in zip(one, other, strict=True)) == 1 else dotted).append(step)
        for steps, dashed in ((solid, False), (dotted, True)):
            if steps:
                self.pen.path("".join(steps), dashed=dashed)
        for at in seen:
            self.pen.dot(*self.at(at), radius)
        for index, axis in enumerate(self.axes):
            if axis.size > 1:
                self._wrap(index, axis)
        x, y = self.at(seen[0]) if len(self.axes) < AXES else self.at([places(axis)[0] for axis in self.axes])
        return Focus(x, y + radius, radius)

    def _neighbours(self, seen: Sequence[tuple[Place, ...]]) -> Iterator[tuple[tuple[Place, ...], tuple[Place, ...]]]:
        there = set(seen)
        for at in seen:
            for index, axis in enumerate(self.axes):
                line = places(axis)
                after = line.index(at[index]) + 1
                if after < len(line):
                    other = (*at[:index], line[after], *at[index + 1 :])
                    if other in there:
                        yield at, other

    def _wrap(self, index: int, axis: Axis) -> None:
        """The number of an axis beside one of its lines, and the wraparound of that line."""
        line = places(axis)
        ends = [
            [one[0] if index != other else end for other, one in enumerate(map(places, self.axes))] for end in (line[0], line[-1])
        ]
        out = [(0.0, -1.0), (-1.0, 0.0), (0.8, 0.6)][index]
        if index == 0:
            for end in ends:
                for other in range(1, len(self.axes)):
                    end[other] = places(self.axes[other])[-1]
        if index == 2:
            for end in ends:
                end[0] = places(self.axes[0])[-1]
        (x, y), (u, v) = (self.at(end) for end in ends)
        dx, dy = out[0] * _ARC, out[1] * _ARC
        if axis.is_ring:
            steps = f"M{x:.1f} {y:.1f}C{x + dx:.1f} {y + dy:.1f} {u + dx:.1f} {v + dy:.1f} {u:.1f} {v:.1f}"
            self.pen.path(steps)
        far = _ARC if axis.is_ring else 8.0
        mx, my = (x + u) / 2 + out[0] * far * 1.0, (y + v) / 2 + out[1] * far * 1.0
        anchor = ["middle", "end", "start"][index]
        self.pen.text(mx, my + [0.0, 5.0, 8.0][index], str(self.first + index), 20, tone="ct-soft", anchor=anchor)
