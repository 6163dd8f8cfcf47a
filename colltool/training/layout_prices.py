"""Which layouts fit the memory and how long their steps take, each worked out once: what both
searches of layouts ask (:mod:`layout_search`, :mod:`fastest_layout`).

    FittingLayouts   the layouts that fit, of which a FittingLayout is one
    LayoutPrices     steps and lower bounds, and why a layout cannot be placed on the fabric
    StepLimit        the longest step that still matters
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappush, heapreplace
from math import inf
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.calls import Call, stage_calls
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.compute_times import stage_times
from colltool.training.files import Recomputed
from colltool.training.job import PlainCall
from colltool.training.layout_results import TIE, LayoutFigures
from colltool.training.memory import memory_bytes
from colltool.training.offload import with_offload
from colltool.training.parallel_config import ParallelConfig, Shard
from colltool.training.pipeline_stages import PipelineStage, each_kind, once_a_kind, pipeline_stages
from colltool.training.published import memory_error
from colltool.training.search_request import Progress, SearchRequest
from colltool.training.stage_step import compute_pass, micro_batch_pass
from colltool.training.step_time import TrainingStep, passed_step_s, step_time
from colltool.training.strategies import Pass


def usual_headroom() -> float:
    """Share of memory to leave free so that nine runs in ten fit, as published runs took more than
    their plans."""
    return max(0.0, 1 - 1 / memory_error().high)


class StepLimit:
    """The longest step that may still be among the ``top`` best, or as fast as the best."""

    def __init__(self, top: int | None, tie: float = TIE) -> None:
        """``top`` None: every step matters; ``tie``: share above the best that counts as fast."""
        self.step_s = inf
        self._top = top
        self._tie = tie
        self._least_s = inf
        self._best: list[float] = []  # a heap of the best steps, negative: the slowest first

    def add(self, step_s: float) -> None:
        """Count a step, which may lower the limit."""
        if self._top is None:
            return
        self._least_s = min(self._least_s, step_s)
        if len(self._best) < self._top:
            heappush(self._best, -step_s)
        elif step_s < -self._best[0]:
            heapreplace(self._best, -step_s)
        if len(self._best) == self._top:
            slowest_s = max(-self._best[0], self._least_s * (1 + self._tie))
            self.step_s = slowest_s * (1 + 1e-9)  # a sum may round to less than its lower bound


class FittingLayout(NamedTuple):
    """A layout that fits the memory."""

    number: int  # in the order of the search
    config: ParallelConfig
    plain: tuple[PlainCall, ...]  # calls that the job lists itself, on the groups of the layout

    def priced(self, step: TrainingStep) -> LayoutFigures:
        """Return the figures of the layout with its step."""
        needed_bytes = memory_bytes(self.config)
        return LayoutFigures(step.step_s, needed_bytes, self.number, step.control_s, self.config)


class FittingLayouts:
    """Layouts of a search that fit the memory, of all that fit together.

    Attributes:
        valid: how many fit together so far.
        fit: how many of these fit the memory.
        capacity: bytes of a device.
        room: bytes of it that a layout may take.
        smallest: the layout that takes the fewest bytes, to say by how much none fits; its step is
            not priced. None before the first.
    """

    def __init__(self, request: SearchRequest, headroom: float) -> None:
        self.request = request
        self.headroom = headroom
        self.valid = self.fit = 0
        device = request.job.draft.device
        assert device is not None  # without one nothing is searched
        self.capacity = device.memory_bytes
        self.room = (1 - headroom) * self.capacity
        self.smallest: LayoutFigures | None = None
        # the largest micro-batch known to fit and the smallest known not to, by the rest of the
        # layout; (0, inf) while neither is known
        self._micro_batches: dict[tuple[object, ...], tuple[int, float]] = {}

    def layouts(self, watch: Progress) -> Iterator[list[FittingLayout]]:
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
            fitting = self._fitting_of(variants)
            yield [
                FittingLayout(self.fit + index, config, plain)
                for index, config in enumerate(fitting)
            ]
            self.fit += len(fitting)

    def _fitting_of(self, configs: list[ParallelConfig]) -> list[ParallelConfig]:
        """Return the layouts that fit, of layouts that differ in sharding and recomputation; the
        shardings stand from those that share least to those that share most, as in their table."""
        fitting: list[ParallelConfig] = []
        fitting_recomputes: set[Recomputed] = set()
        for config in configs:
            # one that gathers no weights takes no more than those before it, which share less
            gathers = config.shard.strategy.weights
            is_known = config.recompute in fitting_recomputes and not gathers
            if is_known or self.fits(config):
                fitting.append(config)
                fitting_recomputes.add(config.recompute)
        return fitting

    def fits(self, config: ParallelConfig) -> bool:
        """Whether a layout fits the memory; a micro-batch that is known to fit answers for smaller
        ones of the same layout, one that does not for larger ones."""
        # with a single micro-batch no gradients are kept while the next one computes, so a larger
        # one may take less than several smaller ones
        is_single = config.micro_batches == 1
        but_micro_batch = config.layout, config.shard.mode, config.recompute, is_single
        largest, too_large = self._micro_batches.get(but_micro_batch, (0, inf))
        if config.micro_batch <= largest:
            return True
        # a larger micro-batch never takes less
        if config.micro_batch >= too_large:
            return False
        fits = self._memory_fits(config)
        limits = (config.micro_batch, too_large) if fits else (largest, config.micro_batch)
        self._micro_batches[but_micro_batch] = limits
        return fits

    def _memory_fits(self, config: ParallelConfig) -> bool:
        """Whether the worst stage of a layout fits; remembers the layout with the fewest bytes."""
        room = self.room
        if self.smallest is not None and self.smallest.memory_bytes <= room:
            # by how much others are too large is not asked once one fits
            return memory_bytes(config, enough=room) <= room
        needed_bytes = memory_bytes(config)
        if self.smallest is None or needed_bytes < self.smallest.memory_bytes:
            self.smallest = LayoutFigures(0.0, needed_bytes, 0, 0.0, config)
        return needed_bytes <= room


class LayoutPrices:
    """Steps of layouts with their lower bounds, and why the last of those without one cannot be
    placed on the fabric."""

    def __init__(self, costs: CollectiveCostCache) -> None:
        self.costs = costs
        # number and error of the last layout that cannot be placed
        self.not_placed: tuple[int, ColltoolError] | None = None
        self._last_sent: tuple[object, ...] = ()  # what the layout that was priced last sends
        self._last_step: TrainingStep | None = None
        self._placed: dict[tuple[object, ...], bool] = {}  # by what decides it
        self._placed_groups: set[tuple[object, ...]] = set()
        # passes without communication, which hundreds of layouts share
        self._compute_passes: dict[tuple[object, ...], Pass] = {}

    def bounds(self, layouts: Iterable[list[FittingLayout]]) -> list[tuple[float, FittingLayout]]:
        """Return layouts with lower bounds of their steps, in which the network is free, and so is
        the optimizer; those of a list differ in sharding and recomputation."""
        bounds: list[tuple[float, FittingLayout]] = []
        for same_sizes in layouts:
            # sharding changes nothing that is computed
            least_s: dict[Recomputed, float] = {}
            for layout in same_sizes:
                config = layout.config
                if config.recompute not in least_s:
                    least_s[config.recompute] = self._least_step_s(config)
                bounds.append((least_s[config.recompute], layout))
        return bounds

    def _least_step_s(self, config: ParallelConfig) -> float:
        """The lower bound of a step: its compute alone, without the optimizer."""
        if not config.pipeline.is_default:
            return 0.0  # dualpipe's bubble may shrink where communication makes a pass longer
        stages = pipeline_stages(config)
        # what a layer's compute depends on, of all that a search varies
        but_pipeline = config.layout._replace(pp=1, virtual=1, dp=1, stages=())

        def compute_only(stage: PipelineStage) -> Pass:
            key = but_pipeline, config.micro_batch, config.recompute, stage.kind
            if key not in self._compute_passes:
                uncast = without_casts(config)
                times = with_offload(uncast, stage_times(uncast, stage))
                self._compute_passes[key] = compute_pass(times)
            return self._compute_passes[key]

        return passed_step_s(config, once_a_kind(stages, compute_only))

    def step(self, layout: FittingLayout, limit_s: float = inf) -> TrainingStep | None:
        """Return the step of a layout; None where a group cannot be placed on the fabric, or the
        step is longer than the limit."""
        # ZeRO-2 sends what ZeRO-1 sends, and is tried right after it: they share a price
        config = layout.config
        sharding = config.shard.strategy
        but_mode = config._replace(shard=config.shard._replace(mode="ddp"))
        sent = (sharding.optimizer, sharding.weights, sharding.grouped, but_mode, layout.plain)
        if sent != self._last_sent:
            self._last_step = self._price(layout, limit_s)
            self._last_sent = sent
        return self._last_step

    def can_be_placed(self, layout: FittingLayout) -> bool:
        """Whether every group of a layout can be placed on the fabric."""
        sizes = _placed_by(layout)
        if sizes not in self._placed:
            # the price of a layout that cannot be placed keeps the error, for a search without layouts
            self._placed[sizes] = (
                self._groups_can_be_placed(layout) or self._price(layout, inf) is not None
            )
        return self._placed[sizes]

    def _groups_can_be_placed(self, layout: FittingLayout) -> bool:
        """Whether each group has a price; bytes do not decide it."""
        calls: list[Call | PlainCall] = [call for call in layout.plain if call.time_s is None]
        for stage in each_kind(pipeline_stages(layout.config)):
            calls += stage_calls(layout.config, stage)
        for call in calls:
            closed = isinstance(call, Call) and call.closed
            group = call.primitive, call.group, closed
            if group in self._placed_groups:
                continue
            try:
                self.costs.of(call.primitive, call.group, call.bytes, closed=closed)
            except ColltoolError:
                return False
            self._placed_groups.add(group)
        return True

    def _price(self, layout: FittingLayout, limit_s: float) -> TrainingStep | None:
        """Price the step of a layout, None as of :meth:`step`; remembers whether its sizes can be
        placed, and the error of the last layout that cannot."""
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
        passes = once_a_kind(
            pipeline_stages(config), lambda stage: micro_batch_pass(config, stage, self.costs)
        )
        return passed_step_s(config, passes) > limit_s


def without_casts(config: ParallelConfig) -> ParallelConfig:
    """Return a configuration that casts no weights: how many it would cast depends on sharding."""
    return config._replace(shard=Shard(), precision=config.precision._replace(params="bf16"))


def _placed_by(layout: FittingLayout) -> tuple[object, ...]:
    """Return what decides whether a layout can be placed: its sizes.

    Micro-batches, recomputation and more than two chunks change what is sent, not between whom; with
    two the last stage sends to the first.
    """
    config = layout.config
    sizes = config.layout._replace(virtual=min(config.layout.virtual, 2))
    return sizes, config.shard.strategy, layout.plain
