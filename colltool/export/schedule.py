"""A shipped algorithm's messages on a group, ready to be written as a file."""

from __future__ import annotations

from colltool.algorithms.composed import compositions
from colltool.algorithms.registry import Choice, find, parse_choice
from colltool.base.errors import ColltoolError, given
from colltool.base.primitives import Primitive
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import PlacedGroup, flat_group, place
from colltool.estimate.hierarchical import hierarchical_candidates
from colltool.estimate.placement import AnyGroup
from colltool.fabric.model import Fabric
from colltool.schedules.own import MOST_MOVES, OwnSchedule, own_from_program, promise_of
from colltool.schedules.program import Program, effort, maker
from colltool.verification.executed import on_tiers

_LISTED = "colltool verify lists what is executed"
SEGMENTS = 4  # of a pipelined algorithm, unless asked otherwise


def shipped_schedule(
    fabric: Fabric, group: AnyGroup, primitive: Primitive, algorithm: str, segments: int | None = None
) -> OwnSchedule:
    """The schedule that ``verify`` executes; ColltoolError where there is none, or it is none among ranks."""
    placed, choice, cut = place(fabric, group), parse_choice(algorithm), segments or SEGMENTS
    composed = [row.name for row in compositions(primitive)]
    program = _composed(placed, primitive, choice, cut) if choice.base in composed else _flat(placed, primitive, choice, cut)
    schedule = own_from_program(choice.spec, program)
    promise_of(primitive, schedule.ranks, schedule.chunks, schedule.root)
    return schedule


def _flat(placed: PlacedGroup, primitive: Primitive, choice: Choice, segments: int) -> Program:
    seen = flat_group(placed, Readings())[0]
    row = find(primitive, choice.base, [one.name for one in compositions(primitive)])
    reason = row.why_not(group := row.on(seen, choice))
    if reason is None and (make := maker(primitive, row.name)) is None:
        reason = "no schedule is written for it"
    if reason is not None:
        raise ColltoolError(
            f"{choice.spec} cannot be exported: {reason}", argument="algorithm", fix="verify lists what is executed"
        )
    pipelined = any(terms.fill is not None for terms in row.schedule(group))
    if effort(primitive, row.name, group.ranks, segments if pipelined else None) > MOST_MOVES:
        raise ColltoolError(
            f"{choice.spec} on {group.ranks} ranks is too long for a file", argument="ranks", fix=f"take {given('ranks', 64)}"
        )
    assert make is not None
    return make(group, segments)


def _composed(placed: PlacedGroup, primitive: Primitive, choice: Choice, segments: int) -> Program:
    readings = Readings(ideal=True, pipelining=segments, phases="sequential")
    for bench in hierarchical_candidates(placed, primitive, readings):
        if bench.row.name == choice.base:
            try:
                return on_tiers(placed, bench.named(choice.tiers) if choice.tiers else bench.usual(), segments, readings)[0]
            except ValueError as error:
                raise ColltoolError(f"{choice.spec} cannot be exported: {error}", argument="algorithm", fix=_LISTED) from error
    what = f"{choice.base} needs a group over several tiers"
    raise ColltoolError(what, argument="algorithm", fix=_LISTED)
