"""Training jobs compared: :func:`plans` puts one job on several fabrics, :func:`plan_spread` gives
its step time under uncertain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from statistics import quantiles
from typing import ClassVar, NamedTuple

from colltool.analysis.basis import BasisDifference, basis_differences, basis_of_fabric, step_error
from colltool.base.errors import ColltoolError
from colltool.base.formatting import disambiguate
from colltool.base.primitives import P2P
from colltool.base.result import Result, result, with_progress
from colltool.estimate.accuracy import accuracy_of
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.interval import before_dials, interval_of
from colltool.estimate.placement import GroupSpec
from colltool.estimate.user_price import seconds_by_schedule
from colltool.fabric.bill import Cost, cost_of
from colltool.fabric.model import Fabric
from colltool.fabric.ranges import ParameterRange
from colltool.fabric.values import Place, with_values
from colltool.training.adapted import fit_to_fabric
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.group_fit import job_slice
from colltool.training.job import Job
from colltool.training.plan import NO_EXTRAS, Plan, PlanExtras, PlannedCall, plan
from colltool.training.sentences import sentence
from colltool.training.step_time import step_time

# Samples of a step time, which takes milliseconds, not microseconds like a price in an array.
SAMPLES = 100


@result
class Plans(Result):
    """One job on several fabrics, compared with the first; ``costs`` has None for a file without
    prices, ``ground`` what the step times do not have in common."""

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
        return None if cost is None or cost.total is None else cost.total * self.plans[at].step_s

    def ratio(self, at: int) -> float:
        """A fabric's step time over the first's."""
        return self.plans[at].step_s / self.first.step_s

    def error(self, at: int) -> float | None:
        """The expected relative error of :meth:`ratio`. On the same fabric it is None, because
        there the model's error cancels."""
        first, other = self.first, self.plans[at]
        if other.fabric == first.fabric:
            return None
        share = max(first.network_share, other.network_share)
        return step_error(share, same_device=first.device == other.device)


def plan_on_fabric(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    readings: ModelOptions,
    extras: PlanExtras = NO_EXTRAS,
) -> Plan:
    """A job's step on a fabric, with the job adapted where the fabric requires it and the accuracy
    of each collective's price."""
    fits = fit_to_fabric(job, fabric, ranks, readings)
    planned = plan(fits.job, fits.fabric, fits.ranks, readings, extras)
    planned = replace(
        planned, grounds=(*map(sentence, fits.changes), *planned.grounds), searched=fits.searched
    )
    return with_accuracy(planned, fits.fabric, readings)


def with_accuracy(planned: Plan, fabric: Fabric, readings: ModelOptions) -> Plan:
    """A plan with the accuracy and the interval of each collective's price."""
    unchanged = before_dials(fabric)
    calls = []
    for planned_call in planned.collectives:
        # a group of several axes need not be one of the fabric's
        with suppress(ColltoolError):
            planned_call = _with_accuracy(planned_call, fabric, unchanged, readings)
        calls.append(planned_call)
    return replace(planned, collectives=tuple(calls))


def _with_accuracy(
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
        # infinitely long where the same schedule did not run before
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
    if accuracy and interval:
        accuracy = accuracy._replace(p90=interval.larger_side(call_s))
    return planned_call._replace(accuracy=accuracy, interval=interval)


class StepTornadoBar(NamedTuple):
    """Step times with one number at either end of its range, all others as in the file."""

    number: ParameterRange
    low_s: float
    high_s: float

    @property
    def span_s(self) -> float:
        """How much the step time moves, seconds."""
        return abs(self.high_s - self.low_s)


@result
class PlanSpread(Result):
    """A job's step time under uncertain numbers: each alone (``moved``, largest effect first), and
    all at once (percentiles over ``samples``)."""

    subject: ClassVar[str] = "plan_sensitivity"
    job: Job
    fabric: str
    overrides: tuple[tuple[str, str], ...]
    ranks: int
    step_s: float
    control_step_s: float
    moved: tuple[StepTornadoBar, ...]
    p5_s: float
    p50_s: float
    p95_s: float
    samples: int
    seed: int
    assumed: bool


def plans(
    job: Job,
    fabrics: Sequence[Fabric],
    ranks: int | None = None,
    readings: ModelOptions | None = None,
    typed: Sequence[str] = (),
) -> Plans:
    """Plan a job on several fabrics, with the same number of ranks; ``typed``: how the user named
    each."""
    count = ranks
    if count is None and not job.draft.layout.dp:
        count = min(fabric.ranks for fabric in fabrics)
    options = readings or ModelOptions()
    planned = [plan_on_fabric(job, fabric, count, options) for fabric in with_progress(fabrics)]
    titles = column_titles(fabrics, typed or [""] * len(fabrics))
    bases = [basis_of_fabric(fabric, ideal=options.ideal) for fabric in fabrics]
    return Plans(
        tuple(planned), tuple(map(cost_of, fabrics)), basis_differences(titles, bases), titles
    )


def column_titles(fabrics: Sequence[Fabric], typed: Sequence[str]) -> tuple[str, ...]:
    """A title for each fabric: its name and the overrides that not all share. Equal titles are told
    apart by what the user typed."""
    first, *others = fabrics
    common = [pair for pair in first.overrides if all(pair in other.overrides for other in others)]
    names = []
    for fabric in fabrics:
        unshared = [
            f"{key}={value}" for key, value in fabric.overrides if (key, value) not in common
        ]
        names.append(f"{fabric.name} with {', '.join(unshared)}" if unshared else fabric.name)
    return tuple(disambiguate(names, typed))


def plan_spread(
    job: Job,
    fabric: Fabric,
    ranks: int | None,
    readings: ModelOptions | None,
    numbers: Sequence[ParameterRange],
    *,
    samples: int = SAMPLES,
    seed: int = 1,
    assumed: bool = False,
) -> PlanSpread:
    """A job's step time under uncertain ``numbers``; ``assumed``: the ranges are defaults of
    ours."""
    from colltool.analysis.what_if import draws

    fits = fit_to_fabric(job, fabric, ranks, readings)
    job, fabric = fits.job, fits.fabric
    planned = plan(job, fabric, fits.ranks, readings)
    setup = planned.setup
    plain = job.plain_calls(setup)

    def step_s(values: dict[Place, float]) -> float:
        """Seconds of the step with these values in place of the fabric's."""
        part = job_slice(with_values(fabric, values), setup.layout.ranks)
        return step_time(setup, CollectiveCostCache(part, readings), plain).step_s

    moved = []
    for number in numbers:
        low_s = step_s({number.place: number.low})
        high_s = step_s({number.place: number.high})
        moved.append(StepTornadoBar(number, low_s, high_s))
    drawn = draws(numbers, samples, seed)
    steps = []
    for sample in range(samples):
        values = {place: float(place_draws[sample]) for place, place_draws in drawn.items()}
        steps.append(step_s(values))
    # the 5th, 10th, ... and 95th percentile
    cuts = quantiles(steps, n=20, method="inclusive")
    return PlanSpread(
        job=job,
        fabric=fabric.name,
        overrides=fabric.overrides,
        ranks=setup.layout.ranks,
        step_s=planned.step_s,
        control_step_s=planned.control_step_s,
        moved=tuple(sorted(moved, key=lambda bar: -bar.span_s)),
        p5_s=cuts[0],
        p50_s=cuts[9],
        p95_s=cuts[18],
        samples=samples,
        seed=seed,
        assumed=assumed,
    )
