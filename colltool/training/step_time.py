"""The time of a whole training step, and of the same step with a free network.

:func:`step_time` prices each kind of stage (:func:`stage_step`): a micro-batch with the calls of
its layers, borders between stages, and what is sent once a step. The pipeline schedule makes a time
of the micro-batches; the optimizer, a stack's fixed time and jitter come on top.
:func:`calibrated` finds the speed at which the step is a measured one.

Parts that layouts of a search share are priced once, in views of their configuration without what
the part does not depend on (:func:`views`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log2
from typing import NamedTuple

from colltool.base.formatting import format_time
from colltool.base.primitives import A2A, AG, P2P
from colltool.training.calls import (
    BORDER_CALLS,
    DIMENSIONS,
    GRADIENT_CALLS,
    MICRO_BATCH_CALLS,
    UPDATE_CALLS,
    Call,
    Generators,
    Hiding,
    stage_calls,
)
from colltool.training.collective_cost import CollectiveCost, CollectiveCostCache
from colltool.training.compute_times import StageTimes, stage_times
from colltool.training.dispatchers import exchange_cost
from colltool.training.job import Job, PlainCall
from colltool.training.offload import with_offload
from colltool.training.operations import Phase
from colltool.training.overlap import (
    ROUNDING,
    OverlapModel,
    PassBuckets,
    PricedCall,
    borders,
    pass_buckets,
    priced,
    under_all_compute,
)
from colltool.training.overlap_slowdown import slowed_s
from colltool.training.parallel_config import ParallelConfig, Shard
from colltool.training.pipeline_stages import (
    PipelineStage,
    bubble_divisor,
    once_a_kind,
    pipeline_stages,
)
from colltool.training.strategies import Pass, pipeline_s
from colltool.training.updates import optimizer_s
from colltool.training.violation import Violation

# values of ``Call.hides`` of calls that hide under a whole pass, as buckets do; a call of a neighbour
# layer is among them where it is sent once a step
UNDER_A_PASS = ("last backward", "first forward", "neighbour layer")
JITTER_FROM = 8  # most devices without jitter: published weak-scaling series start at one node
# lowest and highest factor of a measured step over its plan that a stack explains: stacks of one
# device differ by 20 to 40% in published runs, one stack over its releases by up to 38%
BELIEVED = (0.5, 2.0)


@dataclass(frozen=True)
class StageStep:
    """A pipeline stage's part of a step."""

    stage: PipelineStage
    compute: StageTimes  # of one micro-batch
    passed: Pass  # one micro-batch with its exposed communication
    sent: tuple[PricedCall, ...]  # with the exposed seconds of each
    borders_s: float  # exposed seconds of messages to the next stages
    once_s: float  # exposed after the pipeline: gradients, weights, updates
    optimizer_s: float
    slowed_s: float  # compute lost to communication on the same multiprocessors

    @property
    def tail_s(self) -> float:
        """Seconds of the stage after its last micro-batch."""
        return self.once_s + self.optimizer_s + self.slowed_s


class StepPart(NamedTuple):
    """Seconds of a step that go to compute, to a dimension's calls, or to something else."""

    name: str  # a dimension, "compute", "bubble", "optimizer" ...
    hidden_s: float  # seconds of calls under compute
    exposed_s: float  # seconds added to the step


class TrainingStep(NamedTuple):
    """A priced step with its stages."""

    config: ParallelConfig
    step_s: float  # all of it, jitter included
    control_s: float  # the step with a free network
    stages: tuple[StageStep, ...]  # one for each of the pipeline; stages of a kind share a record
    slowest: StageStep  # with the longest micro-batch, on which the others wait
    last: StageStep  # with the longest tail after the pipeline, wherever it stands in it
    pipeline_s: float  # all micro-batches and the bubble, without borders and tail
    fixed_s: float
    jitter: float  # share of the step, jitter included

    @property
    def sent(self) -> list[PricedCall]:
        """Calls of all stages."""
        return list(chain.from_iterable(stage.sent for stage in self.stages))

    @property
    def critical_calls(self) -> tuple[PricedCall, ...]:
        """Calls whose seconds are in the parts of the step.

        Those of micro-batches on the slowest stage, of borders on the stage that waits longest for
        them, and those that the last stage sends once.
        """
        waiting = max(self.stages, key=lambda stage: stage.borders_s)
        if not waiting.borders_s:
            waiting = self.slowest
        return (
            *(call for call in self.slowest.sent if call.call.per not in ("step", "border")),
            *(call for call in waiting.sent if call.call.per == "border"),
            *(call for call in self.last.sent if call.call.per == "step"),
        )

    @property
    def parts(self) -> tuple[StepPart, ...]:
        """Seconds of the step by what they go to; the exposed ones sum to ``step_s``. Compute is
        always there, other parts only where they take time."""
        m = self.config.micro_batches
        parts = (
            StepPart("compute", 0.0, m * self.slowest.compute.all.total_s),
            *_by_dimension(self.critical_calls),
            StepPart("bubble", 0.0, self.pipeline_s - m * self.slowest.passed.total_s),
            StepPart("optimizer", 0.0, self.last.optimizer_s),
            StepPart("overlap slows compute", 0.0, self.last.slowed_s),
            StepPart("fixed", 0.0, self.fixed_s),
            StepPart("jitter", 0.0, self.jitter * self.step_s),
        )
        rounding_s = ROUNDING * self.step_s
        return tuple(
            part
            for part in parts
            if part.name == "compute" or abs(part.exposed_s) > rounding_s or part.hidden_s
        )


def _by_dimension(calls: Iterable[PricedCall]) -> Iterator[StepPart]:
    """Yield a part for each dimension, in the order of DIMENSIONS; then those of plain calls, by
    name."""
    by_name: dict[str, list[PricedCall]] = {}
    for call in calls:
        by_name.setdefault(call.call.dimension, []).append(call)
    known = [name for name in DIMENSIONS if name in by_name]
    for name in (*known, *sorted(set(by_name) - set(DIMENSIONS))):
        hidden_s = sum(call.hidden_s for call in by_name[name])
        yield StepPart(name, hidden_s, sum(call.exposed_s for call in by_name[name]))


def step_time(
    config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...] = ()
) -> TrainingStep:
    """Price one step of a job whose dp is known; ``plain``: the calls that it lists itself.

    Raises:
        ColltoolError: a group cannot be placed on the fabric.
    """
    # without a model all ranks are one stage without layers
    pipeline: tuple[PipelineStage, ...] = (PipelineStage(0, 0, 0, embedding=True, head=True),)
    if config.model is not None:
        pipeline = pipeline_stages(config)
    view = views(config)
    messages: list[PricedCall] = []
    if config.overlap.pp and config.layout.pp > 1:
        # the same on every stage
        messages = costs.shared(
            ("borders", view.borders),
            lambda: _priced_calls(view.borders, pipeline[0], costs, BORDER_CALLS),
        )
    # stages of one kind take the same time, so one of each kind is priced
    stages = once_a_kind(
        pipeline, lambda stage: stage_step(config, view, stage, costs, plain, messages)
    )
    last = max(stages, key=lambda stage: stage.tail_s)
    passes_s = pipeline_s(
        config.schedule,
        [stage.passed for stage in stages],
        config.micro_batches,
        bubble_divisor(config),
    )
    fixed_s, jitter = fixed_and_jitter(config)
    # borders and what is sent once come on top of the pipeline
    without_jitter_s = passes_s + max(stage.borders_s for stage in stages) + last.tail_s + fixed_s
    return TrainingStep(
        config,
        step_s=(1 + jitter) * without_jitter_s,
        control_s=passed_step_s(
            config,
            [compute_pass(stage.compute) for stage in stages],
            max(stage.optimizer_s for stage in stages),
        ),
        stages=tuple(stages),
        slowest=max(stages, key=lambda stage: stage.passed.total_s),
        last=last,
        pipeline_s=passes_s,
        fixed_s=fixed_s,
        jitter=jitter / (1 + jitter),
    )


def passed_step_s(config: ParallelConfig, passes: Sequence[Pass], after_s: float = 0.0) -> float:
    """Seconds of a step without borders and calls that are sent once: its stages take these passes
    for a micro-batch, and ``after_s`` after the pipeline."""
    passes_s = pipeline_s(config.schedule, passes, config.micro_batches, bubble_divisor(config))
    fixed_s, jitter = fixed_and_jitter(config)
    return (1 + jitter) * (passes_s + after_s + fixed_s)


def compute_pass(stage: StageTimes) -> Pass:
    """A micro-batch's compute on a stage."""
    times = stage.all
    return Pass(times.forward_s, times.backward_s + times.again_s, times.weight_s)


def fixed_and_jitter(config: ParallelConfig) -> tuple[float, float]:
    """A stack's fixed seconds of a step, and its jitter as a share of the step without jitter.

    Jitter is waiting for the slowest rank: a share for each doubling of devices beyond a node.
    """
    if config.stack is None:
        return 0.0, 0.0
    doublings = max(0.0, log2(max(1, config.layout.ranks) / JITTER_FROM))
    return config.stack.fixed_s, config.stack.jitter * doublings


def micro_batch_pass(
    config: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache
) -> Pass:
    """A micro-batch on a stage with its exposed calls, without what comes after the pipeline."""
    return _shared_micro_batch(_micro_batch_view(config), stage, costs).passed


class Views(NamedTuple):
    """A configuration as each part of the step depends on it; equal views share that part."""

    micro_batch: ParallelConfig
    borders: ParallelConfig
    once: ParallelConfig  # what is sent once a step


def views(config: ParallelConfig) -> Views:
    """Return the views of a configuration: fields on which a part does not depend have the same
    value, usually the default, in all of its views.

    Borders depend on neither sharding nor recomputation; what is sent once a step on neither
    micro-batches nor chunks.
    """
    return Views(
        _micro_batch_view(config),
        config._replace(shard=Shard(), recompute="none"),
        config._replace(
            layout=config.layout._replace(virtual=1, stages=()),
            schedule="1f1b",
            micro_batch=1,
            recompute="none",
        ),
    )


def _micro_batch_view(config: ParallelConfig) -> ParallelConfig:
    """Return the view of a micro-batch.

    It depends on sharding only where layers are gathered for it, and on chunks only where stages
    wait for messages.
    """
    view = config
    if not (config.shard.shards_weights and config.shard.reshard):
        view = view._replace(shard=Shard())
    if config.overlap.pp:
        unchunked = config.layout._replace(virtual=1, stages=())
        view = view._replace(layout=unchunked, schedule="1f1b")
    return view


def stage_step(
    config: ParallelConfig,
    view: Views,
    stage: PipelineStage,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    messages: Sequence[PricedCall],
) -> StageStep:
    """Price a stage's calls and their exposed time; parts with an equal view are priced once.

    Calls of micro-batches that hide on the same wire leave less compute to hide buckets under: two
    dimensions on one NIC add up.
    """
    micro = _shared_micro_batch(view.micro_batch, stage, costs)
    step = costs.shared(
        ("step", view.once, stage, plain), lambda: _per_step(view.once, stage, costs, plain)
    )
    pipeline_borders = borders(messages, config, micro.passed.total_s)
    hidden = _hidden_by_wire(micro.hidden, pipeline_borders)
    once = _exposed_once(config, step, micro.times, hidden)
    return StageStep(
        stage,
        micro.times,
        micro.passed,
        sent=(*micro.layer_calls, *pipeline_borders, *once),
        borders_s=sum(call.exposed_s for call in pipeline_borders),
        once_s=sum(call.exposed_s for call in once),
        optimizer_s=step.optimizer_s,
        slowed_s=micro.slowed_s + slowed_s(config, micro.times, once),
    )


# seconds of a step's calls that compute hides, by wire and whether in the backward pass; the wire is
# the name of the tier that a call keeps busy longest
Hidden = dict[tuple[str, bool], float]


def _hidden_by_wire(before: Hidden, calls: Iterable[PricedCall]) -> Hidden:
    """Return ``before`` with the hidden seconds of these calls added."""
    hidden = defaultdict(float, before)
    for call in calls:
        hidden[call.cost.busiest_tier, call.backward] += call.hidden_s
    return hidden


def _exposed_once(
    config: ParallelConfig, step: PerStep, times: StageTimes, hidden: Hidden
) -> list[PricedCall]:
    """Return the calls that are sent once a step, with their exposed seconds.

    ``times`` are of one micro-batch, ``hidden`` of the calls of all micro-batches, which leave less
    compute on their wires.

    Where stages are interleaved, the last p micro-batches all finish a chunk before the next chunk
    starts, so its gradients go out while p micro-batches run the other chunks (NVIDIA NeMo,
    communication overlap).
    """
    overhead_s = config.overlap.overhead_s
    m = config.micro_batches
    compute = times.all
    # passes of micro-batches that the buckets of a chunk may hide under
    passes = min(config.layout.pp, m) if config.pipeline.interleaved else 1

    def hide_under_pass(buckets: PassBuckets, pass_s: float, *, backward: bool) -> list[PricedCall]:
        covered_s = sum(hidden.get((wire, backward), 0.0) for wire in buckets.wires) / m
        return buckets.exposed(passes * (pass_s - covered_s), overhead_s)

    return [
        *hide_under_pass(step.backward, compute.backward_s + compute.again_s, backward=True),
        *hide_under_pass(step.forward, compute.forward_s, backward=False),
        *under_all_compute(step.hidden_anywhere, compute.total_s * m, overhead_s),
        *step.exposed_always,
    ]


class MicroBatch(NamedTuple):
    """What a stage computes and sends in every micro-batch."""

    times: StageTimes  # compute
    layer_calls: tuple[PricedCall, ...]  # with borders where they do not hide
    passed: Pass  # with the exposed time of its calls
    hidden: Hidden
    slowed_s: float  # compute lost beside its calls, over the step


def _shared_micro_batch(
    view: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache
) -> MicroBatch:
    """Return :func:`_micro_batch`, priced once for equal views."""
    return costs.shared(("micro-batch", view, stage), lambda: _micro_batch(view, stage, costs))


def _micro_batch(
    config: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache
) -> MicroBatch:
    """Price what a stage does in every micro-batch."""
    times = with_offload(config, stage_times(config, stage))
    generators = MICRO_BATCH_CALLS + GRADIENT_CALLS
    # borders that hide do so under other micro-batches, and are priced for the whole pipeline
    if not config.overlap.pp:
        generators += BORDER_CALLS
    sent = _priced_calls(config, stage, costs, generators)
    calls = tuple(OverlapModel(config, times).exposed(sent))
    m = config.micro_batches
    compute = compute_pass(times)
    passed = Pass(
        compute.forward_s + sum(call.exposed_s for call in calls if not call.backward) / m,
        compute.backward_s + sum(call.exposed_s for call in calls if call.backward) / m,
        compute.weight_s,
    )
    lost_s = slowed_s(config, times, calls)
    return MicroBatch(times, calls, passed, _hidden_by_wire({}, calls), lost_s)


class PerStep(NamedTuple):
    """What a stage does once a step, its calls by what they hide under."""

    backward: PassBuckets  # under the last backward pass
    forward: PassBuckets  # under the first forward pass
    hidden_anywhere: tuple[PricedCall, ...]  # under all compute of the step
    exposed_always: tuple[PricedCall, ...]
    optimizer_s: float  # of the update


def _per_step(
    config: ParallelConfig,
    stage: PipelineStage,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
) -> PerStep:
    """Price what a stage does once a step, and sort its calls by what hides them."""
    sent = _priced_calls(config, stage, costs, GRADIENT_CALLS + UPDATE_CALLS, once=True)
    sent += [_priced_plain_call(call, costs, config) for call in plain]
    backward: list[PricedCall] = []
    forward: list[PricedCall] = []
    hidden_anywhere: list[PricedCall] = []
    exposed_always: list[PricedCall] = []
    for call in sent:
        if call.call.hides == "steady pipeline":
            hidden_anywhere.append(call)
        elif call.call.hides not in UNDER_A_PASS:
            overhead_s = 2 * config.overlap.overhead_s * call.call.calls
            exposed_always.append(call._replace(exposed_s=call.total_s + overhead_s))
        elif call.backward:
            backward.append(call)
        else:
            forward.append(call)
    return PerStep(
        pass_buckets(backward),
        pass_buckets(forward),
        tuple(hidden_anywhere),
        tuple(exposed_always),
        optimizer_s(config, stage) if config.model is not None else 0.0,
    )


def _priced_calls(
    config: ParallelConfig,
    stage: PipelineStage,
    costs: CollectiveCostCache,
    generators: Generators,
    *,
    once: bool = False,
) -> list[PricedCall]:
    """Price the calls of a stage that some generators of :mod:`calls` yield: those of every
    micro-batch, or those ``once`` a step. What of them is exposed is not known yet."""
    sent = []
    for call in stage_calls(config, stage, generators):
        if (call.per == "step") is not once:
            continue
        if call.primitive is A2A and call.dimension == "ep":
            cost = exchange_cost(config, costs, call.bytes)
        else:
            cost = costs.of(
                call.primitive, call.group, call.bytes, call.dimension, closed=call.closed
            )
        if call.skew != 1:
            # only the busiest rank sends more: the energy is that of the mean
            cost = cost.scaled(call.skew)._replace(energy_J=cost.energy_J)
        sent.append(priced(call, cost, config))
    return sent


def _priced_plain_call(
    plain: PlainCall, costs: CollectiveCostCache, config: ParallelConfig
) -> PricedCall:
    """Price a call that a job lists itself.

    Gradients and weights of dp hide as buckets do, stage messages under all compute; anything else
    is exposed.
    """
    if plain.time_s is None:
        cost = costs.of(plain.primitive, plain.group, plain.bytes, plain.dimension)
    else:
        # on no tier; all of the given time grows with size
        cost = CollectiveCost("given", "", 0.0, plain.time_s, (), ())
    hides: Hiding = "nothing"
    phase: Phase = "update"
    if plain.dimension == "dp" and config.overlap.dp:
        if plain.primitive is AG:
            hides = "first forward"
            phase = "forward"
        else:
            hides = "last backward"
            phase = "backward"
    elif plain.primitive is P2P and config.overlap.pp:
        hides = "steady pipeline"
    call = Call(
        plain.dimension,
        plain.primitive,
        plain.group,
        plain.bytes,
        "step",
        phase,
        source="the job's calls",
        calls_per_unit=plain.calls,
        hides=hides,
        calls=plain.calls,
    )
    return priced(call, cost, config)


class StepCalibration(NamedTuple):
    """The factor of compute times that makes the step the measured one."""

    factor: float  # times as long as the stack says
    before_s: float  # the step with a factor of 1

    @property
    def believable(self) -> bool:
        """Whether a stack can be this far off; else something other than its speed is wrong."""
        return BELIEVED[0] <= self.factor <= BELIEVED[1]


def calibrated(
    job: Job,
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    now: TrainingStep,
) -> StepCalibration | None:
    """Return the calibration by a job's measured step; None where nothing was measured, or the
    speed of its compute is given. ``now``: the step as the stack says.

    Raises:
        ManyErrors: the network and fixed time alone take longer than the measured step.
    """
    measured_s = job.measured_step_s
    known = config.stack is None or config.compute is not None or job.file.slower is not None
    if measured_s is None or known:
        return None

    def excess_s(factor: float) -> float:
        """Seconds of the step beyond the measured one."""
        return step_time(config._replace(slower=factor), costs, plain).step_s - measured_s

    # a factor of 0 leaves the network and the fixed time
    if excess_s(0.0) >= 0:
        least = format_time(excess_s(0.0) + measured_s)
        job.refuse(
            [
                Violation(
                    ("measured", "step"),
                    f"a step of {format_time(measured_s)}, and network and fixed time alone take {least}",
                    "no stack reaches it: check the measured time (of one step, on these ranks), the"
                    " layout, and the fabric",
                )
            ]
        )
    factor = _root(excess_s, guess=measured_s / now.step_s, tolerance=1e-12 * measured_s)
    return StepCalibration(factor, now.step_s)


def _root(excess: Callable[[float], float], guess: float, tolerance: float) -> float:
    """Return where a rising function that is negative at 0 crosses zero, to ``tolerance`` in its
    value; by regula falsi with the Illinois rule: the value at an end that stays twice is halved."""
    low = 0.0
    below = excess(0.0)
    high = max(guess, 1.0)
    # double the upper end until the function is above zero there
    while (above := excess(high)) < 0:
        low = high
        below = above
        high = 2 * high
    stayed = 0  # 1: the upper end stayed in the last round, -1: the lower one
    # a bound on the rounds; regula falsi closes in far sooner
    for _ in range(200):
        middle = (low * above - high * below) / (above - below)
        value = excess(middle)
        if abs(value) <= tolerance:
            break
        if value < 0:
            low = middle
            below = value
            if stayed > 0:
                above /= 2
            stayed = 1
        else:
            high = middle
            above = value
            if stayed < 0:
                below /= 2
            stayed = -1
    return middle
