"""``price``: every algorithm that can run on a group, fastest first, and why the others cannot.

:func:`price` is the entry, :func:`price_list` prices several sizes. The library's own pick and intervals
are not here: :mod:`colltool.estimate.user_price` adds them.
"""

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
from colltool.estimate.assumptions import USUAL, ModelOptions, Phases
from colltool.estimate.candidates import Candidates, by_title, candidates_for
from colltool.estimate.cost_model import CostModel
from colltool.estimate.leading import may_lead
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocol_notes import lower_bound_notes, old_form_notes, range_notes
from colltool.estimate.protocols import best_protocol
from colltool.estimate.results import (
    AssumptionsUsed,
    Infeasible,
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
    further schedules on this group (the user's own, executed), which ``only`` may name too; they are
    priced whether named or not.

    Raises:
        ColltoolError: a size outside 1 byte to 1 EB, a group that does not fit, an algorithm that is
            not known or cannot run.
    """
    options = readings or USUAL
    candidates = candidates_for(fabric, group, primitive, options)
    probes = _probes(size)
    own_specs = {cost_model.choice.spec for cost_model in own}
    named = candidates.specs(algorithm for algorithm in only if algorithm not in own_specs)
    only = [*named, *(name for name in only if name in own_specs)]
    cost_models: list[CostModel] = []
    with route_cache(fabric):
        if named:
            cost_models += candidates.named(named, probes)
        elif not only:
            cost_models += candidates.every_schedule(probes)
        cost_models += own
        rows = tuple(rows_at(candidates, cost_models, size, only))
    infeasible: tuple[Infeasible, ...] = ()
    if not only:
        infeasible = candidates.infeasible({cost_model.choice.base for cost_model in cost_models})
    priced = Price(
        fabric=fabric.name,
        primitive=primitive,
        group=candidates.placed.placement,
        bytes=size,
        mode=mode(options),
        model=model(options, primitive),
        results=rows,
        infeasible=infeasible,
        overrides=candidates.placed.fabric.overrides,
        library=LibraryChoice(candidates.library.name) if candidates.library else None,
        asked=tuple(only),
        assumed=tuple(assumed_media(candidates.placed.fabric)),
    )
    # a price without a library's numbers, or of other schedules, does not depend on P2P
    by_library = fabric.tiers[0].library is not None and not options.ideal and not own
    if by_library and isinstance(size, float) and p2p_unknown(fabric):
        return _with_p2p_note(priced, fabric, size, group, options, only)
    return priced


def _probes(size: Number) -> list[float]:
    """Sizes at which compositions are searched: both ends and every doubling of the first in
    between."""
    least, most = _extremes(size)
    # false for NaN too
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
    priced: Price,
    fabric: Fabric,
    size: float,
    group: AnyGroup,
    readings: ModelOptions,
    only: Sequence[str],
) -> Price:
    """Note on the first row how long it takes where the cards reach each other's memory. The price
    is for cards that do not."""
    price_with_p2p = price(
        with_p2p(fabric, works=True), priced.primitive, size, group, readings, only
    )
    time_with_p2p = format_time(float(price_with_p2p.best.total_s))
    note = (
        f"not said: P2P over PCIe. Priced without it; with it {time_with_p2p}. Set library.p2p to true or"
        " false"
    )
    first, *others = priced.results
    return replace(priced, results=(replace(first, notes=(note, *first.notes)), *others))


def rows_at(
    candidates: Candidates,
    cost_models: Sequence[CostModel],
    size: Number,
    named: Sequence[str] = (),
) -> list[AlgorithmEstimate]:
    """Each schedule under its fastest protocol, with notes.

    Those that may lead come first, then the rest by rank class (0: what the user can run); each by
    time (arrays as in ``cost_models``). ``named``: the algorithms that were asked for, empty for all.
    """
    rows = []
    for by_protocol in by_title(cost_models).values():
        rows.append(best_protocol([cost_model.at(size) for cost_model in by_protocol]))
    rows = range_notes(rows, candidates.placed, candidates.primitive)
    if len(rows) > 1:
        # arrays have no single order: they keep that of the schedules
        if isinstance(size, float):
            seconds = [float(row.total_s) for row in rows]
            rows = [rows[index] for index in ranked(seconds)]
        leading = may_lead(rows, named)
        leaders = set(map(id, leading))
        behind = [row for row in rows if id(row) not in leaders]
        rows = [*leading, *sorted(behind, key=attrgetter("rank_class"))]
    rows = lower_bound_notes(rows, cost_models, candidates.placed, candidates.primitive)
    return old_form_notes(rows, candidates.placed)


def price_list(
    fabric: Fabric,
    primitive: Primitive,
    sizes: Sequence[float],
    group: AnyGroup = None,
    readings: ModelOptions | None = None,
    only: Sequence[str] = (),
    own: Sequence[CostModel] = (),
) -> PriceList:
    """One price per size; without sizes the two best at :data:`STANDARD_SIZES`. The rest is as for
    :func:`price`."""
    prices = tuple(
        price(fabric, primitive, size, group, readings, only, own=own)
        for size in sizes or STANDARD_SIZES
    )
    if sizes:
        return PriceList(prices)
    best = tuple(replace(found, results=(found.leading or found.results)[:2]) for found in prices)
    return PriceList(best, winners_only=True)


def mode(readings: ModelOptions) -> str:
    """The word that results have for a price with or without contention."""
    return "ideal" if readings.ideal else "realistic"


@lru_cache(maxsize=64)
def model(readings: ModelOptions, primitive: Primitive) -> AssumptionsUsed:
    """The options in force for a primitive: ``auto`` phases are those of its first composition."""
    usual: Phases = next(
        (composition.phases for composition in compositions(primitive)), "sequential"
    )
    return AssumptionsUsed(readings.in_force(usual), USUAL.in_force(usual))


# Numbers (8 bytes each) that stay in the processor's cache, where the second walk through them costs
# little.
_BLOCK = 2**16


def _extremes(sizes: Number) -> tuple[float, float]:
    """Minimum and maximum in one pass through memory; NaN propagates."""
    if isinstance(sizes, float):
        return sizes, sizes
    from numpy import array

    blocks = [sizes[start : start + _BLOCK] for start in range(0, len(sizes), _BLOCK)]
    ends = array([(block.min(), block.max()) for block in blocks])
    return float(ends[:, 0].min()), float(ends[:, 1].max())
