"""What leads on one port, where that is another schedule than on all."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from colltool.algorithms.posted import many_sends
from colltool.algorithms.registry import every_algorithm
from colltool.fabric.model import Fabric
from colltool.fabric.topology import kind_of
from colltool.pricing.price import price
from colltool.pricing.readings import Readings
from colltool.pricing.results import Price
from colltool.pricing.row import Row
from colltool.pricing.who import AnyGroup


def with_turn(prices: tuple[Price, ...], fabric: Fabric, group: AnyGroup, readings: Readings) -> tuple[Price, ...]:
    """Prices, each with the schedule that ``ports=one`` has lead, where that is another one; not of arrays of sizes.

    Args:
        prices: with all algorithms, on ``fabric``, of ``group``, under ``readings``.
    """
    return tuple(_noted(one, fabric, group, readings) for one in prices)


def _noted(priced: Price, fabric: Fabric, group: AnyGroup, readings: Readings) -> Price:
    if readings.ports == "one" or not isinstance(priced.bytes, float) or not priced.leading:
        return priced
    first = priced.leading[0]
    if not _may_turn(fabric, first):
        return priced
    one_port = price(fabric, priced.primitive, priced.bytes, group, readings._replace(ports="one")).leading
    if not one_port or one_port[0].spec == first.spec:
        return priced
    return replace(priced, leads_on_one_port=one_port[0].title)


def _may_turn(fabric: Fabric, first: Row) -> bool:
    """Whether the leader posts to all peers at once, or there are links to drive at once."""
    posts = not _posting().isdisjoint({first.choice.base, *first.choice.tiers})
    return posts or any(kind_of(tier).joined_by != "switches" for tier in fabric.tiers)


@cache
def _posting() -> frozenset[str]:
    """The algorithms that post to all peers at once."""
    return frozenset(row.name for row in every_algorithm() if row.caveat is many_sends)
