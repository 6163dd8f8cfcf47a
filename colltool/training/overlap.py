"""What of each collective of a micro-batch hides under compute, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from colltool.base.primitives import AG
from colltool.training.calls import Call
from colltool.training.collective_cost import CollectiveCost
from colltool.training.compute import LayerTimes, StageTimes
from colltool.training.operations import cut_of, layer_operations
from colltool.training.parallel_config import ParallelConfig

SPLIT_LEFT = 0.25  # of a reduce-scatter behind a GEMM in pieces: Transformer Engine's userbuffers with 4 of them
REGIONS = 2  # of a layer: attention and FFN, each with a gather and a scatter
BACK = ("backward", "again")


class PricedCall(NamedTuple):
    """``exposed_s`` and ``hidden_s`` are over the whole step."""

    call: Call
    cost: CollectiveCost
    each_s: float
    exposed_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.each_s * self.call.calls

    @property
    def hidden_s(self) -> float:
        return max(0.0, self.total_s - self.exposed_s)

    @property
    def back(self) -> bool:
        """In the backward pass, recomputation included."""
        return self.call.phase in BACK


class OverlapModel:
    def __init__(self, config: ParallelConfig, times: StageTimes) -> None:
        self.config, self.times = config, times
        self.micro_batches = config.micro_batches

    def exposed(self, sent: Sequence[PricedCall]) -> list[PricedCall]:
        """The calls of every micro-batch with their exposed seconds; LogP's two overheads a call are never hidden."""
        pooled = self._other_batch([one for one in sent if one.call.hides == "other batch"])
        alone = [one for one in sent if one.call.hides not in ("neighbour layer", "other batch")]
        simple = [one._replace(exposed_s=self._alone(one) * one.call.calls) for one in alone] + pooled
        layered = [one for one in sent if one.call.hides == "neighbour layer"]
        found = [*simple, *self._layered(layered, simple)]
        over = 2 * self.config.overlap.overhead_s
        return [one._replace(exposed_s=one.exposed_s + over * one.call.calls) for one in found] if over else found

    def _layer(self, call: Call) -> LayerTimes | None:
        if call.per == "moe_layer":
            return self.times.moe
        return self.times.dense or self.times.moe

    def _alone(self, one: PricedCall) -> float:
        call, layer = one.call, self._layer(one.call)
        if call.hides == "nothing" or layer is None:
            return one.each_s
        if call.hides == "split gemm":
            return 0.0 if call.primitive is AG else SPLIT_LEFT * one.each_s
        return max(0.0, one.each_s - self._cover(call, layer))

    def _cover(self, call: Call, layer: LayerTimes) -> float:
        match call.hides:
            case "weight gradient":
                return layer.gemms.weight_s / REGIONS
            case "attention block":
                blocks = self.config.layout.cp * call.each / max(1, self.config.layout.cp - 1)  # messages a block, times blocks
                return layer.core.of(call.phase) / blocks
            case "shared expert":
                return self._shared(call, layer) / REGIONS
            case "nothing" | "split gemm" | "neighbour layer" | "other batch":
                raise ValueError(f"{call.hides}: not under a part of its own layer")
            case "last backward" | "first forward" | "steady pipeline":
                raise ValueError(f"{call.hides}: not under a layer")
            case _:
                assert_never(call.hides)

    def _other_batch(self, sent: Sequence[PricedCall]) -> list[PricedCall]:
        """One batch sends while the other computes, so calls hide under all of a layer's compute."""
        if not sent:
            return []
        layer = self._layer(sent[0].call)
        load = sum(one.each_s * one.call.each for one in sent)
        left = max(0.0, load - (layer.all.total_s if layer is not None else 0.0)) / load if load else 0.0
        return [one._replace(exposed_s=left * one.total_s) for one in sent]

    def _shared(self, call: Call, layer: LayerTimes) -> float:
        """The shared expert's share, by FLOPs, of the GEMMs that every token passes."""
        model = self.config.model
        shape = model.shape if model else None
        if shape is None or shape.moe is None or not shape.moe.shared_ffn:
            return 0.0
        flops = {one.name: one.flops - one.causal for one in layer_operations(shape, cut_of(self.config), experts=True)}
        share = flops["shared expert"] / (flops["shared expert"] + flops["attention"])
        return share * layer.gemms.of(call.phase)

    def _layered(self, sent: Sequence[PricedCall], others: Sequence[PricedCall]) -> list[PricedCall]:
        """FSDP's gathers and scatters behind the neighbour layer.

        The first gather and the last scatter of a micro-batch are exposed; of every layer what its compute does not cover. What
        others hide there on the same wire takes from the cover: loads of one NIC add.
        """
        found: list[PricedCall] = []
        kinds = [per for per in ("dense_layer", "moe_layer") if any(one.call.per == per for one in sent)]
        for per in kinds:
            for back in (False, True):
                unit = [one for one in sent if one.call.per == per and one.back is back]
                if unit:
                    found += self._unit(unit, others, back=back, outermost=per == kinds[0])
        for one in (one for one in sent if one.call.per == "micro_batch"):
            regathered = one.back and one.call.primitive is AG
            found.append(one._replace(exposed_s=0.0 if regathered else one.total_s))
        return found

    def _unit(self, unit: Sequence[PricedCall], others: Sequence[PricedCall], *, back: bool, outermost: bool) -> list[PricedCall]:
        layer = self._layer(unit[0].call)
        load = sum(one.each_s * one.call.each for one in unit)
        cover = 0.0
        if layer is not None:
            cover = layer.all.backward_s + layer.all.again_s if back else layer.all.forward_s
        layers = unit[0].call.calls / unit[0].call.each / self.micro_batches
        cover += sum(self._a_layer(one, back) * (1 if one.cost.wire != unit[0].cost.wire else 0) for one in others)
        cover -= sum(self._hidden_a_layer(one, back) for one in others if one.cost.wire == unit[0].cost.wire)
        left = max(0.0, load - max(0.0, cover)) * layers
        if outermost:  # nothing stands before the first gather, nothing behind the last scatter
            edge = sum(one.each_s for one in unit if one.call.primitive is not AG) if back else load
            left += min(edge, max(0.0, cover))
        share = left / (load * layers) if load else 0.0
        return [one._replace(exposed_s=min(1.0, share) * one.total_s) for one in unit]

    def _a_layer(self, one: PricedCall, back: bool) -> float:
        """Exposed seconds per layer of a call in the same pass: they stretch it."""
        return one.exposed_s / self._layers if one.back is back else 0.0

    def _hidden_a_layer(self, one: PricedCall, back: bool) -> float:
        return one.hidden_s / self._layers if one.back is back else 0.0

    @property
    def _layers(self) -> float:
        return max(1, self.times.stage.layers) * self.micro_batches
