"""The least network with which a step reaches a target.

For each tier the least bandwidth, for each level of switches the most oversubscription, and for the
innermost tier the smallest domain, each with everything else as it is (:func:`reach_target`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import ceil, floor, inf, log10
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.fabric.tier_parts import HopByHop
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import bandwidth_values, scaled_rates, with_tiers
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.job import PlainCall
from colltool.training.operations import ideal_step_s
from colltool.training.parallel_config import ParallelConfig
from colltool.training.sentences import remark, sentence
from colltool.training.step_time import TrainingStep, step_time

# least and largest share of a tier's bandwidth that is tried
MIN_SHARE = 1 / 64
MAX_SHARE = 64.0
TOLERANCE = 1.005  # ratio of two shares at which bisection ends


class Target(NamedTuple):
    """Either an MFU to reach, or by which share a step may exceed that with a free network."""

    mfu: float | None = None
    over: float | None = None

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
    """The least of one kind that reaches the target; ``value`` is None where nothing does."""

    what: str
    set: tuple[tuple[str, str], ...]  # keys with their values, as ``--set`` takes them
    value: float | None  # bandwidth, oversubscription or ranks of a domain
    now: float  # the same of the fabric
    step_s: float | None


class Targeted(NamedTuple):
    """A target, and what a fabric needs to reach it."""

    target: Target
    limit_s: float
    reached: bool  # as the fabric is
    possible: bool  # with a free network
    needed: tuple[Needed, ...]


def reach_target(
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    now: TrainingStep,
    target: Target,
) -> Targeted:
    """Find the least network for a target; ``now`` is the step on the fabric as it is."""
    limit_s = target.limit_s(config, now.control_s)

    def step_on(other: Fabric) -> float:
        try:
            return step_time(config, CollectiveCostCache(other, costs.readings), plain).step_s
        except ColltoolError:  # a group cannot be placed on it
            return inf

    possible = now.control_s <= limit_s
    needed = tuple(_least_of_each(costs.fabric, step_on, limit_s)) if possible else ()
    return Targeted(
        target, limit_s, reached=now.step_s <= limit_s, possible=possible, needed=needed
    )


StepOn = Callable[[Fabric], float]
"""Seconds of the step on another fabric."""


def _least_of_each(fabric: Fabric, step_on: StepOn, limit_s: float) -> Iterator[Needed]:
    """Yield the least of each kind, the outermost tier first."""
    for index in reversed(range(len(fabric.tiers))):
        yield _least_bandwidth(fabric, index, step_on, limit_s)
        for level in capabilities_of(fabric.tiers[index]).levels[1:]:
            yield _most_oversubscribed(fabric, index, level.name, step_on, limit_s)
    yield from _smallest_domain(fabric, step_on, limit_s)


def _least_bandwidth(fabric: Fabric, index: int, step_on: StepOn, limit_s: float) -> Needed:
    """Return the least bandwidth of a tier."""
    tier = fabric.tiers[index]

    def scaled_s(share: float) -> float:
        return step_on(_with_bandwidth_share(fabric, index, share))

    found = least_share(scaled_s, limit_s)
    what = sentence(remark("slowest_tier", tier=tier.name))
    if found is None:
        return Needed(what, (), None, tier.bandwidth, None)
    share = rounded_up(found * tier.bandwidth) / tier.bandwidth
    values = tuple(bandwidth_values(tier, share).items())
    return Needed(what, values, share * tier.bandwidth, tier.bandwidth, scaled_s(share))


def _with_bandwidth_share(fabric: Fabric, index: int, share: float) -> Fabric:
    """Return a fabric as the printed overrides make it."""
    return with_tiers(fabric, partial(scaled_rates, share=share), [index])


def least_share(step_s: Callable[[float], float], limit_s: float) -> float | None:
    """Return the least share of a bandwidth with which a step takes at most ``limit_s``, to half a
    percent; None where no share does.

    Found by bisection, as a faster tier never takes longer.
    """
    low, high = MIN_SHARE, MAX_SHARE
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
    """Round up to four digits, so that what is printed is no less than what is needed."""
    unit = 10.0 ** (floor(log10(value)) - 3)
    return ceil(value / unit * (1 - 1e-12)) * unit


def _most_oversubscribed(
    fabric: Fabric, index: int, level_name: str, step_on: StepOn, limit_s: float
) -> Needed:
    """Return the most oversubscription of a level of switches."""
    tier = fabric.tiers[index]
    now = {level.name: level.oversubscription for level in capabilities_of(tier).levels}

    def thinned_s(over: float) -> float:
        return step_on(_with_oversubscription(fabric, index, level_name, over))

    found = None
    if thinned_s(1.0) <= limit_s:
        found = least_share(lambda share: thinned_s(max(1.0, 1 / share)), limit_s)
    what = sentence(remark("thinnest_level", level=level_name, tier=tier.name))
    if found is None:
        return Needed(what, (), None, slowdown(now[level_name]), None)
    over = max(1.0, 1 / rounded_up(found))
    values = ((f"{tier.name}.levels.{level_name}.oversubscription", f"{over:.6g}"),)
    return Needed(what, values, over, slowdown(now[level_name]), thinned_s(over))


def _with_oversubscription(fabric: Fabric, index: int, level_name: str, over: float) -> Fabric:
    """Return a fabric with another oversubscription of a level."""
    levels = []
    for level in capabilities_of(fabric.tiers[index]).levels:
        if level.name == level_name:
            level = level.model_copy(update={"oversubscription": over})
        levels.append(level)
    update = {"levels": tuple(levels)}
    return with_tiers(fabric, lambda tier: tier.model_copy(update=update), [index])


def _smallest_domain(fabric: Fabric, step_on: StepOn, limit_s: float) -> Iterator[Needed]:
    """Yield the smallest innermost domain, by powers of two, with as many domains as then fill the
    fabric; none for lattices."""
    if len(fabric.tiers) < 2 or any(capabilities_of(tier).axes for tier in fabric.tiers[:2]):
        return
    inner = fabric.tiers[0]
    what = sentence(remark("smallest_domain", tier=inner.name))
    now = float(inner.endpoints)
    for parts in domain_parts(fabric):
        other = split_domain(fabric, parts)
        step_s = step_on(other)
        if step_s <= limit_s:
            inner_tier, outer = other.tiers[:2]
            sizes = {f"{tier.name}.size": str(tier.endpoints) for tier in (inner_tier, outer)}
            for level in capabilities_of(outer).levels:
                sizes[f"{outer.name}.levels.{level.name}.group"] = str(level.group)
            yield Needed(what, tuple(sizes.items()), float(inner_tier.endpoints), now, step_s)
            return
    yield Needed(what, (), None, now, None)


def domain_parts(fabric: Fabric) -> list[Fraction]:
    """Return the numbers of parts that a domain may be cut in, the largest first.

    A fraction joins domains: 1/2 makes one of two. Levels of switches keep whole domains.
    """
    inner, outer = fabric.tiers[:2]
    groups = [level.group for level in capabilities_of(outer).levels]
    groups.append(outer.endpoints)
    found = [Fraction(2**step) for step in range(7, 0, -1) if _tiles(2**step, inner.endpoints)]
    for step in range(8):
        larger = inner.max_size is None or inner.endpoints * 2**step <= inner.max_size
        if larger and all(_tiles(2**step, group) for group in groups):
            found.append(Fraction(1, 2**step))
    return found


def _tiles(parts: int, size: int) -> bool:
    """Whether a size can be cut in equal parts larger than 1."""
    return size % parts == 0 and size > parts


def slowdown(given: float | HopByHop) -> float:
    """Return the oversubscription of a level as a number; per hop that of the uplinks."""
    return given.uplinks if isinstance(given, HopByHop) else given


def split_domain(fabric: Fabric, parts: Fraction) -> Fabric:
    """Return a fabric whose innermost domains are cut in parts, or joined where parts are below 1."""
    inner, outer, *others = fabric.tiers
    levels = []
    for level in capabilities_of(outer).levels:
        levels.append(level.model_copy(update={"group": int(level.group * parts)}))
    wider: dict[str, object] = {"size": int(outer.endpoints * parts)}
    if levels:
        wider["levels"] = tuple(levels)
    smaller = inner.model_copy(update={"size": int(inner.endpoints / parts)})
    tiers = (smaller, outer.model_copy(update=wider), *others)
    return fabric.model_copy(update={"tiers": tiers})
