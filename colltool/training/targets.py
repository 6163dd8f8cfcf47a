"""The cheapest network with which a step reaches a target.

:func:`reach_target` takes one number of the fabric after the other: the bandwidth of a tier, the
oversubscription of a level, the ranks of an innermost domain. It finds the cheapest value of each
that reaches the target, with everything else as it is: the lowest bandwidth, the highest
oversubscription, the smallest domain.

The numbers are :class:`fabric_changes.Knob`. ``knob.at`` gives the fabric at a share of the number,
and a smaller share is a cheaper fabric: times a bandwidth, or one over an oversubscription. A domain
has parts in place of a share, listed in ``knob.tries`` with the smallest domain first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, inf, log10
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.fabric_changes import Knob
from colltool.training.flops import ideal_step_s
from colltool.training.job import PlainCall
from colltool.training.parallel_config import ParallelConfig
from colltool.training.registry import members
from colltool.training.sentences import remark, sentence
from colltool.training.step_time import TrainingStep, step_time

# least and largest share of a tier's bandwidth that is tried
MIN_SHARE = 1 / 64
MAX_SHARE = 64.0
TOLERANCE = 1.005  # ratio of two shares at which bisection ends


class Target(NamedTuple):
    """What a step has to reach: one of the two fields is given."""

    mfu: float | None = None  # at least
    over: float | None = None  # share by which it may exceed the step with a free network

    def limit_s(self, config: ParallelConfig, control_s: float) -> float:
        """Seconds that a step may take."""
        if self.over is not None:
            return (1 + self.over) * control_s
        assert self.mfu is not None
        return ideal_step_s(config) / self.mfu

    @property
    def text(self) -> str:
        """The target in words."""
        if self.over is not None:
            return sentence(remark("target_step", percent=100 * self.over))
        assert self.mfu is not None
        return sentence(remark("target_mfu", percent=100 * self.mfu))


class Needed(NamedTuple):
    """The cheapest value of one number of a fabric that reaches the target."""

    what: str  # the number in words
    # keys with their values, as ``--set`` takes them; empty where no value reaches the target
    set: tuple[tuple[str, str], ...]
    value: float | None  # bandwidth in bytes/s, oversubscription or ranks of a domain; None: so too
    now: float  # the value that the fabric has
    step_s: float | None  # with ``value``


class Targeted(NamedTuple):
    """A target, and what a fabric needs to reach it."""

    target: Target
    limit_s: float  # seconds that a step may take
    reached: bool  # as the fabric is
    possible: bool  # with a free network
    needed: tuple[Needed, ...]


def reach_target(
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    current: TrainingStep,
    target: Target,
) -> Targeted:
    """Find the cheapest value of each number of a fabric for a target, outermost tiers first.

    ``current`` is the step on the fabric as it is. ``needed`` is empty where not even a free network
    reaches the target.
    """
    limit_s = target.limit_s(config, current.control_s)

    def step_on(other: Fabric) -> float:
        """Seconds of the step on another fabric; infinite where it cannot run there."""
        try:
            return step_time(config, CollectiveCostCache(other, costs.readings), plain).step_s
        except ColltoolError:  # a group cannot be placed on it
            return inf

    possible = current.control_s <= limit_s
    needed: list[Needed] = []
    if possible:
        knobs: list[Knob] = []
        # a member yields the knobs of a fabric, some of which are for other uses than a target
        for member in members("target", "fabric"):
            knobs += [knob for knob in member.make(costs.fabric) if knob.least is not None]
        # the outermost tier first: tiers are numbered from the inside
        knobs.sort(key=lambda knob: -knob.number)
        needed = [_least_setting(knob, step_on, limit_s) for knob in knobs]
    return Targeted(target, limit_s, current.step_s <= limit_s, possible, tuple(needed))


def _least_setting(knob: Knob, step_on: Callable[[Fabric], float], limit_s: float) -> Needed:
    """Return the cheapest value of a knob for a target with which a step takes at most ``limit_s``;
    ``step_on`` gives the seconds of a step on another fabric."""
    assert knob.least is not None  # as of every knob of a target

    def step_s(share: float) -> float:
        """Seconds of a step with the knob at a share."""
        return step_on(knob.at(share).fabric)

    what = sentence(knob.least)
    if knob.tries is not None:
        share = next((share for share in knob.tries if step_s(share) <= limit_s), None)
    else:
        share = least_share(step_s, limit_s)
        if share is not None:
            # so that the number itself, a share times the unit, has four digits
            share = rounded_up(share * knob.unit) / knob.unit
    if share is None:
        return Needed(what, set=(), value=None, now=knob.now, step_s=None)
    setting = knob.at(share)
    return Needed(
        what,
        set=tuple(setting.values.items()),
        value=setting.value,
        now=knob.now,
        step_s=step_on(setting.fabric),
    )


def least_share(step_s: Callable[[float], float], limit_s: float) -> float | None:
    """Return the least share of a bandwidth with which a step takes at most ``limit_s``, to half a
    percent.

    None where the largest share takes longer; the smallest one that is tried where that does not.
    Found by bisection: it assumes that a step on a faster tier takes no longer.
    """
    low = MIN_SHARE
    high = MAX_SHARE
    if step_s(high) > limit_s:
        return None
    if step_s(low) <= limit_s:
        return low
    # shares are compared by their ratio, so the middle is the geometric one
    while high / low > TOLERANCE:
        middle = (low * high) ** 0.5
        if step_s(middle) <= limit_s:
            high = middle
        else:
            low = middle
    return high


def rounded_up(value: float) -> float:
    """Round up to four digits, so that what is printed is no less than what is needed.

    >>> rounded_up(12.3411)
    12.35
    """
    unit = 10.0 ** (floor(log10(value)) - 3)
    # a number that has four digits but for rounding stays
    return ceil(value / unit * (1 - 1e-12)) * unit
