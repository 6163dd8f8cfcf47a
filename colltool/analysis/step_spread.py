"""``plan`` with ranges of numbers: the step time of a job when numbers of the fabric are off.

:func:`plan_spread` moves each number alone to both ends of its range (the tornado), and draws all at
once. :mod:`colltool.analysis.sensitivity` does the same for a single collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles
from typing import ClassVar, NamedTuple

from colltool.base.result import Result, result
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.fabric.ranges import ParameterRange
from colltool.fabric.values import Place, with_values
from colltool.training.adapted import fit_to_fabric
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.group_fit import job_slice
from colltool.training.job import Job
from colltool.training.plan import plan
from colltool.training.step_time import step_time

# Samples of a step time, which takes milliseconds, not microseconds like a price in an array.
SAMPLES = 100


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
    """A job's step time under uncertain numbers.

    Args:
        step_s, control_step_s: with the fabric's own numbers, as in a :class:`Plan`.
        moved: each number alone, largest effect first.
        p5_s, p50_s, p95_s: all numbers at once, over ``samples`` draws.
        assumed: whether the ranges are defaults of ours.
    """

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
    # numpy, which a page that only shows the result does without
    from colltool.analysis.what_if import draws

    fits = fit_to_fabric(job, fabric, ranks, readings)
    job, fabric = fits.job, fits.fabric
    planned = plan(job, fabric, fits.ranks, readings)
    setup = planned.setup
    # the calls that the job lists itself: the same whatever the fabric's numbers are
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
    # the 5th, 10th, ... and 95th percentile: 19 cuts
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
