"""What compression does to a step: whether its overhead pays, and what a whole run takes with and without it."""

from __future__ import annotations

from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.training.compression import break_even_extra_steps, compressed, ratio_of, squeezes, time_to_accuracy, times_fewer
from colltool.training.job import PlainCall
from colltool.training.setup import Compression, Setup
from colltool.training.step.fare import Fares
from colltool.training.step.whole import Step, step_of


class Squeezed(NamedTuple):
    """A job's compression, priced.

    ``ratio`` is against elements of 4 bytes (P9), ``times_fewer`` what the wires carry less here. Of the call that takes longest
    ``each_s`` and ``plain_each_s`` with and without it, ``largest_overhead_s`` below which it pays (P10). ``plain_step_s``: the
    step without. ``break_even_extra_steps``: the share of more steps at which a run takes as long as without (P11).
    """

    given: Compression
    ratio: float
    times_fewer: float
    each_s: float
    plain_each_s: float
    largest_overhead_s: float
    step_s: float
    plain_step_s: float
    control_s: float
    break_even_extra_steps: float

    @property
    def pays(self) -> bool:
        """Whether a call is faster with it, its overhead included."""
        return self.given.overhead_s < self.largest_overhead_s

    @property
    def gains(self) -> bool:
        """Whether the same accuracy is reached sooner."""
        return self.given.extra_steps < self.break_even_extra_steps

    def run_s(self, steps: int) -> float:
        """Seconds to the accuracy that so many steps without compression reach, the extra steps included."""
        return time_to_accuracy(steps, self.control_s, self.step_s - self.control_s, self.given.extra_steps)

    def plain_run_s(self, steps: int) -> float:
        """Seconds of so many steps without compression."""
        return time_to_accuracy(steps, self.control_s, self.plain_step_s - self.control_s)


def squeezed(setup: Setup, fares: Fares, plain: tuple[PlainCall, ...], now: Step) -> Squeezed | None:
    """What a job's compression does to its step; None without any.

    Raises:
        ColltoolError: nothing that it sends is compressed.
    """
    given = setup.compression
    if given is None:
        return None
    without = step_of(setup._replace(compression=None), fares, plain)
    calls = [one for stage in without.stages for one in stage.sent if squeezes(given, one.call)]
    longest = max(calls, key=lambda one: one.each_s, default=None)
    if longest is None:
        fix = "another dimension of compression.on, or no compression"
        raise ColltoolError(f"compression is on {given.on}, and no collective of the job is of it", fix=fix)
    each_s = longest.each_s
    small = compressed(each_s, times_fewer(setup), given.overhead_s, fixed_s=longest.fare.latency_s)
    network = without.step_s - without.control_s, now.step_s - now.control_s
    return Squeezed(
        given=given,
        ratio=ratio_of(given),
        times_fewer=times_fewer(setup),
        each_s=small.total_s,
        plain_each_s=each_s,
        largest_overhead_s=small.largest_overhead_s,
        step_s=now.step_s,
        plain_step_s=without.step_s,
        control_s=now.control_s,
        break_even_extra_steps=break_even_extra_steps(now.control_s, *network) if now.step_s else 0.0,
    )
