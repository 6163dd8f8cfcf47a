"""Adding up what groups load, line by line: only one line's totals are there at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from colltool.congestion.arrays import SMALL, Floats, Indices
from colltool.congestion.links import Line, Use, Wires


class Messages(NamedTuple):
    """Messages of all groups: fabric endpoints, bytes (or units of M), and the number of their group, shape (m,)."""

    src: Indices
    dst: Indices
    size: Floats
    group: Indices

    def some(self, chosen: Indices) -> "Messages":
        """Those messages; itself where that is all of them."""
        if len(chosen) == len(self.src):
            return self
        return Messages(self.src[chosen], self.dst[chosen], self.size[chosen], self.group[chosen])


class LineTotals(NamedTuple):
    """One line of a tier under all messages.

    Args:
        tier, line: numbers of both.
        kind: the line.
        load: bytes on each resource.
        users: how many groups load each.
        resource, group: every pair of them that met, each once, by resource and then by group, shape (pairs,).
        own: bytes that the group of each pair puts on its resource.
    """

    tier: int
    line: int
    kind: Line
    load: Floats
    users: Indices
    resource: Indices
    group: Indices
    own: Floats


def tier_of(wires: list[Wires], src: Indices, dst: Indices) -> Indices:
    """The innermost tier whose domain holds both ends of each message."""
    tier = np.zeros(len(src), dtype=np.int8)
    for one in wires[:-1]:
        domain = one.inside * one.tier.endpoints
        tier += src // domain != dst // domain
    return tier


def departures(wires: Wires, messages: Messages, chosen: Indices) -> Messages:
    """The chosen messages, each from the port on the tier that it leaves by: the sender's, or its neighbour's on the receiver's
    rail.

    Libraries forward inside the domain to stay on a rail, through members of the same group only. What that loads inside is
    not counted.
    """
    some = messages.some(chosen)
    if wires.rails == 1:
        return some
    neighbour = wires.departures(some.src, some.dst)
    group = messages.group.astype(np.int64) * wires.ranks
    members = np.unique(np.concatenate([group + messages.src, group + messages.dst]))
    there = np.isin(some.group.astype(np.int64) * wires.ranks + neighbour, members)
    return some._replace(src=np.where(there, neighbour, some.src))


def totals(wires: list[Wires], messages: Messages) -> Iterator[LineTotals]:
    """Every line of every tier that carries a message."""
    tier = tier_of(wires, messages.src, messages.dst)
    for number, one in enumerate(wires):
        chosen = np.flatnonzero(tier == number)
        if len(chosen):
            some = departures(one, messages, chosen)
            for use in one.uses(some.src, some.dst):
                yield _line_totals(number, one.lines[use.line], use, some)


def _line_totals(tier: int, kind: Line, use: Use, messages: Messages) -> LineTotals:
    count = len(kind.exists)
    share, group = messages.size[use.message] * use.share, messages.group[use.message]
    order = np.lexsort((group, use.resource))
    resource, group = use.resource[order], group[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (resource[1:] != resource[:-1]) | (group[1:] != group[:-1])
    load = np.bincount(use.resource, share, count)
    own = np.bincount(np.cumsum(new) - 1, share[order])
    resource, group = resource[new], group[new]
    users = np.bincount(resource, minlength=count).astype(SMALL)
    return LineTotals(
        tier=tier,
        line=use.line,
        kind=kind,
        load=np.asarray(load, dtype=np.float64),
        users=users,
        resource=resource.astype(SMALL),
        group=group,
        own=np.asarray(own, dtype=np.float64),
    )


def latency(wires: list[Wires], messages: Messages) -> tuple[Floats, Indices]:
    """Seconds of α and links of each message."""
    alpha, links = np.zeros(len(messages.src)), np.zeros(len(messages.src), dtype=SMALL)
    tier = tier_of(wires, messages.src, messages.dst)
    for number, one in enumerate(wires):
        chosen = np.flatnonzero(tier == number)
        if len(chosen):
            some = departures(one, messages, chosen)
            alpha[chosen], links[chosen] = one.latency(some.src, some.dst)
    return alpha, links
