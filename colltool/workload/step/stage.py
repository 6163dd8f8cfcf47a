"""A stage of a step: its pass with what is exposed in it, and what follows it once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from colltool.primitives import A2A, AG, P2P
from colltool.workload.compression import compressed, squeezes, times_fewer
from colltool.workload.compute import StageTimes, optimizer_s, stage_times
from colltool.workload.job import PlainCall
from colltool.workload.pipelines import Pass
from colltool.workload.setup import Setup, Stage
from colltool.workload.step.beside import Beside, Sent
from colltool.workload.step.fare import Fare, Fares, known
from colltool.workload.step.once import all_of_it, borders, under_all, under_pass
from colltool.workload.traffic.call import Call, Hiding, Phase
from colltool.workload.traffic.experts import once_a_node
from colltool.workload.traffic.step import stage_calls

PLAIN = "the job's calls"


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


def stage_step(setup: Setup, stage: Stage, fares: Fares, plain: Sequence[PlainCall] = ()) -> StageStep:
    """A stage with every call priced and what of it is exposed."""
    times = stage_times(setup, stage)
    sent = [_priced(call, fares, setup) for call in stage_calls(setup, stage)] + [_plain(one, fares, setup) for one in plain]
    often = [one for one in sent if one.call.per not in ("step", "border")]
    held = Beside(setup, times).exposed(often + _waiting(sent, setup))
    passed = _passed(setup, times, held)
    between = borders([one for one in sent if one.call.per == "border" and setup.overlap.pp], setup, passed.total_s)
    once = _once([one for one in sent if one.call.per == "step"], setup, times, [*held, *between])
    slowed = sum(one.hidden_s for one in (*held, *once)) * setup.overlap.sm_share
    return StageStep(
        stage=stage,
        compute=times,
        passed=passed,
        sent=(*held, *between, *once),
        borders_s=sum(one.exposed_s for one in between),
        once_s=sum(one.exposed_s for one in once),
        optimizer_s=optimizer_s(setup, stage) if setup.model is not None else 0.0,
        slowed_s=slowed,
    )


def _waiting(sent: Iterable[Sent], setup: Setup) -> list[Sent]:
    """Pipeline messages that stages wait for."""
    return [one for one in sent if one.call.per == "border" and not setup.overlap.pp]


def _passed(setup: Setup, times: StageTimes, held: Sequence[Sent]) -> Pass:
    m = setup.micro_batches
    forward = sum(one.exposed_s for one in held if not one.back) / m
    backward = sum(one.exposed_s for one in held if one.back) / m
    compute = times.all
    return Pass(compute.forward_s + forward, compute.backward_s + compute.again_s + backward, compute.weight_s)


def _once(sent: Sequence[Sent], setup: Setup, times: StageTimes, others: Sequence[Sent]) -> list[Sent]:
    """Calls of a step, by what they hide under."""
    over, compute = setup.overlap.overhead_s, times.all
    hidden = [one for one in sent if one.call.hides in ("last backward", "first forward", "neighbour layer")]
    back, front = [one for one in hidden if one.back], [one for one in hidden if not one.back]
    free = [one for one in sent if one.call.hides == "steady pipeline"]
    rest = [one for one in sent if one not in hidden and one not in free]
    passes = covering_passes(setup)
    found = under_pass(back, passes * (compute.backward_s + compute.again_s - _busy(back, others, setup)), over)
    found += under_pass(front, passes * (compute.forward_s - _busy(front, others, setup)), over)
    found += under_all(free, compute.total_s * setup.micro_batches, over)
    return found + all_of_it(rest, over)


def covering_passes(setup: Setup) -> int:
    """Micro-batches under whose passes buckets run: one, and p where stages are interleaved.

    The last p micro-batches pass a chunk before the next chunk has its turn, so that a chunk's gradients go out while p
    micro-batches pass the others; NVIDIA NeMo, communication overlap: the granularity is a virtual pipeline stage.
    """
    return min(setup.layout.pp, setup.micro_batches) if setup.schedule == "interleaved" else 1


def _busy(sent: Sequence[Sent], others: Sequence[Sent], setup: Setup) -> float:
    """Seconds of a micro-batch's pass in which others hide on the same wires: two dimensions on one NIC add up."""
    if not sent:
        return 0.0
    wires = {one.fare.wire for one in sent if one.fare.wire}
    same = (one for one in others if one.fare.wire in wires and one.back is sent[0].back)
    return sum(one.hidden_s for one in same) / setup.micro_batches


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
