"""What the figure of a step rests on: assumptions, what is left out, who picked the algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from colltool.base.errors import given, said
from colltool.base.formatting import format_time, shape_text
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.job import Job
from colltool.training.job_placement import slice_of
from colltool.training.parallel_config import ParallelConfig
from colltool.training.step_time import TrainingStep

LAUNCH_S = 10e-6  # what a library takes at least to start a collective: measured 5 to 12 us


def step_assumptions(config: ParallelConfig, costs: CollectiveCostCache, step: TrainingStep, *, energy: bool) -> tuple[str, ...]:
    found = [*_stack(config), *_library(costs, step), *_launches(costs.fabric, step), *_strides(costs, step)]
    return (*found, *(_energy(costs.fabric, step) if energy else ()))


def job_assumptions(job: Job, fabric: Fabric, cut: Fabric, readings: Readings | None) -> Iterator[str]:
    """Readings, the fabric's device, the slice of it (``cut``), and what the job does not count."""
    if readings is not None and readings != Readings():
        yield f"readings: {readings.spoken()}"
    if (part := slice_of(fabric, cut)) is not None:
        tier, shape = part
        other = given("overrides", [f"{tier.name}.shape=[{','.join(map(str, shape[::-1]))}]"])
        yield said(
            f"the ranks are a slice of {shape_text(shape)} of {tier.name}; another, such as {other}, is asked for by its shape"
        )
    device = job.draft.device
    if device is not None and job.device_from == "fabric":
        yield f"computes on {device.name}, {fabric.name}'s device"
    elif device is not None and fabric.device is None and job.device_from == "default":
        yield f"computes on {device.name}, the job's: {fabric.name} names no device"
    for one in job.draft.model.left_out if job.draft.model is not None else ():
        yield f"not counted: {one}"


def _stack(config: ParallelConfig) -> Iterator[str]:
    stack, device, given = config.stack, config.device, config.compute
    if stack is not None and device is not None and given is None and device.generation in stack.assumed:
        yield f"efficiency of stack {stack.name} on {device.generation} is partly assumed, not measured"
    if given is not None and not given.per_layer and config.model is not None:
        yield "compute gives times of a whole step: nothing hides under single layers"


def _library(costs: CollectiveCostCache, step: TrainingStep) -> Iterator[str]:
    calls = {one.call: one.cost for stage in step.stages for one in stage.sent if one.cost.busy}
    picked = {cost.pick for cost in calls.values()} - {""}
    facts = costs.fabric.library_facts
    name = facts.name if facts is not None else "all"
    if picked:
        yield f"algorithms: {', '.join(sorted(picked))}'s own choice, where it has a cost model"
    elif calls:
        runs = "the fastest of any library" if name == "all" else f"the fastest that {name} implements"
        yield f"algorithms: {runs}; a library may pick others"


def _launches(fabric: Fabric, step: TrainingStep) -> Iterator[str]:
    """A fabric without launch overhead makes every exposed call a lower bound."""
    listed = (one for tier in fabric.tiers for one in tier.protocols or ())
    if fabric.hypothetical or "launch_overhead" in fabric.model_fields_set or any(one.launch_overhead for one in listed):
        return
    calls = sum(one.call.calls for one in step.paced if one.exposed_s and one.cost.busy)
    if calls:
        more = f"at {format_time(LAUNCH_S)} per launch, +{format_time(calls * LAUNCH_S, 2)}"
        yield f"{fabric.name} gives no launch overhead: {calls:,.0f} exposed calls are lower bounds ({more})"


def _strides(costs: CollectiveCostCache, step: TrainingStep) -> Iterator[str]:
    of: dict[int, list[str]] = {}
    for one in (sent for stage in step.stages for sent in stage.sent if sent.cost.busy):
        for _, stride in one.call.group.axes:
            names = of.setdefault(stride, [])
            if one.call.dimension not in names:
                names.append(one.call.dimension)
    for stride, names in sorted(of.items()):
        if (rounded := costs.rounded(stride)) is not None:
            yield f"{', '.join(names)}: every {stride} ranks do not tile {_rounded(costs.fabric, rounded)}"


def _rounded(fabric: Fabric, rounded: Fabric) -> str:
    """``ib of 16, priced on 15``, and levels whose groups changed."""
    tier, other = fabric.tiers[-1], rounded.tiers[-1]
    parts = [f"{tier.name} of {tier.endpoints}, priced on {other.endpoints}"] if tier.endpoints != other.endpoints else []
    parts += [
        f"{one.name} of {one.group}, priced on {its.group}"
        for one, its in zip(capabilities_of(tier).levels, capabilities_of(other).levels, strict=True)
        if one.group != its.group
    ]
    return ", ".join(parts)


def _energy(fabric: Fabric, step: TrainingStep) -> Iterator[str]:
    crossed = {tier for stage in step.stages for one in stage.sent for tier in one.cost.tiers}
    for name in (tier.name for tier in fabric.tiers if tier.name in crossed and tier.energy is None):
        yield f"{name} has no energy figure and counts as 0: set {name}.energy=30pJ/bit"


class PublishedError(NamedTuple):
    """Planned runs, and the median of |plan / measured - 1| over them."""

    runs: int
    median_error: float


DENSE = {"fsdp": PublishedError(9, 0.071), "megatron": PublishedError(69, 0.068), "megatron-2021": PublishedError(10, 0.021)}
# Steps of dense runs: torchtitan; NeMo, Megatron-LM and Megatron-Bridge; Narayanan 2021. No constant was fitted to them, though
# their errors were known when it was decided what to count. They are in ``tests/data/training_runs.csv``;
# ``tests/benchmarks/bench_plan.py`` plans them, and a test holds these figures to it.

MOE = {"megatron": PublishedError(21, 0.194)}
# Steps of runs whose tokens were forced evenly over the experts: Megatron-Bridge and NeMo AutoModel, 2025.

MEMORY = PublishedError(7, 0.090)  # peak memory of the runs above that print it: torchtitan and NeMo


def published_error(stack: str, *, moe: bool = False) -> PublishedError | None:
    """None where no published runs were planned under a stack."""
    return (MOE if moe else DENSE).get(stack)
