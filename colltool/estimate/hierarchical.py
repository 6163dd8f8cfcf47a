"""Compositions on a group: what each tier may run, the choices worth showing, and those that a
library runs.

A composition runs phases on the tiers in turn, such as a reduce-scatter inside, an all-reduce across
and an all-gather inside. :func:`hierarchical_candidates` makes a :class:`TierCompositions` of each;
it holds the :class:`TierOption` of every tier and combines one of each into a schedule
(:meth:`TierCompositions.cost_model`).

Words: an *option* is an algorithm that can run all phases of one tier; a *choice* has one option per
tier, innermost first; a *way* is a library's own composition, with the options that it may have on each
tier. Of a way (:class:`~colltool.algorithms.libraries.ShippedAs`) are read its ``library``; ``inner`` and
``outer``, the algorithms that it may have on all tiers but the outermost, and on that; whether it
``streams`` chunks through all phases, whatever the composition's own are; and the features it ``needs``.

*Phases* are the steps of a composition (:class:`PlacedStep`), and as an option of the model whether these
run one after the other (``sequential``) or stream (``pipelined``); ``auto`` leaves that to the composition
and the libraries that run it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, product
from math import prod
from operator import attrgetter, contains
from typing import Any, NamedTuple

from colltool.algorithms.composed import NATURAL_ORDER, Composition, Order, TierPhase, compositions
from colltool.algorithms.libraries import Feature, NotRun, Running, ShippedAs, ships
from colltool.algorithms.mixed_sizes import OUTER_ALGORITHMS, SAME_SIZE_COMPOSITIONS
from colltool.algorithms.registry import (
    STATUSES,
    Algorithm,
    Choice,
    Status,
    algorithms,
    find,
    row_of,
    selectable,
)
from colltool.base.arrays import winners
from colltool.base.errors import ColltoolError, argument_text, clipped
from colltool.base.primitives import AG, AR, RS, Number, Primitive
from colltool.estimate.assumptions import ModelOptions, Phases
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import PlacedGroup, tier_group
from colltool.estimate.library_names import library_name
from colltool.estimate.machine_factor import machine_factor
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.phase_costs import (
    own_part,
    parts_of,
    plane_notes,
    share_notes,
    switch_notes,
    with_efficiency,
)
from colltool.estimate.placement import spoken
from colltool.estimate.route_cache import route_cache
from colltool.estimate.running import running_on
from colltool.fabric.uneven import domains_text
from colltool.network.group import Group

# The most combinations of algorithms that are priced for one streamed composition.
MOST_COMBINATIONS = 20_000
_BETWEEN_UNLIKE = (
    "as between domains of one size, with a share for each rank of the smallest: nobody has"
    " measured it there"
)
_IN_CALLS = "no library runs it as one call: each phase is a call of its own"


class PlacedStep(NamedTuple):
    """A phase on its tier.

    Args:
        number: its place in the order of the phases, from 0.
        phase: its primitive, the index of its tier (innermost 0) and its payload in units of M.
        group, paths: of the phase: the endpoints of its tier.
        paths_alone: the same for a call of the tier's own, with bandwidths that switches have for
            whole collectives.
    """

    number: int
    phase: TierPhase
    group: Group
    paths: PathClasses
    paths_alone: PathClasses


@dataclass(frozen=True, eq=False)
class TierOption:
    """An algorithm for one tier. Its cost is computed on demand: of the many that can run, most calls
    take one.

    Args:
        algorithm: its form for the first phase of the tier.
        phases: its form for each phase of the tier, such as a reduce-scatter and its mirror.
        placed: the whole group.
    """

    algorithm: Algorithm
    phases: tuple[tuple[PlacedStep, Algorithm], ...]
    placed: PlacedGroup
    readings: ModelOptions

    @cached_property
    def name(self) -> str:
        return self.algorithm.name

    @cached_property
    def parts(self) -> dict[int, tuple[CostTerm, ...]]:
        """Cost terms by the number of the phase."""
        return {
            step.number: parts_of(
                algorithm, step.group, step.paths, self.readings, step.phase.payload
            )
            for step, algorithm in self.phases
        }

    @cached_property
    def streamed(self) -> dict[int, tuple[CostTerm, ...]]:
        """Cost terms where a library streams.

        A switch then reduces one chunk while it multicasts another: a port sends and receives at
        once, so that a reduce-scatter and its all-gather cost one all-reduce.
        """
        steps = [step for step, _ in self.phases]
        all_reduce = row_of(AR, self.name) if self.name == "in-network" else None
        if all_reduce is None or [step.phase.primitive for step in steps] != [RS, AG]:
            return self.parts
        reduce_scatter, all_gather = steps
        if all_reduce.why_not(reduce_scatter.group):
            return self.parts
        terms = parts_of(
            all_reduce,
            reduce_scatter.group,
            reduce_scatter.paths_alone,
            self.readings,
            reduce_scatter.phase.payload,
        )
        return {reduce_scatter.number: terms, all_gather.number: ()}

    @cached_property
    def on_tier(self) -> CostModel:
        """The tier's phases by themselves, whose seconds are compared with those of the tier's other
        options."""
        terms = tuple(chain.from_iterable(self.parts.values()))
        return CostModel(
            terms[0].primitive,
            self.placed.ranks,
            terms,
            self.readings,
            Choice(self.name),
            composed=True,
        )

    @cached_property
    def status(self) -> Status:
        """The worst status of its phases; :data:`STATUSES` has the best first."""
        return max(
            [algorithm.status_on(step.group) for step, algorithm in self.phases],
            key=STATUSES.index,
        )

    @cached_property
    def status_index(self) -> int:
        """Index of its status in :data:`STATUSES`: 0 is the best."""
        return STATUSES.index(self.status)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader of its price should know, phase by phase."""
        notes: list[str] = []
        for step, algorithm in self.phases:
            terms = self.parts[step.number]
            notes += algorithm.notes_on(step.group)
            notes += share_notes(terms)
            notes += plane_notes(step.paths)
            notes += switch_notes(step.paths, terms)
        return tuple(notes)


TierOptions = tuple[TierOption, ...]
"""The options of a tier, or one option of each tier, innermost first."""
AtSizes = tuple[CostModel, Any]
"""A schedule, and the sizes it is shown at: a mask, or True for all (or a single) of them."""


@dataclass(frozen=True, eq=False)
class TierCompositions:
    """A composition on a group, under one protocol.

    Args:
        steps: its phases in their order.
        options: of each tier, innermost first, in registry order.
        phases: how they follow each other, unless a library streams the choice.
        order: of the tiers; empty if it is the primitive's own.
        cost_by_names: cache of :meth:`cost_model`, by the algorithms of the tiers.
        streams: cache of the choices that a library streams, by the identity of the options.
    """

    definition: Composition
    placed: PlacedGroup
    steps: tuple[PlacedStep, ...]
    options: tuple[TierOptions, ...]
    readings: ModelOptions
    phases: Phases
    order: str
    cost_by_names: dict[tuple[str, ...], CostModel] = field(default_factory=dict, repr=False)
    streams: dict[int, tuple[CostModel, ...]] = field(default_factory=dict, repr=False)

    def cost_model(self, chosen: TierOptions) -> CostModel:
        """The schedule of one option per tier, innermost first, such as (ring, double-binary-tree);
        cached."""
        names = tuple([option.name for option in chosen])
        if names not in self.cost_by_names:
            cost_model = replace(
                self._cost_of_choice(names, chosen),
                below=partial(self._below, names),
                machine=machine_factor(self.placed, self.definition.primitive, self.readings),
            )
            self.cost_by_names[names] = with_efficiency(cost_model, self.placed)
        return self.cost_by_names[names]

    def _below(self, names: tuple[str, ...]) -> tuple[CostModel, CostModel]:
        """The same choices on wires alone, and with their contention: layers 1 and 2 of the
        price."""
        # worked out when it is shown, after the price
        with route_cache(self.placed.fabric):
            wires = self._on_bare(names, self.readings._replace(ideal=True))
            return wires, self._on_bare(names, self.readings)

    def _on_bare(self, names: tuple[str, ...], readings: ModelOptions) -> CostModel:
        """The cost of the same choice before any protocol, without local copies."""
        # the group before its tiers took the numbers of a protocol
        origin = self.placed.origin or self.placed
        primitive = self.definition.primitive
        # kept with the group, as all choices of the composition are asked for in turn
        composition = origin.once(
            ("bare composition", self.definition.name, primitive, self.phases, readings),
            lambda: _composition_on_group(origin, self.definition, readings, self.phases),
        )
        # what runs under a protocol runs on the wires
        assert composition is not None
        chosen = map(_option_called, names, composition.options)
        return composition._cost_of_choice(names, tuple(chosen), copies=False)

    def _cost_of_choice(
        self, names: tuple[str, ...], chosen: TierOptions, *, copies: bool = True
    ) -> CostModel:
        """The cost of a choice of options, one a tier; streamed if a library that ships the choice
        streams it. Neither the layers below nor the machine's factor are in it, and local copies only
        with ``copies``."""
        placed = self.placed
        primitive = self.definition.primitive
        # tier by tier the algorithm is one that the way may have there
        shipped = [
            way for way, allowed in self._shipped_as.items() if all(map(contains, allowed, names))
        ]
        streaming_way = next((way for way in shipped if way.streams), None)
        # a title names the phases only where they are not the usual ones of this choice
        phases: Phases = self.phases
        usual_phases: Phases = self.definition.phases
        if streaming_way is not None:
            usual_phases = "pipelined"
            if self.readings.phases == "auto":
                phases = "pipelined"
        # the worst of its tiers
        status = max(chosen, key=attrgetter("status_index")).status
        runs = selectable(status)
        libraries = chain.from_iterable([way.by for way in shipped])
        shipped_by = tuple(dict.fromkeys(libraries)) if runs else ()
        choice = Choice(self.definition.name, names)
        unusual_phases = "" if phases == usual_phases else phases
        streams = streaming_way is not None and phases == "pipelined"
        return CostModel(
            primitive=primitive,
            ranks=placed.ranks,
            choice=choice,
            variant=tuple([word for word in (unusual_phases, self.order) if word]),
            parts=(
                *_terms_of_choice(chosen, streamed=streams),
                *(own_part(placed, primitive, self.definition.name) if copies else ()),
            ),
            overhead_s=placed.overhead_s,
            phases=phases,
            composed=True,
            status=status,
            shipped_by=shipped_by,
            notes=self._notes(chosen, streaming_way, in_calls=runs and not shipped),
            readings=self.readings,
            protocol=placed.protocol,
            not_selected_reason=self._not_selected(shipped),
            library_name=library_name(placed, primitive, choice.spec, shipped_by),
            cut_bound=cut_bound_of(placed, primitive, self.readings),
        )

    def _notes(
        self, chosen: TierOptions, streaming_way: ShippedAs | None, *, in_calls: bool
    ) -> tuple[str, ...]:
        """What a reader of the price should know. ``streaming_way``: the way in which a library
        streams it; ``in_calls``: its phases run, but no library has all of them in one call."""
        notes = []
        if streaming_way is not None and self.readings.phases == "auto":
            # ``by``: who ships it, with their name for it
            notes.append(f"phases stream through all tiers at once, as in {streaming_way.by[0]}")
        if self.placed.domains:
            notes.append(_BETWEEN_UNLIKE)
        for option in chosen:
            notes += option.notes
        if in_calls and self._running is None:
            notes.append(_IN_CALLS)
        return tuple(dict.fromkeys(notes))

    @cached_property
    def _running(self) -> Running | None:
        """The user's library; None if any may run."""
        return running_on(self.placed.fabric)

    @cached_property
    def _shipped_as(self) -> dict[ShippedAs, list[frozenset[str]]]:
        """The ways in which libraries run the composition, each with the names of the options that
        it may have on every tier, innermost first."""
        has_lattice = any(step.group.axes for step in self.steps)
        *inner, outer = self.options
        allowed_by_way = {}
        for way in self.definition.shipped_as:
            # ``lattices``: it also runs where a tier is one
            if way.lattices or not has_lattice:
                allowed = [_names_allowed(way, options, way.inner) for options in inner]
                allowed_by_way[way] = [*allowed, _names_allowed(way, outer, way.outer)]
        return allowed_by_way

    def _not_selected(self, shipped: Sequence[ShippedAs]) -> NotRun | None:
        """Why the user's library does not run a choice that is shipped in these ways: the first of
        several reasons. None if it does, or if any library may run."""
        running = self._running
        if running is None:
            return None
        reasons = [
            self._why_not_run(way, running) for way in shipped if way.library == running.name
        ]
        if None in reasons:
            return None
        return reasons[0] if reasons else NotRun("no_composition", running.name)

    def _why_not_run(self, way: ShippedAs, running: Running) -> NotRun | None:
        """Why a library does not run, on this group, a composition that it ships; None if it
        does."""
        needs: tuple[Feature, ...] = way.needs
        joined_by_middle_tiers = {span.kind.joins for span in self.placed.spans[1:-1]}
        # NVLS ends at the node: switches further out reduce by CollNet
        if "in-network" in way.inner and "hosts" in joined_by_middle_tiers:
            needs = (*needs, "collnet")
        return running.without(needs) or way.why_not_inside(self.placed.sizes[0])

    def fastest_selectable(self, size: Number) -> Iterator[AtSizes]:
        """The fastest choice of the best status available, one for each way in which the user's
        library runs the composition; for an array of sizes, all that are fastest somewhere, and
        where."""
        for tiers in self._ways:
            yield from self._fastest_of(tiers, size)

    def fastest_of_any_status(self, size: Number) -> list[AtSizes]:
        """Like :meth:`fastest_selectable`, but of any status, including references and hypothetical
        ones."""
        return self._fastest_of(self.options, size)

    @cached_property
    def _ways(self) -> list[tuple[TierOptions, ...]]:
        """The options per tier, once for each way in which the user's library runs the composition.
        Where it runs it in none, or the user has no library, once: those of the best status that every
        tier can have."""
        tiers_by_way = []
        running = self._running
        for way in self._shipped_as if running else ():
            if running is None or way.library != running.name or self._why_not_run(way, running):
                continue
            tiers = []
            for options in self._options_of_way(way, self.options):
                tiers.append(tuple([option for option in options if selectable(option.status)]))
            # a tier without options (an empty tuple) leaves no choice
            if all(tiers):
                tiers_by_way.append(tuple(tiers))
        if tiers_by_way:
            return tiers_by_way
        # the best status that every tier can have is the worst (highest index) of their best
        best_of_all = max(
            min(option.status_index for option in options) for options in self.options
        )
        return [tuple(_options_up_to(best_of_all, options) for options in self.options)]

    def _options_of_way(self, way: ShippedAs, options: Sequence[TierOptions]) -> list[TierOptions]:
        """The options that are part of a library's composition, tier by tier."""
        fitting = []
        for tier, allowed in zip(options, self._shipped_as[way], strict=True):
            fitting.append(tuple([option for option in tier if option.name in allowed]))
        return fitting

    def usual(self) -> CostModel:
        """The textbook choice: a ring on every tier, or what replaces it there."""
        chosen = []
        for options in self.options:
            by_name = {option.name: option for option in options}
            usual = [by_name[name] for name in self.definition.usual if name in by_name]
            # where none of them can run, whatever can
            chosen.append((usual or options)[0])
        return self.cost_model(tuple(chosen))

    def fastest(self, size: float) -> CostModel:
        """The fastest choice at one size, of those of :meth:`fastest_selectable`."""
        choices = [cost_model for cost_model, _ in self.fastest_selectable(size)]
        return min(choices, key=lambda cost_model: cost_model.seconds(size))

    def _fastest_of(self, options: Sequence[TierOptions], size: Number) -> list[AtSizes]:
        """The fastest choice of these options per tier at a size, or all that are at some size of an
        array. Sequential phases are minimised tier by tier; pipelined ones over all
        combinations."""
        if self.phases == "pipelined":
            # streamed phases overlap: the fastest of each tier need not be the fastest together
            _check_combinations(options)
            choices = [self.cost_model(chosen) for chosen in product(*options)]
        else:
            fastest = [_fastest_options(tier, size) for tier in options]
            choices = [self.cost_model(chosen) for chosen in product(*fastest)]
            choices += self._streaming(options)
        return winners(choices, lambda cost_model: cost_model.seconds(size))

    def _streaming(self, options: Sequence[TierOptions]) -> tuple[CostModel, ...]:
        """Choices that a library streams although the rest is sequential; cached by the identity of
        ``options``, which is :attr:`options` or one of :attr:`_ways` and so lives as long as
        this."""
        if self.readings.phases != "auto":
            return ()
        if id(options) not in self.streams:
            choices: list[CostModel] = []
            for way in self._shipped_as:
                if way.streams:
                    choices += map(self.cost_model, product(*self._options_of_way(way, options)))
            self.streams[id(options)] = tuple(choices)
        return self.streams[id(options)]

    def named(self, names: Sequence[str]) -> CostModel:
        """The schedule of one named algorithm per spanned tier, innermost first.

        Raises:
            ColltoolError: the names are not one a tier, or one cannot run on its tier.
        """
        tiers = [span.tier.name for span in self.placed.spans]
        spec = Choice(self.definition.name, tuple(names)).spec
        if len(names) != len(tiers):
            raise ColltoolError(
                f"'{clipped(spec)}' names {len(names)} algorithms, the group spans"
                f" {len(tiers)} tiers",
                argument="algorithms",
                fix=f"give one for each of {', '.join(tiers)}, innermost first",
            )
        if self.placed.domains:
            self._check_modelled_as(spec)
        chosen = []
        for number, (name, options) in enumerate(zip(names, self.options, strict=True)):
            by_name = {option.name: option for option in options}
            if name not in by_name:
                raise ColltoolError(
                    f"{name} cannot run on {tiers[number]}: {self._why_not(name, number)}",
                    argument="algorithms",
                    fix=f"can run there: {', '.join(by_name)}",
                )
            chosen.append(by_name[name])
        return self.cost_model(tuple(chosen))

    def _check_modelled_as(self, spec: str) -> None:
        """Refuse what a flat algorithm models between domains that differ in size."""
        for ours, modelled_as in SAME_SIZE_COMPOSITIONS.items():
            if modelled_as == spec:
                raise ColltoolError(
                    f"between domains of {domains_text(self.placed.domains)} ranks {spec} is {ours}",
                    argument="algorithms",
                    fix=f"write {argument_text('algorithms', ours)}",
                )

    def _why_not(self, name: str, tier: int) -> str:
        """Why an algorithm cannot run the phases of a tier (its index), of which it is no option; empty
        if no phase has a reason."""
        steps = [step for step in self.steps if step.phase.tier == tier]
        row = find(steps[0].phase.primitive, name)
        for step in steps:
            reason = _why_not_in_phase(row, counterpart(row, step.phase.primitive), step.group)
            if reason:
                return reason
        return ""


def _options_up_to(status_index: int, options: TierOptions) -> TierOptions:
    """The options of a status no worse than that of this index in :data:`STATUSES`."""
    return tuple([option for option in options if option.status_index <= status_index])


def _fastest_options(options: TierOptions, size: Number) -> list[TierOption]:
    """The options of a tier that are the fastest at some size, each for the tier alone."""
    return [option for option, _ in winners(options, lambda option: option.on_tier.seconds(size))]


def _option_called(name: str, options: TierOptions) -> TierOption:
    """The option of a tier by the name of its algorithm, which it must have."""
    return next(option for option in options if option.name == name)


def _terms_of_choice(chosen: TierOptions, *, streamed: bool) -> list[CostTerm]:
    """The cost terms of one option per tier, in the order of the phases."""
    parts: dict[int, tuple[CostTerm, ...]] = {}
    for option in chosen:
        parts |= option.streamed if streamed else option.parts
    return list(chain.from_iterable([parts[number] for number in sorted(parts)]))


def _check_combinations(options: Sequence[TierOptions]) -> None:
    """Refuse to price more than MOST_COMBINATIONS choices."""
    count = prod(map(len, options))
    if count > MOST_COMBINATIONS:
        raise ColltoolError(
            f"{count} combinations of algorithms over {len(options)} tiers are too many to stream"
            " through",
            argument="phases",
            fix=f"take {argument_text('phases', 'sequential')}, or fix one with {argument_text('algorithms')}",
        )


def counterpart(algorithm: Algorithm, primitive: Primitive) -> Algorithm | None:
    """The form of an algorithm for another phase of its tier: itself, a reduce-scatter's mirror as
    all-gather, else the algorithm of the same name, such as the broadcast of a reduce. None if it has
    none."""
    if primitive is algorithm.primitive:
        return algorithm
    return row_of(primitive, algorithm.mirror if primitive is AG else algorithm.name)


def _why_not_in_phase(algorithm: Algorithm, partner: Algorithm | None, group: Group) -> str | None:
    """Why an algorithm's counterpart cannot run a phase on a group; None if it can."""
    if group.domains and algorithm.name not in OUTER_ALGORITHMS:
        return _why_not_between_unlike(group.domains)
    if partner is None:
        return f"{algorithm.name} has no way back"
    return partner.why_not(group)


def _names_allowed(way: ShippedAs, options: TierOptions, names: frozenset[str]) -> frozenset[str]:
    """The options of a tier that a library's composition may have: those it names, or all that the
    library ships."""
    if names:
        return names
    return frozenset(
        option.name for option in options if ships(way.library, option.algorithm.shipped_by)
    )


def hierarchical_candidates(
    placed: PlacedGroup, primitive: Primitive, readings: ModelOptions, *, as_listed: bool = False
) -> list[TierCompositions]:
    """Every composition of a primitive that can run on a group over several tiers, in registry order;
    with phases ``pipelined``, sequential ones come both ways.

    ``as_listed``: if an inner tier lists what its library runs, its phases run only that.
    """
    candidates: list[TierCompositions] = []
    if len(placed.spans) == 1:
        return candidates
    for row in compositions(primitive):
        # the only one that is modelled between domains that differ in size
        if placed.domains and (row.primitive, row.name) != (AR, "hierarchical"):
            continue
        phases_tried: list[Phases] = [row.phases if readings.phases == "auto" else readings.phases]
        if readings.phases == "pipelined" and row.phases == "sequential":
            phases_tried = ["sequential", "pipelined"]
        for phases in phases_tried:
            composition = _composition_on_group(placed, row, readings, phases, as_listed=as_listed)
            if composition is not None:
                candidates.append(composition)
    return candidates


def why_not_composed(placed: PlacedGroup) -> str:
    """Why a composition does not run on a group on which it is known not to."""
    if len(placed.spans) == 1:
        tier = placed.spans[0].tier.name
        stride = placed.placement.stride
        ranks = spoken(placed.ranks, stride)
        if placed.one_a_node:
            return f"needs a group over several tiers; {ranks}, lie on {tier} alone"
        comma = "," if stride > 1 else ""
        return f"needs a group over several tiers; {ranks}{comma} lie inside {tier}"
    if placed.domains:
        return _why_not_between_unlike(placed.domains)
    return "a tier has no algorithm for its phase"


def _why_not_between_unlike(domains: Sequence[int]) -> str:
    """The reason between domains that differ in size."""
    return (
        f"not modelled between domains of {domains_text(domains)} ranks, whose shards do not match"
        " across"
    )


def _composition_on_group(
    placed: PlacedGroup,
    composition: Composition,
    readings: ModelOptions,
    phases: Phases,
    *,
    as_listed: bool = False,
) -> TierCompositions | None:
    """A composition on a group. None if a tier has no algorithm for its phases."""
    natural = NATURAL_ORDER.get(composition.primitive)
    order = (natural or "inner-first") if readings.order == "auto" else readings.order
    # kept of all options, listed or not, so that an option's cost is worked out once
    steps, options_of_all = placed.once(
        ("tier options", composition.primitive, composition.name, readings, order),
        lambda: _steps_and_options(placed, composition, readings, order),
    )
    options = []
    for tier, tier_options in enumerate(options_of_all):
        if as_listed:
            first_phase = next(step.phase for step in steps if step.phase.tier == tier)
            listed = _names_listed(placed, composition.primitive, first_phase)
            tier_options = tuple(
                [option for option in tier_options if not listed or option.name in listed]
            )
        options.append(tier_options)
    if not all(options):
        return None
    return TierCompositions(
        definition=composition,
        placed=placed,
        steps=steps,
        options=tuple(options),
        readings=readings,
        phases=phases,
        order="" if natural in (None, order) else order,
    )


def _steps_and_options(
    placed: PlacedGroup, composition: Composition, readings: ModelOptions, order: Order
) -> tuple[tuple[PlacedStep, ...], list[TierOptions]]:
    """The phases of a composition, and of each tier every algorithm that can run its phases."""
    steps = tuple(_placed_steps(placed, composition, readings, order))
    options = []
    for tier in range(len(placed.spans)):
        steps_on_tier = [step for step in steps if step.phase.tier == tier]
        options.append(_tier_options(steps_on_tier, readings, placed))
    return steps, options


def _placed_steps(
    placed: PlacedGroup, composition: Composition, readings: ModelOptions, order: Order
) -> Iterator[PlacedStep]:
    """The steps of a composition, each with its group and paths on its tier."""
    sizes = placed.sizes
    # of domains that differ only as many ranks as the smallest has own a shard
    if placed.domains:
        sizes = (min(placed.domains), *sizes[1:])
    for number, phase in enumerate(composition.steps(sizes, order)):
        group, paths = tier_group(
            placed.spans[phase.tier],
            readings,
            scale_out=phase.tier > 0 or placed.one_a_node,
            leaders=phase.leaders,
        )
        # a bandwidth that switches have for a whole collective is none of its phases'
        in_phase = paths if phase.primitive is composition.primitive else paths.in_a_phase
        yield PlacedStep(
            number,
            phase,
            group=group._replace(domains=placed.domains),
            paths=in_phase,
            paths_alone=paths,
        )


def _names_listed(
    placed: PlacedGroup, primitive: Primitive, phase: TierPhase
) -> frozenset[str] | None:
    """Names of the algorithms that the library runs in the phases of the tier of ``phase``; None:
    anything."""
    # the outermost tier's list is of whole calls
    if phase.tier == len(placed.spans) - 1:
        return None
    tier = placed.spans[phase.tier].tier
    return frozenset((*tier.runs(phase.primitive), *tier.runs(primitive))) or None


def _tier_options(
    steps: Sequence[PlacedStep], readings: ModelOptions, placed: PlacedGroup
) -> TierOptions:
    """Every algorithm that can run all phases of a tier, given its steps, in registry order."""
    options = []
    for algorithm in algorithms(steps[0].phase.primitive):
        phases: list[tuple[PlacedStep, Algorithm]] = []
        for step in steps:
            primitive = step.phase.primitive
            partner = counterpart(algorithm, primitive)
            if partner is None or step.group.topology not in partner.topologies:
                break
            if _why_not_in_phase(algorithm, partner, step.group):
                break
            phases.append((step, partner))
        else:
            options.append(TierOption(algorithm, tuple(phases), placed, readings))
    return tuple(options)
