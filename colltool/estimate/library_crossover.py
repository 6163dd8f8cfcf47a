"""What NCCL picks beside the crossovers of a group (:func:`with_library_picks`), and what its picks cost
(:func:`with_pick_cost`, which reads the former's)."""

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
# sizes compared per doubling
_SIZES_PER_DOUBLING = 2


def with_library_picks(crossover: Crossover, fabric: Fabric) -> Crossover:
    """Add the library's own pick at each size, if known."""
    hardware = modelled_hardware(fabric, crossover.group.spec)
    if hardware is None or not is_chosen(crossover.primitive, fabric):
        return crossover
    placed = place(fabric, crossover.group.spec)
    points = switch_points(hardware, crossover.primitive)
    ends: list[float | None] = [point.from_bytes for point in points[1:]]
    picks = []
    for point, end in zip(points, [*ends, None], strict=True):
        spec = schedule_on(point.algorithm, crossover.primitive, hardware, placed)
        name = ALGORITHM_NAMES.get(point.algorithm, point.algorithm)
        picks.append(
            Winner(point.from_bytes, end, point.algorithm, point.protocol, spec, name=name)
        )
    return replace(crossover, picks=tuple(picks))


def with_pick_cost(crossover: Crossover, fabric: Fabric, readings: ModelOptions) -> Crossover:
    """Add where the library's picks cost most, up to 16 GB; unchanged where they are not known."""
    if not crossover.picks or crossover.asked:
        return crossover
    group = crossover.group.spec
    steps = int(_SIZES_PER_DOUBLING * log2(LARGEST_COMPARED))
    sizes = [2.0 ** (step / _SIZES_PER_DOUBLING) for step in range(steps + 1)]
    picked = picked_at(fabric, group, crossover.primitive, sizes)
    if picked is None:
        return crossover
    from numpy import array

    priced = price(fabric, crossover.primitive, array(sizes), group, readings)
    # seconds at each size, by spec
    seconds_of: dict[str, Any] = {estimate.spec: estimate.total_s for estimate in priced.runnable}
    simple_seconds_of = _seconds_under_simple(fabric, crossover, readings, picked, sizes)
    # (times the fastest, size)
    worst: tuple[float, float] | None = None
    for index, (size, pick) in enumerate(zip(sizes, picked, strict=True)):
        if pick.spec not in seconds_of:
            continue
        pick_s = seconds_of[pick.spec]
        if pick.simple:
            pick_s = simple_seconds_of.get(pick.spec, pick_s)
        fastest_s = min(float(seconds[index]) for seconds in seconds_of.values())
        factor = float(pick_s[index]) / fastest_s
        if worst is None or factor > worst[0]:
            worst = factor, size
    if worst is None:
        return crossover
    return replace(crossover, pick_cost=_pick_cost(crossover, fabric, readings, worst[1]))


def _seconds_under_simple(
    fabric: Fabric,
    crossover: Crossover,
    readings: ModelOptions,
    picked: Sequence[Picked],
    sizes: Sequence[float],
) -> dict[str, Any]:
    """Seconds at each size, by spec, of the schedules that NCCL runs under Simple somewhere."""
    from numpy import array

    candidates = candidates_for(fabric, crossover.group.spec, crossover.primitive, readings)
    seconds: dict[str, Any] = {}
    for spec in {pick.spec for pick in picked if pick.simple and pick.spec}:
        for cost_model in candidates.named([spec], [sizes[0], sizes[-1]]):
            if cost_model.protocol.lower() == SIMPLE and cost_model.choice.spec == spec:
                seconds[spec] = cost_model.at(array(sizes)).total_s
    return seconds


def _pick_cost(
    crossover: Crossover, fabric: Fabric, readings: ModelOptions, size: float
) -> PickCost | None:
    """What the pick costs at a size, by the price that a user reads there; None where we have no price
    of the pick."""
    from colltool.estimate.user_price import price_for_user

    priced = price_for_user(
        price(fabric, crossover.primitive, size, crossover.group.spec, readings), fabric, readings
    )
    if not priced.shows_pick:
        return None
    pick = priced.best
    fastest = priced.fastest
    pick_s = float(pick.total_s)
    fastest_s = float(fastest.total_s)
    close = pick.interval is not None and fastest_s >= pick.interval.low_s
    return PickCost(
        bytes=size,
        factor=pick_s / fastest_s,
        pick=pick.name,
        pick_s=pick_s,
        fastest=fastest.name,
        fastest_s=fastest_s,
        close=close,
    )
