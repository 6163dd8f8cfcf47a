"""The least network that keeps a step near that of a free one: slowest tier, thinnest spine,
smallest inner domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from math import ceil, floor, log10
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

SLOWEST, FASTEST, CLOSE = 1 / 64, 64.0, 1.005


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
    def spoken(self) -> str:
        if self.over is not None:
            return f"a step within {100 * self.over:.4g}% of a free network"
        assert self.mfu is not None
        return f"an MFU of {100 * self.mfu:.4g}%"


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
    config: ParallelConfig,
    costs: CollectiveCostCache,
    plain: tuple[PlainCall, ...],
    now: TrainingStep,
    target: Target,
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
        share = None if found is None else ceiled(found * tier.bandwidth) / tier.bandwidth
        values = {} if share is None else bandwidth_values(tier, share)
        rate, step = (None, None) if share is None else (share * tier.bandwidth, scaled_s(share))
        yield Needed(f"slowest {tier.name}", tuple(values.items()), rate, tier.bandwidth, step)
        for name in (one.name for one in capabilities_of(tier).levels[1:]):
            yield _thinnest(fabric, at, name, stepped, limit)
    yield from _inner_domain(fabric, stepped, limit)


def _faster(fabric: Fabric, at: int, share: float) -> Fabric:
    """As the overrides make it that are printed."""
    return with_tiers(fabric, partial(scaled_rates, share=share), [at])


def smallest(step_s: Callable[[float], float], limit: float) -> float | None:
    """The least share of a bandwidth, to half a percent, by bisection: a faster wire never takes
    longer."""
    low, high = SLOWEST, FASTEST
    if step_s(high) > limit:
        return None
    if step_s(low) <= limit:
        return low
    while high / low > CLOSE:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if step_s(middle) <= limit else (middle, high)
    return high


def ceiled(value: float) -> float:
    """The next number of four digits: what is printed is no less than what is needed."""
    unit = 10.0 ** (floor(log10(value)) - 3)
    return ceil(value / unit * (1 - 1e-12)) * unit


def _thinnest(
    fabric: Fabric, at: int, name: str, stepped: Callable[[Fabric], float], limit: float
) -> Needed:
    def thin(over: float) -> Fabric:
        tier = fabric.tiers[at]
        levels = tuple(
            one.model_copy(update={"oversubscription": over}) if one.name == name else one
            for one in capabilities_of(tier).levels
        )
        return with_tiers(fabric, lambda one: one.model_copy(update={"levels": levels}), [at])

    tier = fabric.tiers[at]
    now = next(one.oversubscription for one in capabilities_of(tier).levels if one.name == name)
    found = (
        smallest(lambda share: stepped(thin(max(1.0, 1 / share))), limit)
        if stepped(thin(1.0)) <= limit
        else None
    )
    over = None if found is None else max(1.0, 1 / ceiled(found))
    values = (
        () if over is None else ((f"{tier.name}.levels.{name}.oversubscription", f"{over:.6g}"),)
    )
    return Needed(
        f"thinnest {name} of {tier.name}",
        values,
        over,
        slowdown(now),
        None if over is None else stepped(thin(over)),
    )


def _inner_domain(
    fabric: Fabric, stepped: Callable[[Fabric], float], limit: float
) -> Iterator[Needed]:
    """Of powers of two of the innermost size, and as many domains as then fill the fabric; not of
    lattices."""
    inner = fabric.tiers[0]
    if (
        len(fabric.tiers) < 2
        or capabilities_of(inner).axes
        or capabilities_of(fabric.tiers[1]).axes
    ):
        return
    for parts in domain_parts(fabric):
        other = split_domain(fabric, parts)
        if (step_s := stepped(other)) <= limit:
            sizes = {f"{tier.name}.size": str(tier.endpoints) for tier in other.tiers[:2]}
            outer = other.tiers[1].name
            sizes |= {
                f"{outer}.levels.{one.name}.group": str(one.group)
                for one in capabilities_of(other.tiers[1]).levels
            }
            found = float(other.tiers[0].endpoints)
            yield Needed(
                f"smallest {inner.name} domain",
                tuple(sizes.items()),
                found,
                float(inner.endpoints),
                step_s,
            )
            return
    yield Needed(f"smallest {inner.name} domain", (), None, float(inner.endpoints), None)


def domain_parts(fabric: Fabric) -> list[Fraction]:
    """Parts that a domain is cut in, the most first; below 1 as many domains are one. Levels stay
    in whole domains."""
    inner, outer = (tier.endpoints for tier in fabric.tiers[:2])
    groups = [one.group for one in capabilities_of(fabric.tiers[1]).levels] + [outer]
    fewer = [Fraction(2**step) for step in range(1, 8) if inner % 2**step == 0 and inner > 2**step]
    more = [
        Fraction(1, 2**step)
        for step in range(8)
        if all(group % 2**step == 0 and group > 2**step for group in groups)
    ]
    most = fabric.tiers[0].max_size
    return [*reversed(fewer), *(parts for parts in more if most is None or inner / parts <= most)]


def slowdown(given: float | HopByHop) -> float:
    """Of a level, as one number."""
    return given.uplinks if isinstance(given, HopByHop) else given


def split_domain(fabric: Fabric, parts: Fraction) -> Fabric:
    inner, outer = fabric.tiers[0], fabric.tiers[1]
    levels = tuple(
        one.model_copy(update={"group": int(one.group * parts)})
        for one in capabilities_of(outer).levels
    )
    wider = {"size": int(outer.endpoints * parts)} | ({"levels": levels} if levels else {})
    tiers = (
        inner.model_copy(update={"size": int(inner.endpoints / parts)}),
        outer.model_copy(update=wider),
        *fabric.tiers[2:],
    )
    return fabric.model_copy(update={"tiers": tiers})
