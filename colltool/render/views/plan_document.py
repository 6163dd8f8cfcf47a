"""The JSON document of ``plan``: :class:`PlanDocument`, and the documents of its parts.

A field without a value is the plan's own of the same name; ``derived`` takes another attribute.
"""

from __future__ import annotations

from typing import Any

from colltool.base.formatting import whole_bytes
from colltool.estimate.results import Accuracy
from colltool.render.documents import LEFT_OUT, Document, derived, optional, or_null
from colltool.render.intervals import IntervalDocument
from colltool.render.shared_documents import (
    MachineDocument,
    assumed_with,
    machine_of,
    mapping,
    whole,
)
from colltool.training.goodput import Goodput
from colltool.training.job_links import JobLink
from colltool.training.memory import MemoryPart
from colltool.training.parallel_config import ParallelLayout
from colltool.training.plan import Plan, PlannedCall, TierUse
from colltool.training.proposals import Proposal
from colltool.training.published import PublishedError
from colltool.training.sentences import MFU_CONVENTION
from colltool.training.stack_choice import StackStep
from colltool.training.step_calibration import StepCalibration
from colltool.training.step_time import StepPart
from colltool.training.targets import Needed, Targeted

# why a call has no interval
_NOT_JUDGED = "a price without contention, or a send beside others, which nobody measured"


class PlannedDocument(Document):
    """The job and the fabric of a plan or of a search for a layout, and what was set of each."""

    job: str = derived("job.name")
    fabric: str
    ranks: int
    set: dict[str, str] = optional(lambda result: dict(result.fabric_overrides) or LEFT_OUT)
    fabric_assumed: list[str] = optional(lambda result: assumed_with(result.fabric_overrides))
    machine: MachineDocument | None = optional(lambda result: machine_of(result.fabric_overrides))
    job_set: dict[str, str] = mapping("job.overrides")
    device: str | None
    device_from: str | None = or_null("job.device_from")


class TargetDocument(Document, of=Targeted):
    """What a target takes of the network."""

    mfu: float | None = derived("target.mfu")
    over: float | None = derived("target.over")
    limit_s: float
    reached: bool
    possible: bool
    needed: list[NeededDocument]


class NeededDocument(Document, extends=Needed):
    """The least change of one kind that reaches a target."""

    set: dict[str, str] = mapping("set")


class ProposalDocument(Document, extends=Proposal):
    """A change, and the step with it."""

    set: dict[str, str] = mapping("set")


def _plain_run_s(result: Plan) -> float | None:
    """Seconds of all steps of the job without compression."""
    steps = result.job.steps
    if steps is None or result.compression is None:
        return None
    return result.compression.plain_run_s(steps)


class CompressionDocument(Document, at="compression"):
    """What compressed gradients gain."""

    on: str = derived("compression.given.on")
    scheme: str = derived("compression.given.scheme")
    ratio: float
    times_fewer: float
    overhead_s: float = derived("compression.given.overhead_s")
    largest_overhead_s: float
    pays: bool
    each_s: float
    plain_each_s: float
    plain_step_s: float
    extra_steps: float = derived("compression.given.extra_steps")
    break_even_extra_steps: float
    gains: bool
    run_s: float | None = derived("run_s")
    plain_run_s: float | None = derived(_plain_run_s)


def _compression(result: Plan) -> dict[str, Any] | None:
    return None if result.compression is None else CompressionDocument.of(result)


class PlannedGroupDocument(Document):
    """Where the ranks of a call are."""

    ranks: int = derived("call.group.ranks")
    stride: int = derived("call.group.stride")
    per_domain: list[int] = derived("cost.per_domain")


class PlannedCallDocument(Document, of=PlannedCall):
    """A collective of the step."""

    dimension: str = derived("sent.call.dimension")
    primitive: str = derived("sent.call.primitive")
    group: PlannedGroupDocument = derived(lambda planned: PlannedGroupDocument.of(planned.sent))
    tiers: list[str] = derived("sent.cost.tiers")
    phase: str = derived("sent.call.phase")
    count: float = whole("sent.call.calls")
    bytes: float = whole("sent.call.bytes")
    algorithm: str = derived("sent.cost.algorithm")
    protocol: str | None = or_null("sent.cost.protocol")
    picked_by: str | None = or_null("sent.cost.picked_by")
    # of the library's kernel; None where they are not known
    channels: int | None = derived("sent.cost.channels")
    each_s: float = derived("sent.each_s")
    total_s: float = derived("sent.total_s")
    hidden_s: float = derived("sent.hidden_s")
    exposed_s: float = derived("sent.exposed_s")
    bound: str = derived("sent.cost.bound")
    energy_J: float | None
    hides: str = derived("sent.call.hides")
    accuracy: Accuracy | None
    interval: IntervalDocument | None
    # why there is none
    no_interval: str = optional(lambda planned: LEFT_OUT if planned.interval else _NOT_JUDGED)
    stages: list[int]
    paces: bool


class JobLinkDocument(Document, extends=JobLink):
    """The busiest link of a kind."""

    bytes: float = whole("bytes")
    by: dict[str, float] = derived(lambda link: {name: whole_bytes(size) for name, size in link.by})


class PlanDocument(PlannedDocument):
    """The time of a training step on a fabric."""

    sequence: int | None = derived(lambda result: result.setup.model and result.setup.sequence)
    global_batch: int | None = derived(
        lambda result: result.setup.model and result.setup.global_batch
    )
    global_batch_tokens: int | None
    layout: ParallelLayout = derived("setup.layout")
    micro_batch: int = derived("setup.micro_batch")
    schedule: str = derived("setup.schedule")
    shard_mode: str = derived("setup.shard.mode")
    recompute: str = derived("setup.recompute")
    # of a searched layout: what --job-set takes to plan it again
    layout_set: dict[str, str] = optional(lambda result: dict(result.searched) or LEFT_OUT)
    step_s: float
    control_step_s: float
    network_share: float
    wire: str | None
    exposed_s: float
    hidden_s: float
    error: PublishedError | None
    measured_step_s: float | None = derived("job.measured_step_s")
    measured_error: float | None
    anchor: StepCalibration | None
    measured_memory_bytes: float | None = derived("job.measured_memory_bytes")
    memory_error: float | None
    goodput: Goodput | None
    target: TargetDocument | None = derived("targeted")
    steps: int | None = derived("job.steps")
    run_s: float | None
    compression: CompressionDocument | None = derived(_compression)
    energy_J: float | None
    # the same job under the other stacks of its family, where that changes the step
    stacks: list[StackStep]
    grounds: list[str]
    tokens_per_s: float | None
    mfu: float | None
    mfu_convention: str = derived(lambda _: MFU_CONVENTION)
    parts: list[StepPart]
    collectives: list[PlannedCallDocument]
    memory: list[MemoryPart] = derived(lambda result: result.memory.parts if result.memory else ())
    memory_bytes: float | None
    capacity_bytes: float | None = derived("memory.capacity_bytes")
    fits: bool | None = derived("memory.fits")
    tight: bool | None = derived("memory.tight")
    # nine runs in ten take from 1 - this to 1 + this of memory_bytes
    memory_within: float | None = derived("memory.within")
    busiest: list[TierUse] = derived("wires")
    busiest_links: list[JobLinkDocument] = optional(
        lambda result: result.links.links if result.links else LEFT_OUT
    )
    link_notes: list[str] = optional(
        lambda result: result.links.notes if result.links else LEFT_OUT
    )
    changes: list[ProposalDocument]
