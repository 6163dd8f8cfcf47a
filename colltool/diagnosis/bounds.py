"""Calls of traces that took at most what was measured: the wires that they cross, and what would measure these."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from colltool.analysis.benchmark_command import LARGE_SIZES, command_line
from colltool.base.primitives import P2P, Primitive, busbw_factor
from colltool.diagnosis.experiments import AS_IS, GIB
from colltool.diagnosis.notes import of_few
from colltool.diagnosis.results import Experiment, Foretold, UpperBound
from colltool.diagnosis.worlds import World
from colltool.estimate.groups import PlacedGroup, place
from colltool.traces.measurements import Bounded


def upper_bounds(bounds: Sequence[Bounded], base: World, library: str, judged: Collection[str]) -> tuple[
    tuple[UpperBound, ...], tuple[Experiment, ...]
]:  # fmt: skip
    """What cannot be judged, and a benchmark for each of its wires that no series is ``judged`` on.

    Raises:
        ColltoolError: more ranks than the fabric holds.
    """
    placed = [place(base.fabric, one.ranks) for one in bounds]
    wires = [one.spans[-1].tier.name for one in placed]
    found = tuple(
        UpperBound(one.primitive, one.ranks, one.calls, one.missing, wire) for one, wire in zip(bounds, wires, strict=True)
    )
    first = {wire: at for at, wire in reversed(list(enumerate(wires))) if wire not in judged}
    tests = (
        _measured(bounds[at].primitive, placed[at], base, library) for _, at in sorted(first.items(), key=lambda one: one[1])
    )
    return found, tuple(one for one in tests if one is not None)


def _measured(primitive: Primitive, placed: PlacedGroup, base: World, library: str) -> Experiment | None:
    """The benchmark of a collective on the group that a trace has it on, and what the fabric says of it."""
    ranks, inside = placed.ranks, placed.spans[1].ranks_inside if len(placed.spans) > 1 else placed.ranks
    seconds = base.time(primitive, GIB, ranks, library)
    if seconds is None or primitive is P2P:
        return None
    command = command_line(primitive, LARGE_SIZES, ranks, ranks // inside, settings={"NCCL_DEBUG": "INFO"})
    busbw = GIB / seconds * busbw_factor(primitive, ranks)
    return Experiment(command, GIB, (Foretold(AS_IS, busbw, seconds),), of_few(ranks))
