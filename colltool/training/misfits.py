"""What does not fit together in a job: each thing at its key path, with what was found and what fits.

Pure, and asked twice: where a file is read, with an unknown dp (0), and for every candidate of a search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.definitions.source_map import KeyPath
from colltool.training.layout import cut, strides
from colltool.training.model import Model, Shape
from colltool.training.setup import ENDS_AS_LAYERS, Setup, ends_as_layers

_MOST_NAMED = 12


class Misfit(NamedTuple):
    """One thing that does not fit: where, what was found, and what fits."""

    path: KeyPath
    what: str
    fix: str


def misfits(setup: Setup) -> list[Misfit]:
    """Everything of a setup that does not fit; what needs dp is left out while ``layout.dp`` is 0."""
    found = [*_machine(setup), *_overlap(setup), *_schedule(setup), *_order(setup), *_shards(setup)]
    if setup.model is None:
        return found
    found += [*_stages(setup, setup.model), *_batch(setup)]
    if setup.model.shape is None:
        return found + list(_without_shape(setup, setup.model))
    shape = setup.model.shape
    return [*found, *_tensor(setup, shape), *_context(setup, shape), *_experts(setup, shape)]


def _machine(setup: Setup) -> Iterator[Misfit]:
    """A precision that the device has not, or a device that the stack says nothing of."""
    device, stack, precision = setup.device, setup.stack, setup.precision.compute
    if device is None or stack is None or setup.compute is not None:
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
            yield Misfit(path, error.what, error.fix)
            return


def divisors(number: int) -> str:
    """What divides a number, as a cure names it."""
    found = [str(one) for one in range(1, min(number, 100_000) + 1) if number % one == 0]
    return ", ".join(found[:_MOST_NAMED]) + (", ..." if len(found) > _MOST_NAMED else "")


def _divides(path: KeyPath, size: int, of: int, what: str) -> Iterator[Misfit]:
    if of % size:
        yield Misfit(path, f"{path[-1]} {size} does not divide {what} {of}", f"what divides it: {divisors(of)}")


def _without_shape(setup: Setup, model: Model) -> Iterator[Misfit]:
    layout = setup.layout
    needs = {"tp": "the size of activations", "cp": "heads", "ep": "experts", "pp": "the size of activations"}
    for name, what in needs.items():
        if getattr(layout, name) > 1:
            fix = "give hidden, heads, ffn, vocab of the model; or a shipped model"
            yield Misfit(("layout", name), f"{name} {getattr(layout, name)} needs {what}, and {model.name} has no shape", fix)
    if layout.etp > 1:
        yield _no_experts(layout.etp)
    if setup.compute is None:
        what = f"{model.name} has no shape: nothing says what a layer of it computes"
        fix = "compute: {forward_per_layer: 7ms, backward_per_layer: 15ms}, or hidden, heads, ffn, vocab of the model"
        yield Misfit(("model",), what, fix)


def _tensor(setup: Setup, shape: Shape) -> Iterator[Misfit]:
    layout, path = setup.layout, ("layout", "tp")
    for size, what in ((shape.heads, "heads"), (shape.hidden, "hidden size"), (shape.ffn, "ffn width")):
        if size % layout.tp:
            yield from _divides(path, layout.tp, size, what)
            return
    kv = shape.kv_heads
    if shape.mla is None and kv % layout.tp and layout.tp % kv:
        yield Misfit(path, f"tp {layout.tp} neither divides {kv} kv heads nor is a multiple of them", f"tp: {divisors(kv)}")
    if layout.sp and setup.sequence % (layout.tp * layout.cp):
        what = f"a sequence of {setup.sequence} is not cut in tp x cp = {layout.tp * layout.cp} equal parts"
        yield Misfit(("sequence",), what, "a multiple of tp x cp, or sp: false")


def _context(setup: Setup, shape: Shape) -> Iterator[Misfit]:
    layout = setup.layout
    if layout.cp == 1:
        return
    if shape.window and shape.windowed and shape.window < setup.sequence:
        what = f"cp {layout.cp} over a sequence of {setup.sequence} with windows of {shape.window} is not modelled"
        yield Misfit(("layout", "cp"), what, f"cp: 1, or a sequence of at most {shape.window}")
    parts = 2 * layout.cp if layout.cp_mode == "ring" else layout.cp  # two each, so that a causal mask is shared evenly
    if setup.sequence % parts:
        what = f"cp {layout.cp} ({layout.cp_mode}) cuts a sequence in {parts} parts, and {setup.sequence} is no multiple"
        yield Misfit(("layout", "cp"), what, f"a sequence of {parts * (setup.sequence // parts + 1)}, or another cp")
    if layout.cp_mode == "ulysses":
        heads = max(1, shape.kv_heads // layout.tp)
        if heads % layout.cp:
            what = f"ulysses deals out heads, and cp {layout.cp} does not divide the {heads} kv heads of a rank"
            yield Misfit(("layout", "cp"), what, f"cp: {divisors(heads)}, or cp_mode: ring")


def _experts(setup: Setup, shape: Shape) -> Iterator[Misfit]:
    layout, moe = setup.layout, shape.moe
    path = ("layout", "ep")
    if moe is None:
        if layout.ep > 1:
            yield Misfit(path, f"ep {layout.ep}, and the model has no experts", "ep: 1, or a model with moe")
        if layout.etp > 1:
            yield _no_experts(layout.etp)
        return
    yield from _divides(path, layout.ep, moe.experts, "the number of experts")
    yield from _divides(("layout", "etp"), layout.etp, moe.ffn, "the width of an expert")
    if layout.tp > 1 and not layout.sp and layout.etp != layout.tp:
        what = f"with tp {layout.tp} and without sp every rank of a tensor group has the same tokens, and etp is {layout.etp}"
        yield Misfit(("layout", "sp"), what, f"sp: true, or etp: {layout.tp}")
    if layout.dp and (layout.tp * layout.cp * layout.dp) % (layout.ep * layout.etp):
        inside = layout.tp * layout.cp * layout.dp
        what = f"ep x etp = {layout.ep * layout.etp} does not divide the {inside} ranks of a stage (tp x cp x dp)"
        both = [one for one in range(1, moe.experts + 1) if moe.experts % one == 0 and inside // layout.etp % one == 0]
        yield Misfit(path, what, f"ep: {', '.join(map(str, both))}")
    elif layout.dp and layout.pp > 1:
        ours, theirs = (strides(sizes, layout.order)["pp"] for sizes in (layout.dense_sizes, layout.expert_sizes))
        if ours != theirs:
            what = "stages of attention and of experts would be other ranks: pp stands inside ep or dp"
            yield Misfit(("layout", "order"), what, "put pp last: [tp, cp, ep, dp, pp]")


def _no_experts(etp: int) -> Misfit:
    return Misfit(("layout", "etp"), f"etp {etp}, and the model has no experts", "leave etp out, or a model with moe")


def _stages(setup: Setup, model: Model) -> Iterator[Misfit]:
    layout, chunks = setup.layout, setup.layout.pp * setup.layout.virtual
    listed = "or list the layers of each stage: layout.stages"
    if layout.stages:
        if len(layout.stages) != layout.pp or sum(layout.stages) != model.layers:
            what = f"{len(layout.stages)} stages of {sum(layout.stages)} layers, and pp is {layout.pp}, the model {model.layers}"
            yield Misfit(("layout", "stages"), what, f"{layout.pp} numbers that sum to {model.layers}")
        elif min(layout.stages) < layout.virtual - 1:  # the embedding or the head may stand in the place of a layer
            what = f"virtual {layout.virtual}, and a stage has {min(layout.stages)} layers"
            yield Misfit(("layout", "virtual"), what, f"virtual: at most {min(layout.stages) + 1}")
    elif ends_as_layers(setup):
        return
    elif model.layers % layout.pp and (model.layers + 2) % layout.pp == 0 and setup.schedule in ENDS_AS_LAYERS:
        held = (model.layers + 2) // layout.pp
        what = f"virtual {layout.virtual} does not divide the {held} layers of a stage, with the embedding and the head as layers"
        yield Misfit(("layout", "virtual"), what, f"virtual: {divisors(held)}; {listed}")
    elif model.layers % layout.pp:
        ends = f"; or it and the two ends: {divisors(model.layers + 2)}" if setup.schedule in ENDS_AS_LAYERS else ""
        fix = f"what divides it: {divisors(model.layers)}{ends}; {listed}"
        yield Misfit(("layout", "pp"), f"pp {layout.pp} does not divide the {model.layers} layers", fix)
    elif model.layers % chunks:
        fix = f"virtual: {divisors(model.layers // layout.pp)}"
        what = f"virtual {layout.virtual} does not divide the {model.layers // layout.pp} layers of a stage"
        yield Misfit(("layout", "virtual"), what, fix)


def _batch(setup: Setup) -> Iterator[Misfit]:
    layout, path = setup.layout, ("batch", "global")
    part = setup.micro_batch * (layout.dp or 1)
    if setup.global_batch % part:
        made = f"micro {setup.micro_batch}" + (f" x dp {layout.dp}" if layout.dp else "")
        near = part * max(1, round(setup.global_batch / part))
        what = f"{setup.global_batch} sequences are no multiple of {made} = {part}"
        yield Misfit(path, what, f"global: {near}, or another micro or dp")
        return
    if not layout.dp:
        return
    m = setup.global_batch // part
    if setup.schedule == "interleaved" and m % layout.pp:
        fit = layout.pp * max(1, round(m / layout.pp)) * part
        what = f"{m} micro-batches are no multiple of pp {layout.pp}, which interleaved needs"
        yield Misfit(path, what, f"global: {fit}, or schedule: 1f1b with virtual: 1")
    if setup.schedule == "dualpipe" and (m % 2 or m < layout.pp):
        what = f"dualpipe feeds both ends: {m} micro-batches are not even or fewer than pp {layout.pp}"
        yield Misfit(path, what, f"global: {2 * layout.pp * part}, or another schedule")


def _schedule(setup: Setup) -> Iterator[Misfit]:
    layout, schedule = setup.layout, setup.schedule
    if schedule == "interleaved" and (layout.virtual == 1 or layout.pp == 1):
        what = f"interleaved, and virtual is {layout.virtual}, pp {layout.pp}"
        yield Misfit(("schedule",), what, "virtual and pp of at least 2, or schedule: 1f1b")
    if layout.virtual > 1 and schedule != "interleaved" and not (schedule == "zbv" and layout.virtual == 2):
        what = f"virtual {layout.virtual}, and {schedule} runs one chunk a stage"
        yield Misfit(("layout", "virtual"), what, "schedule: interleaved, or virtual: 1")
    layers = setup.model.layers // layout.pp if setup.model and not layout.stages else 0
    if schedule == "zbv" and layout.pp > 1 and layers % 2:
        what = f"zbv folds each stage in two chunks, and a stage has {layers} layers"
        yield Misfit(("schedule",), what, "an even number of layers a stage, or schedule: zb1p")
    if schedule == "dualpipe" and layout.pp % 2:
        yield Misfit(("layout", "pp"), f"dualpipe needs an even pp, got {layout.pp}", f"pp: {layout.pp + 1}, or schedule: 1f1b")


def _order(setup: Setup) -> Iterator[Misfit]:
    layout = setup.layout
    if layout.cp > 1 and layout.pp > 1:
        between = layout.order[min(map(layout.order.index, ("cp", "dp"))) : max(map(layout.order.index, ("cp", "dp")))]
        if "pp" in between:
            what = "gradients are summed over cp and dp, and pp stands between them"
            yield Misfit(("layout", "order"), what, "put pp last: [tp, cp, ep, dp, pp]")


def _shards(setup: Setup) -> Iterator[Misfit]:
    layout, shard = setup.layout, setup.shard
    if shard.mode != "hsdp" or not layout.dp:
        return
    groups = [layout.group("cp", "dp")]
    if (
        setup.model
        and setup.model.shape
        and setup.model.shape.moe
        and not layout.tp * layout.cp * layout.dp % (layout.ep * layout.etp)
    ):
        groups.append(layout.group("dp", experts=True))
    for group in groups:
        try:
            cut(group, shard.group)
        except ValueError:
            what = f"shard groups of {shard.group} do not tile the {group.ranks} ranks that share a weight"
            yield Misfit(("shard", "group"), what, f"what does: {divisors(group.ranks)}")


def _overlap(setup: Setup) -> Iterator[Misfit]:
    layout, overlap = setup.layout, setup.overlap
    if overlap.tp and not (layout.sp and layout.tp > 1):
        what = "tensor parallel communication hides under split GEMMs, which need sequence parallelism"
        yield Misfit(("overlap", "tp"), what, "sp: true with tp of at least 2, or overlap.tp: false")
    shape = setup.model.shape if setup.model else None
    if overlap.ep == "shared" and not (shape and shape.moe and shape.moe.shared_ffn):
        yield Misfit(("overlap", "ep"), "the model has no shared expert to hide under", "ep: true (another batch), or false")
    if overlap.ep and layout.ep == 1:
        yield Misfit(("overlap", "ep"), "ep is 1: there is nothing to hide", "ep: false, or layout.ep of at least 2")
    if setup.schedule == "dualpipe" and layout.ep > 1 and not overlap.ep:
        what = "dualpipe exists to hide the all-to-alls under the other batch, and overlap.ep is false"
        yield Misfit(("overlap", "ep"), what, "ep: true, or another schedule")
