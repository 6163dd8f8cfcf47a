"""``verify``: execute every algorithm's schedule and hold its formula against what was counted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.algorithms.composed import compositions
from colltool.algorithms.executor import Outcome
from colltool.algorithms.program import effort, maker
from colltool.algorithms.registry import Algorithm, algorithms, find, on_request, parse_choice
from colltool.algorithms.trace import Trace, Vectors
from colltool.base.errors import ColltoolError, given, said
from colltool.base.primitives import Primitive
from colltool.base.result import Result
from colltool.custom.schedule import OwnSchedule
from colltool.estimate.assumptions import Readings
from colltool.estimate.cost_model import CostModel
from colltool.estimate.groups import PlacedGroup, flat_group, place
from colltool.estimate.hierarchical import hierarchical_candidates
from colltool.estimate.path_classes import PathClasses
from colltool.estimate.phase_costs import cost_flat
from colltool.estimate.placement import AnyGroup, GroupPlacement, count_within
from colltool.estimate.results import Infeasible
from colltool.fabric.model import Fabric
from colltool.network.group import Group
from colltool.verification import executed
from colltool.verification.executed import VERDICTS, Counts, Seconds, Verdict
from colltool.verification.own_cost import check_ranks, own_cost

SEGMENTS, TRACED_SEGMENTS = 16, 2
_QUICK = 512  # ranks whose proofs take seconds
# beyond it a schedule takes minutes and gigabytes; its formula says nothing new there
MOST_MESSAGES = 40_000_000
MOST_TRACED = 16  # ranks whose steps can be followed


class Verified(NamedTuple):
    """One algorithm, executed; pairs are (formula or price, executed); an algorithm of one's own
    has no formula."""

    primitive: Primitive
    algorithm: str
    fabric: str
    group: GroupPlacement
    verdict: Verdict
    n_alpha: tuple[float | None, float]
    n_beta: tuple[float | None, float]
    post_condition: bool
    note: str
    # without the launch overhead; None: only counts compare, and the note says why
    time_s: tuple[float, float] | None = None
    spec: str = ""  # as ``--algorithm`` takes it
    trace: Trace | None = None  # every step, where asked for
    simulated_s: float | None = None  # of the same schedule in a simulator, where asked for

    @property
    def ranks(self) -> int:
        return self.group.ranks


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Result):
    """Every algorithm that was executed, and those that were not, with the reason."""

    subject: ClassVar[str] = "verify"
    results: tuple[Verified, ...]
    skipped: tuple[Infeasible, ...]
    overrides: tuple[tuple[str, str], ...] = ()
    simulator: str = ""

    @property
    def holds(self) -> bool:
        return all(one.verdict != "mismatch" for one in self.results)


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


def verify(
    fabric: Fabric,
    primitives: Sequence[Primitive],
    size: float,
    group: AnyGroup = None,
    segments: int | None = None,
    names: Sequence[str] = (),
    *,
    trace: bool = False,
    vectors: Vectors = (),
    own: Sequence[OwnSchedule] = (),
) -> Verification:
    """Execute every algorithm that runs on a group, or those ``names``, and the textbook choice of
    each composition.

    ``own``: further schedules, already proved; without ``names`` only these.

    ``size``: M in bytes, for the times. ``segments``: P of pipelined algorithms; None: 16, or 2 for
    a trace, which writes down every step. ``vectors``: for a trace, the numbers that each rank
    starts with, or ``example``; its messages then carry values.
    """
    segments = segments or (TRACED_SEGMENTS if trace else SEGMENTS)
    readings = Readings(ideal=True, pipelining=segments, ring_alpha="worst", phases="sequential")
    placed = place(fabric, group)
    if trace and placed.ranks > MOST_TRACED:
        what = f"the steps of {placed.ranks} ranks are too many to read"
        raise ColltoolError(
            what, argument="trace", fix=f"take {given('ranks', MOST_TRACED)} or fewer"
        )
    vectors = _for_each_rank(vectors, placed.ranks)
    known = {row.name for primitive in primitives for row in algorithms(primitive)}
    known |= {row.name for row in on_request() if row.primitive in primitives}
    known |= {row.name for primitive in primitives for row in compositions(primitive)}
    for base in (parse_choice(name).base for name in names):
        if base not in known:
            find(primitives[0], base, [row.name for row in compositions(primitives[0])])
    seen, reach = flat_group(placed, readings)
    run = _GroupRun(
        placed, seen, reach, readings, size=size, segments=segments, trace=trace, vectors=vectors
    )
    found = (
        []
        if own and not names
        else [one for primitive in primitives for one in _each(run, primitive, names)]
    )
    found += [_own(run, one) for one in own]
    done = tuple(one for one in found if isinstance(one, Verified))
    skipped = tuple(one for one in found if isinstance(one, Infeasible))
    if not done:
        reasons = (
            "; ".join(dict.fromkeys(f"{one.algorithm}: {one.reason}" for one in skipped))
            or "price lists what can run"
        )
        raise ColltoolError(
            f"nothing to execute on {placed.placement.spoken} of {fabric.name}", fix=reasons
        )
    return Verification(
        done, tuple(one._replace(reason=said(one.reason)) for one in skipped), fabric.overrides
    )


def _for_each_rank(vectors: Vectors, ranks: int) -> Vectors:
    """A vector for each rank; one alone has the numbers of all, rank by rank."""
    if vectors == "example" or not vectors:
        return vectors
    if len(vectors) == 1:
        numbers, (length, over) = vectors[0], divmod(len(vectors[0]), ranks)
        if over or not length:
            fix = f"as many for each rank: {ranks}, {2 * ranks}, {ranks * ranks}"
            raise ColltoolError(
                f"{len(numbers)} numbers for {ranks} ranks", argument="values", fix=fix
            )
        return [numbers[start : start + length] for start in range(0, len(numbers), length)]
    if len(vectors) != ranks or len({len(vector) for vector in vectors}) > 1:
        lengths = " and ".join(map(str, sorted({len(vector) for vector in vectors})))
        what = f"{len(vectors)} vectors of {lengths} values for {ranks} ranks"
        raise ColltoolError(
            what, argument="values", fix="one vector for each rank, all of the same length"
        )
    return vectors


def _each(
    run: _GroupRun, primitive: Primitive, names: Sequence[str]
) -> Iterator[Verified | Infeasible]:
    """All that can run or, if any are named, those."""
    chosen = list(map(parse_choice, names))
    for row in [
        *algorithms(primitive),
        *(row for row in on_request() if row.primitive is primitive),
    ]:
        groups = [row.on(run.group, choice) for choice in chosen if choice.base == row.name]
        if not names and not row.counts and row.why_not(run.group) is None:
            groups = [run.group]
        for seen in groups:
            reason = row.why_not(seen) or why_not_executed(row, seen, run.segments, run.placed)
            yield (
                _skipped(row.chosen(seen).spec, primitive, reason)
                if reason
                else _flat(row, run._replace(group=seen))
            )
    for bench in hierarchical_candidates(run.placed, primitive, run.readings):
        for tiers in [one.tiers for one in chosen if one.base == bench.row.name] if names else [()]:
            yield _composed(run, bench.named(tiers) if tiers else bench.usual())


def _skipped(name: str, primitive: Primitive, reason: str) -> Infeasible:
    return Infeasible(f"{name} ({primitive.spoken})", reason)


def why_not_executed(
    row: Algorithm, group: Group, segments: int, placed: PlacedGroup, most: int = MOST_MESSAGES
) -> str:
    on_unlike_alone = row.name == "multi-rail-ring" and not group.domains
    if maker(row.primitive, row.name) is None or on_unlike_alone:
        return (
            "a baseline: the schedule of ring or pairwise over other links"
            if row.baseline
            else "no schedule is written for it"
        )
    cut = segments if _pipelined(row, group) else None
    if effort(row.primitive, row.name, group.ranks, cut) <= most:
        return ""
    if cut is None:
        fewer = count_within(placed.fabric, _QUICK, placed.placement.stride)
        cure = f"; take {given('ranks', fewer)}" if fewer else ""
        return f"{group.ranks} ranks are too many to execute{cure}"
    fewest = max(1, most // effort(row.primitive, row.name, group.ranks, 1))
    return (
        f"{segments} segments on {group.ranks} ranks are too many to execute; take"
        f" {given('segments', fewest)} or fewer"
    )


def _pipelined(row: Algorithm, group: Group) -> bool:
    return any(terms.fill is not None for terms in row.schedule(group))


def _flat(row: Algorithm, run: _GroupRun) -> Verified:
    group, segments = run.group, run.segments
    costed = cost_flat(row, group, run.reach, run.readings)
    done = executed.flat(row, group, segments)
    wanted = (
        executed.costed_counts(costed, segments)
        if group.wires
        else executed.formula(row, group, segments)
    )
    judged = executed.judge(
        row.status_on(group), wanted, done.counts, done.busiest, streamed=done.streamed
    )
    took = executed.seconds(row, group, run.placed, costed, done, size=run.size, segments=segments)
    trace = executed.flat_trace(row, group, segments, run.vectors) if run.trace else None
    first = f"{segments} segments" if _pipelined(row, group) else ""
    return _verified(
        run, costed, judged, [(wanted, done.counts)], done.outcome, took, first=first, trace=trace
    )


def _composed(run: _GroupRun, costed: CostModel) -> Verified | Infeasible:
    """A composition: the worst tier's verdict, the counts added up over the tiers."""
    placed, segments, readings = run.placed, run.segments, run.readings
    if placed.ranks**2 > MOST_MESSAGES:
        return _skipped(
            costed.title, costed.primitive, f"{placed.ranks} ranks are too many to execute"
        )
    try:
        outcome, tiers, took = executed.composed(placed, costed, segments, readings, run.size)
    except ValueError as error:
        return _skipped(costed.title, costed.primitive, str(error))
    verdicts = [
        executed.judge(costed.status, wanted, counted, counted.n_beta) for wanted, counted in tiers
    ]
    trace = (
        executed.composed_trace(placed, costed, segments, readings, run.vectors)
        if run.trace
        else None
    )
    judged = max(verdicts, key=lambda one: VERDICTS.index(one[0]))
    return _verified(run, costed, judged, tiers, outcome, took, first="", trace=trace)


def _own(run: _GroupRun, schedule: OwnSchedule) -> Verified:
    """A schedule of one's own, whose result was proved when it was read: its counts and seconds on
    this group."""
    check_ranks(schedule, run.placed)
    costed = own_cost(schedule, run.placed, run.readings)
    counted, took = executed.own(run.placed, run.group, schedule.program(), run.size)
    price, note, trace = costed.at(run.size), f"{schedule.form}, {schedule.messages} messages", None
    if run.trace and (trace := executed.own_trace(run.group, schedule, run.vectors)) is None:
        note += "; it uses scratch, so its steps are not printed"
    return Verified(
        primitive=schedule.primitive,
        algorithm=costed.title,
        fabric=run.placed.fabric.name,
        group=run.placed.placement,
        verdict="proved",
        n_alpha=(None, counted.n_alpha),
        n_beta=(None, counted.n_beta),
        post_condition=True,
        note=note,
        time_s=(float(price.steps_s + price.moved_s), took.total_s),
        spec=costed.choice.spec,
        trace=trace,
    )


def _verified(
    run: _GroupRun,
    costed: CostModel,
    judged: tuple[Verdict, str],
    tiers: list[tuple[Counts, Counts]],
    outcome: Outcome,
    took: Seconds | str,
    *,
    first: str,
    trace: Trace | None,
) -> Verified:
    """The row of an execution whose counts, tier by tier, were judged."""
    verdict, note = judged if outcome.holds else ("mismatch", outcome.problem)
    verdict, more, time = executed.timed(verdict, run.placed, costed, took, run.size)
    wanted, counted = (
        Counts(*map(sum, zip(*side, strict=True))) for side in zip(*tiers, strict=True)
    )
    return Verified(
        primitive=costed.primitive,
        algorithm=costed.title,
        fabric=run.placed.fabric.name,
        group=run.placed.placement,
        verdict=verdict,
        n_alpha=(wanted.n_alpha, counted.n_alpha),
        n_beta=(wanted.n_beta, counted.n_beta),
        post_condition=outcome.holds,
        note="; ".join(filter(None, [first, note, more])),
        time_s=time,
        spec=costed.choice.spec,
        trace=trace,
    )
