"""Changes of a job: what would make its step shorter, or fit its device.

:func:`job_changes` yields those for a use; :mod:`proposals` prices them and keeps what gains. Each
function under ``@proposal`` yields some changes for a job as it is (:class:`Situation`), unpriced and
not yet checked; its name is the code of the proposal, its arguments what it is for ("time",
"memory") and ``parts`` of the step of which one has to be exposed. The functions stand in the order in which
changes are tried, those that cost least time first. Last in the file are the changes of sizes, with
what they share (:func:`_resized`), and those of calls that a job lists itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import sqrt
from operator import itemgetter
from typing import Any, NamedTuple, get_args

from colltool.base.formatting import format_bytes
from colltool.base.primitives import AG, AR, RS, ceil_div
from colltool.fabric.model import Fabric
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.compression import EXTRA_STEPS
from colltool.training.dispatchers import faster_dispatchers
from colltool.training.files import ContextMode, written
from colltool.training.files.job import ORDER, CallFile
from colltool.training.job import Job, PlainCall
from colltool.training.job_configuration import default_etp, shard_of
from colltool.training.layout_keys import changed_keys, possible_overlap
from colltool.training.memory import memory
from colltool.training.parallel_config import (
    Compression,
    ParallelConfig,
    ParallelLayout,
    with_values,
)
from colltool.training.registry import Use, members, proposal
from colltool.training.search_space import MIN_TOKENS, chunk_counts
from colltool.training.sentences import Remark, remark
from colltool.training.step_time import TrainingStep, step_time
from colltool.training.strategies import RECOMPUTATIONS, default_schedule

# share of the step: smaller gains are not listed, and shorter exposed parts not worked on
LEAST_GAIN = 1e-3
BUCKET_FACTOR = 4  # larger buckets have so many times the bytes of now, smaller ones one part in 4
SCALED_ELEMENTS = 128  # elements of a compressed gradient that share a scale
# dimensions of calls whose groups lie along another dimension of the layout
_AXIS_OF = {"vocab": "tp", "etp": "tp", "expert dp": "dp"}
# value of ``ParallelConfig.overlap`` that ``overlap.KEY: true`` of a job file means, where not True
_WAY_TO_HIDE = {"tp": "split", "ep": "batch"}
# dimensions whose calls sum gradients
_GRADIENTS = ("dp", "expert dp")
FULL_RECOMPUTATION = {"recompute": "full"}
# sizes of a layout that are doubled and halved, those that cost less time first
SIZES = ("tp", "pp", "cp", "ep")


class Change(NamedTuple):
    """A change of a job before it is priced."""

    label: Remark  # the change in words
    values: dict[str, str]  # keys and values as ``--job-set`` takes them
    setup: ParallelConfig  # the job with them
    plain: tuple[PlainCall, ...] | None = None  # the calls that the job lists; None: as they were


class Situation(NamedTuple):
    """A job as it is, for which changes are looked for.

    ``costs`` prices its collectives and ``now`` is its step; without them only changes for memory
    can be looked for, as the properties below need them.
    """

    job: Job
    config: ParallelConfig  # on its ranks
    costs: CollectiveCostCache | None = None
    now: TrainingStep | None = None
    plain: tuple[PlainCall, ...] = ()  # calls that the job lists

    @property
    def prices(self) -> CollectiveCostCache:
        """``costs`` of a situation that has them."""
        assert self.costs is not None
        return self.costs

    @property
    def fabric(self) -> Fabric:
        """The fabric that ``costs`` are of."""
        return self.prices.fabric

    @property
    def step(self) -> TrainingStep:
        """``now`` of a situation that has it."""
        assert self.now is not None
        return self.now

    @property
    def exposed_s(self) -> dict[str, float]:
        """Exposed seconds by part of the step."""
        return {part.name: part.exposed_s for part in self.step.parts}

    def waits_for(self, *parts: str) -> bool:
        """Whether the step waits for these parts, by their names in ``TrainingStep.parts``, long
        enough to gain from less of them."""
        exposed = self.exposed_s
        exposed_s = sum(exposed.get(part, 0.0) for part in parts)
        return exposed_s > LEAST_GAIN * self.step.step_s

    def change(
        self, label: Remark, values: Mapping[str, Any], setup: ParallelConfig | None = None
    ) -> Change:
        """Return a change of the job.

        Args:
            label: the change in words.
            values: values by key, such as ``layout.tp``, as :func:`with_values` takes them.
            setup: the job with the change, where that does not follow from the values alone.
        """
        texts = {key: _written(value) for key, value in values.items()}
        if setup is None:
            setup = with_values(self.config, values)
        return Change(label, texts, setup)


Changes = Iterator[Change]


def job_changes(current: Situation, use: Use) -> Changes:
    """Yield the changes of a job that are registered for a use; for time only those without parts of
    the step, or with one that the step waits for."""
    for member in members(use, "job", "calls"):
        # without a model there is no layout to change, only the calls that the job lists
        if member.of == "job" and current.config.model is None:
            continue
        if use != "time" or not member.parts or current.waits_for(*member.parts):
            yield from member.make(current)


def _written(value: Any) -> str:
    """Return a value as ``--job-set`` takes it.

    >>> _written(("tp", "dp")), _written(True)
    ('[tp,dp]', 'true')
    """
    if isinstance(value, tuple):
        return f"[{','.join(value)}]"
    return written(value)


@proposal("time", "memory", parts=_GRADIENTS)
def sharded_states(current: Situation) -> Changes:
    """Share only the optimizer's states between replicas, ZeRO-1."""
    shard = current.config.shard
    if current.config.gradient_ranks == 1 or shard.mode == "zero1":
        return
    setup = with_values(current.config, {"shard.mode": "zero1", "shard.group": 0})
    label = remark("sharded_states")
    # the job shards gradients or weights already, so that a rank needs more memory with ZeRO-1
    if shard.strategy.optimizer:
        code = "whole_weights" if shard.shards_weights else "whole_gradients"
        label = remark(code, memory=format_bytes(memory(setup).bytes, 3))
    values = {"shard.mode": "zero1"}
    # left in the file, the group of hsdp would be one of zero1
    if shard.group:
        values["shard.group"] = "null"
    yield current.change(label, values, setup)


@proposal("memory")
def single_sequences(current: Situation) -> Changes:
    """Take the smallest micro-batch."""
    if current.config.micro_batch > 1:
        yield current.change(remark("smaller_micro_batches"), {"batch.micro": 1})


@proposal("time", "memory")
def sequence_parallelism(current: Situation) -> Changes:
    """Split tokens outside tensor parallel regions as well, instead of copying them."""
    if _copies_tokens(current.config):
        yield current.change(remark("sequence_parallelism"), _split_tokens(current.config))


def _copies_tokens(config: ParallelConfig) -> bool:
    """Whether every rank of a tensor group keeps all tokens outside its regions."""
    return config.layout.tp > 1 and not config.layout.sp


def _split_tokens(config: ParallelConfig) -> dict[str, object]:
    """Return the values of sequence parallelism, by key."""
    values: dict[str, object] = {"layout.sp": True}
    # etp stays as it is; left out, it would follow from tp and sp
    if config.moe is not None:
        values["layout.etp"] = config.layout.etp
    return values


@proposal("time")
def less_recomputation(current: Situation) -> Changes:
    """Keep more activations, and recompute less."""
    recomputation = current.config.recomputation
    for name, row in RECOMPUTATIONS.items():
        # two booleans: nothing recomputed counts 0, attention's core 1, whole layers 2
        if row.whole and row.core + row.layers < recomputation.core + recomputation.layers:
            yield current.change(remark("recompute", recompute=name), {"recompute": name})


@proposal("memory")
def more_recomputation(current: Situation) -> Changes:
    """Recompute attention's scores, which flash attention does not keep anyway, or whole layers."""
    config = current.config
    selective = {"recompute": "selective"}
    label = remark("recompute", recompute="selective")
    if not config.recomputation.core and config.stack is not None and not config.stack.flash:
        yield current.change(label, selective)
        if _copies_tokens(config):
            yield current.change(label, _split_tokens(config) | selective)
    if not config.recomputation.layers:
        yield current.change(remark("recompute", recompute="full"), FULL_RECOMPUTATION)


@proposal("time", "memory", parts=_GRADIENTS)
def sharded_weights(current: Situation) -> Changes:
    """Shard weights as well, FSDP, with the defaults of a job file: in a pipeline weights are gathered
    once a step."""
    config = current.config
    if config.gradient_ranks > 1 and not config.shard.shards_weights:
        shard = config.shard._replace(mode="fsdp", reshard=True, gathers=2)
        if config.layout.pp > 1:
            shard = shard._replace(reshard=False, gathers=1)
        yield current.change(
            remark("sharded_weights"), {"shard.mode": "fsdp"}, config._replace(shard=shard)
        )


@proposal("time", parts=_GRADIENTS)
def shards_inside_a_tier(current: Situation) -> Changes:
    """Gather weights on a faster tier, and sum gradients of the copies across, HSDP."""
    shard = current.config.shard
    group = current.config.layout.group("cp", "dp")
    if current.config.layout.dp == 1 or not shard.shards_weights:
        return
    ranks_inside = 1  # of a domain of the tier; tiers stand innermost first
    for tier in current.fabric.tiers[:-1]:
        ranks_inside *= tier.endpoints
        shard_ranks = ranks_inside // group.stride
        if 1 < shard_ranks < group.ranks and shard_ranks != shard.group:
            yield current.change(
                remark("shards_inside_tier", tier=tier.name),
                {
                    "shard.mode": "hsdp",
                    "shard.group": shard_ranks,
                },
            )


@proposal("time")
def hidden_calls(current: Situation) -> Changes:
    """Hide calls: tensor parallel ones under GEMMs in pieces, sums of gradients under the backward
    pass, messages between stages and tokens of experts under other micro-batches, and the messages
    of ring attention under attention."""
    layout = current.config.layout
    overlap = current.config.overlap
    # by key of ``overlap``: whether its calls could hide, and do not yet
    possible = {
        "tp": layout.tp > 1 and layout.sp and overlap.tp != "split",
        "dp": not overlap.dp,
        "pp": not overlap.pp,
        "cp": not overlap.cp and layout.cp_mode == "ring",
        "ep": not overlap.ep and current.config.micro_batches > 1,
    }
    for key, may_hide in possible.items():
        parts = _GRADIENTS if key == "dp" else (key,)
        if may_hide and current.waits_for(*parts):
            # as of a job file that has the key: what is requested is refused where it cannot be
            setup = with_values(
                current.config,
                {
                    f"overlap.{key}": _WAY_TO_HIDE.get(key, True),
                    "overlap.requested": (*overlap.requested, key),
                },
            )
            yield current.change(remark(f"hide_{key}"), {f"overlap.{key}": True}, setup)


@proposal("time", parts=_GRADIENTS)
def other_buckets(current: Situation) -> Changes:
    """Larger buckets waste less time on latency; of smaller ones the last, which nothing hides, is
    shorter."""
    if current.config.shard.shards_weights:
        return
    once_a_step = [call.call for call in current.step.longest_tail.sent if call.call.per == "step"]
    largest = max((call.bytes for call in once_a_step if call.dimension == "dp"), default=0.0)
    buckets = (("larger", BUCKET_FACTOR * largest), ("smaller", largest / BUCKET_FACTOR))
    for word, bucket_bytes in buckets:
        if bucket_bytes:
            megabytes = float(f"{bucket_bytes / 1e6:.6g}")  # as it is printed
            setup = with_values(current.config, {"shard.bucket": megabytes * 1e6})
            values = {"shard.bucket": f"{megabytes:g}MB"}
            yield current.change(remark(f"{word}_buckets"), values, setup)


@proposal("time", parts=_GRADIENTS)
def gradients_in_16_bits(current: Situation) -> Changes:
    """Send half the bytes of gradients."""
    if current.config.shard.grad_bytes == 4:
        yield current.change(
            remark("gradients_in_16_bits"),
            {
                "shard.grad_bytes": 2,
                "precision.grads": "bf16",
            },
        )


@proposal("time", parts=_GRADIENTS)
def compressed_gradients(current: Situation) -> Changes:
    """Send a quarter of the bytes, for more steps to the same accuracy."""
    if current.config.compression is not None:
        return
    _, extra = EXTRA_STEPS["int8"]
    values = {
        "compression.scheme": "int8",
        "compression.block": SCALED_ELEMENTS,
        "compression.extra_steps": extra,
    }
    compression = Compression("dp", "int8", block=SCALED_ELEMENTS, extra_steps=extra)
    setup = current.config._replace(compression=compression)
    yield current.change(remark("gradients_in_int8", extra_steps=extra), values, setup)


@proposal("time")
def tensor_groups_inside_a_domain(current: Situation) -> Changes:
    """Keep tensor parallelism inside the innermost domain, with more replicas."""
    layout = current.config.layout
    domain = current.fabric.tiers[0]
    domains, left_over = divmod(layout.tp, domain.endpoints)
    if domains > 1 and not left_over and layout.order[0] == "tp":
        for change in _resized(current, "tp", domain.endpoints):
            yield change._replace(label=remark("tp_inside_tier", tier=domain.name))


@proposal("time")
def worst_dimension_further_in(current: Situation) -> Changes:
    """Order ranks so that the most exposed dimension has a shorter stride."""
    by_axis: dict[str, float] = defaultdict(float)
    for part, seconds in current.exposed_s.items():
        by_axis[_AXIS_OF.get(part, part)] += seconds
    worst = max(ORDER, key=lambda axis: by_axis[axis])
    if not current.waits_for(worst):
        return
    layout = current.config.layout
    group = layout.group(worst, experts=worst == "ep")
    for order in _orders_with(worst, layout.order):
        moved = layout._replace(order=order).group(worst, experts=worst == "ep")
        if moved.stride < group.stride:
            yield current.change(remark("further_in", dimension=worst), {"layout.order": order})


def _orders_with(axis: str, order: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return other orders of ranks: with an axis innermost, with it in the second place, and the
    usual one.

    >>> _orders_with("dp", ("tp", "cp", "ep", "dp", "pp"))
    [('dp', 'tp', 'cp', 'ep', 'pp'), ('tp', 'dp', 'cp', 'ep', 'pp')]
    """
    others = [name for name in order if name != axis]
    orders = {(axis, *others), ORDER}
    if order[0] != axis:
        orders.add((others[0], axis, *others[1:]))
    return sorted(orders - {order})


@proposal("time", parts=("ep",))
def experts_inside_a_domain(current: Situation) -> Changes:
    """Keep all-to-alls of experts inside the innermost domain, with fewer ranks each."""
    layout = current.config.layout
    moe = current.config.moe
    domain = current.fabric.tiers[0]
    if moe is None or layout.ep == 1:
        return
    ranks = domain.endpoints // layout.group("ep", experts=True).stride
    if 1 < ranks < layout.ep and moe.experts % ranks == 0:
        yield current.change(remark("experts_inside_tier", tier=domain.name), {"layout.ep": ranks})


@proposal("time", parts=("ep",))
def other_dispatchers(current: Situation) -> Changes:
    """Send tokens by another library, where its price is lower by more than the error."""
    config = current.config
    if config.layout.deduplicate:
        return
    # the first backward dispatch stands for all exchanges, which change together
    for call in current.step.slowest.sent:
        if call.call.dimension == "ep" and call.call.phase == "backward":
            # a dispatcher's price is that of even routing
            skewless = call.cost.scaled(1 / call.call.skew)
            for faster in faster_dispatchers(config, current.fabric, skewless, call.call.bytes):
                yield current.change(
                    remark("dispatcher", dispatcher=faster.spoken),
                    {"layout.dispatcher": faster.name},
                )
            return


@proposal("time", parts=("cp",))
def other_context_parallelism(current: Situation) -> Changes:
    """Take another mode of context parallelism."""
    layout = current.config.layout
    for mode in get_args(ContextMode):
        if layout.cp > 1 and mode != layout.cp_mode:
            yield current.change(remark("context_mode", mode=mode), {"layout.cp_mode": mode})


@proposal("time", parts=("bubble",))
def more_chunks(current: Situation) -> Changes:
    """Take the next number of chunks that a search tries."""
    layout = current.config.layout
    model = current.config.model
    if model is None or layout.pp == 1 or layout.stages or not current.config.pipeline.is_default:
        return
    for chunks in chunk_counts(model.layers, layout.pp):
        if chunks > layout.virtual:
            yield current.change(
                remark("more_chunks", chunks=chunks),
                {
                    "layout.virtual": chunks,
                    "schedule": "interleaved",
                },
            )
            return


@proposal("time", parts=("bubble",))
def weight_gradients_in_the_bubble(current: Situation) -> Changes:
    """Compute weight gradients in the bubble of the pipeline."""
    layout = current.config.layout
    # the schedule that does; None where there is none
    split = current.config.pipeline.split_schedule
    if layout.pp > 1 and layout.virtual == 1 and not layout.stages and split:
        yield current.change(
            remark("split_weight_gradients", schedule=split.upper()), {"schedule": split}
        )


@proposal("memory")
def larger_replicas(current: Situation) -> Changes:
    """Wider groups and deeper pipelines, on as many ranks."""
    for factor in (2, 4, 8):
        for dimension in SIZES:
            size = factor * getattr(current.config.layout, dimension)
            yield from _resized(current, dimension, size, sp=True)


@proposal("time")
def other_layouts(current: Situation) -> Changes:
    """Twice and half of each size, on as many ranks, of a job whose compute follows from its shape:
    the nearest that a search tries."""
    if current.config.shape is None or current.config.compute is not None:
        return
    for dimension in SIZES:
        for size in _twice_and_half(getattr(current.config.layout, dimension)):
            yield from _resized(current, dimension, size)


@proposal("time")
def other_micro_batch(current: Situation) -> Changes:
    """Twice the micro-batch gathers and waits less often; half of it shortens a pipeline's bubble."""
    config = current.config
    # times of a layer are given for this micro-batch
    if config.compute is not None and config.compute.per_layer:
        return
    for size in _twice_and_half(config.micro_batch):
        if config.global_batch % (size * config.layout.dp) == 0:
            label = remark("larger_micro_batches")
            if size < config.micro_batch:
                label = remark("smaller_micro_batches")
            yield current.change(label, {"batch.micro": size})


def _twice_and_half(size: int) -> list[int]:
    """Return twice a size, and half of it where that is whole."""
    if size % 2:
        return [2 * size]
    return [2 * size, size // 2]


def _resized(current: Situation, dimension: str, size: int, *, sp: bool | None = None) -> Changes:
    """Yield the job with another size of a dimension, if that fills the ranks; dp follows.

    Nothing for experts without experts, nor for context groups whose ranks would have too few tokens.
    A default etp stays the default one, and chunks keep their number of layers. With another tp
    sequence parallelism is as before, or as ``sp`` says.
    """
    job = current.job
    config = current.config
    if dimension == "ep" and config.moe is None:
        return
    if dimension == "cp" and size > max(1, config.sequence // MIN_TOKENS):
        return
    layout = with_values(config, {f"layout.{dimension}": size}).layout
    dp, left_over = divmod(config.layout.ranks, layout.tp * layout.cp * layout.pp)
    if left_over:
        return
    layout = layout._replace(dp=dp)
    schedule = config.schedule
    if dimension == "tp":
        layout = _with_tensor_groups(config, layout, sp)
    if dimension == "pp":
        layout = _with_chunks(config.layout, layout)
        if config.pipeline.is_default:
            schedule = default_schedule(layout.virtual)
    shard = shard_of(job.file.shard, layout, config.precision.grads)
    setup = config._replace(layout=layout, schedule=schedule, shard=shard)
    setup = setup._replace(overlap=possible_overlap(job.file.overlap, setup)[0])
    label = remark("other_size", dimension=dimension.upper(), size=size)
    if size == 1:
        label = remark("no_size", dimension=dimension.upper())
    yield current.change(label, dict(changed_keys(job, setup)), setup)


def _with_tensor_groups(
    config: ParallelConfig, layout: ParallelLayout, sp: bool | None
) -> ParallelLayout:
    """Return a ``layout`` that has another tp already, with the sp and etp that go with it.

    ``sp`` None: on where it was, or where there was no tensor parallelism.
    """
    before = config.layout
    if sp is None:
        sp = layout.tp > 1 and (before.sp or before.tp == 1)
    etp = min(before.etp, layout.tp)
    if before.etp == default_etp(before.tp, sp=before.sp, experts=config.moe):
        etp = default_etp(layout.tp, sp=sp, experts=config.moe)
    return layout._replace(etp=etp, sp=sp)


def _with_chunks(before: ParallelLayout, layout: ParallelLayout) -> ParallelLayout:
    """Return a ``layout`` that has another pp already, in chunks with as many layers as before."""
    virtual = 1
    if layout.pp > 1:
        virtual = max(1, before.virtual * before.pp // layout.pp)
    return layout._replace(virtual=virtual, stages=())


@proposal("time", of="calls")
def other_call_buckets(current: Situation) -> Changes:
    """Take for each listed call of dp the buckets with which the step is shortest."""
    for index, listed in enumerate(current.job.file.calls):
        priced = []  # (seconds of the step, change)
        for change in _rebucketed(index, listed, current):
            if current.job.accepts(change.values):
                plain = current.job.with_values(change.values).plain_calls(current.config)
                step_s = step_time(current.config, current.prices, plain).step_s
                priced.append((step_s, change._replace(plain=plain)))
        if priced:
            _, shortest = min(priced, key=itemgetter(0))
            yield shortest


def _rebucketed(index: int, listed: CallFile, current: Situation) -> Changes:
    """Yield the job's ``index``-th listed call in buckets that may take less; none of calls whose
    time is given, or that are no gradients or weights.

    Where nothing hides, one bucket of all M bytes is best. Under compute K buckets expose K latencies
    L and the last bucket, B/K of the bandwidth part B of M: least where K = sqrt(B / L), if that is
    more than one.
    """
    gradients_or_weights = listed.group == "dp" and listed.primitive in (AR, RS, AG)
    if listed.time is not None or not gradients_or_weights:
        return
    all_bytes = listed.count * listed.size
    yield _in_buckets(current, index, listed, all_bytes)
    group = current.config.layout.group("dp")
    cost = current.prices.of(listed.primitive, group, all_bytes, "dp")
    latency_s = cost.latency_s + 2 * current.config.overlap.overhead_s
    if 0 < latency_s < cost.bandwidth_s:
        share = sqrt(latency_s / cost.bandwidth_s)
        yield _in_buckets(current, index, listed, share * all_bytes)


def _in_buckets(current: Situation, index: int, listed: CallFile, bucket_bytes: float) -> Change:
    """Return the change of a listed call to buckets of about so many bytes: whole tensors, or equal
    parts of each."""
    key = f"calls.{index}"
    primitive = listed.primitive.label
    parts = round(listed.size / bucket_bytes)
    if parts > 1:
        label = remark("split_calls", primitive=primitive, calls=parts)
        size = _megabytes(listed.size / parts)
        values = {f"{key}.size": size, f"{key}.count": str(listed.count * parts)}
        if listed.bucket is not None:
            values[f"{key}.bucket"] = "null"
    else:
        tensors = max(1, round(bucket_bytes / listed.size))
        calls = ceil_div(listed.count, tensors)
        label = remark("fused_calls", count=listed.count, primitive=primitive, calls=calls)
        values = {f"{key}.bucket": _megabytes(tensors * listed.size)}
    return current.change(label, values, current.config)


def _megabytes(size: float) -> str:
    """Return bytes as a job file takes them, to the byte.

    >>> _megabytes(2_500_000)
    '2.5MB'
    """
    megabytes = size / 1e6
    return f"{megabytes:.12g}MB"
