"""What leads on one port, where that is another schedule than on all."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from colltool.algorithms.registry import every_algorithm
from colltool.algorithms.routes import many_sends
from colltool.base.arrays import first_least
from colltool.estimate.price import price
from colltool.estimate.readings import Readings
from colltool.estimate.results import Price
from colltool.estimate.row import Row
from colltool.estimate.who import AnyGroup
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of


def with_turn(prices: tuple[Price, ...], fabric: Fabric, group: AnyGroup, readings: Readings) -> tuple[Price, ...]:
    """Prices, each with the schedule that ``ports=one`` has lead, where that is another one; of an array at each size.

    Args:
        prices: with all algorithms, on ``fabric``, of ``group``, under ``readings``.
    """
    return tuple(_noted(one, fabric, group, readings) for one in prices)


def _noted(priced: Price, fabric: Fabric, group: AnyGroup, readings: Readings) -> Price:
    one_size = isinstance(priced.bytes, float)
    nothing = priced if one_size else replace(priced, leads_on_one_port=("",) * len(priced.bytes))  # type: ignore[arg-type]
    rows = priced.leading
    if readings.ports == "one" or not rows:
        return nothing
    first = _firsts(priced)
    turns = {at: _may_turn(fabric, rows[at]) for at in set(first)}
    if not any(turns.values()):
        return nothing
    one_port = price(fabric, priced.primitive, priced.bytes, group, readings._replace(ports="one"))
    others = one_port.leading
    if not others:
        return nothing
    pairs = list(zip(first, _firsts(one_port), strict=True))
    named = {(at, to): others[to].title if turns[at] and others[to].spec != rows[at].spec else "" for at, to in set(pairs)}
    turned = tuple(named[pair] for pair in pairs)
    return replace(priced, leads_on_one_port=turned[0] if one_size else turned)


def _firsts(priced: Price) -> list[int]:
    """Which of the leading rows is the fastest, at each size."""
    if isinstance(priced.bytes, float):
        return [0]
    index: list[int] = first_least([row.total_s for row in priced.leading]).tolist()
    return index


def _may_turn(fabric: Fabric, first: Row) -> bool:
    """Whether the leader posts to all peers at once, or there are links to drive at once."""
    posts = not _posting().isdisjoint({first.choice.base, *first.choice.tiers})
    return posts or any(capabilities_of(tier).joined_by != "switches" for tier in fabric.tiers)


@cache
def _posting() -> frozenset[str]:
    """The algorithms that post to all peers at once."""
    return frozenset(row.name for row in every_algorithm() if row.caveat is many_sends)
