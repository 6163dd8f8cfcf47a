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
    BORDERS,
    DIMENSIONS,
    GRADIENTS,
    OFTEN,
    ONCE,
    Call,
    Hiding,
    Rows,
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

# what hides under a whole pass, as buckets do
UNDER_A_PASS = ("last backward", "first forward", "neighbour layer")
JITTER_FROM = 8  # devices without jitter: weak-scaling series start at one node
# lowest and highest factor of a measured step over its plan that a stack explains: stacks of one
# device differ by 20 to 40% in published runs, one stack over its releases by up to 38%
BELIEVED = (0.5, 2.0)


@dataclass(frozen=True)
class StageStep:
    """A pipeline stage's part of a step."""

    stage: PipelineStage
    compute: StageTimes  # of one micro-batch
    passed: Pass  # one micro-batch with its exposed communication
    sent: tuple[PricedCall, ...]
    borders_s: float
    once_s: float  # exposed after the pipeline: gradients, weights, updates
    optimizer_s: float
    slowed_s: float  # compute lost to communication on the same multiprocessors

    @property
    def tail_s(self) -> float:
        """Seconds of the stage after its last micro-batch."""
        return self.once_s + self.optimizer_s + self.slowed_s


class StepPart(NamedTuple):
    """Seconds of a step that go to compute, to a dimension's calls, or to something else."""

    name: str
    hidden_s: float
    exposed_s: float  # seconds added to the step


class TrainingStep(NamedTuple):
    """A priced step with its stages."""

    config: ParallelConfig
    step_s: float
    control_s: float  # with a free network
    stages: tuple[StageStep, ...]
    slowest: StageStep  # with the longest micro-batch, on which the others wait
    last: StageStep  # with the longest tail after the pipeline
    pipeline_s: float
    fixed_s: float
    jitter: float  # share of the step

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
        worst = max(self.stages, key=lambda stage: stage.borders_s)
        if not worst.borders_s:
            worst = self.slowest
        return (
            *(call for call in self.slowest.sent if call.call.per not in ("step", "border")),
            *(call for call in worst.sent if call.call.per == "border"),
            *(call for call in self.last.sent if call.call.per == "step"),
        )

    @property
    def parts(self) -> tuple[StepPart, ...]:
        """Seconds of the step by what they go to; the exposed ones sum to ``step_s``."""
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
    """Yield a part for each dimension, in reading order; then those of plain calls, by name."""
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
    """Price one step.

    Raises:
        ColltoolError: a group cannot be placed on the fabric.
    """
    placed_stages: tuple[PipelineStage, ...] = (PipelineStage(0, 0, 0, embedding=True, head=True),)
    if config.model is not None:
        placed_stages = pipeline_stages(config)
    view = views(config)
    messages: list[PricedCall] = []
    if config.overlap.pp and config.layout.pp > 1:
        # the same on every stage
        messages = costs.shared(
            ("borders", view.borders), lambda: _sent(view.borders, placed_stages[0], costs, BORDERS)
        )
    # stages of one kind take the same time, so one of each kind is priced
    stages = once_a_kind(
        placed_stages, lambda stage: stage_step(config, view, stage, costs, plain, messages)
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
        # with a free network
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
    """Seconds of a step whose stages take these passes for a micro-batch, and ``after_s`` after
    the pipeline."""
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
    once: ParallelConfig


def views(config: ParallelConfig) -> Views:
    """Return the views of a configuration, each without what its part does not depend on.

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


# seconds of calls that compute hides, by wire and whether in the backward pass
Hidden = dict[tuple[str, bool], float]


def _hidden_by_wire(before: Hidden, calls: Iterable[PricedCall]) -> Hidden:
    hidden = defaultdict(float, before)
    for call in calls:
        hidden[call.cost.busiest_tier, call.backward] += call.hidden_s
    return hidden


def _exposed_once(
    config: ParallelConfig, step: PerStep, times: StageTimes, hidden: Hidden
) -> list[PricedCall]:
    """Return the calls that are sent once a step, with their exposed seconds.

    Where stages are interleaved, the last p micro-batches all finish a chunk before the next chunk
    starts, so its gradients go out while p micro-batches run the other chunks (NVIDIA NeMo,
    communication overlap).
    """
    overhead_s = config.overlap.overhead_s
    m = config.micro_batches
    compute = times.all
    # passes that a bucket of the last one may hide under
    passes = min(config.layout.pp, m) if config.pipeline.interleaved else 1

    def under(buckets: PassBuckets, pass_s: float, *, backward: bool) -> list[PricedCall]:
        covered_s = sum(hidden.get((wire, backward), 0.0) for wire in buckets.wires) / m
        return buckets.exposed(passes * (pass_s - covered_s), overhead_s)

    return [
        *under(step.backward, compute.backward_s + compute.again_s, backward=True),
        *under(step.forward, compute.forward_s, backward=False),
        *under_all_compute(step.hidden_anywhere, compute.total_s * m, overhead_s),
        *step.exposed_always,
    ]


class MicroBatch(NamedTuple):
    """What a stage computes and sends in every micro-batch."""

    times: StageTimes
    layer_calls: tuple[PricedCall, ...]
    passed: Pass  # with the exposed time of its calls
    hidden: Hidden
    slowed_s: float  # compute lost beside its calls, over the step


def _shared_micro_batch(
    view: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache
) -> MicroBatch:
    return costs.shared(("micro-batch", view, stage), lambda: _micro_batch(view, stage, costs))


def _micro_batch(
    config: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache
) -> MicroBatch:
    """Price what a stage does in every micro-batch."""
    times = with_offload(config, stage_times(config, stage))
    rows = OFTEN + GRADIENTS
    if not config.overlap.pp:
        rows += BORDERS
    calls = tuple(OverlapModel(config, times).exposed(_sent(config, stage, costs, rows)))
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

    backward: PassBuckets  # the last backward pass
    forward: PassBuckets  # the first forward pass
    hidden_anywhere: tuple[PricedCall, ...]
    exposed_always: tuple[PricedCall, ...]
    optimizer_s: float


def _per_step(
    config: ParallelConfig,
    stage: PipelineStage,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
) -> PerStep:
    """Price what a stage does once a step, and sort its calls by what hides them."""
    sent = _sent(config, stage, costs, GRADIENTS + ONCE, once=True)
    sent += [_plain(call, costs, config) for call in plain]
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


def _sent(
    config: ParallelConfig,
    stage: PipelineStage,
    costs: CollectiveCostCache,
    rows: Rows,
    *,
    once: bool = False,
) -> list[PricedCall]:
    """Price the calls of a stage: those of every micro-batch, or those ``once`` a step."""
    sent = []
    for call in stage_calls(config, stage, rows):
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


def _plain(plain: PlainCall, costs: CollectiveCostCache, config: ParallelConfig) -> PricedCall:
    """Price a call that a job lists itself.

    Gradients and weights of dp hide as buckets do, stage messages under all compute; anything else
    is exposed.
    """
    if plain.time_s is None:
        cost = costs.of(plain.primitive, plain.group, plain.bytes, plain.dimension)
    else:
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
        each=plain.calls,
        hides=hides,
        calls=plain.calls,
    )
    return priced(call, cost, config)


class StepCalibration(NamedTuple):
    """The factor of compute times that makes the step the measured one."""

    factor: float  # times as long as the stack says
    before_s: float  # the step without it

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
    speed of its compute is given."""
    measured_s = job.measured_step_s
    known = config.stack is None or config.compute is not None or job.file.slower is not None
    if measured_s is None or known:
        return None

    def off(factor: float) -> float:
        return step_time(config._replace(slower=factor), costs, plain).step_s - measured_s

    # a factor of 0 leaves the network and the fixed time
    if off(0.0) >= 0:
        least = format_time(off(0.0) + measured_s)
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
    return StepCalibration(_root(off, measured_s / now.step_s, 1e-12 * measured_s), now.step_s)


def _root(off: Callable[[float], float], guess: float, tolerance: float) -> float:
    """Zero of a rising function above 0, by regula falsi with the Illinois rule: the value at an
    end that stays twice is halved."""
    low = 0.0
    below = off(0.0)
    high = max(guess, 1.0)
    # twice as slow until the step is too long
    while (above := off(high)) < 0:
        low = high
        below = above
        high = 2 * high
    stayed = 0
    # a bound on the rounds; regula falsi closes in far sooner
    for _ in range(200):
        middle = (low * above - high * below) / (above - below)
        value = off(middle)
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
