"""``price``: every algorithm that can run on a group, fastest first, and why the others cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter

from colltool.algorithms.composed import compositions
from colltool.base.arrays import ranked
from colltool.base.errors import ColltoolError
from colltool.base.formatting import MAX_SIZE, format_time
from colltool.base.primitives import Number, Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import ModelOptions, Phases
from colltool.estimate.candidates import Candidates, by_title, candidates_for
from colltool.estimate.cost_model import CostModel
from colltool.estimate.leading import may_lead
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocol_notes import lower_bound_notes, old_form_notes, range_notes
from colltool.estimate.protocols import best_protocol
from colltool.estimate.results import (
    AssumptionsUsed,
    LibraryChoice,
    Price,
    PriceList,
)
from colltool.estimate.route_cache import route_cache
from colltool.fabric.library_numbers import with_p2p
from colltool.fabric.model import Fabric
from colltool.fabric.tier_media import assumed_media, p2p_unknown

# Bytes; from latency-bound to bandwidth-bound messages.
STANDARD_SIZES = (1e3, 64e3, 1e6, 16e6, 256e6, 1e9)


def price(
    fabric: Fabric,
    primitive: Primitive,
    size: Number,
    group: AnyGroup = None,
    readings: ModelOptions | None = None,
    only: Sequence[str] = (),
    own: Sequence[CostModel] = (),
) -> Price:
    """Price one primitive on one group at a size (bytes per rank as in nccl-tests) or a
    one-dimensional array of sizes.

    ``only``: algorithms such as ``ring`` or ``hierarchical:ring/ring``; all if empty. ``own``:
    further schedules on this group, which ``only`` may name too.
    """
    options = readings or ModelOptions()
    listed = candidates_for(fabric, group, primitive, options)
    probes = _probes(size)
    own_specs = {cost_model.choice.spec for cost_model in own}
    named = listed.specs(algorithm for algorithm in only if algorithm not in own_specs)
    only = [*named, *(name for name in only if name in own_specs)]
    chosen: list[CostModel] = []
    with route_cache(fabric):
        if named:
            chosen += listed.named(named, probes)
        elif not only:
            chosen += listed.every_schedule(probes)
        chosen += own
        rows = tuple(rows_at(listed, chosen, size, only))
    found = Price(
        fabric=fabric.name,
        primitive=primitive,
        group=listed.placed.placement,
        bytes=size,
        mode=mode(options),
        model=model(options, primitive),
        results=rows,
        infeasible=()
        if only
        else listed.infeasible({cost_model.choice.base for cost_model in chosen}),
        overrides=listed.overrides,
        library=LibraryChoice(listed.library.name) if listed.library else None,
        asked=tuple(only),
        assumed=tuple(assumed_media(listed.placed.fabric)),
    )
    # a price without a library's numbers, or of other schedules, does not depend on P2P
    by_library = fabric.tiers[0].library is not None and not options.ideal and not own
    if by_library and isinstance(size, float) and p2p_unknown(fabric):
        return _with_p2p_note(found, fabric, size, group, options, only)
    return found


def _probes(size: Number) -> list[float]:
    """Sizes at which compositions are searched: both ends and every doubling in between."""
    least, most = _extremes(size)
    # also false for NaN
    if not 1 <= least <= most <= MAX_SIZE:
        raise ColltoolError(
            "sizes must be finite and between 1 byte and 1 EB",
            argument="size",
            fix="bytes per rank, such as 16e6",
        )
    probes = [least]
    while probes[-1] * 2 < most:
        probes.append(probes[-1] * 2)
    if most > least:
        probes.append(most)
    return probes


def _with_p2p_note(
    found: Price,
    fabric: Fabric,
    size: float,
    group: AnyGroup,
    readings: ModelOptions,
    only: Sequence[str],
) -> Price:
    """Note on the first row how long it takes where the cards reach each other's memory. The price
    is for cards that do not."""
    other = price(with_p2p(fabric, works=True), found.primitive, size, group, readings, only)
    took = format_time(float(other.best.total_s))
    note = (
        f"not said: P2P over PCIe. Priced without it; with it {took}. Set library.p2p to true or"
        " false"
    )
    first, *others = found.results
    return replace(found, results=(replace(first, notes=(note, *first.notes)), *others))


def rows_at(
    listed: Candidates, candidates: Sequence[CostModel], size: Number, named: Sequence[str] = ()
) -> list[AlgorithmEstimate]:
    """Each schedule under its fastest protocol, with notes.

    Those that may lead come first, then the rest by rank class; each by time (arrays as in
    ``candidates``).
    """
    rows = []
    for same in by_title(candidates).values():
        rows.append(best_protocol([cost_model.at(size) for cost_model in same]))
    rows = range_notes(rows, listed.placed, listed.primitive)
    if len(rows) > 1:
        # arrays have no single order: they keep that of the candidates
        if isinstance(size, float):
            seconds = [float(row.total_s) for row in rows]
            rows = [rows[index] for index in ranked(seconds)]
        leading = may_lead(rows, named)
        leaders = set(map(id, leading))
        behind = [row for row in rows if id(row) not in leaders]
        rows = [*leading, *sorted(behind, key=attrgetter("rank_class"))]
    rows = lower_bound_notes(rows, candidates, listed.placed, listed.primitive)
    return old_form_notes(rows, listed.placed)


def price_list(
    fabric: Fabric,
    primitive: Primitive,
    sizes: Sequence[float],
    group: AnyGroup = None,
    readings: ModelOptions | None = None,
    only: Sequence[str] = (),
    own: Sequence[CostModel] = (),
) -> PriceList:
    """One price per size; without sizes the two best at :data:`STANDARD_SIZES`."""
    prices = tuple(
        price(fabric, primitive, size, group, readings, only, own=own)
        for size in sizes or STANDARD_SIZES
    )
    if sizes:
        return PriceList(prices)
    best = tuple(replace(found, results=(found.leading or found.results)[:2]) for found in prices)
    return PriceList(best, winners_only=True)


def mode(readings: ModelOptions) -> str:
    return "ideal" if readings.ideal else "realistic"


@lru_cache(maxsize=64)
def model(readings: ModelOptions, primitive: Primitive) -> AssumptionsUsed:
    usual: Phases = next(
        (composition.phases for composition in compositions(primitive)), "sequential"
    )
    return AssumptionsUsed(readings.in_force(usual), ModelOptions().in_force(usual))


# numbers that stay in the processor's cache: one walk through memory instead of two
_BLOCK = 2**16


def _extremes(sizes: Number) -> tuple[float, float]:
    """Minimum and maximum in one pass through memory; NaN propagates."""
    if isinstance(sizes, float):
        return sizes, sizes
    from numpy import array

    blocks = [sizes[start : start + _BLOCK] for start in range(0, len(sizes), _BLOCK)]
    ends = array([(block.min(), block.max()) for block in blocks])
    return float(ends[:, 0].min()), float(ends[:, 1].max())
