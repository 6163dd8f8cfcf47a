"""The fastest layout of a job alone, found sooner than by pricing all: :func:`fastest_layout`.

A best-first search (:class:`_BestFirst`): of all groups of layouts that are left, the one with the
least lower bound is taken apart next.

_LayerSplit   layouts that split a layer alike, with one recomputation
_Shardings    of these, layouts of the same sizes, which differ in sharding only
_Unexplored   either of them, with the lower bound of its steps

What is searched is a :class:`SearchRequest`, whose ``space`` makes layouts of sizes; what fits and
what it takes say :mod:`layout_prices`, as for a search of all layouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.result import running_watch
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.compute_times import stage_times
from colltool.training.files import Recomputed
from colltool.training.group_fit import job_slice
from colltool.training.job import Job
from colltool.training.job_device import refuse_impossible_step
from colltool.training.layout_keys import pinning_keys
from colltool.training.layout_prices import (
    FittingLayout,
    FittingLayouts,
    LayoutPrices,
    StepLimit,
    usual_headroom,
    without_casts,
)
from colltool.training.layout_results import FastestLayout, LayoutFigures
from colltool.training.layout_search import search
from colltool.training.memory import least_layer_bytes, state_bytes
from colltool.training.parallel_config import ParallelConfig
from colltool.training.pipeline_stages import (
    PipelineStage,
    RankParameters,
    pipeline_stages,
    stage_parameters,
)
from colltool.training.plan import rates
from colltool.training.search_request import Progress, SearchRequest, search_request
from colltool.training.search_space import Sizes
from colltool.training.stage_step import compute_pass, micro_batch_pass
from colltool.training.step_time import fixed_and_jitter
from colltool.training.strategies import PipelinePlace, PipelineSchedule

# More than the shardings and recomputations of any sizes. The number of a layout is that of its sizes
# times this, plus its place among them, so layouts are numbered in the order of the search.
MOST_VARIANTS = 1024


def fastest_layout(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    readings: ModelOptions | None = None,
) -> FastestLayout:
    """Return the best layout of :func:`search`, sooner: nothing is counted, and no ties are
    priced.

    Raises:
        ColltoolError: none fits, as :func:`search` says.
    """
    request = search_request(job, fabric, ranks, None)
    prices = LayoutPrices(CollectiveCostCache(job_slice(fabric, request.ranks), readings))
    priced = _BestFirst(request, prices).priced(running_watch())
    if not priced:
        # it raises, with all reasons why none fits
        result = search(job, fabric, ranks, top=1, readings=readings)
        return FastestLayout(result.best.choice, result.values)
    best = min(priced)
    _, mfu = rates(best.setup, best.step_s)
    refuse_impossible_step(request.job, best.step_s, mfu)
    return FastestLayout(best.choice, pinning_keys(request.job, best.setup))


class _Shardings(NamedTuple):
    """Layouts that differ in sharding only."""

    number: int  # index of their sizes in the order of the search
    sizes: Sizes
    recompute: Recomputed  # that all of them have


class _LayerSplit(NamedTuple):
    """Layouts that split a layer alike, with one recomputation: of the same tp, cp, ep and
    micro-batch."""

    single_stage: ParallelConfig  # the one without a pipeline: bounds follow from its micro-batch
    alternatives: list[_Shardings]  # for each of the sizes that may fit


class _Unexplored(NamedTuple):
    """What may hold the fastest layout, with a lower bound of its steps; the least bound compares as
    smaller."""

    bound_s: float  # no step of it is shorter
    order: int  # counts what was found before it; decides between equal bounds, as layouts do not compare
    layouts: _LayerSplit | _Shardings


class _BestFirst:
    """Search for the fastest layout alone, which looks closer only where it may be.

    Of all that is left, what has the least bound comes next (:meth:`priced`). A split of a layer,
    whose bound is from the compute of all layers, becomes sizes with a bound from the calls of these
    layers too; the shardings of sizes that fit are priced. The fastest is known once the next bound
    is above it.
    """

    def __init__(self, request: SearchRequest, prices: LayoutPrices) -> None:
        self._request = request
        self._space = request.space
        self._prices = prices
        self._fitting = FittingLayouts(request, usual_headroom())
        draft = request.job.draft
        overlap = request.job.file.overlap
        on_ranks = draft.layout._replace(tp=1, cp=1, pp=1, dp=request.ranks)
        self._fixed_s, self._jitter = fixed_and_jitter(draft._replace(layout=on_ranks))
        # whether calls of a layer take as long on a single stage: groups are the same, and nothing
        # hides in some layouts only
        hides_by_key = overlap.tp or overlap.cp or overlap.ep or overlap.dp or overlap.pp
        self._same_calls = (
            draft.layout.order[-1] == "pp" and draft.pipeline.is_default and not hides_by_key
        )
        # each worked out once: by (pp, virtual), by (tp, ep, stage), and by (replicas, pp up to 2,
        # whether gradients are kept)
        self._first_stages: dict[tuple[int, int], tuple[PipelineSchedule, PipelineStage]] = {}
        self._parameters: dict[tuple[int, int, PipelineStage], RankParameters] = {}
        self._least_states: dict[tuple[int, int, bool], float] = {}

    def priced(self, watch: Progress | None) -> list[LayoutFigures]:
        """Return the layouts that are as fast as any other, and those priced before them; empty
        where none fits. ``watch`` is told how many splits of how many were taken apart."""
        splits = self._splits()
        order = count()
        unexplored: list[_Unexplored] = []  # a heap, the least bound first
        for split in splits:
            compute_s = self._compute_s(split.single_stage)
            bound_s = min(
                self._bound_s(shardings.sizes, compute_s) for shardings in split.alternatives
            )
            heappush(unexplored, _Unexplored(bound_s, next(order), split))
        limit = StepLimit(1, tie=0.0)  # the fastest step so far
        opened = 0  # splits that were taken apart
        priced: list[LayoutFigures] = []
        while unexplored and unexplored[0].bound_s <= limit.step_s:
            layouts = heappop(unexplored).layouts
            if isinstance(layouts, _Shardings):
                priced += self._priced_shardings(layouts, limit)
                continue
            if watch is not None:
                watch(opened, len(splits))
            opened += 1
            with_calls_s = self._with_calls_s(layouts.single_stage)
            for shardings in layouts.alternatives:
                bound_s = self._bound_s(shardings.sizes, with_calls_s)
                heappush(unexplored, _Unexplored(bound_s, next(order), shardings))
        return priced

    def _priced_shardings(self, shardings: _Shardings, limit: StepLimit) -> Iterator[LayoutFigures]:
        """Yield the layouts that fit, but those that take longer than the limit or have no place on
        the fabric. ``limit`` falls to the fastest of them."""
        base_layout = self._space.base_layout(shardings.sizes)
        if base_layout is None:
            return
        base, plain = base_layout
        # all shardings and recomputations of the sizes, of which one recomputation is meant here
        for place, config in enumerate(self._space.variants(base)):
            if config.recompute == shardings.recompute and self._fitting.fits(config):
                layout = FittingLayout(shardings.number * MOST_VARIANTS + place, config, plain)
                step = self._prices.step(layout, limit.step_s)
                if step is not None:
                    limit.add(step.step_s)
                    yield layout.priced(step)

    def _splits(self) -> list[_LayerSplit]:
        """Return all sizes that may fit, by how they split a layer and what is recomputed."""
        # by the sizes without a pipeline: (index, sizes) of all that split a layer like them
        by_split: dict[Sizes, list[tuple[int, Sizes]]] = {}
        for number, sizes in enumerate(self._request.sizes):
            single_stage = sizes._replace(pp=1, virtual=1, dp=sizes.dp * sizes.pp)
            by_split.setdefault(single_stage, []).append((number, sizes))
        splits = []
        for single_stage, alike in by_split.items():
            unsharded = without_casts(self._space.config(single_stage))
            for recompute in self._space.recomputes:
                config = unsharded._replace(recompute=recompute)
                layer_bytes = least_layer_bytes(config)
                alternatives = [
                    _Shardings(number, sizes, recompute)
                    for number, sizes in alike
                    if self._may_fit(config, sizes, layer_bytes)
                ]
                if alternatives:
                    splits.append(_LayerSplit(config, alternatives))
        return splits

    def _bound_s(self, sizes: Sizes, model_s: float) -> float:
        """Return a lower bound of a step, from the seconds W of a micro-batch on the whole model,
        ``model_s``: m W/p + (W - W/p)/v, with the fixed time and jitter on top.

        That is the step of a pipeline whose stages all take the mean, W/p. With other stages the
        slowest takes more, which counts m times in its passes and is missing at most once in the
        bubble, the time of the others. The bubble is left out of schedules that may have none.
        """
        draft = self._request.job.draft
        mean_s = model_s / sizes.pp
        passes_s = mean_s * self._micro_batches(sizes)
        if draft.pipeline.is_default:
            passes_s += (model_s - mean_s) / sizes.virtual
        return (1 + self._jitter) * (passes_s + self._fixed_s)

    def _compute_s(self, single_stage: ParallelConfig) -> float:
        """Seconds of compute of a micro-batch on a single stage; 0, a bound of any, where that is
        not known."""
        (stage,) = pipeline_stages(single_stage)
        try:
            return compute_pass(stage_times(single_stage, stage)).total_s
        except ColltoolError:
            return 0.0  # what the device cannot do is refused when a layout is priced

    def _with_calls_s(self, single_stage: ParallelConfig) -> float:
        """Seconds of a micro-batch on a single stage with the calls of its layers, where other stages
        have the same; else of its compute alone."""
        if self._same_calls:
            (stage,) = pipeline_stages(single_stage)
            try:
                return micro_batch_pass(single_stage, stage, self._prices.costs).total_s
            except ColltoolError:
                pass  # what cannot be placed is refused when a layout is priced
        return self._compute_s(single_stage)

    def _may_fit(
        self, single_stage: ParallelConfig, sizes: Sizes, layer_bytes: tuple[float, float]
    ) -> bool:
        """Whether the activations and states of the first stage fit, in the sharding that keeps the
        fewest bytes; where they do not, no layout of these sizes fits.

        Args:
            single_stage: the same split of a layer without a pipeline.
            sizes: the sizes of the layout.
            layer_bytes: activations of a micro-batch in a layer (without experts, with experts).
        """
        schedule, stage = self._first_stage(sizes)
        m = self._micro_batches(sizes)
        in_flight = 1.0
        if sizes.pp > 1:
            in_flight = schedule.in_flight(PipelinePlace(m, sizes.pp, sizes.virtual, sizes.pp))
        dense_bytes, moe_bytes = layer_bytes
        kept_bytes = stage.dense_layers * dense_bytes + stage.moe_layers * moe_bytes
        least_bytes = in_flight * kept_bytes
        # most that do not fit are known before their states
        if least_bytes > self._fitting.room:
            return False
        key = sizes.tp, sizes.ep, stage
        if key not in self._parameters:
            self._parameters[key] = stage_parameters(single_stage, stage)
        parameters = self._parameters[key]
        layout = single_stage.layout
        least_bytes += parameters.dense * self._state_bytes(sizes.dp * sizes.cp, sizes.pp, m)
        if parameters.experts:
            replicas = max(1, self._request.ranks // (sizes.pp * sizes.ep * layout.etp))
            least_bytes += parameters.experts * self._state_bytes(replicas, sizes.pp, m)
        return least_bytes <= self._fitting.room

    def _micro_batches(self, sizes: Sizes) -> int:
        """Micro-batches of a replica in a step, as of :class:`ParallelConfig`."""
        return max(1, self._request.job.draft.global_batch // (sizes.dp * sizes.micro))

    def _first_stage(self, sizes: Sizes) -> tuple[PipelineSchedule, PipelineStage]:
        """Return the schedule of a layout of these sizes and its first stage, which keeps the most
        micro-batches."""
        key = sizes.pp, sizes.virtual
        if key not in self._first_stages:
            config = self._space.config(sizes)
            self._first_stages[key] = config.pipeline, pipeline_stages(config)[0]
        return self._first_stages[key]

    def _state_bytes(self, replicas: int, pp: int, micro_batches: int) -> float:
        """Bytes of states a parameter, in the sharding with the fewest over so many replicas.

        Gradients count where there are several micro-batches: those of a single one may come once
        activations are gone. Of a model with adapters only weights count, as only adapters have
        gradients and optimizer states.
        """
        draft = self._request.job.draft
        pp = min(pp, 2)  # all pipelines allow the same shardings, so 2 stands for any
        keeps_gradients = micro_batches > 1
        key = replicas, pp, keeps_gradients
        if key not in self._least_states:
            least_bytes = inf
            for shard in self._space.shards(draft.layout._replace(pp=pp)):
                state = state_bytes(draft._replace(shard=shard), replicas)
                size = state.weight
                # FSDP's gathered layers stay for the whole step
                if shard.shards_weights and not shard.reshard:
                    size += draft.precision.param_bytes
                if not draft.lora:
                    size += (1 - draft.offload.optimizer) * state.optimizer
                    size += state.gradient if keeps_gradients else 0.0
                least_bytes = min(least_bytes, size)
            self._least_states[key] = least_bytes
        return self._least_states[key]
