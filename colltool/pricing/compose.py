"""Composed schedules: the algorithms that each phase may choose, and the choices worth showing."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from colltool.algorithms.composed import Composition, Step, compositions, natural_order
from colltool.algorithms.registry import Algorithm, Group, Status, algorithms, find
from colltool.errors import ColltoolError
from colltool.pricing.costed import Costed, Part, own_part, parts_of, row_notes, row_status, share_notes
from colltool.pricing.distances import Reach
from colltool.pricing.groups import Placed, tier_group
from colltool.pricing.readings import Phases, Readings
from colltool.primitives import AG, Primitive

MOST_COMBINATIONS = 20_000
_STATUSES: tuple[Status, ...] = ("shipped", "reference", "hypothetical")


class Option(NamedTuple):
    """One choice for a tier: the parts of every phase that runs there, by phase, and the cost of these alone."""

    name: str
    parts: dict[int, tuple[Part, ...]]
    own: Costed
    status: Status
    notes: tuple[str, ...]


class Workbench(NamedTuple):
    """A composition laid out on a group: its steps, and each tier's options in registry order."""

    row: Composition
    placed: Placed
    steps: tuple[Step, ...]
    options: tuple[tuple[Option, ...], ...]
    readings: Readings
    phases: Phases
    label: str

    def costed(self, chosen: tuple[Option, ...]) -> Costed:
        """The schedule of one choice per tier, innermost first."""
        parts: dict[int, tuple[Part, ...]] = {}
        for option in chosen:
            parts |= option.parts
        status = max((option.status for option in chosen), key=_STATUSES.index)
        notes = tuple(dict.fromkeys(note for option in chosen for note in option.notes))
        detail = " / ".join(option.name for option in chosen) + self.label
        kept = own_part(self.placed, self.row.primitive, self.row.name)
        return Costed(
            self.row.primitive,
            self.placed.ranks,
            self.row.name,
            detail,
            tuple(part for index in sorted(parts) for part in parts[index]) + kept,
            self.placed.overhead_s,
            self.phases,
            True,
            status,
            self.row.shipped_by if status == "shipped" else (),
            notes,
            self.placed.protocol,
        )

    def usual(self) -> Costed:
        """The textbook choice: a ring on every tier, or what stands for it there."""
        return self.costed(tuple(self._usual_of(options) for options in self.options))

    def _usual_of(self, options: tuple[Option, ...]) -> Option:
        ranked = [option for name in self.row.usual for option in options if option.name == name]
        return ranked[0] if ranked else options[0]

    def fastest(self, size: float) -> Costed:
        """The fastest choice at one size. Phases in turn are independent; streamed ones need every combination."""
        if self.phases == "sequential":
            best = tuple(min(options, key=lambda option: option.own.seconds(size, self.readings)) for options in self.options)
            return self.costed(best)
        candidates = [self.costed(chosen) for chosen in self._combinations()]
        return min(candidates, key=lambda costed: costed.seconds(size, self.readings))

    def _combinations(self) -> Iterator[tuple[Option, ...]]:
        count = 1
        for options in self.options:
            count *= len(options)
        if count > MOST_COMBINATIONS:
            what = f"{count} combinations of algorithms over {len(self.options)} tiers are too many to stream through"
            raise ColltoolError(what, where="--phases", fix="take --phases sequential, or fix one with --algorithm")
        return product(*self.options)

    def named(self, choice: str) -> Costed:
        """The schedule of ``ring/ring``: one name per spanned tier, innermost first.

        Raises:
            ColltoolError: another number of names than tiers, an unknown name, or one that cannot run there.
        """
        names = choice.split("/")
        tiers = [span.tier.name for span in self.placed.spans]
        if len(names) != len(tiers):
            what = f"'{self.row.name}:{choice}' names {len(names)} algorithms, the group spans {len(tiers)} tiers"
            raise ColltoolError(what, where="--algorithm", fix=f"give one for each of {', '.join(tiers)}, innermost first")
        chosen = []
        for tier, name, options in zip(range(len(tiers)), names, self.options, strict=True):
            by_name = {option.name: option for option in options}
            if name not in by_name:
                raise self._cannot(tier, name, tiers[tier], list(by_name))
            chosen.append(by_name[name])
        return self.costed(tuple(chosen))

    def _cannot(self, tier: int, name: str, tier_name: str, feasible: list[str]) -> ColltoolError:
        steps = [step for step in self.steps if step.tier == tier]
        row = find(steps[0].primitive, name)
        reasons = (_why_not(self.placed, row, step, self.readings) for step in steps)
        what = f"{name} cannot run on {tier_name}: {next(filter(None, reasons))}"
        return ColltoolError(what, where="--algorithm", fix=f"can run there: {', '.join(feasible)}")


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
        wanted: list[Phases] = [readings.phases or row.phases]
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
    order = readings.order or natural or "inner-first"
    steps = row.steps(placed.sizes, order)
    runs = [_runs(placed, row.primitive, steps, tier) if listed else None for tier in range(len(placed.spans))]
    options = tuple(tuple(_options(placed, steps, tier, readings, only)) for tier, only in enumerate(runs))
    if not all(options):
        return None
    label = ", pipelined" if phases == "pipelined" and row.phases == "sequential" else ""
    label += ", sequential" if phases == "sequential" and row.phases == "pipelined" else ""
    label += f", {order}" if natural is not None and order != natural else ""
    return Workbench(row, placed, steps, options, readings, phases, label)


def _runs(placed: Placed, primitive: Primitive, steps: tuple[Step, ...], tier: int) -> frozenset[str] | None:
    """What the library runs in the phases of an inner tier: its lists for the phase and for the whole call; None: anything.

    The outermost tier's list is of whole calls.
    """
    lists = placed.spans[tier].tier.algorithms or {}
    first = next(step.primitive for step in steps if step.tier == tier)
    if tier == len(placed.spans) - 1 or not {first, primitive} & set(lists):
        return None
    return frozenset((*lists.get(first, ()), *lists.get(primitive, ())))


def _options(
    placed: Placed, steps: tuple[Step, ...], tier: int, readings: Readings, only: frozenset[str] | None
) -> Iterator[Option]:
    """Every algorithm that serves all phases of one tier; an all-gather takes the mirror image of its reduce-scatter."""
    mine = [(index, step) for index, step in enumerate(steps) if step.tier == tier]
    first = mine[0][1]
    for row in algorithms(first.primitive):
        if (only and row.name not in only) or any(_why_not(placed, row, step, readings) for _, step in mine):
            continue
        parts: dict[int, tuple[Part, ...]] = {}
        notes: list[str] = []
        for index, step in mine:
            partner = _counterpart(row, step.primitive) or row
            group, reach = _step_group(placed, step, readings)
            parts[index] = parts_of(partner, group, reach, readings, step.payload)
            notes += row_notes(partner, group) + share_notes(parts[index])
        yield Option(row.name, parts, _alone(placed, parts), row_status(row, group), tuple(notes))


def _why_not(placed: Placed, row: Algorithm, step: Step, readings: Readings) -> str | None:
    """Why an algorithm, or its counterpart on the way back, cannot serve a phase."""
    partner = _counterpart(row, step.primitive)
    return partner.why_not(_step_group(placed, step, readings)[0]) if partner else f"{row.name} has no way back"


def _counterpart(row: Algorithm, primitive: Primitive) -> Algorithm | None:
    """The algorithm that serves another phase: itself, the mirror of a reduce-scatter, the broadcast of a reduce."""
    if primitive is row.primitive:
        return row
    wanted = row.mirror if primitive is AG else row.name
    return next((other for other in algorithms(primitive) if other.name == wanted), None)


def _step_group(placed: Placed, step: Step, readings: Readings) -> tuple[Group, Reach]:
    return tier_group(placed.spans[step.tier], readings, scale_out=step.tier > 0, leaders=step.leaders)


def _alone(placed: Placed, parts: dict[int, tuple[Part, ...]]) -> Costed:
    every = tuple(part for chunk in parts.values() for part in chunk)
    return Costed(every[0].primitive, placed.ranks, "", "", every, 0.0, "sequential", True, "reference", (), ())
