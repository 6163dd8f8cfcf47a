"""A stack's speed from one measured step of a job: :func:`calibrated`, for plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from colltool.base.formatting import format_time
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.job import Job, PlainCall
from colltool.training.parallel_config import ParallelConfig
from colltool.training.step_time import TrainingStep, step_time
from colltool.training.violation import Violation

# lowest and highest factor of a measured step over its plan that a stack explains: stacks of one
# device differ by 20 to 40% in published runs, one stack over its releases by up to 38%
BELIEVED = (0.5, 2.0)


class StepCalibration(NamedTuple):
    """The factor of compute times that makes the step the measured one."""

    factor: float  # times as long as the stack says
    before_s: float  # the step with a factor of 1

    @property
    def believable(self) -> bool:
        """Whether a stack can be this far off; else something other than its speed is wrong."""
        return BELIEVED[0] <= self.factor <= BELIEVED[1]


def calibrated(
    job: Job,
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    uncalibrated: TrainingStep,
) -> StepCalibration | None:
    """Return the calibration by a job's measured step.

    None where nothing was measured, no stack runs, or the job gives its compute times or how much
    slower they are. ``uncalibrated`` is the step at the speed of the stack.

    Raises:
        ManyErrors: the network and fixed time alone take longer than the measured step.
    """
    measured_s = job.measured_step_s
    is_given = config.stack is None or config.compute is not None or job.file.slower is not None
    if measured_s is None or is_given:
        return None

    def excess_s(factor: float) -> float:
        """Seconds of the step beyond the measured one."""
        return step_time(config._replace(slower=factor), costs, plain).step_s - measured_s

    # a factor of 0 leaves the network and the fixed time
    network_excess_s = excess_s(0.0)
    if network_excess_s >= 0:
        least = format_time(network_excess_s + measured_s)
        job.refuse(
            [
                Violation(
                    ("measured", "step"),
                    f"a step of {format_time(measured_s)}, and network and fixed time alone take {least}",
                    "no stack reaches it: check the measured time (of one step, on these ranks), the"
                    " layout, and the fabric",
                )
            ]
        )
    factor = _root(excess_s, guess=measured_s / uncalibrated.step_s, tolerance=1e-12 * measured_s)
    return StepCalibration(factor, uncalibrated.step_s)


def _root(excess: Callable[[float], float], guess: float, tolerance: float) -> float:
    """Return where a rising function that is negative at 0 crosses zero, to ``tolerance`` in its
    value; by regula falsi with the Illinois rule: the value at an end that stays twice is halved."""
    low = 0.0
    below = excess(0.0)
    high = max(guess, 1.0)
    # double the upper end until the function is above zero there
    while (above := excess(high)) < 0:
        low = high
        below = above
        high = 2 * high
    stayed = 0  # 1: the upper end stayed in the last round, -1: the lower one
    # a bound on the rounds; regula falsi closes in far sooner
    for _ in range(200):
        middle = (low * above - high * below) / (above - below)
        value = excess(middle)
        if abs(value) <= tolerance:
            break
        if value < 0:
            low = middle
            below = value
            if stayed > 0:
                above /= 2
            stayed = 1
        else:
            high = middle
            above = value
            if stayed < 0:
                below /= 2
            stayed = -1
    return middle
