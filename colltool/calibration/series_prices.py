"""The price of a measured series at all its sizes, on a fabric that its ranks fit.

:func:`check_fits` refuses a fabric whose hosts are not those of the log, with the settings under
which they would be; :func:`price_series` prices what the user names, or all that the library of the
log may have run.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import gcd, log, prod
from operator import attrgetter
from typing import NamedTuple

from colltool.algorithms.composed import compositions, every_composition
from colltool.algorithms.libraries import LibraryName, Running
from colltool.algorithms.names import specs_called
from colltool.algorithms.registry import algorithms, parse_choice, selectable, usual_algorithms
from colltool.base.errors import ColltoolError, argument_text, clipped, either, nearest, spell
from colltool.base.primitives import ceil_div
from colltool.estimate.algorithm_estimate import bound_by
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates
from colltool.estimate.groups import PlacedGroup, flat_group, library_runs, place
from colltool.estimate.interval import is_network
from colltool.estimate.price import price
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.libraries.nccl.rules import nccl_algorithm
from colltool.logs.series import Series, check_timing, log_library

# The algorithm of in-switch reduction.
IN_SWITCH = "in-network"
# Accelerators in one host, of any vendor; larger scale-up domains (NVL72 racks) span hosts.
MOST_IN_A_HOST = 16


class Quote(NamedTuple):
    """What one algorithm takes at one size under its fastest protocol; ``spec`` is its name as an
    option."""

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
        found = [quotes[index] for quotes in self.by_title.values()]
        return min(found, key=lambda quote: abs(log(quote.seconds / seconds)))


def sizes_of(series: Series) -> list[float]:
    """The measured sizes, bytes."""
    return [point.bytes for point in series.points]


def price_series(
    fabric: Fabric, series: Series, readings: ModelOptions, only: Sequence[str] = ()
) -> Priced:
    """Quotes of the algorithms ``only``, or of all that the library may have run."""
    import numpy as np

    primitive = series.primitive
    placed = place(fabric, series.ranks)
    names = applicable_names(series, only) if only else []
    if not names and not library_runs(placed, primitive):
        names = _library_candidates(placed, series, readings)
        if not names:
            who = series.library or "a library"
            what = (
                f"{series.title}: nothing that {who} ships for {primitive.label} runs on"
                f" {fabric.name}"
            )
            fix = (
                f"name what ran with {argument_text('algorithms')};"
                f" {either(shell='colltool price', python='colltool.price')} lists all"
            )
            raise ColltoolError(what, where=series.points[0].where, fix=fix)
    sizes = np.array(sizes_of(series))
    by_title = {}
    for row in price(fabric, primitive, sizes, series.ranks, readings, names).results:
        parts = (row.steps_s, row.moved_s, row.overhead_s, row.rest_s, row.total_s, row.protocol)
        # a part may be alike at all sizes
        columns = [np.broadcast_to(np.asarray(part), len(sizes)).tolist() for part in parts]
        quotes = [
            Quote(row.title, protocol, total_s, bound_by(*split), row.spec)
            for *split, total_s, protocol in zip(*columns, strict=True)
        ]
        by_title[row.title] = tuple(quotes)
    best = [
        min(quotes_of_size, key=attrgetter("seconds"))
        for quotes_of_size in zip(*by_title.values(), strict=True)
    ]
    return Priced(by_title, tuple(best))


def applicable_names(series: Series, only: Sequence[str]) -> list[str]:
    """The named algorithms that compute this series' collective; the others may be for another
    series.

    Raises:
        ColltoolError: a name that no algorithm has, or none for this collective.
    """
    name_of = attrgetter("name")
    all_names = {*map(name_of, usual_algorithms()), *map(name_of, every_composition())}
    primitive = series.primitive
    composed = list(map(name_of, compositions(primitive)))
    known = {*map(name_of, algorithms(primitive)), *composed}
    applicable = []
    for algorithm in only:
        base = parse_choice(algorithm).base
        by_library = base not in all_names and nccl_algorithm(algorithm)
        if base not in known and (by_library or specs_called(algorithm, primitive, composed)):
            applicable.append(algorithm)
            continue
        if base not in all_names:
            what = f"no algorithm '{clipped(base)}'"
            raise ColltoolError(what, argument="algorithms", fix=_known_names(base, known))
        if base in known:
            applicable.append(algorithm)
    if not applicable:
        what = f"{series.title}: {', '.join(only)} is not an algorithm for {primitive.label}"
        raise ColltoolError(what, argument="algorithms", fix=_known_names(only[0], known))
    return applicable


def _known_names(name: str, known: Collection[str]) -> str:
    """A fix: the known names, the one nearest to what was typed first."""
    return f"{nearest(name, sorted(known))} known: {', '.join(sorted(known))}".strip()


def check_fits(fabric: Fabric, series: Series) -> PlacedGroup:
    """The series' ranks placed on the fabric; an error with a fix where fabric and log disagree."""
    for point in series.points:
        for seconds in (point.seconds, point.low_s, point.high_s):
            check_timing(point.bytes, seconds, point.where)
    where = series.points[0].where
    try:
        placed = place(fabric, series.ranks)
    except ColltoolError as error:
        what = f"{series.title}: {error.what}"
        fix = _fix_sizes(fabric, series, error.fix)
        raise ColltoolError(what, where=where, fix=fix) from error
    reason = _other_hosts(fabric, series)
    if reason:
        raise ColltoolError(
            f"{series.title}: {reason}", where=where, fix=_fix_sizes(fabric, series)
        )
    return placed


def _other_hosts(fabric: Fabric, series: Series) -> str:
    """Why the fabric's hosts are not those of the log. Empty where they agree, where the log names
    none, or where the domains of the inner tier (a Clos, a lattice) are not hosts."""
    inner = fabric.tiers[0]
    if series.nodes is None or capabilities_of(inner).joins != "accelerators":
        return ""
    if series.ranks % series.nodes:
        return "the ranks are not spread evenly over the nodes, and prices assume equal nodes"
    per_node = series.ranks // series.nodes
    # devices that nothing but a network joins are hosts of their own
    if len(fabric.tiers) == 1 and is_network(fabric, inner):
        if per_node == 1:
            return ""
        return f"{fabric.name} has one device per host, the log has {per_node} on a node"
    spans_hosts = per_node <= MOST_IN_A_HOST < inner.endpoints
    part_of_a_host = series.nodes == 1 and per_node < inner.endpoints
    if spans_hosts or part_of_a_host or per_node == inner.endpoints:
        return ""
    return (
        f"{fabric.name} puts {inner.endpoints} ranks in each domain of {inner.name}, the log has"
        f" {per_node} on a node"
    )


def _fix_sizes(fabric: Fabric, series: Series, nearest: str = "") -> str:
    """What to type so that the series fits: sizes of tiers, as options; where no sizes do, which
    fabric to use."""
    tiers = list(fabric.tiers)
    changed = {}
    possible = True
    for index, size in _fitting_sizes(fabric, series).items():
        tier = tiers[index]
        if size != tier.endpoints:
            changed[tier.name] = size
            possible = possible and size <= min(
                capabilities_of(tier).largest_size, tier.max_size or size
            )
            tiers[index] = tier.model_copy(update={"size": size})
    if changed and possible and _holds(fabric.model_copy(update={"tiers": tuple(tiers)}), series):
        sizes = [f"{name}.size={size}" for name, size in changed.items()]
        typed = " ".join(spell(argument_text("overrides", [size]), "shell") for size in sizes)
        written = spell(argument_text("overrides", sizes), "python")
        return either(
            shell=f"type {typed}, or take another fabric with -f",
            python=f"load it with {written}, or take another",
        )
    near = f"{nearest}; or " if nearest else ""
    return (
        f"{near}use a fabric with the tiers and sizes of the machine that ran"
        f" this{either(shell=', with -f', python='')}"
    )


def _fitting_sizes(fabric: Fabric, series: Series) -> dict[int, int]:
    """Sizes of the innermost and outermost tier that would hold the ranks, by index of the tier."""
    tiers = fabric.tiers
    inner = tiers[0]
    if series.nodes is not None:
        per_domain = 0 if series.ranks % series.nodes else series.ranks // series.nodes
    else:
        shared = gcd(series.ranks, inner.endpoints)
        per_domain = shared if shared > 1 else 0
    if per_domain and len(tiers) > 1:
        inside = per_domain * prod(tier.endpoints for tier in tiers[1:-1])
        outside = max(tiers[-1].endpoints, ceil_div(series.ranks, inside))
        return {0: per_domain, len(tiers) - 1: outside}
    if len(tiers) == 1 or series.ranks < inner.endpoints:
        return {0: series.ranks}
    return {}


def _holds(fabric: Fabric, series: Series) -> bool:
    """Whether the ranks fit the fabric, and its hosts are those of the log."""
    try:
        place(fabric, series.ranks)
    except ColltoolError:
        return False
    return not _other_hosts(fabric, series)


def _library_candidates(placed: PlacedGroup, series: Series, readings: ModelOptions) -> list[str]:
    """Specs of what a library ships and the group can run. The ranks of a fabric without library
    facts may be GPUs or hosts: what the library runs on either counts."""
    import numpy as np

    primitive = series.primitive
    sizes = np.array(sizes_of(series))
    default: LibraryName = "all" if series.library else placed.fabric.library_name
    known: LibraryName = log_library(series.library).in_fabrics or default
    under = replace(placed, fabric=under_library(placed.fabric, known))
    costs = Candidates(under, primitive, readings).every_schedule([sizes])
    # class 0 is what the user can run
    found = [cost.choice.spec for cost in costs if cost.rank_class == 0]
    hosts = []
    if known != "all" and not placed.fabric.library_facts:
        # flat schedules that the library runs where every rank is a host of its own
        whole, _ = flat_group(placed, readings)
        scaled_out = whole._replace(scale_out=True)
        for algorithm in algorithms(primitive):
            runs = algorithm.why_not(whole) is None and selectable(algorithm.status_on(whole))
            if runs and not algorithm.not_run_by(Running(known), scaled_out):
                hosts.append(algorithm.name)
    return list(dict.fromkeys([*hosts, *found]))
