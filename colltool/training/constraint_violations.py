"""What does not fit together in a job, each violation at its key path with a fix.

:func:`constraint_violations` checks job files and every candidate of a search, a generator for each
part of the job. :func:`invalid_overlaps` finds overlap that a job asks for where nothing can hide.
It checks files only, and only what a file says itself: a default hides what there is, and the
layouts of search candidates differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from colltool.base.errors import ColltoolError
from colltool.definitions.source import KeyPath
from colltool.training.calls import stage_calls
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import ParallelConfig, ParallelLayout, split_group, strides
from colltool.training.pipeline_stages import ends_as_layers, layers_of_stages, pipeline_stages
from colltool.training.violation import Violation

_MAX_LISTED = 12  # divisors that a fix lists


def constraint_violations(config: ParallelConfig) -> list[Violation]:
    """Return what does not fit together; checks that need dp are skipped while ``layout.dp`` is 0,
    not known yet."""
    model = config.model
    shape = config.shape
    found = [
        *_device_and_stack(config),
        *_overlap_and_schedule(config),
        *_shards(config),
        *_offload_and_training(config, shape),
    ]
    if model is None:
        return found
    found += _stages(config, model)
    found += _batch(config)
    if shape is None:
        found += _missing_shape(config, model)
        return found
    found += _mixers(config, shape)
    found += _tensor(config, shape)
    found += _context(config, shape)
    found += _experts(config, shape)
    return found


def _device_and_stack(config: ParallelConfig) -> Iterator[Violation]:
    """Check that the device and the stack have figures for the precision."""
    device = config.device
    stack = config.stack
    precision = config.precision.compute
    if device is None or stack is None or config.compute is not None:
        return
    path: KeyPath = ("precision", "compute")
    try:
        device.peak_flops(precision)
        path = ("stack",)
        stack.gemm_share(precision, device.generation)
        stack.attention_share(device.generation)
    except ColltoolError as error:
        yield Violation(path, error.what, error.fix)


def divisors_text(number: int) -> str:
    """Return the first divisors of a number as text, such as ``1, 2, 4``."""
    found = [str(size) for size in range(1, min(number, 100_000) + 1) if number % size == 0]
    more = ", ..." if len(found) > _MAX_LISTED else ""
    return ", ".join(found[:_MAX_LISTED]) + more


def _not_a_divisor(path: KeyPath, size: int, whole: int, what: str) -> Iterator[Violation]:
    if whole % size:
        yield Violation(
            path,
            f"{path[-1]} {size} does not divide {what} {whole}",
            f"what divides it: {divisors_text(whole)}",
        )


# what each dimension needs to know of a model's shape
NEEDS_OF_SHAPE = {
    "tp": "the size of activations",
    "cp": "heads",
    "ep": "experts",
    "pp": "the size of activations",
}


def _missing_shape(config: ParallelConfig, model: TransformerModel) -> Iterator[Violation]:
    """Refuse what a job cannot do with a model of which only the size is known."""
    for name, needed in NEEDS_OF_SHAPE.items():
        size = getattr(config.layout, name)
        if size > 1:
            yield Violation(
                ("layout", name),
                f"{name} {size} needs {needed}, and {model.name} has no shape",
                "give hidden, heads, ffn, vocab of the model; or a shipped model",
            )
    yield from _no_experts(config.layout.etp)
    if config.compute is None:
        yield Violation(
            ("model",),
            f"{model.name} has no shape: the compute of a layer is unknown",
            "compute: {forward_per_layer: 7ms, backward_per_layer: 15ms}, or hidden, heads, ffn,"
            " vocab of the model",
        )


def _no_experts(etp: int) -> Iterator[Violation]:
    if etp > 1:
        yield Violation(
            ("layout", "etp"),
            f"etp {etp}, and the model has no experts",
            "leave etp out, or a model with moe",
        )


def _mixers(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    """Refuse what is modelled only of models with the same attention in every layer."""
    if not shape.mixers:
        return
    other = shape.mixers[-1].description.what
    if config.layout.cp > 1:
        yield Violation(
            path=("layout", "cp"),
            what=f"context parallelism of {other} is not modelled",
            fix="cp: 1",
        )
    if config.lora:
        yield Violation(
            path=("lora",),
            what=f"adapters of {other} are not modelled",
            fix="leave lora out",
        )


def _tensor(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    """Check that tensor parallelism divides every size of the model."""
    layout = config.layout
    path = ("layout", "tp")
    kv = shape.kv_heads
    for size, what in (
        (shape.heads, "heads"),
        (shape.hidden, "hidden size"),
        (shape.ffn, "ffn width"),
    ):
        if size % layout.tp:
            yield from _not_a_divisor(path, layout.tp, size, what)
            return
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


def _context(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
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
    heads = max(1, shape.kv_heads // layout.tp)
    if layout.cp_mode == "ulysses" and heads % layout.cp:
        yield Violation(
            path,
            f"ulysses splits heads, and cp {layout.cp} does not divide the {heads} kv heads of"
            " a rank",
            f"cp: {divisors_text(heads)}, or cp_mode: ring",
        )


def _experts(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    """Check that experts tile the ranks of a stage, and that their stages are those of attention."""
    layout = config.layout
    moe = shape.moe
    path = ("layout", "ep")
    if moe is None:
        if layout.ep > 1:
            yield Violation(
                path, f"ep {layout.ep}, and the model has no experts", "ep: 1, or a model with moe"
            )
        yield from _no_experts(layout.etp)
        return
    yield from _not_a_divisor(path, layout.ep, moe.experts, "the number of experts")
    yield from _not_a_divisor(("layout", "etp"), layout.etp, moe.ffn, "the width of an expert")
    if layout.tp > 1 and not layout.sp and layout.etp != layout.tp:
        yield Violation(
            ("layout", "sp"),
            f"without sp all {layout.tp} ranks of a tensor group have the same tokens, so etp must"
            f" be tp; it is {layout.etp}",
            f"sp: true, or etp: {layout.tp}",
        )
    inside = layout.tp * layout.cp * layout.dp  # 0 without dp
    width = layout.ep * layout.etp
    if inside % width:
        what = f"ep x etp = {width} does not divide the {inside} ranks of a stage (tp x cp x dp)"
        # what divides both the experts and the ranks
        common = gcd(moe.experts, inside // layout.etp)
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


def _stages(config: ParallelConfig, model: TransformerModel) -> Iterator[Violation]:
    """Check that stages have all layers of the model, and a layer for each chunk."""
    layout = config.layout
    if layout.stages:
        yield from _listed_stages(layout, model)
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
        most = fewest + (model.layers % layout.pp > 0)
        if layout.virtual > most:
            yield Violation(
                ("layout", "virtual"),
                f"virtual {layout.virtual}, and a stage has {fewest} layers",
                f"virtual: at most {most}; or list the layers of each stage: layout.stages",
            )


def _listed_stages(layout: ParallelLayout, model: TransformerModel) -> Iterator[Violation]:
    """Check the layers of stages that a job lists itself."""
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


def _batch(config: ParallelConfig) -> Iterator[Violation]:
    """Check that replicas have whole micro-batches, as many as the schedule needs."""
    dp = config.layout.dp
    part = config.micro_batch * (dp or 1)
    if config.global_batch % part:
        product = f"micro {config.micro_batch}"
        if dp:
            product += f" x dp {dp}"
        # the nearest number of sequences that is a multiple
        nearest = part * max(1, round(config.global_batch / part))
        yield Violation(
            ("batch", "global"),
            f"{config.global_batch} sequences are not a multiple of {product} = {part}",
            f"global: {nearest}, or another micro or dp",
        )
    elif dp:
        yield from config.pipeline.requires_batch(config)


def _offload_and_training(config: ParallelConfig, shape: Shape | None) -> Iterator[Violation]:
    """Check that the host's memory has a rate for offload, and a model a shape for LoRA and Muon."""
    device = config.device
    for key, share in config.offload._asdict().items():
        if share and device is not None and not device.host_Bps:
            yield Violation(
                ("offload", key),
                f"{device.name} gives no rate to the memory of its host",
                "device: {..., host: 55GB/s}, or leave offload out",
            )
    for key, asked in (("lora", config.lora), ("optimizer", config.optimizer_row.orthogonal)):
        if asked and shape is None:
            yield Violation(
                (key,),
                "the model has no shape: its matrices are not known",
                "give hidden, heads, ffn and vocab",
            )


def _shards(config: ParallelConfig) -> Iterator[Violation]:
    """Check that groups that share states tile the ranks with the same weight."""
    layout = config.layout
    shard = config.shard
    if layout.cp > 1 and layout.pp > 1:
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


def _overlap_and_schedule(config: ParallelConfig) -> Iterator[Violation]:
    """Check that calls have something to hide under, and that the layout fits the schedule."""
    layout = config.layout
    overlap = config.overlap
    row = config.pipeline
    experts = ("overlap", "ep")
    if "tp" in overlap.asked and overlap.tp == "split" and not (layout.sp and layout.tp > 1):
        yield Violation(
            ("overlap", "tp"),
            "hiding TP under split GEMMs needs sequence parallelism",
            "sp: true with tp of at least 2, or overlap.tp: false",
        )
    if overlap.ep == "shared" and not (config.moe and config.moe.shared_ffn):
        yield Violation(
            experts,
            "the model has no shared expert to hide under",
            "ep: true (another batch), or false",
        )
    if overlap.ep and layout.ep == 1:
        yield Violation(
            experts, "ep is 1: there is nothing to hide", "ep: false, or layout.ep of at least 2"
        )
    if row.hides_experts and layout.ep > 1 and not overlap.ep:
        yield Violation(
            experts,
            f"{config.schedule} hides the all-to-alls under the other batch, and overlap.ep is"
            " false",
            "ep: true, or another schedule",
        )
    folded = row.folded and layout.virtual == 2
    if layout.virtual > 1 and not row.interleaved and not folded:
        yield Violation(
            ("layout", "virtual"),
            f"virtual {layout.virtual}, and {config.schedule} runs one chunk per stage",
            "schedule: interleaved, or virtual: 1",
        )
    yield from row.requires(config)


def invalid_overlaps(config: ParallelConfig) -> list[Violation]:
    """Return overlap that a job asks for in vain; checks that need dp are skipped while
    ``layout.dp`` is 0, not known yet."""
    if config.model is None:  # plain calls name their groups themselves
        return []
    found = [*_nothing_to_hide(config), *_given_times_have_no_parts(config)]
    if found or not config.layout.dp or "sm_share" not in config.overlap.asked:
        return found
    for stage in pipeline_stages(config):
        for call in stage_calls(config, stage):
            # messages of a pipeline are sent without multiprocessors
            if call.hides not in ("nothing", "steady pipeline"):
                return []
    what = "sm_share slows compute down while communication overlaps it, and none does here"
    fix = "leave sm_share out, or let something hide"
    return [Violation(("overlap", "sm_share"), what, fix)]


def _nothing_to_hide(config: ParallelConfig) -> Iterator[Violation]:
    """Refuse overlap and compression of calls that a layout does not send."""
    layout = config.layout
    asked = config.overlap.asked
    one_replica = layout.dp and config.gradient_ranks == 1
    if "dp" in asked and one_replica:
        yield Violation(
            ("overlap", "dp"),
            "dp x cp is 1: there are no gradient collectives to hide",
            "leave overlap.dp out, or more ranks",
        )
    if "pp" in asked and layout.pp == 1:
        yield Violation(
            ("overlap", "pp"),
            "pp is 1: there are no borders to hide",
            "leave overlap.pp out, or pp of at least 2",
        )
    if "cp" in asked and layout.cp == 1:
        yield Violation(
            ("overlap", "cp"),
            "cp is 1: there is nothing to hide",
            "leave overlap.cp out, or cp of at least 2",
        )
    elif "cp" in asked and layout.cp_mode != "ring":
        yield Violation(
            ("overlap", "cp"),
            f"cp_mode {layout.cp_mode} needs all keys and values before attention starts, so"
            " nothing hides",
            "leave overlap.cp out, or layout.cp_mode: ring",
        )
    if config.compression and config.compression.on == "dp" and one_replica:
        yield Violation(
            ("compression", "on"),
            "dp x cp is 1: there is nothing to compress",
            "more ranks, or no compression",
        )
    if "ep" in asked and layout.ep > 1 and layout.dp and config.micro_batches == 1:
        yield Violation(
            ("overlap", "ep"),
            "tokens hide under another micro-batch, and a replica has only one a step",
            f"batch.global: {2 * config.global_batch}, a smaller batch.micro, overlap.ep: shared (a"
            " shared expert), or false",
        )


def _given_times_have_no_parts(config: ParallelConfig) -> Iterator[Violation]:
    """Refuse overlap under parts that given times do not have: of a layer attention, of a step
    layers."""
    layout = config.layout
    overlap = config.overlap
    times = config.compute
    if times is None:
        return
    if times.per_layer:
        if "cp" in overlap.asked and layout.cp > 1 and layout.cp_mode == "ring":
            yield Violation(
                ("overlap", "cp"),
                "the ring hides under attention, whose time is not among the given times of a layer",
                "a device and a stack in place of compute, or leave overlap.cp out",
            )
        return
    under_layers: list[str] = [name for name in ("tp", "cp") if name in overlap.asked]
    if overlap.ep:
        under_layers.append("ep")
    if "dp" in overlap.asked and config.shard.shards_weights and config.shard.reshard:
        under_layers.append("dp")
    for name in under_layers:
        yield Violation(
            ("overlap", name),
            f"{name} hides under single layers, but compute gives times of a whole step",
            "compute: {forward_per_layer: ..., backward_per_layer: ...}, or leave"
            f" overlap.{name} out",
        )
