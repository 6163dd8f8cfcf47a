"""What does not fit together in a job, each thing at its key path with a fix; checks of files and
of every search candidate.

Overlap that a job asks for where nothing can hide is checked in files only, and only what a file
says itself: a default hides what there is, and the layouts of search candidates differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.definitions.source import KeyPath
from colltool.training.calls import stage_calls
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import (
    ParallelConfig,
    cut,
    ends_as_layers,
    layers_of_stages,
    pipeline_stages,
    strides,
)

_MOST_NAMED = 12


class Violation(NamedTuple):
    path: KeyPath
    what: str
    fix: str


def constraint_violations(config: ParallelConfig) -> list[Violation]:
    """Checks that need dp are skipped while ``layout.dp`` is 0, unknown."""
    model, shape = config.model, config.shape
    found = [
        *_machine(config),
        *_overlap_and_schedule(config),
        *_shards(config),
        *_update(config, shape),
    ]
    if model is None:
        return found
    found += [*_stages(config, model), *_batch(config)]
    if shape is None:
        return found + list(_without_shape(config, model))
    return [*found, *_tensor(config, shape), *_context(config, shape), *_experts(config, shape)]


def _machine(config: ParallelConfig) -> Iterator[Violation]:
    device, stack, precision = config.device, config.stack, config.precision.compute
    if device is None or stack is None or config.compute is not None:
        return
    asked: tuple[tuple[KeyPath, Callable[[], float]], ...] = (
        (("precision", "compute"), lambda: device.peak_flops(precision)),
        (("stack",), lambda: stack.gemm_share(precision, device.generation)),
        (("stack",), lambda: stack.attention_share(device.generation)),
    )
    for path, ask in asked:
        try:
            ask()
        except ColltoolError as error:
            yield Violation(path, error.what, error.fix)
            return


def divisors(number: int) -> str:
    found = [str(one) for one in range(1, min(number, 100_000) + 1) if number % one == 0]
    return ", ".join(found[:_MOST_NAMED]) + (", ..." if len(found) > _MOST_NAMED else "")


def _divides(path: KeyPath, size: int, of: int, what: str) -> Iterator[Violation]:
    if of % size:
        yield Violation(
            path,
            f"{path[-1]} {size} does not divide {what} {of}",
            f"what divides it: {divisors(of)}",
        )


def _without_shape(config: ParallelConfig, model: TransformerModel) -> Iterator[Violation]:
    needs = {
        "tp": "the size of activations",
        "cp": "heads",
        "ep": "experts",
        "pp": "the size of activations",
    }
    for name, what in needs.items():
        if (size := getattr(config.layout, name)) > 1:
            fix = "give hidden, heads, ffn, vocab of the model; or a shipped model"
            yield Violation(
                ("layout", name), f"{name} {size} needs {what}, and {model.name} has no shape", fix
            )
    yield from _no_experts(config.layout.etp)
    if config.compute is None:
        what = f"{model.name} has no shape: the compute of a layer is unknown"
        fix = (
            "compute: {forward_per_layer: 7ms, backward_per_layer: 15ms}, or hidden, heads, ffn,"
            " vocab of the model"
        )
        yield Violation(("model",), what, fix)


def _no_experts(etp: int) -> Iterator[Violation]:
    if etp > 1:
        yield Violation(
            ("layout", "etp"),
            f"etp {etp}, and the model has no experts",
            "leave etp out, or a model with moe",
        )


def _tensor(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    layout, path, kv = config.layout, ("layout", "tp"), shape.kv_heads
    for size, what in (
        (shape.heads, "heads"),
        (shape.hidden, "hidden size"),
        (shape.ffn, "ffn width"),
    ):
        if size % layout.tp:
            yield from _divides(path, layout.tp, size, what)
            return
    if shape.mla is None and kv % layout.tp and layout.tp % kv:
        yield Violation(
            path,
            f"tp {layout.tp} neither divides {kv} kv heads nor is a multiple of them",
            f"tp: {divisors(kv)}",
        )
    if layout.sp and config.sequence % (layout.tp * layout.cp):
        what = (
            f"a sequence of {config.sequence} is not cut in tp x cp = {layout.tp * layout.cp} equal"
            " parts"
        )
        yield Violation(("sequence",), what, "a multiple of tp x cp, or sp: false")


def _context(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    layout = config.layout
    if layout.cp == 1:
        return
    if shape.window and shape.windowed and shape.window < config.sequence:
        what = (
            f"cp {layout.cp} over a sequence of {config.sequence} with windows of {shape.window} is"
            " not modelled"
        )
        yield Violation(("layout", "cp"), what, f"cp: 1, or a sequence of at most {shape.window}")
    # two each, so that a causal mask is shared evenly
    parts = 2 * layout.cp if layout.cp_mode == "ring" else layout.cp
    if config.sequence % parts:
        what = (
            f"cp {layout.cp} ({layout.cp_mode}) cuts a sequence in {parts} parts, and"
            f" {config.sequence} is no multiple"
        )
        yield Violation(
            ("layout", "cp"),
            what,
            f"a sequence of {parts * (config.sequence // parts + 1)}, or another cp",
        )
    if layout.cp_mode == "ulysses":
        heads = max(1, shape.kv_heads // layout.tp)
        if heads % layout.cp:
            what = (
                f"ulysses splits heads, and cp {layout.cp} does not divide the {heads} kv heads of"
                " a rank"
            )
            yield Violation(("layout", "cp"), what, f"cp: {divisors(heads)}, or cp_mode: ring")


def _experts(config: ParallelConfig, shape: Shape) -> Iterator[Violation]:
    layout, moe, path, inside = (
        config.layout,
        shape.moe,
        ("layout", "ep"),
        config.layout.tp * config.layout.cp * config.layout.dp,
    )
    if moe is None:
        if layout.ep > 1:
            yield Violation(
                path, f"ep {layout.ep}, and the model has no experts", "ep: 1, or a model with moe"
            )
        yield from _no_experts(layout.etp)
        return
    yield from _divides(path, layout.ep, moe.experts, "the number of experts")
    yield from _divides(("layout", "etp"), layout.etp, moe.ffn, "the width of an expert")
    if layout.tp > 1 and not layout.sp and layout.etp != layout.tp:
        what = (
            f"without sp all {layout.tp} ranks of a tensor group have the same tokens, so etp must"
            f" be tp; it is {layout.etp}"
        )
        yield Violation(("layout", "sp"), what, f"sp: true, or etp: {layout.tp}")
    if inside % (layout.ep * layout.etp):  # 0 without dp
        what = (
            f"ep x etp = {layout.ep * layout.etp} does not divide the {inside} ranks of a stage (tp"
            " x cp x dp)"
        )
        both = [
            one
            for one in range(1, moe.experts + 1)
            if moe.experts % one == 0 and inside // layout.etp % one == 0
        ]
        yield Violation(path, what, f"ep: {', '.join(map(str, both))}")
    elif layout.dp and layout.pp > 1:
        ours, theirs = (
            strides(layout.sizes(experts=experts), layout.order)["pp"] for experts in (False, True)
        )
        if ours != theirs:
            what = "attention and experts would have different stages: pp is inside ep or dp"
            yield Violation(("layout", "order"), what, "put pp last: [tp, cp, ep, dp, pp]")


def _stages(config: ParallelConfig, model: TransformerModel) -> Iterator[Violation]:
    layout = config.layout
    if layout.stages:
        if len(layout.stages) != layout.pp or sum(layout.stages) != model.layers:
            what = (
                f"{len(layout.stages)} stages of {sum(layout.stages)} layers, and pp is"
                f" {layout.pp}, the model {model.layers}"
            )
            yield Violation(
                ("layout", "stages"), what, f"{layout.pp} numbers that sum to {model.layers}"
            )
        elif (
            min(layout.stages) < layout.virtual - 1
        ):  # the embedding or the head may stand in the place of a layer
            what = f"virtual {layout.virtual}, and a stage has {min(layout.stages)} layers"
            yield Violation(
                ("layout", "virtual"), what, f"virtual: at most {min(layout.stages) + 1}"
            )
    elif ends_as_layers(config):
        return
    elif model.layers < layout.pp:
        what = f"pipeline {layout.pp} is longer than the model's {model.layers} layers"
        yield Violation(("layout", "pp"), what, f"pp: at most {model.layers}")
    else:
        fewest = min(layers_of_stages(model.layers, layout.pp, folded=config.folded))
        most = fewest + (model.layers % layout.pp > 0)
        if layout.virtual > most:
            what = f"virtual {layout.virtual}, and a stage has {fewest} layers"
            yield Violation(
                ("layout", "virtual"),
                what,
                f"virtual: at most {most}; or list the layers of each stage: layout.stages",
            )


def _batch(config: ParallelConfig) -> Iterator[Violation]:
    layout, path = config.layout, ("batch", "global")
    part = config.micro_batch * (layout.dp or 1)
    if config.global_batch % part:
        made = f"micro {config.micro_batch}" + (f" x dp {layout.dp}" if layout.dp else "")
        near = part * max(1, round(config.global_batch / part))
        what = f"{config.global_batch} sequences are not a multiple of {made} = {part}"
        yield Violation(path, what, f"global: {near}, or another micro or dp")
        return
    if layout.dp:
        yield from (Violation(*one) for one in config.pipeline.requires_batch(config))


def _update(config: ParallelConfig, shape: Shape | None) -> Iterator[Violation]:
    """What is away from the device, and what is trained of the model."""
    for key, share in config.offload._asdict().items():
        if share and config.device is not None and not config.device.host_Bps:
            what = f"{config.device.name} gives no rate to the memory of its host"
            yield Violation(
                ("offload", key), what, "device: {..., host: 55GB/s}, or leave offload out"
            )
    for key, asked in (("lora", config.lora), ("optimizer", config.update.orthogonal)):
        if asked and shape is None:
            yield Violation(
                (key,),
                "the model has no shape: its matrices are not known",
                "give hidden, heads, ffn and vocab",
            )


def _shards(config: ParallelConfig) -> Iterator[Violation]:
    layout, shard = config.layout, config.shard
    if layout.cp > 1 and layout.pp > 1:
        first, last = sorted(map(layout.order.index, ("cp", "dp")))
        if "pp" in layout.order[first:last]:
            what = "gradients are summed over cp and dp, but pp is between them"
            yield Violation(("layout", "order"), what, "put pp last: [tp, cp, ep, dp, pp]")
    if not shard.group or not layout.dp:
        return
    groups = [layout.group("cp", "dp")]
    if config.moe and not layout.tp * layout.cp * layout.dp % (layout.ep * layout.etp):
        groups.append(layout.group("dp", experts=True))
    for group in groups:
        try:
            cut(group, shard.group)
        except ValueError:
            what = (
                f"shard groups of {shard.group} do not tile the {group.ranks} ranks that share a"
                " weight"
            )
            yield Violation(("shard", "group"), what, f"what does: {divisors(group.ranks)}")


def _overlap_and_schedule(config: ParallelConfig) -> Iterator[Violation]:
    layout, overlap, row, virtual = (
        config.layout,
        config.overlap,
        config.pipeline,
        config.layout.virtual,
    )
    if "tp" in overlap.asked and overlap.tp == "split" and not (layout.sp and layout.tp > 1):
        what = "hiding TP under split GEMMs needs sequence parallelism"
        yield Violation(
            ("overlap", "tp"), what, "sp: true with tp of at least 2, or overlap.tp: false"
        )
    if overlap.ep == "shared" and not (config.moe and config.moe.shared_ffn):
        yield Violation(
            ("overlap", "ep"),
            "the model has no shared expert to hide under",
            "ep: true (another batch), or false",
        )
    if overlap.ep and layout.ep == 1:
        yield Violation(
            ("overlap", "ep"),
            "ep is 1: there is nothing to hide",
            "ep: false, or layout.ep of at least 2",
        )
    if row.hides_experts and layout.ep > 1 and not overlap.ep:
        what = (
            f"{config.schedule} hides the all-to-alls under the other batch, and overlap.ep is"
            " false"
        )
        yield Violation(("overlap", "ep"), what, "ep: true, or another schedule")
    if virtual > 1 and not row.interleaved and not (row.folded and virtual == 2):
        what = f"virtual {virtual}, and {config.schedule} runs one chunk per stage"
        yield Violation(("layout", "virtual"), what, "schedule: interleaved, or virtual: 1")
    yield from (Violation(*one) for one in row.requires(config))


def invalid_overlaps(config: ParallelConfig) -> list[Violation]:
    """Overlap that a job asks for in vain; checks that need dp are skipped while ``layout.dp`` is
    0, unknown."""
    if config.model is None:  # plain calls name their groups themselves
        return []
    found = [*_alone(config), *_given_times(config)]
    if found or not config.layout.dp or "sm_share" not in config.overlap.asked:
        return found
    sent = (call for stage in pipeline_stages(config) for call in stage_calls(config, stage))
    # no multiprocessor copies a stage's messages
    if all(call.hides in ("nothing", "steady pipeline") for call in sent):
        what = "sm_share slows compute while communication runs beside it, and none does here"
        found = [
            Violation(("overlap", "sm_share"), what, "leave sm_share out, or let something hide")
        ]
    return found


def _alone(config: ParallelConfig) -> Iterator[Violation]:
    layout, asked, one_replica = (
        config.layout,
        config.overlap.asked,
        config.layout.dp and config.gradient_ranks == 1,
    )
    if "dp" in asked and one_replica:
        what = "dp x cp is 1: there are no gradient collectives to hide"
        yield Violation(("overlap", "dp"), what, "leave overlap.dp out, or more ranks")
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
        what = (
            f"cp_mode {layout.cp_mode} needs all keys and values before attention starts, so"
            " nothing hides"
        )
        yield Violation(("overlap", "cp"), what, "leave overlap.cp out, or layout.cp_mode: ring")
    if config.compression and config.compression.on == "dp" and one_replica:
        yield Violation(
            ("compression", "on"),
            "dp x cp is 1: there is nothing to compress",
            "more ranks, or no compression",
        )
    if "ep" in asked and layout.ep > 1 and layout.dp and config.micro_batches == 1:
        what = "tokens hide under another micro-batch, and a replica has only one a step"
        fix = (
            f"batch.global: {2 * config.global_batch}, a smaller batch.micro, overlap.ep: shared (a"
            " shared expert), or false"
        )
        yield Violation(("overlap", "ep"), what, fix)


def _given_times(config: ParallelConfig) -> Iterator[Violation]:
    overlap, layout, asked, times = (
        config.overlap,
        config.layout,
        config.overlap.asked,
        config.compute,
    )
    if times is None:
        return
    if times.per_layer:
        if "cp" in asked and layout.cp > 1 and layout.cp_mode == "ring":
            what = (
                "the ring hides under attention, whose time is not among the given times of a layer"
            )
            yield Violation(
                ("overlap", "cp"),
                what,
                "a device and a stack in place of compute, or leave overlap.cp out",
            )
        return
    layers = config.shard.layers and config.shard.reshard
    wanted = {
        "tp": "tp" in asked,
        "cp": "cp" in asked,
        "ep": bool(overlap.ep),
        "dp": "dp" in asked and layers,
    }
    for name in (name for name, there in wanted.items() if there):
        what = f"{name} hides under single layers, but compute gives times of a whole step"
        fix = (
            "compute: {forward_per_layer: ..., backward_per_layer: ...}, or leave"
            f" overlap.{name} out"
        )
        yield Violation(("overlap", name), what, fix)
