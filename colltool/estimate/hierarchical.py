"""Lays compositions out on a group: the steps of each, and the algorithms that may run on each tier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colltool.algorithms.composed import Composition, TierPhase, compositions, natural_order
from colltool.algorithms.registry import STATUSES, Status, algorithms
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import Phases, Readings
from colltool.estimate.cost_model import CostModel, CostTerm
from colltool.estimate.group_spec import spoken
from colltool.estimate.groups import PlacedGroup, tier_group
from colltool.estimate.hierarchical_candidates import HierarchicalCandidates, PlacedStep, TierOption, counterpart, why_not
from colltool.estimate.phase_costs import parts_of, share_notes, switch_notes


def hierarchical_candidates(
    placed: PlacedGroup, primitive: Primitive, readings: Readings, *, only: str | None = None, listed: bool = False
) -> list[HierarchicalCandidates]:
    """Every composition of a primitive on a group over several tiers; asked for ``pipelined``, sequential ones come both ways.

    ``listed``: if an inner tier lists what its library runs, its phases run only that.
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


def why_not_composed(placed: PlacedGroup) -> str:
    if len(placed.spans) == 1:
        tier, where = placed.spans[0].tier.name, spoken(placed.ranks, placed.placement.stride)
        lie = f", lie on {tier} alone" if placed.one_a_node else f"{',' * (placed.placement.stride > 1)} lie inside {tier}"
        return f"needs a group over several tiers; {where}{lie}"
    return "a tier has no algorithm for its phase"


def _workbench(
    placed: PlacedGroup, row: Composition, readings: Readings, phases: Phases, listed: bool
) -> HierarchicalCandidates | None:
    if len(placed.spans) < 2:
        return None
    natural = natural_order(row.primitive)
    order = (natural or "inner-first") if readings.order == "auto" else readings.order
    laid = []
    for index, step in enumerate(row.steps(placed.sizes, order)):
        outside = step.tier > 0 or placed.one_a_node
        group, reach = tier_group(placed.spans[step.tier], readings, scale_out=outside, leaders=step.leaders)
        # a bandwidth that switches have for a whole collective is none of its phases'
        laid.append(PlacedStep(index, step, group, reach if step.primitive is row.primitive else reach.in_a_phase))
    options = []
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
    """What the library runs in an inner tier's phases; None: anything. The outermost tier's list is of whole calls."""
    lists = placed.spans[first.tier].tier.algorithms or {}
    if first.tier == len(placed.spans) - 1 or not {first.primitive, primitive} & set(lists):
        return None
    return frozenset((*lists.get(first.primitive, ()), *lists.get(primitive, ())))


def _options(
    laid: Sequence[PlacedStep], readings: Readings, only: frozenset[str] | None, placed: PlacedGroup
) -> Iterator[TierOption]:
    """Every algorithm that can run all phases of a tier; an all-gather mirrors its reduce-scatter."""
    for row in algorithms(laid[0].step.primitive):
        serving = [(one, counterpart(row, one.step.primitive)) for one in laid]
        if (only and row.name not in only) or any(why_not(row, one) for one in laid):
            continue
        parts: dict[int, tuple[CostTerm, ...]] = {}
        notes: list[str] = []
        statuses: list[Status] = []
        for one, partner in serving:
            assert partner is not None  # or it had no way back
            own = parts[one.number] = parts_of(partner, one.group, one.reach, readings, one.step.payload)
            notes += partner.notes_on(one.group) + share_notes(own) + switch_notes(one.reach, own)
            statuses.append(partner.status_on(one.group))
        every = tuple(part for chunk in parts.values() for part in chunk)
        alone = CostModel(every[0].primitive, placed.ranks, every, readings, composed=True)
        status = max(statuses, key=STATUSES.index)
        yield TierOption(row.name, parts, own=alone, status=status, shipped_by=row.shipped_by, notes=tuple(notes))
