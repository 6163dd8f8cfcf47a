"""What does not fit together in a job, each violation at its key path with a fix.

:func:`constraint_violations` checks job files and every candidate of a search. It runs a generator
for each part of the job, which yields nothing where all is well: first what holds for any job, then
what needs a model, then what needs its shape. "Check" in their docstrings means to yield a
:class:`Violation` where it is not so. Overlap that fits together but hides nothing is in
:mod:`colltool.training.overlap_violations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from colltool.base.errors import ColltoolError
from colltool.definitions.source import KeyPath
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import ParallelConfig, ParallelLayout, split_group, strides
from colltool.training.pipeline_stages import ends_as_layers, layers_of_stages
from colltool.training.violation import Violation

_MAX_LISTED = 12  # divisors that a fix lists
_MAX_DIVISOR = 100_000  # up to which divisors are looked for: more ranks than any dimension has


def constraint_violations(config: ParallelConfig) -> list[Violation]:
    """Return what does not fit together; empty where all does. Checks that need dp are skipped while
    ``layout.dp`` is 0, not known yet."""
    model = config.model
    shape = config.shape
    violations = [
        *_device_violations(config),
        *_schedule_violations(config),
        *_shard_violations(config),
        *_training_violations(config, shape),
    ]
    if model is None:
        return violations
    violations += _stage_violations(config, model)
    violations += _batch_violations(config)
    if shape is None:
        violations += _missing_shape_violations(config, model)
        return violations
    violations += _mixer_violations(config, shape)
    violations += _tensor_violations(config, shape)
    violations += _context_violations(config, shape)
    violations += _expert_violations(config, shape)
    return violations


def _device_violations(config: ParallelConfig) -> Iterator[Violation]:
    """Check that the device and the stack have figures for the precision, unless the job gives the
    times of compute."""
    device = config.device
    stack = config.stack
    precision = config.precision.compute
    if device is None or stack is None or config.compute is not None:
        return
    path: KeyPath = ("precision", "compute")  # at fault where the next look-up fails
    try:
        device.peak_flops(precision)
        path = ("stack",)
        stack.gemm_share(precision, device.generation)
        stack.attention_share(device.generation)
    except ColltoolError as error:
        yield Violation(path, error.what, error.fix)


def divisors_text(number: int) -> str:
    """Return the first divisors of a number as text, with ", ..." where there are more.

    >>> divisors_text(12)
    '1, 2, 3, 4, 6, 12'
    """
    sizes = range(1, min(number, _MAX_DIVISOR) + 1)
    divisors = [str(size) for size in sizes if number % size == 0]
    more = ", ..." if len(divisors) > _MAX_LISTED else ""
    return ", ".join(divisors[:_MAX_LISTED]) + more


def _divisor_violation(path: KeyPath, size: int, whole: int, what: str) -> Iterator[Violation]:
    """Check that the size at a key divides ``whole``, which errors call ``what``."""
    if whole % size:
        yield Violation(
            path,
            f"{path[-1]} {size} does not divide {what} {whole}",
            f"what divides it: {divisors_text(whole)}",
        )


# what each dimension of a layout needs to know of a model's shape, in the words of errors
_NEEDS_OF_SHAPE = {
    "tp": "the size of activations",
    "cp": "heads",
    "ep": "experts",
    "pp": "the size of activations",
}


def _missing_shape_violations(
    config: ParallelConfig, model: TransformerModel
) -> Iterator[Violation]:
    """Check that a job whose model has a size only needs no more of it: no dimension of
    :data:`_NEEDS_OF_SHAPE`, and given times of compute."""
    for name, needed in _NEEDS_OF_SHAPE.items():
        size = getattr(config.layout, name)
        if size > 1:
            yield Violation(
                ("layout", name),
                f"{name} {size} needs {needed}, and {model.name} has no shape",
                "give hidden, heads, ffn, vocab of the model; or a shipped model",
            )
    yield from _etp_without_experts(config.layout.etp)
    if config.compute is None:
        yield Violation(
            ("model",),
            f"{model.name} has no shape: the compute of a layer is unknown",
            "compute: {forward_per_layer: 7ms, backward_per_layer: 15ms}, or hidden, heads, ffn,"
            " vocab of the model",
        )


def _etp_without_experts(etp: int) -> Iterator[Violation]:
    """Check that etp is 1, in a model without experts."""
    if etp > 1:
        yield Violation(
            ("layout", "etp"),
            f"etp {etp}, and the model has no experts",
            "leave etp out, or a model with moe",
        )


def _mixer_violations(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    """Check that a job has neither context parallelism nor adapters, unless all layers of its model
    have the same attention: both are modelled for that alone."""
    # empty where all layers have the same attention
    if not shape.mixers:
        return
    unlike_attention = shape.mixers[-1].description.what
    if config.layout.cp > 1:
        yield Violation(
            ("layout", "cp"),
            f"context parallelism of {unlike_attention} is not modelled",
            "cp: 1",
        )
    if config.lora:
        yield Violation(
            ("lora",), f"adapters of {unlike_attention} are not modelled", "leave lora out"
        )


def _tensor_violations(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    """Check that tensor parallelism divides the sizes of the model that it cuts, and the sequence
    where it cuts that; only the first that it does not divide is named."""
    layout = config.layout
    path = ("layout", "tp")
    kv = shape.kv_heads
    for size, what in (
        (shape.heads, "heads"),
        (shape.hidden, "hidden size"),
        (shape.ffn, "ffn width"),
    ):
        if size % layout.tp:
            yield from _divisor_violation(path, layout.tp, size, what)
            return
    # latent attention has no kv heads
    if shape.mla is None and kv % layout.tp and layout.tp % kv:
        yield Violation(
            path,
            f"tp {layout.tp} neither divides {kv} kv heads nor is a multiple of them",
            f"tp: {divisors_text(kv)}",
        )
    parts = layout.tp * layout.cp
    if layout.sp and config.sequence % parts:
        yield Violation(
            ("sequence",),
            f"a sequence of {config.sequence} is not cut in tp x cp = {parts} equal parts",
            "a multiple of tp x cp, or sp: false",
        )


def _context_violations(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    """Check that context parallelism divides the sequence, Ulysses also the heads."""
    layout = config.layout
    path = ("layout", "cp")
    if layout.cp == 1:
        return
    if shape.window and shape.windowed and shape.window < config.sequence:
        yield Violation(
            path,
            f"cp {layout.cp} over a sequence of {config.sequence} with windows of {shape.window} is"
            " not modelled",
            f"cp: 1, or a sequence of at most {shape.window}",
        )
    # a rank of a ring has two parts, so that the work of a causal mask is even
    parts = 2 * layout.cp if layout.cp_mode == "ring" else layout.cp
    if config.sequence % parts:
        what = (
            f"cp {layout.cp} ({layout.cp_mode}) cuts a sequence in {parts} parts, and"
            f" {config.sequence} is no multiple"
        )
        longer = parts * (config.sequence // parts + 1)
        yield Violation(path, what, f"a sequence of {longer}, or another cp")
    kv_heads = max(1, shape.kv_heads // layout.tp)  # of a rank
    if layout.cp_mode == "ulysses" and kv_heads % layout.cp:
        yield Violation(
            path,
            f"ulysses splits heads, and cp {layout.cp} does not divide the {kv_heads} kv heads of"
            " a rank",
            f"cp: {divisors_text(kv_heads)}, or cp_mode: ring",
        )


def _expert_violations(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    """Check that ep and etp divide the experts, that experts tile the ranks of a stage, and that
    their stages are those of attention."""
    layout = config.layout
    moe = shape.moe
    path = ("layout", "ep")
    if moe is None:
        if layout.ep > 1:
            yield Violation(
                path, f"ep {layout.ep}, and the model has no experts", "ep: 1, or a model with moe"
            )
        yield from _etp_without_experts(layout.etp)
        return
    yield from _divisor_violation(path, layout.ep, moe.experts, "the number of experts")
    yield from _divisor_violation(("layout", "etp"), layout.etp, moe.ffn, "the width of an expert")
    if layout.tp > 1 and not layout.sp and layout.etp != layout.tp:
        yield Violation(
            ("layout", "sp"),
            f"without sp all {layout.tp} ranks of a tensor group have the same tokens, so etp must"
            f" be tp; it is {layout.etp}",
            f"sp: true, or etp: {layout.tp}",
        )
    stage_ranks = layout.tp * layout.cp * layout.dp  # 0 while dp is not known: anything divides it
    width = layout.ep * layout.etp
    if stage_ranks % width:
        what = (
            f"ep x etp = {width} does not divide the {stage_ranks} ranks of a stage (tp x cp x dp)"
        )
        # each ep that divides both the experts and the ranks over etp
        common = gcd(moe.experts, stage_ranks // layout.etp)
        fits = [str(ep) for ep in range(1, moe.experts + 1) if common % ep == 0]
        yield Violation(path, what, f"ep: {', '.join(fits)}")
    elif layout.dp and layout.pp > 1:
        stage_stride = strides(layout.sizes(), layout.order)["pp"]
        if stage_stride != strides(layout.sizes(experts=True), layout.order)["pp"]:
            yield Violation(
                ("layout", "order"),
                "attention and experts would have different stages: pp is inside ep or dp",
                "put pp last: [tp, cp, ep, dp, pp]",
            )


def _stage_violations(config: ParallelConfig, model: TransformerModel) -> Iterator[Violation]:
    """Check that the stages have all layers of the model, and each chunk a layer, the embedding or
    the head."""
    layout = config.layout
    if layout.stages:
        yield from _listed_stage_violations(layout, model)
    # where embedding and head count as layers, the stages come out even by definition
    elif ends_as_layers(config):
        return
    elif model.layers < layout.pp:
        yield Violation(
            ("layout", "pp"),
            f"pipeline {layout.pp} is longer than the model's {model.layers} layers",
            f"pp: at most {model.layers}",
        )
    else:
        fewest = min(layers_of_stages(model.layers, layout.pp, folded=config.folded))
        # uneven stages: the embedding or the head may be a chunk of the shorter ones
        most = fewest + (model.layers % layout.pp > 0)
        if layout.virtual > most:
            yield Violation(
                ("layout", "virtual"),
                f"virtual {layout.virtual}, and a stage has {fewest} layers",
                f"virtual: at most {most}; or list the layers of each stage: layout.stages",
            )


def _listed_stage_violations(
    layout: ParallelLayout, model: TransformerModel
) -> Iterator[Violation]:
    """The same for stages whose layers a job lists itself."""
    stages = layout.stages
    fewest = min(layout.stages)
    if len(stages) != layout.pp or sum(stages) != model.layers:
        yield Violation(
            ("layout", "stages"),
            f"{len(stages)} stages of {sum(stages)} layers, and pp is {layout.pp}, the model"
            f" {model.layers}",
            f"{layout.pp} numbers that sum to {model.layers}",
        )
    elif fewest < layout.virtual - 1:  # the embedding or the head may take the place of a layer
        yield Violation(
            ("layout", "virtual"),
            f"virtual {layout.virtual}, and a stage has {fewest} layers",
            f"virtual: at most {fewest + 1}",
        )


def _batch_violations(config: ParallelConfig) -> Iterator[Violation]:
    """Check that replicas have whole micro-batches, as many as the schedule needs."""
    dp = config.layout.dp
    sequences = config.micro_batch * (dp or 1)  # of one micro-batch on all replicas
    if config.global_batch % sequences:
        product = f"micro {config.micro_batch}"
        if dp:
            product += f" x dp {dp}"
        nearest = sequences * max(1, round(config.global_batch / sequences))
        yield Violation(
            ("batch", "global"),
            f"{config.global_batch} sequences are not a multiple of {product} = {sequences}",
            f"global: {nearest}, or another micro or dp",
        )
    elif dp:
        yield from config.pipeline.requires_batch(config)


def _training_violations(config: ParallelConfig, shape: Shape | None) -> Iterator[Violation]:
    """Check that the device gives the rate to its host's memory for offload, and that the model has
    a shape for LoRA and Muon."""
    device = config.device
    for key, share in config.offload._asdict().items():
        if share and device is not None and not device.host_Bps:
            yield Violation(
                ("offload", key),
                f"{device.name} gives no rate to the memory of its host",
                "device: {..., host: 55GB/s}, or leave offload out",
            )
    by_matrix = (("lora", config.lora), ("optimizer", config.optimizer_row.orthogonal))
    for key, is_used in by_matrix:
        if is_used and shape is None:
            yield Violation(
                (key,),
                "the model has no shape: its matrices are not known",
                "give hidden, heads, ffn and vocab",
            )


def _shard_violations(config: ParallelConfig) -> Iterator[Violation]:
    """Check that groups that share states tile the ranks with the same weight."""
    layout = config.layout
    shard = config.shard
    if layout.cp > 1 and layout.pp > 1:
        # where the two stand in the order of ranks, the one further in first
        first, last = sorted(map(layout.order.index, ("cp", "dp")))
        if "pp" in layout.order[first:last]:
            yield Violation(
                ("layout", "order"),
                "gradients are summed over cp and dp, but pp is between them",
                "put pp last: [tp, cp, ep, dp, pp]",
            )
    if not shard.group or not layout.dp:
        return
    groups = [layout.group("cp", "dp")]
    # replicas of an expert, unless experts do not tile a stage, which is refused elsewhere
    if config.moe and not layout.tp * layout.cp * layout.dp % (layout.ep * layout.etp):
        groups.append(layout.group("dp", experts=True))
    for group in groups:
        try:
            split_group(group, shard.group)
        except ValueError:
            yield Violation(
                ("shard", "group"),
                f"shard groups of {shard.group} do not tile the {group.ranks} ranks that share a"
                " weight",
                f"what does: {divisors_text(group.ranks)}",
            )


def _schedule_violations(config: ParallelConfig) -> Iterator[Violation]:
    """Check that tokens of tp and ep have something to hide under, and that the layout fits the
    schedule."""
    layout = config.layout
    overlap = config.overlap
    schedule = config.pipeline
    overlap_ep = ("overlap", "ep")
    if "tp" in overlap.requested and overlap.tp == "split" and not (layout.sp and layout.tp > 1):
        yield Violation(
            ("overlap", "tp"),
            "hiding TP under split GEMMs needs sequence parallelism",
            "sp: true with tp of at least 2, or overlap.tp: false",
        )
    if overlap.ep == "shared" and not (config.moe and config.moe.shared_ffn):
        yield Violation(
            overlap_ep,
            "the model has no shared expert to hide under",
            "ep: true (another batch), or false",
        )
    if overlap.ep and layout.ep == 1:
        yield Violation(
            overlap_ep,
            "ep is 1: there is nothing to hide",
            "ep: false, or layout.ep of at least 2",
        )
    if schedule.hides_experts and layout.ep > 1 and not overlap.ep:
        yield Violation(
            overlap_ep,
            f"{config.schedule} hides the all-to-alls under the other batch, and overlap.ep is"
            " false",
            "ep: true, or another schedule",
        )
    is_folded = schedule.folded and layout.virtual == 2
    if layout.virtual > 1 and not schedule.interleaved and not is_folded:
        yield Violation(
            ("layout", "virtual"),
            f"virtual {layout.virtual}, and {config.schedule} runs one chunk per stage",
            "schedule: interleaved, or virtual: 1",
        )
    yield from schedule.requires(config)
