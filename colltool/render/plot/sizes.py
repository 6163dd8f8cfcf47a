"""The crossover chart: which algorithm is fastest at which size, as ribbons over sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import log
from typing import TYPE_CHECKING, NamedTuple

from colltool.base.formatting import format_bytes, title_size
from colltool.estimate.results import AlgorithmPair, Crossover
from colltool.render.plot.chart import NAMES_WIDE, Chart, Key, Panel, colour_of
from colltool.render.plot.style import DARK_TEXT, letter, letters, log_scale, text_on, wrapped
from colltool.render.views.explain import crossover_title, library_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_USUAL = (1e3, 1e9)
_BEYOND = 30.0  # factor by which the axis goes past the outermost change
_MOST_PAIRS = 6
_SMALL = 7  # font size of the sizes where the winner changes
_TALL = 0.27  # half the height of a ribbon, as a share of its row


class Stretch(NamedTuple):
    """The algorithm that wins from one size to another (None: without end), with its protocol where known."""

    from_bytes: float
    to_bytes: float | None
    name: str
    protocol: str = ""


class Ribbon(NamedTuple):
    title: str
    stretches: tuple[Stretch, ...]

    @property
    def changes(self) -> list[float]:
        return [one.from_bytes for one in self.stretches[1:]]


def ribbons_of(result: Crossover) -> list[Ribbon]:
    found = [Ribbon(f"{pair.a} or {pair.b}", tuple(_of_pair(pair))) for pair in result.pairs[:_MOST_PAIRS]]
    for title, winners in (("fastest of all", result.winners), (f"what {library_title(result)} picks", result.picks)):
        stretches = (Stretch(one.from_bytes, one.to_bytes, one.algorithm, one.protocol) for one in winners)
        found.append(Ribbon(title, tuple(stretches)))
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


def crossover_chart(result: Crossover, _paged: bool) -> Chart:
    """A ribbon for each pair of algorithms, for all of them, and for the library's own picks."""
    ribbons = ribbons_of(result)
    names = list(dict.fromkeys(one.name for ribbon in ribbons for one in ribbon.stretches))
    keys = [Key(f"{letter(at)}  {name}", colour_of(at)) for at, name in enumerate(names)]
    steps = ", ".join(f"{one.algorithm} from {format_bytes(one.from_bytes, 3)}" for one in result.winners)
    pairs = "; ".join(f"{pair.a} or {pair.b}: {_said(pair)}" for pair in result.pairs[:_MOST_PAIRS])
    alt = f"Who is fastest over message size: {crossover_title(result)}. Of all: {steps}.{f' {pairs}.' if pairs else ''}"
    panel = Panel(partial(_ribbons, ribbons, names), 0.62 * len(ribbons) + 0.5)
    return Chart(crossover_title(result), alt, (panel,), keys)


def _said(pair: AlgorithmPair) -> str:
    if not pair.crossings:
        return f"always {pair.dominates}" if pair.dominates else "the same"
    return ", ".join(f"{one.faster_above} from {format_bytes(one.bytes, 3)}" for one in pair.crossings)


def _ribbons(ribbons: Sequence[Ribbon], names: Sequence[str], axes: Axes, inches: float) -> None:
    changes = [size for ribbon in ribbons for size in ribbon.changes]
    low = max(1.0, min([_USUAL[0], *(size / _BEYOND for size in changes)]))
    high = max([_USUAL[1], *(size * _BEYOND for size in changes)])
    a_step = ((1 - NAMES_WIDE) * inches - 0.2) / log(high / low)  # inches per factor of e
    for row, ribbon in enumerate(ribbons):
        for one in ribbon.stretches:
            start, end = max(one.from_bytes, low), min(one.to_bytes or high, high)
            if start < end:
                _stretch(axes, row, (start, end), (names.index(one.name), one.protocol), a_step)
        free = low
        for size in ribbon.changes:  # one too close to the last is left out: the table has it
            text = format_bytes(size, 3)
            if size > low and a_step * log(size / free) >= 0.065 * len(text):
                axes.text(size, row - _TALL - 0.05, text, ha="center", va="bottom", fontsize=_SMALL)
                free = size
    log_scale(axes, "x", (low, high), title_size)
    axes.set_xlabel("message size")
    axes.set_yticks(range(len(ribbons)), [wrapped(ribbon.title, NAMES_WIDE * inches) for ribbon in ribbons])
    axes.set_ylim(len(ribbons) - 0.5, -0.6)
    axes.grid(visible=False, axis="y")


def _stretch(axes: Axes, row: int, ends: tuple[float, float], who: tuple[int, str], a_step: float) -> None:
    (low, high), (at, protocol) = ends, who
    axes.fill_between(ends, row - _TALL, row + _TALL, facecolor=colour_of(at), edgecolor=DARK_TEXT, linewidth=0.4)
    room = letters(a_step * log(high / low))
    full = " ".join(filter(None, (letter(at), protocol)))
    text = next((text for text in (full, letter(at)) if len(text) <= room), "")
    axes.text((low * high) ** 0.5, row, text, ha="center", va="center", color=text_on(colour_of(at)))
