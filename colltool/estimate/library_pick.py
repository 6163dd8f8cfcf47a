"""What NCCL would run for a call by its own cost model, and our price of it.

:func:`with_library_choice` adds the pick to prices, :func:`picked_at` has it for many sizes, and
:func:`price_of_pick` prices it alone, for a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from colltool.base.errors import ColltoolError, localize
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import Candidates, candidates_for
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.nccl_hardware import (
    MODELLED_LIBRARIES,
    check_switched,
    hardware_on,
    modelled_hardware,
)
from colltool.estimate.placement import AnyGroup
from colltool.estimate.price import price, rows_at
from colltool.estimate.results import LibraryChoice, Price
from colltool.estimate.running import library_runs
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.libraries.nccl.hardware import Hardware, tuned
from colltool.libraries.nccl.model import cheapest, estimates, picked_ways
from colltool.libraries.nccl.names import spec_of

SIMPLE = "simple"
"""The protocol of large messages, as NCCL's tuner file spells it."""


def with_library_choice(
    prices: Sequence[Price],
    fabric: Fabric,
    readings: ModelOptions,
    *,
    required: bool,
    lead: bool = True,
) -> tuple[Price, ...]:
    """Add the library's own pick to prices of one primitive and group; unchanged if its cost model
    is not known.

    ``required``: the user named the library, so a model that cannot be computed is an error; otherwise
    a reason in the answer.
    ``lead``: the pick becomes the first of the rows.

    Raises:
        ColltoolError: ``required``, and a fact is missing; or there is nothing to choose on a fabric
            that NCCL does not run on.
    """
    first = prices[0]
    if first.library is None or first.library.name not in MODELLED_LIBRARIES:
        return tuple(prices)
    reason = ""
    if not is_chosen(first.primitive, fabric):
        reason = f"NCCL has one way for {first.primitive.label}: there is nothing to choose"
    elif not all(isinstance(priced.bytes, float) for priced in prices):
        reason = "an array of sizes has no single pick: price_list has one for each size"
    joined_by = {capabilities_of(tier).joined_by for tier in fabric.tiers}
    # NCCL runs over links between GPUs, though its choice there is not known
    has_links = bool(joined_by & {"pair_links", "routes"})
    if not reason:
        try:
            hardware = hardware_on(fabric, first.group.spec)
        except ColltoolError as error:
            if required and not fabric.domains and not has_links:
                raise
            reason = f"{localize(error.what)}; {localize(error.fix)}"
    elif not has_links:
        check_switched(fabric)
    if reason:
        unknown = LibraryChoice(first.library.name, reason=reason)
        return tuple(replace(priced, library=unknown) for priced in prices)
    return tuple(_with_pick(priced, fabric, hardware, readings, lead=lead) for priced in prices)


def _with_pick(
    priced: Price, fabric: Fabric, hardware: Hardware, readings: ModelOptions, *, lead: bool
) -> Price:
    """Add the pick to a price. If the pick is one of the price's rows, it becomes the first: what
    is shown first is what runs."""
    size = priced.bytes
    group = priced.group.spec
    # arrays have no single pick
    assert isinstance(size, float)
    ways = tuple(estimates(hardware, priced.primitive, size))
    best = cheapest(ways)
    spec = schedule_on(best.algorithm, priced.primitive, hardware, place(fabric, group))
    runs: AlgorithmEstimate | None = next((row for row in priced.results if row.spec == spec), None)
    # without a row the pick is priced by itself; but where a tier lists what its library runs, a pick
    # that is not listed does not run
    if runs is None and spec and not library_runs(place(fabric, group), priced.primitive):
        # it may be unable to run with this fabric's numbers
        with suppress(ColltoolError):
            runs = price(fabric, priced.primitive, size, group, readings, [spec]).best
    if runs is not None and runs.protocol and best.protocol == SIMPLE and hardware.nodes > 1:
        runs = _under_simple(runs, candidates_for(fabric, group, priced.primitive, readings))
    picked = replace(priced, library=LibraryChoice("nccl", hardware.version, best, ways, runs))
    if not lead or runs is None or not runs.selectable:
        return picked
    others = [estimate for estimate in priced.results if estimate.title != runs.title]
    if len(others) == len(priced.results):
        return picked
    return replace(picked, results=(runs, *others))


class Picked(NamedTuple):
    """What NCCL picks at a size.

    Args:
        spec: the schedule, as ``--algorithm`` takes it; empty where none of ours corresponds to it.
        simple: it is priced under Simple, whichever protocol is faster.
    """

    spec: str
    simple: bool


def picked_at(
    fabric: Fabric, group: AnyGroup, primitive: Primitive, sizes: Iterable[float]
) -> list[Picked] | None:
    """NCCL's pick at each size; None where its model does not know."""
    hardware = modelled_hardware(fabric, group)
    if hardware is None or not is_chosen(primitive, fabric):
        return None
    placed = place(fabric, group)
    tiers = len(placed.spans)
    picks = []
    pick_of_way: dict[tuple[str, str], Picked] = {}
    # an algorithm and a protocol of NCCL's for each size
    for way in picked_ways(hardware, primitive, list(map(float, sizes))):
        name = way.algorithm, way.protocol
        if name not in pick_of_way:
            spec = schedule_on(way.algorithm, primitive, hardware, placed)
            # NCCL knows nodes and what joins them; over more tiers nothing here is its composition,
            # which names two: hierarchical:ring/ring
            if ":" in spec and spec.count("/") + 1 != tiers:
                spec = ""
            pick_of_way[name] = Picked(spec, way.protocol == SIMPLE and hardware.nodes > 1)
        picks.append(pick_of_way[name])
    return picks


def schedule_on(
    algorithm: str, primitive: Primitive, hardware: Hardware, placed: PlacedGroup
) -> str:
    """Our schedule of an algorithm of NCCL's on a group, as ``--algorithm`` takes it; empty where none
    corresponds to it.

    It is that of :func:`spec_of`, but a ring on one node takes the form that it has where no switch
    joins the GPUs, or several tiers do.
    """
    spec = spec_of(algorithm, primitive, hardware)
    if algorithm != "ring":
        return spec
    joined_by = placed.spans[0].kind.joined_by
    if hardware.nodes > 1:
        # rings over links of a graph and NICs are no schedule of ours
        return "" if joined_by == "routes" and hardware.ranks_per_node > 1 else spec
    if spec != "ring":
        return spec
    if len(placed.spans) > 1:
        return "multi-rail-ring"
    if hardware.ranks == 2:
        return spec
    return {"pair_links": "multi-link-ring", "routes": "forest"}.get(joined_by, spec)


def price_of_pick(
    fabric: Fabric, primitive: Primitive, size: float, group: AnyGroup, readings: ModelOptions
) -> Price | None:
    """The row that :func:`with_library_choice` would put first, priced without the others. None
    where the whole list is needed to know it."""
    if readings.phases != "auto" or library_runs(place(fabric, group), primitive):
        return None
    picks = picked_at(fabric, group, primitive, [size])
    if not picks or not picks[0].spec:
        return None
    # of the only size
    [pick] = picks
    try:
        priced = price(fabric, primitive, size, group, readings, [pick.spec])
    except ColltoolError:
        # it cannot run with this fabric's numbers
        return None
    if pick.simple and priced.best.protocol:
        row = _under_simple(priced.best, candidates_for(fabric, group, primitive, readings))
        return replace(priced, results=(row,))
    return priced


def _under_simple(estimate: AlgorithmEstimate, candidates: Candidates) -> AlgorithmEstimate:
    """A row of a schedule that NCCL runs under Simple, under that protocol, though LL128 may be faster
    there, as rings of many nodes are; unchanged where the fabric has no such protocol.

    It is asked only where NCCL picks Simple. Where it picks LL or LL128 the faster of all is kept: their
    border moves with the version, and a fit's names are not quite NCCL's.
    """
    size = float(estimate.bytes)
    for cost_model in candidates.named([estimate.spec], [size]):
        if cost_model.title == estimate.title and cost_model.protocol.lower() == SIMPLE:
            if cost_model.protocol != estimate.protocol:
                return rows_at(candidates, [cost_model], size)[0]
            break
    return estimate


def is_chosen(primitive: Primitive, fabric: Fabric) -> bool:
    """Whether NCCL has several ways for a primitive, in the version that the fabric names."""
    facts = fabric.library_facts
    # without a version the model of the newest is asked
    return primitive in tuned((facts and facts.version) or "")
