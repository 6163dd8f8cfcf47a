"""``price``: every algorithm that can run on a group, fastest first, and why the others cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from colltool.algorithms.composed import compositions
from colltool.algorithms.partners import posting_caveat
from colltool.algorithms.registry import row_of, usual_algorithms
from colltool.base.arrays import first_least, ranked
from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.formatting import MAX_SIZE, format_time
from colltool.base.primitives import Number, Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.algorithm_specs import CannotRun
from colltool.estimate.assumptions import ModelOptions, Phases
from colltool.estimate.candidates import Candidates, by_title, candidates_for
from colltool.estimate.cost_model import CostModel
from colltool.estimate.leading import may_lead
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocol_notes import lower_bound_notes, old_form_notes, range_notes
from colltool.estimate.protocols import best_protocol
from colltool.estimate.results import (
    AssumptionsUsed,
    Breakdown,
    Infeasible,
    Ladder,
    LibraryChoice,
    Price,
    PriceList,
    Rung,
)
from colltool.estimate.route_cache import route_cache
from colltool.estimate.segments import BestSegments, best_segments
from colltool.fabric.library_numbers import assumed_media, p2p_unknown, with_p2p
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

if TYPE_CHECKING:
    from colltool.fabric.ladder import LadderDefinition, RungDefinition

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


def breakdown(
    fabric: Fabric,
    primitive: Primitive,
    size: float,
    group: AnyGroup = None,
    readings: ModelOptions | None = None,
    name: str | None = None,
) -> Breakdown:
    """The phases of the fastest schedule, or of a named one; ``hierarchical`` alone means its
    fastest composition here."""
    options = readings or ModelOptions()
    everything = price(fabric, primitive, size, group, options)
    listed = candidates_for(fabric, group, primitive, options)
    chosen = everything.best
    if name is not None:
        chosen = rows_at(listed, listed.named([name], [size]), size)[0]
    baselines = []
    for estimate in everything.results:
        algorithm = row_of(primitive, estimate.algorithm)
        if estimate.title != chosen.title and algorithm is not None and algorithm.baseline:
            baselines.append(estimate)
    return Breakdown(
        replace(everything, results=(chosen,)), tuple(baselines), _segments(listed, chosen)
    )


def _segments(listed: Candidates, estimate: AlgorithmEstimate) -> tuple[BestSegments, ...]:
    """The best cut of what a row pipelines."""
    size = float(estimate.bytes)
    for schedule in listed.named([estimate.spec], [size]):
        if (schedule.title, schedule.protocol) == (estimate.title, estimate.protocol):
            return best_segments(schedule, size)
    return ()


def climb(definition: LadderDefinition, readings: ModelOptions | None) -> Ladder:
    """Price every rung, ideal and realistic; the gap is to the fastest rung of the same primitive
    and size.

    What only the readings rule out, such as several links at once on one port, is left out with the
    reason.
    """
    options = readings or ModelOptions()
    rungs: list[Rung] = []
    skipped: list[Infeasible] = []
    problems = []
    for rung in definition.rungs:
        try:
            rungs.append(_priced_rung(rung, rung.size or definition.size, options))
        except ColltoolError as error:
            if isinstance(error, CannotRun) and _runs_usually(rung):
                what = f"{rung.primitive.label} by {rung.algorithm} on {rung.fabric.name}"
                skipped.append(Infeasible(what, error.reason))
                continue
            problems.append(
                ColltoolError(
                    error.what,
                    where=rung.where or error.where,
                    argument="" if rung.where else error.argument,
                    fix=error.fix,
                )
            )
    if problems:
        raise problems[0] if len(problems) == 1 else ManyErrors(problems)
    return Ladder(
        definition.name,
        definition.description,
        definition.size,
        tuple(_with_gaps(rung, rungs) for rung in rungs),
        options,
        tuple(skipped),
    )


def _priced_rung(rung: RungDefinition, size: float, readings: ModelOptions) -> Rung:
    def priced(ideal: bool, only: Sequence[str]) -> Price:
        options = readings._replace(ideal=ideal)
        return price(rung.fabric, rung.primitive, size, rung.ranks, options, only)

    only = list(filter(None, [rung.algorithm]))
    real = priced(False, only)
    # what is fastest in reality serves both
    ideal = priced(True, only or [real.best.spec])
    return Rung(
        rung.primitive, rung.fabric.name, ideal.best.title, real.ranks, ideal.best, real.best
    )


def _with_gaps(rung: Rung, rungs: Sequence[Rung]) -> Rung:
    """A rung with its times relative to the fastest of its primitive and size."""
    question = (rung.primitive, rung.ideal.bytes)
    same = [other for other in rungs if (other.primitive, other.ideal.bytes) == question]
    ideal_s = min(float(other.ideal.total_s) for other in same)
    real_s = min(float(other.realistic.total_s) for other in same)
    return rung._replace(
        gap_ideal=float(rung.ideal.total_s / ideal_s),
        gap_realistic=float(rung.realistic.total_s / real_s),
    )


def _runs_usually(rung: RungDefinition) -> bool:
    """Whether only the readings keep a rung from being priced."""
    listed = candidates_for(rung.fabric, rung.ranks, rung.primitive, ModelOptions())
    try:
        return bool(rung.algorithm and listed.named([rung.algorithm]))
    except CannotRun:
        return False


def with_one_port_leader(
    prices: tuple[Price, ...], fabric: Fabric, group: AnyGroup, readings: ModelOptions
) -> tuple[Price, ...]:
    """Add to each price the schedule that leads under ``ports=one``, if another. ``prices`` must
    include all algorithms."""
    found = []
    for priced in prices:
        leads: str | tuple[str, ...] = _leads_on_one_port(priced, fabric, group, readings)
        if isinstance(priced.bytes, float):
            leads = leads[0]
        found.append(replace(priced, leads_on_one_port=leads))
    return tuple(found)


def _leads_on_one_port(
    priced: Price, fabric: Fabric, group: AnyGroup, readings: ModelOptions
) -> tuple[str, ...]:
    """Titles at each size. Empty where the same schedule leads, or does not post to all peers at
    once on links of their own."""
    rows = priced.leading
    unchanged = ("",) * (1 if isinstance(priced.bytes, float) else len(priced.bytes))
    if readings.ports == "one" or not rows:
        return unchanged
    first = _leading_rows(priced)
    # where tiers have links of their own any schedule may lose some, elsewhere those that post
    differing = set(first)
    if all(capabilities_of(tier).joined_by == "switches" for tier in fabric.tiers):
        posting = {
            algorithm.name for algorithm in usual_algorithms() if algorithm.caveat is posting_caveat
        }
        differing = {
            at for at in differing if posting & {rows[at].choice.base, *rows[at].choice.tiers}
        }
    if not differing:
        return unchanged
    one_port = price(fabric, priced.primitive, priced.bytes, group, readings._replace(ports="one"))
    others = one_port.leading
    if not others:
        return unchanged
    titles = list(unchanged)
    for number, (at, other) in enumerate(zip(first, _leading_rows(one_port), strict=True)):
        if at in differing and others[other].spec != rows[at].spec:
            titles[number] = others[other].title
    return tuple(titles)


def _leading_rows(priced: Price) -> list[int]:
    """The place of the fastest leading row at each size."""
    if isinstance(priced.bytes, float):
        return [0]
    index: list[int] = first_least([estimate.total_s for estimate in priced.leading]).tolist()
    return index
