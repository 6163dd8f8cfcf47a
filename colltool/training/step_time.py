"""A whole step: its stages, pipeline, optimizer, fixed time, jitter; the same with a free network;
and what that rests on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log2
from typing import NamedTuple

from colltool.base.errors import given, said
from colltool.base.formatting import format_time, shape_text
from colltool.base.primitives import A2A, AG, P2P
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.training.calls import (
    BORDERS,
    DIMENSIONS,
    GRADIENTS,
    OFTEN,
    ONCE,
    Call,
    Hiding,
    Rows,
    once_a_node,
    stage_calls,
)
from colltool.training.collective_cost import CollectiveCost, CollectiveCostCache, slice_of
from colltool.training.constraint_violations import Violation
from colltool.training.host import with_offload
from colltool.training.job import Job, PlainCall
from colltool.training.operations import Phase, StageTimes, stage_times
from colltool.training.overlap import (
    ROUNDING,
    OverlapModel,
    PassBuckets,
    PricedCall,
    borders,
    of_a_pass,
    priced,
    under_all,
)
from colltool.training.parallel_config import (
    ParallelConfig,
    PipelineStage,
    Shard,
    even_chunks,
    pipeline_stages,
)
from colltool.training.strategies import Pass, pipeline_s
from colltool.training.updates import optimizer_s

UNDER_A_PASS = ("last backward", "first forward", "neighbour layer")
JITTER_FROM = 8  # devices: weak-scaling series were taken from one node upwards
# stacks of one device differ by 20 to 40% in published runs, one stack over its releases by up to
# 38%
BELIEVED = (0.5, 2.0)
LAUNCH_S = 10e-6  # what a library takes at least to start a collective: measured 5 to 12 us


@dataclass(frozen=True)
class StageStep:
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
        return self.once_s + self.optimizer_s + self.slowed_s

    @property
    def bare(self) -> Pass:
        times = self.compute.all
        return Pass(times.forward_s, times.backward_s + times.again_s, times.weight_s)


class StepPart(NamedTuple):
    name: str
    hidden_s: float
    exposed_s: float  # seconds added to the step


class TrainingStep(NamedTuple):
    config: ParallelConfig
    step_s: float
    control_s: float
    stages: tuple[StageStep, ...]
    slowest: StageStep  # sets the pipeline's pace
    last: StageStep  # has most to do after it
    pipeline_s: float
    fixed_s: float
    jitter: float  # share of the step

    @property
    def paced(self) -> tuple[PricedCall, ...]:
        """The calls in the parts: of a micro-batch on the slowest stage, the borders of the worst,
        what the last sends once."""
        worst = max(self.stages, key=lambda one: one.borders_s)
        taken = [one for one in self.slowest.sent if one.call.per not in ("step", "border")]
        taken += [
            one
            for one in (worst if worst.borders_s else self.slowest).sent
            if one.call.per == "border"
        ]
        return (*taken, *(one for one in self.last.sent if one.call.per == "step"))

    @property
    def parts(self) -> tuple[StepPart, ...]:
        paced, m = self.paced, self.config.micro_batches
        places = {name: place for place, name in enumerate(DIMENSIONS)}
        names = sorted(
            {one.call.dimension for one in paced}, key=lambda name: places.get(name, len(places))
        )
        of = {name: [one for one in paced if one.call.dimension == name] for name in names}
        parts = (
            StepPart("compute", 0.0, m * self.slowest.compute.all.total_s),
            *(
                StepPart(
                    name, sum(one.hidden_s for one in sent), sum(one.exposed_s for one in sent)
                )
                for name, sent in of.items()
            ),
            StepPart("bubble", 0.0, self.pipeline_s - m * self.slowest.passed.total_s),
            StepPart("optimizer", 0.0, self.last.optimizer_s),
            StepPart("overlap slows compute", 0.0, self.last.slowed_s),
            StepPart("fixed", 0.0, self.fixed_s),
            StepPart("jitter", 0.0, self.jitter * self.step_s),
        )
        noise = ROUNDING * self.step_s
        return tuple(
            part
            for part in parts
            if part.name == "compute" or abs(part.exposed_s) > noise or part.hidden_s
        )


def step_time(
    config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...] = ()
) -> TrainingStep:
    where = (
        pipeline_stages(config)
        if config.model is not None
        else (PipelineStage(0, 0, 0, embedding=True, head=True),)
    )
    seen = views(config)
    by_kind = {
        stage.kind: stage_step(config, seen, stage, costs, plain)
        for stage in {one.kind: one for one in where}.values()
    }
    stages = tuple(by_kind[stage.kind] for stage in where)
    slowest = max(stages, key=lambda one: one.passed.total_s)
    last = max(stages, key=lambda one: one.tail_s)
    pipeline, bare = (
        pipeline_s(config.schedule, passes, config.micro_batches, even_chunks(config))
        for passes in ([one.passed for one in stages], [one.bare for one in stages])
    )
    # jitter: waiting for the slowest rank, a share for each doubling of devices beyond a node
    stack, doublings = config.stack, max(0.0, log2(max(1, config.layout.ranks) / JITTER_FROM))
    fixed, share = (stack.fixed_s, stack.jitter * doublings) if stack is not None else (0.0, 0.0)
    still = pipeline + max(one.borders_s for one in stages) + last.tail_s + fixed
    free = bare + max(one.optimizer_s for one in stages) + fixed
    step_s, control_s, wait = (1 + share) * still, (1 + share) * free, share / (1 + share)
    return TrainingStep(
        config,
        step_s,
        control_s,
        stages,
        slowest,
        last,
        pipeline_s=pipeline,
        fixed_s=fixed,
        jitter=wait,
    )


def views(config: ParallelConfig) -> tuple[ParallelConfig, ParallelConfig, ParallelConfig]:
    """A configuration as a micro-batch, borders and what is sent once see it; layouts with an equal
    view share that part.

    A micro-batch depends on sharding only where layers are gathered for it, and on chunks only
    where stages wait for messages.
    Borders depend on neither sharding nor recomputation; what is sent once a step on neither
    micro-batches nor chunks.
    """
    unsharded = config._replace(shard=Shard())
    whole = config.layout._replace(virtual=1, stages=())
    micro_batch = config if config.shard.layers and config.shard.reshard else unsharded
    return (
        micro_batch._replace(layout=whole, schedule="1f1b") if config.overlap.pp else micro_batch,
        unsharded._replace(recompute="none"),
        config._replace(layout=whole, schedule="1f1b", micro_batch=1, recompute="none"),
    )


def stage_step(
    config: ParallelConfig,
    seen: tuple[ParallelConfig, ParallelConfig, ParallelConfig],
    stage: PipelineStage,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...] = (),
) -> StageStep:
    """A stage with its calls priced and their exposed time; what layouts share by :func:`views` is
    worked out once.

    What hides already on the same wire takes from the cover of buckets: two dimensions on one NIC
    add up.
    """
    micro, border, whole = seen
    times, held, passed = costs.shared(
        ("micro-batch", micro, stage), lambda: _micro_batch(micro, stage, costs)
    )
    behind = costs.shared(
        ("step", whole, stage, plain), lambda: _behind(whole, stage, costs, plain)
    )
    between: list[PricedCall] = []
    if config.overlap.pp and config.layout.pp > 1:
        messages = costs.shared(
            ("borders", border, stage), lambda: _sent(border, stage, costs, BORDERS)
        )
        between = borders(messages, config, passed.total_s)
    hidden: dict[tuple[str, bool], float] = {}
    for one in (*held, *between):
        key = one.cost.wire, one.back
        hidden[key] = hidden.get(key, 0.0) + one.hidden_s
    over, compute, m = config.overlap.overhead_s, times.all, config.micro_batches
    # Where stages are interleaved, the last p micro-batches all finish a chunk before the next
    # chunk starts, so its gradients go out while p micro-batches run the other chunks (NVIDIA NeMo,
    # communication overlap).
    passes = min(config.layout.pp, m) if config.pipeline.interleaved else 1
    once: list[PricedCall] = []
    for buckets, back, pass_s in (
        (behind.back, True, compute.backward_s + compute.again_s),
        (behind.front, False, compute.forward_s),
    ):
        taken = sum(hidden.get((wire, back), 0.0) for wire in buckets.wires) / m
        once += buckets.exposed(passes * (pass_s - taken), over)
    once += [*under_all(behind.free, compute.total_s * m, over), *behind.bare]
    slowed = (
        sum(one.hidden_s for one in (*held, *once)) * config.overlap.sm_share
        if config.overlap.sm_share
        else 0.0
    )
    borders_s, once_s = (sum(one.exposed_s for one in some) for some in (between, once))
    sent, optimizer = (*held, *between, *once), behind.optimizer_s
    return StageStep(
        stage, times, passed, sent, borders_s, once_s, optimizer_s=optimizer, slowed_s=slowed
    )


def _micro_batch(
    config: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache
) -> tuple[StageTimes, tuple[PricedCall, ...], Pass]:
    times, m = with_offload(config, stage_times(config, stage)), config.micro_batches
    sent = _sent(config, stage, costs, OFTEN + GRADIENTS + (() if config.overlap.pp else BORDERS))
    held = tuple(OverlapModel(config, times).exposed(sent))
    forward, backward = (
        sum(one.exposed_s for one in held if one.back is back) / m for back in (False, True)
    )
    compute = times.all
    passed = Pass(
        compute.forward_s + forward,
        compute.backward_s + compute.again_s + backward,
        compute.weight_s,
    )
    return times, held, passed


class PerStep(NamedTuple):
    back: PassBuckets  # under the last backward pass
    front: PassBuckets  # under the first forward pass
    free: tuple[PricedCall, ...]  # under all compute
    bare: tuple[PricedCall, ...]  # under nothing
    optimizer_s: float


def _behind(
    config: ParallelConfig,
    stage: PipelineStage,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
) -> PerStep:
    sent = _sent(config, stage, costs, GRADIENTS + ONCE, once=True) + [
        _plain(one, costs, config) for one in plain
    ]
    passes = [one for one in sent if one.call.hides in UNDER_A_PASS]
    rest = [one for one in sent if one.call.hides not in (*UNDER_A_PASS, "steady pipeline")]
    over = 2 * config.overlap.overhead_s
    return PerStep(
        back=of_a_pass([one for one in passes if one.back]),
        front=of_a_pass([one for one in passes if not one.back]),
        free=tuple(one for one in sent if one.call.hides == "steady pipeline"),
        bare=tuple(one._replace(exposed_s=one.total_s + over * one.call.calls) for one in rest),
        optimizer_s=optimizer_s(config, stage) if config.model is not None else 0.0,
    )


def _sent(
    config: ParallelConfig,
    stage: PipelineStage,
    costs: CollectiveCostCache,
    rows: Rows,
    *,
    once: bool = False,
) -> list[PricedCall]:
    """The calls of a stage with their prices: of every micro-batch, or ``once`` a step."""
    found = []
    for call in (call for call in stage_calls(config, stage, rows) if (call.per == "step") is once):
        cost = costs.of(call.primitive, call.group, call.bytes, call.dimension, closed=call.closed)
        if call.primitive is A2A and call.dimension == "ep" and config.layout.deduplicate:
            cost = cost.scaled(once_a_node(config, cost.per_domain))
        if call.skew != 1:
            cost = cost.scaled(call.skew)._replace(energy_J=cost.energy_J)  # others send less
        found.append(priced(call, cost, config))
    return found


def _plain(one: PlainCall, costs: CollectiveCostCache, config: ParallelConfig) -> PricedCall:
    """Gradients and weights of dp hide as buckets do, stage messages under all compute; anything
    else is exposed."""
    if one.time_s is None:
        cost = costs.of(one.primitive, one.group, one.bytes, one.dimension)
    else:
        cost = CollectiveCost("given", "", 0.0, one.time_s, (), ())
    hides: Hiding = "nothing"
    phase: Phase = "update"
    if one.dimension == "dp" and config.overlap.dp:
        hides, phase = (
            ("first forward", "forward") if one.primitive is AG else ("last backward", "backward")
        )
    elif one.primitive is P2P and config.overlap.pp:
        hides = "steady pipeline"
    call = Call(
        one.dimension,
        one.primitive,
        one.group,
        one.bytes,
        "step",
        phase,
        source="the job's calls",
        each=one.calls,
        hides=hides,
        calls=one.calls,
    )
    return priced(call, cost, config)


class StepCalibration(NamedTuple):
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
    """What makes the step the measured one; None where nothing was measured, or the speed is
    given."""
    measured_s = job.measured_step_s
    if (
        measured_s is None
        or config.stack is None
        or config.compute is not None
        or job.file.slower is not None
    ):
        return None

    def off(factor: float) -> float:
        return step_time(config._replace(slower=factor), costs, plain).step_s - measured_s

    if off(0.0) >= 0:
        alone = f"network and fixed time alone take {format_time(off(0.0) + measured_s)}"
        fix = (
            "no stack reaches it: check the measured time (of one step, on these ranks), the"
            " layout, and the fabric"
        )
        job.refuse(
            [
                Violation(
                    ("measured", "step"), f"a step of {format_time(measured_s)}, and {alone}", fix
                )
            ]
        )
    return StepCalibration(_root(off, measured_s / now.step_s, 1e-12 * measured_s), now.step_s)


def _root(off: Callable[[float], float], guess: float, close: float) -> float:
    """Zero of a rising function by regula falsi, halving an end that stays (Illinois)."""
    low, below, high = 0.0, off(0.0), max(guess, 1.0)
    while (above := off(high)) < 0:
        low, below, high = high, above, 2 * high
    stayed = 0
    for _ in range(200):
        at = (low * above - high * below) / (above - below)
        value = off(at)
        if abs(value) <= close:
            break
        if value < 0:
            low, below, above, stayed = at, value, above / 2 if stayed > 0 else above, 1
        else:
            high, above, below, stayed = at, value, below / 2 if stayed < 0 else below, -1
    return at


def assumptions(
    job: Job, fabric: Fabric, costs: CollectiveCostCache, step: TrainingStep
) -> Iterator[str]:
    """Readings, the slice of the fabric that was priced, its device, what the job does not count,
    and what the step rests on."""
    readings, cut = costs.readings, costs.fabric
    if readings != Readings():
        yield f"readings: {readings.spoken()}"
    if (part := slice_of(fabric, cut)) is not None:
        tier, shape = part
        other = given("overrides", [f"{tier.name}.shape=[{','.join(map(str, shape[::-1]))}]"])
        what = f"the ranks are a slice of {shape_text(shape)} of {tier.name}"
        yield said(f"{what}; another, such as {other}, is asked for by its shape")
    device = job.draft.device
    if device is not None and job.device_from == "fabric":
        yield f"computes on {device.name}, {fabric.name}'s device"
    elif device is not None and fabric.device is None and job.device_from == "default":
        yield f"computes on {device.name}, the job's: {fabric.name} names no device"
    if job.drafted:
        sized = f"sequence {step.config.sequence}, a batch of {step.config.global_batch} sequences"
        yield said(
            f"drafted from the model alone: {sized};"
            f" {given('job_overrides', ['batch.global=1024'])} for another"
        )
    if (moe := step.config.moe) is not None and not moe.imbalance_said:
        even = given("job_overrides", ["model.moe.imbalance=1"])
        yield said(
            f"the busiest rank of experts is taken at {moe.imbalance:g} times the mean; forced"
            f" even: {even}"
        )
    stack, recompute = job.draft.stack, step.config.recompute
    if job.file.recompute is None and stack is not None and recompute == stack.recompute != "none":
        other = given("job_overrides", ["recompute=none"])
        yield said(
            f"recompute {recompute}, as {stack.name} does unless it is told: {other} for another"
        )
    for one in job.draft.model.left_out if job.draft.model is not None else ():
        yield f"not counted: {one}"
    yield from _step_assumptions(costs, step, energy=job.energy)


def _step_assumptions(
    costs: CollectiveCostCache, step: TrainingStep, *, energy: bool
) -> Iterator[str]:
    """The stack, who picked the algorithms, launches, strides that were rounded, tiers without
    energy."""
    config, fabric, sent = (
        step.config,
        costs.fabric,
        [one for stage in step.stages for one in stage.sent],
    )
    stack, device, times = config.stack, config.device, config.compute
    if (
        stack is not None
        and device is not None
        and times is None
        and device.generation in stack.assumed
    ):
        yield (
            f"efficiency of stack {stack.name} on {device.generation} is partly assumed, not"
            " measured"
        )
    if times is not None and not times.per_layer and config.model is not None:
        yield "compute gives times of a whole step: nothing hides under single layers"
    on_wires = [one for one in sent if one.cost.busy]
    if picked := sorted({one.cost.pick for one in on_wires} - {""}):
        yield f"algorithms: {', '.join(picked)}'s own choice, where it has a cost model"
    elif on_wires:
        facts = fabric.library_facts
        runs = "the fastest of any library"
        if facts is not None and facts.name != "all":
            runs = f"the fastest that {facts.name} implements"
        yield f"algorithms: {runs}; a library may pick others"
    launches = "launch_overhead" in fabric.model_fields_set or any(
        row.launch_s for tier in fabric.tiers if tier.library for row in tier.library.protocols
    )
    calls = sum(one.call.calls for one in step.paced if one.exposed_s and one.cost.busy)
    if calls and not fabric.hypothetical and not launches:
        more = f"at {format_time(LAUNCH_S)} per launch, +{format_time(calls * LAUNCH_S, 2)}"
        yield (
            f"{fabric.name} gives no launch overhead: {calls:,.0f} exposed calls are lower bounds"
            f" ({more})"
        )
    of: dict[int, dict[str, None]] = {}
    for one in on_wires:
        for _, stride in one.call.group.axes:
            of.setdefault(stride, {})[one.call.dimension] = None
    for stride, names in sorted(of.items()):
        if (rounded := costs.rounded(stride)) is not None:
            yield (
                f"{', '.join(names)}: every {stride} ranks do not tile {_rounded(fabric, rounded)}"
            )
    crossed = {tier for one in sent for tier in one.cost.tiers}
    for name in (
        tier.name
        for tier in fabric.tiers
        if energy and tier.name in crossed and tier.energy is None
    ):
        yield f"{name} has no energy figure and counts as 0: set {name}.energy=30pJ/bit"


def _rounded(fabric: Fabric, rounded: Fabric) -> str:
    """``ib of 16, priced on 15``, and levels whose groups changed."""
    tier, other = fabric.tiers[-1], rounded.tiers[-1]
    levels = zip(capabilities_of(tier).levels, capabilities_of(other).levels, strict=True)
    sizes = [
        (tier.name, tier.endpoints, other.endpoints),
        *((one.name, one.group, its.group) for one, its in levels),
    ]
    return ", ".join(
        f"{name} of {before}, priced on {after}" for name, before, after in sizes if before != after
    )
