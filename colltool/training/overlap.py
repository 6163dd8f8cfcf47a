"""How long a step waits for its collectives: what of them is hidden under compute.

:func:`priced` puts a price on a call, compressed where the job asks for that
(:mod:`colltool.training.compression`). :class:`OverlapModel` hides the calls of a micro-batch under
parts of its layers, :func:`under_all_compute` messages that wait for nothing but the step before,
and :func:`borders` messages between stages; :mod:`pass_buckets` hides gradients and weights under a
whole pass. :func:`energy_J` is what calls of one kind spend.

What a call may hide under is ``Call.hides``, whose values :mod:`calls` lists with what stays
exposed. Of a priced call ``calls`` counts all in a step, ``calls_per_unit`` those of one layer or
whatever else ``per`` names, for one micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple, assert_never

from colltool.base.primitives import AG, P2P
from colltool.training.calls import Call
from colltool.training.collective_cost import CollectiveCost
from colltool.training.compression import compressed_times, is_compressed, times_fewer
from colltool.training.compute_times import LayerTimes, StageTimes
from colltool.training.operations import cut_of, layer_operations
from colltool.training.parallel_config import ParallelConfig

# exposed share of a reduce-scatter under a GEMM in pieces: the last of Transformer Engine's four
LAST_PIECE = 0.25
# tensor parallel regions of a layer, attention and FFN: a call of one hides under a half of the
# layer's weight gradients
REGIONS = 2
ROUNDING = 1e-12  # share of a time that a sum of thousands of terms may be off


class PricedCall(NamedTuple):
    """A call with its price and the seconds that the step waits for it."""

    call: Call
    cost: CollectiveCost  # of one call; of fewer bytes where it is compressed
    each_s: float  # of one call, compression included
    exposed_s: float = 0.0  # of all calls in a step; 0 until a function below hides them
    overhead_s: float = 0.0  # LogP's 2 o of one call, which only ``exposed_s`` includes
    # of ``exposed_s``, what there is too little compute to hide; the rest nothing could hide
    overflow_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds of all calls in a step, without overhead, hidden or not."""
        return self.each_s * self.call.calls

    @property
    def hidden_s(self) -> float:
        """Seconds of a step's calls that compute covers, min(L, T) for one message; 0 where only
        rounding is left."""
        exposed_s = max(0.0, self.exposed_s - self.overhead_s * self.call.calls)
        hidden_s = self.total_s - exposed_s
        return hidden_s if hidden_s > ROUNDING * self.total_s else 0.0

    @property
    def backward(self) -> bool:
        """Whether it is sent in the backward pass, recomputation included."""
        return self.call.phase in ("backward", "again")

    def with_exposed(self, share: float, overflow: float) -> PricedCall:
        """Return the call with these shares of :attr:`total_s` as ``exposed_s`` and
        ``overflow_s``."""
        return self._replace(exposed_s=share * self.total_s, overflow_s=overflow * self.total_s)


class OverlapModel:
    """Hides the calls of a stage's micro-batches under parts of its layers.

    ``times`` are of one micro-batch on the stage, a layer of each kind apart.
    """

    def __init__(self, config: ParallelConfig, times: StageTimes) -> None:
        self.config = config
        self.times = times

    def exposed(self, sent: Sequence[PricedCall]) -> list[PricedCall]:
        """Return the calls of every micro-batch with their exposed seconds.

        LogP's two overheads of a call are never hidden. The calls come back in another order: those
        under a neighbouring layer last, as what else hides there leaves them less.
        """
        own_layer: list[PricedCall] = []
        other_batch: list[PricedCall] = []
        neighbour_layer: list[PricedCall] = []
        for call in sent:
            if call.call.hides == "other batch":
                other_batch.append(call)
            elif call.call.hides == "neighbour layer":
                neighbour_layer.append(call)
            else:
                exposed_s = self._under_own_layer(call) * call.call.calls
                # the last piece of a split GEMM has nothing behind it: more compute would not help
                overflow_s = 0.0 if call.call.hides == "split gemm" else exposed_s
                own_layer.append(call._replace(exposed_s=exposed_s, overflow_s=overflow_s))
        calls = own_layer + self._under_other_batch(other_batch)
        calls += self._under_neighbour_layer(neighbour_layer, tuple(calls))
        overhead_s = 2 * self.config.overlap.overhead_s
        return [
            call._replace(exposed_s=call.exposed_s + overhead_s * call.call.calls) for call in calls
        ]

    def _layer_of(self, call: Call) -> LayerTimes | None:
        """The compute of the kind of layer that sends a call; None where times are of a step."""
        if call.per == "moe_layer":
            return self.times.moe
        return self.times.dense or self.times.moe

    def _under_other_batch(self, calls: Sequence[PricedCall]) -> list[PricedCall]:
        """Hide the calls of a layer under its whole compute for another micro-batch: one batch sends
        while the other computes."""
        load_s = _load_s(calls)
        if not load_s:
            return list(calls)
        # only layers with experts have such calls
        layer = self._layer_of(calls[0].call)
        cover_s = layer.all.total_s if layer is not None else 0.0
        # the host waits while a dispatcher starts, whatever the other batch computes
        waited_s = sum(call.cost.startup_s * call.call.calls_per_unit for call in calls)
        # all that is exposed is overflow: more compute would hide it
        share = max(waited_s, load_s - cover_s) / load_s
        return [call.with_exposed(share, share) for call in calls]

    def _under_own_layer(self, priced_call: PricedCall) -> float:
        """Exposed seconds of one call, which hides under a part of its own layer."""
        call = priced_call.call
        layer = self._layer_of(call)
        if layer is None:
            return priced_call.each_s
        cover_s = 0.0
        match call.hides:
            case "nothing":
                pass
            case "split gemm":
                return 0.0 if call.primitive is AG else LAST_PIECE * priced_call.each_s
            case "weight gradient":
                cover_s = layer.gemms.weight_s / REGIONS
            case "attention block":
                # A ring of cp blocks sends cp - 1 times, backward twice each. A message hides under
                # the attention of one block, one of two under half of it.
                cp = self.config.layout.cp
                messages_per_step = call.calls_per_unit / max(1, cp - 1)
                cover_s = layer.core.of(call.phase) / (cp * messages_per_step)
            case "shared expert":
                # dispatch and combine hide under a half of it each
                cover_s = self._shared_expert_s(call, layer) / 2
            case (
                "neighbour layer"
                | "other batch"
                | "last backward"
                | "first forward"
                | "steady pipeline"
            ):
                raise ValueError(f"{call.hides}: not under a part of its own layer")
            case _:
                assert_never(call.hides)
        return max(priced_call.cost.startup_s, priced_call.each_s - cover_s)

    def _shared_expert_s(self, call: Call, layer: LayerTimes) -> float:
        """Seconds of the shared expert: its share, by FLOPs, of the GEMMs that every token passes. 0
        where there is none."""
        shape = self.config.shape
        if shape is None or shape.moe is None or not shape.moe.shared_ffn:
            return 0.0
        flops = {}
        for operation in layer_operations(shape, cut_of(self.config), experts=True):
            flops[operation.name] = operation.flops - operation.causal_flops
        shared = flops["shared expert"]
        share = shared / (shared + flops["attention"])
        return share * layer.gemms.of(call.phase)

    def _under_neighbour_layer(
        self, sent: Sequence[PricedCall], others: Sequence[PricedCall]
    ) -> list[PricedCall]:
        """Hide FSDP's gathers and scatters under the compute of the neighbouring layer.

        The first gather and the last scatter of a micro-batch are exposed, and of every layer what
        its compute does not cover. ``others`` that hide there on the same wire leave less of it:
        loads of one NIC add.
        """
        by_kind: dict[tuple[str, bool], list[PricedCall]] = {}  # by (per, whether backward)
        ends: list[PricedCall] = []
        for call in sent:
            if call.call.per == "micro_batch":
                gathered_again = call.backward and call.call.primitive is AG
                ends.append(call._replace(exposed_s=0.0 if gathered_again else call.total_s))
            else:
                by_kind.setdefault((call.call.per, call.backward), []).append(call)
        hidden: list[PricedCall] = []
        # dense layers come before those with experts on a stage, and "dense_layer" before "moe_layer"
        first_kind, _ = min(by_kind, default=("", False))
        for (per, backward), calls in sorted(by_kind.items(), key=itemgetter(0)):
            same_pass = [call for call in others if call.backward is backward]
            hidden += self._gathers_of_layers(
                calls, same_pass, backward=backward, outermost=per == first_kind
            )
        return hidden + ends

    def _gathers_of_layers(
        self,
        calls: Sequence[PricedCall],
        others: Sequence[PricedCall],
        *,
        backward: bool,
        outermost: bool,
    ) -> list[PricedCall]:
        """Hide the calls of one kind of layers in one direction under the compute of a layer.

        ``others``: calls of the same direction that hide under layers already. ``outermost``: the
        first gather and the last scatter are of these layers.
        """
        load_s = _load_s(calls)
        if not load_s:
            return list(calls)
        # all are of one kind of layers, and cross the same tiers
        example = calls[0]
        m = self.config.micro_batches
        layer = self._layer_of(example.call)
        cover_s = 0.0
        if layer is not None:
            times = layer.all
            cover_s = times.backward_s + times.again_s if backward else times.forward_s
        # layers of this kind on the stage
        layers = example.call.calls / example.call.calls_per_unit / m
        # how often a layer of the stage runs in a step: ``others`` are of all of these
        layer_runs = max(1, self.times.stage.layers) * m
        # calls that are exposed on other wires stretch the layer; those hidden on this one fill it
        tier = example.cost.busiest_tier
        cover_s += sum(
            call.exposed_s / layer_runs for call in others if call.cost.busiest_tier != tier
        )
        cover_s -= sum(
            call.hidden_s / layer_runs for call in others if call.cost.busiest_tier == tier
        )
        cover_s = max(0.0, cover_s)
        # seconds of all layers of this kind on the stage, for one micro-batch
        all_load_s = load_s * layers
        overflow_s = max(0.0, load_s - cover_s) * layers
        exposed_s = overflow_s
        if outermost:  # nothing is before the first gather, nothing behind the last scatter
            edge_s = load_s
            if backward:
                edge_s = sum(call.each_s for call in calls if call.call.primitive is not AG)
            exposed_s += min(edge_s, cover_s)
        share = min(1.0, exposed_s / all_load_s)
        return [call.with_exposed(share, overflow_s / all_load_s) for call in calls]


def _load_s(calls: Sequence[PricedCall]) -> float:
    """Seconds of these calls of one layer in one micro-batch, one after the other."""
    return sum(call.each_s * call.call.calls_per_unit for call in calls)


def under_all_compute(
    sent: Sequence[PricedCall], cover_s: float, overhead_s: float
) -> list[PricedCall]:
    """Hide messages under all compute of a step, as they wait only for the step before: the step
    takes 2 o + max(compute, messages), of which this exposes what exceeds the compute.

    ``cover_s`` is that compute, ``overhead_s`` LogP's o of a call.
    """
    load_s = sum(call.total_s for call in sent)
    if not load_s:
        return list(sent)
    exposed_s = logp(cover_s, load_s, overhead_s * sum(call.call.calls for call in sent))
    overflow = max(0.0, load_s - cover_s) / load_s
    return [call.with_exposed(exposed_s / load_s, overflow) for call in sent]


def borders(
    sent: Sequence[PricedCall], config: ParallelConfig, micro_batch_s: float
) -> list[PricedCall]:
    """Hide messages between stages under other micro-batches in steady state.

    The first micro-batch waits at every border going forward, the last going back; other messages
    are exposed for what a chunk's compute does not cover. ``micro_batch_s``: forward and backward of
    a micro-batch on the stage.
    """
    crossed = borders_crossed(config)
    cover_s = micro_batch_s / config.chunks / 2  # a chunk's compute in one direction, on average
    overhead_s = 2 * config.overlap.overhead_s
    exposed_calls = []
    for call in sent:
        calls = call.call.calls
        exposed_s = crossed * call.each_s
        exposed_s += max(0.0, calls - crossed) * max(0.0, call.each_s - cover_s)
        exposed_calls.append(call._replace(exposed_s=exposed_s + overhead_s * calls))
    return exposed_calls


def borders_crossed(config: ParallelConfig) -> int:
    """Borders that a micro-batch crosses one way: p v - 1, or 2 (p - 1) where ZB-V turns back.

    With chunks one of them leads from the last stage to the next chunk of the first.
    """
    stages = config.layout.pp
    return 2 * (stages - 1) if config.folded else stages * config.chunks - 1


def logp(compute_s: float, latency_s: float, overhead_s: float) -> float:
    """Exposed seconds of one message under compute: 2 o + max(0, L - T_compute)."""
    return 2 * overhead_s + max(0.0, latency_s - compute_s)


def energy_J(config: ParallelConfig, sent: PricedCall) -> float | None:
    """Joules per step of all calls of one kind on the ranks of a pipeline stage; None where no tier
    that they cross says.

    Without a model all ranks are one stage. Messages between neighbours spend what their worst pair
    does.
    """
    if sent.cost.energy_J is None:
        return None
    call = sent.call
    share = 1.0  # of the ranks of a stage, on average over the stages, that send
    if call.per == "border":
        share = borders_crossed(config) / (config.layout.pp * config.chunks)
    elif call.primitive is P2P and not call.closed:
        share = 1 - 1 / call.group.ranks  # the last of a chain does not send
    stages = 1 if config.model is None else config.layout.pp
    # a call's energy is that of one rank
    senders = config.layout.ranks / stages
    return sent.cost.energy_J * senders * call.calls * share


def priced(call: Call, cost: CollectiveCost, config: ParallelConfig) -> PricedCall:
    """Return a call with the price of one of them, compressed where the job asks for that."""
    compression = config.compression
    overhead_s = 2 * config.overlap.overhead_s
    if compression is None or not is_compressed(compression, call):
        return PricedCall(call, cost, cost.each_s, overhead_s=overhead_s)
    ratio = times_fewer(config)  # of bytes
    compressed_s, _ = compressed_times(
        cost.each_s, ratio, compression.overhead_s, fixed_s=cost.latency_s
    )
    return PricedCall(call, cost.scaled(1 / ratio), compressed_s, overhead_s=overhead_s)
