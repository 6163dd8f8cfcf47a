"""The crossover chart: ribbons over message size, in the colour of the algorithm that is fastest.

:func:`ribbons_of` gathers what is drawn, :func:`crossover_chart` makes the chart of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from math import inf, log
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from colltool.base.formatting import format_bytes, title_size
from colltool.estimate.results import AlgorithmPair, Crossover
from colltool.extras.pictures.plot.look import (
    DARK_TEXT,
    colour_of,
    letter,
    letters_that_fit,
    text_in,
)
from colltool.extras.pictures.plot.panels import NAMES_WIDE, Chart, Panel, lettered_keys
from colltool.extras.pictures.plot.ticks import log_scale, name_rows
from colltool.render.views.crossover import crossover_title, library_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Bytes that the axis shows at least.
_USUAL_LOW = 1e3
_USUAL_HIGH = 1e9
_MARGIN_FACTOR = 30.0  # by which the axis goes past the outermost change
_MOST_PAIRS = 6  # of algorithms with a ribbon each
_ROW_INCHES = 0.62  # a ribbon with its sizes above it
_AXIS_INCHES = 0.5
_LETTER_INCHES = 0.065  # of the small text of a size
_HALF_HEIGHT = 0.27  # of a ribbon, as a share of its row

_bytes = partial(format_bytes, digits=3)


class Stretch(NamedTuple):
    """The algorithm that wins from one size to another (None: without end), with its protocol; empty where
    that is not known."""

    from_bytes: float
    to_bytes: float | None
    name: str
    protocol: str = ""


class Ribbon(NamedTuple):
    """A row of the crossover chart: which algorithm wins at each size, in ascending stretches."""

    title: str
    stretches: Sequence[Stretch]

    @property
    def changes(self) -> list[float]:
        """Sizes where another algorithm begins to win."""
        return [stretch.from_bytes for stretch in self.stretches[1:]]


def ribbons_of(result: Crossover) -> list[Ribbon]:
    """A ribbon for each pair of algorithms (the first :data:`_MOST_PAIRS`), for all of them, and for the library's
    own picks; none where nothing is known to win."""
    ribbons = []
    for pair in result.pairs[:_MOST_PAIRS]:
        ribbons.append(Ribbon(f"{pair.a} or {pair.b}", list(_pair_stretches(pair))))
    ribbons.append(Ribbon("fastest of all", _stretches(result.winners)))
    ribbons.append(Ribbon(f"what {library_title(result)} picks", _stretches(result.picks)))
    return [ribbon for ribbon in ribbons if ribbon.stretches]


def _stretches(winners: Iterable[Any]) -> list[Stretch]:
    """Stretches of records that have their fields, but call the name ``algorithm``."""
    fields = attrgetter("from_bytes", "to_bytes", "algorithm", "protocol")
    return [Stretch(*fields(winner)) for winner in winners]


def _pair_stretches(pair: AlgorithmPair) -> Iterator[Stretch]:
    """The stretches from 1 byte on, between the crossings of a pair, which are in ascending order."""
    start = 1.0
    fastest = pair.dominates  # None where they cross, or are the same
    for crossing in pair.crossings:
        yield Stretch(start, crossing.bytes, crossing.faster_below)
        start = crossing.bytes
        fastest = crossing.faster_above
    if fastest is not None:
        yield Stretch(start, to_bytes=None, name=fastest)


def crossover_chart(result: Crossover, _paged: bool) -> Chart:
    """The chart of a crossover; its legend has a letter and a colour for each algorithm."""
    ribbons = ribbons_of(result)
    stretches = chain.from_iterable(ribbon.stretches for ribbon in ribbons)
    names = list(dict.fromkeys(stretch.name for stretch in stretches))
    steps = [f"{winner.algorithm} from {_bytes(winner.from_bytes)}" for winner in result.winners]
    title = crossover_title(result)
    alt = f"Who is fastest over message size: {title}. Of all: {', '.join(steps)}."
    pairs = result.pairs[:_MOST_PAIRS]
    if pairs:
        alt += f" {'; '.join(map(_pair_text, pairs))}."
    panel = Panel(partial(_draw_ribbons, ribbons, names), _ROW_INCHES * len(ribbons) + _AXIS_INCHES)
    return Chart(title, alt, (panel,), lettered_keys(names))


def _pair_text(pair: AlgorithmPair) -> str:
    """``ring or tree: ring from 8 MB``."""
    text = f"always {pair.dominates}" if pair.dominates else "the same"
    if pair.crossings:
        text = ", ".join(
            f"{crossing.faster_above} from {_bytes(crossing.bytes)}" for crossing in pair.crossings
        )
    return f"{pair.a} or {pair.b}: {text}"


def _draw_ribbons(
    ribbons: Sequence[Ribbon], names: Sequence[str], axes: Axes, inches: float
) -> None:
    """Draw a row a ribbon on axes that are ``inches`` wide, with the sizes where its winner changes
    above it; ``names``: the algorithms in the order of the legend."""
    changes = list(chain.from_iterable(ribbon.changes for ribbon in ribbons))
    # at least the usual sizes, and beyond them room around every change
    low = max(1.0, min(_USUAL_LOW, min(changes, default=inf) / _MARGIN_FACTOR))
    high = max(_USUAL_HIGH, max(changes, default=0.0) * _MARGIN_FACTOR)
    # width of a factor of e on the logarithmic axis, for which the names of rows and a margin leave room
    inches_per_e = ((1 - NAMES_WIDE) * inches - 0.2) / log(high / low)
    for row, ribbon in enumerate(ribbons):
        for stretch in ribbon.stretches:
            start = max(stretch.from_bytes, low)
            end = min(stretch.to_bytes or high, high)
            if start < end:
                most_letters = letters_that_fit(inches_per_e * log(end / start))
                number = names.index(stretch.name)
                _draw_stretch(
                    axes,
                    row,
                    (start, end),
                    stretch.protocol,
                    number=number,
                    most_letters=most_letters,
                )
        labelled = low  # the size with the last label
        for size in ribbon.changes:
            text = _bytes(size)
            # a size too close to the last one is left out: the table has it
            room = inches_per_e * log(size / labelled)
            if size > low and room >= _LETTER_INCHES * len(text):
                axes.text(
                    size,
                    row - _HALF_HEIGHT - 0.05,
                    text,
                    ha="center",
                    va="bottom",
                    fontsize=7,
                )
                labelled = size
    log_scale(axes, "x", (low, high), title_size)
    axes.set_xlabel("message size")
    name_rows(axes, [ribbon.title for ribbon in ribbons], NAMES_WIDE * inches)
    axes.set_ylim(len(ribbons) - 0.5, -0.6)


def _draw_stretch(
    axes: Axes,
    row: int,
    ends: tuple[float, float],
    protocol: str,
    *,
    number: int,
    most_letters: int,
) -> None:
    """Draw where an algorithm, by its number in the legend, wins: with its letter and protocol, as far
    as ``most_letters`` letters take."""
    colour = colour_of(number)
    look: dict[str, Any] = {"facecolor": colour, "edgecolor": DARK_TEXT, "linewidth": 0.4}
    axes.fill_between(ends, row - _HALF_HEIGHT, row + _HALF_HEIGHT, **look)
    middle = (ends[0] * ends[1]) ** 0.5  # half-way on the logarithmic axis
    text = f"{letter(number)} {protocol}".rstrip()
    text_in(axes, (middle, row), colour, most_letters, text, letter(number))
