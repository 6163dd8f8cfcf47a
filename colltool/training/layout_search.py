"""The search of a job's layouts on one fabric: :func:`search` prices those that fit the memory with
the step of ``plan``.

Read first what is searched (:mod:`search_request`, whose sizes come from :mod:`search_space`), then
which layouts fit and what they take (:mod:`layout_prices`); here they are priced, the least bound
first, and compared. Where only the best are wanted, layouts are skipped whose lower bound says that
they are not among them. A search without a layout says why (:func:`_no_layout`). The best layout alone
is found sooner by :mod:`fastest_layout`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from heapq import nsmallest
from operator import itemgetter

from colltool.base.errors import ColltoolError, localize
from colltool.base.formatting import counted, format_bytes, percent
from colltool.base.result import running_watch
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.files import written
from colltool.training.group_fit import job_slice
from colltool.training.job import Job
from colltool.training.job_device import refuse_impossible_step
from colltool.training.layout_constraints import Keep
from colltool.training.layout_keys import pinning_keys
from colltool.training.layout_prices import (
    FittingLayout,
    FittingLayouts,
    LayoutPrices,
    StepLimit,
    usual_headroom,
)
from colltool.training.layout_results import (
    TIE,
    LayoutChoice,
    LayoutFigures,
    LayoutSearch,
    OwnLayout,
    Ties,
)
from colltool.training.memory import memory
from colltool.training.plan import rates
from colltool.training.search_request import Progress, search_request
from colltool.training.step_time import step_time

MAX_REASONS = 3  # that an error lists for layouts that do not fit together


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

    Model, batch, sequence, precision, device, stack, overlap and order of the job stay.

    Args:
        job: the job whose layout is searched.
        fabric: the fabric.
        ranks: those of the job's layout, else of the fabric, unless given.
        keep: what every layout keeps, such as ``{"tp": 8}``.
        top: how many layouts to return; None: all.
        readings: options of the model; None: the default ones.
        watch: called with how many sizes of how many are done; None: as the command's progress line.
        headroom: share of memory that stays free; None: as much as published runs needed.

    Raises:
        ColltoolError: nothing fits, and why; or ``keep`` cannot be kept.
    """
    request = search_request(job, fabric, ranks, keep)
    headroom_share = usual_headroom() if headroom is None else headroom
    tell = partial(_tell, watch or running_watch(), len(request.sizes))
    fitting = FittingLayouts(request, headroom_share)
    prices = LayoutPrices(CollectiveCostCache(job_slice(fabric, request.ranks), readings))
    bounds = prices.bounds(fitting.layouts(partial(tell, 0)))
    priced = _priced_layouts(bounds, prices, StepLimit(top), partial(tell, 1))
    placed = sum(prices.can_be_placed(layout) for _, layout in bounds)
    if not priced:
        raise _no_layout(fitting, prices)
    best = min(priced)
    # the best is the likeliest to be above the peak
    _, mfu = rates(best.setup, best.step_s)
    refuse_impossible_step(request.job, best.step_s, mfu)
    chosen = sorted(priced) if top is None else nsmallest(top, priced)
    return LayoutSearch(
        job=request.job,
        fabric=fabric.name,
        fabric_overrides=fabric.overrides,
        ranks=request.ranks,
        kept=tuple((name, written(value)) for name, value in request.kept.values.items()),
        valid=fitting.valid,
        fit=fitting.fit,
        priced=placed,
        capacity_bytes=fitting.capacity,
        headroom=headroom_share,
        ties=_ties(priced, best),
        layouts=tuple(figures.compared_with(best) for figures in chosen),
        own=_own_layout(request.job, request.ranks, prices.costs, best),
        values=pinning_keys(request.job, best.setup),
    )


def _tell(watch: Progress | None, sizes: int, passes_before: int, done: int, of: int) -> None:
    """Tell ``watch`` how far a search is, which first weighs all layouts and then prices them: of
    twice as many ``sizes``, a number for each of the two passes, so many are done.

    ``done`` and ``of`` count in the present pass.
    """
    if watch is not None:
        watch((passes_before * of + done) * sizes // of, 2 * sizes)


def _priced_layouts(
    bounds: list[tuple[float, FittingLayout]],
    prices: LayoutPrices,
    limit: StepLimit,
    watch: Progress,
) -> list[LayoutFigures]:
    """Return the figures of layouts, without those that cannot be placed on the fabric and those
    whose lower bound is above the limit."""
    # the least bound first: once some steps are known, most others are ruled out
    bounds.sort(key=itemgetter(0))
    priced: list[LayoutFigures] = []
    for done, (least_s, layout) in enumerate(bounds):
        watch(done, len(bounds))
        if least_s > limit.step_s:
            break
        step = prices.step(layout, limit.step_s)
        if step is not None:
            limit.add(step.step_s)
            priced.append(layout.priced(step))
    return priced


def _ties(priced: Iterable[LayoutFigures], best: LayoutFigures) -> Ties:
    """Count the layouts that are as fast as the best, and the choices in which they differ."""
    tied = [figures.choice for figures in priced if figures.step_s / best.step_s - 1 <= TIE]
    differing = []
    for name in LayoutChoice._fields:
        # the schedule follows from the others
        if name != "schedule" and len({getattr(choice, name) for choice in tied}) > 1:
            differing.append(name)
    return Ties(len(tied), tuple(differing))


def _own_layout(job: Job, ranks: int, costs: CollectiveCostCache, best: LayoutFigures) -> OwnLayout:
    """Price the job's own layout, or say why that is not possible."""
    if job.drafted:
        return OwnLayout(None, None, "")  # it has none
    try:
        config = job.setup(ranks)
        step = step_time(config, costs, job.plain_calls(config))
    except ColltoolError as error:
        return OwnLayout(None, None, localize(error.what).splitlines()[0])
    needed = memory(config)
    # its number counts for nothing: it is not sorted among the others
    figures = LayoutFigures(step.step_s, needed.bytes, 0, step.control_s, config)
    return OwnLayout(figures.compared_with(best), needed.fits, "")


def _no_layout(fitting: FittingLayouts, prices: LayoutPrices) -> ColltoolError:
    """Return the error of a search without a layout: none can be placed on the fabric, none fits
    the memory, or none fits together."""
    request = fitting.request
    job = request.job
    kept = request.kept
    space = request.space
    if prices.not_placed is not None:
        _, error = prices.not_placed
        fix = (
            f"{counted(fitting.fit, 'layout')} fit the memory, none can be placed on the fabric:"
            f" {localize(error.what)}; {localize(error.fix)}"
        )
    elif fitting.smallest is not None:
        capacity = format_bytes(fitting.capacity, 3)
        if fitting.headroom:
            capacity += f" less {percent(fitting.headroom)} headroom"
        smallest = fitting.smallest
        fix = (
            f"{counted(fitting.valid, 'layout')} fill the ranks, none fits {capacity}: the smallest takes"
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
