"""Prices of one fabric as piecewise laws, for programs that ask many times: time = a + b (bytes -
from) on each piece, for each collective and number of ranks.

Pieces are as long as the price allows: prices are asked where a straight line may miss them, down
to single bytes where the library changes its algorithm.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import product
from operator import attrgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.base.result import with_progress
from colltool.estimate.assumptions import USUAL
from colltool.estimate.groups import place
from colltool.estimate.library_pick import with_library_choice
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.estimate.results import Overrides
from colltool.fabric.model import Fabric

FROM_BYTES, TO_BYTES = 8, 16 * 2**30
"""Sizes that a table covers, both included."""
WITHIN = 0.02
"""Most relative distance of a law from the price."""
_ASKED = 0.008
"""The distance that pieces keep at the sizes that they are made from, so that others keep
:data:`WITHIN`."""
_CHECKS = 6
"""Sizes an octave, between those that pieces are made from, at which a law is checked."""

Seconds = Callable[[int], float]
"""The price of a size in bytes."""


class LinePiece(NamedTuple):
    """Seconds are ``a_s + b_s * (bytes - from_bytes)`` from this size on, up to the next piece."""

    from_bytes: int
    a_s: float
    b_s: float

    def seconds(self, size: float) -> float:
        """The time of a size in bytes on the line."""
        return self.a_s + self.b_s * (size - self.from_bytes)


class Law(NamedTuple):
    """The price of a collective on the first ranks of a fabric, as straight pieces."""

    primitive: Primitive
    ranks: int
    nodes: int  # whole innermost domains that the ranks fill, at least 1
    pieces: tuple[LinePiece, ...]
    worst: float  # largest relative distance from prices that it was checked against

    def seconds(self, size: float) -> float:
        """The time of a size in bytes that the table covers."""
        return _seconds_at(self.pieces, size)


class NotCovered(NamedTuple):
    """A collective that has no law on so many ranks, and why."""

    primitive: Primitive
    ranks: int
    reason: str


class LawTable(NamedTuple):
    """The laws of a fabric."""

    fabric: str
    library: str
    from_bytes: int  # smallest size
    to_bytes: int  # largest size
    within: float  # most relative distance from the price between these sizes
    laws: tuple[Law, ...]
    not_covered: tuple[NotCovered, ...] = ()
    overrides: Overrides = ()  # set on the fabric


def usual_counts(fabric: Fabric) -> list[int]:
    """Numbers of ranks that a table has by default: doublings inside a domain, all of it, doublings
    of it, and all ranks."""
    everything = place(fabric).placement.ranks
    inside = min(fabric.tiers[0].endpoints, everything)
    # domains of 8, and 3 of them: 2, 4, 8, 16, 24
    counts = {inside, everything}
    for start, end in ((2, inside), (inside, everything)):
        count = start
        while count < end:
            counts.add(count)
            count *= 2
    return sorted(count for count in counts if count > 1)


def law_table(fabric: Fabric, primitives: Sequence[Primitive], counts: Sequence[int]) -> LawTable:
    """The laws of collectives on the first ranks of a fabric.

    Raises:
        ColltoolError: no collective can be priced on any of the counts.
    """
    laws = []
    refused = []
    for primitive, ranks in with_progress(list(product(primitives, counts))):
        try:
            laws.append(_law(fabric, primitive, ranks))
        except ColltoolError as error:
            refused.append(NotCovered(primitive, ranks, error.what))
    if not laws:
        first = refused[0]
        raise ColltoolError(
            f"no collective can be priced: {first.primitive.label} on {first.ranks}: {first.reason}",
            argument="ranks",
            fix=f"give other counts: {argument_text('ranks', 8)}",
        )
    return LawTable(
        fabric=fabric.name,
        library=fabric.library_name or "",
        from_bytes=FROM_BYTES,
        to_bytes=TO_BYTES,
        within=WITHIN,
        laws=tuple(laws),
        not_covered=tuple(refused),
        overrides=fabric.overrides,
    )


def _law(fabric: Fabric, primitive: Primitive, ranks: int) -> Law:
    """The law of a collective on the first ``ranks`` of a fabric, as the library picks."""
    group = GroupSpec(ranks)
    placed = place(fabric, group)
    nodes = max(ranks // placed.spans[0].tier.endpoints, 1)
    readings = USUAL
    # all prices that were asked for, by size in bytes
    asked: dict[int, float] = {}

    def seconds(size: int) -> float:
        """The price of what the library runs at a size; kept in ``asked``."""
        if size not in asked:
            priced = price(fabric, primitive, float(size), group, readings)
            picked = with_library_choice([priced], fabric, readings, required=False)[0]
            asked[size] = float(picked.best.total_s)
        return asked[size]

    pieces, worst = _checked_pieces(seconds, asked)
    return Law(primitive, ranks, nodes, pieces, worst)


def _checked_pieces(
    seconds: Seconds, asked: dict[int, float]
) -> tuple[tuple[LinePiece, ...], float]:
    """Pieces that keep :data:`WITHIN` at sizes that they were not made from, and the worst distance
    there. ``asked`` fills while ``seconds`` is called.

    Sizes that miss it are knots of the next try, so that this ends.
    """
    _sample(seconds, FROM_BYTES, TO_BYTES)
    while True:
        pieces = _longest_pieces(asked)
        missed = []
        worst = 0.0
        for size in _check_sizes():
            distance = _distance(_seconds_at(pieces, size), seconds(size))
            worst = max(worst, distance)
            if distance > WITHIN:
                missed.append(size)
        if not missed:
            return pieces, worst
        for size in missed:
            sizes = sorted(asked)
            index = sizes.index(size)
            _sample(seconds, sizes[index - 1], size)
            _sample(seconds, size, sizes[index + 1])


def _check_sizes() -> list[int]:
    """Sizes at which laws are checked, in bytes, ascending: :data:`_CHECKS` an octave, off the sizes
    from which pieces are made."""
    sizes = []
    step = 2 ** (1 / _CHECKS)
    # no step from a doubling: any exponent that is no simple fraction will do
    size = FROM_BYTES * step**0.37
    while size < TO_BYTES:
        sizes.append(round(size))
        size *= step
    return sorted(set(sizes))


def _sample(seconds: Seconds, low: int, high: int) -> None:
    """Ask for prices between two sizes until straight lines between neighbours meet them; the
    caller keeps what was asked."""
    # of 8 and 128 bytes the middle is 32, and 16 and 64 lie halfway to it
    ahead = [(low, high)]
    while ahead:
        low, high = ahead.pop()
        middle = round((low * high) ** 0.5)
        if not low < middle < high:
            continue
        line = _line_through(low, seconds(low), high, seconds(high))
        probes = [round(low**0.75 * high**0.25), middle, round(low**0.25 * high**0.75)]
        distance = max(_distance(line.seconds(size), seconds(size)) for size in probes)
        # over a wide range three sizes say little of those between them
        if distance > _ASKED or high > 4 * low:
            ahead += [(low, middle), (middle, high)]


def _line_through(low: int, low_s: float, high: int, high_s: float) -> LinePiece:
    """The line through the times of two sizes."""
    return LinePiece(low, low_s, (high_s - low_s) / (high - low))


def _longest_pieces(asked: dict[int, float]) -> tuple[LinePiece, ...]:
    """The longest straight lines through known prices that pass every other known price within
    :data:`_ASKED`."""
    sizes = sorted(asked)
    # prices of 10, 11, 12 and 20 us at 1, 2, 3 and 4 KB: a piece from 1 to 3 KB, one up to 4 KB
    pieces = []
    start = 0
    while start < len(sizes) - 1:
        end = start + 1
        while end + 1 < len(sizes) and _passes(asked, sizes, start, end + 1):
            end += 1
        low, high = sizes[start], sizes[end]
        pieces.append(_line_through(low, asked[low], high, asked[high]))
        start = end
    return tuple(pieces)


def _passes(asked: dict[int, float], sizes: Sequence[int], start: int, end: int) -> bool:
    """Whether the line between two of the sizes, given by index, passes the prices between them."""
    low, high = sizes[start], sizes[end]
    line = _line_through(low, asked[low], high, asked[high])
    passed = sizes[start + 1 : end]
    return all(_distance(line.seconds(size), asked[size]) <= _ASKED for size in passed)


def _seconds_at(pieces: Sequence[LinePiece], size: float) -> float:
    """The time of a size by the piece that it lies on."""
    piece = bisect_right(pieces, size, key=attrgetter("from_bytes")) - 1
    return pieces[max(piece, 0)].seconds(size)


def _distance(seconds: float, expected_s: float) -> float:
    """The relative distance of a time from the expected one."""
    return abs(seconds / expected_s - 1)
