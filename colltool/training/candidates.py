"""Other setups that may make a step faster, each with the values that make it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from colltool.base.formatting import format_bytes
from colltool.fabric.model import Fabric
from colltool.training.compression import EXTRA_STEPS
from colltool.training.files.schema import ContextMode
from colltool.training.memory import memory
from colltool.training.parallel_config import Compression, ParallelConfig
from colltool.training.step_time import TrainingStep
from colltool.training.strategies import RECOMPUTATIONS, SHARDINGS

LEAST_GAIN = 1e-3  # of the step: below it a change is none
WIDER = 4  # times a bucket
BLOCK = 128  # elements with a scale of their own
_ORDER = ("tp", "cp", "ep", "dp", "pp")
_PART_OF = {"vocab": "tp", "etp": "tp", "expert dp": "dp"}

Made = Iterator[tuple[str, dict[str, Any], ParallelConfig]]


def candidates(config: ParallelConfig, fabric: Fabric, now: TrainingStep) -> Iterator[tuple[str, dict[str, str], ParallelConfig]]:
    """What changes, the values as ``--job-set`` takes them, and the setup; only where enough time is exposed to gain."""
    if config.model is None:
        return
    shown = _ExposedTime(now)
    made = (
        *_passes(config), *_hiding(config, shown), *_buckets(config, shown, now), *_fewer_bytes(config, shown),
        *_sharding(config, fabric, shown), *_placed(config, fabric, shown), *_experts(config, fabric, shown),
        *_context(config, shown), *_pipeline(config, shown), *_micro_batches(config, shown),
    )  # fmt: skip
    for what, values, other in made:
        yield what, {key: _text(value) for key, value in values.items()}, other


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{','.join(value)}]" if isinstance(value, tuple) else str(value)


class _ExposedTime:
    def __init__(self, now: TrainingStep) -> None:
        self._least_s = LEAST_GAIN * now.step_s
        self.exposed = {part.name: part.exposed_s for part in now.parts}

    def any(self, *names: str) -> bool:
        return sum(self.exposed.get(name, 0.0) for name in names) > self._least_s

    @property
    def worst(self) -> str:
        """The layout dimension with the most exposed time."""
        found: dict[str, float] = {}
        for name, seconds in self.exposed.items():
            axis = _PART_OF.get(name, name)
            found[axis] = found.get(axis, 0.0) + seconds
        return max(_ORDER, key=lambda axis: found.get(axis, 0.0))


def _passes(config: ParallelConfig) -> Made:
    for name, row in RECOMPUTATIONS.items():
        if row.core + row.layers < config.again.core + config.again.layers:
            yield f"recompute {name}", {"recompute": name}, config._replace(recompute=row.name)


def _hiding(config: ParallelConfig, shown: _ExposedTime) -> Made:
    layout, overlap = config.layout, config.overlap
    if layout.tp > 1 and not layout.sp:
        values = {"layout.sp": True} | _cut_experts(config, layout.etp)
        yield "sequence parallelism", values, config._replace(layout=layout._replace(sp=True))
    asked = [
        ("tp", "TP behind split GEMMs", layout.tp > 1 and layout.sp and not overlap.tp, True, ("tp",)),
        ("dp", "gradients behind the backward pass", not overlap.dp, True, ("dp", "expert dp")),
        ("pp", "pipeline borders behind compute", not overlap.pp, True, ("pp",)),
        ("cp", "the ring behind attention", not overlap.cp and layout.cp_mode == "ring", True, ("cp",)),
        ("ep", "tokens behind another batch", not overlap.ep and config.micro_batches > 1, "batch", ("ep",)),
    ]
    for key, what, possible, value, names in asked:
        if possible and shown.any(*names):
            made: dict[str, Any] = {key: value, "asked": (*overlap.asked, key)}
            other = overlap._replace(**made)
            yield what, {f"overlap.{key}": True}, config._replace(overlap=other)


def _cut_experts(config: ParallelConfig, etp: int) -> dict[str, Any]:
    """Says etp, which otherwise follows from tp and sp."""
    model = config.model
    return {"layout.etp": etp} if model is not None and model.shape is not None and model.shape.moe is not None else {}


def _buckets(config: ParallelConfig, shown: _ExposedTime, now: TrainingStep) -> Made:
    shard = config.shard
    sent = [one.call for one in now.last.sent if one.call.dimension == "dp" and one.call.per == "step"]
    largest = max((call.bytes for call in sent), default=0.0)
    if not largest or shard.layers or not shown.any("dp", "expert dp"):
        return
    for word, bucket in (("larger", WIDER * largest), ("smaller", largest / WIDER)):
        rounded = float(f"{bucket / 1e6:.6g}")
        yield f"{word} buckets", {"shard.bucket": f"{rounded:g}MB"}, config._replace(shard=shard._replace(bucket=rounded * 1e6))


def _fewer_bytes(config: ParallelConfig, shown: _ExposedTime) -> Made:
    shard = config.shard
    if not shown.any("dp", "expert dp"):
        return
    if shard.grad_bytes == 4:
        fewer = config._replace(shard=shard._replace(grad_bytes=2), precision=config.precision._replace(grads="bf16"))
        yield "gradients in 16 bits", {"shard.grad_bytes": 2, "precision.grads": "bf16"}, fewer
    if config.compression is None:
        extra = EXTRA_STEPS["int8"][1]
        small = Compression("dp", "int8", block=BLOCK, extra_steps=extra)
        values = {"compression.scheme": "int8", "compression.block": BLOCK, "compression.extra_steps": extra}
        yield f"gradients in int8, up to {extra:.0%} more steps", values, config._replace(compression=small)


def _sharding(config: ParallelConfig, fabric: Fabric, shown: _ExposedTime) -> Made:
    shard, layout = config.shard, config.layout
    if layout.dp == 1 or not shown.any("dp", "expert dp"):
        return
    if shard.mode != "zero1":
        other = config._replace(shard=shard._replace(mode="zero1", group=0))
        yield _states_alone(shard.mode, other), {"shard.mode": "zero1"}, other
    if not shard.layers and config.micro_batches == 1:  # else every micro-batch gathers again
        once = layout.pp > 1
        sharded = shard._replace(mode="fsdp", reshard=not once, gathers=1 if once else 2)
        yield "weights sharded (FSDP)", {"shard.mode": "fsdp"}, config._replace(shard=sharded)
    if not shard.layers:
        return
    group, inside = layout.group("cp", "dp"), 1
    for tier in fabric.tiers[:-1]:
        inside *= tier.endpoints
        size = inside // group.stride
        if 1 < size < group.ranks and size != shard.group:
            other = config._replace(shard=shard._replace(mode="hsdp", group=size))
            yield f"shards inside {tier.name}, replicas across", {"shard.mode": "hsdp", "shard.group": size}, other


def _states_alone(mode: str, other: ParallelConfig) -> str:
    """Names the change to ZeRO-1; where more is sharded now, with the memory that a rank then needs."""
    row = SHARDINGS[mode]
    if not row.optimizer:
        return "optimizer states sharded"
    whole = "whole gradients" if not row.weights else "whole weights and gradients"
    needs = format_bytes(memory(other).bytes, 3)
    return f"{whole} on each rank, optimizer states sharded (ZeRO-1), {needs} a rank"


def _placed(config: ParallelConfig, fabric: Fabric, shown: _ExposedTime) -> Made:
    """TP no wider than the innermost domain; the dimension with the most exposed time further in."""
    layout, inside = config.layout, fabric.tiers[0].endpoints
    if layout.tp > inside and layout.tp % inside == 0 and layout.order[0] == "tp":
        dp, etp = layout.dp * layout.tp // inside, min(layout.etp, inside)
        values = {"layout.tp": inside, "layout.dp": dp} | _cut_experts(config, etp)
        yield f"TP inside {fabric.tiers[0].name}", values, config._replace(layout=layout._replace(tp=inside, dp=dp, etp=etp))
    worst, first = shown.worst, layout.order[0]
    if not shown.any(worst):
        return
    rest = [axis for axis in layout.order if axis != worst]
    orders = {(worst, *rest), (first, worst, *(axis for axis in rest if axis != first)), _ORDER} - {layout.order}
    for order in sorted(orders):
        other = layout._replace(order=order)
        if other.group(worst, experts=worst == "ep").stride < layout.group(worst, experts=worst == "ep").stride:
            yield f"{worst} further in", {"layout.order": order}, config._replace(layout=other)


def _experts(config: ParallelConfig, fabric: Fabric, shown: _ExposedTime) -> Made:
    """Expert parallelism inside a node; a token once to each rank."""
    layout, inside = config.layout, fabric.tiers[0].endpoints
    moe = config.model.shape.moe if config.model is not None and config.model.shape is not None else None
    if moe is None or layout.ep == 1 or not shown.any("ep"):
        return
    fewer = inside // layout.group("ep", experts=True).stride
    if 1 < fewer < layout.ep and moe.experts % fewer == 0:
        other = config._replace(layout=layout._replace(ep=fewer))
        yield f"experts inside {fabric.tiers[0].name}", {"layout.ep": fewer}, other
    if moe.top_k > 1 and not layout.deduplicate:
        other = config._replace(layout=layout._replace(deduplicate=True))
        yield "a token once to each rank", {"layout.deduplicate": True}, other


def _context(config: ParallelConfig, shown: _ExposedTime) -> Made:
    layout = config.layout
    if layout.cp == 1 or not shown.any("cp"):
        return
    for mode in get_args(ContextMode):
        if mode != layout.cp_mode:
            yield f"context parallel by {mode}", {"layout.cp_mode": mode}, config._replace(layout=layout._replace(cp_mode=mode))


def _pipeline(config: ParallelConfig, shown: _ExposedTime) -> Made:
    layout, model = config.layout, config.model
    if model is None or layout.pp == 1 or layout.stages or not shown.any("bubble"):
        return
    ends = (model.layers + 2) // layout.pp if (model.layers + 2) % layout.pp == 0 else 0  # a layer's place each
    held = [count for count in (model.layers // layout.pp, ends) if count]
    more = next((v for v in range(layout.virtual + 1, max(held) + 1) if any(count % v == 0 for count in held)), 0)
    if more and config.pipeline.from_layout:
        other = config._replace(schedule="interleaved", layout=layout._replace(virtual=more))
        yield f"{more} chunks a stage", {"layout.virtual": more, "schedule": "interleaved"}, other
    if (split := config.pipeline.split) and layout.virtual == 1:
        yield "weight gradients in the bubble", {"schedule": split}, config._replace(schedule=split)


def _micro_batches(config: ParallelConfig, shown: _ExposedTime) -> Made:
    """Smaller ones fill a pipeline; larger ones gather and wait less often."""
    micro = config.micro_batch
    if micro > 1 and micro % 2 == 0 and config.layout.pp > 1 and shown.any("bubble"):
        yield "smaller micro-batches", {"batch.micro": micro // 2}, config._replace(micro_batch=micro // 2)
    if config.micro_batches % 2 == 0 and config.layout.pp == 1 and shown.any("dp", "tp", "ep"):
        yield "larger micro-batches", {"batch.micro": 2 * micro}, config._replace(micro_batch=2 * micro)
