"""``price``: every algorithm that can run on a group, fastest first, and why the others cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from colltool.algorithms.composed import compositions
from colltool.algorithms.partners import many_sends
from colltool.algorithms.registry import every_algorithm, row_of
from colltool.base.arrays import first_least, ranked
from colltool.base.errors import ColltoolError, ManyErrors
from colltool.base.formatting import MAX_SIZE, format_time
from colltool.base.primitives import Number, Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate
from colltool.estimate.assumptions import Phases, Readings
from colltool.estimate.candidates import Candidates, CannotRun, by_title, candidates_for
from colltool.estimate.cost_model import CostModel
from colltool.estimate.leading import may_lead
from colltool.estimate.placement import AnyGroup
from colltool.estimate.protocols import (
    best_protocol,
    lower_bound_notes,
    old_form_notes,
    range_notes,
)
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
from colltool.estimate.segments import BestSegments, best_segments
from colltool.fabric.ground import assumed_media, p2p_unknown, with_p2p
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from colltool.fabric.ladder import LadderDefinition, RungDefinition

STANDARD_SIZES = (1e3, 64e3, 1e6, 16e6, 256e6, 1e9)


def price(
    fabric: Fabric,
    primitive: Primitive,
    size: Number,
    group: AnyGroup = None,
    readings: Readings | None = None,
    only: Sequence[str] = (),
    own: Sequence[CostModel] = (),
) -> Price:
    """Price one primitive on one group at a size (bytes per rank as in nccl-tests) or a
    one-dimensional array of sizes.

    ``only``: algorithms such as ``ring`` or ``hierarchical:ring/ring``; all if empty. ``own``:
    further schedules on this group, which ``only`` may name too.
    """
    reading = readings or Readings()
    listed = candidates_for(fabric, group, primitive, reading)
    least, most = (size, size) if isinstance(size, float) else _extremes(size)
    if not 1 <= least <= most <= MAX_SIZE:  # also false for NaN
        fix = "bytes per rank, such as 16e6"
        raise ColltoolError(
            "sizes must be finite and between 1 byte and 1 EB", argument="size", fix=fix
        )
    probes = [least]
    while probes[-1] * 2 < most:
        probes.append(probes[-1] * 2)
    probes += [most] * (most > least)
    named = [one for one in only if one not in {cost.choice.spec for cost in own}]
    chosen = [*(listed.named(named, probes) if named else () if only else listed.all(probes)), *own]
    found = Price(
        fabric=fabric.name,
        primitive=primitive,
        group=listed.placed.placement,
        bytes=size,
        mode=mode(reading),
        model=model(reading, primitive),
        results=tuple(rows_at(listed, chosen, size, only)),
        infeasible=() if only else listed.infeasible({one.choice.base for one in chosen}),
        overrides=listed.overrides,
        library=LibraryChoice(listed.library.name) if listed.library else None,
        asked=tuple(only),
        assumed=assumed_media(listed.placed.fabric),
    )
    if (
        not isinstance(size, float)
        or reading.ideal
        or fabric.tiers[0].library is None
        or own
        or not p2p_unknown(fabric)
    ):
        return found
    return _told_with_p2p(found, fabric, size, group, reading, only)


def _told_with_p2p(
    found: Price,
    fabric: Fabric,
    size: float,
    group: AnyGroup,
    readings: Readings,
    only: Sequence[str],
) -> Price:
    """With what it takes where the cards reach each other's memory, beside what it takes where they
    do not."""
    other = price(with_p2p(fabric, True), found.primitive, size, group, readings, only)
    took = format_time(float(other.best.total_s))
    note = (
        f"not said: P2P over PCIe. Priced without it; with it {took}. Set library.p2p to true or"
        " false"
    )
    first = found.results[0]
    return replace(found, results=(replace(first, notes=(note, *first.notes)), *found.results[1:]))


def rows_at(
    listed: Candidates, candidates: Sequence[CostModel], size: Number, named: Sequence[str] = ()
) -> list[AlgorithmEstimate]:
    """Each schedule under its fastest protocol, with notes.

    Those that may lead come first, then the rest by rank class; each by time (arrays as in
    ``candidates``).
    """
    if len(candidates) == 1:
        rows = [candidates[0].at(size)]
    else:
        rows = [
            best_protocol([one.at(size) for one in same]) for same in by_title(candidates).values()
        ]
    rows = range_notes(rows, listed.placed, listed.primitive)
    if len(rows) > 1:
        if isinstance(size, float):
            rows = [rows[index] for index in ranked([float(row.total_s) for row in rows])]
        leading = may_lead(rows, named)
        leaders = set(map(id, leading))
        behind = filter(lambda row: id(row) not in leaders, rows)
        rows = [*leading, *sorted(behind, key=lambda row: row.rank_class)]
    return old_form_notes(
        lower_bound_notes(rows, candidates, listed.placed, listed.primitive), listed.placed
    )


def price_list(
    fabric: Fabric,
    primitive: Primitive,
    sizes: Sequence[float],
    group: AnyGroup = None,
    readings: Readings | None = None,
    only: Sequence[str] = (),
    own: Sequence[CostModel] = (),
) -> PriceList:
    """One price per size; without sizes the two best at :data:`STANDARD_SIZES`."""
    prices = tuple(
        price(fabric, primitive, size, group, readings, only, own=own)
        for size in sizes or STANDARD_SIZES
    )
    best = tuple(replace(one, results=one.leading[:2] or one.results[:2]) for one in prices)
    return PriceList(prices if sizes else best, winners_only=not sizes)


def mode(readings: Readings) -> str:
    return "ideal" if readings.ideal else "realistic"


@lru_cache(maxsize=64)
def model(readings: Readings, primitive: Primitive) -> AssumptionsUsed:
    own: Phases = next((row.phases for row in compositions(primitive)), "sequential")
    return AssumptionsUsed(readings.in_force(own), Readings().in_force(own))


_BLOCK = 2**16  # numbers that stay in the processor's cache: one walk through memory instead of two


def _extremes(sizes: NDArray[np.float64]) -> tuple[float, float]:
    """Minimum and maximum in one pass through memory; NaN propagates."""
    from numpy import array

    blocks = [sizes[start : start + _BLOCK] for start in range(0, len(sizes), _BLOCK)]
    ends = array([(block.min(), block.max()) for block in blocks])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def breakdown(
    fabric: Fabric,
    primitive: Primitive,
    size: float,
    group: AnyGroup = None,
    readings: Readings | None = None,
    name: str | None = None,
) -> Breakdown:
    """The phases of the fastest schedule, or of a named one; ``hierarchical`` alone means its
    fastest composition here."""
    reading = readings or Readings()
    everything = price(fabric, primitive, size, group, reading)
    if name is None:
        chosen = everything.best
    else:
        listed = candidates_for(fabric, group, primitive, reading)
        chosen = rows_at(listed, listed.named([name], [size]), size)[0]
    flat = (
        (row, row_of(primitive, row.algorithm))
        for row in everything.results
        if row.title != chosen.title
    )
    baselines = [row for row, algorithm in flat if algorithm is not None and algorithm.baseline]
    return Breakdown(
        replace(everything, results=(chosen,)),
        tuple(baselines),
        _cut(fabric, group, primitive, reading, chosen),
    )


def _cut(
    fabric: Fabric,
    group: AnyGroup,
    primitive: Primitive,
    readings: Readings,
    row: AlgorithmEstimate,
) -> tuple[BestSegments, ...]:
    """The best cut of what a row pipelines."""
    size = float(row.bytes)
    for schedule in candidates_for(fabric, group, primitive, readings).named([row.spec], [size]):
        if (schedule.title, schedule.protocol) == (row.title, row.protocol):
            return best_segments(schedule, size)
    return ()


def climb(definition: LadderDefinition, readings: Readings | None = None) -> Ladder:
    """Price every rung, ideal and realistic; the gap is to the fastest rung of the same primitive
    and size.

    What only the readings rule out, such as several links at once on one port, is left out with the
    reason.
    """
    base = readings or Readings()
    rungs: list[Rung] = []
    skipped: list[Infeasible] = []
    problems = []
    for rung in definition.rungs:
        only = [rung.algorithm] if rung.algorithm else []
        try:
            size = rung.size or definition.size
            real = price(
                rung.fabric, rung.primitive, size, rung.ranks, base._replace(ideal=False), only
            )
            only = only or [real.best.spec]  # what is fastest in reality serves both
            ideal = price(
                rung.fabric, rung.primitive, size, rung.ranks, base._replace(ideal=True), only
            )
            rungs.append(
                Rung(
                    rung.primitive,
                    rung.fabric.name,
                    ideal.best.title,
                    real.ranks,
                    ideal.best,
                    real.best,
                )
            )
        except ColltoolError as error:
            if isinstance(error, CannotRun) and _runs_usually(rung):
                skipped.append(
                    Infeasible(
                        f"{rung.primitive.spoken} by {rung.algorithm} on {rung.fabric.name}",
                        error.reason,
                    )
                )
                continue
            argument = "" if rung.where else error.argument
            problems.append(
                ColltoolError(
                    error.what, where=rung.where or error.where, argument=argument, fix=error.fix
                )
            )
    if problems:
        raise problems[0] if len(problems) == 1 else ManyErrors(problems)
    rows = []
    for one in rungs:
        same = [
            other
            for other in rungs
            if (other.primitive, other.ideal.bytes) == (one.primitive, one.ideal.bytes)
        ]
        ideal_s = min(float(other.ideal.total_s) for other in same)
        real_s = min(float(other.realistic.total_s) for other in same)
        gaps = float(one.ideal.total_s / ideal_s), float(one.realistic.total_s / real_s)
        rows.append(one._replace(gap_ideal=gaps[0], gap_realistic=gaps[1]))
    return Ladder(
        definition.name, definition.description, definition.size, tuple(rows), base, tuple(skipped)
    )


def _runs_usually(rung: RungDefinition) -> bool:
    """Whether only the readings keep a rung from being priced."""
    listed = candidates_for(rung.fabric, rung.ranks, rung.primitive, Readings())
    try:
        return bool(rung.algorithm and listed.named([rung.algorithm]))
    except CannotRun:
        return False


def with_turn(
    prices: tuple[Price, ...], fabric: Fabric, group: AnyGroup, readings: Readings
) -> tuple[Price, ...]:
    """Add to each price the schedule that leads under ``ports=one``, if another. ``prices`` must
    include all algorithms."""
    found = []
    for one in prices:
        leads = _leads_on_one_port(one, fabric, group, readings)
        found.append(
            replace(one, leads_on_one_port=leads[0] if isinstance(one.bytes, float) else leads)
        )
    return tuple(found)


def _leads_on_one_port(
    priced: Price, fabric: Fabric, group: AnyGroup, readings: Readings
) -> tuple[str, ...]:
    """At each size; empty where the same schedule leads, or does not post to all peers at once on
    links of their own."""
    rows, nobody = (
        priced.leading,
        ("",) * (1 if isinstance(priced.bytes, float) else len(priced.bytes)),
    )
    if readings.ports == "one" or not rows:
        return nobody
    first = _firsts(priced)
    several = any(capabilities_of(tier).joined_by != "switches" for tier in fabric.tiers)
    posting = {row.name for row in every_algorithm() if row.caveat is many_sends}
    turns = {
        at: several or bool(posting & {rows[at].choice.base, *rows[at].choice.tiers})
        for at in set(first)
    }
    if not any(turns.values()):
        return nobody
    one_port = price(fabric, priced.primitive, priced.bytes, group, readings._replace(ports="one"))
    others = one_port.leading
    if not others:
        return nobody
    pairs = list(zip(first, _firsts(one_port), strict=True))
    named = {
        (at, to): others[to].title if turns[at] and others[to].spec != rows[at].spec else ""
        for at, to in set(pairs)
    }
    return tuple(named[pair] for pair in pairs)


def _firsts(priced: Price) -> list[int]:
    if isinstance(priced.bytes, float):
        return [0]
    index: list[int] = first_least([row.total_s for row in priced.leading]).tolist()
    return index
