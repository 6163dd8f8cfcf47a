"""Compositions laid out on a group: what each tier may run, the choices worth showing, and those
that a library runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

from colltool.algorithms.composed import NATURAL_ORDER, Composition, TierPhase, compositions
from colltool.algorithms.libraries import Feature, NotRun, Running, ShippedAs, ships
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
from colltool.algorithms.uneven import IN_SWITCHES, STANDS_FOR
from colltool.base.arrays import winning
from colltool.base.errors import ColltoolError, clipped, given
from colltool.base.primitives import AG, AR, RS, Number, Primitive
from colltool.estimate.assumptions import Phases, Readings
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.cut_bound import cut_bound_of
from colltool.estimate.groups import PlacedGroup, machine_factor, running_on, tier_group
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
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import domains_text
from colltool.network.group import Group

MOST_COMBINATIONS = 20_000
_BETWEEN_UNLIKE = (
    "as between domains of one size, with a share for each rank of the smallest: nobody has"
    " measured it there"
)
_IN_CALLS = "no library runs it as one call: each phase is a call of its own"


class PlacedStep(NamedTuple):
    """A phase on its tier; ``alone``: what a call of the tier's own meets, with bandwidths that
    hold for whole collectives."""

    number: int
    step: TierPhase
    group: Group
    reach: PathClasses
    alone: PathClasses


@dataclass(frozen=True, eq=False)
class TierOption:
    """An algorithm for one tier, costed when asked: of the many that can run, most calls take one.

    ``phases``: its own form of each phase of the tier, such as a reduce-scatter and its mirror.
    """

    row: Algorithm
    phases: tuple[tuple[PlacedStep, Algorithm], ...]
    placed: PlacedGroup
    readings: Readings

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def shipped_by(self) -> tuple[str, ...]:
        return self.row.shipped_by

    @cached_property
    def parts(self) -> dict[int, tuple[CostTerm, ...]]:
        """Cost terms by the number of the phase."""
        return {
            one.number: parts_of(row, one.group, one.reach, self.readings, one.step.payload)
            for one, row in self.phases
        }

    @cached_property
    def streamed(self) -> dict[int, tuple[CostTerm, ...]]:
        """Cost terms where a library streams.

        A switch then reduces one chunk while it multicasts another: a port sends and receives at
        once, one all-reduce.
        """
        whole = row_of(AR, self.name) if self.name == "in-network" else None
        steps = [one for one, _ in self.phases]
        if (
            not whole
            or [one.step.primitive for one in steps] != [RS, AG]
            or whole.why_not(steps[0].group)
        ):
            return self.parts
        there, back = steps
        return {
            there.number: parts_of(
                whole, there.group, there.alone, self.readings, there.step.payload
            ),
            back.number: (),
        }

    @cached_property
    def own(self) -> CostModel:
        """The tier's phases as a schedule alone."""
        every = tuple(part for chunk in self.parts.values() for part in chunk)
        return CostModel(
            every[0].primitive,
            self.placed.ranks,
            every,
            self.readings,
            Choice(self.name),
            composed=True,
        )

    @cached_property
    def status(self) -> Status:
        return max((row.status_on(one.group) for one, row in self.phases), key=STATUSES.index)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        found: list[str] = []
        for one, row in self.phases:
            own = self.parts[one.number]
            found += (
                row.notes_on(one.group)
                + share_notes(own)
                + plane_notes(one.reach)
                + switch_notes(one.reach, own)
            )
        return tuple(found)


TierOptions = tuple[TierOption, ...]
AtSizes = tuple[CostModel, Any]
"""A schedule, and a mask of the sizes it is shown at (True: all, or a single size)."""


@dataclass(frozen=True, eq=False)
class HierarchicalCandidates:
    """A composition laid out on a group: its steps, and each tier's options in registry order.

    ``phases`` holds unless a library streams the choice; ``order`` is empty if it is the
    primitive's own.
    """

    row: Composition
    placed: PlacedGroup
    steps: tuple[PlacedStep, ...]
    options: tuple[TierOptions, ...]
    readings: Readings
    phases: Phases
    order: str
    made: dict[tuple[str, ...], CostModel] = field(default_factory=dict, repr=False)
    streams: dict[int, tuple[CostModel, ...]] = field(default_factory=dict, repr=False)

    def costed(self, chosen: TierOptions) -> CostModel:
        """The schedule of one option per tier, innermost first; cached."""
        names = tuple(option.name for option in chosen)
        if names not in self.made:
            machine = machine_factor(self.placed, self.row.primitive, self.readings)
            costed = replace(
                self._costed(names, chosen), below=partial(self._below, names), machine=machine
            )
            self.made[names] = with_efficiency(costed, self.placed)
        return self.made[names]

    def _below(self, names: tuple[str, ...]) -> tuple[CostModel, CostModel]:
        """The same choices on wires alone, and with their contention: layers 1 and 2 of the
        price."""
        wires = self._on_bare(names, self.readings._replace(ideal=True))
        return wires, self._on_bare(names, self.readings)

    def _on_bare(self, names: tuple[str, ...], readings: Readings) -> CostModel:
        bare, order = self.placed.bare or self.placed, self.order or "auto"
        key = ("bare composition", self.row.name, self.row.primitive, self.phases, order, readings)
        bench = bare.once(
            key, lambda: _laid_out(bare, self.row, readings, self.phases, listed=False)
        )
        assert bench is not None  # what runs under a protocol runs on the wires
        by_name = [{option.name: option for option in options} for options in bench.options]
        return bench._costed(
            names, tuple(own[name] for own, name in zip(by_name, names, strict=True)), copies=False
        )

    def _costed(
        self, names: tuple[str, ...], chosen: TierOptions, *, copies: bool = True
    ) -> CostModel:
        placed, primitive = self.placed, self.row.primitive
        status = max((option.status for option in chosen), key=STATUSES.index)
        known = [
            one for one in self._shipped_as if all(_fitting(one, [(option,) for option in chosen]))
        ]
        streamed = next((one for one in known if one.streams), None)
        streams = streamed is not None and self.readings.phases == "auto"
        phases: Phases = "pipelined" if streams else self.phases
        both_ways = streamed is not None and phases == "pipelined"
        terms = [option.streamed if both_ways else option.parts for option in chosen]
        parts = {number: own for one in terms for number, own in one.items()}
        usual = self.row.phases if streamed is None else "pipelined"
        kept = own_part(placed, primitive, self.row.name) if copies else ()
        notes = (
            [f"phases stream through all tiers at once, as in {streamed.by[0]}"]
            if streamed and streams
            else []
        )
        notes += [_BETWEEN_UNLIKE] if placed.domains else []
        notes += [note for option in chosen for note in option.notes]
        notes += [_IN_CALLS] if selectable(status) and not known and self._running is None else []
        return CostModel(
            primitive=primitive,
            ranks=placed.ranks,
            choice=Choice(self.row.name, names),
            variant=tuple(filter(None, (phases if phases != usual else "", self.order))),
            parts=(*(part for index in sorted(parts) for part in parts[index]), *kept),
            overhead_s=placed.overhead_s,
            phases=phases,
            composed=True,
            status=status,
            shipped_by=(
                tuple(dict.fromkeys(name for one in known for name in one.by))
                if selectable(status)
                else ()
            ),
            notes=tuple(dict.fromkeys(notes)),
            readings=self.readings,
            protocol=placed.protocol,
            not_selected_reason=self._not_selected(known),
            cut_bound=cut_bound_of(placed, primitive, self.readings),
        )

    @cached_property
    def _running(self) -> Running | None:
        return running_on(self.placed.fabric)

    @cached_property
    def _shipped_as(self) -> tuple[ShippedAs, ...]:
        lattice = any(one.group.axes for one in self.steps)
        return tuple(one for one in self.row.shipped_as if one.lattices or not lattice)

    def _not_selected(self, known: Sequence[ShippedAs]) -> NotRun | None:
        running = self._running
        if running is None:
            return None
        reasons = [self._off(one, running) for one in known if one.library == running.name]
        return None if None in reasons else [*reasons, NotRun("no_composition", running.name)][0]

    def _off(self, one: ShippedAs, running: Running) -> NotRun | None:
        """Why a library does not run, on this group, a composition that it ships."""
        between = any(
            capabilities_of(span.tier).joins == "hosts" for span in self.placed.spans[1:-1]
        )
        # NVLS ends at the node
        needs: tuple[Feature, ...] = ("collnet",) if between and "in-network" in one.inner else ()
        return running.without((*one.needs, *needs)) or one.why_not_inside(self.placed.sizes[0])

    def leading_shown(self, size: Number) -> list[AtSizes]:
        """The fastest choice of the best status available; for an array, all that are fastest
        somewhere, and where.

        One for each way in which the user's library runs the composition, if there is one.
        """
        return [one for tiers in self._ways for one in self._winning(tiers, size)]

    def any_shown(self, size: Number) -> list[AtSizes]:
        """As :meth:`leading_shown`, but of any status, including references and hypothetical
        ones."""
        return self._winning(self.options, size)

    @cached_property
    def _ways(self) -> list[tuple[TierOptions, ...]]:
        running, found = self._running, []
        for one in self._shipped_as if running else ():
            if running and one.library == running.name and not self._off(one, running):
                tiers = tuple(
                    tuple(o for o in own if selectable(o.status))
                    for own in _fitting(one, self.options)
                )
                found += [tiers] * all(tiers)
        best = max(min(STATUSES.index(option.status) for option in own) for own in self.options)
        return found or [
            tuple(tuple(o for o in own if STATUSES.index(o.status) <= best) for own in self.options)
        ]

    def usual(self) -> CostModel:
        """The textbook choice: a ring on every tier, or what replaces it there."""
        ranked = (
            [option for name in self.row.usual for option in own if option.name == name]
            for own in self.options
        )
        return self.costed(
            tuple((first or own)[0] for first, own in zip(ranked, self.options, strict=True))
        )

    def fastest(self, size: float) -> CostModel:
        return min(
            (one for one, _ in self.leading_shown(size)), key=lambda costed: costed.seconds(size)
        )

    def _winning(self, options: Sequence[TierOptions], size: Number) -> list[AtSizes]:
        """Sequential phases are minimised tier by tier; pipelined ones over all combinations."""
        if self.phases == "pipelined":
            count = prod(map(len, options))
            if count > MOST_COMBINATIONS:
                what = (
                    f"{count} combinations of algorithms over {len(options)} tiers are too many to"
                    " stream through"
                )
                fix = f"take {given('phases', 'sequential')}, or fix one with {given('algorithms')}"
                raise ColltoolError(what, argument="phases", fix=fix)
            found = [self.costed(chosen) for chosen in product(*options)]
        else:
            each = (
                [one for one, _ in winning(own, lambda option: option.own.seconds(size))]
                for own in options
            )
            found = [*(self.costed(chosen) for chosen in product(*each)), *self._streaming(options)]
        return winning(found, lambda costed: costed.seconds(size))

    def _streaming(self, options: Sequence[TierOptions]) -> tuple[CostModel, ...]:
        """Choices that a library streams although the rest is sequential; cached by the identity of
        ``options``."""
        if id(options) not in self.streams:
            rules = (
                [one for one in self._shipped_as if one.streams]
                if self.readings.phases == "auto"
                else []
            )
            self.streams[id(options)] = tuple(
                self.costed(c) for one in rules for c in product(*_fitting(one, options))
            )
        return self.streams[id(options)]

    def named(self, names: Sequence[str]) -> CostModel:
        """The schedule of one named algorithm per spanned tier, innermost first."""
        tiers = [span.tier.name for span in self.placed.spans]
        if len(names) != len(tiers):
            typed = clipped(Choice(self.row.name, tuple(names)).spec)
            what = f"'{typed}' names {len(names)} algorithms, the group spans {len(tiers)} tiers"
            raise ColltoolError(
                what,
                argument="algorithms",
                fix=f"give one for each of {', '.join(tiers)}, innermost first",
            )
        spec = Choice(self.row.name, tuple(names)).spec
        if self.placed.domains and (
            own := next((one for one, theirs in STANDS_FOR.items() if theirs == spec), "")
        ):
            what = f"between domains of {domains_text(self.placed.domains)} ranks {spec} is {own}"
            raise ColltoolError(
                what, argument="algorithms", fix=f"write {given('algorithms', own)}"
            )
        chosen = []
        for tier, (name, options) in enumerate(zip(names, self.options, strict=True)):
            by_name = {option.name: option for option in options}
            if name not in by_name:
                mine = [one for one in self.steps if one.step.tier == tier]
                row = find(mine[0].step.primitive, name)
                what = (
                    f"{name} cannot run on {tiers[tier]}:"
                    f" {next(filter(None, (_why_not(row, one) for one in mine)))}"
                )
                raise ColltoolError(
                    what, argument="algorithms", fix=f"can run there: {', '.join(by_name)}"
                )
            chosen.append(by_name[name])
        return self.costed(tuple(chosen))


def counterpart(row: Algorithm, primitive: Primitive) -> Algorithm | None:
    """The algorithm for another phase: itself, a reduce-scatter's mirror, or the broadcast of a
    reduce."""
    if primitive is row.primitive:
        return row
    return row_of(primitive, row.mirror if primitive is AG else row.name)


def _why_not(row: Algorithm, laid: PlacedStep) -> str | None:
    """Why an algorithm, or its counterpart on the way back, cannot run a phase."""
    if laid.group.domains and row.name not in IN_SWITCHES:
        return _unlike(laid.group.domains)
    partner = counterpart(row, laid.step.primitive)
    return partner.why_not(laid.group) if partner else f"{row.name} has no way back"


def _fitting(one: ShippedAs, options: Sequence[TierOptions]) -> list[TierOptions]:
    """The options that are part of a library's composition, tier by tier."""

    def has(option: TierOption, names: frozenset[str]) -> bool:
        return option.name in names if names else ships(one.library, option.shipped_by)

    *inner, outer = options
    wanted = [*((own, one.inner) for own in inner), (outer, one.outer)]
    return [tuple(option for option in own if has(option, names)) for own, names in wanted]


def hierarchical_candidates(
    placed: PlacedGroup, primitive: Primitive, readings: Readings, *, listed: bool = False
) -> list[HierarchicalCandidates]:
    """Every composition of a primitive on a group over several tiers; asked for ``pipelined``,
    sequential ones come both ways.

    ``listed``: if an inner tier lists what its library runs, its phases run only that.
    """
    benches = []
    for row in compositions(primitive) if len(placed.spans) > 1 else ():
        if placed.domains and (row.primitive, row.name) != (AR, "hierarchical"):
            continue
        wanted: list[Phases] = [row.phases if readings.phases == "auto" else readings.phases]
        if readings.phases == "pipelined" and row.phases == "sequential":
            wanted = ["sequential", "pipelined"]
        benches += [
            bench
            for phases in wanted
            if (bench := _laid_out(placed, row, readings, phases, listed)) is not None
        ]
    return benches


def why_not_composed(placed: PlacedGroup) -> str:
    if len(placed.spans) == 1:
        tier, where = placed.spans[0].tier.name, spoken(placed.ranks, placed.placement.stride)
        lie = (
            f", lie on {tier} alone"
            if placed.one_a_node
            else f"{',' * (placed.placement.stride > 1)} lie inside {tier}"
        )
        return f"needs a group over several tiers; {where}{lie}"
    if placed.domains:
        return _unlike(placed.domains)
    return "a tier has no algorithm for its phase"


def _unlike(domains: Sequence[int]) -> str:
    return (
        f"not modelled between domains of {domains_text(domains)} ranks, whose shards do not match"
        " across"
    )


def _laid_out(
    placed: PlacedGroup, row: Composition, readings: Readings, phases: Phases, listed: bool
) -> HierarchicalCandidates | None:
    natural = NATURAL_ORDER.get(row.primitive)
    order = (natural or "inner-first") if readings.order == "auto" else readings.order
    laid = []
    # ranks that have a share of their own
    kept = (min(placed.domains), *placed.sizes[1:]) if placed.domains else placed.sizes
    for index, step in enumerate(row.steps(kept, order)):
        outside = step.tier > 0 or placed.one_a_node
        group, reach = tier_group(
            placed.spans[step.tier], readings, scale_out=outside, leaders=step.leaders
        )
        group = group._replace(domains=placed.domains)
        # a bandwidth that switches have for a whole collective is none of its phases'
        laid.append(
            PlacedStep(
                index,
                step,
                group,
                reach if step.primitive is row.primitive else reach.in_a_phase,
                reach,
            )
        )
    options: list[TierOptions] = []
    for tier in range(len(placed.spans)):
        mine = [one for one in laid if one.step.tier == tier]
        only = _runs(placed, row.primitive, mine[0].step) if listed else None
        options.append(tuple(_options(mine, readings, only, placed)))
    if not all(options):
        return None
    return HierarchicalCandidates(
        row=row,
        placed=placed,
        steps=tuple(laid),
        options=tuple(options),
        readings=readings,
        phases=phases,
        order=order if natural is not None and order != natural else "",
    )


def _runs(placed: PlacedGroup, primitive: Primitive, first: TierPhase) -> frozenset[str] | None:
    """What the library runs in an inner tier's phases; None: anything. The outermost tier's list is
    of whole calls."""
    tier = placed.spans[first.tier].tier
    listed = frozenset((*tier.runs(first.primitive), *tier.runs(primitive)))
    return None if first.tier == len(placed.spans) - 1 or not listed else listed


def _options(
    laid: Sequence[PlacedStep], readings: Readings, only: frozenset[str] | None, placed: PlacedGroup
) -> Iterator[TierOption]:
    """Every algorithm that can run all phases of a tier; an all-gather mirrors its
    reduce-scatter."""
    for row in algorithms(laid[0].step.primitive):
        if (only and row.name not in only) or any(_why_not(row, one) for one in laid):
            continue
        phases: list[tuple[PlacedStep, Algorithm]] = []
        for one in laid:
            partner = counterpart(row, one.step.primitive)
            assert partner is not None  # or it had no way back
            phases.append((one, partner))
        yield TierOption(row, tuple(phases), placed, readings)
