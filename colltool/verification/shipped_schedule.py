"""Turns a shipped algorithm's schedule into a custom one, to be written as a file a user can change:
:func:`shipped_schedule`."""

from __future__ import annotations

from colltool.algorithms.registry import parse_choice
from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import Primitive
from colltool.custom.postcondition import postcondition_of
from colltool.custom.schedule import MOST_MOVES, CustomSchedule, custom_from_program
from colltool.estimate.placement import AnyGroup
from colltool.fabric.model import Fabric
from colltool.verification.schedule import scheduled

SEGMENTS = 4  # of pipelined algorithms by default: a file that is short enough to be read


def shipped_schedule(
    fabric: Fabric,
    group: AnyGroup,
    primitive: Primitive,
    algorithm: str,
    segments: int | None = None,
) -> CustomSchedule:
    """The schedule that ``verify`` executes, as a custom one.

    Raises:
        ColltoolError: there is none, it needs switches or servers, or it is too long for a file.
    """
    shipped = scheduled(
        fabric, primitive, algorithm, group, segments or SEGMENTS, ideal=True, most=MOST_MOVES
    )
    schedule = custom_from_program(parse_choice(algorithm).spec, shipped.program)
    # for its errors: a file has not every primitive, nor any number of ranks and chunks
    postcondition_of(primitive, schedule.ranks, schedule.chunks, schedule.root)
    if schedule.messages > MOST_MOVES:
        raise ColltoolError(
            f"{schedule.name} moves {schedule.messages:,} chunks, and a file holds {MOST_MOVES:,}",
            argument="ranks",
            fix=f"take {argument_text('ranks', 64)}",
        )
    return schedule
