"""A schedule for SimGrid: links, a route and a latency for each pair that sends, and the messages
step by step.

Links and latencies are those that colltool executes on; SimGrid finds out which messages share them
when, and at what rates.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.estimate.wired import LinkNetwork, link_network
from colltool.network.arrays import Indices
from colltool.network.links import LinkModel
from colltool.verification.schedule import Scheduled, Sent

MOST_SIMULATED = 20_000  # messages: SimGrid's Python keeps those on their way one by one
_ROUNDING = 1e-9  # tolerance of the share of a message that takes a link

# (sender, receiver, latency in seconds, numbers of the links on the way)
Route = tuple[int, int, float, list[int]]


def simgrid_input(run: Scheduled, size: float) -> str:
    """Return the JSON that ``simgrid_run`` reads, for ``size`` bytes of M; the schedule is consumed.

    Raises:
        ColltoolError: as :meth:`Scheduled.steps`; more than :data:`MOST_SIMULATED` messages; a message that
            is spread over several ways, as SimGrid has one route for a pair.
    """
    import numpy as np

    steps = list(_limited_steps(run.steps(size)))
    pairs = set()
    for step in steps:
        pairs |= {(message.src, message.dst) for message in step}
    ends = np.array(sorted(pairs), dtype=np.int64)  # shape (pairs, 2)
    placed = run.placed
    positions = tuple(span.position for span in placed.spans)
    # every η at 1: the links at their full rates, as the schedule is executed
    link_model = link_network(positions, placed.ranks, ideal=True, uneven=placed.domains)
    routes, links = _routes_and_links(link_model, ends[:, 0], ends[:, 1])
    rates = [_rate_Bps(link_model.network.tiers[link.tier], link) for link in links]
    return json.dumps({"links": rates, "routes": routes, "steps": steps})


def _limited_steps(steps: Iterator[list[Sent]]) -> Iterator[list[Sent]]:
    """Pass the steps on; raise ColltoolError at the one that exceeds :data:`MOST_SIMULATED`."""
    remaining = MOST_SIMULATED
    for step in steps:
        remaining -= len(step)
        if remaining < 0:
            what = f"simgrid gets more than {MOST_SIMULATED:,} messages here"
            raise ColltoolError(what, argument="simulator", fix="take fewer ranks")
        yield step


class _RouteLink(NamedTuple):
    """A link of the network; all are numbers."""

    tier: int
    link_class: int  # of the tier
    place: int  # in the class


def _routes_and_links(
    link_model: LinkNetwork, src: Indices, dst: Indices
) -> tuple[list[Route], Sequence[_RouteLink]]:
    """The route of each pair, and the links that routes name by their places in this sequence;
    ``src`` and ``dst`` have the shape (pairs,). ColltoolError where a pair's bytes take several
    ways."""
    numbers: dict[_RouteLink, int] = {}
    ways: list[list[int]] = [[] for _ in src]  # numbers of links, by pair
    # each use: links of one class (``number``), by place (``resource``), and the pairs that take
    # them (``message``)
    for tier, use in link_model.uses(src, dst):
        # A message that takes a link of half the rate has a share of 2 there. SimGrid gets the lower
        # rate instead, so without it all shares must be 1.
        slowness = link_model.network.tiers[tier].slowness(use.number, use.resource)
        _check_not_spread((use.share / slowness).tolist())
        for message, place in zip(use.message.tolist(), use.resource.tolist(), strict=True):
            link = _RouteLink(tier, use.number, place)
            ways[message].append(numbers.setdefault(link, len(numbers)))
    latencies_s = link_model.latency(src, dst).tolist()
    routes = list(zip(src.tolist(), dst.tolist(), latencies_s, ways, strict=True))
    return routes, tuple(numbers)


def _rate_Bps(tier: LinkModel, link: _RouteLink) -> float:
    """Bytes/s of a link, fewer than its class has where the fabric says that it is slow."""
    import numpy as np

    slowness = tier.slowness(link.link_class, np.array([link.place]))[0]
    return float(tier.classes[link.link_class].capacity_Bps / slowness)


def _check_not_spread(shares: Sequence[float]) -> None:
    """Raise ColltoolError for messages of which only a share takes a link."""
    if any(abs(share - 1) > _ROUNDING for share in shares):
        what = (
            "simgrid has one route for a pair of ranks, and messages here are spread over several"
        )
        raise ColltoolError(
            what, argument="simulator", fix="take a schedule between neighbours, such as a ring"
        )
