"""The least network that keeps a step near that of a free one: slowest tier, thinnest spine,
smallest inner domain."""

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
from colltool.training.step_time import TrainingStep, step_time

# shares of a tier's bandwidth that are tried, and when two are close enough
SLOWEST = 1 / 64
FASTEST = 64.0
CLOSE = 1.005


class Target(NamedTuple):
    """``mfu`` at least, or a step at most ``over`` that of a free network, as shares."""

    mfu: float | None = None
    over: float | None = None

    def limit_s(self, config: ParallelConfig, control_s: float) -> float:
        """Seconds a step may take."""
        if self.over is not None:
            return (1 + self.over) * control_s
        assert self.mfu is not None
        return ideal_step_s(config) / self.mfu

    @property
    def label(self) -> str:
        if self.over is not None:
            return f"a step within {100 * self.over:.4g}% of a free network"
        assert self.mfu is not None
        return f"an MFU of {100 * self.mfu:.4g}%"


class Needed(NamedTuple):
    """The least change of one kind; ``value`` is None where none reaches the target."""

    what: str
    set: tuple[tuple[str, str], ...]
    value: float | None
    now: float
    step_s: float | None


class Targeted(NamedTuple):
    target: Target
    limit_s: float
    reached: bool  # as the fabric is
    possible: bool  # with a free network
    needed: tuple[Needed, ...]


def targeted(
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    now: TrainingStep,
    target: Target,
) -> Targeted:
    limit = target.limit_s(config, now.control_s)

    def stepped(other: Fabric) -> float:
        try:
            return step_time(config, CollectiveCostCache(other, costs.readings), plain).step_s
        except ColltoolError:  # a group does not sit on it
            return inf

    possible = now.control_s <= limit
    needed = tuple(_needed(costs.fabric, stepped, limit)) if possible else ()
    return Targeted(target, limit, reached=now.step_s <= limit, possible=possible, needed=needed)


Stepped = Callable[[Fabric], float]
"""Seconds of the step on another fabric."""


def _needed(fabric: Fabric, stepped: Stepped, limit: float) -> Iterator[Needed]:
    """Yield the least of each kind, the outermost tier first."""
    for at in reversed(range(len(fabric.tiers))):
        yield _slowest(fabric, at, stepped, limit)
        for level in capabilities_of(fabric.tiers[at]).levels[1:]:
            yield _thinnest(fabric, at, level.name, stepped, limit)
    yield from _inner_domain(fabric, stepped, limit)


def _slowest(fabric: Fabric, at: int, stepped: Stepped, limit: float) -> Needed:
    """The least bandwidth of a tier."""
    tier = fabric.tiers[at]

    def scaled_s(share: float) -> float:
        return stepped(_faster(fabric, at, share))

    found, what = smallest(scaled_s, limit), f"slowest {tier.name}"
    if found is None:
        return Needed(what, (), None, tier.bandwidth, None)
    share = ceiled(found * tier.bandwidth) / tier.bandwidth
    values = tuple(bandwidth_values(tier, share).items())
    return Needed(what, values, share * tier.bandwidth, tier.bandwidth, scaled_s(share))


def _faster(fabric: Fabric, at: int, share: float) -> Fabric:
    """A fabric as the overrides make it that are printed."""
    return with_tiers(fabric, partial(scaled_rates, share=share), [at])


def smallest(step_s: Callable[[float], float], limit: float) -> float | None:
    """The least share of a bandwidth, to half a percent, by bisection: a faster wire never takes
    longer."""
    low, high = SLOWEST, FASTEST
    if step_s(high) > limit:
        return None
    if step_s(low) <= limit:
        return low
    # shares are compared by their ratio, so the middle is the geometric one
    while high / low > CLOSE:
        middle = (low * high) ** 0.5
        if step_s(middle) <= limit:
            high = middle
        else:
            low = middle
    return high


def ceiled(value: float) -> float:
    """The next number of four digits: what is printed is no less than what is needed."""
    unit = 10.0 ** (floor(log10(value)) - 3)
    return ceil(value / unit * (1 - 1e-12)) * unit


def _thinnest(fabric: Fabric, at: int, name: str, stepped: Stepped, limit: float) -> Needed:
    """The most oversubscription of a level."""
    tier = fabric.tiers[at]
    now = {level.name: level.oversubscription for level in capabilities_of(tier).levels}

    def thinned_s(over: float) -> float:
        return stepped(_with_oversubscription(fabric, at, name, over))

    found = None
    if thinned_s(1.0) <= limit:
        found = smallest(lambda share: thinned_s(max(1.0, 1 / share)), limit)
    what = f"thinnest {name} of {tier.name}"
    if found is None:
        return Needed(what, (), None, slowdown(now[name]), None)
    over = max(1.0, 1 / ceiled(found))
    values = ((f"{tier.name}.levels.{name}.oversubscription", f"{over:.6g}"),)
    return Needed(what, values, over, slowdown(now[name]), thinned_s(over))


def _with_oversubscription(fabric: Fabric, at: int, name: str, over: float) -> Fabric:
    levels = []
    for level in capabilities_of(fabric.tiers[at]).levels:
        if level.name == name:
            level = level.model_copy(update={"oversubscription": over})
        levels.append(level)
    update = {"levels": tuple(levels)}
    return with_tiers(fabric, lambda tier: tier.model_copy(update=update), [at])


def _inner_domain(fabric: Fabric, stepped: Stepped, limit: float) -> Iterator[Needed]:
    """The smallest of powers of two of the innermost size, with as many domains as then fill the
    fabric; lattices stay as they are."""
    if len(fabric.tiers) < 2 or any(capabilities_of(tier).axes for tier in fabric.tiers[:2]):
        return
    inner = fabric.tiers[0]
    what, now = f"smallest {inner.name} domain", float(inner.endpoints)
    for parts in domain_parts(fabric):
        other = split_domain(fabric, parts)
        step_s = stepped(other)
        if step_s <= limit:
            inside, outer = other.tiers[:2]
            sizes = {f"{tier.name}.size": str(tier.endpoints) for tier in (inside, outer)}
            for level in capabilities_of(outer).levels:
                sizes[f"{outer.name}.levels.{level.name}.group"] = str(level.group)
            yield Needed(what, tuple(sizes.items()), float(inside.endpoints), now, step_s)
            return
    yield Needed(what, (), None, now, None)


def domain_parts(fabric: Fabric) -> list[Fraction]:
    """Parts that a domain is cut in, the most first; below 1 as many domains are one. Levels stay
    in whole domains."""
    inner, outer = fabric.tiers[:2]
    groups = [level.group for level in capabilities_of(outer).levels]
    groups.append(outer.endpoints)
    found = [Fraction(2**step) for step in range(7, 0, -1) if _cuts(2**step, inner.endpoints)]
    for step in range(8):
        larger = inner.max_size is None or inner.endpoints * 2**step <= inner.max_size
        if larger and all(_cuts(2**step, group) for group in groups):
            found.append(Fraction(1, 2**step))
    return found


def _cuts(parts: int, size: int) -> bool:
    """Whether a size is cut in equal parts of more than one."""
    return size % parts == 0 and size > parts


def slowdown(given: float | HopByHop) -> float:
    """The slowdown of a level, as one number."""
    return given.uplinks if isinstance(given, HopByHop) else given


def split_domain(fabric: Fabric, parts: Fraction) -> Fabric:
    """A fabric whose innermost domains are cut in parts, or put together."""
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
