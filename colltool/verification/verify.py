"""``verify``: execute every algorithm's schedule and hold its formula against what was counted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.algorithms.composed import compositions
from colltool.algorithms.group import Group
from colltool.algorithms.registry import Algorithm, algorithms, find, on_request, parse_choice
from colltool.base.errors import ColltoolError, given, said
from colltool.base.primitives import Primitive
from colltool.estimate.algorithm_estimate import titled
from colltool.estimate.assumptions import Readings
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, flat_group, place
from colltool.estimate.hierarchical import hierarchical_candidates
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.phase_costs import cost_flat
from colltool.estimate.placement import AnyGroup, count_within
from colltool.estimate.results import Infeasible
from colltool.fabric.model import Fabric
from colltool.schedules.program import effort, maker
from colltool.schedules.trace import Vectors
from colltool.verification.executed import Counts, composed, composed_trace, flat, flat_trace, formula, judge, seconds, timed
from colltool.verification.results import VERDICTS, Verification, Verified

SEGMENTS, TRACED_SEGMENTS = 16, 2
_QUICK = 512  # ranks whose proofs take seconds
MOST_MESSAGES = 40_000_000  # beyond it a schedule takes minutes and gigabytes; its formula says nothing new there
MOST_TRACED = 8  # ranks whose steps fit on a page


class _GroupRun(NamedTuple):
    """What the executions on one group share."""

    placed: PlacedGroup
    group: Group
    reach: PathClasses
    readings: Readings
    size: float  # M in bytes
    segments: int  # P of pipelined algorithms
    trace: bool  # write down every step
    vectors: Vectors  # the numbers that it runs on


def verify(fabric: Fabric, primitives: Sequence[Primitive], size: float, group: AnyGroup = None,
           segments: int | None = None, names: Sequence[str] = (), *, trace: bool = False,
           vectors: Vectors = ()) -> Verification:  # fmt: skip
    """Execute every algorithm that runs on a group, and the textbook choice of each composition.

    Args:
        size: M in bytes, for the times.
        segments: P of pipelined algorithms; None: 16, or 2 for a trace.
        names: only these algorithms.
        trace: write down every step.
        vectors: for a trace, the numbers that each rank starts with, or ``example``; its messages and holdings then carry values.

    Raises:
        ColltoolError: a group that does not fit, nothing of that name runs there, or not one vector a rank.
    """
    segments = segments or (TRACED_SEGMENTS if trace else SEGMENTS)
    readings = Readings(ideal=True, pipelining=segments, ring_alpha="worst", phases="sequential")
    placed = place(fabric, group)
    if trace and placed.ranks > MOST_TRACED:
        what = f"the steps of {placed.ranks} ranks are too many to read"
        raise ColltoolError(what, argument="trace", fix=f"take {given('ranks', MOST_TRACED)} or fewer")
    if vectors != "example" and vectors and (len(vectors) != placed.ranks or len({len(one) for one in vectors}) > 1):
        lengths = " and ".join(map(str, sorted({len(one) for one in vectors})))
        what = f"{len(vectors)} vectors of {lengths} values for {placed.ranks} ranks"
        raise ColltoolError(what, argument="values", fix="one vector for each rank, all of the same length")
    _check_names(primitives, names)
    run = _GroupRun(
        placed, *flat_group(placed, readings), readings=readings, size=size, segments=segments, trace=trace, vectors=vectors
    )
    found = [one for primitive in primitives for one in _each(run, primitive, names)]
    done = tuple(one for one in found if isinstance(one, Verified))
    skipped = tuple(one for one in found if isinstance(one, Infeasible))
    if not done:
        reasons = "; ".join(dict.fromkeys(f"{one.algorithm}: {one.reason}" for one in skipped)) or "price lists what can run"
        raise ColltoolError(f"nothing to execute on {placed.placement.spoken} of {fabric.name}", fix=reasons)
    return Verification(done, tuple(one._replace(reason=said(one.reason)) for one in skipped), fabric.overrides)


def _check_names(primitives: Sequence[Primitive], names: Sequence[str]) -> None:
    for name in names:
        base = parse_choice(name).base
        known = [row.name for p in primitives for row in [*algorithms(p), *on_request()] if row.primitive is p] + [
            row.name for p in primitives for row in compositions(p)
        ]
        if base not in known:
            find(primitives[0], base, [row.name for row in compositions(primitives[0])])


def _each(run: _GroupRun, primitive: Primitive, names: Sequence[str]) -> Iterator[Verified | Infeasible]:
    placed, readings, segments = run.placed, run.readings, run.segments
    for row, seen in _rows(primitive, run.group, names):
        reason = row.why_not(seen) or _why_skip(row, seen, segments, placed)
        if reason:
            yield Infeasible(_called(row.chosen(seen).spec, primitive), reason)
        else:
            yield _flat(row, run._replace(group=seen))
    for bench in hierarchical_candidates(placed, primitive, readings):
        chosen = [one.tiers for one in map(parse_choice, names) if one.base == bench.row.name]
        for tiers in chosen if names else [()]:
            yield _composed(run, bench.named(tiers) if tiers else bench.usual())


def _rows(primitive: Primitive, group: Group, names: Sequence[str]) -> Iterator[tuple[Algorithm, Group]]:
    """What to execute: all that can run or, if any are named, those; each with the group as it sees it."""
    for row in [*algorithms(primitive), *(row for row in on_request() if row.primitive is primitive)]:
        for choice in map(parse_choice, names):
            if choice.base == row.name:
                yield row, row.on(group, choice)
        if not names and not row.counts and row.why_not(group) is None:
            yield row, group


def _called(name: str, primitive: Primitive) -> str:
    return f"{name} ({primitive.spoken})"


def _why_skip(row: Algorithm, group: Group, segments: int, placed: PlacedGroup) -> str:
    if maker(row.primitive, row.name) is None:
        return (
            "a baseline: the schedule of ring or pairwise over other links" if row.baseline else "no schedule is written for it"
        )
    cut = segments if _pipelined(row, group) else None
    if effort(row.primitive, row.name, group.ranks, cut) <= MOST_MESSAGES:
        return ""
    if cut is None:
        fewer = count_within(placed.fabric, _QUICK, placed.placement.stride)
        cure = f"; take {given('ranks', fewer)}" if fewer else ""
        return f"{group.ranks} ranks are too many to execute{cure}"
    fewest = max(1, MOST_MESSAGES // effort(row.primitive, row.name, group.ranks, 1))
    return f"{segments} segments on {group.ranks} ranks are too many to execute; take {given('segments', fewest)} or fewer"


def _pipelined(row: Algorithm, group: Group) -> bool:
    return any(terms.fill is not None for terms in row.schedule(group))


def _flat(row: Algorithm, run: _GroupRun) -> Verified:
    placed, group, reach, readings, size, segments, trace, vectors = run
    execution, wanted = flat(row, group, segments), formula(row, group, segments)
    verdict, note = judge(row.status_on(group), wanted, execution.counts, execution.busiest, streamed=execution.streamed)
    if not execution.outcome.holds:
        verdict, note = "mismatch", execution.outcome.problem
    notes = [f"{segments} segments"] if _pipelined(row, group) else []
    costed = cost_flat(row, group, reach, readings)
    took = seconds(row, group, placed, costed, execution, size=size, segments=segments)
    verdict, more, time = timed(verdict, placed, costed, took, size)
    return Verified(
        primitive=row.primitive,
        algorithm=titled(row.chosen(group)),
        fabric=placed.fabric.name,
        group=placed.placement,
        verdict=verdict,
        n_alpha=(wanted.n_alpha, execution.counts.n_alpha),
        n_beta=(wanted.n_beta, execution.counts.n_beta),
        post_condition=execution.outcome.holds,
        note="; ".join(filter(None, [*notes, note, more])),
        time_s=time,
        spec=row.chosen(group).spec,
        trace=flat_trace(row, group, segments, vectors) if trace else None,
    )


def _composed(run: _GroupRun, costed: CostModel) -> Verified | Infeasible:
    """A composition: the worst tier's verdict, the counts added up over the tiers."""
    placed, segments, readings, size = run.placed, run.segments, run.readings, run.size
    if placed.ranks**2 > MOST_MESSAGES:
        return Infeasible(_called(costed.title, costed.primitive), f"{placed.ranks} ranks are too many to execute")
    try:
        outcome, tiers, took = composed(placed, costed, segments, readings, size)
    except ValueError as error:
        return Infeasible(_called(costed.title, costed.primitive), str(error))
    verdicts = [judge(costed.status, wanted, counted, counted.n_beta) for wanted, counted in tiers]
    verdict, note = max(verdicts, key=lambda one: VERDICTS.index(one[0]))
    if not outcome.holds:
        verdict, note = "mismatch", outcome.problem
    verdict, more, time = timed(verdict, placed, costed, took, size)
    wanted, counted = (Counts(*map(sum, zip(*side, strict=True))) for side in zip(*tiers, strict=True))
    return Verified(
        primitive=costed.primitive,
        algorithm=costed.title,
        fabric=placed.fabric.name,
        group=placed.placement,
        verdict=verdict,
        n_alpha=(wanted.n_alpha, counted.n_alpha),
        n_beta=(wanted.n_beta, counted.n_beta),
        post_condition=outcome.holds,
        note="; ".join(filter(None, [note, more])),
        time_s=time,
        spec=costed.choice.spec,
        trace=composed_trace(placed, costed, segments, readings, run.vectors) if run.trace else None,
    )
