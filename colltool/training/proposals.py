"""What to change of the fabric and of the job: each idea is a function, its step is priced again
with the values that make it, and the best gain comes first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
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
from colltool.training.job import Job, PlainCall
from colltool.training.job_configuration import shard_of
from colltool.training.memory import cures, expert_width, fully_sharded, memory
from colltool.training.overlap import EXTRA_STEPS
from colltool.training.parallel_config import Compression, ParallelConfig, with_values
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


class Proposal(NamedTuple):
    change: str
    where: str  # fabric or job
    set: tuple[tuple[str, str], ...]
    step_s: float
    gain: float  # share of the step
    fits: bool | None  # the memory of its device; None without one


class Idea(NamedTuple):
    """A change before it is priced, with the values that make it."""

    what: str
    values: dict[str, Any]
    setup: ParallelConfig | None = None  # where it does not follow from the values alone


class Situation(NamedTuple):
    """A job's step as it is, for which ideas are looked for."""

    config: ParallelConfig
    fabric: Fabric
    step: TrainingStep
    exposed_s: dict[str, float]  # by part of the step

    def waits_for(self, *parts: str) -> bool:
        """Whether parts of the step take enough of it to gain from."""
        spent_s = sum(self.exposed_s.get(part, 0.0) for part in parts)
        return spent_s > LEAST_GAIN * self.step.step_s


Ideas = Iterator[Idea]
_IDEAS: list[tuple[tuple[str, ...], Callable[[Situation], Ideas]]] = []


def idea(*parts: str) -> Callable[[Callable[[Situation], Ideas]], Callable[[Situation], Ideas]]:
    """Register ideas, to be looked for where the step waits for one of ``parts``, or always."""

    def register(found: Callable[[Situation], Ideas]) -> Callable[[Situation], Ideas]:
        _IDEAS.append((parts, found))
        return found

    return register


@idea()
def less_recomputation(at: Situation) -> Ideas:
    """Keep more activations, and compute less of them again."""
    now = at.config.again
    for name, row in RECOMPUTATIONS.items():
        if row.whole and row.core + row.layers < now.core + now.layers:
            yield Idea(f"recompute {name}", {"recompute": name})


@idea()
def sequence_parallelism(at: Situation) -> Ideas:
    """Cut what is outside tensor parallel regions as well, in place of copying it."""
    layout = at.config.layout
    if layout.tp > 1 and not layout.sp:
        values = {"layout.sp": True} | expert_width(at.config, layout.etp)
        yield Idea("sequence parallelism", values)


def _hidden(at: Situation, what: str, key: str, value: object = True) -> Idea:
    """A dimension that hides, as a job that asks for it has it."""
    overlap = at.config.overlap
    asked = (*overlap.asked, key)
    setup = with_values(at.config, {f"overlap.{key}": value, "overlap.asked": asked})
    return Idea(what, {f"overlap.{key}": True}, setup)


@idea("tp")
def split_gemms(at: Situation) -> Ideas:
    layout = at.config.layout
    if layout.tp > 1 and layout.sp and at.config.overlap.tp != "split":
        yield _hidden(at, "TP behind split GEMMs", "tp", "split")


@idea(*_GRADIENTS)
def hidden_gradients(at: Situation) -> Ideas:
    if not at.config.overlap.dp:
        yield _hidden(at, "gradients behind the backward pass", "dp")


@idea("pp")
def hidden_borders(at: Situation) -> Ideas:
    if not at.config.overlap.pp:
        yield _hidden(at, "pipeline borders behind compute", "pp")


@idea("cp")
def hidden_ring(at: Situation) -> Ideas:
    if not at.config.overlap.cp and at.config.layout.cp_mode == "ring":
        yield _hidden(at, "the ring behind attention", "cp")


@idea("ep")
def hidden_tokens(at: Situation) -> Ideas:
    if not at.config.overlap.ep and at.config.micro_batches > 1:
        yield _hidden(at, "tokens behind another batch", "ep", "batch")


@idea(*_GRADIENTS)
def other_buckets(at: Situation) -> Ideas:
    """Larger buckets waste less time on latency, smaller ones leave a shorter last one."""
    if at.config.shard.layers:
        return
    sent = [call.call for call in at.step.last.sent if call.call.per == "step"]
    largest = max((call.bytes for call in sent if call.dimension == "dp"), default=0.0)
    for word, bucket in (("larger", WIDER * largest), ("smaller", largest / WIDER)):
        if bucket:
            size = float(f"{bucket / 1e6:.6g}")  # as it is printed
            setup = with_values(at.config, {"shard.bucket": size * 1e6})
            yield Idea(f"{word} buckets", {"shard.bucket": f"{size:g}MB"}, setup)


@idea(*_GRADIENTS)
def gradients_in_16_bits(at: Situation) -> Ideas:
    """Half the bytes of gradients."""
    if at.config.shard.grad_bytes == 4:
        yield Idea("gradients in 16 bits", {"shard.grad_bytes": 2, "precision.grads": "bf16"})


@idea(*_GRADIENTS)
def compressed_gradients(at: Situation) -> Ideas:
    """A quarter of the bytes, for more steps to the same accuracy."""
    if at.config.compression is not None:
        return
    extra = EXTRA_STEPS["int8"][1]
    values = {
        "compression.scheme": "int8",
        "compression.block": BLOCK,
        "compression.extra_steps": extra,
    }
    small = Compression("dp", "int8", block=BLOCK, extra_steps=extra)
    setup = at.config._replace(compression=small)
    yield Idea(f"gradients in int8, up to {extra:.0%} more steps", values, setup)


@idea(*_GRADIENTS)
def sharded_states(at: Situation) -> Ideas:
    """ZeRO-1: replicas share the optimizer's states alone."""
    shard = at.config.shard
    if at.config.layout.dp == 1 or shard.mode == "zero1":
        return
    setup = with_values(at.config, {"shard.mode": "zero1", "shard.group": 0})
    what = "optimizer states sharded"
    if shard.row.optimizer:  # and more: a rank then needs more memory
        whole = "whole weights and gradients" if shard.layers else "whole gradients"
        size = format_bytes(memory(setup).bytes, 3)
        what = f"{whole} on each rank, {what} (ZeRO-1), {size} a rank"
    values = {"shard.mode": "zero1"}
    # a group of hsdp would be one of zero1 as well
    if shard.group:
        values["shard.group"] = "null"
    yield Idea(what, values, setup)


@idea(*_GRADIENTS)
def sharded_weights(at: Situation) -> Ideas:
    """FSDP, where a step gathers weights once."""
    config = at.config
    # with several micro-batches each of them gathers again
    if config.layout.dp > 1 and not config.shard.layers and config.micro_batches == 1:
        setup = config._replace(shard=fully_sharded(config))
        yield Idea("weights sharded (FSDP)", {"shard.mode": "fsdp"}, setup)


@idea(*_GRADIENTS)
def shards_inside_a_tier(at: Situation) -> Ideas:
    """Gathers of weights stay on a faster tier, copies are summed across."""
    shard, group = at.config.shard, at.config.layout.group("cp", "dp")
    if at.config.layout.dp == 1 or not shard.layers:
        return
    inside = 1
    for tier in at.fabric.tiers[:-1]:
        inside *= tier.endpoints
        rows = inside // group.stride
        if 1 < rows < group.ranks and rows != shard.group:
            values = {"shard.mode": "hsdp", "shard.group": rows}
            yield Idea(f"shards inside {tier.name}, replicas across", values)


@idea()
def tensor_groups_inside_a_domain(at: Situation) -> Ideas:
    """Tensor parallelism as wide as the fastest wires reach, with more replicas."""
    layout, domain = at.config.layout, at.fabric.tiers[0]
    factor, uneven = divmod(layout.tp, domain.endpoints)
    if factor > 1 and not uneven and layout.order[0] == "tp":
        etp = min(layout.etp, domain.endpoints)
        values = {"layout.tp": domain.endpoints, "layout.dp": layout.dp * factor}
        setup = with_values(at.config, values | {"layout.etp": etp})
        yield Idea(f"TP inside {domain.name}", values | expert_width(at.config, etp), setup)


@idea()
def worst_dimension_further_in(at: Situation) -> Ideas:
    """Another order of the ranks, with what is exposed most on shorter strides."""
    by_axis: dict[str, float] = defaultdict(float)
    for part, seconds in at.exposed_s.items():
        by_axis[_PART_OF.get(part, part)] += seconds
    worst = max(_ORDER, key=lambda axis: by_axis[axis])
    if not at.waits_for(worst):
        return
    layout = at.config.layout
    first, *others = layout.order
    rest = [axis for axis in layout.order if axis != worst]
    second = (first, worst, *(axis for axis in others if axis != worst))
    # innermost already
    if first == worst:
        second = layout.order
    for order in sorted({(worst, *rest), second, _ORDER} - {layout.order}):
        other = layout._replace(order=order)
        now, then = (cut.group(worst, experts=worst == "ep") for cut in (layout, other))
        if then.stride < now.stride:
            yield Idea(f"{worst} further in", {"layout.order": order})


@idea("ep")
def experts_inside_a_domain(at: Situation) -> Ideas:
    """Fewer ranks an all-to-all, all of them on the fastest wires."""
    layout, moe, domain = at.config.layout, at.config.moe, at.fabric.tiers[0]
    if moe is None or layout.ep == 1:
        return
    fewer = domain.endpoints // layout.group("ep", experts=True).stride
    if 1 < fewer < layout.ep and moe.experts % fewer == 0:
        yield Idea(f"experts inside {domain.name}", {"layout.ep": fewer})


@idea("ep")
def deduplicated_tokens(at: Situation) -> Ideas:
    """A token once to a rank with several of its experts."""
    layout, moe = at.config.layout, at.config.moe
    if moe is not None and layout.ep > 1 and moe.top_k > 1 and not layout.deduplicate:
        yield Idea("a token once to each rank", {"layout.deduplicate": True})


@idea("cp")
def other_context_parallelism(at: Situation) -> Ideas:
    layout = at.config.layout
    for mode in get_args(ContextMode):
        if layout.cp > 1 and mode != layout.cp_mode:
            yield Idea(f"context parallel by {mode}", {"layout.cp_mode": mode})


@idea("bubble")
def more_chunks(at: Situation) -> Ideas:
    """The next number of chunks that divides a stage's layers, or its layers with the ends as
    layers."""
    layout, model = at.config.layout, at.config.model
    if model is None or layout.pp == 1 or layout.stages or not at.config.pipeline.from_layout:
        return
    held = [model.layers // layout.pp]
    if (model.layers + 2) % layout.pp == 0:
        held.append((model.layers + 2) // layout.pp)
    for chunks in range(layout.virtual + 1, max(held) + 1):
        if any(layers and layers % chunks == 0 for layers in held):
            values = {"layout.virtual": chunks, "schedule": "interleaved"}
            yield Idea(f"{chunks} chunks a stage", values)
            return


@idea("bubble")
def weight_gradients_in_the_bubble(at: Situation) -> Ideas:
    layout, split = at.config.layout, at.config.pipeline.split
    if layout.pp > 1 and layout.virtual == 1 and not layout.stages and split:
        yield Idea("weight gradients in the bubble", {"schedule": split})


@idea("bubble")
def smaller_micro_batches(at: Situation) -> Ideas:
    half, odd = divmod(at.config.micro_batch, 2)
    if at.config.layout.pp > 1 and half and not odd:
        yield Idea("smaller micro-batches", {"batch.micro": half})


@idea("dp", "tp", "ep")
def larger_micro_batches(at: Situation) -> Ideas:
    """Larger micro-batches gather and wait less often; in a pipeline they make its bubble
    longer."""
    if at.config.layout.pp == 1 and at.config.micro_batches % 2 == 0:
        yield Idea("larger micro-batches", {"batch.micro": 2 * at.config.micro_batch})


Candidates = Iterator[tuple[str, dict[str, str], ParallelConfig]]


def candidates(config: ParallelConfig, fabric: Fabric, now: TrainingStep) -> Candidates:
    """Yield what changes, the values as ``--job-set`` takes them, and the setup; only where enough
    time is exposed to gain."""
    if config.model is None:
        return
    at = Situation(config, fabric, now, {part.name: part.exposed_s for part in now.parts})
    for parts, ideas in _IDEAS:
        if parts and not at.waits_for(*parts):
            continue
        for what, values, setup in ideas(at):
            texts = {key: _written(value) for key, value in values.items()}
            yield what, texts, with_values(config, values) if setup is None else setup


def _written(value: Any) -> str:
    return f"[{','.join(value)}]" if isinstance(value, tuple) else written(value)


def proposals(
    job: Job,
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    now: TrainingStep,
) -> tuple[Proposal, ...]:
    """Changes that gain, the best first; before them the smallest that a job needs to fit its
    device, whatever it costs.

    One that the job, its memory or the fabric cannot have is left out.
    """

    def stepped(other: ParallelConfig, prices: CollectiveCostCache = costs) -> float | None:
        try:
            return step_time(other, prices, plain).step_s
        except ColltoolError:  # a group does not sit on the fabric
            return None

    found: list[Proposal] = []
    for what, values, fabric, tier in _of_fabric(costs.fabric, now):
        step_s = stepped(config, costs.changed(fabric, tier))
        if step_s is not None and _gains(config, values, step_s, now):
            found.append(_proposal(what, "fabric", values, config, step_s, now))
    speed = _speed(job, config)
    for what, values, other in (*candidates(config, costs.fabric, now), *_reshaped(job, config)):
        # what cannot be is left out before it is priced
        if constraint_violations(other) or invalid_overlaps(other) or _too_large(other, config):
            continue
        step_s = stepped(other)
        if step_s is not None and _gains(other, values, step_s, now) and job.takes(values | speed):
            found.append(_proposal(what, "job", values | speed, other, step_s, now))
    found.sort(key=lambda proposal: -proposal.gain)
    # a job that does not fit runs only with a cure, so it comes first whatever it gains
    for values, setup in _cures(job, config):
        step_s = stepped(setup)
        if step_s is not None:
            return _proposal("to fit the memory", "job", values, setup, step_s, now), *found
    return tuple(found)


def _speed(job: Job, config: ParallelConfig) -> dict[str, str]:
    """The speed found from a measured step in place of that step, which holds for one layout
    only."""
    if config.slower == 1 or job.file.slower is not None:
        return {}
    return {"measured.step": "null", "slower": repr(config.slower)}


def _cures(job: Job, config: ParallelConfig) -> Iterator[tuple[dict[str, str], ParallelConfig]]:
    """Yield what makes a job fit its device, as far as its file can have it."""
    if config.model is None:
        return
    for cure in cures(config):
        values = {key: written(value) for key, value in cure.values.items()} | _speed(job, config)
        if job.takes(values):
            yield values, cure.setup


def _too_large(other: ParallelConfig, config: ParallelConfig) -> bool:
    """Whether a change does not fit its device and takes more memory than the job as it is."""
    if other.model is None:
        return False
    then = memory(other)
    return then.fits is False and then.bytes > memory(config).bytes


def _gains(other: ParallelConfig, values: dict[str, str], step_s: float, now: TrainingStep) -> bool:
    """Whether a change is worth it; extra steps to the same accuracy count against it."""
    longer = 1.0
    if other.compression is not None and "compression.scheme" in values:
        longer += other.compression.extra_steps
    return _gain(step_s, now) > LEAST_GAIN and longer * step_s < now.step_s


def _gain(step_s: float, now: TrainingStep) -> float:
    return 1 - step_s / now.step_s if now.step_s else 0.0


def _proposal(
    what: str,
    where: str,
    values: dict[str, str],
    other: ParallelConfig,
    step_s: float,
    now: TrainingStep,
) -> Proposal:
    fits = memory(other).fits if other.model is not None else None
    return Proposal(what, where, tuple(values.items()), step_s, _gain(step_s, now), fits)


def _of_fabric(
    fabric: Fabric, now: TrainingStep
) -> Iterator[tuple[str, dict[str, str], Fabric, str]]:
    """Yield faster tiers and full bisections: what, values, the fabric, and its changed tier."""
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
        faster = with_tiers(fabric, partial(scaled_bandwidth, share=FASTER), [at])
        values = bandwidth_values(tier, FASTER)
        yield f"twice the bandwidth of {tier.name}", values, faster, tier.name
    for at, tier in slow:
        kind = capabilities_of(tier)
        thin = [level.name for level in kind.classes if level.oversubscription > 1]
        if kind.levels and thin:
            values = {f"{tier.name}.levels.{name}.oversubscription": "1" for name in thin}
            full = with_tiers(fabric, non_blocking, [at])
            yield f"no oversubscription on {tier.name}", values, full, tier.name


def _reshaped(job: Job, config: ParallelConfig) -> Candidates:
    """Twice and half of TP, of the pipeline and of the micro-batch, on as many ranks: the nearest
    layouts that a search tries."""
    if config.shape is None or config.compute is not None:
        return
    layout = config.layout
    for label, none, size, made in (
        ("TP", "no TP", layout.tp, _wide),
        ("a pipeline of", "no pipeline", layout.pp, _deep),
    ):
        for other in _twice_and_half(size):
            inside = layout.tp * layout.cp * layout.pp // size * other
            if layout.ranks % inside == 0:
                changed = made(config, other, layout.ranks // inside)
                shard = shard_of(job.file.shard, changed.layout, config.precision.grads)
                changed = changed._replace(shard=shard)
                changed = changed._replace(overlap=possible_overlap(job.file.overlap, changed)[0])
                what = f"{label} {other}" if other > 1 else none
                yield what, dict(values_of(job, changed)), changed
    for other in _twice_and_half(config.micro_batch):
        if config.global_batch % (other * layout.dp) == 0:
            changed = config._replace(micro_batch=other)
            yield f"micro-batches of {other}", dict(values_of(job, changed)), changed


def _twice_and_half(size: int) -> list[int]:
    return [2 * size] if size % 2 else [2 * size, size // 2]


def _wide(config: ParallelConfig, tp: int, dp: int) -> ParallelConfig:
    layout = config.layout
    # experts that were cut as wide as everything else still are
    etp = tp if layout.etp == layout.tp else min(layout.etp, tp)
    sp = tp > 1 and (layout.sp or layout.tp == 1)
    return config._replace(layout=layout._replace(tp=tp, dp=dp, etp=etp, sp=sp))


def _deep(config: ParallelConfig, pp: int, dp: int) -> ParallelConfig:
    """Chunks of as many layers, where the pipeline has chunks."""
    layout = config.layout
    virtual = 1
    if pp > 1:
        virtual = max(1, layout.virtual * layout.pp // pp)
    schedule = config.schedule
    if config.pipeline.from_layout:
        schedule = default_schedule(virtual)
    deep = layout._replace(pp=pp, dp=dp, virtual=virtual, stages=())
    return config._replace(layout=deep, schedule=schedule)
