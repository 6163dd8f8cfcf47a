"""The schedules that can run for a primitive on a group, under every protocol, and why others cannot.

:func:`candidates_for` is the entry. Flat schedules run one algorithm over the whole group;
compositions (:mod:`colltool.estimate.hierarchical`) run one on each tier.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from colltool.algorithms.aliases import normal_form
from colltool.algorithms.composed import compositions
from colltool.algorithms.libraries import Running
from colltool.algorithms.names import specs_called
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
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, flat_group, library_runs, place, running_on
from colltool.estimate.hierarchical import (
    AtSizes,
    TierCompositions,
    hierarchical_candidates,
    why_not_composed,
)
from colltool.estimate.library_names import spec_of_library_name
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.phase_costs import cost_flat
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.estimate.results import Infeasible
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.rules import nccl_algorithm
from colltool.network.group import Group

Compositions = list[TierCompositions]
"""One composition under each protocol."""


# why NCCL has no such algorithm where it has none
_NOT_HERE = {
    "tree": "inside a node it is a chain up and down, which is not priced",
    "pat": "it runs with one rank per node",
}


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
    flat_by_name: dict[Choice, list[AtSizes]] = field(default_factory=dict, init=False)

    @cached_property
    def overrides(self) -> tuple[tuple[str, str], ...]:
        return self.placed.fabric.overrides

    @cached_property
    def library(self) -> Running | None:
        return running_on(self.placed.fabric)

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """What the outermost tier lists as run by the library on this group; empty: anything."""
        return library_runs(self.placed, self.primitive)

    def all(self, sizes: Sequence[Number]) -> list[CostModel]:
        """Every flat schedule, each composition's fastest at any of the sizes, and its textbook
        one; all under every protocol.

        Where the fabric lists what its library runs, only that.
        """
        return [cost_model for cost_model, _ in self.shown((), sizes)]

    def named(self, names: Iterable[str], sizes: Sequence[Number] = ()) -> list[CostModel]:
        """Exactly these algorithms; a composition without choices as in :meth:`all`."""
        return [cost_model for cost_model, _ in self._shown(names, sizes)]

    def shown(self, names: Sequence[str], sizes: Sequence[Number]) -> list[AtSizes]:
        """The schedules of :meth:`named` (without names, of :meth:`all`), each with a mask of the
        sizes at which a single price lists it."""
        if names:
            return self._shown(names, sizes)
        listed = ""
        if self.runs:
            found = self._shown(self._feasible, sizes)
            listed = f": the fabric's algorithms list only {', '.join(self.runs)}"
        else:
            found = [(cost_model, True) for cost_model in self._flat]
            for several in self._listed:
                found += _leading(several, sizes)
        if not found:
            raise ColltoolError(
                f"no algorithm for {self.primitive.label} runs on {self.placed.fabric.name}{listed}"
            )
        return found

    def specs(self, names: Iterable[str]) -> list[str]:
        """The algorithms of any names, as ``--algorithm`` takes them: ours, the library's own
        (``NVLSTree``) and those of documents (``butterfly``)."""
        return [self._spec(name) for name in names]

    def _spec(self, name: str) -> str:
        """The spec that a name means: our own, a library's, or a textbook's where it is not the
        library's."""
        choice = parse_choice(name)
        if choice.base in self._composed or row_of(self.primitive, name):
            return name if not choice.tiers else self._first_that_runs(name)
        spec = spec_of_library_name(self.placed, self.primitive, name)
        if spec:
            return spec
        textbook = row_of(self.primitive, normal_form(name))
        algorithm = nccl_algorithm(name)
        if self.library is not None and self.library.like_nccl and algorithm and textbook:
            # a textbook's tree must not stand in for NCCL's
            reason = _NOT_HERE.get(algorithm, "it has none for these ranks")
            raise CannotRun(
                f"{self.library.label}'s {name}", f"{reason}; '{textbook.name}' is the textbook's"
            )
        return self._first_that_runs(name)

    def _first_that_runs(self, name: str) -> str:
        """The first algorithm of a name that can run here, else the first; the name itself where
        nothing is called so."""
        meant = specs_called(name, self.primitive, self._composed)
        able = (spec for spec in meant if self._can_run(parse_choice(spec)))
        return next(chain(able, meant), name)

    @cached_property
    def _composed(self) -> list[str]:
        return [composition.name for composition in compositions(self.primitive)]

    def _shown(self, names: Iterable[str], sizes: Sequence[Number]) -> list[AtSizes]:
        """What the fabric lists as run is selectable, whatever its library is known to run."""
        found: list[AtSizes] = []
        for algorithm in self.specs(names):
            for cost_model, at in self._named(parse_choice(algorithm), sizes):
                listed = cost_model.choice.spec in self.runs or cost_model.choice.base in self.runs
                if cost_model.not_selected_reason and listed:
                    cost_model = replace(cost_model, not_selected_reason=None)
                found.append((cost_model, at))
        return found

    def compositions(self, names: Collection[str] = ()) -> Compositions:
        """The compositions whose algorithms per tier are free to choose: those named, or run by the
        library."""
        free = names or self.runs
        if not free:
            return list(chain.from_iterable(self._listed))
        # a name with choices is no free one
        every = chain.from_iterable(self._unlisted)
        return [composition for composition in every if composition.definition.name in free]

    def infeasible(self, priced: Collection[str]) -> tuple[Infeasible, ...]:
        """Every algorithm and composition not ``priced``, with the reason, in registry order."""
        listing = [span.tier.name for span in self.placed.spans if span.tier.runs(self.primitive)]
        listed = ""
        if listing:
            anyway = localize(f"{argument_text('algorithms')} prices it anyway")
            listed = (
                f"not among the algorithms that {listing[-1]} lists for {self.primitive.label};"
                f" {anyway}"
            )
        found = []
        for algorithm, why in self._reasons.items():
            reason = why or listed
            if reason and algorithm not in priced:
                found.append(Infeasible(algorithm, localize(reason)))
        return tuple(found)

    @cached_property
    def _reasons(self) -> dict[str, str | None]:
        """Why each algorithm and composition cannot run; None where it can."""
        reasons = {row.name: self._why_not(row) for row in algorithms(self.primitive)}
        bases = {parse_choice(algorithm).base for algorithm in self.runs}
        for composition in compositions(self.primitive):
            tried = len(self.placed.spans) == 1 or not self.runs or composition.name in bases
            reasons[composition.name] = why_not_composed(self.placed) if tried else None
        return reasons

    @cached_property
    def _groups(self) -> list[UnderProtocol]:
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
        return list(dict.fromkeys([under.group for under in self._groups]))

    @cached_property
    def _flat(self) -> list[CostModel]:
        """Every flat schedule; where tiers list algorithms, none of other libraries."""
        known = algorithms(self.primitive)
        listed: set[str] = set()
        for span in self.placed.spans:
            listed.update(span.tier.runs(self.primitive))
        libraries: set[str] = set()
        for algorithm in known:
            if algorithm.name in listed:
                libraries.update(algorithm.shipped_by)
        flat = []
        for under in self._groups:
            for algorithm in known:
                ships = algorithm.name in listed or libraries.intersection(algorithm.shipped_by)
                if (ships or not libraries) and algorithm.why_not(under.group) is None:
                    flat.append(self._on(algorithm, under))
        return flat

    def _on(self, algorithm: Algorithm, under: UnderProtocol) -> CostModel:
        return cost_flat(algorithm, under.group, under.paths, self.readings, under.placed)

    @cached_property
    def _listed(self) -> list[Compositions]:
        return self._by_composition(listed=True)

    @cached_property
    def _unlisted(self) -> list[Compositions]:
        return self._by_composition(listed=False)

    def _by_composition(self, *, listed: bool) -> list[Compositions]:
        found: dict[tuple[str, str], Compositions] = {}
        for under in self._groups:
            for composition in hierarchical_candidates(
                under.placed, self.primitive, self.readings, listed=listed
            ):
                key = composition.definition.name, composition.phases
                found.setdefault(key, []).append(composition)
        return list(found.values())

    @property
    def _feasible(self) -> list[str]:
        """Those of the library's algorithms that can run on this group."""
        return [algorithm for algorithm in self.runs if self._can_run(parse_choice(algorithm))]

    def _can_run(self, choice: Choice) -> bool:
        algorithm = row_of(self.primitive, choice.base)
        # only rows with counts, such as a number of servers, take choices
        if algorithm is not None and (algorithm.counts or not choice.tiers):
            return self._why_not(algorithm) is None
        every = chain.from_iterable(self._unlisted)
        return any(_offers(composition, choice) for composition in every)

    def _named(self, choice: Choice, sizes: Sequence[Number]) -> list[AtSizes]:
        """The schedules of a choice, each with the sizes at which it is shown; raises CannotRun
        where there is none."""
        if choice in self.flat_by_name:
            return self.flat_by_name[choice]
        found: list[AtSizes] = []
        if choice.base in self._composed:
            several = [
                layout for layout in self._unlisted if layout[0].definition.name == choice.base
            ]
            if not several:
                raise CannotRun(choice.base, why_not_composed(self.placed))
            for layout in several:
                if choice.tiers:
                    found += [(cost_model, True) for cost_model in _chosen(layout, choice.tiers)]
                else:
                    found += _leading(layout, sizes)
            return found
        algorithm = find(self.primitive, choice.base, self._composed)
        for under in self._groups:
            group = algorithm.on(under.group, choice)
            if algorithm.why_not(group) is None:
                found.append((self._on(algorithm, under._replace(group=group)), True))
        if not found:
            raise CannotRun(choice.base, self._why_not(algorithm) or "")
        # flat schedules are the same at any size, unlike the fastest choices of a composition
        self.flat_by_name[choice] = found
        return found


class CannotRun(ColltoolError):
    def __init__(self, name: str, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{name} cannot run here: {reason}",
            argument="algorithms",
            fix=f"price without {argument_text('algorithms')} lists all",
        )


def on_layers(fabric: Fabric, readings: ModelOptions) -> Fabric:
    """The fabric with the layers that a reading asks for: ideal is wires alone, datasheet wires and
    contention."""
    if readings.ideal:
        return fabric.on_wires()
    return fabric.on_datasheet() if readings.numbers == "datasheet" else fabric


def candidates_for(
    fabric: Fabric, group: AnyGroup, primitive: Primitive, readings: ModelOptions
) -> Candidates:
    placed = place(on_layers(fabric, readings), group)
    return placed.once(
        ("candidates", primitive, readings), lambda: Candidates(placed, primitive, readings)
    )


def named_candidates(
    placed: PlacedGroup, primitive: Primitive, readings: ModelOptions, names: Sequence[str]
) -> list[CostModel]:
    """The schedules of :meth:`Candidates.named`, on a group already placed."""
    return Candidates(placed, primitive, readings).named(names)


def choice_on(
    placed: PlacedGroup, primitive: Primitive, readings: ModelOptions, name: str
) -> Choice:
    """The algorithm that any of its names means on a group (:meth:`Candidates.specs`)."""
    [spec] = Candidates(placed, primitive, readings).specs([name])
    return parse_choice(spec)


def by_title(candidates: Iterable[CostModel]) -> dict[str, list[CostModel]]:
    grouped: dict[str, list[CostModel]] = {}
    for cost_model in candidates:
        grouped.setdefault(cost_model.title, []).append(cost_model)
    return grouped


def _offers(composition: TierCompositions, choice: Choice) -> bool:
    """Whether each tier can run its part; unknown names pass, and are refused when priced."""
    if composition.definition.name != choice.base:
        return False
    if len(choice.tiers) != len(composition.options):
        return not choice.tiers
    known = {row.name for row in usual_algorithms()}
    for algorithm, options in zip(choice.tiers, composition.options, strict=True):
        if algorithm in known and algorithm not in {option.name for option in options}:
            return False
    return True


def _leading(several: Compositions, sizes: Sequence[Number]) -> list[AtSizes]:
    """The fastest choices of a composition at any of the sizes, those that may lead first, then the
    textbook one.

    Each under every protocol, and in every way in which the user's library runs it.
    """
    found: list[AtSizes] = []
    for composition in several:
        for size in sizes:
            found += composition.fastest_selectable(size)
    for composition in several:
        for size in sizes:
            found += composition.fastest_of_any_status(size)
    found += [(composition.usual(), True) for composition in several]
    distinct: dict[Choice, AtSizes] = {}
    for cost_model, at in found:
        if cost_model.choice in distinct:
            at = at | distinct[cost_model.choice][1]
        distinct[cost_model.choice] = (cost_model, at)
    if len(several) == 1:
        return list(distinct.values())
    under_each: list[AtSizes] = []
    for choice, (_, at) in distinct.items():
        under_each += [(cost_model, at) for cost_model in _chosen(several, choice.tiers)]
    return under_each


def _chosen(several: Compositions, tiers: Sequence[str]) -> list[CostModel]:
    """A composition with these algorithms under each protocol that can run them."""
    found = []
    refused = []
    for composition in several:
        try:
            found.append(composition.named(tiers))
        except ColltoolError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found
