"""Composed schedules: the algorithms that each phase may choose, and the choices worth showing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import NamedTuple

from colltool.algorithms.choice import Choice
from colltool.algorithms.composed import Composition, Step, compositions, natural_order
from colltool.algorithms.group import Group
from colltool.algorithms.registry import STATUSES, Algorithm, Status, algorithms, find, leads, row_of
from colltool.errors import ColltoolError, given
from colltool.pricing.costed import Costed, Part
from colltool.pricing.distances import Reach
from colltool.pricing.groups import Placed, tier_group
from colltool.pricing.parts import own_part, parts_of, share_notes
from colltool.pricing.readings import Phases, Readings
from colltool.primitives import AG, Primitive

MOST_COMBINATIONS = 20_000


class _Laid(NamedTuple):
    """A step of a composition, by its number, with the group that runs it."""

    number: int
    step: Step
    group: Group
    reach: Reach


@dataclass(frozen=True, eq=False)
class Option:
    """One choice for a tier: the parts of every phase that runs there, by phase, and a schedule of these alone."""

    name: str
    parts: dict[int, tuple[Part, ...]]
    own: Costed
    status: Status
    notes: tuple[str, ...]


Options = tuple[Option, ...]


@dataclass(frozen=True, eq=False)
class Workbench:
    """A composition laid out on a group: its steps, and each tier's options in registry order."""

    row: Composition
    placed: Placed
    laid: tuple[_Laid, ...]
    options: tuple[Options, ...]
    readings: Readings
    phases: Phases
    variant: tuple[str, ...]
    made: dict[tuple[str, ...], Costed] = field(default_factory=dict, repr=False)

    def costed(self, chosen: Options) -> Costed:
        """The schedule of one choice per tier, innermost first; made once."""
        names = tuple(option.name for option in chosen)
        return self.made.get(names) or self.made.setdefault(names, self._costed(names, chosen))

    def _costed(self, names: tuple[str, ...], chosen: Options) -> Costed:
        parts: dict[int, tuple[Part, ...]] = {}
        for option in chosen:
            parts |= option.parts
        status = max((option.status for option in chosen), key=STATUSES.index)
        return Costed(
            primitive=self.row.primitive,
            ranks=self.placed.ranks,
            choice=Choice(self.row.name, names),
            variant=self.variant,
            parts=tuple(part for index in sorted(parts) for part in parts[index])
            + own_part(self.placed, self.row.primitive, self.row.name),
            overhead_s=self.placed.overhead_s,
            phases=self.phases,
            composed=True,
            status=status,
            shipped_by=self.row.shipped_by if leads(status) else (),
            notes=tuple(dict.fromkeys(note for option in chosen for note in option.notes)),
            readings=self.readings,
            protocol=self.placed.protocol,
        )

    def usual(self) -> Costed:
        """The textbook choice: a ring on every tier, or what stands for it there."""
        return self.costed(tuple(self._usual_of(options) for options in self.options))

    def _usual_of(self, options: Options) -> Option:
        ranked = [option for name in self.row.usual for option in options if option.name == name]
        return ranked[0] if ranked else options[0]

    def fastest(self, size: float) -> Costed:
        """The fastest choice at one size of the best status that the composition can have: one that leads, if there is any."""
        return self._fastest(self._best, size)

    def fastest_of_any(self, size: float) -> Costed:
        """The fastest choice at one size, references and what no hardware does included."""
        return self._fastest(self.options, size)

    @cached_property
    def _best(self) -> tuple[Options, ...]:
        """Each tier's options that leave the whole its best status."""
        ranks = [[STATUSES.index(option.status) for option in options] for options in self.options]
        best = max(map(min, ranks))
        return tuple(tuple(option for option in own if STATUSES.index(option.status) <= best) for own in self.options)

    def _fastest(self, options: Sequence[Options], size: float) -> Costed:
        """Phases in turn are independent; streamed ones need every combination."""
        if self.phases == "sequential":
            return self.costed(tuple(min(own, key=lambda option: option.own.seconds(size)) for own in options))
        return min(self._combinations(options), key=lambda costed: costed.seconds(size))

    def _combinations(self, options: Sequence[Options]) -> list[Costed]:
        count = prod(map(len, options))
        if count > MOST_COMBINATIONS:
            what = f"{count} combinations of algorithms over {len(options)} tiers are too many to stream through"
            fix = f"take {given('phases', 'sequential')}, or fix one with {given('algorithms')}"
            raise ColltoolError(what, argument="phases", fix=fix)
        return [self.costed(chosen) for chosen in product(*options)]

    def named(self, names: Sequence[str]) -> Costed:
        """The schedule of one algorithm per spanned tier, innermost first.

        Raises:
            ColltoolError: another number of names than tiers, an unknown name, or one that cannot run there.
        """
        tiers = [span.tier.name for span in self.placed.spans]
        if len(names) != len(tiers):
            what = (
                f"'{Choice(self.row.name, tuple(names)).spec}' names {len(names)} algorithms, the group spans {len(tiers)} tiers"
            )
            raise ColltoolError(what, argument="algorithms", fix=f"give one for each of {', '.join(tiers)}, innermost first")
        chosen = []
        for tier, name, options in zip(range(len(tiers)), names, self.options, strict=True):
            by_name = {option.name: option for option in options}
            if name not in by_name:
                raise self._cannot(tier, name, tiers[tier], list(by_name))
            chosen.append(by_name[name])
        return self.costed(tuple(chosen))

    def _cannot(self, tier: int, name: str, tier_name: str, feasible: list[str]) -> ColltoolError:
        mine = [one for one in self.laid if one.step.tier == tier]
        row = find(mine[0].step.primitive, name)
        reasons = (_why_not(row, one) for one in mine)
        what = f"{name} cannot run on {tier_name}: {next(filter(None, reasons))}"
        return ColltoolError(what, argument="algorithms", fix=f"can run there: {', '.join(feasible)}")


def workbenches(
    placed: Placed, primitive: Primitive, readings: Readings, *, only: str | None = None, listed: bool = False
) -> list[Workbench]:
    """Every composition of a primitive on a group over several tiers, streamed readings beside sequential where asked.

    ``listed``: where an inner tier lists what its library runs, only that in its phases.
    """
    benches = []
    for row in compositions(primitive):
        if only is not None and row.name != only:
            continue
        wanted: list[Phases] = [row.phases if readings.phases == "auto" else readings.phases]
        if readings.phases == "pipelined" and row.phases == "sequential":
            wanted = ["sequential", "pipelined"]
        benches += [bench for phases in wanted if (bench := _workbench(placed, row, readings, phases, listed)) is not None]
    return benches


def why_not_composed(placed: Placed) -> str:
    """The reason why a composition has no price here."""
    if len(placed.spans) == 1:
        return f"needs a group over several tiers; {placed.ranks} ranks lie inside {placed.spans[0].tier.name}"
    return "a tier has no algorithm for its phase"


def _workbench(placed: Placed, row: Composition, readings: Readings, phases: Phases, listed: bool) -> Workbench | None:
    if len(placed.spans) < 2:
        return None
    natural = natural_order(row.primitive)
    order = (natural or "inner-first") if readings.order == "auto" else readings.order
    laid = _laid(placed, row.steps(placed.sizes, order), readings)
    options = []
    for tier in range(len(placed.spans)):
        mine = [one for one in laid if one.step.tier == tier]
        only = _runs(placed, row.primitive, mine[0].step) if listed else None
        options.append(tuple(_options(mine, readings, only, placed)))
    if not all(options):
        return None
    unusual = (phases if phases != row.phases else "", order if natural is not None and order != natural else "")
    return Workbench(
        row=row,
        placed=placed,
        laid=laid,
        options=tuple(options),
        readings=readings,
        phases=phases,
        variant=tuple(filter(None, unusual)),
    )


def _laid(placed: Placed, steps: Sequence[Step], readings: Readings) -> tuple[_Laid, ...]:
    return tuple(
        _Laid(index, step, *tier_group(placed.spans[step.tier], readings, scale_out=step.tier > 0, leaders=step.leaders))
        for index, step in enumerate(steps)
    )


def _runs(placed: Placed, primitive: Primitive, first: Step) -> frozenset[str] | None:
    """What the library runs in the phases of an inner tier: its lists for the phase and for the whole call; None: anything.

    The outermost tier's list is of whole calls.
    """
    lists = placed.spans[first.tier].tier.algorithms or {}
    if first.tier == len(placed.spans) - 1 or not {first.primitive, primitive} & set(lists):
        return None
    return frozenset((*lists.get(first.primitive, ()), *lists.get(primitive, ())))


def _options(laid: Sequence[_Laid], readings: Readings, only: frozenset[str] | None, placed: Placed) -> Iterator[Option]:
    """Every algorithm that serves all phases of one tier; an all-gather takes the mirror image of its reduce-scatter."""
    for row in algorithms(laid[0].step.primitive):
        serving = [(one, _counterpart(row, one.step.primitive)) for one in laid]
        if (only and row.name not in only) or any(_why_not(row, one) for one in laid):
            continue
        parts: dict[int, tuple[Part, ...]] = {}
        notes: list[str] = []
        statuses: list[Status] = []
        for one, partner in serving:
            assert partner is not None  # or it had no way back
            parts[one.number] = parts_of(partner, one.group, one.reach, readings, one.step.payload)
            notes += partner.notes_on(one.group) + share_notes(parts[one.number])
            statuses.append(partner.status_on(one.group))
        status = max(statuses, key=STATUSES.index)
        yield Option(row.name, parts, _alone(placed, parts, readings), status, tuple(notes))


def _why_not(row: Algorithm, laid: _Laid) -> str | None:
    """Why an algorithm, or its counterpart on the way back, cannot serve a phase."""
    partner = _counterpart(row, laid.step.primitive)
    return partner.why_not(laid.group) if partner else f"{row.name} has no way back"


def _counterpart(row: Algorithm, primitive: Primitive) -> Algorithm | None:
    """The algorithm that serves another phase: itself, the mirror of a reduce-scatter, the broadcast of a reduce."""
    if primitive is row.primitive:
        return row
    return row_of(primitive, row.mirror if primitive is AG else row.name)


def _alone(placed: Placed, parts: dict[int, tuple[Part, ...]], readings: Readings) -> Costed:
    """What one tier's phases take by themselves."""
    every = tuple(part for chunk in parts.values() for part in chunk)
    return Costed(
        primitive=every[0].primitive,
        ranks=placed.ranks,
        choice=Choice(""),
        variant=(),
        parts=every,
        overhead_s=0.0,
        phases="sequential",
        composed=True,
        status="reference",
        shipped_by=(),
        notes=(),
        readings=readings,
    )
