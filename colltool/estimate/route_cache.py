"""Costs of messages on routed links, kept from one process to the next: to route those of a large
dragonfly takes seconds, and a first price waits for them.

:func:`routed_costs` is what :mod:`colltool.estimate.link_cost` asks. It looks into three places: the
links themselves (``LinkNetwork.costs``), which a process keeps; the :class:`RouteCache` of the fabric,
within a block of :func:`route_cache`, which a price opens; and, behind that, a file in the user's cache.
There are files of shipped fabrics alone, as of everything there. A cost counts for the very links and
group that it was worked out on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, assert_never

from colltool.base.cache import keep, newest_change_ns, recall
from colltool.base.primitives import (
    AllPeers,
    Chain,
    Links,
    Pair,
    Peers,
    Ring,
    Rounds,
    Route,
    Servers,
    ShardExchange,
    Switch,
    Terms,
    Trees,
)
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.groups import spread_inside
from colltool.estimate.link_cost import LinkCost
from colltool.estimate.wired import LinkNetwork
from colltool.fabric.model import Fabric
from colltool.fabric.topology import routed

FEWEST_RANKS = 64
"""Members of a group whose costs are kept: messages of fewer are routed in the time that a
file takes."""
MOST_GROUPS = 64
"""Groups of a fabric whose costs are kept."""

_PACKAGE = Path(__file__).parent.parent
# what decides which messages a term has, and how they are routed
_CODE = ("algorithms", "estimate", "fabric", "network", "extras/synthesis")


class RouteCache:
    """Costs on the large groups of a shipped fabric.

    ``by_links`` has them by the digest of the links and then by the term. Each is the runs of messages
    of the term: of a file lists of fields, as JSON has them, else :class:`LinkCost`, which are tuples.
    """

    def __init__(self, fabric: str, by_links: dict[str, dict[str, Any]]) -> None:
        self.fabric = fabric
        self.by_links = by_links
        self.has_new = False

    def cost_of(self, wired: LinkNetwork, term: str) -> tuple[LinkCost, ...] | None:
        """The runs of messages of a term on these links; None where they were not kept."""
        runs = self.by_links.get(_digest_of_links(wired), {}).get(term)
        try:
            return None if runs is None else tuple(LinkCost(*run) for run in runs)
        # of another form than ours: an entry that somebody else wrote
        except TypeError:
            return None

    def add(self, wired: LinkNetwork, term: str, runs: tuple[LinkCost, ...]) -> None:
        """Note the runs of a term, to be saved, unless there are costs of too many groups."""
        links = _digest_of_links(wired)
        if links in self.by_links or len(self.by_links) < MOST_GROUPS:
            self.by_links.setdefault(links, {})[term] = runs
            self.has_new = True

    def save(self) -> None:
        """Write what was added to the file, for later processes."""
        if self.has_new:
            keep(f"routes-{self.fabric}", _code_state(), self.by_links)
            self.has_new = False


_routes: ContextVar[RouteCache | None] = ContextVar("routes", default=None)


@contextmanager
def route_cache(fabric: Fabric) -> Iterator[None]:
    """Reuse costs kept of a fabric within the block, and keep those worked out there for later.

    Only of shipped fabrics: the numbers of others are the user's own.
    """
    if not fabric.ships or fabric.overrides or not routed(fabric.tiers):
        yield
        return
    routes = _read_cache(fabric.name)
    token = _routes.set(routes)
    try:
        yield
    finally:
        _routes.reset(token)
    routes.save()


def routed_costs(terms: Terms, wired: LinkNetwork, readings: ModelOptions) -> list[LinkCost]:
    """The cost of one term on a group whose tiers are routed: its runs of messages, worked out once."""
    worst = readings.ring_alpha == "worst"
    # only walks and trees over rails differ with the number of ports
    spread = _over_rails(terms.route) and spread_inside(wired.positions[0].tier, readings)
    # routes are tuples: a ring and a chain of the same numbers are equal, and 8 is 8.0
    key = f"{terms!r} {worst} {spread}"
    if key in wired.costs:
        return list(wired.costs[key])
    routes = _routes.get() if wired.ranks >= FEWEST_RANKS else None
    runs = routes.cost_of(wired, key) if routes is not None else None
    if runs is None:
        # numpy, which a price of kept routes does without
        from colltool.estimate.routed_cost import routed_link_costs

        runs = tuple(routed_link_costs(terms, wired, worst=worst, spread=spread))
        if routes is not None:
            routes.add(wired, key, runs)
    wired.costs[key] = runs
    return list(runs)


def _over_rails(route: Route) -> bool:
    """Whether a route runs once per NIC of a node."""
    match route:
        case Ring() | Chain():
            return route.via == "rails"
        case Trees():
            return route.rails
        case (
            Rounds()
            | Peers()
            | AllPeers()
            | ShardExchange()
            | Pair()
            | Links()
            | Switch()
            | Servers()
        ):
            return False
        case _:
            assert_never(route)


@lru_cache(maxsize=16)
def _read_cache(name: str) -> RouteCache:
    """The costs kept of a fabric; empty where none are, or what is kept has another form."""
    by_links = recall(f"routes-{name}", _code_state())
    if isinstance(by_links, dict) and all(isinstance(costs, dict) for costs in by_links.values()):
        return RouteCache(name, by_links)
    return RouteCache(name, {})


def _code_state() -> str:
    """When the code that routes was changed last, in nanoseconds: a checkout changes between
    versions."""
    return str(newest_change_ns(*(str(_PACKAGE / folder) for folder in _CODE)))


@lru_cache(maxsize=64)
def _digest_of_links(wired: LinkNetwork) -> str:
    """A digest of all that routes and costs of a group depend on, with what a tier has beside its file:
    its library's numbers are private."""
    parts: list[object] = [wired.ranks, wired.ideal, wired.uneven]
    for position in wired.positions:
        tier = position.tier
        parts += [
            vars(tier),
            tier.__pydantic_private__,
            position.endpoints,
            position.members_inside,
        ]
        parts += [position.ranks_behind, position.nics, position.occupancy]
    return hashlib.sha256(repr(parts).encode()).hexdigest()
