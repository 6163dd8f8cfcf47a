"""``plan``: a training job's step on a fabric, the wires that slow it down, and what changes would
gain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, given
from colltool.base.result import Result
from colltool.estimate.assumptions import Readings
from colltool.estimate.interval import Interval
from colltool.estimate.results import Accuracy
from colltool.fabric.model import Fabric
from colltool.training.assumptions import PricedJob, assumptions
from colltool.training.collective_cost import CollectiveCostCache, job_slice
from colltool.training.goodput import Failures, Goodput, goodput
from colltool.training.job import Job, no_ranks
from colltool.training.job_links import JobLinks, job_links
from colltool.training.job_results import on_fabric, refuse_impossible_step
from colltool.training.memory import Memory, memory
from colltool.training.operations import ideal_step_s
from colltool.training.overlap import (
    GradientCompression,
    PricedCall,
    energy_J,
    gradient_compression,
)
from colltool.training.parallel_config import Offload, ParallelConfig
from colltool.training.proposals import Proposal, proposals
from colltool.training.published import PublishedError, published_error
from colltool.training.sentences import sentence
from colltool.training.step_time import (
    StepCalibration,
    StepPart,
    TrainingStep,
    calibrated,
    step_time,
)
from colltool.training.targets import Target, Targeted, targeted

MFU_CONVENTION = (
    "model FLOPs with the causal half of attention, over the device's dense peak in the precision"
    " of its GEMMs"
)


class PlannedCall(NamedTuple):
    """A collective of the step, with the figures of the stage that sets the pace."""

    stages: tuple[int, ...]
    sent: PricedCall
    paces: bool  # its seconds are in the step's parts
    # of all its calls on all ranks; None where not asked for, or no tier says
    energy_J: float | None = None
    # how far off the price of a call is; None where it was not asked for, or is ideal
    accuracy: Accuracy | None = None
    interval: Interval | None = None  # of each call's seconds, where nine of ten measurements lie


class TierUse(NamedTuple):
    """Seconds that a tier's wires carry bytes in a step, on the stage that keeps them busiest."""

    tier: str
    busy_s: float
    share: float  # of the step
    dimension: str  # that has most of it


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    subject: ClassVar[str] = "plan"
    job: Job
    setup: ParallelConfig
    fabric: str
    fabric_overrides: tuple[tuple[str, str], ...]
    step_s: float
    control_step_s: float  # with a free network
    parts: tuple[StepPart, ...]  # their exposed seconds sum to ``step_s``
    collectives: tuple[PlannedCall, ...]
    memory: Memory | None
    wires: tuple[TierUse, ...]  # by tier
    changes: tuple[Proposal, ...]  # that gain, the best first
    tokens_per_s: float | None
    mfu: float | None  # by MFU_CONVENTION; None without a device or a shape
    anchor: StepCalibration | None  # what made the step the measured one
    compression: GradientCompression | None
    grounds: tuple[str, ...]  # what the figures rest on, a line each
    step: TrainingStep  # that the figures are of
    links: JobLinks | None = None
    targeted: Targeted | None = None
    goodput: Goodput | None = None

    @property
    def ranks(self) -> int:
        return self.setup.layout.ranks

    @property
    def device(self) -> str | None:
        return self.setup.device.name if self.setup.device is not None else None

    @property
    def network_share(self) -> float:
        return 1 - self.control_step_s / self.step_s if self.step_s else 0.0

    @property
    def wire(self) -> str | None:
        """The tier with the most exposed communication; None where nothing is exposed."""
        found: dict[str, float] = {}
        for one in self.collectives:
            if one.paces and one.sent.cost.wire:
                found[one.sent.cost.wire] = found.get(one.sent.cost.wire, 0.0) + one.sent.exposed_s
        worst = max(found, key=lambda tier: found[tier], default=None)
        return worst if worst is not None and found[worst] > 0 else None

    @property
    def error(self) -> PublishedError | None:
        """Of published runs under its stack, their sources left out; None where there are none like
        it, or times are given."""
        setup, stack, model = self.setup, self.setup.stack, self.setup.model
        if stack is None or setup.compute is not None or setup.lora or setup.offload != Offload():
            return None
        return published_error(stack.name, moe=bool(model and model.moe_layers))

    @property
    def exposed_s(self) -> float:
        """Communication that the step waits for, on the stages that set its pace."""
        return sum(one.sent.exposed_s for one in self.collectives if one.paces)

    @property
    def hidden_s(self) -> float:
        """Communication under compute, on the same stages."""
        return sum(one.sent.hidden_s for one in self.collectives if one.paces)

    @property
    def memory_bytes(self) -> float | None:
        return self.memory.bytes if self.memory is not None else None

    @property
    def measured_error(self) -> float | None:
        """Step over measured step, minus 1, before any anchoring; None where nothing was
        measured."""
        planned_s = self.anchor.before_s if self.anchor is not None else self.step_s
        return planned_s / self.job.measured_step_s - 1 if self.job.measured_step_s else None

    @property
    def memory_error(self) -> float | None:
        """Memory over measured memory, minus 1; None where nothing was measured."""
        measured = self.job.measured_memory_bytes
        return self.memory.bytes / measured - 1 if measured and self.memory is not None else None

    @property
    def run_s(self) -> float | None:
        """All steps of the job, with the extra ones that compression takes; None where it gives no
        number of steps."""
        steps = self.job.steps
        if steps is None:
            return None
        return (
            self.compression.run_s(steps) if self.compression is not None else steps * self.step_s
        )

    @property
    def energy_J(self) -> float | None:
        """Of a step on the wires of all ranks; None where the job does not ask for it, or no tier
        says."""
        spent = [one.energy_J for one in self.collectives if one.energy_J is not None]
        return sum(spent) if spent else None


class Asked(NamedTuple):
    """What a plan answers besides the step."""

    links: bool = False
    target: Target | None = None
    failures: Failures | None = None


PLAIN = Asked()


def plan(
    job: Job,
    fabric: Fabric,
    ranks: int | None = None,
    readings: Readings | None = None,
    asked: Asked = PLAIN,
) -> Plan:
    """A training step priced on a fabric: on ``ranks``, else those of the job's layout, or all of
    the fabric where dp is auto.

    ColltoolError where a layout or a group does not sit on the fabric.
    """
    job = on_fabric(job, fabric)
    config = job.setup(ranks if ranks is not None or job.draft.layout.dp else fabric.ranks)
    seated(job, fabric, config.layout.ranks)
    whole, fabric = fabric, job_slice(fabric, config.layout.ranks)
    costs, plain = CollectiveCostCache(fabric, readings), job.plain_calls(config)
    step = step_time(config, costs, plain)
    anchor = calibrated(job, config, costs, plain, step)
    if anchor is not None:
        config = config._replace(slower=anchor.factor)
        step = step_time(config, costs, plain)
    without = (
        step
        if config.compression is None
        else step_time(config._replace(compression=None), costs, plain)
    )
    kept = memory(config) if config.model is not None else None
    tokens, share = rates(config, step.step_s)
    refuse_impossible_step(job, step.step_s, share)
    return Plan(
        job=job,
        setup=config,
        fabric=fabric.name,
        fabric_overrides=fabric.overrides,
        step_s=step.step_s,
        control_step_s=step.control_s,
        parts=step.parts,
        collectives=_collectives(step, energy=job.energy),
        memory=kept,
        wires=tuple(_wires(fabric, step)),
        changes=proposals(job, config, costs, plain, step),
        tokens_per_s=tokens,
        mfu=share,
        anchor=anchor,
        compression=gradient_compression(config, step, without),
        grounds=tuple(map(sentence, assumptions(PricedJob(job, whole, costs, step)))),
        step=step,
        links=job_links(fabric, step, readings or Readings()) if asked.links else None,
        targeted=(
            targeted(config, costs, plain, step, asked.target)
            if asked.target and config.shape
            else None
        ),
        goodput=(
            goodput(config, step.step_s, asked.failures)
            if asked.failures and config.model
            else None
        ),
    )


def seated(job: Job, fabric: Fabric, ranks: int) -> None:
    """Refuses more ranks than the fabric has, and fewer than one."""
    if ranks < 1:
        raise no_ranks(ranks, fabric.ranks)
    if ranks > fabric.ranks:
        tier = fabric.tiers[-1]
        need = -(-ranks // (fabric.ranks // tier.endpoints))
        fix = (
            f"{given('ranks', fabric.ranks)}, or a larger fabric, such as"
            f" {given('overrides', [f'{tier.name}.size={need}'])}"
        )
        raise ColltoolError(
            f"{job.name} has {ranks} ranks, and {fabric.name} has {fabric.ranks}",
            argument="ranks",
            fix=fix,
        )


def rates(config: ParallelConfig, step_s: float) -> tuple[float | None, float | None]:
    if config.model is None or not step_s:
        return None, None
    tokens = config.global_batch * config.sequence / step_s
    if config.shape is None or config.device is None:
        return tokens, None
    return tokens, ideal_step_s(config) / step_s


def _collectives(step: TrainingStep, *, energy: bool) -> tuple[PlannedCall, ...]:
    """Calls with the stages that send them; those on the stages that set the pace carry the step's
    figures."""
    paced = _merged(step.critical_calls)
    first, senders, spent = dict(paced), dict[object, list[int]](), dict[object, float]()
    for number, stage in enumerate(step.stages):
        for key, one in _merged(stage.sent).items():
            first.setdefault(key, one)
            senders.setdefault(key, []).append(number)
            if energy and (joule := energy_J(step.config, one)) is not None:
                spent[key] = spent.get(key, 0.0) + joule
    planned = [
        PlannedCall(tuple(senders[key]), one, key in paced, spent.get(key))
        for key, one in first.items()
    ]
    return tuple(sorted(planned, key=lambda one: (-one.sent.exposed_s, -one.sent.total_s)))


def _merged(sent: Sequence[PricedCall]) -> dict[object, PricedCall]:
    """Calls of a stage that differ only in what sends them, such as attention and FFN, as one."""
    found: dict[object, PricedCall] = {}
    for one in sent:
        call = one.call
        key = (call.dimension, call.primitive, call.phase, call.group, call.bytes, call.hides)
        if (before := found.get(key)) is not None:
            call = call._replace(
                each=call.each + before.call.each, calls=call.calls + before.call.calls
            )
            one = one._replace(call=call, exposed_s=one.exposed_s + before.exposed_s)
        found[key] = one
    return {(key, one.call.calls): one for key, one in found.items()}


def _wires(fabric: Fabric, step: TrainingStep) -> Iterator[TierUse]:
    for tier in fabric.tiers:
        by_stage: list[dict[str, float]] = []
        for stage in step.stages:
            carried: dict[str, float] = {}
            for one in stage.sent:
                seconds = dict(one.cost.busy).get(tier.name, 0.0) * one.call.calls
                carried[one.call.dimension] = carried.get(one.call.dimension, 0.0) + seconds
            by_stage.append(carried)
        worst = max(by_stage, key=lambda carried: sum(carried.values()))
        if busy := sum(worst.values()):
            yield TierUse(
                tier.name, busy, busy / step.step_s, max(worst, key=lambda name: worst[name])
            )
