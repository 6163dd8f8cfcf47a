"""What NCCL picks beside the crossovers of a group, and what its picks cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log2
from typing import Any

from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import candidates_for
from colltool.estimate.groups import place
from colltool.estimate.library_pick import SIMPLE, Picked, is_chosen, picked_at, schedule_on
from colltool.estimate.nccl_hardware import modelled_hardware
from colltool.estimate.price import price
from colltool.estimate.results import Crossover, PickCost, Winner
from colltool.fabric.model import Fabric
from colltool.libraries.nccl.model import switch_points
from colltool.libraries.nccl.names import ALGORITHM_NAMES

LARGEST_COMPARED = 16e9
"""Bytes up to which crossovers matter: nobody sends more per rank in one call."""
_SIZES_PER_OCTAVE = 2


def with_library_picks(found: Crossover, fabric: Fabric) -> Crossover:
    """Add the library's own pick at each size, if known."""
    hardware = modelled_hardware(fabric, found.group.spec)
    if hardware is None or not is_chosen(found.primitive, fabric):
        return found
    placed = place(fabric, found.group.spec)
    points = switch_points(hardware, found.primitive)
    ends: list[float | None] = [point.from_bytes for point in points[1:]]
    picks = []
    for point, end in zip(points, [*ends, None], strict=True):
        spec = schedule_on(point.algorithm, found.primitive, hardware, placed)
        name = ALGORITHM_NAMES.get(point.algorithm, point.algorithm)
        picks.append(
            Winner(point.from_bytes, end, point.algorithm, point.protocol, spec, name=name)
        )
    return replace(found, picks=tuple(picks))


def with_pick_cost(found: Crossover, fabric: Fabric, readings: ModelOptions) -> Crossover:
    """Add where the library's picks cost most, up to 16 GB; unchanged where they are not known."""
    if not found.picks or found.asked:
        return found
    group = found.group.spec
    steps = int(_SIZES_PER_OCTAVE * log2(LARGEST_COMPARED))
    sizes = [2.0 ** (step / _SIZES_PER_OCTAVE) for step in range(steps + 1)]
    picked = picked_at(fabric, group, found.primitive, sizes)
    if picked is None:
        return found
    from numpy import array

    priced = price(fabric, found.primitive, array(sizes), group, readings)
    runnable: dict[str, Any] = {estimate.spec: estimate.total_s for estimate in priced.runnable}
    simple = _seconds_under_simple(fabric, found, readings, picked, sizes)
    worst: tuple[float, float] | None = None
    for at, (size, way) in enumerate(zip(sizes, picked, strict=True)):
        if way.spec not in runnable:
            continue
        own_s = simple.get(way.spec, runnable[way.spec]) if way.simple else runnable[way.spec]
        factor = float(own_s[at]) / min(float(seconds[at]) for seconds in runnable.values())
        if worst is None or factor > worst[0]:
            worst = factor, size
    if worst is None:
        return found
    return replace(found, pick_cost=_pick_cost(found, fabric, readings, worst[1]))


def _seconds_under_simple(
    fabric: Fabric,
    found: Crossover,
    readings: ModelOptions,
    picked: Sequence[Picked],
    sizes: Sequence[float],
) -> dict[str, Any]:
    """Seconds at each size, by spec, of the schedules that NCCL runs under Simple somewhere."""
    from numpy import array

    listed = candidates_for(fabric, found.group.spec, found.primitive, readings)
    seconds: dict[str, Any] = {}
    for spec in {way.spec for way in picked if way.simple and way.spec}:
        for cost_model in listed.named([spec], [sizes[0], sizes[-1]]):
            if cost_model.protocol.lower() == SIMPLE and cost_model.choice.spec == spec:
                seconds[spec] = cost_model.at(array(sizes)).total_s
    return seconds


def _pick_cost(
    found: Crossover, fabric: Fabric, readings: ModelOptions, size: float
) -> PickCost | None:
    """What the pick costs at a size, by the price that a user reads there."""
    from colltool.estimate.user_price import price_for_user

    priced = price_for_user(
        price(fabric, found.primitive, size, found.group.spec, readings), fabric, readings
    )
    if not priced.shows_pick:
        return None
    own = priced.best
    fastest = priced.fastest
    own_s = float(own.total_s)
    fastest_s = float(fastest.total_s)
    close = own.interval is not None and fastest_s >= own.interval.low_s
    return PickCost(
        bytes=size,
        factor=own_s / fastest_s,
        pick=own.name,
        pick_s=own_s,
        fastest=fastest.name,
        fastest_s=fastest_s,
        close=close,
    )
