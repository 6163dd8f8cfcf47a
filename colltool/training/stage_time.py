"""One pipeline stage of a step: the pass of a micro-batch with its exposed communication, and what follows once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from colltool.base.primitives import A2A, AG, P2P
from colltool.training.calls import Call, Hiding, Phase, once_a_node
from colltool.training.collective_cost import CollectiveCost, CollectiveCostCache, given_time
from colltool.training.compression import compressed, is_compressed, times_fewer
from colltool.training.compute import StageTimes, optimizer_s, stage_times
from colltool.training.job import PlainCall
from colltool.training.overlap import OverlapModel, PricedCall
from colltool.training.parallel_config import ParallelConfig, PipelineStage, Shard
from colltool.training.per_step import PassBuckets, all_of_it, borders, of_a_pass, under_all
from colltool.training.strategies import Pass
from colltool.training.traffic import BORDERS, GRADIENTS, OFTEN, ONCE, stage_calls

PLAIN = "the job's calls"
UNDER_A_PASS = ("last backward", "first forward", "neighbour layer")


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
    def compute_s(self) -> float:
        return self.compute.all.total_s

    @property
    def bare(self) -> Pass:
        """The pass with a free network."""
        times = self.compute.all
        return Pass(times.forward_s, times.backward_s + times.again_s, times.weight_s)


class Views(NamedTuple):
    """A configuration as each part of its step sees it; layouts with an equal view share that part."""

    micro_batch: ParallelConfig
    border: ParallelConfig
    step: ParallelConfig


def views(config: ParallelConfig) -> Views:
    """Drop from a configuration what each part of its step does not depend on.

    A micro-batch depends on sharding only where layers are gathered for it, and on chunks only where stages wait for messages.
    Borders depend on neither sharding nor recomputation; what is sent once a step on neither micro-batches nor chunks.
    """
    unsharded = config._replace(shard=Shard())
    whole = config.layout._replace(virtual=1, stages=())
    micro_batch = config if config.shard.layers and config.shard.reshard else unsharded
    return Views(
        micro_batch=micro_batch._replace(layout=whole, schedule="1f1b") if config.overlap.pp else micro_batch,
        border=unsharded._replace(recompute="none"),
        step=config._replace(layout=whole, schedule="1f1b", micro_batch=1, recompute="none"),
    )


class PerStep(NamedTuple):
    """What a stage does once a step."""

    back: PassBuckets  # under the last backward pass
    front: PassBuckets  # under the first forward pass
    free: tuple[PricedCall, ...]  # under all compute
    bare: tuple[PricedCall, ...]  # under nothing
    optimizer_s: float


class MicroBatch(NamedTuple):
    times: StageTimes
    held: tuple[PricedCall, ...]
    passed: Pass
    hidden_s: dict[tuple[str, bool], float]  # over the step, by (wire, in the backward pass)


def stage_step(
    config: ParallelConfig, views: Views, stage: PipelineStage, costs: CollectiveCostCache, plain: tuple[PlainCall, ...] = ()
) -> StageStep:
    """A stage with its calls priced and their exposed time; what layouts share by :class:`Views` is worked out once."""
    times, held, passed, hidden = costs.shared(("micro-batch", views.micro_batch, stage),
                                               lambda: _micro_batch(views.micro_batch, stage, costs))  # fmt: skip
    behind = costs.shared(("step", views.step, stage, plain), lambda: _behind(views.step, stage, costs, plain))
    between: list[PricedCall] = []
    if config.overlap.pp and config.layout.pp > 1:
        messages = costs.shared(("borders", views.border, stage), lambda: _borders(views.border, stage, costs))
        between = borders(messages, config, passed.total_s)
        hidden = _hidden(between, dict(hidden))
    once = _once(behind, config, times, hidden)
    slowed = sum(one.hidden_s for one in (*held, *once)) * config.overlap.sm_share if config.overlap.sm_share else 0.0
    return StageStep(
        stage=stage,
        compute=times,
        passed=passed,
        sent=(*held, *between, *once),
        borders_s=sum(one.exposed_s for one in between),
        once_s=sum(one.exposed_s for one in once),
        optimizer_s=behind.optimizer_s,
        slowed_s=slowed,
    )


def _micro_batch(config: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache) -> MicroBatch:
    times = stage_times(config, stage)
    sent = [_priced(call, costs, config) for call in stage_calls(config, stage, OFTEN + GRADIENTS) if call.per != "step"]
    waiting = [] if config.overlap.pp else _borders(config, stage, costs)
    held = tuple(OverlapModel(config, times).exposed(sent + waiting))
    return MicroBatch(times, held, _passed(config, times, held), _hidden(held, {}))


def _behind(config: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache, plain: tuple[PlainCall, ...]) -> PerStep:
    sent = [_priced(call, costs, config) for call in stage_calls(config, stage, GRADIENTS + ONCE) if call.per == "step"]
    sent += [_plain(one, costs, config) for one in plain]
    passes = [one for one in sent if one.call.hides in UNDER_A_PASS]
    rest = [one for one in sent if one.call.hides not in (*UNDER_A_PASS, "steady pipeline")]
    return PerStep(
        back=of_a_pass([one for one in passes if one.back]),
        front=of_a_pass([one for one in passes if not one.back]),
        free=tuple(one for one in sent if one.call.hides == "steady pipeline"),
        bare=tuple(all_of_it(rest, config.overlap.overhead_s)),
        optimizer_s=optimizer_s(config, stage) if config.model is not None else 0.0,
    )


def _borders(config: ParallelConfig, stage: PipelineStage, costs: CollectiveCostCache) -> list[PricedCall]:
    return [_priced(call, costs, config) for call in stage_calls(config, stage, BORDERS)]


def _hidden(sent: Iterable[PricedCall], found: dict[tuple[str, bool], float]) -> dict[tuple[str, bool], float]:
    for one in sent:
        key = one.cost.wire, one.back
        found[key] = found.get(key, 0.0) + one.hidden_s
    return found


def _passed(config: ParallelConfig, times: StageTimes, held: Sequence[PricedCall]) -> Pass:
    m = config.micro_batches
    forward = sum(one.exposed_s for one in held if not one.back) / m
    backward = sum(one.exposed_s for one in held if one.back) / m
    compute = times.all
    return Pass(compute.forward_s + forward, compute.backward_s + compute.again_s + backward, compute.weight_s)


def _once(behind: PerStep, config: ParallelConfig, times: StageTimes, hidden: dict[tuple[str, bool], float]) -> list[PricedCall]:
    """What hides already on the same wire takes from the cover: two dimensions on one NIC add up."""
    over, compute, m = config.overlap.overhead_s, times.all, config.micro_batches
    back, front = (
        sum(hidden.get((wire, backward), 0.0) for wire in buckets.wires) / m
        for buckets, backward in ((behind.back, True), (behind.front, False))
    )
    passes = covering_passes(config)
    found = behind.back.exposed(passes * (compute.backward_s + compute.again_s - back), over)
    found += behind.front.exposed(passes * (compute.forward_s - front), over)
    found += under_all(behind.free, compute.total_s * m, over)
    found += behind.bare
    return found


def covering_passes(config: ParallelConfig) -> int:
    """Micro-batches whose passes hide a chunk's gradients: one, or p where stages are interleaved.

    The last p micro-batches all finish a chunk before the next chunk starts, so its gradients go out while p micro-batches run
    the other chunks (NVIDIA NeMo, communication overlap).
    """
    return min(config.layout.pp, config.micro_batches) if config.pipeline.interleaved else 1


def _priced(call: Call, costs: CollectiveCostCache, config: ParallelConfig) -> PricedCall:
    cost = costs.of(call.primitive, call.group, call.bytes, call.dimension, closed=call.closed)
    if call.primitive is A2A and call.dimension == "ep" and config.layout.deduplicate:
        cost = cost.scaled(once_a_node(config, cost.per_domain))
    return _sent(call, cost, config)


def _sent(call: Call, cost: CollectiveCost, config: ParallelConfig) -> PricedCall:
    if call.skew != 1:
        cost = cost.scaled(call.skew)._replace(energy_J=cost.energy_J)  # others send less
    if config.compression is None or not is_compressed(config.compression, call):
        return PricedCall(call, cost, cost.each_s)
    fewer = times_fewer(config)
    small = compressed(cost.each_s, fewer, config.compression.overhead_s, fixed_s=cost.latency_s)
    return PricedCall(call, cost.scaled(1 / fewer), small.total_s)


def _plain(one: PlainCall, costs: CollectiveCostCache, config: ParallelConfig) -> PricedCall:
    """Gradients and weights of dp hide as buckets do, stage messages under all compute; anything else is exposed."""
    cost = costs.of(one.primitive, one.group, one.bytes, one.dimension) if one.time_s is None else given_time(one.time_s)
    hides: Hiding = "nothing"
    phase: Phase = "update"
    if one.dimension == "dp" and config.overlap.dp:
        gathered = one.primitive is AG
        hides, phase = ("first forward", "forward") if gathered else ("last backward", "backward")
    elif one.primitive is P2P and config.overlap.pp:
        hides = "steady pipeline"
    call = Call(dimension=one.dimension, primitive=one.primitive, group=one.group, bytes=one.bytes, each=one.calls, per="step",
                phase=phase, hides=hides, calls=one.calls, source=PLAIN)  # fmt: skip
    return _sent(call, cost, config)
