"""Fit the series of one collective on one tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import format_rate
from colltool.base.primitives import Primitive
from colltool.calibration.candidates import AlgorithmCosts, LibraryRuns, costs, library_runs_of, nccl_on, sets, tried
from colltool.calibration.least_squares import Prior
from colltool.calibration.results import ExcludedSize
from colltool.calibration.sample import Member, usable
from colltool.calibration.select import ChosenFit, above_line, choose
from colltool.calibration.series_prices import check_fits, own_names
from colltool.estimate.assumptions import Readings
from colltool.estimate.candidates import named_candidates
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.measurements.series import Series, log_library
from colltool.nccl.hardware import Hardware

_LEAST = 2  # sizes that determine a line
_IMPOSSIBLE = 20  # times the line rate: beyond it the times are in another unit


class _TierSeries(NamedTuple):
    """The series of one collective with their groups; ``on`` is the hardware NCCL ran on, empty where unknown."""

    tier: Tier
    series: Sequence[Series]
    placed: Sequence[PlacedGroup]
    on: Sequence[Hardware]

    @property
    def primitive(self) -> Primitive:
        return self.series[0].primitive

    def members(self, names: Sequence[str], used: Sequence[NDArray[np.bool_]]) -> list[Member]:
        found = []
        for index, (series, placed) in enumerate(zip(self.series, self.placed, strict=True)):
            outer = [one for name in names if (one := _costs(placed, self.primitive, self.tier.name, name))]
            inner = _inside(placed, self.primitive, self.tier.name, names)
            hardware = self.on[index] if self.on else None
            found.append(Member(series, used[index], tuple(outer), inner=inner, on=hardware))
        return found


def fit_collective(
    fabric: Fabric, tier: Tier, series: Sequence[Series], algorithms: Sequence[str]
) -> tuple[ChosenFit, tuple[tuple[ExcludedSize, ...], ...]]:
    """The fit of one collective's series, and the sizes that each of them leaves out."""
    if sum(len(one.points) for one in series) < _LEAST:
        fix = "measure several sizes, ideally 1 KB to 1 GB"
        raise ColltoolError(
            f"{series[0].title}: a single size does not determine a line", where=series[0].points[0].where, fix=fix
        )
    placed = [check_fits(fabric, one) for one in series]
    site = _TierSeries(tier, series, placed, nccl_on(fabric, placed, series[0].library))
    known = None if algorithms else library_runs_of(series, site.on)
    able, prior = _able(site, algorithms, known), prior_of(fabric, tier, series[0].library)
    everything = [np.ones(len(one.points), dtype=bool) for one in series]
    judged = [usable(member, prior) for member in site.members(able[:1], everything)]
    line = tier.bandwidth * tier.ports
    options = _options(site, able, [used for used, _ in judged], known, bool(algorithms))
    chosen = choose(options, prior, line, known.by if known and set(known.algorithms) & set(able) else None)
    if (needed := above_line(chosen, line)) and needed > _IMPOSSIBLE * line:
        what = f"{series[0].title}: these times need {format_rate(needed)} from a port of {format_rate(line)}"
        raise ColltoolError(what, where=series[0].points[0].where, fix="check the unit of the times, the ranks and the fabric")
    return chosen, tuple(left for _, left in judged)


def _able(site: _TierSeries, algorithms: Sequence[str], known: LibraryRuns | None) -> tuple[str, ...]:
    first, spans = site.series[0], max(len(group.spans) for group in site.placed)
    joined_by = capabilities_of(site.tier).joined_by
    names = own_names(first, algorithms) if algorithms else tried(first.primitive, first.library, joined_by, spans)
    names = tuple(dict.fromkeys([*(known.algorithms if known else ()), *names]))
    able = tuple(name for name in names if all(_costs(group, first.primitive, site.tier.name, name) for group in site.placed))
    if not able or (algorithms and len(able) < len(names)):
        raise _cannot(site.placed, first.primitive, [name for name in names if name not in able], first)
    return able


def _options(
    site: _TierSeries, able: tuple[str, ...], used: Sequence[NDArray[np.bool_]], known: LibraryRuns | None, told: bool
) -> list[tuple[tuple[str, ...], Sequence[Member]]]:
    """Sets of algorithms to compare: what the library would run, then the likeliest; just the user's where ``told``."""
    apart = len({one.ranks for one in site.series}) > 1 or len(site.placed[0].spans) > 1
    wanted = [able] if told else sets(site.primitive, able, told_apart=apart)
    own = tuple(name for name in known.algorithms if name in able) if known else ()
    found: list[tuple[tuple[str, ...], Sequence[Member]]] = []
    if known and own:
        found = [(own, _likely(site.members(own, used), own, known))]
    return found + [(names, site.members(names, used)) for names in wanted if set(names) != set(own)]


def _cannot(placed: Sequence[PlacedGroup], primitive: Primitive, missing: Sequence[str], series: Series) -> ColltoolError:
    for group in placed:
        for name in missing:
            try:
                named_candidates(group, primitive, Readings(), [name])
            except ColltoolError as error:
                argument = "" if error.where else error.argument or "algorithms"
                return ColltoolError(f"{series.title}: {error.what}", where=error.where, argument=argument, fix=error.fix)
    what = f"{series.title}: {', '.join(missing)} cannot be fitted"
    fix = f"leave it out; {either(shell='colltool price', python='colltool.price')} lists what can run"
    return ColltoolError(what, argument="algorithms", fix=fix)


def _costs(placed: PlacedGroup, primitive: Primitive, tier: str, name: str) -> AlgorithmCosts | None:
    """Costs in one tier's parameters; the other tiers run under their last protocol, the one for large messages."""
    listed = {span.tier.name: span.tier.protocols_for(primitive) for span in placed.spans}
    return costs(placed, tier, primitive, name, {inner: next(reversed(own.values())) for inner, own in listed.items() if own})


def _inside(
    placed: PlacedGroup, primitive: Primitive, tier: str, names: Sequence[str]
) -> tuple[tuple[str, tuple[AlgorithmCosts, ...]], ...]:
    """Costs under each protocol that all other tiers list, by protocol name."""
    listed = {
        span.tier.name: own for span in placed.spans if span.tier.name != tier and (own := span.tier.protocols_for(primitive))
    }
    common = [name for name in next(iter(listed.values()), ()) if all(name in own for own in listed.values())]
    under = {protocol: {inner: own[protocol] for inner, own in listed.items()} for protocol in common}
    each = {protocol: [costs(placed, tier, primitive, name, inner) for name in names] for protocol, inner in under.items()}
    return tuple((protocol, tuple(one for one in several if one)) for protocol, several in each.items() if all(several))


def _likely(members: Sequence[Member], names: Sequence[str], known: LibraryRuns) -> list[Member]:
    """Marks per point the algorithms that the library would not have run; no marks where it runs one not in ``names``."""
    found = []
    for member, runs in zip(members, known.runs, strict=True):
        unlikely = [[run.spec in names and run.spec != name for run in runs] for name in names]
        found.append(member._replace(unlikely=np.array(unlikely)))
    return found


def prior_of(fabric: Fabric, tier: Tier, library: str) -> Prior:
    """The fabric's α and launch overhead; MPI calls launch no kernel."""
    launch = fabric.launch_overhead or None if log_library(library).launches_kernels else 0.0
    return Prior(capabilities_of(tier).classes[0].alpha_s * tier.eta.alpha, launch)
