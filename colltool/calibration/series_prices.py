"""Price every algorithm that may have run a measured series, at all its sizes in one call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import gcd, log, prod
from typing import NamedTuple

from colltool.algorithms.composed import compositions, every_composition
from colltool.algorithms.registry import algorithms, every_algorithm, parse_choice
from colltool.base.errors import ColltoolError, clipped, either, given, nearest, spell
from colltool.calibration.candidates import library_candidates
from colltool.estimate.algorithm_estimate import bound_by
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import PlacedGroup, library_runs, place
from colltool.estimate.price import price
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.measurements.series import Series, check_series


class Quote(NamedTuple):
    """What one algorithm takes at one size under its fastest protocol; ``spec`` is its name as an option."""

    algorithm: str
    protocol: str
    seconds: float
    bound: str
    spec: str


class Priced(NamedTuple):
    """Quotes of every algorithm by title, and the fastest one of each size."""

    by_title: dict[str, tuple[Quote, ...]]
    best: tuple[Quote, ...]

    def nearest(self, index: int, seconds: float) -> Quote:
        """The quote at a size that is nearest to a measured time, by ratio."""
        return min((quotes[index] for quotes in self.by_title.values()), key=lambda quote: abs(log(quote.seconds / seconds)))


def price_series(fabric: Fabric, series: Series, readings: Readings, only: Sequence[str] = ()) -> Priced:
    import numpy as np

    sizes, primitive, placed = [point.bytes for point in series.points], series.primitive, place(fabric, series.ranks)
    names = own_names(series, only) if only else []
    if not names and not library_runs(placed, primitive):
        names = library_candidates(placed, primitive, readings, series.library, sizes)
        if not names:
            who = series.library or "a library"
            what = f"{series.title}: nothing that {who} ships for {primitive.spoken} runs on {fabric.name}"
            fix = f"name what ran with {given('algorithms')}; {either(shell='colltool price', python='colltool.price')} lists all"
            raise ColltoolError(what, where=series.points[0].where, fix=fix)
    rows = price(fabric, primitive, np.array(sizes), series.ranks, readings, names).results
    by_title = {}
    for row in rows:
        parts = (row.alpha_s, row.bandwidth_s, row.overhead_s, row.software_s, row.total_s, row.protocol)
        columns = zip(*(np.broadcast_to(np.asarray(part), len(sizes)).tolist() for part in parts), strict=True)
        by_title[row.title] = tuple(
            Quote(row.title, protocol, total, bound_by(*split), row.spec) for *split, total, protocol in columns
        )
    best = tuple(min(quotes, key=lambda quote: quote.seconds) for quotes in zip(*by_title.values(), strict=True))
    return Priced(by_title, best)


def own_names(series: Series, only: Sequence[str]) -> list[str]:
    """The named algorithms that compute this series' collective; the others may be meant for another series."""
    everything = sorted({row.name for row in every_algorithm()} | {row.name for row in every_composition()})
    known = {row.name for row in algorithms(series.primitive)} | {row.name for row in compositions(series.primitive)}
    for name in only:
        if (base := parse_choice(name).base) not in everything:
            raise ColltoolError(f"no algorithm '{clipped(base)}'", argument="algorithms", fix=_those(base, known))
    mine = [name for name in only if parse_choice(name).base in known]
    if not mine:
        what = f"{series.title}: {', '.join(only)} is not an algorithm for {series.primitive.spoken}"
        raise ColltoolError(what, argument="algorithms", fix=_those(only[0], known))
    return mine


def _those(name: str, known: Collection[str]) -> str:
    return f"{nearest(name, sorted(known))} known: {', '.join(sorted(known))}".strip()


MOST_IN_A_HOST = 16
"""Accelerators in one host, of any vendor; larger scale-up domains (NVL72 racks) span hosts."""


def check_fits(fabric: Fabric, series: Series) -> PlacedGroup:
    """The series' ranks placed on the fabric; an error with a fix where fabric and log disagree."""
    check_series(series)
    where = series.points[0].where
    try:
        placed = place(fabric, series.ranks)
    except ColltoolError as error:
        raise ColltoolError(f"{series.title}: {error.what}", where=where, fix=_settings(fabric, series, error.fix)) from error
    reason = _elsewhere(fabric, series)
    if reason:
        raise ColltoolError(f"{series.title}: {reason}", where=where, fix=_settings(fabric, series))
    return placed


def _elsewhere(fabric: Fabric, series: Series) -> str:
    """Why the fabric's hosts are not those of the log; empty where they agree, the log names none, or the inner tier (a Clos, a
    lattice) does not stand for hosts."""
    inner = fabric.tiers[0]
    if series.nodes is None or capabilities_of(inner).joins != "accelerators":
        return ""
    if series.ranks % series.nodes:
        return "the ranks are not spread evenly over the nodes, and prices assume equal nodes"
    per_node = series.ranks // series.nodes
    spans_hosts = per_node <= MOST_IN_A_HOST < inner.endpoints
    if spans_hosts or per_node == inner.endpoints or (series.nodes == 1 and per_node < inner.endpoints):
        return ""
    return f"{fabric.name} puts {inner.endpoints} ranks in each domain of {inner.name}, the log has {per_node} on a node"


def _settings(fabric: Fabric, series: Series, nearest: str = "") -> str:
    tiers = list(fabric.tiers)
    inner, last, wanted = tiers[0], tiers[-1], dict[int, int]()
    if series.nodes is not None:
        per_domain = 0 if series.ranks % series.nodes else series.ranks // series.nodes
    else:
        shared = gcd(series.ranks, inner.endpoints)
        per_domain = shared if shared > 1 else 0
    if per_domain and len(tiers) > 1:
        inside = per_domain * prod(tier.endpoints for tier in tiers[1:-1])
        wanted = {0: per_domain, len(tiers) - 1: max(last.endpoints, -(-series.ranks // inside))}
    elif len(tiers) == 1 or series.ranks < inner.endpoints:
        wanted = {0: series.ranks}
    changed = {index: size for index, size in wanted.items() if size != tiers[index].endpoints}
    can = all(size <= min(capabilities_of(tiers[i]).most, tiers[i].max_size or size) for i, size in changed.items())
    for index, size in changed.items():
        tiers[index] = tiers[index].model_copy(update={"size": size})
    if changed and can and _holds(fabric.model_copy(update={"tiers": tuple(tiers)}), series):
        sizes = [f"{tiers[index].name}.size={size}" for index, size in changed.items()]
        typed = " ".join(spell(given("overrides", [size]), "shell") for size in sizes)
        written = spell(given("overrides", sizes), "python")
        return either(shell=f"type {typed}, or take another fabric with -f", python=f"load it with {written}, or take another")
    near = f"{nearest}; or " if nearest else ""
    return f"{near}use a fabric with the tiers and sizes of the machine that ran this{either(shell=', with -f', python='')}"


def _holds(fabric: Fabric, series: Series) -> bool:
    try:
        place(fabric, series.ranks)
    except ColltoolError:
        return False
    return not _elsewhere(fabric, series)
