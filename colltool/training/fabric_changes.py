"""Proposals that change a fabric: the bandwidth of a tier, its oversubscription, its domains.

Each is a :class:`Knob`: a number of the fabric, and the fabric with another one. A plan's changes
turn it to what is usual next; a target turns it as low as the step allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from colltool.fabric.model import Fabric
from colltool.fabric.tier_parts import HopByHop
from colltool.fabric.topology import capabilities_of
from colltool.fabric.variants import bandwidth_values, scaled_rates, with_tiers
from colltool.training.registry import proposal
from colltool.training.sentences import Remark, remark, spelled

# times the bandwidth of a tier: the next generation of a NIC (200, 400, 800 Gb/s)
FASTER = 2


class FabricSetting(NamedTuple):
    """A number of a fabric, the values that set it as ``--set`` takes them, and the fabric."""

    value: float  # bandwidth in bytes/s, oversubscription or ranks of a domain
    values: dict[str, str]
    fabric: Fabric


class Knob(NamedTuple):
    """A number of one tier, and the fabric at another share of it.

    What a share is depends on the number: times the bandwidth, one over an oversubscription, or the
    parts that a domain is cut in.
    """

    tier: str
    number: int  # of the tier, from the inside
    at: Callable[[float], FabricSetting]  # from a share
    now: float  # the number itself, as ``FabricSetting.value``
    faster: tuple[Remark, float] | None = None  # a change of a plan, and its share; None: no plan's
    least: Remark | None = None  # what a target finds the least of; None: no target's
    tries: tuple[float, ...] | None = None  # shares that there are, the least first; None for any
    unit: float = 1.0  # a share times this is what is rounded for print


Knobs = Iterator[Knob]


@proposal("time", "target", of="fabric")
def tier_bandwidth(fabric: Fabric) -> Knobs:
    """Another bandwidth of a tier."""
    for index, tier in reversed([*enumerate(fabric.tiers)]):
        yield Knob(
            tier.name,
            index,
            partial(_at_bandwidth, fabric, index),
            tier.bandwidth,
            faster=(remark("faster_tier", tier=spelled(tier.name)), FASTER),
            least=remark("slowest_tier", tier=tier.name),
            unit=tier.bandwidth,
        )


def _at_bandwidth(fabric: Fabric, index: int, share: float) -> FabricSetting:
    """Return a fabric with a share of the bandwidth of a tier."""
    tier = fabric.tiers[index]
    scaled = with_tiers(fabric, partial(scaled_rates, share=share), [index])
    return FabricSetting(share * tier.bandwidth, bandwidth_values(tier, share), scaled)


@proposal("time", "target", of="fabric")
def oversubscription(fabric: Fabric) -> Knobs:
    """Less oversubscription of all levels of a tier at once, or more of one level; a share is one
    over it."""
    for number, tier in enumerate(fabric.tiers):
        abilities = capabilities_of(tier)
        thinned = [level.name for level in abilities.classes if level.oversubscription > 1]
        if abilities.levels and thinned:
            at = partial(_oversubscribed, fabric, number, thinned)
            label = remark("non_blocking_tier", tier=tier.name)
            yield Knob(tier.name, number, at, 1.0, faster=(label, 1.0))
        # endpoints stand under the first level: nothing is thinned before it
        for level in abilities.levels[1:]:
            yield Knob(
                tier.name,
                number,
                partial(_oversubscribed, fabric, number, [level.name]),
                oversubscription_of(level.oversubscription),
                least=remark("thinnest_level", level=level.name, tier=tier.name),
            )


def _oversubscribed(fabric: Fabric, number: int, names: list[str], share: float) -> FabricSetting:
    """Return a fabric with an oversubscription of one over the share in some levels of a tier."""
    over = max(1.0, 1 / share)
    tier = fabric.tiers[number]
    levels = []
    values = {}
    for level in capabilities_of(tier).levels:
        if level.name in names:
            level = level.model_copy(update={"oversubscription": over})
            values[f"{tier.name}.levels.{level.name}.oversubscription"] = f"{over:.6g}"
        levels.append(level)
    other = tier.model_copy(update={"levels": tuple(levels)})
    return FabricSetting(over, values, with_tiers(fabric, lambda _: other, [number]))


def oversubscription_of(stated: float | HopByHop) -> float:
    """Return the oversubscription of a level as a number; per hop that of the uplinks."""
    return stated.uplinks if isinstance(stated, HopByHop) else stated


@proposal("target", of="fabric")
def domain_size(fabric: Fabric) -> Knobs:
    """Other innermost domains, by powers of two, with as many as then fill the fabric; none for
    lattices."""
    if len(fabric.tiers) < 2 or any(capabilities_of(tier).axes for tier in fabric.tiers[:2]):
        return
    inner = fabric.tiers[0]
    yield Knob(
        inner.name,
        0,
        partial(_split_domain, fabric),
        float(inner.endpoints),
        least=remark("smallest_domain", tier=inner.name),
        tries=domain_parts(fabric),
    )


def domain_parts(fabric: Fabric) -> tuple[float, ...]:
    """Return the numbers of parts that a domain may be cut in, the largest first.

    Less than 1 joins domains: 1/2 makes one of two. Levels of switches keep whole domains.
    """
    inner, outer = fabric.tiers[:2]
    groups = [level.group for level in capabilities_of(outer).levels]
    groups.append(outer.endpoints)
    # from 128 parts of a domain to 128 domains in one
    parts = [2.0**power for power in range(7, 0, -1) if _tiles(2**power, inner.endpoints)]
    for power in range(8):
        is_allowed = inner.max_size is None or inner.endpoints * 2**power <= inner.max_size
        if is_allowed and all(_tiles(2**power, group) for group in groups):
            parts.append(2.0**-power)
    return tuple(parts)


def _tiles(parts: int, size: int) -> bool:
    """Whether a size can be cut in equal parts larger than 1."""
    return size % parts == 0 and size > parts


def _split_domain(fabric: Fabric, parts: float) -> FabricSetting:
    """Return a fabric whose innermost domains are cut in parts, or joined where parts are below 1."""
    inner, outer, *others = fabric.tiers
    ranks = int(inner.endpoints / parts)
    domains = int(outer.endpoints * parts)
    values = {
        f"{inner.name}.size": str(ranks),
        f"{outer.name}.size": str(domains),
    }
    wider: dict[str, object] = {"size": domains}
    levels = []
    for level in capabilities_of(outer).levels:
        group = int(level.group * parts)
        levels.append(level.model_copy(update={"group": group}))
        values[f"{outer.name}.levels.{level.name}.group"] = str(group)
    if levels:
        wider["levels"] = tuple(levels)
    smaller = inner.model_copy(update={"size": ranks})
    tiers = (smaller, outer.model_copy(update=wider), *others)
    return FabricSetting(float(ranks), values, fabric.model_copy(update={"tiers": tiers}))
