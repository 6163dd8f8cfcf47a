"""What a rank keeps in memory, by stage and part; what binds, and the smallest change that fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.activations import layer_activations, loss_bytes, micro_batches_kept
from colltool.training.files.values import BYTES
from colltool.training.misfits import misfits
from colltool.training.model import Model
from colltool.training.rank_parameters import ends_held, layer_held, stage_parameters
from colltool.training.setup import Setup, Stage, stages_of

OPTIMIZER_BYTES = (
    12  # a parameter: master weight and Adam's two moments in fp32 (Rajbhandari 2020, arXiv:1910.02054, section 3.1)
)
ACTIVATIONS = "activations"
GATHERED_LAYERS = 2  # of FSDP: the one that computes, and the one that is fetched
DUALPIPE_COPIES = 2  # DualPipe keeps both ends of the model on a rank (arXiv:2412.19437, table 2)


class Part(NamedTuple):
    """Bytes of one kind on a rank of a stage."""

    stage: int
    part: str
    bytes: float


class Memory(NamedTuple):
    """The memory of a job: every part of every stage, the worst stage, and what binds there.

    ``capacity_bytes`` is None where no device is given; ``fits`` then too.
    """

    parts: tuple[Part, ...]
    worst_stage: int
    bytes: float
    capacity_bytes: float | None
    binds: str

    @property
    def fits(self) -> bool | None:
        """Whether the worst stage fits the device."""
        return None if self.capacity_bytes is None else self.bytes <= self.capacity_bytes


def memory(setup: Setup) -> Memory:
    """The memory of the worst stage, with all of them by part, in bytes.

    Raises:
        ColltoolError: the job has no model.
    """
    if setup.model is None:
        raise ColltoolError("the job has no model, and nothing is known of its memory", fix="give a model")
    model = setup.model
    stages = stages_of(setup)
    by_kind = {stage.kind: tuple(stage_parts(setup, stage, model)) for stage in {stage.kind: stage for stage in stages}.values()}
    parts = tuple(_on(setup, stage, part) for stage in stages for part in by_kind[stage.kind])
    totals: dict[int, float] = {}
    for part in parts:
        totals[part.stage] = totals.get(part.stage, 0.0) + part.bytes
    worst = max(totals, key=lambda stage: totals[stage])
    largest = max((part for part in parts if part.stage == worst), key=lambda part: part.bytes)
    capacity = setup.device.memory_bytes if setup.device else None
    return Memory(parts, worst, totals[worst], capacity, largest.part)


def worst_stage(setup: Setup, model: Model) -> tuple[int, float]:
    """The worst stage and its bytes, as :func:`memory` finds them: the first stage of a kind keeps most micro-batches."""
    first: dict[tuple[int, int, bool, bool], Stage] = {}
    for stage in stages_of(setup):
        first.setdefault(stage.kind, stage)
    totals = {}
    for stage in first.values():
        kept = micro_batches_kept(setup, stage)
        parts = stage_parts(setup, stage, model)
        totals[stage.number] = sum(part.bytes * kept if part.part == ACTIVATIONS else part.bytes for part in parts)
    worst = max(totals, key=lambda stage: totals[stage])
    return worst, totals[worst]


def _on(setup: Setup, stage: Stage, part: Part) -> Part:
    """A part of a stage's kind on the stage itself, which keeps as many micro-batches as its place demands."""
    kept = micro_batches_kept(setup, stage) if part.part == ACTIVATIONS else 1.0
    return Part(stage.number, part.part, part.bytes * kept)


def stage_parts(setup: Setup, stage: Stage, model: Model) -> Iterator[Part]:
    """The parts of one stage: weights, gradients, optimizer, gathered layers, activations of a micro-batch, logits, runtime."""
    yield from _states(setup, stage)
    shape = model.shape
    if shape is not None:
        counts = ((False, stage.dense_layers), (True, stage.moe_layers))
        each = [(count, layer_activations(setup, shape, experts=kind)) for kind, count in counts if count]
        yield Part(stage.number, ACTIVATIONS, sum(count * layer.stored for count, layer in each))
        if setup.recompute == "full" and each:
            yield Part(stage.number, "layer computed again", max(layer.working for _, layer in each))
        if stage.head:
            yield Part(stage.number, "logits", loss_bytes(setup, shape))
    if setup.stack is not None:
        yield Part(stage.number, "runtime", setup.stack.runtime_bytes)


def state_bytes(setup: Setup, replicas: int, group: int) -> tuple[float, float, float]:
    """Bytes a parameter of weights, gradients and optimizer states on a rank.

    DDP 2 + 4 + 12 in bf16 with fp32 gradients; ZeRO-1 6 + 12/D; ZeRO-2 2 + 16/D; FSDP all of it over the shard group, with
    fp32 weights 16/N (the master weight is the weight).
    """
    weight, mode = BYTES[setup.precision.params], setup.shard.mode
    grads = float(setup.shard.grad_bytes)
    optimizer = float(OPTIMIZER_BYTES - (4 if weight == 4 else 0))
    if mode == "ddp":
        return weight, grads, optimizer
    if mode == "zero1":
        return weight, grads, optimizer / replicas
    if mode == "zero2":
        return weight, grads / replicas, optimizer / replicas
    parts = group if mode == "hsdp" else replicas
    return 4 / parts, grads / parts, 8 / parts


def _states(setup: Setup, stage: Stage) -> Iterator[Part]:
    held = stage_parameters(setup, stage)
    copies = DUALPIPE_COPIES if setup.schedule == "dualpipe" and setup.layout.pp > 1 else 1
    dense = state_bytes(setup, setup.gradient_ranks, setup.shard.group)
    experts = state_bytes(setup, setup.layout.expert_dp, setup.shard.group)
    for name, mine, its, times in zip(("weights", "gradients", "optimizer"), dense, experts, (copies, copies, 1), strict=True):
        yield Part(stage.number, name, times * (held.dense * mine + held.experts * its))
    if setup.shard.layers:
        yield Part(stage.number, "gathered layers", gathered_bytes(setup, stage))


def gathered_bytes(setup: Setup, stage: Stage) -> float:
    """What stands whole beside the shards: two units and the gradients of one; or all of them where they are not resharded.

    A unit is a layer, or the embedding and the head: of the largest two. What is gathered once a step sums its gradients whole.
    """
    kinds = [kind for kind, there in ((False, stage.dense_layers), (True, stage.moe_layers)) if there]
    if not kinds:
        return 0.0
    layer, ends = max(layer_held(setup, experts=kind).total for kind in kinds), ends_held(setup, stage).total
    if not setup.shard.reshard:
        return (layer * stage.layers + ends) * (setup.precision.param_bytes + setup.shard.grad_bytes)
    whole = layer * (GATHERED_LAYERS - 1) + max(layer, ends)
    return whole * setup.precision.param_bytes + max(layer, ends) * setup.shard.grad_bytes


class Cure(NamedTuple):
    """A change with which a job fits: values by key as ``--set`` takes them, its memory, and the job so changed."""

    values: dict[str, object]
    memory: Memory
    setup: Setup


def smallest_change(setup: Setup) -> Cure | None:
    """The first of :func:`cures`; None where the job fits already or none of these helps."""
    return next(cures(setup), None)


def cures(setup: Setup) -> Iterator[Cure]:
    """Changes with which a job that does not fit would, those that cost least first."""
    if memory(setup).fits is not False:
        return
    for changes, changed in candidates(setup):
        if not misfits(changed):
            then = memory(changed)
            if then.fits:
                yield Cure(changes, then, changed)


def candidates(setup: Setup) -> Iterator[tuple[dict[str, object], Setup]]:
    """Changes that save memory, the cheapest in time first."""
    layout, shard = setup.layout, setup.shard
    spread = setup._replace(layout=layout._replace(sp=True))
    plain = layout.tp > 1 and not layout.sp
    scores = setup.recompute == "none" and setup.stack is not None and not setup.stack.flash
    if shard.mode == "ddp":
        yield {"shard.mode": "zero1"}, setup._replace(shard=shard._replace(mode="zero1"))
    if setup.micro_batch > 1:
        yield {"batch.micro": 1}, setup._replace(micro_batch=1)
    apart = _tokens_apart(setup)
    if plain:
        yield apart, spread
    if scores:
        yield {"recompute": "selective"}, setup._replace(recompute="selective")
    if plain and scores:
        yield apart | {"recompute": "selective"}, spread._replace(recompute="selective")
    if setup.recompute != "full":
        yield {"recompute": "full"}, setup._replace(recompute="full")
    if not shard.layers:
        once = layout.pp > 1
        sharded = shard._replace(mode="fsdp", reshard=not once, gathers=1 if once else 2)
        yield {"shard.mode": "fsdp"}, setup._replace(shard=sharded)
    yield from _wider(setup)
    if setup.recompute != "full":
        again = setup._replace(recompute="full")
        if not shard.layers:
            yield {"shard.mode": "fsdp", "recompute": "full"}, again._replace(shard=sharded)
        yield from ((made | {"recompute": "full"}, changed) for made, changed in _wider(again))


def _tokens_apart(setup: Setup) -> dict[str, object]:
    """Sequence parallelism, with experts cut as they are: how they are cut follows from it where a job does not say."""
    shape = setup.model.shape if setup.model is not None else None
    return {"layout.sp": True} | ({"layout.etp": setup.layout.etp} if shape is not None and shape.moe is not None else {})


def _wider(setup: Setup) -> Iterator[tuple[dict[str, object], Setup]]:
    """The same ranks with fewer replicas: a wider tensor group, or a longer pipeline."""
    layout = setup.layout
    for factor in (2, 4, 8):
        if layout.dp % factor:
            continue
        fewer = layout.dp // factor
        wider = layout._replace(tp=layout.tp * factor, sp=True, dp=fewer)
        yield {"layout.tp": wider.tp} | _tokens_apart(setup), setup._replace(layout=wider)
        schedule = "1f1b" if setup.schedule == "interleaved" else setup.schedule
        deeper = layout._replace(pp=layout.pp * factor, dp=fewer, virtual=1, stages=())
        made: dict[str, object] = {"layout.pp": deeper.pp, "layout.virtual": 1, "schedule": schedule}
        yield made, setup._replace(layout=deeper, schedule=schedule)
