"""Proposals of a plan: what to change of the fabric or of the job, the best gain first.

Each idea is a function under ``@idea`` that yields changes of the job where the step waits long
enough for the parts that it names; :func:`candidates` runs them all. Changes of the fabric and
neighbouring layouts come beside them. :func:`proposals` prices the step with each change and keeps
those that gain.
"""

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
from colltool.training.dispatchers import faster_dispatchers
from colltool.training.files import ContextMode, written
from colltool.training.job import Job, PlainCall
from colltool.training.job_configuration import shard_of
from colltool.training.memory import cures, expert_width, fully_sharded, memory
from colltool.training.overlap import EXTRA_STEPS
from colltool.training.parallel_config import Compression, ParallelConfig, with_values
from colltool.training.plain_buckets import rebucketed
from colltool.training.search_space import chunk_counts, possible_overlap, values_of
from colltool.training.sentences import Remark, remark, sentence, spelled
from colltool.training.step_time import TrainingStep, step_time
from colltool.training.strategies import RECOMPUTATIONS, default_schedule

# times the bandwidth of a tier: the next generation of a NIC (200, 400, 800 Gb/s)
FASTER = 2
# share of the step: smaller gains are not listed, and shorter exposed parts not worked on
LEAST_GAIN = 1e-3
WIDER = 4  # times a bucket's bytes; smaller buckets are divided by it
BLOCK = 128  # elements of a compressed gradient that share a scale
# of ranks, innermost first: the dimensions with the most traffic have the shortest strides
_ORDER = ("tp", "cp", "ep", "dp", "pp")
# dimensions of calls whose groups lie along another dimension of the layout
_PART_OF = {"vocab": "tp", "etp": "tp", "expert dp": "dp"}
# dimensions whose calls sum gradients
_GRADIENTS = ("dp", "expert dp")


class Proposal(NamedTuple):
    """A change of the fabric or of the job, and the step with it."""

    change: str
    where: str  # fabric or job
    set: tuple[tuple[str, str], ...]  # keys with their values, as ``--set`` or ``--job-set``
    step_s: float
    gain: float  # share of the step
    fits: bool | None  # the memory of its device; None without one
    tight: bool = False  # whether it may not, within the error of the memory


class Idea(NamedTuple):
    """A change before it is priced, with the values that make it."""

    label: Remark
    values: dict[str, Any]
    setup: ParallelConfig | None = None  # where it does not follow from the values alone


class Situation(NamedTuple):
    """A job's step as it is, for which ideas are looked for."""

    config: ParallelConfig
    fabric: Fabric
    step: TrainingStep
    exposed_s: dict[str, float]  # by part of the step

    def waits_for(self, *parts: str) -> bool:
        """Whether the step waits for these parts long enough to gain from less of them."""
        exposed_s = sum(self.exposed_s.get(part, 0.0) for part in parts)
        return exposed_s > LEAST_GAIN * self.step.step_s


Ideas = Iterator[Idea]
# parts of the step for which ideas are looked for, none for always, with the ideas
_IDEAS: list[tuple[tuple[str, ...], Callable[[Situation], Ideas]]] = []


def idea(*parts: str) -> Callable[[Callable[[Situation], Ideas]], Callable[[Situation], Ideas]]:
    """Register a generator of ideas, to be run where the step waits for one of ``parts``; always
    without parts."""

    def register(ideas: Callable[[Situation], Ideas]) -> Callable[[Situation], Ideas]:
        _IDEAS.append((parts, ideas))
        return ideas

    return register


@idea()
def less_recomputation(current: Situation) -> Ideas:
    """Keep more activations, and recompute less."""
    now = current.config.again
    for name, row in RECOMPUTATIONS.items():
        if row.whole and row.core + row.layers < now.core + now.layers:
            yield Idea(remark("recompute", recompute=name), {"recompute": name})


@idea()
def sequence_parallelism(current: Situation) -> Ideas:
    """Split what is outside tensor parallel regions as well, instead of copying it."""
    layout = current.config.layout
    if layout.tp > 1 and not layout.sp:
        values = {"layout.sp": True} | expert_width(current.config, layout.etp)
        yield Idea(remark("sequence_parallelism"), values)


def _hidden(current: Situation, key: str, value: object = True) -> Idea:
    """Return the idea of hiding a dimension, with the setup of a job that asks for it."""
    overlap = current.config.overlap
    set_by_job = (*overlap.asked, key)
    setup = with_values(current.config, {f"overlap.{key}": value, "overlap.asked": set_by_job})
    return Idea(remark(f"hide_{key}"), {f"overlap.{key}": True}, setup)


@idea("tp")
def split_gemms(current: Situation) -> Ideas:
    """Hide tensor parallel calls under GEMMs in pieces."""
    layout = current.config.layout
    if layout.tp > 1 and layout.sp and current.config.overlap.tp != "split":
        yield _hidden(current, "tp", "split")


@idea(*_GRADIENTS)
def hidden_gradients(current: Situation) -> Ideas:
    """Hide sums of gradients under the backward pass."""
    if not current.config.overlap.dp:
        yield _hidden(current, "dp")


@idea("pp")
def hidden_borders(current: Situation) -> Ideas:
    """Hide messages between stages under other micro-batches."""
    if not current.config.overlap.pp:
        yield _hidden(current, "pp")


@idea("cp")
def hidden_ring(current: Situation) -> Ideas:
    """Hide the messages of ring attention under attention."""
    if not current.config.overlap.cp and current.config.layout.cp_mode == "ring":
        yield _hidden(current, "cp")


@idea("ep")
def hidden_tokens(current: Situation) -> Ideas:
    """Hide all-to-alls of experts under another micro-batch."""
    if not current.config.overlap.ep and current.config.micro_batches > 1:
        yield _hidden(current, "ep", "batch")


@idea(*_GRADIENTS)
def other_buckets(current: Situation) -> Ideas:
    """Larger buckets waste less time on latency, smaller ones leave a shorter last one."""
    if current.config.shard.layers:
        return
    sent = [call.call for call in current.step.last.sent if call.call.per == "step"]
    largest = max((call.bytes for call in sent if call.dimension == "dp"), default=0.0)
    for word, bucket in (("larger", WIDER * largest), ("smaller", largest / WIDER)):
        if bucket:
            size = float(f"{bucket / 1e6:.6g}")  # as it is printed
            setup = with_values(current.config, {"shard.bucket": size * 1e6})
            yield Idea(remark(f"{word}_buckets"), {"shard.bucket": f"{size:g}MB"}, setup)


@idea(*_GRADIENTS)
def gradients_in_16_bits(current: Situation) -> Ideas:
    """Send half the bytes of gradients."""
    if current.config.shard.grad_bytes == 4:
        values = {"shard.grad_bytes": 2, "precision.grads": "bf16"}
        yield Idea(remark("gradients_in_16_bits"), values)


@idea(*_GRADIENTS)
def compressed_gradients(current: Situation) -> Ideas:
    """Send a quarter of the bytes, for more steps to the same accuracy."""
    if current.config.compression is not None:
        return
    extra = EXTRA_STEPS["int8"][1]
    values = {
        "compression.scheme": "int8",
        "compression.block": BLOCK,
        "compression.extra_steps": extra,
    }
    compression = Compression("dp", "int8", block=BLOCK, extra_steps=extra)
    setup = current.config._replace(compression=compression)
    yield Idea(remark("gradients_in_int8", extra_steps=extra), values, setup)


@idea(*_GRADIENTS)
def sharded_states(current: Situation) -> Ideas:
    """Share only the optimizer's states between replicas, ZeRO-1."""
    shard = current.config.shard
    if current.config.layout.dp == 1 or shard.mode == "zero1":
        return
    setup = with_values(current.config, {"shard.mode": "zero1", "shard.group": 0})
    label = remark("sharded_states")
    # the job shares gradients or weights too, so that a rank needs more memory with ZeRO-1
    if shard.row.optimizer:
        code = "whole_weights" if shard.layers else "whole_gradients"
        label = remark(code, memory=format_bytes(memory(setup).bytes, 3))
    values = {"shard.mode": "zero1"}
    # a group of hsdp would be one of zero1 as well
    if shard.group:
        values["shard.group"] = "null"
    yield Idea(label, values, setup)


@idea(*_GRADIENTS)
def sharded_weights(current: Situation) -> Ideas:
    """Shard weights as well, FSDP, where a step gathers them once."""
    config = current.config
    # with several micro-batches each of them gathers again
    if config.layout.dp > 1 and not config.shard.layers and config.micro_batches == 1:
        setup = config._replace(shard=fully_sharded(config))
        yield Idea(remark("sharded_weights"), {"shard.mode": "fsdp"}, setup)


@idea(*_GRADIENTS)
def shards_inside_a_tier(current: Situation) -> Ideas:
    """Gather weights on a faster tier, and sum gradients of the copies across, HSDP."""
    shard, group = current.config.shard, current.config.layout.group("cp", "dp")
    if current.config.layout.dp == 1 or not shard.layers:
        return
    inside = 1
    for tier in current.fabric.tiers[:-1]:
        inside *= tier.endpoints
        rows = inside // group.stride
        if 1 < rows < group.ranks and rows != shard.group:
            values = {"shard.mode": "hsdp", "shard.group": rows}
            yield Idea(remark("shards_inside_tier", tier=tier.name), values)


@idea()
def tensor_groups_inside_a_domain(current: Situation) -> Ideas:
    """Keep tensor parallelism inside the innermost domain, with more replicas."""
    layout, domain = current.config.layout, current.fabric.tiers[0]
    factor, uneven = divmod(layout.tp, domain.endpoints)
    if factor > 1 and not uneven and layout.order[0] == "tp":
        etp = min(layout.etp, domain.endpoints)
        values = {"layout.tp": domain.endpoints, "layout.dp": layout.dp * factor}
        setup = with_values(current.config, values | {"layout.etp": etp})
        label = remark("tp_inside_tier", tier=domain.name)
        yield Idea(label, values | expert_width(current.config, etp), setup)


@idea()
def worst_dimension_further_in(current: Situation) -> Ideas:
    """Order ranks so that the most exposed dimension has a shorter stride."""
    by_axis: dict[str, float] = defaultdict(float)
    for part, seconds in current.exposed_s.items():
        by_axis[_PART_OF.get(part, part)] += seconds
    worst = max(_ORDER, key=lambda axis: by_axis[axis])
    if not current.waits_for(worst):
        return
    layout = current.config.layout
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
            yield Idea(remark("further_in", dimension=worst), {"layout.order": order})


@idea("ep")
def experts_inside_a_domain(current: Situation) -> Ideas:
    """Keep all-to-alls of experts inside the innermost domain, with fewer ranks each."""
    layout, moe, domain = current.config.layout, current.config.moe, current.fabric.tiers[0]
    if moe is None or layout.ep == 1:
        return
    ranks = domain.endpoints // layout.group("ep", experts=True).stride
    if 1 < ranks < layout.ep and moe.experts % ranks == 0:
        yield Idea(remark("experts_inside_tier", tier=domain.name), {"layout.ep": ranks})


@idea("ep")
def other_dispatchers(current: Situation) -> Ideas:
    """Send tokens by another library, where its price is lower by more than the error."""
    config = current.config
    if config.layout.deduplicate:
        return
    for call in current.step.slowest.sent:
        if call.call.dimension == "ep" and call.call.phase == "backward":
            skewless = call.cost.scaled(1 / call.call.skew)
            for faster in faster_dispatchers(config, current.fabric, skewless, call.call.bytes):
                values = {"layout.dispatcher": faster.name}
                yield Idea(remark("dispatcher", dispatcher=faster.spoken), values)
            return


@idea("cp")
def other_context_parallelism(current: Situation) -> Ideas:
    """Take another mode of context parallelism."""
    layout = current.config.layout
    for mode in get_args(ContextMode):
        if layout.cp > 1 and mode != layout.cp_mode:
            yield Idea(remark("context_mode", mode=mode), {"layout.cp_mode": mode})


@idea("bubble")
def more_chunks(current: Situation) -> Ideas:
    """Take the next number of chunks that a search tries."""
    layout, model = current.config.layout, current.config.model
    if model is None or layout.pp == 1 or layout.stages or not current.config.pipeline.from_layout:
        return
    for chunks in chunk_counts(model.layers, layout.pp):
        if chunks > layout.virtual:
            values = {"layout.virtual": chunks, "schedule": "interleaved"}
            yield Idea(remark("more_chunks", chunks=chunks), values)
            return


@idea("bubble")
def weight_gradients_in_the_bubble(current: Situation) -> Ideas:
    """Compute weight gradients in the bubble of the pipeline."""
    layout, split = current.config.layout, current.config.pipeline.split
    if layout.pp > 1 and layout.virtual == 1 and not layout.stages and split:
        label = remark("split_weight_gradients", schedule=split.upper())
        yield Idea(label, {"schedule": split})


@idea("bubble")
def smaller_micro_batches(current: Situation) -> Ideas:
    """Shorten the bubble with more and smaller micro-batches."""
    half, odd = divmod(current.config.micro_batch, 2)
    if current.config.layout.pp > 1 and half and not odd:
        yield Idea(remark("smaller_micro_batches"), {"batch.micro": half})


@idea("dp", "tp", "ep")
def larger_micro_batches(current: Situation) -> Ideas:
    """Gather and wait less often; not in a pipeline, whose bubble would be longer."""
    if current.config.layout.pp == 1 and current.config.micro_batches % 2 == 0:
        yield Idea(remark("larger_micro_batches"), {"batch.micro": 2 * current.config.micro_batch})


class JobChange(NamedTuple):
    """A change of the job, with the values as ``--job-set`` takes them."""

    label: Remark
    values: dict[str, str]
    setup: ParallelConfig


class FabricChange(NamedTuple):
    """A change of one tier, with the values as ``--set`` takes them."""

    label: Remark
    values: dict[str, str]
    fabric: Fabric
    tier: str


def candidates(config: ParallelConfig, fabric: Fabric, now: TrainingStep) -> Iterator[JobChange]:
    """Yield changes of a job from the registered ideas, where enough time is exposed to gain."""
    if config.model is None:
        return
    current = Situation(config, fabric, now, {part.name: part.exposed_s for part in now.parts})
    for parts, ideas in _IDEAS:
        if parts and not current.waits_for(*parts):
            continue
        for label, values, setup in ideas(current):
            texts = {key: _written(value) for key, value in values.items()}
            if setup is None:
                setup = with_values(config, values)
            yield JobChange(label, texts, setup)


def _written(value: Any) -> str:
    return f"[{','.join(value)}]" if isinstance(value, tuple) else written(value)


def proposals(
    job: Job,
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    now: TrainingStep,
) -> tuple[Proposal, ...]:
    """Return the changes that gain, the best first; before them the smallest that a job needs to
    fit its device, whatever it costs.

    Changes that the job, its memory or the fabric cannot have are left out.
    """

    def step_seconds(other: ParallelConfig, prices: CollectiveCostCache = costs) -> float | None:
        try:
            return step_time(other, prices, plain).step_s
        except ColltoolError:  # a group cannot be placed on the fabric
            return None

    found: list[Proposal] = []
    for change in _fabric_changes(costs.fabric, now):
        step_s = step_seconds(config, costs.changed(change.fabric, change.tier))
        if step_s is not None and _gains(config, change.values, step_s, now):
            found.append(_proposal(change.label, "fabric", change.values, config, step_s, now))
    speed = _speed(job, config)
    for label, values, setup in (*candidates(config, costs.fabric, now), *_reshaped(job, config)):
        # what cannot be is left out before it is priced
        if constraint_violations(setup) or invalid_overlaps(setup) or _too_large(setup, config):
            continue
        step_s = step_seconds(setup)
        if (
            step_s is not None
            and _gains(setup, values, step_s, now)
            and job.accepts(values | speed)
        ):
            found.append(_proposal(label, "job", values | speed, setup, step_s, now))
    found += _best_buckets(job, config, costs, now)
    # what does not fit never leads
    found.sort(key=lambda proposal: (proposal.fits is False, -proposal.gain))
    for values, setup in _cures(job, config):
        step_s = step_seconds(setup)
        if step_s is None:
            continue
        cure = _proposal(remark("fit_memory"), "job", values, setup, step_s, now)
        # a job that does not fit runs only with a cure, so it comes first whatever it gains
        if memory(config).fits is False:
            return cure, *found
        return *found, cure
    return tuple(found)


def _speed(job: Job, config: ParallelConfig) -> dict[str, str]:
    """Return values that replace a measured step by the speed found from it, as the step is that of
    one layout only; empty without a measured step."""
    if config.slower == 1 or job.file.slower is not None:
        return {}
    return {"measured.step": "null", "slower": repr(config.slower)}


def _cures(job: Job, config: ParallelConfig) -> Iterator[tuple[dict[str, str], ParallelConfig]]:
    """Yield values that make a job fit its device, where its file accepts them, and the setup."""
    if config.model is None:
        return
    for cure in cures(config):
        values = {key: written(value) for key, value in cure.values.items()} | _speed(job, config)
        if job.accepts(values):
            yield values, cure.setup


def _too_large(other: ParallelConfig, config: ParallelConfig) -> bool:
    """Whether a change does not fit its device and takes more memory than the job as it is."""
    if other.model is None:
        return False
    then = memory(other)
    return then.fits is False and then.bytes > memory(config).bytes


def _gains(setup: ParallelConfig, values: dict[str, str], step_s: float, now: TrainingStep) -> bool:
    """Whether a change is worth it; extra steps to the same accuracy count against it."""
    steps_ratio = 1.0
    if setup.compression is not None and "compression.scheme" in values:
        steps_ratio += setup.compression.extra_steps
    return _gain(step_s, now) > LEAST_GAIN and steps_ratio * step_s < now.step_s


def _gain(step_s: float, now: TrainingStep) -> float:
    return 1 - step_s / now.step_s if now.step_s else 0.0


def _proposal(
    label: Remark,
    where: str,
    values: dict[str, str],
    setup: ParallelConfig,
    step_s: float,
    now: TrainingStep,
) -> Proposal:
    """Return the proposal of a change with its priced step."""
    fits = None
    tight = False
    if setup.model is not None:
        then = memory(setup)
        fits = then.fits
        tight = then.tight
    change = sentence(label)
    return Proposal(
        change=change,
        where=where,
        set=tuple(values.items()),
        step_s=step_s,
        gain=_gain(step_s, now),
        fits=fits,
        tight=tight,
    )


def _fabric_changes(fabric: Fabric, now: TrainingStep) -> Iterator[FabricChange]:
    """Yield faster tiers and full bisections, of the tiers that the step waits for."""
    exposed = {tier.name: 0.0 for tier in fabric.tiers}
    for call in now.critical_calls:
        for name in call.cost.tiers:
            exposed[name] += call.exposed_s
    slow = [
        (index, tier)
        for index, tier in enumerate(fabric.tiers)
        if exposed[tier.name] > LEAST_GAIN * now.step_s
    ]
    for index, tier in reversed(slow):
        faster = with_tiers(fabric, partial(scaled_bandwidth, share=FASTER), [index])
        values = bandwidth_values(tier, FASTER)
        yield FabricChange(
            remark("faster_tier", tier=spelled(tier.name)), values, faster, tier.name
        )
    for index, tier in slow:
        kind = capabilities_of(tier)
        thin = [level.name for level in kind.classes if level.oversubscription > 1]
        if kind.levels and thin:
            values = {f"{tier.name}.levels.{name}.oversubscription": "1" for name in thin}
            full = with_tiers(fabric, non_blocking, [index])
            yield FabricChange(remark("non_blocking_tier", tier=tier.name), values, full, tier.name)


def _reshaped(job: Job, config: ParallelConfig) -> Iterator[JobChange]:
    """Yield layouts with twice and half of TP, of the pipeline and of the micro-batch, on as many
    ranks: the nearest ones that a search tries."""
    if config.shape is None or config.compute is not None:
        return
    layout = config.layout
    for dimension, size, with_size in (("tp", layout.tp, _with_tp), ("pp", layout.pp, _with_pp)):
        for other in _twice_and_half(size):
            replica_ranks = layout.tp * layout.cp * layout.pp // size * other
            if layout.ranks % replica_ranks == 0:
                setup = with_size(config, other, layout.ranks // replica_ranks)
                shard = shard_of(job.file.shard, setup.layout, config.precision.grads)
                setup = setup._replace(shard=shard)
                setup = setup._replace(overlap=possible_overlap(job.file.overlap, setup)[0])
                label = remark(f"no_{dimension}")
                if other > 1:
                    label = remark(f"other_{dimension}", size=other)
                yield JobChange(label, dict(values_of(job, setup)), setup)
    for other in _twice_and_half(config.micro_batch):
        if config.global_batch % (other * layout.dp) == 0:
            setup = config._replace(micro_batch=other)
            label = remark("other_micro_batch", size=other)
            yield JobChange(label, dict(values_of(job, setup)), setup)


def _best_buckets(
    job: Job, config: ParallelConfig, costs: CollectiveCostCache, now: TrainingStep
) -> Iterator[Proposal]:
    """Yield for each plain call that a job lists the buckets with which the step is shortest, where
    they gain."""
    for index, listed in enumerate(job.file.calls):
        found = []
        for label, changed in rebucketed(index, listed, config, costs):
            values = changed | _speed(job, config)
            if job.accepts(values):
                plain = job.with_values(values).plain_calls(config)
                step_s = step_time(config, costs, plain).step_s
                found.append(_proposal(label, "job", values, config, step_s, now))
        best = max(found, key=lambda proposal: proposal.gain, default=None)
        if best is not None and best.gain > LEAST_GAIN:
            yield best


def _twice_and_half(size: int) -> list[int]:
    return [2 * size] if size % 2 else [2 * size, size // 2]


def _with_tp(config: ParallelConfig, tp: int, dp: int) -> ParallelConfig:
    """Return the setup with another tensor parallelism; experts split as widely still are."""
    layout = config.layout
    # experts that were cut as wide as everything else still are
    etp = tp if layout.etp == layout.tp else min(layout.etp, tp)
    sp = tp > 1 and (layout.sp or layout.tp == 1)
    return config._replace(layout=layout._replace(tp=tp, dp=dp, etp=etp, sp=sp))


def _with_pp(config: ParallelConfig, pp: int, dp: int) -> ParallelConfig:
    """Return the setup with another pipeline, whose chunks keep their number of layers."""
    layout = config.layout
    virtual = 1
    if pp > 1:
        virtual = max(1, layout.virtual * layout.pp // pp)
    schedule = config.schedule
    if config.pipeline.from_layout:
        schedule = default_schedule(virtual)
    layout = layout._replace(pp=pp, dp=dp, virtual=virtual, stages=())
    return config._replace(layout=layout, schedule=schedule)
