"""Adding up what groups load: totals of every resource, and what each group meets on those it uses."""

from typing import Any, NamedTuple

import numpy as np

from colltool.schedules.step import Indices
from colltool.wires.links import Wires
from colltool.wires.traffic import Floats


class Messages(NamedTuple):
    """Messages of all groups: fabric endpoints, bytes (or units of M), and the number of their group, shape (m,)."""

    src: Indices
    dst: Indices
    size: Floats
    group: Indices


class LineTotals(NamedTuple):
    """One line of a tier under all messages.

    Args:
        tier, line: numbers of both.
        load: bytes on each resource.
        users: how many groups load each.
        pairs: (resource, group), each once.
        own: bytes that the group of each pair puts on its resource.
    """

    tier: int
    line: int
    load: Floats
    users: Indices
    pairs: tuple[Indices, Indices]
    own: Floats


def tier_of(wires: list[Wires], src: Indices, dst: Indices) -> Indices:
    """The innermost tier whose domain holds both ends of each message."""
    tier = np.zeros(len(src), dtype=np.int64)
    for one in wires[:-1]:
        domain = one.inside * one.tier.endpoints
        tier += src // domain != dst // domain
    return tier


def departures(wires: Wires, messages: Messages, chosen: Indices) -> Indices:
    """Whose port on the tier a message leaves by: the sender's, or its neighbour's on the receiver's rail.

    Libraries forward inside the domain to stay on a rail, through members of the same group only. What that loads inside is
    not counted.
    """
    src, dst, group = messages.src[chosen], messages.dst[chosen], messages.group[chosen]
    if wires.rails == 1:
        return src
    neighbour = wires.departures(src, dst)
    ends = np.concatenate([messages.src, messages.dst])
    members = np.unique(np.tile(messages.group, 2) * wires.ranks + ends)
    return np.where(np.isin(group * wires.ranks + neighbour, members), neighbour, src)


def totals(wires: list[Wires], messages: Messages, groups: int) -> list[LineTotals]:
    """Every line of every tier that carries a message."""
    out = []
    tier = tier_of(wires, messages.src, messages.dst)
    for number, one in enumerate(wires):
        chosen = np.flatnonzero(tier == number)
        if not len(chosen):
            continue
        size, group = messages.size[chosen], messages.group[chosen]
        for use in one.uses(departures(one, messages, chosen), messages.dst[chosen]):
            count = len(one.lines[use.line].exists)
            share = size[use.message] * use.share
            load = np.bincount(use.resource, share, count)
            key, pair = np.unique(use.resource * groups + group[use.message], return_inverse=True)
            own = np.bincount(pair, share, len(key))
            resource, by = np.divmod(key, groups)
            users = np.bincount(resource, minlength=count)
            out.append(LineTotals(number, use.line, _floats(load), users, (resource, by), _floats(own)))
    return out


def _floats(values: Any) -> Floats:
    return np.asarray(values, dtype=np.float64)


class Met(NamedTuple):
    """What each group meets, shape (groups,): seconds on its busiest resource, and where; its mean there; α, most links.

    Args:
        busiest_s: load/capacity.
        alone_s: the same in the same places, with nobody else there.
        mean_s: over the resources that the group uses of the line of its busiest.
        at: index into the totals of the line of its busiest.
        alpha_s: mean over its messages, without η.
        links: most of any of its messages.
    """

    busiest_s: Floats
    alone_s: Floats
    mean_s: Floats
    at: Indices
    alpha_s: Floats
    links: Indices


def met(wires: list[Wires], messages: Messages, lines: list[LineTotals], groups: int) -> Met:
    """What every group meets on the resources that it uses, all groups together."""
    busiest, mean, at = np.zeros(groups), np.zeros(groups), np.zeros(groups, dtype=np.int64)
    alone = np.zeros(groups)
    for number, line in enumerate(lines):
        resource, by = line.pairs
        capacity = wires[line.tier].lines[line.line].capacity_Bps
        seconds = line.load[resource] / capacity
        np.maximum.at(alone, by, line.own / capacity)
        here = np.zeros(groups)
        np.maximum.at(here, by, seconds)
        average = np.bincount(by, seconds, groups) / np.maximum(np.bincount(by, minlength=groups), 1)
        more = here > busiest * (1 + 1e-12)  # a tie stays with the line that comes first
        busiest, mean, at = np.where(more, here, busiest), np.where(more, average, mean), np.where(more, number, at)
    alpha, links = latency(wires, messages)
    most = np.zeros(groups, dtype=np.int64)
    np.maximum.at(most, messages.group, links)
    counts = np.maximum(np.bincount(messages.group, minlength=groups), 1)
    return Met(busiest, alone, mean, at, np.bincount(messages.group, alpha, groups) / counts, most)


def latency(wires: list[Wires], messages: Messages) -> tuple[Floats, Indices]:
    """Seconds of α and links of each message."""
    alpha, links = np.zeros(len(messages.src)), np.zeros(len(messages.src), dtype=np.int64)
    tier = tier_of(wires, messages.src, messages.dst)
    for number, one in enumerate(wires):
        chosen = np.flatnonzero(tier == number)
        if len(chosen):
            alpha[chosen], links[chosen] = one.latency(departures(one, messages, chosen), messages.dst[chosen])
    return alpha, links


class Ideal(NamedTuple):
    """A collective alone, packed: seconds on its busiest resource, on its busiest port or link, mean α, most links, the tier.

    ``tiers`` are all that carry a message.
    """

    busiest_s: float
    endpoint_s: float
    alpha_s: float
    links: int
    tier: int
    tiers: tuple[int, ...]


def ideal(wires: list[Wires], src: Indices, dst: Indices, size: Floats, neighbours: bool) -> Ideal:
    """The same messages alone, member i on endpoint i: in as few domains as possible, on a lattice axis by axis.

    That is the layout that ``price`` assumes. With ``neighbours`` every message inside a lattice is one hop on a link of its
    own, as along the ring of a full axis.
    """
    tier = tier_of(wires, src, dst)
    embedded = np.isin(tier, [i for i, one in enumerate(wires) if one.hop_alpha_s is not None]) & neighbours
    messages = Messages(src, dst, size, np.zeros(len(src), dtype=np.int64))
    far = ~embedded
    walked = Messages(src[far], dst[far], size[far], messages.group[far])
    busy = [_Busy(number, 0.0, 0.0) for number in range(len(wires))]
    for line in totals(wires, walked, 1):
        kind = wires[line.tier].lines[line.line]
        seconds = float(line.load.max()) / kind.capacity_Bps
        busy[line.tier] = busy[line.tier].with_line(seconds, kind.endpoint)
    for number in np.unique(tier[embedded]):
        seconds = float(size[embedded & (tier == number)].max()) / wires[number].rate
        busy[number] = busy[number].with_line(seconds, endpoint=True)
    alpha, links = latency(wires, messages)
    alpha[embedded] = [wires[number].hop_alpha_s for number in tier[embedded]]
    links[embedded] = 1
    worst = max(busy, key=lambda one: one.busiest_s)
    return Ideal(
        worst.busiest_s, worst.endpoint_s, float(alpha.mean()), int(links.max()), worst.tier, tuple(map(int, np.unique(tier)))
    )


class _Busy(NamedTuple):
    tier: int
    busiest_s: float
    endpoint_s: float

    def with_line(self, seconds: float, endpoint: bool) -> "_Busy":
        return _Busy(self.tier, max(self.busiest_s, seconds), max(self.endpoint_s, seconds if endpoint else 0.0))
