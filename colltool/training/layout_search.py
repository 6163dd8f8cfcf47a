"""The search: every layout that fits the memory, priced on one fabric by the step of ``plan``."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, said
from colltool.base.formatting import counted, format_bytes
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.files.job import ShardFile
from colltool.training.files.schema import written
from colltool.training.invalid_overlap import possible_overlap
from colltool.training.job import Job
from colltool.training.job_placement import job_slice, on_fabric, refuse_impossible_step
from colltool.training.memory import memory, worst_stage
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import ParallelConfig
from colltool.training.plan import rates, seated
from colltool.training.search_results import (
    CHOICES,
    TIE,
    Constraints,
    Keep,
    LayoutSearch,
    OwnLayout,
    PricedLayout,
    Ties,
    constraints_of,
    layout_choice,
)
from colltool.training.search_space import Frame, Space
from colltool.training.step_time import step_time
from colltool.training.strategies import default_schedule

MOST_REASONS = 3
Watch = Callable[[int, int], None]


class Figures(NamedTuple):
    """A priced layout; of two the better compares smaller."""

    step_s: float
    memory_bytes: float
    number: int
    control_s: float
    setup: ParallelConfig


def search(job: Job, fabric: Fabric, ranks: int | None = None, keep: Keep | None = None, *, top: int | None = None,
           readings: Readings | None = None, watch: Watch | None = None) -> LayoutSearch:  # fmt: skip
    """Every layout of a job that fills the ranks and fits the memory, priced on a fabric.

    Args:
    job: its model, batch, sequence, precision, device, stack, overlap and order stay.
    ranks: when None those of the job's layout, or all of the fabric where its dp is auto.
    keep: what every layout has, such as ``{"tp": 8}``.
    top: how many to return; all when None.
    watch: called with how many sizes of how many are done.

    Raises:
    ColltoolError: a job or constraint that cannot be searched, too many ranks or layouts, or none that fits and why.
    """
    kept, job = constraints_of(keep), on_fabric(job, fabric)
    model, shape = _searchable(job)
    total = ranks if ranks is not None else job.draft.layout.ranks or fabric.ranks
    seated(job, fabric, total)
    _divides(kept, total)
    space = Space(job, model, shape, total, kept)
    found = _PricedLayouts(CollectiveCostCache(job_slice(fabric, total), readings), model)
    every = space.sizes()
    for done, sizes in enumerate(every):
        if watch is not None:
            watch(done, len(every))
        if (frame := space.frame(sizes)) is not None:
            found.take(frame, space)
    if not found.priced:
        raise _nothing(job, total, kept, space, found)
    best = min(found.priced)
    refuse_impossible_step(job, best.step_s, rates(best.setup, best.step_s)[1])
    chosen = sorted(found.priced) if top is None else nsmallest(top, found.priced)
    return LayoutSearch(
        job=job,
        fabric=fabric.name,
        fabric_overrides=fabric.overrides,
        ranks=total,
        kept=tuple((name, written(value)) for name, value in kept.values.items()),
        held=found.held,
        fit=found.fit,
        priced=len(found.priced),
        capacity_bytes=found.capacity,
        ties=_ties(found.priced, best),
        layouts=tuple(_searched(one, best) for one in chosen),
        own=_own(job, total, found.costs, best),
        values=values_of(job, best.setup),
    )


class _PricedLayouts:
    def __init__(self, costs: CollectiveCostCache, model: TransformerModel) -> None:
        self.costs, self.model = costs, model
        self.held = self.fit = 0
        self.capacity = 0.0
        self.priced: list[Figures] = []
        self.smallest: tuple[float, ParallelConfig] | None = None
        self.unseated: ColltoolError | None = None

    def take(self, frame: Frame, space: Space) -> None:
        """ZeRO-2 sends what ZeRO-1 sends, so they share a price."""
        steps: dict[tuple[object, ...], tuple[float, float] | None] = {}
        for config in space.variants(frame.setup):
            self.held += 1
            assert config.device is not None
            self.capacity = config.device.memory_bytes
            _, size = worst_stage(config, self.model)
            if self.smallest is None or size < self.smallest[0]:
                self.smallest = size, config
            if size > self.capacity:
                continue
            self.fit += 1
            row = config.shard.row
            sent = row.optimizer, row.weights, row.grouped, config.recompute
            if sent not in steps:
                steps[sent] = self._step(config, frame)
            if (step := steps[sent]) is not None:
                self.priced.append(Figures(step[0], size, len(self.priced), step[1], config))

    def _step(self, config: ParallelConfig, frame: Frame) -> tuple[float, float] | None:
        """Seconds of a step, and with a free network; None where a group does not sit on the fabric."""
        try:
            found = step_time(config, self.costs, frame.plain)
        except ColltoolError as error:
            self.unseated = error
            return None
        return found.step_s, found.control_s


def _searchable(job: Job) -> tuple[TransformerModel, Shape]:
    """Refuses a job without a shape, or with times that hold for one layout alone."""
    draft = job.draft
    if draft.model is None or draft.model.shape is None:
        what = f"{job.name} has no model" if draft.model is None else f"{draft.model.name} has no shape"
        fix = "give a shipped model such as llama3-70b, or hidden, heads, ffn and vocab"
        raise ColltoolError(f"{what}: the compute and memory of other layouts are unknown", where=job.where(("model",)), fix=fix)
    if draft.compute is not None:
        what = f"{job.name} gives times of one layout only; a search compares others"
        raise ColltoolError(what, where=job.where(("compute",)), fix="device: h100 and stack: megatron in place of compute")
    return draft.model, draft.model.shape


def _divides(kept: Constraints, ranks: int) -> None:
    inside = (kept.tp or 1) * (kept.cp or 1) * (kept.pp or 1)
    if ranks % inside:
        what = f"{kept.spoken}: tp x cp x pp = {inside} does not divide {ranks} ranks"
        raise ColltoolError(what, argument="keep", fix="sizes whose product divides them")


def _searched(one: Figures, best: Figures) -> PricedLayout:
    tokens, mfu = rates(one.setup, one.step_s)
    assert tokens is not None
    assert mfu is not None
    return PricedLayout(
        choice=layout_choice(one.setup),
        step_s=one.step_s,
        control_step_s=one.control_s,
        memory_bytes=one.memory_bytes,
        tokens_per_s=tokens,
        mfu=mfu,
        of_best=one.step_s / best.step_s - 1,
    )


def _ties(priced: list[Figures], best: Figures) -> Ties:
    tied = [layout_choice(one.setup) for one in priced if one.step_s / best.step_s - 1 <= TIE]
    differ = tuple(name for name in CHOICES if len({getattr(one, name) for one in tied}) > 1)
    return Ties(len(tied), differ)


def _own(job: Job, ranks: int, costs: CollectiveCostCache, best: Figures) -> OwnLayout:
    try:
        config = job.setup(ranks)
        step = step_time(config, costs, job.plain_calls(config))
    except ColltoolError as error:
        return OwnLayout(None, None, said(error.what).splitlines()[0])
    size = memory(config)
    figures = Figures(step.step_s, size.bytes, 0, step.control_s, config)
    return OwnLayout(_searched(figures, best), size.fits, "")


def _nothing(job: Job, ranks: int, kept: Constraints, space: Space, found: _PricedLayouts) -> ColltoolError:
    under = f" with {kept.spoken}" if kept.values else ""
    what = f"no layout of {job.name} on {ranks} ranks{under}"
    argument = "keep" if kept.values else "ranks"
    if found.unseated is not None:
        fix = f"{counted(found.fit, 'layout')} fit the memory, none can be placed on the fabric: {said(found.unseated.what)}"
        return ColltoolError(what, argument=argument, fix=f"{fix}; {said(found.unseated.fix)}")
    if found.smallest is not None:
        size, config = found.smallest
        fix = (f"{counted(found.held, 'layout')} fill the ranks, none fits {format_bytes(found.capacity, 3)}: the smallest takes "
               f"{format_bytes(size, 3)} ({layout_choice(config).spoken}); more ranks, or keep less")  # fmt: skip
        return ColltoolError(what, argument=argument, fix=fix)
    reasons = [f"{count} for {key}: {space.examples[key].what}" for key, count in space.refused.most_common(MOST_REASONS)]
    return ColltoolError(what, argument=argument, fix=f"refused {'; '.join(reasons) or 'all'}")


def values_of(job: Job, config: ParallelConfig) -> tuple[tuple[str, str], ...]:
    """Keys and values that make this setup of the job, without what its file says already."""
    found = {**_sizes(job, config), **_shard(job.file.shard, config), **_overlap(job, config)}
    return tuple((key, "null" if value is None else written(value)) for key, value in found.items())


def _sizes(job: Job, config: ParallelConfig) -> dict[str, Any]:
    file, layout = job.file, config.layout
    given = file.layout
    found: dict[str, Any] = {f"layout.{name}": getattr(layout, name) for name in ("tp", "cp", "ep", "pp", "virtual")
                             if getattr(layout, name) != getattr(given, name)}  # fmt: skip
    if layout.tp > 1 and layout.sp != given.sp:
        found["layout.sp"] = layout.sp
    moe = config.model is not None and config.model.shape is not None and config.model.shape.moe is not None
    if layout.etp != (given.etp or (layout.tp if moe and not layout.sp else 1)):
        found["layout.etp"] = layout.etp
    if given.stages and not layout.stages:
        found["layout.stages"] = None
    if given.dp not in ("auto", layout.dp):
        found["layout.dp"] = layout.dp
    if file.batch is not None and config.micro_batch != file.batch.micro:
        found["batch.micro"] = config.micro_batch
    if config.schedule != (file.schedule or default_schedule(layout.virtual)):
        found["schedule"] = config.schedule
    return found | ({"recompute": config.recompute} if config.recompute != file.recompute else {})


def _shard(file: ShardFile, config: ParallelConfig) -> dict[str, Any]:
    found: dict[str, Any] = {} if config.shard.mode == file.mode else {"shard.mode": config.shard.mode}
    gone = [*(["group"] if not config.shard.row.grouped else []), *([] if config.shard.layers else ["gathers", "reshard"])]
    return found | {f"shard.{key}": None for key in gone if getattr(file, key) is not None}


def _overlap(job: Job, config: ParallelConfig) -> dict[str, Any]:
    return {f"overlap.{name}": None for name in possible_overlap(job.file.overlap, config)[1]}
