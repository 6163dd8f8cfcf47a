"""Changes of the fabric and of the job, each step priced again with the values that make it, the
best gain first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, get_args

from colltool.base.errors import ColltoolError
from colltool.base.formatting import format_bytes
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import bandwidth_values, non_blocking, scaled_bandwidth, with_tiers
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.constraint_violations import constraint_violations, invalid_overlaps
from colltool.training.files import ContextMode, written
from colltool.training.job import Job, PlainCall, shard_of
from colltool.training.memory import cures, expert_width, fully_sharded, memory
from colltool.training.overlap import EXTRA_STEPS
from colltool.training.parallel_config import Compression, ParallelConfig
from colltool.training.search_space import possible_overlap, values_of
from colltool.training.step_time import TrainingStep, step_time
from colltool.training.strategies import RECOMPUTATIONS, default_schedule

FASTER = 2  # the next generation of a NIC: 200, 400, 800 Gb/s
LEAST_GAIN = 1e-3  # of the step: below it a change is none
WIDER = 4  # times a bucket
BLOCK = 128  # elements with a scale of their own
_ORDER = ("tp", "cp", "ep", "dp", "pp")
_PART_OF = {"vocab": "tp", "etp": "tp", "expert dp": "dp"}
_GRADIENTS = ("dp", "expert dp")


class Change(NamedTuple):
    change: str
    where: str  # fabric or job
    set: tuple[tuple[str, str], ...]
    step_s: float
    gain: float  # share of the step
    fits: bool | None  # the memory of its device; None without one


def changes(
    job: Job,
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    now: TrainingStep,
) -> tuple[Change, ...]:
    """Candidates that gain, the best first; before them the smallest that a job needs to fit its
    device, whatever it costs.

    One that the job, its memory or the fabric cannot have is left out.
    """

    def stepped(other: ParallelConfig, prices: CollectiveCostCache = costs) -> float | None:
        try:
            return step_time(other, prices, plain).step_s
        except ColltoolError:  # a group does not sit on the fabric
            return None

    # The speed found from a measured step replaces that step, which holds for one layout only.
    speed = (
        {}
        if config.slower == 1 or job.file.slower is not None
        else {"measured.step": "null", "slower": repr(config.slower)}
    )
    found: list[Change] = []
    for what, values, fabric, tier in _of_fabric(costs.fabric, now):
        if (step_s := stepped(config, costs.changed(fabric, tier))) is not None:
            found += _priced(what, "fabric", values, config, step_s, now)
    for what, values, other in (*candidates(config, costs.fabric, now), *_reshaped(job, config)):
        if constraint_violations(other) or invalid_overlaps(other):
            continue
        then = memory(other) if other.model is not None else None
        if then is not None and then.fits is False and then.bytes > memory(config).bytes:
            continue
        if (step_s := stepped(other)) is not None:
            found += [
                one
                for one in _priced(what, "job", values | speed, other, step_s, now)
                if job.takes(dict(one.set))
            ]
    found.sort(key=lambda one: -one.gain)
    for cure in cures(config) if config.model is not None else ():
        values = {key: written(value) for key, value in cure.values.items()} | speed
        if job.takes(values) and (step_s := stepped(cure.setup)) is not None:
            gain = 1 - step_s / now.step_s
            return (
                Change("to fit the memory", "job", tuple(values.items()), step_s, gain, fits=True),
                *found,
            )
    return tuple(found)


def _priced(
    what: str,
    where: str,
    values: dict[str, str],
    other: ParallelConfig,
    step_s: float,
    now: TrainingStep,
) -> list[Change]:
    """Empty without a gain; extra steps to the same accuracy count against it."""
    gain = 1 - step_s / now.step_s if now.step_s else 0.0
    longer = (
        (1 + other.compression.extra_steps)
        if other.compression is not None and "compression.scheme" in values
        else 1.0
    )
    if gain <= LEAST_GAIN or longer * step_s >= now.step_s:
        return []
    return [
        Change(
            what,
            where,
            tuple(values.items()),
            step_s,
            gain,
            memory(other).fits if other.model is not None else None,
        )
    ]


def _of_fabric(
    fabric: Fabric, now: TrainingStep
) -> Iterator[tuple[str, dict[str, str], Fabric, str]]:
    exposed = {tier.name: 0.0 for tier in fabric.tiers}
    for sent in now.critical_calls:
        for name in sent.cost.tiers:
            exposed[name] += sent.exposed_s
    slow = [
        (at, tier)
        for at, tier in enumerate(fabric.tiers)
        if exposed[tier.name] > LEAST_GAIN * now.step_s
    ]
    for at, tier in reversed(slow):
        values = bandwidth_values(tier, FASTER)
        faster = with_tiers(fabric, partial(scaled_bandwidth, share=FASTER), [at])
        yield f"twice the bandwidth of {tier.name}", values, faster, tier.name
    for at, tier in slow:
        kind = capabilities_of(tier)
        if kind.levels and (thin := [one.name for one in kind.classes if one.oversubscription > 1]):
            values = {f"{tier.name}.levels.{name}.oversubscription": "1" for name in thin}
            yield (
                f"no oversubscription on {tier.name}",
                values,
                with_tiers(fabric, non_blocking, [at]),
                tier.name,
            )


def _reshaped(
    job: Job, config: ParallelConfig
) -> Iterator[tuple[str, dict[str, str], ParallelConfig]]:
    """Twice and half of TP, of the pipeline and of the micro-batch, on as many ranks: the nearest
    layouts that a search tries."""
    layout, micro = config.layout, config.micro_batch
    if config.shape is None or config.compute is not None:
        return
    for name, size, none, made in (
        ("TP", layout.tp, "no TP", _wide),
        ("a pipeline of", layout.pp, "no pipeline", _deep),
    ):
        for other in (2 * size, size // 2 if size % 2 == 0 else 0):
            inside = layout.tp * layout.cp * layout.pp // size * other
            if other and layout.ranks % inside == 0:
                changed = made(config, other, layout.ranks // inside)
                changed = changed._replace(
                    shard=shard_of(job.file.shard, changed.layout, config.precision.grads)
                )
                changed = changed._replace(overlap=possible_overlap(job.file.overlap, changed)[0])
                yield (
                    f"{name} {other}" if other > 1 else none,
                    dict(values_of(job, changed)),
                    changed,
                )
    for other in (2 * micro, micro // 2 if micro % 2 == 0 else 0):
        if other and config.global_batch % (other * layout.dp) == 0:
            changed = config._replace(micro_batch=other)
            yield f"micro-batches of {other}", dict(values_of(job, changed)), changed


def _wide(config: ParallelConfig, tp: int, dp: int) -> ParallelConfig:
    layout = config.layout
    etp = tp if layout.etp == layout.tp else min(layout.etp, tp)
    return config._replace(
        layout=layout._replace(tp=tp, dp=dp, etp=etp, sp=tp > 1 and (layout.sp or layout.tp == 1))
    )


def _deep(config: ParallelConfig, pp: int, dp: int) -> ParallelConfig:
    """Chunks of as many layers, where the pipeline has chunks."""
    layout = config.layout
    virtual = max(1, layout.virtual * layout.pp // pp) if pp > 1 else 1
    schedule = default_schedule(virtual) if config.pipeline.from_layout else config.schedule
    return config._replace(
        layout=layout._replace(pp=pp, dp=dp, virtual=virtual, stages=()), schedule=schedule
    )


Setups = Iterator[tuple[str, dict[str, Any], ParallelConfig]]


def candidates(
    config: ParallelConfig, fabric: Fabric, now: TrainingStep
) -> Iterator[tuple[str, dict[str, str], ParallelConfig]]:
    """What changes, the values as ``--job-set`` takes them, and the setup; only where enough time
    is exposed to gain."""
    if config.model is None:
        return
    shown = _ExposedTime(now)
    made = (
        *_hiding(config, shown),
        *_gradients(config, fabric, shown),
        *_placed(config, fabric, shown),
        *_experts(config, fabric, shown),
        *_pipeline(config, shown),
    )
    for what, values, other in made:
        yield (
            what,
            {
                key: f"[{','.join(one)}]" if isinstance(one, tuple) else written(one)
                for key, one in values.items()
            },
            other,
        )


class _ExposedTime:
    def __init__(self, now: TrainingStep) -> None:
        self.now = now
        self.exposed = {part.name: part.exposed_s for part in now.parts}

    def any(self, *names: str) -> bool:
        return sum(self.exposed.get(name, 0.0) for name in names) > LEAST_GAIN * self.now.step_s

    @property
    def worst(self) -> str:
        found = dict.fromkeys(_ORDER, 0.0)
        for name, seconds in self.exposed.items():
            axis = _PART_OF.get(name, name)
            found[axis] = found.get(axis, 0.0) + seconds
        return max(_ORDER, key=lambda axis: found[axis])


def _hiding(config: ParallelConfig, shown: _ExposedTime) -> Setups:
    layout, overlap = config.layout, config.overlap
    for name, row in RECOMPUTATIONS.items():
        if row.whole and row.core + row.layers < config.again.core + config.again.layers:
            yield f"recompute {name}", {"recompute": name}, config._replace(recompute=row.name)
    if layout.tp > 1 and not layout.sp:
        values = {"layout.sp": True} | expert_width(config, layout.etp)
        yield "sequence parallelism", values, config._replace(layout=layout._replace(sp=True))
    asked = [
        (
            "tp",
            "TP behind split GEMMs",
            layout.tp > 1 and layout.sp and overlap.tp != "split",
            "split",
            ("tp",),
        ),
        ("dp", "gradients behind the backward pass", not overlap.dp, True, _GRADIENTS),
        ("pp", "pipeline borders behind compute", not overlap.pp, True, ("pp",)),
        (
            "cp",
            "the ring behind attention",
            not overlap.cp and layout.cp_mode == "ring",
            True,
            ("cp",),
        ),
        (
            "ep",
            "tokens behind another batch",
            not overlap.ep and config.micro_batches > 1,
            "batch",
            ("ep",),
        ),
    ]
    for key, what, possible, value, names in asked:
        if possible and shown.any(*names):
            made: dict[str, Any] = {key: value, "asked": (*overlap.asked, key)}
            yield what, {f"overlap.{key}": True}, config._replace(overlap=overlap._replace(**made))


def _gradients(config: ParallelConfig, fabric: Fabric, shown: _ExposedTime) -> Setups:
    shard, layout = config.shard, config.layout
    if not shown.any(*_GRADIENTS):
        return
    sent = [
        one.call
        for one in shown.now.last.sent
        if one.call.dimension == "dp" and one.call.per == "step"
    ]
    largest = max((call.bytes for call in sent), default=0.0) if not shard.layers else 0.0
    for word, bucket in (
        (("larger", WIDER * largest), ("smaller", largest / WIDER)) if largest else ()
    ):
        size = float(f"{bucket / 1e6:.6g}")
        yield (
            f"{word} buckets",
            {"shard.bucket": f"{size:g}MB"},
            config._replace(shard=shard._replace(bucket=size * 1e6)),
        )
    if shard.grad_bytes == 4:
        fewer = config._replace(
            shard=shard._replace(grad_bytes=2), precision=config.precision._replace(grads="bf16")
        )
        yield "gradients in 16 bits", {"shard.grad_bytes": 2, "precision.grads": "bf16"}, fewer
    if config.compression is None:
        extra = EXTRA_STEPS["int8"][1]
        values = {
            "compression.scheme": "int8",
            "compression.block": BLOCK,
            "compression.extra_steps": extra,
        }
        small = config._replace(
            compression=Compression("dp", "int8", block=BLOCK, extra_steps=extra)
        )
        yield f"gradients in int8, up to {extra:.0%} more steps", values, small
    if layout.dp == 1:
        return
    if shard.mode != "zero1":
        other = config._replace(shard=shard._replace(mode="zero1", group=0))
        what = "optimizer states sharded"
        if shard.row.optimizer:  # and more: a rank then needs more memory
            whole = "whole weights and gradients" if shard.layers else "whole gradients"
            what = (
                f"{whole} on each rank, {what} (ZeRO-1), {format_bytes(memory(other).bytes, 3)} a"
                " rank"
            )
        yield (
            what,
            {"shard.mode": "zero1"} | ({"shard.group": "null"} if shard.group else {}),
            other,
        )
    if not shard.layers and config.micro_batches == 1:  # else every micro-batch gathers again
        yield (
            "weights sharded (FSDP)",
            {"shard.mode": "fsdp"},
            config._replace(shard=fully_sharded(config)),
        )
    group, inside = layout.group("cp", "dp"), 1
    for tier in fabric.tiers[:-1] if shard.layers else ():
        inside *= tier.endpoints
        rows = inside // group.stride
        if 1 < rows < group.ranks and rows != shard.group:
            other = config._replace(shard=shard._replace(mode="hsdp", group=rows))
            yield (
                f"shards inside {tier.name}, replicas across",
                {"shard.mode": "hsdp", "shard.group": rows},
                other,
            )


def _placed(config: ParallelConfig, fabric: Fabric, shown: _ExposedTime) -> Setups:
    """TP no wider than the innermost domain; the dimension with the most exposed time further
    in."""
    layout, inside, first = config.layout, fabric.tiers[0].endpoints, config.layout.order[0]
    if layout.tp > inside and layout.tp % inside == 0 and first == "tp":
        dp, etp = layout.dp * layout.tp // inside, min(layout.etp, inside)
        values = {"layout.tp": inside, "layout.dp": dp} | expert_width(config, etp)
        yield (
            f"TP inside {fabric.tiers[0].name}",
            values,
            config._replace(layout=layout._replace(tp=inside, dp=dp, etp=etp)),
        )
    if not shown.any(worst := shown.worst):
        return
    rest = [axis for axis in layout.order if axis != worst]
    orders = {(worst, *rest), (first, worst, *(axis for axis in rest if axis != first)), _ORDER} - {
        layout.order
    }
    for order in sorted(orders):
        other = layout._replace(order=order)
        if (
            other.group(worst, experts=worst == "ep").stride
            < layout.group(worst, experts=worst == "ep").stride
        ):
            yield f"{worst} further in", {"layout.order": order}, config._replace(layout=other)


def _experts(config: ParallelConfig, fabric: Fabric, shown: _ExposedTime) -> Setups:
    """Expert parallelism inside a node, a token once to each rank; other context parallelism."""
    layout, moe = config.layout, config.moe
    if moe is not None and layout.ep > 1 and shown.any("ep"):
        fewer = fabric.tiers[0].endpoints // layout.group("ep", experts=True).stride
        if 1 < fewer < layout.ep and moe.experts % fewer == 0:
            other = config._replace(layout=layout._replace(ep=fewer))
            yield f"experts inside {fabric.tiers[0].name}", {"layout.ep": fewer}, other
        if moe.top_k > 1 and not layout.deduplicate:
            other = config._replace(layout=layout._replace(deduplicate=True))
            yield "a token once to each rank", {"layout.deduplicate": True}, other
    for mode in get_args(ContextMode) if layout.cp > 1 and shown.any("cp") else ():
        if mode != layout.cp_mode:
            yield (
                f"context parallel by {mode}",
                {"layout.cp_mode": mode},
                config._replace(layout=layout._replace(cp_mode=mode)),
            )


def _pipeline(config: ParallelConfig, shown: _ExposedTime) -> Setups:
    """More chunks, weight gradients in the bubble; smaller micro-batches fill it, larger ones
    gather and wait less often."""
    layout, model, micro, bubble = (
        config.layout,
        config.model,
        config.micro_batch,
        shown.any("bubble"),
    )
    if model is not None and layout.pp > 1 and not layout.stages and bubble:
        # a layer's place each
        ends = (model.layers + 2) // layout.pp if (model.layers + 2) % layout.pp == 0 else 0
        held = [count for count in (model.layers // layout.pp, ends) if count]
        more = next(
            (
                v
                for v in range(layout.virtual + 1, max(held) + 1)
                if any(count % v == 0 for count in held)
            ),
            0,
        )
        if more and config.pipeline.from_layout:
            other = config._replace(schedule="interleaved", layout=layout._replace(virtual=more))
            yield (
                f"{more} chunks a stage",
                {"layout.virtual": more, "schedule": "interleaved"},
                other,
            )
        if (split := config.pipeline.split) and layout.virtual == 1:
            yield (
                "weight gradients in the bubble",
                {"schedule": split},
                config._replace(schedule=split),
            )
    if micro > 1 and micro % 2 == 0 and layout.pp > 1 and bubble:
        yield (
            "smaller micro-batches",
            {"batch.micro": micro // 2},
            config._replace(micro_batch=micro // 2),
        )
    if config.micro_batches % 2 == 0 and layout.pp == 1 and shown.any("dp", "tp", "ep"):
        yield (
            "larger micro-batches",
            {"batch.micro": 2 * micro},
            config._replace(micro_batch=2 * micro),
        )
