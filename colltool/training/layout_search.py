"""The search: every layout that fits the memory, priced on one fabric by the step of ``plan``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, said
from colltool.base.formatting import counted, format_bytes, percent
from colltool.base.result import Result
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.training.collective_cost import CollectiveCostCache, job_slice
from colltool.training.files import Recomputed, Schedule, ShardMode, written
from colltool.training.job import Job
from colltool.training.job_results import on_fabric, refuse_impossible_step
from colltool.training.memory import memory
from colltool.training.model import Shape, TransformerModel
from colltool.training.parallel_config import ParallelConfig
from colltool.training.plan import rates, seated
from colltool.training.published import memory_error
from colltool.training.search_space import (
    Constraints,
    Frame,
    Keep,
    Space,
    constraints_of,
    values_of,
)
from colltool.training.step_time import step_time

MOST_REASONS = 3
TIE = 0.03  # of the best step: plans of published runs are off by more

Watch = Callable[[int, int], None]


class LayoutChoice(NamedTuple):
    """``dp`` and ``schedule`` follow from what is chosen."""

    tp: int
    sp: bool
    cp: int
    ep: int
    etp: int
    pp: int
    virtual: int
    dp: int
    micro: int
    shard: ShardMode
    recompute: Recomputed
    schedule: Schedule

    @property
    def spoken(self) -> str:
        sizes = [
            f"{name} {getattr(self, name)}"
            for name in ("tp", "cp", "ep", "pp", "virtual", "dp", "micro")
        ]
        return ", ".join(
            [text for text in sizes if not text.endswith(" 1")]
            + [self.shard, f"recompute {self.recompute}"]
        )


class PricedLayout(NamedTuple):
    choice: LayoutChoice
    step_s: float
    control_step_s: float
    memory_bytes: float
    tokens_per_s: float
    mfu: float
    of_best: float  # its step over the best one's, less 1

    @property
    def tie(self) -> bool:
        return self.of_best <= TIE

    @property
    def network_share(self) -> float:
        return 1 - self.control_step_s / self.step_s


class Ties(NamedTuple):
    layouts: int  # within TIE of the best, itself among them
    differ: tuple[str, ...]  # the choices that tell them apart


class OwnLayout(NamedTuple):
    searched: PricedLayout | None
    fits: bool | None
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class LayoutSearch(Result):
    """Layouts of a job, the fastest first; of equal steps the one that takes less memory."""

    subject: ClassVar[str] = "plan_compare"
    job: Job
    fabric: str
    fabric_overrides: tuple[tuple[str, str], ...]
    ranks: int
    kept: tuple[tuple[str, str], ...]
    held: int  # layouts that fill the ranks and fit together
    fit: int  # of them the memory
    priced: int  # of those sit on the fabric
    capacity_bytes: float
    headroom: float  # share of it that every layout leaves free
    ties: Ties
    layouts: tuple[PricedLayout, ...]
    own: OwnLayout
    # that make ``plan`` show the best, as ``--job-set`` takes them
    values: tuple[tuple[str, str], ...]

    @property
    def device(self) -> str:
        assert self.job.draft.device is not None  # without one nothing is searched
        return self.job.draft.device.name

    @property
    def best(self) -> PricedLayout:
        return self.layouts[0]


class Figures(NamedTuple):
    """A priced layout; of two the better compares smaller."""

    step_s: float
    memory_bytes: float
    number: int
    control_s: float
    setup: ParallelConfig

    @property
    def choice(self) -> LayoutChoice:
        config, names = self.setup, ("tp", "sp", "cp", "ep", "etp", "pp", "virtual", "dp")
        same = {name: getattr(config.layout, name) for name in names}
        how: dict[str, Any] = {
            "shard": config.shard.mode,
            "recompute": config.recompute,
            "schedule": config.schedule,
        }
        return LayoutChoice(**same, micro=config.micro_batch, **how)

    def against(self, best: Figures) -> PricedLayout:
        tokens, mfu = rates(self.setup, self.step_s)
        assert tokens is not None
        assert mfu is not None
        of_best = self.step_s / best.step_s - 1
        return PricedLayout(
            self.choice,
            self.step_s,
            self.control_s,
            self.memory_bytes,
            tokens,
            mfu,
            of_best=of_best,
        )


def search(
    job: Job,
    fabric: Fabric,
    ranks: int | None = None,
    keep: Keep | None = None,
    *,
    top: int | None = None,
    readings: Readings | None = None,
    watch: Watch | None = None,
    headroom: float | None = None,
) -> LayoutSearch:
    """Every layout of a job that fills the ranks and fits the memory, priced on a fabric; the
    ``top`` best of them, or all.

    Model, batch, sequence, precision, device, stack, overlap and order of the job stay, and what is
    in ``keep``, such as ``{"tp": 8}``. ``watch`` is called with how many sizes of how many are
    done. ColltoolError where nothing fits, and why.
    """
    kept, job = constraints_of(keep), on_fabric(job, fabric)
    model, shape = _searchable(job)
    total = ranks if ranks is not None else job.draft.layout.ranks or fabric.ranks
    seated(job, fabric, total)
    if total % (inside := (kept.tp or 1) * (kept.cp or 1) * (kept.pp or 1)):
        what = f"{kept.spoken}: tp x cp x pp = {inside} does not divide {total} ranks"
        raise ColltoolError(what, argument="keep", fix="sizes whose product divides them")
    space = Space(job, model, shape, total, kept)
    free = usual_headroom() if headroom is None else headroom
    found = _PricedLayouts(CollectiveCostCache(job_slice(fabric, total), readings), free)
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
    tied = [one.choice for one in found.priced if one.step_s / best.step_s - 1 <= TIE]
    choices = LayoutChoice._fields[:-1]  # the schedule follows
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
        headroom=free,
        ties=Ties(
            len(tied),
            tuple(name for name in choices if len({getattr(one, name) for one in tied}) > 1),
        ),
        layouts=tuple(one.against(best) for one in chosen),
        own=_own(job, total, found.costs, best),
        values=values_of(job, best.setup),
    )


class _PricedLayouts:
    def __init__(self, costs: CollectiveCostCache, headroom: float = 0.0) -> None:
        self.costs, self.headroom = costs, headroom
        self.held = self.fit = 0
        self.capacity = 0.0
        self.priced: list[Figures] = []
        self.smallest: Figures | None = None
        self.unseated: ColltoolError | None = None

    def take(self, frame: Frame, space: Space) -> None:
        """ZeRO-2 sends what ZeRO-1 sends, so they share a price; one that does not sit on the
        fabric has none."""
        steps: dict[tuple[object, ...], tuple[float, float] | None] = {}
        setup, plain = frame
        for config in space.variants(setup):
            self.held += 1
            assert config.device is not None
            self.capacity, size = (
                config.device.memory_bytes,
                memory(config, every_stage=False).bytes,
            )
            if self.smallest is None or size < self.smallest.memory_bytes:
                self.smallest = Figures(0.0, size, 0, 0.0, config)
            if size > (1 - self.headroom) * self.capacity:
                continue
            self.fit += 1
            row = config.shard.row
            sent = row.optimizer, row.weights, row.grouped, config.recompute
            if sent not in steps:
                try:
                    found = step_time(config, self.costs, plain)
                    steps[sent] = found.step_s, found.control_s
                except ColltoolError as error:
                    self.unseated, steps[sent] = error, None
            if (step := steps[sent]) is not None:
                self.priced.append(Figures(step[0], size, len(self.priced), step[1], config))


def usual_headroom() -> float:
    """What a layout leaves free so that nine runs in ten like it fit, as published runs took more
    than their plan."""
    return max(0.0, 1 - 1 / memory_error().high)


def _searchable(job: Job) -> tuple[TransformerModel, Shape]:
    draft = job.draft
    if draft.model is None or draft.model.shape is None:
        what = (
            f"{job.name} has no model"
            if draft.model is None
            else f"{draft.model.name} has no shape"
        )
        fix = "give a shipped model such as llama3-70b, or hidden, heads, ffn and vocab"
        raise ColltoolError(
            f"{what}: the compute and memory of other layouts are unknown",
            where=job.where(("model",)),
            fix=fix,
        )
    if draft.compute is not None:
        what = f"{job.name} gives times of one layout only; a search compares others"
        raise ColltoolError(
            what,
            where=job.where(("compute",)),
            fix="device: h100 and stack: megatron in place of compute",
        )
    return draft.model, draft.model.shape


def _own(job: Job, ranks: int, costs: CollectiveCostCache, best: Figures) -> OwnLayout:
    try:
        config = job.setup(ranks)
        step = step_time(config, costs, job.plain_calls(config))
    except ColltoolError as error:
        return OwnLayout(None, None, said(error.what).splitlines()[0])
    size = memory(config)
    return OwnLayout(
        Figures(step.step_s, size.bytes, 0, step.control_s, config).against(best), size.fits, ""
    )


def _nothing(
    job: Job, ranks: int, kept: Constraints, space: Space, found: _PricedLayouts
) -> ColltoolError:
    reasons = [
        f"{count} for {key}: {space.examples[key].what}"
        for key, count in space.refused.most_common(MOST_REASONS)
    ]
    fix = f"refused {'; '.join(reasons) or 'all'}"
    if found.unseated is not None:
        fix = (
            f"{counted(found.fit, 'layout')} fit the memory, none can be placed on the fabric:"
            f" {said(found.unseated.what)}"
        )
        fix += f"; {said(found.unseated.fix)}"
    elif (least := found.smallest) is not None:
        free = f" less {percent(found.headroom)} headroom" if found.headroom else ""
        room = f"{format_bytes(found.capacity, 3)}{free}"
        fix = (
            f"{counted(found.held, 'layout')} fill the ranks, none fits {room}: the smallest takes "
        )
        fix += (
            f"{format_bytes(least.memory_bytes, 3)} ({least.choice.spoken}); more ranks, or keep"
            " less"
        )
    what = (
        f"no layout of {job.name} on {ranks} ranks{f' with {kept.spoken}' if kept.values else ''}"
    )
    return ColltoolError(what, argument="keep" if kept.values else "ranks", fix=fix)
