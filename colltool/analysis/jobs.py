"""Training jobs on fabrics: :func:`plans` puts one job on several and compares them,
:func:`plan_on_fabric` on one, with how far off its collectives' prices are.

Times (``step_s``) are seconds of one training step.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import ClassVar

from colltool.analysis.basis import BasisDifference, basis_differences, basis_of_fabric
from colltool.base.errors import ColltoolError
from colltool.base.formatting import disambiguate
from colltool.base.primitives import P2P
from colltool.base.result import Result, result, with_progress
from colltool.estimate.accuracy import CLASSES, DATASHEET, accuracy_of
from colltool.estimate.assumptions import USUAL, ModelOptions
from colltool.estimate.interval import before_dials, interval_of
from colltool.estimate.placement import GroupSpec
from colltool.estimate.user_price import seconds_by_schedule
from colltool.fabric.bill import Cost, cost_of
from colltool.fabric.model import Fabric
from colltool.machines.used import common
from colltool.training.adapted import fit_to_fabric
from colltool.training.job import Job
from colltool.training.plan import NO_EXTRAS, Plan, PlanExtras, PlannedCall, plan
from colltool.training.published import published_error
from colltool.training.sentences import sentence

# Relative error of the collectives of a training step, most of which are of this size.
_COLLECTIVES_ERROR = DATASHEET[CLASSES.index("8-128 MiB")]


@result
class Plans(Result):
    """One job on several fabrics, compared with the first. Methods take the number of a fabric.

    Args:
        plans: one a fabric, as are costs and titles.
        costs: of the network; None for a file without prices.
        ground: what the step times do not have in common.
        titles: see :func:`column_titles`.
    """

    subject: ClassVar[str] = "plan_compare"
    plans: tuple[Plan, ...]
    costs: tuple[Cost | None, ...]
    ground: tuple[BasisDifference, ...] = ()
    titles: tuple[str, ...] = ()

    @property
    def first(self) -> Plan:
        """The one that the others are compared with."""
        return self.plans[0]

    def cost_per_rate(self, at: int) -> float | None:
        """Network cost per step/s: the cost times the seconds of a step. None without prices."""
        cost = self.costs[at]
        if cost is None or cost.total is None:
            return None
        return cost.total * self.plans[at].step_s

    def ratio(self, at: int) -> float:
        """A fabric's step time over the first's."""
        return self.plans[at].step_s / self.first.step_s

    def error(self, at: int) -> float | None:
        """The expected relative error of :meth:`ratio`. On the same fabric it is None, because
        there the model's error cancels."""
        first, other = self.first, self.plans[at]
        if other.fabric == first.fabric:
            return None
        network_share = max(first.network_share, other.network_share)
        return step_error(network_share, same_device=first.device == other.device)


def plan_on_fabric(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    readings: ModelOptions,
    extras: PlanExtras = NO_EXTRAS,
) -> Plan:
    """A job's step on a fabric, with the accuracy of each collective's price (:func:`with_accuracy`).

    The job is adapted where the fabric requires it, and the plan's ``grounds`` then begin with how.
    ``ranks``: None where the user names no number.

    Raises:
        ColltoolError: the job fits the fabric under no layout.
    """
    adapted = fit_to_fabric(job, fabric, ranks, readings)
    planned = plan(adapted.job, adapted.fabric, adapted.ranks, readings, extras)
    planned = replace(
        planned,
        grounds=(*map(sentence, adapted.changes), *planned.grounds),
        searched=adapted.searched,
    )
    return with_accuracy(planned, adapted.fabric, readings)


def with_accuracy(planned: Plan, fabric: Fabric, readings: ModelOptions) -> Plan:
    """A plan with the accuracy and the interval of each collective's price. Calls whose group cannot be
    priced by itself, single sends and calls that take no time stay without."""
    unchanged = before_dials(fabric)
    calls = []
    for planned_call in planned.collectives:
        # ranks of several axes of the layout may be no group of one count and stride that the fabric
        # has; the plan has priced the call otherwise
        with suppress(ColltoolError):
            planned_call = _call_with_accuracy(planned_call, fabric, unchanged, readings)
        calls.append(planned_call)
    return replace(planned, collectives=tuple(calls))


def _call_with_accuracy(
    planned_call: PlannedCall, fabric: Fabric, unchanged: Fabric | None, readings: ModelOptions
) -> PlannedCall:
    """A call with its accuracy and its interval; ``unchanged``: the fabric before its numbers were
    changed, None where they were not."""
    call = planned_call.sent.call
    call_s = planned_call.sent.each_s
    # single sends have no measured error
    if call.primitive is P2P or not call_s:
        return planned_call
    group = GroupSpec(call.group.ranks, call.group.stride)
    accuracy = accuracy_of(fabric, call.primitive, group, call.bytes, readings)
    unchanged_s = None
    if unchanged is not None:
        seconds = seconds_by_schedule(unchanged, call.primitive, call.bytes, group, readings)
        # keys are title and protocol; an empty protocol is the title's fastest. An algorithm that
        # did not run before the change took infinitely long.
        unchanged_s = seconds.get((planned_call.sent.cost.algorithm, ""), inf)
    interval = interval_of(
        fabric,
        call.primitive,
        group,
        call.bytes,
        readings,
        total_s=call_s,
        base_total_s=unchanged_s,
    )
    # one call, one error: the interval, where there is one, also counts what the user changed
    if accuracy and interval:
        accuracy = accuracy._replace(p90=interval.larger_side(call_s))
    return planned_call._replace(accuracy=accuracy, interval=interval)


def plans(
    job: Job,
    fabrics: Sequence[Fabric],
    ranks: int | None = None,
    readings: ModelOptions | None = None,
    typed: Sequence[str] = (),
) -> Plans:
    """Plan a job on several fabrics, with the same number of ranks.

    Args:
        ranks: None: those of the job where its layout states them all, else of the smallest fabric.
        typed: how the user named each fabric; empty where nobody did.
    """
    count = ranks
    # With data parallelism stated the layout has a number of ranks, which is left to it (None). Else
    # the parallelism follows from a count, and all are to have the same.
    if count is None and not job.draft.layout.dp:
        count = min(fabric.ranks for fabric in fabrics)
    options = readings or USUAL
    planned = [plan_on_fabric(job, fabric, count, options) for fabric in with_progress(fabrics)]
    titles = column_titles(fabrics, typed or [""] * len(fabrics))
    bases = [basis_of_fabric(fabric, ideal=options.ideal) for fabric in fabrics]
    return Plans(
        plans=tuple(planned),
        costs=tuple(map(cost_of, fabrics)),
        ground=basis_differences(titles, bases),
        titles=titles,
    )


def step_error(network_share: float, *, same_device: bool) -> float:
    """The expected relative error of the ratio of two step times; on the same device the compute error
    cancels. ``network_share``: of the step's time, 0 to 1."""
    published = published_error("all")
    # steps were published, so that all together have an error
    assert published is not None
    if not same_device:
        return published.median
    return min(published.median, network_share * _COLLECTIVES_ERROR)


def column_titles(fabrics: Sequence[Fabric], typed: Sequence[str]) -> tuple[str, ...]:
    """A title for each fabric: its name and the overrides that not all share, ``dgx-h100 with
    ib.size=64``. Equal titles are told apart by what the user typed."""
    shared = common([fabric.overrides for fabric in fabrics])
    titles = []
    for fabric in fabrics:
        unshared = [
            f"{key}={value}" for key, value in fabric.overrides if (key, value) not in shared
        ]
        titles.append(f"{fabric.name} with {', '.join(unshared)}" if unshared else fabric.name)
    return tuple(disambiguate(titles, typed))
