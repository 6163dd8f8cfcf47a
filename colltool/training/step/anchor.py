"""A measured step as an anchor: by how much everything has to compute slower or faster for the plan to meet it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from colltool.base.formatting import format_time
from colltool.training.job import Job, PlainCall
from colltool.training.misfits import Misfit
from colltool.training.setup import Setup
from colltool.training.step.fare import Fares
from colltool.training.step.whole import Step, step_of

BELIEVED = (0.5, 2.0)  # stacks of one device differ by 20 to 40% in published runs, one stack over its releases by up to 38%
_CLOSE = 1e-12
_MOST_TRIES = 200


class Anchor(NamedTuple):
    """``factor``: times as long as the stack says everything computes; ``before_s``: the step without it."""

    factor: float
    before_s: float

    @property
    def believable(self) -> bool:
        """Whether a stack can be off by this; else something other than its speed is."""
        return BELIEVED[0] <= self.factor <= BELIEVED[1]


def anchored(job: Job, setup: Setup, fares: Fares, plain: tuple[PlainCall, ...], now: Step) -> Anchor | None:
    """What makes the step the measured one; None where nothing was measured, or the speed is given already.

    Raises:
        ManyErrors: what the network and the fixed time take alone is longer already.
    """
    measured_s = job.measured_step_s
    if measured_s is None or setup.stack is None or setup.compute is not None or job.file.slower is not None:
        return None

    def off(factor: float) -> float:
        return step_of(setup._replace(slower=factor), fares, plain).step_s - measured_s

    if off(0.0) >= 0:
        alone = f"without any compute the network and the fixed time take {format_time(off(0.0) + measured_s)}"
        fix = "no stack reaches it: check the measured time (of one step, on these ranks), the layout, and the fabric"
        job.refuse([Misfit(("measured", "step"), f"a step of {format_time(measured_s)}, and {alone}", fix)])
    return Anchor(_root(off, measured_s / now.step_s, _CLOSE * measured_s), now.step_s)


def _root(off: Callable[[float], float], guess: float, close: float) -> float:
    """Where a rising function passes zero: regula falsi, an end that stays halved (Illinois)."""
    low, below, high = 0.0, off(0.0), max(guess, 1.0)
    while (above := off(high)) < 0:
        low, below, high = high, above, 2 * high
    stayed = 0
    for _ in range(_MOST_TRIES):
        at = (low * above - high * below) / (above - below)
        value = off(at)
        if abs(value) <= close:
            break
        if value < 0:
            low, below, above, stayed = at, value, above / 2 if stayed > 0 else above, 1
        else:
            high, above, below, stayed = at, value, below / 2 if stayed < 0 else below, -1
    return at
