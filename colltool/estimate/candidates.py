"""The schedules that can run for a primitive on a group, under every protocol, and why others cannot.

:func:`candidates_for` is the entry: it returns :class:`Candidates`, which has

    every_schedule, named   the schedules, all or by name, as cost models
    with_masks              either of them, each with the sizes at which a table shows it
    free_compositions       compositions whose algorithms per tier are still to be chosen
    infeasible              the algorithms that cannot run, with the reason
    specs                   what names mean here (:mod:`colltool.estimate.algorithm_specs`)

Flat schedules run one algorithm over the whole group; compositions
(:mod:`colltool.estimate.hierarchical`) run one on each tier. A fabric's tier may list the algorithms
that its library runs: those of the outermost tier are :attr:`Candidates.runs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from colltool.algorithms.composed import composition_names
from colltool.algorithms.libraries import Running
from colltool.algorithms.registry import (
    Algorithm,
    Choice,
    algorithms,
    find,
    parse_choice,
    row_of,
    usual_algorithms,
)
from colltool.base.errors import ColltoolError, argument_text, localize
from colltool.base.primitives import Number, Primitive
from colltool.estimate.algorithm_specs import CannotRun, spec_of
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, flat_group, place
from colltool.estimate.hierarchical import (
    AtSizes,
    TierCompositions,
    hierarchical_candidates,
    why_not_composed,
)
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.phase_costs import cost_flat
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.estimate.results import Infeasible
from colltool.estimate.running import library_runs, running_on
from colltool.fabric.model import Fabric
from colltool.network.group import Group

CompositionByProtocol = list[TierCompositions]
"""The same composition under each protocol."""


class UnderProtocol(NamedTuple):
    """A group under one protocol, as flat formulas see it."""

    placed: PlacedGroup
    group: Group
    paths: PathClasses


@dataclass(frozen=True, eq=False)
class Candidates:
    """The schedules of a primitive on a group, independent of size."""

    placed: PlacedGroup
    primitive: Primitive
    readings: ModelOptions
    # cache of _schedules_of
    _flat_by_choice: dict[Choice, list[AtSizes]] = field(default_factory=dict, init=False)

    @cached_property
    def library(self) -> Running | None:
        """The library that runs on the fabric; None if any may run."""
        return running_on(self.placed.fabric)

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """The specs that the outermost tier lists as run by the library; empty: it runs
        anything."""
        return library_runs(self.placed, self.primitive)

    def every_schedule(self, sizes: Sequence[Number]) -> list[CostModel]:
        """Every flat schedule, each composition's fastest at any of the sizes, and its textbook
        one; all under every protocol.

        Where the fabric lists what its library runs, only that.
        """
        return [cost_model for cost_model, _ in self.with_masks((), sizes)]

    def named(self, names: Iterable[str], sizes: Sequence[Number] = ()) -> list[CostModel]:
        """Exactly these algorithms, under every protocol; a composition named without its
        algorithms per tier as in :meth:`every_schedule`.

        Raises:
            CannotRun: a named algorithm does not run on this group.
        """
        return [cost_model for cost_model, _ in self._named_with_masks(names, sizes)]

    def with_masks(self, names: Sequence[str], sizes: Sequence[Number]) -> list[AtSizes]:
        """The schedules of :meth:`named` (without names, of :meth:`every_schedule`), each with the
        sizes at which the price of that size alone would show it.

        Flat schedules are shown at all sizes; a composition's choice where it is the fastest. An
        array in ``sizes`` gives a mask of its shape.
        """
        if names:
            return self._named_with_masks(names, sizes)
        restriction = ""
        if self.runs:
            possible = [spec for spec in self.runs if self._can_run(parse_choice(spec))]
            schedules = self._named_with_masks(possible, sizes)
            restriction = f": the fabric's algorithms list only {', '.join(self.runs)}"
        else:
            schedules = [(cost_model, True) for cost_model in self._flat_schedules]
            for by_protocol in self._compositions_as_listed:
                schedules += _fastest_choices(by_protocol, sizes)
        if not schedules:
            raise ColltoolError(
                f"no algorithm for {self.primitive.label} runs on {self.placed.fabric.name}{restriction}"
            )
        return schedules

    def specs(self, names: Iterable[str]) -> list[str]:
        """The algorithms of any names, as ``--algorithm`` takes them: ours, the library's own
        (``NVLSTree``) and those of documents (``butterfly``)."""
        return [spec_of(name, self.placed, self.primitive, self._can_run) for name in names]

    def _named_with_masks(self, names: Iterable[str], sizes: Sequence[Number]) -> list[AtSizes]:
        """The schedules of these names, of which those that the fabric lists as run are selectable,
        whatever its library is known to run."""
        schedules: list[AtSizes] = []
        for spec in self.specs(names):
            for cost_model, mask in self._schedules_of(parse_choice(spec), sizes):
                choice = cost_model.choice
                listed_as_run = choice.spec in self.runs or choice.base in self.runs
                if cost_model.not_selected_reason and listed_as_run:
                    cost_model = replace(cost_model, not_selected_reason=None)
                schedules.append((cost_model, mask))
        return schedules

    def free_compositions(self, names: Collection[str]) -> list[TierCompositions]:
        """The compositions whose algorithms per tier are free to choose: those named or, without
        names, run by the library; all where the fabric lists none."""
        free_names = names or self.runs
        if not free_names:
            return list(chain.from_iterable(self._compositions_as_listed))
        # a name with choices, such as hierarchical:ring/tree, equals no composition's name
        compositions = chain.from_iterable(self._compositions)
        return [
            composition for composition in compositions if composition.definition.name in free_names
        ]

    def infeasible(self, priced: Collection[str]) -> tuple[Infeasible, ...]:
        """Every algorithm and composition not ``priced``, with the reason, in registry order."""
        # the names of tiers that list algorithms, innermost first: the outermost of them decides
        listing_tiers = [
            span.tier.name for span in self.placed.spans if span.tier.runs(self.primitive)
        ]
        not_listed = ""
        if listing_tiers:
            priced_anyway = localize(f"{argument_text('algorithms')} prices it anyway")
            not_listed = (
                f"not among the algorithms that {listing_tiers[-1]} lists for"
                f" {self.primitive.label}; {priced_anyway}"
            )
        infeasible = []
        for algorithm, why_not in self._reasons_not_to_run.items():
            reason = why_not or not_listed
            if reason and algorithm not in priced:
                infeasible.append(Infeasible(algorithm, localize(reason)))
        return tuple(infeasible)

    @cached_property
    def _reasons_not_to_run(self) -> dict[str, str | None]:
        """Why each algorithm and composition cannot run; None where it can. A composition has a
        reason even where it was composed: :meth:`infeasible` leaves out what was priced."""
        reasons = {row.name: self._why_not(row) for row in algorithms(self.primitive)}
        bases_run = {parse_choice(spec).base for spec in self.runs}
        for name in composition_names(self.primitive):
            # over several tiers, where a list leaves it out, that it is not listed is the reason
            tried = len(self.placed.spans) == 1 or not self.runs or name in bases_run
            reasons[name] = why_not_composed(self.placed) if tried else None
        return reasons

    @cached_property
    def _under_protocols(self) -> list[UnderProtocol]:
        """The group under each of its protocols; one without a protocol where tiers list none."""
        return [
            UnderProtocol(under, *flat_group(under, self.readings))
            for under in under_protocols(self.placed, self.primitive)
        ]

    def _why_not(self, algorithm: Algorithm) -> str | None:
        """Why no protocol can run an algorithm: the reason under the last. None if any can."""
        reason = None
        for group in self._distinct_groups:
            reason = algorithm.why_not(group)
            if reason is None:
                return None
        return reason

    @cached_property
    def _distinct_groups(self) -> list[Group]:
        """The groups that flat formulas see; most protocols change none of what these may know."""
        return list(dict.fromkeys([under.group for under in self._under_protocols]))

    @cached_property
    def _flat_schedules(self) -> list[CostModel]:
        """Every flat schedule, where the outermost tier lists nothing.

        Algorithms that an inner tier lists tell which libraries run here, those that ship them: an
        algorithm that only other libraries ship is left out.
        """
        every_algorithm = algorithms(self.primitive)
        listed_names: set[str] = set()
        for span in self.placed.spans:
            listed_names.update(span.tier.runs(self.primitive))
        libraries: set[str] = set()
        for algorithm in every_algorithm:
            if algorithm.name in listed_names:
                libraries.update(algorithm.shipped_by)
        run_here = [
            algorithm
            for algorithm in every_algorithm
            if not libraries
            or algorithm.name in listed_names
            or libraries.intersection(algorithm.shipped_by)
        ]
        schedules = []
        for under in self._under_protocols:
            for algorithm in run_here:
                if algorithm.why_not(under.group) is None:
                    schedules.append(self._flat_cost(algorithm, under))
        return schedules

    def _flat_cost(self, algorithm: Algorithm, under: UnderProtocol) -> CostModel:
        """The schedule of an algorithm on the whole group under a protocol."""
        return cost_flat(algorithm, under.group, under.paths, self.readings, under.placed)

    @cached_property
    def _compositions_as_listed(self) -> list[CompositionByProtocol]:
        """Every composition, with the algorithms that inner tiers list where they list any."""
        return self._by_protocol(as_listed=True)

    @cached_property
    def _compositions(self) -> list[CompositionByProtocol]:
        """Every composition, with any algorithm that a tier can run."""
        return self._by_protocol(as_listed=False)

    def _by_protocol(self, *, as_listed: bool) -> list[CompositionByProtocol]:
        """Every composition, once sequential and once pipelined where both are candidates."""
        by_composition: dict[tuple[str, str], CompositionByProtocol] = {}
        for under in self._under_protocols:
            for composition in hierarchical_candidates(
                under.placed, self.primitive, self.readings, as_listed=as_listed
            ):
                key = composition.definition.name, composition.phases
                by_composition.setdefault(key, []).append(composition)
        return list(by_composition.values())

    def _can_run(self, choice: Choice) -> bool:
        """Whether the group runs a flat algorithm or a composition."""
        algorithm = row_of(self.primitive, choice.base)
        # only rows with counts, such as a number of servers, take choices
        if algorithm is not None and (algorithm.counts or not choice.tiers):
            return self._why_not(algorithm) is None
        compositions = chain.from_iterable(self._compositions)
        return any(_offers(composition, choice) for composition in compositions)

    def _schedules_of(self, choice: Choice, sizes: Sequence[Number]) -> list[AtSizes]:
        """The schedules of a choice, each with the sizes at which it is shown; raises CannotRun
        where there is none."""
        if choice in self._flat_by_choice:
            return self._flat_by_choice[choice]
        schedules: list[AtSizes] = []
        composed = composition_names(self.primitive)
        if choice.base in composed:
            for by_protocol in self._compositions:
                if by_protocol[0].definition.name != choice.base:
                    continue
                if choice.tiers:
                    cost_models = _under_each_protocol(by_protocol, choice.tiers)
                    schedules += [(cost_model, True) for cost_model in cost_models]
                else:
                    schedules += _fastest_choices(by_protocol, sizes)
            if not schedules:
                raise CannotRun(choice.base, why_not_composed(self.placed))
            return schedules
        algorithm = find(self.primitive, choice.base, composed)
        for under in self._under_protocols:
            group = algorithm.on(under.group, choice)
            if algorithm.why_not(group) is None:
                schedules.append((self._flat_cost(algorithm, under._replace(group=group)), True))
        if not schedules:
            raise CannotRun(choice.base, self._why_not(algorithm) or "")
        # flat schedules are the same at any size, unlike the fastest choices of a composition
        self._flat_by_choice[choice] = schedules
        return schedules


def on_layers(fabric: Fabric, readings: ModelOptions) -> Fabric:
    """The fabric with the layers that a reading asks for: ideal is wires alone, datasheet wires and
    contention."""
    if readings.ideal:
        return fabric.on_wires()
    return fabric.on_datasheet() if readings.numbers == "datasheet" else fabric


def candidates_for(
    fabric: Fabric, group: AnyGroup, primitive: Primitive, readings: ModelOptions
) -> Candidates:
    """Return the schedules of a primitive on a group of a fabric, kept with the placed group, so
    that a second price finds them."""
    placed = place(on_layers(fabric, readings), group)
    return placed.once(
        ("candidates", primitive, readings), lambda: Candidates(placed, primitive, readings)
    )


def named_candidates(
    placed: PlacedGroup, primitive: Primitive, readings: ModelOptions, names: Sequence[str]
) -> list[CostModel]:
    """The schedules of :meth:`Candidates.named`, on a group already placed; not kept."""
    return Candidates(placed, primitive, readings).named(names)


def choice_on(
    placed: PlacedGroup, primitive: Primitive, readings: ModelOptions, name: str
) -> Choice:
    """The algorithm that any of its names means on a group (:meth:`Candidates.specs`)."""
    [spec] = Candidates(placed, primitive, readings).specs([name])
    return parse_choice(spec)


def by_title(candidates: Iterable[CostModel]) -> dict[str, list[CostModel]]:
    """Each schedule under all of its protocols, by its title, which tables show."""
    grouped: dict[str, list[CostModel]] = {}
    for cost_model in candidates:
        grouped.setdefault(cost_model.title, []).append(cost_model)
    return grouped


def _offers(composition: TierCompositions, choice: Choice) -> bool:
    """Whether a composition is the one that is chosen, and each tier can run its part; names that are
    no algorithm's pass, and are refused when priced."""
    if composition.definition.name != choice.base:
        return False
    if len(choice.tiers) != len(composition.options):
        # a composition named without its algorithms is free to choose them
        return not choice.tiers
    known = {row.name for row in usual_algorithms()}
    for algorithm, options in zip(choice.tiers, composition.options, strict=True):
        if algorithm in known and algorithm not in {option.name for option in options}:
            return False
    return True


def _fastest_choices(by_protocol: CompositionByProtocol, sizes: Sequence[Number]) -> list[AtSizes]:
    """The fastest choices of a composition at any of the sizes, those that may lead first, then the
    textbook one.

    Each under every protocol, and in every way in which the user's library runs it.
    """
    candidates: list[AtSizes] = []
    for composition in by_protocol:
        for size in sizes:
            candidates += composition.fastest_selectable(size)
    for composition in by_protocol:
        for size in sizes:
            candidates += composition.fastest_of_any_status(size)
    candidates += [(composition.usual(), True) for composition in by_protocol]
    # a choice that is the fastest in several respects is shown wherever it is in any
    distinct: dict[Choice, AtSizes] = {}
    for cost_model, mask in candidates:
        if cost_model.choice in distinct:
            mask = mask | distinct[cost_model.choice][1]
        distinct[cost_model.choice] = (cost_model, mask)
    if len(by_protocol) == 1:
        return list(distinct.values())
    under_each: list[AtSizes] = []
    for choice, (_, mask) in distinct.items():
        cost_models = _under_each_protocol(by_protocol, choice.tiers)
        under_each += [(cost_model, mask) for cost_model in cost_models]
    return under_each


def _under_each_protocol(
    by_protocol: CompositionByProtocol, algorithms_by_tier: Sequence[str]
) -> list[CostModel]:
    """A composition with these algorithms under each protocol that can run them; the error of the
    first protocol where none can."""
    runnable = []
    errors = []
    for composition in by_protocol:
        try:
            runnable.append(composition.named(algorithms_by_tier))
        except ColltoolError as error:
            errors.append(error)
    if not runnable:
        raise errors[0]
    return runnable
