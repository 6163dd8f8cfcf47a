"""``verify``: executes the schedules of algorithms and compares them with their formulas and prices.

:func:`verify` is the entry. It decides which algorithms run on a group and which of them are small
enough to execute; :mod:`colltool.verification.executed` executes each of them, and
:mod:`colltool.verification.verdicts` judges it. For every algorithm there is a row: a
:class:`Verified`, or an ``Infeasible`` with the reason why it was skipped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from colltool.algorithms.composed import composition_names
from colltool.algorithms.executor import Outcome
from colltool.algorithms.program import estimated_messages, program_maker
from colltool.algorithms.registry import Algorithm, Choice, algorithms, find, on_request
from colltool.algorithms.trace import Trace, Vectors
from colltool.base.errors import ColltoolError, argument_text, localize
from colltool.base.primitives import Primitive
from colltool.base.result import Result, with_progress
from colltool.custom.schedule import CustomSchedule
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.candidates import choice_on
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
from colltool.verification.custom_cost import check_ranks, schedule_cost
from colltool.verification.verdicts import (
    VERDICTS,
    CountPair,
    Counts,
    Seconds,
    TimePair,
    Verdict,
    judge,
    judge_time,
    price_s,
)

SEGMENTS = 16  # of pipelined algorithms by default
TRACED_SEGMENTS = 2  # in a trace, short enough to be read
_QUICK_RANKS = 512  # a group whose verification takes seconds, suggested where a group is too large
# A larger schedule takes minutes and gigabytes to execute.
MOST_MESSAGES = 40_000_000
MOST_TRACED = 16  # ranks in a trace, few enough to be read


class Verified(NamedTuple):
    """An executed algorithm."""

    primitive: Primitive
    algorithm: str
    fabric: str  # its name
    group: GroupPlacement
    verdict: Verdict
    n_alpha: CountPair  # a custom schedule has no formula
    n_beta: CountPair
    post_condition: bool  # whether the result is right
    note: str
    time_s: TimePair | None = None  # None: only counts are compared; the note says why
    spec: str = ""  # as ``--algorithm`` takes it
    trace: Trace | None = None  # every step, if requested
    simulated_s: float | None = None  # the same schedule in a simulator, if requested

    @property
    def ranks(self) -> int:
        """N."""
        return self.group.ranks


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Result):
    """Every algorithm that was executed, and those that were not, with the reason: a name with its
    primitive, and why."""

    subject: ClassVar[str] = "verify"
    results: tuple[Verified, ...]
    skipped: tuple[Infeasible, ...]
    overrides: tuple[tuple[str, str], ...] = ()
    simulator: str = ""  # the name of the one that simulated, if requested

    @property
    def holds(self) -> bool:
        """Whether no algorithm is a mismatch."""
        return all(verified.verdict != "mismatch" for verified in self.results)


class _GroupRun(NamedTuple):
    """A group and how algorithms are executed on it."""

    placed: PlacedGroup
    group: Group  # as flat algorithms see it
    paths: PathClasses  # of flat algorithms
    options: ModelOptions
    size: float  # M in bytes
    segments: int  # P of pipelined algorithms
    trace: bool  # record every step
    vectors: Vectors  # the numbers that a trace starts with


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
    custom: Sequence[CustomSchedule] = (),
) -> Verification:
    """Execute every algorithm that runs on a group, or those ``names``, and the textbook choice of
    each composition.

    Args:
        custom: further schedules, whose results are checked already; without ``names`` only these.
        size: M in bytes, for the times.
        segments: P of pipelined algorithms; None: 16, or 2 for a trace.
        trace: record every step.
        vectors: for a trace, the numbers that each rank starts with, or ``example``; its messages
            then carry values.

    Raises:
        ColltoolError: a name that no primitive has, a trace or vectors that do not fit the ranks, or
            nothing that can be executed.
    """
    if segments is None:
        segments = TRACED_SEGMENTS if trace else SEGMENTS
    placed = place(fabric, group)
    if trace and placed.ranks > MOST_TRACED:
        raise ColltoolError(
            f"the steps of {placed.ranks} ranks are too many to read",
            argument="trace",
            fix=f"take {argument_text('ranks', MOST_TRACED)} or fewer",
        )
    vectors = _vector_of_each_rank(vectors, placed.ranks)
    options = executed.model_options(segments, ideal=True)
    choices: list[Choice] = []
    for primitive in primitives:
        for name in names:
            choice = choice_on(placed, primitive, options, name)
            if choice not in choices:
                choices.append(choice)
    _check_names(primitives, choices)
    flat, paths = flat_group(placed, options)
    run = _GroupRun(
        placed=placed,
        group=flat,
        paths=paths,
        options=options,
        size=size,
        segments=segments,
        trace=trace,
        vectors=vectors,
    )
    rows: list[Verified | Infeasible] = []
    if names or not custom:
        for primitive in with_progress(primitives):
            rows += _flat_rows(run, primitive, choices)
            rows += _composed_rows(run, primitive, choices)
    rows += [_execute_custom(run, schedule) for schedule in custom]
    verified = tuple(row for row in rows if isinstance(row, Verified))
    skipped = tuple(row for row in rows if isinstance(row, Infeasible))
    if not verified:
        reasons = "; ".join(dict.fromkeys(f"{row.algorithm}: {row.reason}" for row in skipped))
        raise ColltoolError(
            f"nothing to execute on {placed.placement.label} of {fabric.name}",
            fix=reasons or "price lists what can run",
        )
    skipped = tuple(row._replace(reason=localize(row.reason)) for row in skipped)
    return Verification(verified, skipped, fabric.overrides)


def _vector_of_each_rank(vectors: Vectors, ranks: int) -> Vectors:
    """A vector for each rank; a single one is divided evenly over the ranks. None (empty) and the word
    ``example`` come back as they are.

    Raises:
        ColltoolError: numbers that do not fit the ranks.
    """
    if vectors == "example" or not vectors:
        return vectors
    if len(vectors) == 1:
        numbers = vectors[0]
        length, left_over = divmod(len(numbers), ranks)
        if left_over or not length:
            raise ColltoolError(
                f"{len(numbers)} numbers for {ranks} ranks",
                argument="values",
                fix=f"as many for each rank: {ranks}, {2 * ranks}, {ranks * ranks}",
            )
        return [numbers[start : start + length] for start in range(0, len(numbers), length)]
    lengths = sorted({len(vector) for vector in vectors})
    if len(vectors) != ranks or len(lengths) > 1:
        listed = " and ".join(map(str, lengths))
        raise ColltoolError(
            f"{len(vectors)} vectors of {listed} values for {ranks} ranks",
            argument="values",
            fix="one vector for each rank, all of the same length",
        )
    return vectors


def _check_names(primitives: Sequence[Primitive], choices: Sequence[Choice]) -> None:
    """Raise ColltoolError for a name that none of the primitives has."""
    known = {algorithm.name for algorithm in on_request() if algorithm.primitive in primitives}
    for primitive in primitives:
        known.update(row.name for row in algorithms(primitive))
        known.update(composition_names(primitive))
    for choice in choices:
        if choice.base not in known:
            # raises, with suggestions for the first primitive
            find(primitives[0], choice.base, composition_names(primitives[0]))


def _flat_rows(
    run: _GroupRun, primitive: Primitive, choices: Sequence[Choice]
) -> Iterator[Verified | Infeasible]:
    """Execute the flat algorithms that run on the group, or those that the user chose. One that takes a
    number, such as ``parameter-server:4``, runs only where it was chosen, once for each number."""
    on_demand = [row for row in on_request() if row.primitive is primitive]
    for algorithm in with_progress([*algorithms(primitive), *on_demand]):
        groups = [
            algorithm.on(run.group, choice) for choice in choices if choice.base == algorithm.name
        ]
        if not choices and not algorithm.counts and algorithm.why_not(run.group) is None:
            groups = [run.group]
        for group in groups:
            reason = algorithm.why_not(group) or why_not_executed(
                algorithm, group, run.segments, run.placed
            )
            if reason:
                yield _skipped_row(algorithm.chosen(group).spec, primitive, reason)
            else:
                yield _execute_flat(algorithm, group, run)


def _composed_rows(
    run: _GroupRun, primitive: Primitive, choices: Sequence[Choice]
) -> Iterator[Verified | Infeasible]:
    """Execute the textbook choice of each composition, or the compositions that the user chose: with
    the algorithms that a choice names for the tiers, or else with the textbook ones."""
    for composition in hierarchical_candidates(run.placed, primitive, run.options):
        if not choices:
            yield _execute_composed(run, composition.usual())
        for choice in choices:
            if choice.base == composition.definition.name:
                tiers = choice.tiers
                yield _execute_composed(
                    run, composition.named(tiers) if tiers else composition.usual()
                )


def _skipped_row(name: str, primitive: Primitive, reason: str) -> Infeasible:
    """The row of an algorithm that is not executed."""
    return Infeasible(f"{name} ({primitive.label})", reason)


def why_not_executed(
    algorithm: Algorithm,
    group: Group,
    segments: int,
    placed: PlacedGroup,
    most: int = MOST_MESSAGES,
) -> str:
    """Why an algorithm that runs on a group is not executed: it has no schedule, or moves more than
    roughly ``most`` chunks. Empty if it is."""
    # The schedule of this one is only for domains of different sizes, which a group lists.
    is_rail_ring_of_same_sizes = algorithm.name == "multi-rail-ring" and not group.domains
    if program_maker(algorithm.primitive, algorithm.name) is None or is_rail_ring_of_same_sizes:
        if algorithm.baseline:
            return "a baseline: the schedule of ring or pairwise over other links"
        return "no schedule is written for it"
    pipeline_segments = segments if _is_pipelined(algorithm, group) else None
    messages_in = partial(estimated_messages, algorithm.primitive, algorithm.name, group.ranks)
    if messages_in(pipeline_segments) <= most:
        return ""
    if pipeline_segments is None:
        fewer = count_within(placed.fabric, _QUICK_RANKS, placed.placement.stride)
        cure = f"; take {argument_text('ranks', fewer)}" if fewer else ""
        return f"{group.ranks} ranks are too many to execute{cure}"
    cure = f"take {argument_text('segments', max(1, most // messages_in(1)))} or fewer"
    return f"{segments} segments on {group.ranks} ranks are too many to execute; {cure}"


def _is_pipelined(algorithm: Algorithm, group: Group) -> bool:
    """Whether the schedule of an algorithm depends on the number of segments."""
    return any(terms.fill is not None for terms in algorithm.schedule(group))


def _execute_flat(algorithm: Algorithm, group: Group, run: _GroupRun) -> Verified:
    """Execute a flat algorithm and judge it."""
    segments = run.segments
    cost_model = cost_flat(algorithm, group, run.paths, run.options)
    execution = executed.execute_flat(algorithm, group, segments)
    if group.wires:
        # Where messages are routed, the formula has no count of links.
        expected = executed.costed_counts(cost_model, segments)
    else:
        expected = executed.formula_counts(algorithm, group, segments)
    verdict, note = judge(
        algorithm.status_on(group),
        expected,
        execution.counts,
        execution.busiest,
        streamed=execution.streamed,
    )
    seconds = executed.flat_seconds(
        algorithm, group, run.placed, cost_model, execution, size=run.size, segments=segments
    )
    return _verified_row(
        run,
        cost_model,
        (verdict, note),
        [(expected, execution.counts)],
        execution.outcome,
        seconds,
        cut=f"{segments} segments" if _is_pipelined(algorithm, group) else "",
        trace=executed.flat_trace(algorithm, group, segments, run.vectors) if run.trace else None,
    )


def _execute_composed(run: _GroupRun, cost_model: CostModel) -> Verified | Infeasible:
    """Execute a composition; its verdict is that of its worst tier, its counts are added up over the
    tiers."""
    placed = run.placed
    if placed.ranks**2 > MOST_MESSAGES:
        reason = f"{placed.ranks} ranks are too many to execute"
        return _skipped_row(cost_model.title, cost_model.primitive, reason)
    try:
        outcome, tiers, seconds = executed.execute_composed(
            placed, cost_model, run.segments, run.options, run.size
        )
    except ValueError as error:
        return _skipped_row(cost_model.title, cost_model.primitive, str(error))
    verdicts = [
        judge(cost_model.status, expected, counted, counted.n_beta) for expected, counted in tiers
    ]
    trace = None
    if run.trace:
        trace = executed.composed_trace(placed, cost_model, run.segments, run.options, run.vectors)
    verdict, note = max(verdicts, key=_badness)
    return _verified_row(
        run, cost_model, (verdict, note), tiers, outcome, seconds, cut="", trace=trace
    )


def _badness(judged: tuple[Verdict, str]) -> int:
    """How bad a verdict with its note is: its place in :data:`VERDICTS`, which end with the worst."""
    verdict, _ = judged
    return VERDICTS.index(verdict)


def _execute_custom(run: _GroupRun, schedule: CustomSchedule) -> Verified:
    """Execute a custom schedule, whose result was checked when it was read."""
    check_ranks(schedule, run.placed)
    cost_model = schedule_cost(schedule, run.placed, run.options)
    counted, seconds = executed.execute_custom(run.placed, run.group, schedule.program(), run.size)
    note = "; ".join((f"{schedule.form}, {schedule.messages} messages", *schedule.notes))
    trace = None
    if run.trace:
        trace = executed.custom_trace(run.group, schedule, run.vectors)
        if trace is None:
            note += "; it uses scratch, so its steps are not printed"
    return Verified(
        primitive=schedule.primitive,
        algorithm=cost_model.title,
        fabric=run.placed.fabric.name,
        group=run.placed.placement,
        verdict="proved",
        n_alpha=CountPair(None, counted.n_alpha),
        n_beta=CountPair(None, counted.n_beta),
        post_condition=True,
        note=note,
        time_s=TimePair(price_s(cost_model, run.size), seconds.total_s),
        spec=cost_model.choice.spec,
        trace=trace,
    )


def _verified_row(
    run: _GroupRun,
    cost_model: CostModel,
    judged: tuple[Verdict, str],
    tiers: list[tuple[Counts, Counts]],
    outcome: Outcome,
    seconds: Seconds | str,
    *,
    cut: str,
    trace: Trace | None,
) -> Verified:
    """The result of an execution: the verdict on its counts and on its time.

    Args:
        judged: the verdict on counts, and a note on it.
        tiers: the expected and the executed counts of each tier.
        seconds: the execution's time, or the reason why it is not known.
        cut: into how many segments, for the note; empty where nothing is cut.
    """
    verdict, note = judged if outcome.holds else ("mismatch", outcome.problem)
    verdict, time_note, time_s = judge_time(verdict, run.placed, cost_model, seconds, run.size)
    return Verified(
        primitive=cost_model.primitive,
        algorithm=cost_model.title,
        fabric=run.placed.fabric.name,
        group=run.placed.placement,
        verdict=verdict,
        n_alpha=CountPair(
            sum(expected.n_alpha for expected, _ in tiers),
            sum(counted.n_alpha for _, counted in tiers),
        ),
        n_beta=CountPair(
            sum(expected.n_beta for expected, _ in tiers),
            sum(counted.n_beta for _, counted in tiers),
        ),
        post_condition=outcome.holds,
        note="; ".join(filter(None, [cut, note, time_note])),
        time_s=time_s,
        spec=cost_model.choice.spec,
        trace=trace,
    )
