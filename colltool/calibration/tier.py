"""Fit one tier to the series that end on it, collective by collective.

:func:`fit_tier` is the entry. For each collective (:class:`CollectiveSeries`) the sets of algorithms
that may have run are fitted and one is chosen (``_fit_collective``); collectives then share one set of
protocols where that predicts as well, and the protocols get their names.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colltool.base.errors import ColltoolError, either
from colltool.base.formatting import format_rate
from colltool.base.primitives import A2A, Primitive
from colltool.calibration.algorithm_costs import AlgorithmCosts, algorithm_costs
from colltool.calibration.identify import with_protocol_names
from colltool.calibration.least_squares import Prior
from colltool.calibration.library_choice import (
    LibraryRuns,
    algorithms_to_try,
    library_runs_of,
    nccl_on,
)
from colltool.calibration.log_fits import check_fits
from colltool.calibration.protocol_fit import CollectiveFit, above_line, joint_fit
from colltool.calibration.samples import Member
from colltool.calibration.select import AlgorithmSet, SelectedFit, select_algorithms
from colltool.calibration.serialise import (
    FittedProtocol,
    fitted_protocols,
    ranks_of,
)
from colltool.calibration.series_prices import applicable_names
from colltool.calibration.usable_points import ExcludedSize, usable_points
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import named_candidates
from colltool.estimate.groups import PlacedGroup
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.libraries.nccl.hardware import Hardware
from colltool.libraries.numbers import ProtocolNumbers
from colltool.logs.series import Series, log_library

# Sizes that determine a line.
_LEAST_SIZES = 2
# Times the line rate: beyond it the times are in another unit.
_IMPOSSIBLE = 20


class SeriesFit(NamedTuple):
    """The result for one series.

    Args:
        member: the series, and which of its sizes the fit uses.
        choice: the fit of the chosen algorithms, and why they were chosen.
        protocols: as the file will list them.
        errors: relative, cross-validated, of the sizes used.
        left_out: the sizes that the fit does not use, and why.
    """

    member: Member
    choice: SelectedFit
    protocols: tuple[FittedProtocol, ...]
    errors: NDArray[np.float64]
    left_out: tuple[ExcludedSize, ...]


class ChosenAlgorithms(NamedTuple):
    """The algorithms of one collective, before collectives share protocols.

    Args:
        choice: their fit, and why they were chosen.
        left_out: for each series the sizes that the fit does not use.
    """

    choice: SelectedFit
    left_out: tuple[tuple[ExcludedSize, ...], ...]


class FittedCollective(NamedTuple):
    """One collective's fit under the names of its protocols.

    Args:
        fit: of this collective alone.
        protocols: of this fit, or those that all collectives share.
        series: a fit for each measured series.
    """

    fit: CollectiveFit
    protocols: tuple[FittedProtocol, ...]
    series: list[SeriesFit]

    @property
    def measured(self) -> list[Series]:
        """The series that were measured."""
        return [member.series for member in self.fit.members]

    @property
    def primitive(self) -> Primitive:
        return self.measured[0].primitive


class TierFit(NamedTuple):
    """The fits of all collectives of a tier.

    Args:
        tier, fabric: without earlier protocols of the tier.
        shared: whether all collectives are under one set of protocols.
    """

    tier: Tier
    fabric: Fabric
    collectives: list[FittedCollective]
    shared: bool


def fit_tier(
    fabric: Fabric,
    tier: Tier,
    series: Sequence[Series],
    algorithms: Sequence[str],
    line_Bps: float | None,
) -> TierFit:
    """Fit each collective, by shared protocols where these predict as well.

    Args:
        algorithms: what the user says ran; empty to find it.
        line_Bps: the stated line rate, None for the fabric's bandwidth.
    """
    by_primitive: dict[Primitive, list[Series]] = {}
    for measured in series:
        by_primitive.setdefault(measured.primitive, []).append(measured)
    chosen = [
        _fit_collective(fabric, tier, of_primitive, algorithms)
        for of_primitive in by_primitive.values()
    ]
    # of the first series, whose collective stands for all
    prior = _prior_of(fabric, tier, series[0])
    joint = joint_fit([algorithms_of.choice.fit for algorithms_of in chosen], prior)
    # the joint fit's members are those of all collectives, in order: each collective takes its own from
    # the front of this list
    joint_errors: list[NDArray[np.float64]] = []
    if joint is not None:
        joint = with_protocol_names(joint, prior)
        joint_errors = joint.errors_by_member
    # where a tier inside this one lists protocols, this tier's placeholder names begin with its own
    # name: ib-
    inside = fabric.tiers[: fabric.tiers.index(tier)]
    prefix = f"{tier.name}-" if any(inner.protocols for inner in inside) else ""
    # what a protocol gets whose bandwidth no size determines
    nominal_Bps = line_Bps or tier.bandwidth * tier.eta.beta
    collectives = []
    for choice, left_out in chosen:
        fit = with_protocol_names(choice.fit, prior)
        protocols = fitted_protocols(joint or fit, nominal_Bps, line_Bps, prefix)
        errors = fit.errors_by_member
        if joint is not None:
            errors = [joint_errors.pop(0) for _ in fit.members]
        fits = [
            SeriesFit(member, choice, protocols, member_errors, excluded)
            for member, member_errors, excluded in zip(fit.members, errors, left_out, strict=True)
        ]
        collectives.append(FittedCollective(fit, protocols, fits))
    return TierFit(tier, fabric, collectives, shared=joint is not None)


class CollectiveSeries(NamedTuple):
    """The series of one collective on the tier that is fitted, with their groups.

    Args:
        placed: the group of each series.
        hardware: what NCCL ran on, for each series; empty where unknown.
    """

    tier: Tier
    series: Sequence[Series]
    placed: Sequence[PlacedGroup]
    hardware: Sequence[Hardware]

    @property
    def primitive(self) -> Primitive:
        return self.series[0].primitive

    def members(self, names: Sequence[str], used: Sequence[NDArray[np.bool_]]) -> list[Member]:
        """Each series with the costs of these algorithms; ``used``: a mask of its points."""
        hardware_of_series: Sequence[Hardware | None] = self.hardware or [None] * len(self.series)
        members = []
        for series, placed, points, hardware in zip(
            self.series, self.placed, used, hardware_of_series, strict=True
        ):
            members.append(
                Member(
                    series,
                    used=points,
                    costs=self.costs(placed, names),
                    inner=self.inner_costs(placed, names),
                    hardware=hardware,
                )
            )
        return members

    def costs(
        self,
        placed: PlacedGroup,
        names: Sequence[str],
        inner: Mapping[str, ProtocolNumbers] | None = None,
    ) -> tuple[AlgorithmCosts, ...]:
        """Costs of the algorithms that can run. ``inner`` has the protocol of each other tier, by
        tier; by default their last ones, which are for large messages."""
        if inner is None:
            inner = {
                name: next(reversed(listed.values()))
                for name, listed in self.protocols_inside(placed).items()
            }
        costs_of = []
        for name in names:
            cost = algorithm_costs(placed, self.tier.name, self.primitive, name, inner)
            if cost is not None:
                costs_of.append(cost)
        return tuple(costs_of)

    def protocols_inside(self, placed: PlacedGroup) -> dict[str, dict[str, ProtocolNumbers]]:
        """The protocols of the other tiers that list any, by tier."""
        by_tier = {}
        for span in placed.spans:
            protocols = span.tier.protocols_for(self.primitive)
            if protocols and span.tier.name != self.tier.name:
                by_tier[span.tier.name] = protocols
        return by_tier

    def inner_costs(
        self, placed: PlacedGroup, names: Sequence[str]
    ) -> dict[str, tuple[AlgorithmCosts, ...]]:
        """Costs under each protocol that all other tiers list and all algorithms can run under, by
        protocol name."""
        inside = self.protocols_inside(placed)
        numbers_by_protocol: dict[str, dict[str, ProtocolNumbers]] = {}
        for tier, protocols in inside.items():
            for protocol, numbers in protocols.items():
                numbers_by_protocol.setdefault(protocol, {})[tier] = numbers
        under_protocol = {}
        for protocol, inner in numbers_by_protocol.items():
            costs = self.costs(placed, names, inner)
            if len(inner) == len(inside) and len(costs) == len(names):
                under_protocol[protocol] = costs
        return under_protocol


def _fit_collective(
    fabric: Fabric, tier: Tier, series: Sequence[Series], algorithms: Sequence[str]
) -> ChosenAlgorithms:
    """Fit the algorithms that ran: those that the user names, or those whose fit is chosen.

    Args:
        series: all of one collective.
        algorithms: what the user says ran; empty to choose.

    Raises:
        ColltoolError: a single size, algorithms that cannot run, or times that need a rate far above
            the ports'.
    """
    if sum(len(measured.points) for measured in series) < _LEAST_SIZES:
        raise ColltoolError(
            f"{series[0].title}: a single size does not determine a line",
            where=series[0].points[0].where,
            fix="measure several sizes, ideally 1 KB to 1 GB",
        )
    placed = [check_fits(fabric, measured) for measured in series]
    all_points = [np.ones(len(measured.points), dtype=bool) for measured in series]
    collective = CollectiveSeries(tier, series, placed, nccl_on(fabric, placed, series[0].library))
    # what the library runs at each size, where its own rules say so
    library_runs = None if algorithms else library_runs_of(series, collective.hardware)
    runnable = _runnable(collective, algorithms, library_runs)
    prior = _prior_of(fabric, tier, series[0])
    # which sizes lie on a curve does not depend on the algorithm: the first one tells
    used = []
    left_out = []
    for member in collective.members(runnable[:1], all_points):
        points, excluded = usable_points(member, prior)
        used.append(points)
        left_out.append(excluded)
    # first the set that the library runs over all sizes, which is documented, then all others
    documented = None
    options = []
    library_set: tuple[str, ...] = ()
    if library_runs:
        library_set = tuple(
            algorithm for algorithm in library_runs.algorithms if algorithm in runnable
        )
        if library_set:
            documented = library_runs.documented
            members = _with_unlikely(
                collective.members(library_set, used), library_set, library_runs
            )
            options.append(AlgorithmSet(library_set, members))
    for names in _sets_to_compare(collective, runnable, algorithms):
        if set(names) != set(library_set):
            options.append(AlgorithmSet(names, collective.members(names, used)))
    # of the fabric's ports together: what the hardware carries, whatever line rate the user states
    # for the shares in the file
    ports_Bps = tier.bandwidth * tier.ports
    choice = select_algorithms(options, prior, ports_Bps, documented)
    _check_rate(choice.fit, ports_Bps)
    return ChosenAlgorithms(choice, tuple(left_out))


def _check_rate(fit: CollectiveFit, ports_Bps: float) -> None:
    """Raise ColltoolError for a fit that needs so many times the rate of the ports that its times must
    be in another unit."""
    needed_Bps = above_line(fit, ports_Bps)
    if needed_Bps and needed_Bps > _IMPOSSIBLE * ports_Bps:
        first = fit.members[0].series
        raise ColltoolError(
            f"{first.title}: these times need {format_rate(needed_Bps)} from a port of"
            f" {format_rate(ports_Bps)}",
            where=first.points[0].where,
            fix="check the unit of the times, the ranks and the fabric",
        )


def _sets_to_compare(
    collective: CollectiveSeries, runnable: tuple[str, ...], algorithms: Sequence[str]
) -> list[tuple[str, ...]]:
    """Sets of algorithms that may have run, likeliest first: all that the user names, else each
    alone and in pairs."""
    if algorithms:
        return [runnable]
    sets: list[tuple[str, ...]] = [(name,) for name in runnable]
    # on one rank count and tier two algorithms cannot be told from one with a further protocol
    can_be_told = len(ranks_of(collective.series)) > 1 or len(collective.placed[0].spans) > 1
    # those of all-to-all differ in latency alone, so that one of them is always faster
    if can_be_told and collective.primitive is not A2A:
        sets += combinations(runnable, 2)
    return sets


def _with_unlikely(
    members: Sequence[Member], names: Sequence[str], library_runs: LibraryRuns
) -> list[Member]:
    """Mark in each member what the library would not have run (``unlikely``, (algorithms, points)). A
    size where the library runs an algorithm that is not compared has no marks."""
    # ring and tree compared where it runs ring, tree and nvls: the ring is marked at the second size,
    # the tree at the first
    marked = []
    # the algorithm of each point, for each member
    for member, calls in zip(members, library_runs.runs, strict=True):
        ran = np.array(calls)
        ran_another = ran != np.array(names)[:, None]
        marked.append(member._replace(unlikely=np.isin(ran, names) & ran_another))
    return marked


def _runnable(
    collective: CollectiveSeries, algorithms: Sequence[str], library_runs: LibraryRuns | None
) -> tuple[str, ...]:
    """The algorithms that can run on every group, those that the library documents first.

    Raises:
        ColltoolError: none can, or not all that the user names.
    """
    first = collective.series[0]
    names: Sequence[str]
    if algorithms:
        names = applicable_names(first, algorithms)
    else:
        tiers = max(len(group.spans) for group in collective.placed)
        joined_by = capabilities_of(collective.tier).joined_by
        names = algorithms_to_try(first.primitive, first.library, joined_by, tiers)
    if library_runs:
        names = [*library_runs.algorithms, *names]
    runnable = []
    missing = []
    for name in dict.fromkeys(names):
        if all(collective.costs(group, [name]) for group in collective.placed):
            runnable.append(name)
        else:
            missing.append(name)
    # algorithms that the user names must all run
    if not runnable or (algorithms and missing):
        raise _cannot_run(collective, missing)
    return tuple(runnable)


def _cannot_run(collective: CollectiveSeries, missing: Sequence[str]) -> ColltoolError:
    """The error of algorithms that cannot run on every group, with the model's reason if it has
    one."""
    first = collective.series[0]
    for group in collective.placed:
        for name in missing:
            try:
                named_candidates(group, first.primitive, ModelOptions(), [name])
            except ColltoolError as error:
                # an error names its place in a file, or the argument that caused it: a place says more
                return ColltoolError(
                    f"{first.title}: {error.what}",
                    where=error.where,
                    argument="" if error.where else error.argument or "algorithms",
                    fix=error.fix,
                )
    return ColltoolError(
        f"{first.title}: {', '.join(missing)} cannot be fitted",
        argument="algorithms",
        fix=f"leave it out; {either(shell='colltool price', python='colltool.price')} lists what"
        " can run",
    )


def _prior_of(fabric: Fabric, tier: Tier, series: Series) -> Prior:
    """The fabric's α and launch overhead, with what its library adds, as the prior of a fit. The
    series tells the library that ran."""
    alpha_s = capabilities_of(tier).classes[0].alpha_s * tier.eta.alpha
    launch_s = fabric.launch_overhead or None
    known = tier.protocols_for(series.primitive)
    # with the library's own time this is nearer than by the wires alone
    if known and not fabric.states_launch:
        first = next(iter(known.values()))
        alpha_s += first.step_s
        launch_s = first.launch_s
    # MPI calls launch no kernel
    if not log_library(series.library).launches_kernels:
        launch_s = 0.0
    return Prior(alpha_s, launch_s)
