"""The least network that keeps a step near that of a free one: slowest tier, thinnest spine, smallest inner domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.fabric.model import Fabric
from colltool.fabric.tier_parts import HopByHop
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import scaled_bandwidth, with_tiers
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.job import PlainCall
from colltool.training.operations import model_flops
from colltool.training.parallel_config import ParallelConfig
from colltool.training.step_time import TrainingStep, step_time

SLOWEST, FASTEST, CLOSE = 1 / 64, 64.0, 1.005
MOST_OVERSUBSCRIBED = 64.0


class Target(NamedTuple):
    """``mfu`` at least, or a step at most ``over`` that of a free network, as shares."""

    mfu: float | None = None
    over: float | None = None

    def limit_s(self, config: ParallelConfig, control_s: float) -> float:
        """Seconds a step may take."""
        if self.over is not None:
            return (1 + self.over) * control_s
        assert self.mfu is not None
        assert config.device is not None
        return model_flops(config) / (self.mfu * config.device.peak_flops(config.precision.compute) * config.layout.ranks)

    @property
    def spoken(self) -> str:
        return f"a step within {self.over:.3%} of a free network" if self.over is not None else f"an MFU of {self.mfu:.3%}"


class Needed(NamedTuple):
    """``value`` is None where no such change reaches the target."""

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
    config: ParallelConfig, costs: CollectiveCostCache, plain: tuple[PlainCall, ...], now: TrainingStep, target: Target
) -> Targeted:
    limit, fabric = target.limit_s(config, now.control_s), costs.fabric

    def stepped(other: Fabric) -> float:
        try:
            return step_time(config, CollectiveCostCache(other, costs.readings), plain).step_s
        except ColltoolError:  # a group does not sit on it
            return float("inf")

    possible = now.control_s <= limit
    needed = tuple(_needed(fabric, stepped, limit)) if possible else ()
    return Targeted(target, limit, reached=now.step_s <= limit, possible=possible, needed=needed)


def _needed(fabric: Fabric, stepped: Callable[[Fabric], float], limit: float) -> Iterator[Needed]:
    for at, tier in reversed(list(enumerate(fabric.tiers))):

        def scaled_s(share: float, at: int = at) -> float:
            return stepped(_faster(fabric, at, share))

        found = smallest(scaled_s, limit)
        rate = None if found is None else found * tier.bandwidth
        values = () if rate is None else ((f"{tier.name}.bandwidth", f"{rate / 1e9:.4g}GB/s"),)
        step = None if found is None else stepped(_faster(fabric, at, found))
        yield Needed(f"slowest {tier.name}", values, rate, tier.bandwidth, step)
        for name in (one.name for one in capabilities_of(tier).levels):
            yield _thinnest(fabric, at, name, stepped, limit)
    yield from _inner_domain(fabric, stepped, limit)


def _faster(fabric: Fabric, at: int, share: float) -> Fabric:
    return with_tiers(fabric, partial(scaled_bandwidth, share=share), [at])


def smallest(step_s: Callable[[float], float], limit: float) -> float | None:
    """The least share of a bandwidth, to half a percent, by bisection: a faster wire never takes longer."""
    low, high = SLOWEST, FASTEST
    if step_s(high) > limit:
        return None
    if step_s(low) <= limit:
        return low
    while high / low > CLOSE:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if step_s(middle) <= limit else (middle, high)
    return high


def _thinnest(fabric: Fabric, at: int, name: str, stepped: Callable[[Fabric], float], limit: float) -> Needed:
    def thin(over: float) -> Fabric:
        tier = fabric.tiers[at]
        levels = tuple(
            one.model_copy(update={"oversubscription": over}) if one.name == name else one for one in capabilities_of(tier).levels
        )
        return with_tiers(fabric, lambda one: one.model_copy(update={"levels": levels}), [at])

    tier = fabric.tiers[at]
    now = next(one.oversubscription for one in capabilities_of(tier).levels if one.name == name)
    found = smallest(lambda share: stepped(thin(max(1.0, 1 / share))), limit) if stepped(thin(1.0)) <= limit else None
    over = None if found is None else min(MOST_OVERSUBSCRIBED, max(1.0, 1 / found))
    values = () if over is None else ((f"{tier.name}.levels.{name}.oversubscription", f"{over:.4g}"),)
    return Needed(f"thinnest {name} of {tier.name}", values, over, slowdown(now), None if over is None else stepped(thin(over)))


def _inner_domain(fabric: Fabric, stepped: Callable[[Fabric], float], limit: float) -> Iterator[Needed]:
    """Half as wide again and again, with as many more of them outside; not of lattices, nor under levels that count nodes."""
    inner = fabric.tiers[0]
    if len(fabric.tiers) < 2 or capabilities_of(inner).axes or capabilities_of(fabric.tiers[1]).axes:
        return
    best: tuple[int, float] | None = None
    size = inner.endpoints
    while size % 2 == 0 and size > 2:
        size //= 2
        step = stepped(split_domain(fabric, inner.endpoints // size))
        if step > limit:
            break
        best = size, step
    values = () if best is None else ((f"{inner.name}.size", str(best[0])),)
    whole = (inner.endpoints, None) if stepped(fabric) <= limit else (None, None)
    value, step_s = best or whole
    yield Needed(f"smallest {inner.name} domain", values, value, float(inner.endpoints), step_s)


def slowdown(given: float | HopByHop) -> float:
    """Of a level, as one number."""
    return given.uplinks if isinstance(given, HopByHop) else given


def split_domain(fabric: Fabric, parts: int) -> Fabric:
    inner, outer = fabric.tiers[0], fabric.tiers[1]
    levels = tuple(one.model_copy(update={"group": one.group * parts}) for one in capabilities_of(outer).levels)
    wider = {"size": outer.endpoints * parts} | ({"levels": levels} if levels else {})
    tiers = (inner.model_copy(update={"size": inner.endpoints // parts}), outer.model_copy(update=wider), *fabric.tiers[2:])
    return fabric.model_copy(update={"tiers": tiers})
