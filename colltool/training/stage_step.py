"""A pipeline stage's part of a training step: :func:`stage_step` gives its :class:`StageStep`.

A stage computes and sends in every micro-batch (:class:`MicroBatch`), passes messages over the borders
to its neighbours, and sends gradients, weights and what an update needs once a step
(:class:`PerStep`). :mod:`overlap` and :mod:`pass_buckets` say what of the calls is exposed.

Parts that layouts of a search share are priced once, in views of their configuration without what
the part does not depend on (:func:`views`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from colltool.base.primitives import A2A, AG, P2P
from colltool.training.calls import (
    BORDER_CALLS,
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
from colltool.training.job import PlainCall
from colltool.training.offload import with_offload
from colltool.training.operations import Phase
from colltool.training.overlap import OverlapModel, PricedCall, borders, priced, under_all_compute
from colltool.training.overlap_slowdown import slowed_s
from colltool.training.parallel_config import ParallelConfig, Shard
from colltool.training.pass_buckets import PassBuckets, pass_buckets
from colltool.training.pipeline_stages import PipelineStage
from colltool.training.strategies import Pass
from colltool.training.updates import optimizer_s

# Of the values that ``Call.hides`` has (:data:`calls.Hiding`), those of calls once a step that hide
# under a whole forward or backward pass, as buckets of gradients do. "steady pipeline" hides under
# all compute of the step, the others under nothing.
UNDER_A_PASS = ("last backward", "first forward", "neighbour layer")


@dataclass(frozen=True)
class StageStep:
    """A pipeline stage's part of a step."""

    stage: PipelineStage
    compute: StageTimes  # of one micro-batch
    passed: Pass  # one micro-batch with its exposed communication
    sent: tuple[PricedCall, ...]  # all calls of the step, with the exposed seconds of each
    borders_s: float  # exposed seconds of messages to the next stages
    once_s: float  # exposed after the pipeline: gradients, weights, updates
    optimizer_s: float
    slowed_s: float  # compute lost to communication on the same multiprocessors

    @property
    def tail_s(self) -> float:
        """Seconds of the stage after its last micro-batch."""
        return self.once_s + self.optimizer_s + self.slowed_s


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

    Args:
        config: the job as it runs.
        view: its views.
        stage: the stage.
        costs: prices of collectives.
        plain: the calls that the job lists itself.
        messages: the priced calls of borders where they hide, exposed seconds not known yet.
    """
    micro_batch = _shared_micro_batch(view.micro_batch, stage, costs)
    per_step = costs.shared(
        ("step", view.once, stage, plain), lambda: _per_step(view.once, stage, costs, plain)
    )
    pipeline_borders = borders(messages, config, micro_batch.passed.total_s)
    hidden_by_wire = _hidden_by_wire(micro_batch.hidden, pipeline_borders)
    sent_once = _exposed_once(config, per_step, micro_batch.times, hidden_by_wire)
    return StageStep(
        stage,
        micro_batch.times,
        micro_batch.passed,
        sent=(*micro_batch.layer_calls, *pipeline_borders, *sent_once),
        borders_s=sum(call.exposed_s for call in pipeline_borders),
        once_s=sum(call.exposed_s for call in sent_once),
        optimizer_s=per_step.optimizer_s,
        slowed_s=micro_batch.slowed_s + slowed_s(config, micro_batch.times, sent_once),
    )


# Seconds of a step's calls that compute hides, by (wire, whether in the backward pass). The wire is
# the name of the tier that a call keeps busy longest.
Hidden = dict[tuple[str, bool], float]


def _hidden_by_wire(before: Hidden, calls: Iterable[PricedCall]) -> Hidden:
    """Return ``before`` with the hidden seconds of these calls added."""
    hidden = defaultdict(float, before)
    for call in calls:
        hidden[call.cost.busiest_tier, call.backward] += call.hidden_s
    return hidden


def _exposed_once(
    config: ParallelConfig, per_step: PerStep, times: StageTimes, hidden_by_wire: Hidden
) -> list[PricedCall]:
    """Return the calls that are sent once a step, with their exposed seconds.

    ``times`` are of one micro-batch, ``hidden_by_wire`` is of the calls of all micro-batches: they
    leave less compute to hide what goes over the same wire.

    Where stages are interleaved, the last p micro-batches all finish a chunk before the next chunk
    starts, so its gradients go out while p micro-batches run the other chunks (NVIDIA NeMo,
    communication overlap).
    """
    overhead_s = config.overlap.overhead_s
    m = config.micro_batches
    compute = times.all
    # micro-batches under whose passes the buckets of a chunk may hide
    pass_count = min(config.layout.pp, m) if config.pipeline.interleaved else 1

    def hide_under_pass(buckets: PassBuckets, pass_s: float, *, backward: bool) -> list[PricedCall]:
        # of one micro-batch
        covered_s = sum(hidden_by_wire.get((wire, backward), 0.0) for wire in buckets.wires) / m
        return buckets.exposed(pass_count * (pass_s - covered_s), overhead_s)

    return [
        *hide_under_pass(per_step.backward, compute.backward_s + compute.again_s, backward=True),
        *hide_under_pass(per_step.forward, compute.forward_s, backward=False),
        *under_all_compute(per_step.hidden_anywhere, compute.total_s * m, overhead_s),
        *per_step.exposed_always,
    ]


class MicroBatch(NamedTuple):
    """What a stage computes and sends in every micro-batch.

    Times and the pass are of one micro-batch; seconds of calls are of all in a step.
    """

    times: StageTimes  # compute
    layer_calls: tuple[PricedCall, ...]  # with borders where they do not hide
    passed: Pass  # with the exposed time of its calls
    hidden: Hidden
    slowed_s: float  # compute of the step lost beside its calls


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
    sent = priced_calls(config, stage, costs, generators)
    # their seconds are of all micro-batches of the step, so those of a pass are a part in m
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
    sent = priced_calls(config, stage, costs, GRADIENT_CALLS + UPDATE_CALLS, once=True)
    sent += [_priced_plain_call(call, costs, config) for call in plain]
    backward: list[PricedCall] = []
    forward: list[PricedCall] = []
    hidden_anywhere: list[PricedCall] = []
    exposed_always: list[PricedCall] = []
    for call in sent:
        if call.call.hides == "steady pipeline":  # stage messages that a job lists
            hidden_anywhere.append(call)
        elif call.call.hides not in UNDER_A_PASS:
            # LogP's o, at the sender and at the receiver
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


def priced_calls(
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
        # on no tier, and all of the given time grows with size
        cost = CollectiveCost("given", "", 0.0, plain.time_s, per_domain=(), busy=())
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


def micro_batch_pass(
    config: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache
) -> Pass:
    """A micro-batch on a stage with its exposed calls, without what comes after the pipeline."""
    return _shared_micro_batch(_micro_batch_view(config), stage, costs).passed


def compute_pass(stage: StageTimes) -> Pass:
    """A micro-batch's compute on a stage."""
    times = stage.all
    return Pass(times.forward_s, times.backward_s + times.again_s, times.weight_s)
