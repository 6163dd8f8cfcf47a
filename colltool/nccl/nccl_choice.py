"""What NCCL would run for a call by its own cost model, beside our price of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colltool.base.errors import ColltoolError, said
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import Readings
from colltool.estimate.groups import library_runs, place
from colltool.estimate.price import price
from colltool.estimate.results import Crossover, LibraryChoice, Price, Winner
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.nccl.algorithm_map import spec_of
from colltool.nccl.constants import tuned
from colltool.nccl.hardware import Hardware
from colltool.nccl.model import cheapest, estimates, switch_points
from colltool.nccl.topology_inputs import check_switched, hardware_on

WITH_A_MODEL = ("nccl",)
"""Libraries whose cost model is known."""


def with_library_choice(prices: Sequence[Price], fabric: Fabric, readings: Readings, *, asked: bool) -> tuple[Price, ...]:
    """Add the library's own pick to prices of one primitive and group; unchanged if its cost model is not known.

    ``asked``: the user named the library, so a model that cannot be computed is an error; otherwise a reason in the answer.
    """
    first = prices[0]
    if first.library is None or first.library.name not in WITH_A_MODEL:
        return tuple(prices)
    if first.primitive not in _tuned(fabric):
        return _without(prices, f"NCCL has one way for {first.primitive.spoken}: there is nothing to choose", fabric)
    if not all(isinstance(one.bytes, float) for one in prices):
        return _without(prices, "an array of sizes has no single pick: price_list has one for each size", fabric)
    try:
        hardware = hardware_on(fabric, first.group.spec)
    except ColltoolError as error:
        if asked and not any(capabilities_of(tier).joined_by == "pair_links" for tier in fabric.tiers):
            raise
        return _without(prices, f"{said(error.what)}; {said(error.fix)}")
    return tuple(_with_pick(one, fabric, hardware, readings) for one in prices)


def with_library_picks(found: Crossover, fabric: Fabric) -> Crossover:
    """Add the library's own pick at each size, if known."""
    if found.library not in WITH_A_MODEL or found.primitive not in _tuned(fabric):
        return found
    try:
        hardware = hardware_on(fabric, found.group.spec)
    except ColltoolError:
        return found
    turns = switch_points(hardware, found.primitive)
    ends = [*(turn.from_bytes for turn in turns[1:]), None]
    return replace(
        found,
        picks=tuple(
            Winner(turn.from_bytes, end, turn.algorithm, turn.protocol, spec_of(turn.algorithm, found.primitive, hardware))
            for turn, end in zip(turns, ends, strict=True)
        ),
    )


def _without(prices: Sequence[Price], reason: str, fabric: Fabric | None = None) -> tuple[Price, ...]:
    """Give the reason why there is no pick, unless NCCL cannot run on ``fabric`` at all, which is an error."""
    if fabric is not None:
        check_switched(fabric)
    return tuple(replace(one, library=LibraryChoice(one.library.name, reason=reason)) for one in prices if one.library)


def _with_pick(one: Price, fabric: Fabric, on: Hardware, readings: Readings) -> Price:
    assert isinstance(one.bytes, float)  # arrays have no single pick
    ways = tuple(estimates(on, one.primitive, one.bytes))
    pick = cheapest(ways)
    spec = spec_of(pick.algorithm, one.primitive, on)
    runs = next((row for row in one.results if row.spec == spec), None)
    if runs is None and spec and not library_runs(place(fabric, one.group.spec), one.primitive):  # a list is all that runs
        runs = _priced(spec, one, fabric, readings)
    return replace(one, library=LibraryChoice("nccl", on.version, pick, ways, runs))


def _priced(spec: str, one: Price, fabric: Fabric, readings: Readings) -> AlgorithmEstimate | None:
    """Price a pick that is not among the results; None if it cannot run with this fabric's numbers."""
    try:
        return price(fabric, one.primitive, one.bytes, one.group.spec, readings, [spec]).best
    except ColltoolError:
        return None


def _tuned(fabric: Fabric) -> tuple[Primitive, ...]:
    facts = fabric.library_facts
    return tuned((facts and facts.version) or "")
