"""The search of a job's layouts on one fabric.

:func:`search` prices the layouts that fit the memory with the step of ``plan``. Where only the best
are wanted, it skips layouts whose lower bound says that they are not among them. Sizes to try come
from :mod:`search_space`. A search without a layout says why (:func:`_no_layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush, heapreplace, nsmallest
from itertools import count
from math import inf
from operator import itemgetter
from typing import ClassVar, NamedTuple

from colltool.base.errors import ColltoolError, localize
from colltool.base.formatting import counted, format_bytes, percent
from colltool.base.result import Result, result, running_watch
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.training.calls import Call, stage_calls
from colltool.training.collective_cost import CollectiveCostCache, job_slice
from colltool.training.files import Recomputed, Schedule, ShardMode, written
from colltool.training.job import Job, PlainCall
from colltool.training.job_results import on_fabric, refuse_impossible_step
from colltool.training.layout_constraints import (
    CHOICE_OF_KEY,
    Constraints,
    Keep,
    constraints_of,
    with_overrides,
)
from colltool.training.layout_keys import pinning_keys
from colltool.training.memory import least_layer_bytes, memory, memory_bytes, state_bytes
from colltool.training.model import Shape, TransformerModel
from colltool.training.offload import with_offload
from colltool.training.operations import stage_times
from colltool.training.parallel_config import ParallelConfig, Shard, value_at_key
from colltool.training.pipeline_stages import (
    PipelineStage,
    RankParameters,
    each_kind,
    pipeline_stages,
    stage_parameters,
)
from colltool.training.plan import check_ranks, rates
from colltool.training.published import memory_error
from colltool.training.search_space import Sizes, Space
from colltool.training.step_time import (
    TrainingStep,
    compute_pass,
    fixed_and_jitter,
    micro_batch_pass,
    passed_step_s,
    step_time,
)
from colltool.training.strategies import Pass, PipelinePlace, PipelineSchedule

MAX_REASONS = 3  # that an error lists for layouts that do not fit together
# share of the best step within which layouts count as equal: plans of published runs are off by more
TIE = 0.03

# above the shardings and recomputations of any layout
MOST_VARIANTS = 1024

# called with how many combinations of sizes are done, and how many there are
Progress = Callable[[int, int], object]


class LayoutChoice(NamedTuple):
    """A layout of a search; ``dp`` and ``schedule`` follow from the other choices."""

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
    def text(self) -> str:
        """The layout in words, such as ``tp 8, pp 2, zero1, recompute none``, without sizes of 1."""
        words = []
        for name in ("tp", "cp", "ep", "pp", "virtual", "dp"):
            size = getattr(self, name)
            if size != 1:
                words.append(f"{name} {size}")
        words.append(f"micro-batch {self.micro}")
        return ", ".join([*words, self.shard, f"recompute {self.recompute}"])


class PricedLayout(NamedTuple):
    """A layout with the figures of its step, compared with the best one."""

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
        """Share of the step that a free network would save."""
        return 1 - self.control_step_s / self.step_s


class Ties(NamedTuple):
    """Layouts that are as fast as the best one within TIE."""

    layouts: int  # within TIE of the best, itself among them
    differ: tuple[str, ...]  # the choices that tell them apart


class OwnLayout(NamedTuple):
    """The job's own layout, compared with those of the search; ``why`` it could not be priced."""

    searched: PricedLayout | None
    fits: bool | None
    why: str


@result
class LayoutSearch(Result):
    """Layouts of a job, the fastest first; of equal steps the one that takes less memory."""

    subject: ClassVar[str] = "plan_compare"
    job: Job
    fabric: str
    fabric_overrides: tuple[tuple[str, str], ...]
    ranks: int
    kept: tuple[tuple[str, str], ...]
    valid: int  # layouts that fill the ranks and fit together
    fit: int  # of them, layouts that fit the memory
    priced: int  # of those, layouts that can be placed on the fabric
    capacity_bytes: float
    headroom: float  # share of it that every layout leaves free
    ties: Ties
    layouts: tuple[PricedLayout, ...]
    own: OwnLayout
    # that make ``plan`` show the best and search no further, as ``--job-set`` takes them
    values: tuple[tuple[str, str], ...]
    grounds: tuple[str, ...] = ()  # what was changed of the job or the fabric, a line each
    typed: str = ""  # the command that asked for it, without values of the job

    @property
    def device(self) -> str:
        assert self.job.draft.device is not None  # without one nothing is searched
        return self.job.draft.device.name

    @property
    def best(self) -> PricedLayout:
        return self.layouts[0]


class Figures(NamedTuple):
    """A priced layout; a better one compares as smaller."""

    step_s: float
    memory_bytes: float
    number: int
    control_s: float
    setup: ParallelConfig

    @property
    def choice(self) -> LayoutChoice:
        values = {name: value_at_key(self.setup, key) for key, name in CHOICE_OF_KEY.items()}
        return LayoutChoice(**values)

    def compared_with(self, best: Figures) -> PricedLayout:
        """Return the figures as users see them, with the excess over the best step."""
        tokens, mfu = rates(self.setup, self.step_s)
        assert tokens is not None
        assert mfu is not None
        return PricedLayout(
            self.choice,
            self.step_s,
            self.control_s,
            self.memory_bytes,
            tokens,
            mfu,
            of_best=self.step_s / best.step_s - 1,
        )


class _SearchRequest(NamedTuple):
    """A checked search: the job on the fabric's device, and all sizes to try."""

    job: Job
    fabric: Fabric
    ranks: int
    kept: Constraints
    kept_by: str  # the argument that says what is kept, for errors
    space: Space
    sizes: list[Sizes]


def _search_request(
    job: Job, fabric: Fabric, ranks: int | None, keep: Keep | None
) -> _SearchRequest:
    """Check what a user wants searched; ColltoolError where it cannot be."""
    given, job = constraints_of(keep), on_fabric(job, fabric)
    kept = with_overrides(job, given)
    kept_by = "keep" if given.values else "job_overrides"
    model, shape = _model_to_search(job)
    total = ranks if ranks is not None else job.draft.layout.ranks or fabric.ranks
    check_ranks(job, fabric, total)
    replica_ranks = (kept.tp or 1) * (kept.cp or 1) * (kept.pp or 1)
    if total % replica_ranks:
        raise ColltoolError(
            f"{kept.text}: tp x cp x pp = {replica_ranks} does not divide {total} ranks",
            argument=kept_by,
            fix="give sizes whose product divides them",
        )
    space = Space(job, model, shape, total, kept)
    return _SearchRequest(
        job=job,
        fabric=fabric,
        ranks=total,
        kept=kept,
        kept_by=kept_by,
        space=space,
        sizes=space.sizes(),
    )


def search(
    job: Job,
    fabric: Fabric,
    ranks: int | None = None,
    keep: Keep | None = None,
    *,
    top: int | None = None,
    readings: ModelOptions | None = None,
    watch: Progress | None = None,
    headroom: float | None = None,
) -> LayoutSearch:
    """Every layout of a job that fills the ranks and fits the memory, priced on a fabric; the
    ``top`` best of them, or all.

    Model, batch, sequence, precision, device, stack, overlap and order of the job stay, and what is
    in ``keep``, such as ``{"tp": 8}``. ``watch`` is called with how many sizes of how many are
    done. ColltoolError where nothing fits, and why.
    """
    request = _search_request(job, fabric, ranks, keep)
    headroom_share = usual_headroom() if headroom is None else headroom
    progress = _TwoPasses(watch or running_watch(), len(request.sizes))
    layouts = _FittingLayouts(request, headroom_share)
    prices = _LayoutPrices(CollectiveCostCache(job_slice(fabric, request.ranks), readings))
    bounds = prices.bounds(layouts.fitting(progress.first))
    priced = _priced(bounds, prices, _Limit(top), progress.second)
    placed = sum(prices.is_placed(layout) for _, layout in bounds)
    if not priced:
        raise _no_layout(layouts, prices)
    best = min(priced)
    # the best is the likeliest to be above the peak
    refuse_impossible_step(request.job, best.step_s, rates(best.setup, best.step_s)[1])
    chosen = sorted(priced) if top is None else nsmallest(top, priced)
    return LayoutSearch(
        job=request.job,
        fabric=fabric.name,
        fabric_overrides=fabric.overrides,
        ranks=request.ranks,
        kept=tuple((name, written(value)) for name, value in request.kept.values.items()),
        valid=layouts.valid,
        fit=layouts.fit,
        priced=placed,
        capacity_bytes=layouts.capacity,
        headroom=headroom_share,
        ties=_ties(priced, best),
        layouts=tuple(figures.compared_with(best) for figures in chosen),
        own=_own_layout(request.job, request.ranks, prices.costs, best),
        values=pinning_keys(request.job, best.setup),
    )


class _TwoPasses:
    """Progress of a search, which first sizes all layouts and then prices them."""

    def __init__(self, watch: Progress | None, sizes: int) -> None:
        self._watch, self._sizes = watch, sizes

    def first(self, done: int, of: int) -> None:
        self._tell(done, of)

    def second(self, done: int, of: int) -> None:
        self._tell(of + done, of)

    def _tell(self, done: int, of: int) -> None:
        """Tell that ``done`` of twice ``of`` are done, in sizes."""
        if self._watch is not None:
            self._watch(done * self._sizes // of, 2 * self._sizes)


def _priced(
    bounds: list[tuple[float, FittingLayout]],
    prices: _LayoutPrices,
    limit: _Limit,
    watch: Progress,
) -> list[Figures]:
    """Return the priced layouts that fit, without those whose lower bound is above the limit."""
    # the least bound first: once some steps are known, most others are ruled out
    bounds.sort(key=itemgetter(0))
    priced: list[Figures] = []
    for done, (least_s, layout) in enumerate(bounds):
        watch(done, len(bounds))
        if least_s > limit.step_s:
            break
        step = prices.step(layout, limit.step_s)
        if step is not None:
            limit.add(step.step_s)
            priced.append(layout.priced(step))
    return priced


class _Limit:
    """The longest step that may still be among the ``top`` best, or as fast as the best."""

    def __init__(self, top: int | None, tie: float = TIE) -> None:
        self.step_s = inf
        self._top, self._tie = top, tie
        self._least_s = inf
        self._best: list[float] = []  # a heap of the best steps, negative: the slowest first

    def add(self, step_s: float) -> None:
        if self._top is None:
            return
        self._least_s = min(self._least_s, step_s)
        if len(self._best) < self._top:
            heappush(self._best, -step_s)
        elif step_s < -self._best[0]:
            heapreplace(self._best, -step_s)
        if len(self._best) == self._top:
            slowest_s = max(-self._best[0], self._least_s * (1 + self._tie))
            self.step_s = slowest_s * (1 + 1e-9)  # sums may round below their bound


def _ties(priced: Iterable[Figures], best: Figures) -> Ties:
    """Count the layouts that are as fast as the best, and the choices in which they differ."""
    tied = [figures.choice for figures in priced if figures.step_s / best.step_s - 1 <= TIE]
    differ = []
    for name in LayoutChoice._fields[:-1]:  # the schedule follows
        if len({getattr(choice, name) for choice in tied}) > 1:
            differ.append(name)
    return Ties(len(tied), tuple(differ))


class FittingLayout(NamedTuple):
    """A layout that fits the memory."""

    number: int  # in the order of the search
    config: ParallelConfig
    plain: tuple[PlainCall, ...]

    def priced(self, step: TrainingStep) -> Figures:
        """Return the figures of the layout with its step."""
        size = memory_bytes(self.config)
        return Figures(step.step_s, size, self.number, step.control_s, self.config)


class _FittingLayouts:
    """Layouts of a search that fit the memory, and how many fit together."""

    def __init__(self, request: _SearchRequest, headroom: float) -> None:
        self.request, self.headroom = request, headroom
        self.valid = self.fit = 0
        device = request.job.draft.device
        assert device is not None  # without one nothing is searched
        self.capacity = device.memory_bytes
        self.room = (1 - headroom) * self.capacity
        self.smallest: Figures | None = None
        # the largest micro-batch known to fit and the smallest known not to, by the rest of the
        # layout
        self._micro_batches: dict[tuple[object, ...], tuple[int, float]] = {}

    def fitting(self, watch: Progress) -> Iterator[list[FittingLayout]]:
        """Yield for each combination of sizes the shardings and recomputations that fit."""
        request = self.request
        for done, sizes in enumerate(request.sizes):
            watch(done, len(request.sizes))
            base_layout = request.space.base_layout(sizes)
            if base_layout is None:
                continue
            base, plain = base_layout
            variants = list(request.space.variants(base))
            self.valid += len(variants)
            fitting = self._those_that_fit(variants)
            yield [
                FittingLayout(self.fit + index, config, plain)
                for index, config in enumerate(fitting)
            ]
            self.fit += len(fitting)

    def _those_that_fit(self, configs: list[ParallelConfig]) -> list[ParallelConfig]:
        """Return the layouts that fit, of all shardings from those that share least to those that
        share most."""
        found: list[ParallelConfig] = []
        fits_less_shared: set[Recomputed] = set()
        for config in configs:
            # one that gathers no weights takes no more than one that shares less
            known = config.recompute in fits_less_shared and not config.shard.strategy.weights
            if known or self.fits(config):
                found.append(config)
                fits_less_shared.add(config.recompute)
        return found

    def fits(self, config: ParallelConfig) -> bool:
        """Whether a layout fits the memory, worked out once where no smaller micro-batch was too
        large."""
        rest = config.layout, config.shard.mode, config.recompute, config.micro_batches == 1
        # with a single micro-batch no gradients are kept while the next one computes, so a larger
        # one may take less than several smaller ones
        largest, too_large = self._micro_batches.get(rest, (0, inf))
        if config.micro_batch <= largest:
            return True
        # a larger micro-batch never takes less
        if config.micro_batch >= too_large:
            return False
        fits = self._memory_fits(config)
        known = (config.micro_batch, too_large) if fits else (largest, config.micro_batch)
        self._micro_batches[rest] = known
        return fits

    def _memory_fits(self, config: ParallelConfig) -> bool:
        """Whether the worst stage of a layout fits; remembers the layout with the fewest bytes."""
        room = self.room
        if self.smallest is not None and self.smallest.memory_bytes <= room:
            # by how much others are too large is not asked once one fits
            return memory_bytes(config, enough=room) <= room
        size = memory_bytes(config)
        if self.smallest is None or size < self.smallest.memory_bytes:
            self.smallest = Figures(0.0, size, 0, 0.0, config)
        return size <= room


class _LayoutPrices:
    """Steps of layouts with their lower bounds, and why the last of those without one cannot be
    placed on the fabric."""

    def __init__(self, costs: CollectiveCostCache) -> None:
        self.costs = costs
        self.not_placed: tuple[int, ColltoolError] | None = None  # of the last layout
        self._step: TrainingStep | None = None
        self._priced: tuple[object, ...] = ()  # what was priced last
        self._placed: dict[tuple[object, ...], bool] = {}  # by what decides it
        self._groups: set[tuple[object, ...]] = set()  # that can be placed
        # passes without communication, which hundreds of layouts share
        self._compute: dict[tuple[object, ...], Pass] = {}

    def bounds(self, layouts: Iterable[list[FittingLayout]]) -> list[tuple[float, FittingLayout]]:
        """Return layouts with lower bounds of their steps, in which the network is free, and so is
        the optimizer; those of a list differ in sharding and recomputation."""
        found: list[tuple[float, FittingLayout]] = []
        for alike in layouts:
            # sharding changes nothing that is computed
            by_recompute: dict[Recomputed, float] = {}
            for layout in alike:
                config = layout.config
                if config.recompute not in by_recompute:
                    by_recompute[config.recompute] = self._least_step_s(config)
                found.append((by_recompute[config.recompute], layout))
        return found

    def _least_step_s(self, config: ParallelConfig) -> float:
        if not config.pipeline.from_layout:
            return 0.0  # dualpipe's bubble may shrink where communication makes a pass longer
        layout, stages = config.layout, pipeline_stages(config)
        shared = (
            layout.tp,
            layout.sp,
            layout.cp,
            layout.ep,
            layout.etp,
            config.micro_batch,
            config.recompute,
        )
        passes = {}
        for stage in each_kind(stages):
            key = shared, stage.kind
            if key not in self._compute:
                uncast = _without_casts(config)
                times = with_offload(uncast, stage_times(uncast, stage))
                self._compute[key] = compute_pass(times)
            passes[stage.kind] = self._compute[key]
        return passed_step_s(config, [passes[stage.kind] for stage in stages])

    def step(self, layout: FittingLayout, limit_s: float = inf) -> TrainingStep | None:
        """Return the step of a layout; None where a group cannot be placed on the fabric, or the
        step is longer than the limit."""
        # ZeRO-2 sends what ZeRO-1 sends, and is tried right after it: they share a price
        config = layout.config
        row = config.shard.strategy
        but_shard = config._replace(shard=config.shard._replace(mode="ddp"))
        sent = (row.optimizer, row.weights, row.grouped, but_shard, layout.plain)
        if sent == self._priced:
            return self._step
        self._step = self._price(layout, limit_s)
        self._priced = sent
        return self._step

    def is_placed(self, layout: FittingLayout) -> bool:
        """Whether every group of a layout can be placed on the fabric."""
        sizes = _placed_by(layout)
        if sizes not in self._placed:
            if self._all_placed(layout):
                self._placed[sizes] = True
            else:
                self._price(layout, inf)  # it says why
        return self._placed[sizes]

    def _all_placed(self, layout: FittingLayout) -> bool:
        """Whether each group has a price; their sizes do not decide it."""
        calls: list[Call | PlainCall] = [call for call in layout.plain if call.time_s is None]
        for stage in each_kind(pipeline_stages(layout.config)):
            calls += stage_calls(layout.config, stage)
        for call in calls:
            closed = isinstance(call, Call) and call.closed
            group = call.primitive, call.group, closed
            if group in self._groups:
                continue
            try:
                self.costs.of(call.primitive, call.group, call.bytes, closed=closed)
            except ColltoolError:
                return False
            self._groups.add(group)
        return True

    def _price(self, layout: FittingLayout, limit_s: float) -> TrainingStep | None:
        """The step of a layout, as :meth:`step`; remembers whether its sizes can be placed."""
        sizes = _placed_by(layout)
        try:
            if self._is_above(layout.config, limit_s):
                return None
            step = step_time(layout.config, self.costs, layout.plain)
        except ColltoolError as error:
            self._placed[sizes] = False
            if self.not_placed is None or layout.number > self.not_placed[0]:
                self.not_placed = layout.number, error
            return None
        self._placed[sizes] = True
        return step

    def _is_above(self, config: ParallelConfig, limit_s: float) -> bool:
        """Whether micro-batches with their calls alone take longer than a limit."""
        if limit_s == inf:
            return False
        stages = pipeline_stages(config)
        passes = {}
        for stage in each_kind(stages):
            passes[stage.kind] = micro_batch_pass(config, stage, self.costs)
        return passed_step_s(config, [passes[stage.kind] for stage in stages]) > limit_s


def _without_casts(config: ParallelConfig) -> ParallelConfig:
    """Return a configuration that casts no weights: how many it would cast depends on sharding."""
    return config._replace(shard=Shard(), precision=config.precision._replace(params="bf16"))


def _placed_by(layout: FittingLayout) -> tuple[object, ...]:
    """Return what decides whether a layout can be placed: its sizes.

    Micro-batches, more chunks and recomputation change what is sent, not between whom.
    """
    config = layout.config
    sizes = config.layout._replace(virtual=min(config.layout.virtual, 2))
    return sizes, config.shard.strategy, layout.plain


class FastestLayout(NamedTuple):
    """The best layout of a search, and the keys and values that pin it."""

    choice: LayoutChoice
    values: tuple[tuple[str, str], ...]


def fastest_layout(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    keep: Keep | None = None,
    *,
    readings: ModelOptions | None = None,
) -> FastestLayout:
    """Return the best layout of :func:`search`, sooner: nothing is counted, and no ties are
    priced."""
    request = _search_request(job, fabric, ranks, keep)
    prices = _LayoutPrices(CollectiveCostCache(job_slice(fabric, request.ranks), readings))
    priced = _BestFirst(request, prices).priced(running_watch())
    if not priced:
        # it refuses, with all reasons
        values = search(job, fabric, ranks, keep, top=1, readings=readings)
        return FastestLayout(values.best.choice, values.values)
    best = min(priced)
    refuse_impossible_step(request.job, best.step_s, rates(best.setup, best.step_s)[1])
    return FastestLayout(best.choice, pinning_keys(request.job, best.setup))


class _Shardings(NamedTuple):
    """Layouts that differ in sharding only."""

    number: int  # of their sizes, in the order of the search
    sizes: Sizes
    recompute: Recomputed


class _LayerSplit(NamedTuple):
    """Layouts that split a layer alike, with one recomputation."""

    whole: ParallelConfig  # on a single stage
    alternatives: list[_Shardings]


class _Open(NamedTuple):
    """What may hold the fastest layout, with a lower bound of its steps."""

    least_s: float
    order: int  # of those with one bound
    of: _LayerSplit | _Shardings


class _BestFirst:
    """Search for the fastest layout alone, which looks closer only where it may be.

    Of all that is left, what has the least bound comes next. A split of a layer, whose bound is from
    the compute of all layers, becomes sizes with a bound from the calls of these layers too; the
    shardings of sizes that fit are priced. The fastest is known once the next bound is above it.
    """

    def __init__(self, request: _SearchRequest, prices: _LayoutPrices) -> None:
        self._request, self._space, self._prices = request, request.space, prices
        self._layouts = _FittingLayouts(request, usual_headroom())
        draft, overlap = request.job.draft, request.job.file.overlap
        on_ranks = draft.layout._replace(tp=1, cp=1, pp=1, dp=request.ranks)
        self._fixed_s, self._jitter = fixed_and_jitter(draft._replace(layout=on_ranks))
        # whether calls of a layer take as long on a single stage: groups are the same, and nothing
        # hides in some layouts only
        asked = overlap.tp or overlap.cp or overlap.ep or overlap.dp or overlap.pp
        self._same_calls = (
            draft.layout.order[-1] == "pp" and draft.pipeline.from_layout and not asked
        )
        self._first_stages: dict[tuple[int, int], tuple[PipelineSchedule, PipelineStage]] = {}
        self._parameters: dict[tuple[int, int, PipelineStage], RankParameters] = {}
        self._least_states: dict[tuple[int, int, bool], float] = {}

    def priced(self, watch: Progress | None) -> list[Figures]:
        """Return the layouts that are as fast as any other, and those priced before them."""
        splits = self._splits()
        order = count()
        left: list[_Open] = []
        for split in splits:
            compute_s = self._compute_s(split.whole)
            least_s = min(
                self._least_s(shardings.sizes, compute_s) for shardings in split.alternatives
            )
            heappush(left, _Open(least_s, next(order), split))
        limit, opened = _Limit(1, tie=0.0), 0
        priced: list[Figures] = []
        while left and left[0].least_s <= limit.step_s:
            of = heappop(left).of
            if isinstance(of, _Shardings):
                priced += self._priced_shardings(of, limit)
                continue
            if watch is not None:
                watch(opened, len(splits))
            opened += 1
            with_calls_s = self._with_calls_s(of.whole)
            for shardings in of.alternatives:
                least_s = self._least_s(shardings.sizes, with_calls_s)
                heappush(left, _Open(least_s, next(order), shardings))
        return priced

    def _priced_shardings(self, shardings: _Shardings, limit: _Limit) -> Iterator[Figures]:
        """Yield the layouts of sizes that fit, unless they take longer than the limit."""
        base_layout = self._space.base_layout(shardings.sizes)
        if base_layout is None:
            return
        base, plain = base_layout
        for place, config in enumerate(self._space.variants(base)):
            if config.recompute == shardings.recompute and self._layouts.fits(config):
                layout = FittingLayout(shardings.number * MOST_VARIANTS + place, config, plain)
                step = self._prices.step(layout, limit.step_s)
                if step is not None:
                    limit.add(step.step_s)
                    yield layout.priced(step)

    def _splits(self) -> list[_LayerSplit]:
        """Sort all sizes that may fit by how they split a layer."""
        by_split: dict[Sizes, list[tuple[int, Sizes]]] = {}
        for number, sizes in enumerate(self._request.sizes):
            whole = sizes._replace(pp=1, virtual=1, dp=sizes.dp * sizes.pp)
            by_split.setdefault(whole, []).append((number, sizes))
        found = []
        for whole, alike in by_split.items():
            unsharded = _without_casts(self._space.config(whole))
            for recompute in self._space.recomputes:
                config = unsharded._replace(recompute=recompute)
                layer_bytes = least_layer_bytes(config)
                alternatives = []
                for number, sizes in alike:
                    if self._may_fit(config, sizes, layer_bytes):
                        alternatives.append(_Shardings(number, sizes, recompute))
                if alternatives:
                    found.append(_LayerSplit(config, alternatives))
        return found

    def _least_s(self, sizes: Sizes, whole_s: float) -> float:
        """The lower bound of a step whose stages all take the mean of what the whole model takes
        for a micro-batch.

        The slowest stage of any split takes the mean or more, and what it takes more counts m times
        in the passes and at most once less in the bubble of the others.
        """
        draft = self._request.job.draft
        mean_s = whole_s / sizes.pp
        passes_s = mean_s * self._micro_batches(sizes)
        if draft.pipeline.from_layout:
            passes_s += (whole_s - mean_s) / sizes.virtual
        return (1 + self._jitter) * (passes_s + self._fixed_s)

    def _compute_s(self, whole: ParallelConfig) -> float:
        """Compute of a micro-batch on a single stage."""
        (stage,) = pipeline_stages(whole)
        try:
            return compute_pass(stage_times(whole, stage)).total_s
        except ColltoolError:
            return 0.0  # what the device cannot do is refused as a layout

    def _with_calls_s(self, whole: ParallelConfig) -> float:
        """A micro-batch on a single stage with the calls of its layers, where other stages have the
        same."""
        if self._same_calls:
            (stage,) = pipeline_stages(whole)
            try:
                return micro_batch_pass(whole, stage, self._prices.costs).total_s
            except ColltoolError:
                pass  # what cannot be placed is refused as a layout
        return self._compute_s(whole)

    def _may_fit(
        self, whole: ParallelConfig, sizes: Sizes, layer_bytes: tuple[float, float]
    ) -> bool:
        """Whether what the first stage keeps and its states fit, in the sharding with the fewest.

        Both are there at once, whatever else is; no layout takes less than its first stage.
        """
        schedule, stage = self._first_stage(sizes)
        m = self._micro_batches(sizes)
        in_flight = 1.0
        if sizes.pp > 1:
            in_flight = schedule.in_flight(PipelinePlace(m, sizes.pp, sizes.virtual, sizes.pp))
        dense, experts = layer_bytes
        least = in_flight * (stage.dense_layers * dense + stage.moe_layers * experts)
        if least > self._layouts.room:
            return False
        key = sizes.tp, sizes.ep, stage
        if key not in self._parameters:
            self._parameters[key] = stage_parameters(whole, stage)
        parameters, layout = self._parameters[key], whole.layout
        least += parameters.dense * self._state_bytes(sizes.dp * sizes.cp, sizes.pp, m)
        if parameters.experts:
            replicas = max(1, self._request.ranks // (sizes.pp * sizes.ep * layout.etp))
            least += parameters.experts * self._state_bytes(replicas, sizes.pp, m)
        return least <= self._layouts.room

    def _micro_batches(self, sizes: Sizes) -> int:
        return max(1, self._request.job.draft.global_batch // (sizes.dp * sizes.micro))

    def _first_stage(self, sizes: Sizes) -> tuple[PipelineSchedule, PipelineStage]:
        """Return the first stage, which keeps the most micro-batches, and its schedule."""
        key = sizes.pp, sizes.virtual
        if key not in self._first_stages:
            config = self._space.config(sizes)
            self._first_stages[key] = config.pipeline, pipeline_stages(config)[0]
        return self._first_stages[key]

    def _state_bytes(self, replicas: int, pp: int, micro_batches: int) -> float:
        """Bytes a parameter in the sharding with the fewest; gradients of a single micro-batch may
        come once activations are gone, and adapters have states of their own."""
        draft, pp, gradients = self._request.job.draft, min(pp, 2), micro_batches > 1
        key = replicas, pp, gradients
        if key not in self._least_states:
            least = inf
            for shard in self._space.shards(draft.layout._replace(pp=pp)):
                state = state_bytes(draft._replace(shard=shard), replicas)
                size = state.weight
                if shard.shards_weights and not shard.reshard:
                    size += draft.precision.param_bytes
                if not draft.lora:
                    size += (1 - draft.offload.optimizer) * state.optimizer
                    size += state.gradient if gradients else 0.0
                least = min(least, size)
            self._least_states[key] = least
        return self._least_states[key]


def usual_headroom() -> float:
    """Share of memory to leave free so that nine runs in ten fit, as published runs took more than
    their plans."""
    return max(0.0, 1 - 1 / memory_error().high)


def _model_to_search(job: Job) -> tuple[TransformerModel, Shape]:
    """Return the model of a job with its shape; ColltoolError where other layouts cannot be priced."""
    draft = job.draft
    if draft.model is None or draft.model.shape is None:
        problem = f"{job.name} has no model"
        if draft.model is not None:
            problem = f"{draft.model.name} has no shape"
        raise ColltoolError(
            f"{problem}: the compute and memory of other layouts are unknown",
            where=job.where(("model",)),
            fix="give a shipped model such as llama3-70b, or hidden, heads, ffn and vocab",
        )
    if draft.compute is not None:
        problem = f"{job.name} gives times of one layout only; a search compares others"
        raise ColltoolError(
            problem,
            where=job.where(("compute",)),
            fix="device: h100 and stack: megatron in place of compute",
        )
    return draft.model, draft.model.shape


def _own_layout(job: Job, ranks: int, costs: CollectiveCostCache, best: Figures) -> OwnLayout:
    """Price the job's own layout, or say why that is not possible."""
    if job.drafted:
        return OwnLayout(None, None, "")  # it has none
    try:
        config = job.setup(ranks)
        step = step_time(config, costs, job.plain_calls(config))
    except ColltoolError as error:
        return OwnLayout(None, None, localize(error.what).splitlines()[0])
    size = memory(config)
    return OwnLayout(
        Figures(step.step_s, size.bytes, 0, step.control_s, config).compared_with(best),
        size.fits,
        "",
    )


def _no_layout(layouts: _FittingLayouts, prices: _LayoutPrices) -> ColltoolError:
    """Return the error of a search without a layout: none can be placed on the fabric, none fits
    the memory, or none fits together."""
    request = layouts.request
    job, kept, space = request.job, request.kept, request.space
    if prices.not_placed is not None:
        _, error = prices.not_placed
        fix = (
            f"{counted(layouts.fit, 'layout')} fit the memory, none can be placed on the fabric:"
            f" {localize(error.what)}; {localize(error.fix)}"
        )
    elif layouts.smallest is not None:
        capacity = format_bytes(layouts.capacity, 3)
        if layouts.headroom:
            capacity += f" less {percent(layouts.headroom)} headroom"
        smallest = layouts.smallest
        fix = (
            f"{counted(layouts.valid, 'layout')} fill the ranks, none fits {capacity}: the smallest takes"
            f" {format_bytes(smallest.memory_bytes, 3)} ({smallest.choice.text}); take more ranks, or"
            " keep less"
        )
    else:
        reasons = [
            f"{count} refused for {key}: {space.examples[key].what}"
            for key, count in space.refused.most_common(MAX_REASONS)
        ]
        fix = "; ".join(reasons) or "all are refused"
    what = f"no layout of {job.name} on {request.ranks} ranks"
    if not kept.values:
        return ColltoolError(what, argument="ranks", fix=fix)
    return ColltoolError(f"{what} with {kept.text}", argument=request.kept_by, fix=fix)
