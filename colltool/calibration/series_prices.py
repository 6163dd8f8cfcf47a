"""The price of a measured series at all its sizes: :func:`price_series` prices what the user names,
or all that the library of the log may have run."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import log
from operator import attrgetter
from typing import NamedTuple

from colltool.algorithms.composed import compositions, every_composition
from colltool.algorithms.libraries import LibraryName, Running
from colltool.algorithms.names import specs_called
from colltool.algorithms.registry import algorithms, parse_choice, selectable, usual_algorithms
from colltool.base.errors import ColltoolError, argument_text, clipped, either, nearest
from colltool.estimate.algorithm_estimate import bound_by
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates
from colltool.estimate.groups import PlacedGroup, flat_group, place
from colltool.estimate.price import price
from colltool.estimate.running import library_runs
from colltool.fabric.library_numbers import under_library
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.names import nccl_algorithm
from colltool.logs.series import Series, log_library

# The algorithm of in-switch reduction.
IN_SWITCH = "in-network"


class Quote(NamedTuple):
    """What one algorithm takes at one size under its fastest protocol.

    Args:
        algorithm: its title.
        bound: the largest part of its time: ``latency``, ``bandwidth``, ``overhead``, ``software``.
        spec: its name as an option.
    """

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
        quotes_of_size = [quotes[index] for quotes in self.by_title.values()]
        return min(quotes_of_size, key=lambda quote: abs(log(quote.seconds / seconds)))


def sizes_of(series: Series) -> list[float]:
    """The measured sizes, bytes."""
    return [point.bytes for point in series.points]


def price_series(
    fabric: Fabric, series: Series, readings: ModelOptions, only: Sequence[str] = ()
) -> Priced:
    """Quotes of the algorithms ``only``, or of all that the library may have run, at each of the
    series' sizes.

    Raises:
        ColltoolError: nothing that the library ships runs on the fabric, or ``only`` names nothing
            that computes this collective.
    """
    import numpy as np

    primitive = series.primitive
    placed = place(fabric, series.ranks)
    names = applicable_names(series, only) if only else []
    if not names and not library_runs(placed, primitive):
        names = _library_candidates(placed, series, readings)
        if not names:
            library = series.library or "a library"
            raise ColltoolError(
                f"{series.title}: nothing that {library} ships for {primitive.label} runs on"
                f" {fabric.name}",
                where=series.points[0].where,
                fix=f"name what ran with {argument_text('algorithms')};"
                f" {either(shell='colltool price', python='colltool.price')} lists all",
            )
    sizes = np.array(sizes_of(series))
    by_title = {}
    for row in price(fabric, primitive, sizes, series.ranks, readings, names).results:
        parts = (row.steps_s, row.moved_s, row.overhead_s, row.rest_s, row.total_s, row.protocol)
        # a list by size for each part, which may be one number where it is alike at all sizes
        columns = [np.broadcast_to(np.asarray(part), len(sizes)).tolist() for part in parts]
        quotes = [
            Quote(
                algorithm=row.title,
                protocol=protocol,
                seconds=total_s,
                bound=bound_by(*split_s),
                spec=row.spec,
            )
            # split_s: steps, bytes, overhead and the rest, as bound_by takes them
            for *split_s, total_s, protocol in zip(*columns, strict=True)
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
        nccl_name = base not in all_names and nccl_algorithm(algorithm)
        # a library's or a document's name, which a price reads itself
        if base not in known and (nccl_name or specs_called(algorithm, primitive, composed)):
            applicable.append(algorithm)
            continue
        if base not in all_names:
            raise ColltoolError(
                f"no algorithm '{clipped(base)}'",
                argument="algorithms",
                fix=_known_names(base, known),
            )
        if base in known:
            applicable.append(algorithm)
    if not applicable:
        raise ColltoolError(
            f"{series.title}: {', '.join(only)} is not an algorithm for {primitive.label}",
            argument="algorithms",
            fix=_known_names(only[0], known),
        )
    return applicable


def _known_names(name: str, known: Collection[str]) -> str:
    """A fix: the known names, the one nearest to what was typed first."""
    return f"{nearest(name, sorted(known))} known: {', '.join(sorted(known))}".strip()


def _library_candidates(placed: PlacedGroup, series: Series, readings: ModelOptions) -> list[str]:
    """Specs of what a library ships and the group can run. The ranks of a fabric without library
    facts may be GPUs or hosts: what the library runs on either counts."""
    import numpy as np

    primitive = series.primitive
    sizes = np.array(sizes_of(series))
    default: LibraryName = "all" if series.library else placed.fabric.library_name
    known: LibraryName = log_library(series.library).in_fabrics or default
    under_known = replace(placed, fabric=under_library(placed.fabric, known))
    costs = Candidates(under_known, primitive, readings).every_schedule([sizes])
    # class 0 is what the user can run
    runnable = [cost.choice.spec for cost in costs if cost.rank_class == 0]
    on_hosts = []
    if known != "all" and not placed.fabric.library_facts:
        # flat schedules that the library runs where every rank is a host of its own
        flat, _ = flat_group(placed, readings)
        scaled_out = flat._replace(scale_out=True)
        for algorithm in algorithms(primitive):
            can_run = algorithm.why_not(flat) is None and selectable(algorithm.status_on(flat))
            if can_run and not algorithm.not_run_by(Running(known), scaled_out):
                on_hosts.append(algorithm.name)
    return list(dict.fromkeys([*on_hosts, *runnable]))
