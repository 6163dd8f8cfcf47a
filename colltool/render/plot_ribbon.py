"""Who wins at which size, as ribbons over sizes: of each pair, of all schedules, and what the library itself takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.formatting import format_bytes, title_size
from colltool.estimate.results import AlgorithmPair, Crossover, Winner
from colltool.render.plot_bars import NAMES_WIDE, swatch
from colltool.render.plot_style import (
    COLOURS,
    DARK_TEXT,
    Sheet,
    add_legend,
    entitle,
    letter,
    letters,
    log_scale,
    text_on,
    wrapped,
)
from colltool.render.subjects.crossover import crossover_title, library_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_USUAL = (1e3, 1e9)
_BEYOND = 30.0  # so far the axis goes past the outermost change
_MOST_PAIRS = 6
_SMALL = 7  # points of the sizes at which a winner changes
_TALL = 0.27  # half of a ribbon, of its row


class Stretch(NamedTuple):
    """A schedule that wins from one size to another (None: without end), and under which protocol where one is known."""

    from_bytes: float
    to_bytes: float | None
    name: str
    protocol: str = ""


class Ribbon(NamedTuple):
    """A row: what it is about, and who wins in it."""

    title: str
    stretches: tuple[Stretch, ...]

    @property
    def changes(self) -> list[float]:
        """The sizes at which one stretch ends and the next begins."""
        return [one.from_bytes for one in self.stretches[1:]]


class _Scale(NamedTuple):
    """The axis of sizes: its ends, and its length in inches."""

    low: float
    high: float
    inches: float

    def apart(self, low: float, high: float) -> float:
        """Inches between two sizes."""
        return self.inches * log(high / low) / log(self.high / self.low)


def ribbons_of(result: Crossover) -> list[Ribbon]:
    """The rows of the picture: pairs, who wins of all, and what the library picks."""
    found = [Ribbon(f"{pair.a} or {pair.b}", tuple(_of_pair(pair))) for pair in result.pairs[:_MOST_PAIRS]]
    found.append(Ribbon("fastest of all", tuple(map(_stretch, result.winners))))
    found.append(Ribbon(f"what {library_title(result)} picks", tuple(map(_stretch, result.picks))))
    return [one for one in found if one.stretches]


def _of_pair(pair: AlgorithmPair) -> Iterator[Stretch]:
    if not pair.crossings:
        if pair.dominates is not None:
            yield Stretch(1.0, None, pair.dominates)
        return
    begin = 1.0
    for one in pair.crossings:
        yield Stretch(begin, one.bytes, one.faster_below)
        begin = one.bytes
    yield Stretch(begin, None, pair.crossings[-1].faster_above)


def _stretch(one: Winner) -> Stretch:
    return Stretch(one.from_bytes, one.to_bytes, one.algorithm, one.protocol)


def draw_crossover(result: Crossover, sheet: Sheet) -> None:
    """A ribbon for each pair, for all schedules, and for the library's own picks; sizes stand where the winner changes."""
    ribbons = ribbons_of(result)
    names = list(dict.fromkeys(one.name for ribbon in ribbons for one in ribbon.stretches))
    changes = [size for ribbon in ribbons for size in ribbon.changes]
    low, high = min([_USUAL[0], *(size / _BEYOND for size in changes)]), max([_USUAL[1], *(size * _BEYOND for size in changes)])
    scale = _Scale(max(1.0, low), high, (1 - NAMES_WIDE) * sheet.width - 0.2)
    axes = sheet.figure.add_subplot()
    for row, ribbon in enumerate(ribbons):
        for one in ribbon.stretches:
            _draw(axes, row, one, names, scale)
        _sizes(axes, row, ribbon.changes, scale)
    log_scale(axes, "x", scale[:2], title_size)
    axes.set_xlabel("message size")
    axes.set_yticks(range(len(ribbons)), [wrapped(ribbon.title, NAMES_WIDE * sheet.width) for ribbon in ribbons])
    axes.set_ylim(len(ribbons) - 0.5, -0.6)
    axes.grid(visible=False, axis="y")
    found = {f"{letter(at)}  {name}": swatch(axes, COLOURS[at % len(COLOURS)]) for at, name in enumerate(names)}
    under = add_legend(sheet.figure, sheet.width, found)
    entitle(sheet.figure, crossover_title(result), sheet.width)
    sheet.figure.set_size_inches(sheet.width, 0.62 * len(ribbons) + 1.2 + 0.18 * under)


def say_crossover(result: Crossover) -> str:
    """The ribbons in words: who wins from which size, and the sizes at which pairs change."""
    steps = ", ".join(f"{one.algorithm} from {format_bytes(one.from_bytes, 3)}" for one in result.winners)
    pairs = "; ".join(f"{pair.a} or {pair.b}: {_said(pair)}" for pair in result.pairs[:_MOST_PAIRS])
    return f"Who is fastest over message size: {crossover_title(result)}. Of all: {steps}.{f' {pairs}.' if pairs else ''}"


def _said(pair: AlgorithmPair) -> str:
    if not pair.crossings:
        return f"always {pair.dominates}" if pair.dominates else "the same"
    return ", ".join(f"{one.faster_above} from {format_bytes(one.bytes, 3)}" for one in pair.crossings)


def _draw(axes: Axes, row: int, one: Stretch, names: Sequence[str], scale: _Scale) -> None:
    low, high = max(one.from_bytes, scale.low), min(one.to_bytes or scale.high, scale.high)
    if low >= high:
        return
    at = names.index(one.name)
    colour = COLOURS[at % len(COLOURS)]
    axes.fill_between([low, high], row - _TALL, row + _TALL, facecolor=colour, edgecolor=DARK_TEXT, linewidth=0.4)
    full = " ".join(filter(None, (letter(at), one.protocol)))
    room = letters(scale.apart(low, high))
    text = next((text for text in (full, letter(at)) if len(text) <= room), "")
    axes.text((low * high) ** 0.5, row, text, ha="center", va="center", color=text_on(colour))


def _sizes(axes: Axes, row: int, changes: Sequence[float], scale: _Scale) -> None:
    """The sizes at which the winner changes, above the ribbon; what stands too close to the one before is left to the table."""
    free = scale.low
    for size in changes:
        text = format_bytes(size, 3)
        if size > scale.low and scale.apart(free, size) >= 0.065 * len(text):
            axes.text(size, row - _TALL - 0.05, text, ha="center", va="bottom", fontsize=_SMALL)
            free = size
