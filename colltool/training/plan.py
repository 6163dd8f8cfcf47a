"""``plan``: a training job's step on a fabric, the tiers that slow it down, and what changes would
gain.

:func:`plan` prices the step, scales it to a measured one where the job has that, and collects
memory, proposals and assumptions; a :class:`Plan` holds them. Links, a target and goodput are added
where :class:`PlanExtras` wants them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import ceil_div
from colltool.base.result import Result, result
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.interval import Interval
from colltool.estimate.results import Accuracy
from colltool.fabric.expression import nodes_for
from colltool.fabric.model import Fabric
from colltool.training.assumptions import PricedJob, assumptions
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.compression import GradientCompression, gradient_compression
from colltool.training.dispatchers import dispatcher_violations
from colltool.training.flops import ideal_step_s
from colltool.training.goodput import Failures, Goodput, goodput
from colltool.training.group_fit import job_slice
from colltool.training.job import Job, no_ranks
from colltool.training.job_device import on_fabric, refuse_impossible_step
from colltool.training.job_links import JobLinks, job_links
from colltool.training.layout_constraints import idle_overrides
from colltool.training.memory import Memory, memory
from colltool.training.overlap import PricedCall, energy_J
from colltool.training.parallel_config import Offload, ParallelConfig
from colltool.training.proposals import Proposal, proposals
from colltool.training.published import PublishedError, published_error, with_measured_gemms
from colltool.training.sentences import sentence
from colltool.training.stack_choice import StackStep, other_stacks
from colltool.training.step_calibration import StepCalibration, calibrated
from colltool.training.step_time import StepPart, TrainingStep, step_time
from colltool.training.targets import Target, Targeted, reach_target


class PlannedCall(NamedTuple):
    """A collective of the step, with the figures of the stage that the step waits for."""

    stages: tuple[int, ...]  # that send it
    sent: PricedCall
    paces: bool  # whether its seconds are in the step's parts
    # of all its calls on all ranks; None where not asked for, or no tier has a figure
    energy_J: float | None = None
    # how far off the price of a call is; None where it was not asked for, or is ideal
    accuracy: Accuracy | None = None
    interval: Interval | None = None  # of each call's seconds, where nine of ten measurements lie


class TierUse(NamedTuple):
    """Seconds that a tier carries bytes in a step, on the stage that keeps it busiest."""

    tier: str
    busy_s: float  # in a step
    share: float  # of the step
    dimension: str  # whose calls take most of these seconds


@result
class Plan(Result):
    """A training step on a fabric, with what it rests on and what would make it faster."""

    subject: ClassVar[str] = "plan"
    job: Job
    setup: ParallelConfig  # the job on its ranks and device
    fabric: str  # its name
    fabric_overrides: tuple[tuple[str, str], ...]  # keys and values that it was read with
    step_s: float
    control_step_s: float  # with a free network
    parts: tuple[StepPart, ...]  # their exposed seconds sum to ``step_s``
    collectives: tuple[PlannedCall, ...]  # of all stages, the most exposed first
    memory: Memory | None  # None without a model
    wires: tuple[TierUse, ...]  # by tier, innermost first; without those that carry nothing
    changes: tuple[Proposal, ...]  # that gain, the best first
    tokens_per_s: float | None  # of the whole job; None without a model
    mfu: float | None  # see MFU_CONVENTION; None without a device or a shape
    anchor: StepCalibration | None  # what made the step the measured one
    compression: GradientCompression | None
    grounds: tuple[str, ...]  # what the figures rest on, a line each
    step: TrainingStep  # that the figures are of
    stacks: tuple[StackStep, ...] = ()  # where another stack of the family gives another step
    links: JobLinks | None = None
    targeted: Targeted | None = None
    goodput: Goodput | None = None
    # where the layout was searched: the keys and values that pin it
    searched: tuple[tuple[str, str], ...] = ()
    typed: str = ""  # the command that asked for it, without values of the job

    @property
    def ranks(self) -> int:
        """Ranks that the job runs on."""
        return self.setup.layout.ranks

    @property
    def device(self) -> str | None:
        """The name of what computes; None where times of compute are given."""
        return self.setup.device.name if self.setup.device is not None else None

    @property
    def network_share(self) -> float:
        """Share of the step that a free network would save."""
        return 1 - self.control_step_s / self.step_s if self.step_s else 0.0

    @property
    def global_batch_tokens(self) -> int | None:
        """Tokens of a step; None without a model."""
        if self.setup.model is None:
            return None
        return self.setup.global_batch * self.setup.sequence

    @property
    def wire(self) -> str | None:
        """The tier with the most exposed communication; None where nothing is exposed."""
        by_tier: dict[str, float] = defaultdict(float)
        for call in self.critical_calls:
            if call.cost.busiest_tier:
                by_tier[call.cost.busiest_tier] += call.exposed_s
        exposed = {tier: seconds for tier, seconds in by_tier.items() if seconds > 0}
        return max(exposed, key=exposed.__getitem__, default=None)

    @property
    def critical_calls(self) -> list[PricedCall]:
        """Calls whose seconds are in the step's parts."""
        return [planned.sent for planned in self.collectives if planned.paces]

    @property
    def error(self) -> PublishedError | None:
        """The error of plans of published runs under its stack, their sources left out; None where
        there are none like it, or times are given."""
        setup = self.setup
        stack = setup.stack
        model = setup.model
        if stack is None or setup.compute is not None or setup.lora or setup.offload != Offload():
            return None
        error = published_error(stack.name, moe=bool(model and model.moe_layers))
        if error is None or not stack.measured:
            return error
        return with_measured_gemms(error, self.gemm_share)

    @property
    def gemm_share(self) -> float:
        """Share of the step that the GEMMs of the slowest stage's layers take."""
        compute = self.step.slowest.compute
        total_s = 0.0
        kinds = (
            (compute.dense, compute.stage.dense_layers),
            (compute.moe, compute.stage.moe_layers),
        )
        for layer, layers in kinds:
            if layer is not None:
                total_s += layers * layer.gemms_s
        return min(1.0, total_s * self.setup.micro_batches / self.step_s)

    @property
    def exposed_s(self) -> float:
        """Seconds of communication that the step waits for."""
        return sum(call.exposed_s for call in self.critical_calls)

    @property
    def hidden_s(self) -> float:
        """Seconds of communication under compute, on the stages that the step waits for."""
        return sum(call.hidden_s for call in self.critical_calls)

    @property
    def memory_bytes(self) -> float | None:
        """Bytes of the stage that takes the most."""
        return self.memory.bytes if self.memory is not None else None

    @property
    def measured_error(self) -> float | None:
        """Step over measured step, minus 1, before any anchoring; None where nothing was
        measured."""
        measured_s = self.job.measured_step_s
        if not measured_s:
            return None
        planned_s = self.anchor.before_s if self.anchor is not None else self.step_s
        return planned_s / measured_s - 1

    @property
    def memory_error(self) -> float | None:
        """Memory over measured memory, minus 1; None where nothing was measured."""
        measured = self.job.measured_memory_bytes
        if not measured or self.memory is None:
            return None
        return self.memory.bytes / measured - 1

    @property
    def run_s(self) -> float | None:
        """Seconds of all steps of the job, with the extra ones that compression takes; None where
        it gives no number of steps."""
        steps = self.job.steps
        if steps is None:
            return None
        if self.compression is not None:
            return self.compression.run_s(steps)
        return steps * self.step_s

    @property
    def energy_J(self) -> float | None:
        """Joules of a step's communication on all ranks; None where the job does not ask for it, or
        no tier has a figure."""
        energies_J = [call.energy_J for call in self.collectives if call.energy_J is not None]
        return sum(energies_J) if energies_J else None


class PlanExtras(NamedTuple):
    """What a plan answers besides the step."""

    links: bool = False  # the busiest links
    target: Target | None = None  # the least network that reaches it
    failures: Failures | None = None  # goodput with them


NO_EXTRAS = PlanExtras()


def plan(
    job: Job,
    fabric: Fabric,
    ranks: int | None = None,
    readings: ModelOptions | None = None,
    extras: PlanExtras = NO_EXTRAS,
) -> Plan:
    """Price a training step on a fabric, with what it rests on and what would make it faster.

    Args:
        job: the job; a shipped or drafted one is fitted to the fabric's device.
        fabric: the fabric.
        ranks: ranks that the job runs on; None: those of its layout, or all of the fabric where dp is
            auto.
        readings: options of the model; None: the default ones.
        extras: what else is asked.

    Raises:
        ColltoolError: a layout or a group does not sit on the fabric.
        ManyErrors: keys of the job do not fit together there, each at its place in the file.
    """
    job = on_fabric(job, fabric)
    # dp of a job that says none follows from the fabric
    config = job.setup(ranks if ranks is not None or job.draft.layout.dp else fabric.ranks)
    check_ranks(job, fabric, config.layout.ranks)
    idle = list(idle_overrides(job, config))
    if idle:
        job.refuse(idle)
    # of a lattice only the slice of the job is priced
    whole_fabric = fabric
    fabric = job_slice(fabric, config.layout.ranks)
    costs = CollectiveCostCache(fabric, readings)
    plain = job.plain_calls(config)
    violations = list(dispatcher_violations(config, costs))
    if violations:
        job.refuse(violations)
    step = step_time(config, costs, plain)
    anchor = calibrated(job, config, costs, plain, step)
    # from here on the step is as long as the measured one
    if anchor is not None:
        config = config._replace(slower=anchor.factor)
        step = step_time(config, costs, plain)
    uncompressed = step
    if config.compression is not None:
        uncompressed = step_time(config._replace(compression=None), costs, plain)
    tokens, mfu = rates(config, step.step_s)
    refuse_impossible_step(job, step.step_s, mfu)
    planned = Plan(
        job=job,
        setup=config,
        fabric=fabric.name,
        fabric_overrides=fabric.overrides,
        step_s=step.step_s,
        control_step_s=step.control_s,
        parts=step.parts,
        collectives=_collectives(step, energy=job.energy),
        memory=memory(config) if config.model is not None else None,
        wires=tuple(_tier_uses(fabric, step)),
        changes=proposals(job, config, costs, plain, step),
        tokens_per_s=tokens,
        mfu=mfu,
        anchor=anchor,
        compression=gradient_compression(config, step, uncompressed),
        grounds=tuple(map(sentence, assumptions(PricedJob(job, whole_fabric, costs, step)))),
        step=step,
        stacks=other_stacks(config, costs, plain, step),
    )
    if extras.links:
        planned = replace(planned, links=job_links(fabric, step, readings or ModelOptions()))
    if extras.target and config.shape:
        planned = replace(planned, targeted=reach_target(config, costs, plain, step, extras.target))
    if extras.failures and config.model:
        planned = replace(planned, goodput=goodput(config, step.step_s, extras.failures))
    return planned


def check_ranks(job: Job, fabric: Fabric, ranks: int) -> None:
    """Raise ColltoolError for more ranks than the fabric has, and for fewer than one."""
    if ranks < 1:
        raise no_ranks(ranks, fabric.ranks)
    if ranks > fabric.ranks:
        tier = fabric.tiers[-1]
        size = ceil_div(ranks, fabric.ranks // tier.endpoints)
        fix = argument_text("ranks", fabric.ranks)
        if nodes_for(fabric, ranks) is not None:
            fix += f", or grow it: {argument_text('fabric', f'{fabric.name}:nodes={size}')}"
        elif "size" in type(tier).model_fields:
            fix += f", or grow it: {argument_text('overrides', [f'{tier.name}.size={size}'])}"
        raise ColltoolError(
            f"{job.name} has {ranks} ranks, and {fabric.name} has {fabric.ranks}",
            argument="ranks",
            fix=fix,
        )


def rates(config: ParallelConfig, step_s: float) -> tuple[float | None, float | None]:
    """Return (tokens per second, MFU) of a job whose step takes so long; tokens are None without a
    model, MFU without a device or a shape."""
    if config.model is None or not step_s:
        return None, None
    tokens = config.global_batch * config.sequence / step_s
    if config.shape is None or config.device is None:
        return tokens, None
    return tokens, ideal_step_s(config) / step_s


def _collectives(step: TrainingStep, *, energy: bool) -> tuple[PlannedCall, ...]:
    """Return all calls with the stages that send them, the most exposed first; ``energy``: with what
    they spend.

    A call of several stages has the figures of the first, or of the one that the step waits for.
    """
    critical = _merged(step.critical_calls)
    by_key = dict(critical)
    senders: dict[object, list[int]] = {}
    energies_J: dict[object, float] = defaultdict(float)
    for number, stage in enumerate(step.stages):
        for key, call in _merged(stage.sent).items():
            by_key.setdefault(key, call)
            senders.setdefault(key, []).append(number)
            call_energy_J = energy_J(step.config, call) if energy else None
            if call_energy_J is not None:
                energies_J[key] += call_energy_J
    planned = [
        PlannedCall(tuple(senders[key]), call, key in critical, energies_J.get(key))
        for key, call in by_key.items()
    ]
    # what is exposed most comes first
    planned.sort(key=lambda call: (-call.sent.exposed_s, -call.sent.total_s))
    return tuple(planned)


def _merged(sent: Sequence[PricedCall]) -> dict[object, PricedCall]:
    """Merge the calls of a stage that differ only in what sends them, such as attention and FFN.

    A merged call is under a key that depends on nothing of its stage: calls of two stages that are
    alike, and as many in a step, have the same one.
    """
    merged: dict[object, PricedCall] = {}
    for priced in sent:
        call = priced.call
        key = (call.dimension, call.primitive, call.phase, call.group, call.bytes, call.hides)
        same = merged.get(key)
        if same is not None:
            call = call._replace(
                calls_per_unit=call.calls_per_unit + same.call.calls_per_unit,
                calls=call.calls + same.call.calls,
            )
            priced = priced._replace(call=call, exposed_s=priced.exposed_s + same.exposed_s)
        merged[key] = priced
    return {(key, priced.call.calls): priced for key, priced in merged.items()}


def _tier_uses(fabric: Fabric, step: TrainingStep) -> Iterator[TierUse]:
    """Yield the use of each tier that carries bytes."""
    for tier in fabric.tiers:
        # of each stage, seconds by dimension
        by_stage = [_seconds_by_dimension(stage.sent, tier.name) for stage in step.stages]
        worst = max(by_stage, key=lambda carried: sum(carried.values()))
        busy_s = sum(worst.values())
        if busy_s:
            most = max(worst, key=worst.__getitem__)
            yield TierUse(tier.name, busy_s, busy_s / step.step_s, most)


def _seconds_by_dimension(sent: Sequence[PricedCall], tier: str) -> dict[str, float]:
    """Seconds that calls keep a tier busy, by dimension."""
    seconds: dict[str, float] = defaultdict(float)
    for priced in sent:
        call = priced.call
        seconds[call.dimension] += dict(priced.cost.busy).get(tier, 0.0) * call.calls
    return seconds
