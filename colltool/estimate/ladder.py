"""``ladder``: a fixed list of prices, ideal beside realistic, to compare designs and to hold a CI job to."""

from __future__ import annotations

from collections.abc import Sequence

from colltool.base.errors import ColltoolError, ManyErrors
from colltool.estimate.price import price
from colltool.estimate.readings import Readings
from colltool.estimate.results import Ladder, Rung
from colltool.estimate.row import Row
from colltool.fabric.ladder import LadderDefinition, RungDefinition


def climb(definition: LadderDefinition, readings: Readings | None = None) -> Ladder:
    """Price every rung, ideal and realistic; the gap is to the fastest rung of the same primitive and size.

    Raises:
        ColltoolError: as :func:`colltool.estimate.price.price`, for every rung that cannot be priced, at its place in the file.
    """
    base = readings or Readings()
    priced, problems = [], []
    for rung in definition.rungs:
        try:
            priced.append((rung, *_both(rung, rung.size or definition.size, base)))
        except ColltoolError as error:
            argument = "" if rung.where else error.argument
            problems.append(ColltoolError(error.what, where=rung.where or error.where, argument=argument, fix=error.fix))
    if problems:
        raise problems[0] if len(problems) == 1 else ManyErrors(problems)
    rows = []
    for rung, ranks, ideal, real in priced:
        peers = [(i, r) for other, _, i, r in priced if (other.primitive, i.bytes) == (rung.primitive, ideal.bytes)]
        gap_ideal = _gap(ideal, [i for i, _ in peers])
        gap_real = _gap(real, [r for _, r in peers])
        rows.append(_rung(rung, ranks, ideal, real, gap_ideal, gap_real))
    return Ladder(definition.name, definition.description, definition.size, tuple(rows), base)


def _rung(rung: RungDefinition, ranks: int, ideal: Row, real: Row, gap_ideal: float, gap_real: float) -> Rung:
    return Rung(
        primitive=rung.primitive,
        fabric=rung.fabric.name,
        algorithm=ideal.title,
        ranks=ranks,
        ideal=ideal,
        realistic=real,
        gap_ideal=gap_ideal,
        gap_realistic=gap_real,
    )


def _both(rung: RungDefinition, size: float, base: Readings) -> tuple[int, Row, Row]:
    """The rung's ideal and realistic prices; the algorithm that is fastest in reality serves both."""
    only = [rung.algorithm] if rung.algorithm else []
    real = price(rung.fabric, rung.primitive, size, rung.ranks, base._replace(ideal=False), only)
    chosen = real.best
    ideal = price(rung.fabric, rung.primitive, size, rung.ranks, base._replace(ideal=True), only or [chosen.spec])
    return real.ranks, ideal.best, chosen


def _gap(row: Row, peers: Sequence[Row]) -> float:
    return float(row.total_s / min(float(peer.total_s) for peer in peers))
