"""The prices of a series: of every algorithm that may have run, at all its sizes in one call."""

from collections.abc import Collection, Sequence
from math import log
from typing import Any, NamedTuple

from colltool.algorithms.composed import compositions, every_composition
from colltool.algorithms.registry import algorithms, every_algorithm, parse_choice
from colltool.base.errors import ColltoolError, either, given, nearest
from colltool.base.primitives import Primitive
from colltool.base.quoting import clipped
from colltool.calibration.candidates import library_candidates
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, bound_by
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import place
from colltool.estimate.library_selection import library_runs
from colltool.estimate.price import price
from colltool.fabric.model import Fabric
from colltool.measurements.series import Series


class Quote(NamedTuple):
    """What one algorithm takes at one size, under its fastest protocol, what most of that is; ``spec`` names it in options."""

    algorithm: str
    protocol: str
    seconds: float
    bound: str
    spec: str


class Priced(NamedTuple):
    """The quotes of every algorithm by its title, and the fastest of them, size by size."""

    by_title: dict[str, tuple[Quote, ...]]
    best: tuple[Quote, ...]

    def nearest(self, index: int, seconds: float) -> Quote:
        """The quote at a size that is nearest to a time, by ratio."""
        return min((quotes[index] for quotes in self.by_title.values()), key=lambda quote: abs(log(quote.seconds / seconds)))


def price_series(fabric: Fabric, series: Series, readings: Readings, only: Sequence[str] = ()) -> Priced:
    """Price a series at all its sizes.

    Args:
        fabric: which holds its ranks.
        series, readings: what ran, and how to read the model.
        only: exactly these algorithms, those of other primitives left out. When empty: what the fabric says that its
            library runs, else what the library of the log ships.

    Raises:
        ColltoolError: none of the algorithms is one of the primitive, or runs on the group.
    """
    import numpy as np

    sizes = np.array([point.bytes for point in series.points])
    names = _names(fabric, series, readings, only)
    rows = price(fabric, series.primitive, sizes, series.ranks, readings, names).results
    by_title = {row.title: _quotes(row, len(sizes)) for row in rows}
    best = tuple(min(quotes, key=lambda quote: quote.seconds) for quotes in zip(*by_title.values(), strict=True))
    return Priced(by_title, best)


def _names(fabric: Fabric, series: Series, readings: Readings, only: Sequence[str]) -> list[str]:
    placed, primitive = place(fabric, series.ranks), series.primitive
    if only:
        return own_names(series, only)
    if library_runs(placed, primitive):
        return []
    found = library_candidates(placed, primitive, readings, series.library, [point.bytes for point in series.points])
    if not found:
        who = series.library or "a library"
        what = f"{series.title}: nothing that {who} ships for {primitive.spoken} runs on {fabric.name}"
        fix = f"name what ran with {given('algorithms')}; {either(shell='colltool price', python='colltool.price')} lists all"
        raise ColltoolError(what, where=series.points[0].where, fix=fix)
    return found


def own_names(series: Series, only: Sequence[str]) -> list[str]:
    """The algorithms among these that compute what a series measured; another may be for another series."""
    everything = sorted({row.name for row in every_algorithm()} | {row.name for row in every_composition()})
    known = _known(series.primitive)
    for name in only:
        if (base := parse_choice(name).base) not in everything:
            raise ColltoolError(f"no algorithm '{clipped(base)}'", argument="algorithms", fix=_those(base, known))
    mine = [name for name in only if parse_choice(name).base in known]
    if not mine:
        what = f"{series.title}: {', '.join(only)} is no algorithm of {series.primitive.spoken}"
        raise ColltoolError(what, argument="algorithms", fix=_those(only[0], known))
    return mine


def _those(name: str, known: Collection[str]) -> str:
    return f"{nearest(name, sorted(known))} known: {', '.join(sorted(known))}".strip()


def _known(primitive: Primitive) -> set[str]:
    return {row.name for row in algorithms(primitive)} | {row.name for row in compositions(primitive)}


def _quotes(row: AlgorithmEstimate, count: int) -> tuple[Quote, ...]:
    import numpy as np

    def column(values: Any) -> list[Any]:
        return list(np.broadcast_to(np.asarray(values), count).tolist())

    parts = zip(*(column(getattr(row, name)) for name in ("alpha_s", "bandwidth_s", "overhead_s", "software_s")), strict=True)
    bounds = [bound_by(*part) for part in parts]
    columns = (column(row.protocol), column(row.total_s), bounds)
    return tuple(Quote(row.title, *quote, row.spec) for quote in zip(*columns, strict=True))
