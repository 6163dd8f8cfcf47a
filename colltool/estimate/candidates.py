"""What can run for a primitive on a group, under every protocol, and why the rest cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from colltool.algorithms.composed import compositions
from colltool.algorithms.libraries import Running
from colltool.algorithms.registry import (
    Algorithm,
    Choice,
    algorithms,
    every_algorithm,
    find,
    on_request,
    parse_choice,
)
from colltool.base.errors import ColltoolError, given, said
from colltool.base.primitives import Number, Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, flat_group, library_runs, place, running_on
from colltool.estimate.hierarchical import (
    AtSizes,
    HierarchicalCandidates,
    hierarchical_candidates,
    why_not_composed,
)
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.phase_costs import cost_flat
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import under_protocols
from colltool.estimate.results import Infeasible
from colltool.fabric.model import Fabric
from colltool.network.group import Group

Benches = list[HierarchicalCandidates]
"""One composition under each protocol."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """The schedules of a primitive on a group, independent of size."""

    placed: PlacedGroup
    primitive: Primitive
    readings: Readings
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
        return [one for one, _ in self.shown((), sizes)]

    def named(self, names: Iterable[str], sizes: Sequence[Number] = ()) -> list[CostModel]:
        """Exactly these algorithms; a composition without choices as in :meth:`all`."""
        return [one for one, _ in self._shown(names, sizes)]

    def shown(self, names: Sequence[str], sizes: Sequence[Number]) -> list[AtSizes]:
        """As :meth:`named`, or :meth:`all` without names, each with a mask of the sizes at which a
        single price lists it."""
        if names:
            return self._shown(names, sizes)
        if self.runs:
            found = self._shown(self._feasible, sizes)
        else:
            composed = (one for benches in self._listed for one in _leading(benches, sizes))
            found = [*((one, True) for one in self._flat), *composed]
        if not found:
            listed = (
                f": the fabric's algorithms list only {', '.join(self.runs)}" if self.runs else ""
            )
            raise ColltoolError(
                f"no algorithm for {self.primitive.spoken} runs on"
                f" {self.placed.fabric.name}{listed}"
            )
        return found

    def _shown(self, names: Iterable[str], sizes: Sequence[Number]) -> list[AtSizes]:
        found = [pair for name in names for pair in self._named(parse_choice(name), sizes)]
        for index, (one, at) in enumerate(found):
            if one.not_selected_reason and {one.choice.spec, one.choice.base} & set(self.runs):
                found[index] = (replace(one, not_selected_reason=None), at)
        return found

    def benches(self, names: Collection[str] = ()) -> list[HierarchicalCandidates]:
        """The compositions whose algorithms per tier are free to choose: those named, or run by the
        library."""
        free = names or self.runs  # a name with choices is no free one
        found = self._unlisted if free else self._listed
        return [
            bench for benches in found for bench in benches if not free or bench.row.name in free
        ]

    def infeasible(self, priced: Collection[str]) -> tuple[Infeasible, ...]:
        """Every algorithm and composition not ``priced``, with the reason, in registry order."""
        listing = [span.tier.name for span in self.placed.spans if span.tier.runs(self.primitive)]
        asked = said(f"{given('algorithms')} prices it anyway")
        listed = (
            f"not among the algorithms that {listing[-1]} lists for {self.primitive.spoken};"
            f" {asked}"
            if listing
            else ""
        )
        why = [
            (name, reason or listed) for name, reason in self._reasons.items() if name not in priced
        ]
        return tuple(Infeasible(name, said(reason)) for name, reason in why if reason)

    @cached_property
    def _reasons(self) -> dict[str, str | None]:
        reasons = {row.name: self._why_not(row) for row in algorithms(self.primitive)}
        bases = {parse_choice(name).base for name in self.runs}
        composed = compositions(self.primitive)
        tried = (
            row.name
            for row in composed
            if len(self.placed.spans) == 1 or not self.runs or row.name in bases
        )
        return (
            reasons
            | {row.name: None for row in composed}
            | dict.fromkeys(tried, why_not_composed(self.placed))
        )

    @cached_property
    def _groups(self) -> list[tuple[PlacedGroup, Group, PathClasses]]:
        return [
            (under, *flat_group(under, self.readings))
            for under in under_protocols(self.placed, self.primitive)
        ]

    def _why_not(self, row: Algorithm) -> str | None:
        """The reason under the last protocol; None if it runs under any."""
        reasons = [row.why_not(group) for _, group, _ in self._groups]
        return None if None in reasons else reasons[-1]

    @cached_property
    def _flat(self) -> list[CostModel]:
        """Every flat schedule, but for a tier that lists algorithms none of other libraries."""
        listed = {name for span in self.placed.spans for name in span.tier.runs(self.primitive)}
        libraries = {
            library
            for row in algorithms(self.primitive)
            if row.name in listed
            for library in row.shipped_by
        }
        rows = [
            row
            for row in algorithms(self.primitive)
            if not libraries or row.name in listed or libraries & set(row.shipped_by)
        ]
        return [one for under in self._groups for row in rows for one in self._on(row, under)]

    def _on(self, row: Algorithm, under: tuple[PlacedGroup, Group, PathClasses]) -> list[CostModel]:
        placed, group, reach = under
        return (
            [cost_flat(row, group, reach, self.readings, placed)]
            if row.why_not(group) is None
            else []
        )

    @cached_property
    def _listed(self) -> list[Benches]:
        return self._laid_out(listed=True)

    @cached_property
    def _unlisted(self) -> list[Benches]:
        return self._laid_out(listed=False)

    def _laid_out(self, *, listed: bool) -> list[Benches]:
        found: dict[tuple[str, str], Benches] = {}
        for under, _, _ in self._groups:
            for bench in hierarchical_candidates(
                under, self.primitive, self.readings, listed=listed
            ):
                found.setdefault((bench.row.name, bench.phases), []).append(bench)
        return list(found.values())

    @property
    def _feasible(self) -> list[str]:
        """Those of the library's algorithms that can run on this group."""
        rows = [
            *algorithms(self.primitive),
            *(row for row in on_request() if row.primitive is self.primitive),
        ]
        flat = {row.name: bool(row.counts) for row in rows if self._why_not(row) is None}
        benches = [bench for several in self._unlisted for bench in several]

        def can_run(choice: Choice) -> bool:
            if choice.base in flat and (flat[choice.base] or not choice.tiers):
                return True
            return any(
                bench.row.name == choice.base and _offers(bench, choice) for bench in benches
            )

        return [name for name in self.runs if can_run(parse_choice(name))]

    def _named(self, choice: Choice, sizes: Sequence[Number]) -> list[AtSizes]:
        if choice in self.flat_by_name:
            return self.flat_by_name[choice]
        composed = [row.name for row in compositions(self.primitive)]
        if choice.base in composed:
            layouts = [benches for benches in self._unlisted if benches[0].row.name == choice.base]
            if not layouts:
                raise CannotRun(choice.base, why_not_composed(self.placed))
            if not choice.tiers:
                return [one for benches in layouts for one in _leading(benches, sizes)]
            return [(one, True) for benches in layouts for one in _chosen(benches, choice.tiers)]
        row = find(self.primitive, choice.base, composed)
        groups = [(placed, row.on(group, choice), reach) for placed, group, reach in self._groups]
        found: list[AtSizes] = [(one, True) for under in groups for one in self._on(row, under)]
        if not found:
            raise CannotRun(choice.base, self._why_not(row) or "")
        self.flat_by_name[choice] = found
        return found


class CannotRun(ColltoolError):
    def __init__(self, name: str, reason: str) -> None:
        self.reason = reason
        fix = f"price without {given('algorithms')} lists all"
        super().__init__(f"{name} cannot run here: {reason}", argument="algorithms", fix=fix)


def on_layers(fabric: Fabric, readings: Readings) -> Fabric:
    """The fabric with the layers that a reading asks for: ideal is wires alone, datasheet wires and
    contention."""
    if readings.ideal:
        return fabric.on_wires()
    return fabric.on_datasheet() if readings.numbers == "datasheet" else fabric


def candidates_for(
    fabric: Fabric, group: AnyGroup, primitive: Primitive, readings: Readings
) -> Candidates:
    placed = place(on_layers(fabric, readings), group)
    return placed.once(
        ("candidates", primitive, readings), lambda: Candidates(placed, primitive, readings)
    )


def named_candidates(
    placed: PlacedGroup, primitive: Primitive, readings: Readings, names: Sequence[str]
) -> list[CostModel]:
    """As :meth:`Candidates.named`, on a group already placed."""
    return Candidates(placed, primitive, readings).named(names)


def by_title(candidates: Iterable[CostModel]) -> dict[str, list[CostModel]]:
    grouped: dict[str, list[CostModel]] = {}
    for one in candidates:
        grouped.setdefault(one.title, []).append(one)
    return grouped


def _offers(bench: HierarchicalCandidates, choice: Choice) -> bool:
    """Whether each tier can run its part; unknown names pass, and are refused when priced."""
    known = {row.name for row in every_algorithm()}
    offered = [{option.name for option in options} for options in bench.options]
    if len(choice.tiers) != len(offered):
        return not choice.tiers
    return all(
        name in own or name not in known for name, own in zip(choice.tiers, offered, strict=True)
    )


def _leading(benches: Benches, sizes: Sequence[Number]) -> list[AtSizes]:
    """The fastest choices of a composition at any of the sizes, those that may lead first, then the
    textbook one.

    Each under every protocol, and in every way in which the user's library runs it.
    """
    found = [one for bench in benches for size in sizes for one in bench.leading_shown(size)]
    found += [one for bench in benches for size in sizes for one in bench.any_shown(size)]
    found += [(bench.usual(), True) for bench in benches]
    distinct: dict[Choice, AtSizes] = {}
    for one, at in found:
        before = distinct.get(one.choice)
        distinct[one.choice] = (one, at if before is None else at | before[1])
    if len(benches) == 1:
        return list(distinct.values())
    return [
        (one, at) for choice, (_, at) in distinct.items() for one in _chosen(benches, choice.tiers)
    ]


def _chosen(benches: Benches, tiers: Sequence[str]) -> list[CostModel]:
    found, refused = [], []
    for bench in benches:
        try:
            found.append(bench.named(tiers))
        except ColltoolError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found
