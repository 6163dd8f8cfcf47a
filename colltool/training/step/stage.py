"""A stage of a step: its pass with what is exposed in it, and what follows it once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from colltool.base.primitives import A2A, AG, P2P
from colltool.training.compression import compressed, squeezes, times_fewer
from colltool.training.compute import StageTimes, optimizer_s, stage_times
from colltool.training.job import PlainCall
from colltool.training.pipelines import Pass
from colltool.training.setup import Setup, Shard, Stage
from colltool.training.step.beside import Beside, Sent
from colltool.training.step.fare import Fare, Fares, known
from colltool.training.step.once import PassBuckets, all_of_it, borders, of_a_pass, under_all
from colltool.training.traffic.call import Call, Hiding, Phase
from colltool.training.traffic.experts import once_a_node
from colltool.training.traffic.step import BORDERS, GRADIENTS, OFTEN, ONCE, stage_calls

PLAIN = "the job's calls"
UNDER_A_PASS = ("last backward", "first forward", "neighbour layer")


@dataclass(frozen=True)
class StageStep:
    """One stage of a step. ``compute`` and ``passed`` are one micro-batch without and with what is exposed in it; ``tail_s`` is
    what follows once: exposed gradients and weights, updates, the optimizer; ``slowed_s`` what shared multiprocessors cost.
    """  # fmt: skip

    stage: Stage
    compute: StageTimes
    passed: Pass
    sent: tuple[Sent, ...]
    borders_s: float
    once_s: float
    optimizer_s: float
    slowed_s: float

    @property
    def tail_s(self) -> float:
        """Seconds after and before the pipeline."""
        return self.once_s + self.optimizer_s + self.slowed_s

    @property
    def compute_s(self) -> float:
        """Seconds of compute of a micro-batch."""
        return self.compute.all.total_s

    @property
    def bare(self) -> Pass:
        """The pass with a free network."""
        times = self.compute.all
        return Pass(times.forward_s, times.backward_s + times.again_s, times.weight_s)


class Views(NamedTuple):
    """A setup as parts of its step meet it: layouts that look the same to a part have that part in common."""

    micro_batch: Setup
    border: Setup
    step: Setup


def views(setup: Setup) -> Views:
    """What a micro-batch, a border of the pipeline and the end of a step meet.

    A micro-batch meets the sharding where layers are gathered for it, and chunks where stages wait for their messages. Borders
    meet neither the sharding nor what is computed again. What is sent once a step meets neither micro-batches nor chunks.
    """
    unsharded = setup._replace(shard=Shard())
    whole = setup.layout._replace(virtual=1, stages=())
    micro_batch = setup if setup.shard.layers and setup.shard.reshard else unsharded
    return Views(
        micro_batch=micro_batch._replace(layout=whole, schedule="1f1b") if setup.overlap.pp else micro_batch,
        border=unsharded._replace(recompute="none"),
        step=setup._replace(layout=whole, schedule="1f1b", micro_batch=1, recompute="none"),
    )


class Behind(NamedTuple):
    """What a stage does once a step: calls by what they hide under (a pass, all of compute, nothing), and the optimizer."""

    back: PassBuckets
    front: PassBuckets
    free: tuple[Sent, ...]
    bare: tuple[Sent, ...]
    optimizer_s: float


class MicroBatch(NamedTuple):
    """What every micro-batch does on a stage; ``hidden_s`` by wire and by whether it is in the backward pass, over the step."""

    times: StageTimes
    held: tuple[Sent, ...]
    passed: Pass
    hidden_s: dict[tuple[str, bool], float]


def stage_step(setup: Setup, views: Views, stage: Stage, fares: Fares, plain: tuple[PlainCall, ...] = ()) -> StageStep:
    """A stage with every call priced and what of it is exposed.

    What layouts have in common by their :class:`Views` is worked out once.
    """
    times, held, passed, hidden = fares.shared(("micro-batch", views.micro_batch, stage),
                                               lambda: _micro_batch(views.micro_batch, stage, fares))  # fmt: skip
    behind = fares.shared(("step", views.step, stage, plain), lambda: _behind(views.step, stage, fares, plain))
    between: list[Sent] = []
    if setup.overlap.pp and setup.layout.pp > 1:
        messages = fares.shared(("borders", views.border, stage), lambda: _borders(views.border, stage, fares))
        between = borders(messages, setup, passed.total_s)
        hidden = _hidden(between, dict(hidden))
    once = _once(behind, setup, times, hidden)
    slowed = sum(one.hidden_s for one in (*held, *once)) * setup.overlap.sm_share if setup.overlap.sm_share else 0.0
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


def _micro_batch(setup: Setup, stage: Stage, fares: Fares) -> MicroBatch:
    times = stage_times(setup, stage)
    sent = [_priced(call, fares, setup) for call in stage_calls(setup, stage, OFTEN + GRADIENTS) if call.per != "step"]
    waiting = [] if setup.overlap.pp else _borders(setup, stage, fares)
    held = tuple(Beside(setup, times).exposed(sent + waiting))
    return MicroBatch(times, held, _passed(setup, times, held), _hidden(held, {}))


def _behind(setup: Setup, stage: Stage, fares: Fares, plain: tuple[PlainCall, ...]) -> Behind:
    sent = [_priced(call, fares, setup) for call in stage_calls(setup, stage, GRADIENTS + ONCE) if call.per == "step"]
    sent += [_plain(one, fares, setup) for one in plain]
    passes = [one for one in sent if one.call.hides in UNDER_A_PASS]
    rest = [one for one in sent if one.call.hides not in (*UNDER_A_PASS, "steady pipeline")]
    return Behind(
        back=of_a_pass([one for one in passes if one.back]),
        front=of_a_pass([one for one in passes if not one.back]),
        free=tuple(one for one in sent if one.call.hides == "steady pipeline"),
        bare=tuple(all_of_it(rest, setup.overlap.overhead_s)),
        optimizer_s=optimizer_s(setup, stage) if setup.model is not None else 0.0,
    )


def _borders(setup: Setup, stage: Stage, fares: Fares) -> list[Sent]:
    """Messages between stages."""
    return [_priced(call, fares, setup) for call in stage_calls(setup, stage, BORDERS)]


def _hidden(sent: Iterable[Sent], found: dict[tuple[str, bool], float]) -> dict[tuple[str, bool], float]:
    """Seconds that calls hide, added up by wire and pass."""
    for one in sent:
        key = one.fare.wire, one.back
        found[key] = found.get(key, 0.0) + one.hidden_s
    return found


def _passed(setup: Setup, times: StageTimes, held: Sequence[Sent]) -> Pass:
    m = setup.micro_batches
    forward = sum(one.exposed_s for one in held if not one.back) / m
    backward = sum(one.exposed_s for one in held if one.back) / m
    compute = times.all
    return Pass(compute.forward_s + forward, compute.backward_s + compute.again_s + backward, compute.weight_s)


def _once(behind: Behind, setup: Setup, times: StageTimes, hidden: dict[tuple[str, bool], float]) -> list[Sent]:
    """Calls of a step with what of them is exposed.

    ``hidden`` is what hides before them, and on the same wires against them: two dimensions on one NIC add up.
    """
    over, compute, m = setup.overlap.overhead_s, times.all, setup.micro_batches
    back, front = (
        sum(hidden.get((wire, backward), 0.0) for wire in buckets.wires) / m
        for buckets, backward in ((behind.back, True), (behind.front, False))
    )
    passes = covering_passes(setup)
    found = behind.back.exposed(passes * (compute.backward_s + compute.again_s - back), over)
    found += behind.front.exposed(passes * (compute.forward_s - front), over)
    found += under_all(behind.free, compute.total_s * m, over)
    found += behind.bare
    return found


def covering_passes(setup: Setup) -> int:
    """Micro-batches under whose passes buckets run: one, and p where stages are interleaved.

    The last p micro-batches pass a chunk before the next chunk has its turn, so that a chunk's gradients go out while p
    micro-batches pass the others; NVIDIA NeMo, communication overlap: the granularity is a virtual pipeline stage.
    """
    return min(setup.layout.pp, setup.micro_batches) if setup.schedule == "interleaved" else 1


def _priced(call: Call, fares: Fares, setup: Setup) -> Sent:
    fare = fares.of(call.primitive, call.group, call.bytes, call.dimension, closed=call.closed)
    if call.primitive is A2A and call.dimension == "ep" and setup.layout.deduplicate:
        fare = fare.scaled(once_a_node(setup, fare.per_domain))
    return _sent(call, fare, setup)


def _sent(call: Call, fare: Fare, setup: Setup) -> Sent:
    """A call with its price, its busiest rank's load and its compression included."""
    if call.skew != 1:
        fare = fare.scaled(call.skew)._replace(energy_J=fare.energy_J)  # others send less
    if setup.compression is None or not squeezes(setup.compression, call):
        return Sent(call, fare, fare.each_s)
    fewer = times_fewer(setup)
    small = compressed(fare.each_s, fewer, setup.compression.overhead_s, fixed_s=fare.latency_s)
    return Sent(call, fare.scaled(1 / fewer), small.total_s)


def _plain(one: PlainCall, fares: Fares, setup: Setup) -> Sent:
    """A collective that the job gives by itself, once a step.

    Gradients and weights of dp hide as buckets do, a message between stages under all of compute; anything else is exposed.
    """
    fare = fares.of(one.primitive, one.group, one.bytes, one.dimension) if one.time_s is None else known(one.time_s)
    hides: Hiding = "nothing"
    phase: Phase = "update"
    if one.dimension == "dp" and setup.overlap.dp:
        gathered = one.primitive is AG
        hides, phase = ("first forward", "forward") if gathered else ("last backward", "backward")
    elif one.primitive is P2P and setup.overlap.pp:
        hides = "steady pipeline"
    call = Call(dimension=one.dimension, primitive=one.primitive, group=one.group, bytes=one.bytes, each=one.calls, per="step",
                phase=phase, hides=hides, calls=one.calls, source=PLAIN)  # fmt: skip
    return _sent(call, fare, setup)
