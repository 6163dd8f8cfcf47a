"""Loads of links under the messages of all groups, and the hottest links.

:func:`totals` adds loads up one link class at a time, so that only its totals are in memory;
:class:`Heat` keeps the hottest links of these, and :func:`baseline` is a collective alone and packed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import ceil_div
from colltool.congestion.traffic import Traffic
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats, Indices
from colltool.network.links import (
    SMALL,
    LevelBoundary,
    LinkClass,
    LinkModel,
    TierRanks,
    tier_of,
)
from colltool.network.tier_links import links_of


class Messages(NamedTuple):
    """Messages of all groups, each array of shape (m,)."""

    src: Indices  # endpoints
    dst: Indices
    size: Floats  # bytes, or units of M
    group: Indices  # number of the group

    def some(self, chosen: Indices) -> Messages:
        """The messages with these numbers; all of them are no copy."""
        if len(chosen) == len(self.src):
            return self
        return Messages(self.src[chosen], self.dst[chosen], self.size[chosen], self.group[chosen])


class ClassTotals(NamedTuple):
    """Loads of one link class under all messages."""

    tier: int
    class_number: int  # in its tier
    kind: LinkClass
    load: Floats  # bytes on each resource
    users: Indices  # groups on each resource
    # Every (resource, group) that loads it, in order; shape (pairs,) each.
    resource: Indices
    group: Indices
    pair_load: Floats  # bytes of each of these pairs


def messages_of_batches(sent: Iterable[tuple[Indices, Traffic, Floats, Indices]]) -> Messages:
    """The messages of all batches of groups that send alike.

    ``sent``: of each batch endpoints of shape (groups, N), traffic, and bytes and number of each
    group, shape (groups,).
    """
    parts = []
    for ends, traffic, amounts, numbers in sent:
        sending = np.flatnonzero(traffic.size > 0)
        parts.append(
            Messages(
                src=ends[:, traffic.src[sending]].ravel(),
                dst=ends[:, traffic.dst[sending]].ravel(),
                size=np.multiply.outer(amounts, traffic.size[sending]).ravel(),
                group=np.repeat(numbers, len(sending)),
            )
        )
    return Messages(*map(np.concatenate, zip(*parts, strict=True)))


def link_models(fabric: Fabric) -> list[LinkModel]:
    """The resources of every tier, innermost first; every rank has a port of its own on the outer
    tiers."""
    models: list[LinkModel] = []
    inside = 1
    for tier in fabric.tiers:
        models.append(_tier_links(tier, fabric.ranks, inside))
        inside *= tier.endpoints
    return models


def _tier_links(tier: Tier, ranks: int, inside: int) -> LinkModel:
    """The links of a tier with ``inside`` ranks behind each endpoint."""
    kind = capabilities_of(tier)
    size = tier.endpoints
    rate_Bps = kind.rate_Bps
    if kind.joined_by == "pair_links" and ranks * size > 2**25:
        links = ranks // size * size * (size - 1)
        raise ColltoolError(
            f"{tier.name} has {links} links, too many to follow",
            argument="fabric",
            fix=f"a smaller full mesh, with {argument_text('overrides')}",
        )
    levels = kind.classes
    rails = 1
    if tier.rail_only:
        rails = inside  # one for each place in a domain
    elif kind.sizing is not None and len(levels) > 1 and inside % kind.sizing.rails == 0:
        rails = kind.sizing.rails
    boundaries = []
    for below, above in pairwise(levels):
        uplink_Bps = below.group * inside * rate_Bps / (above.oversubscription * rails)
        boundaries.append(LevelBoundary(below.name, below.group, uplink_Bps))
    return links_of(
        kind.joined_by,
        TierRanks(ranks, inside, size, tier.name, rate_Bps),
        axes=kind.axes,
        alphas_s=[level.alpha_s for level in levels],
        boundaries=boundaries,
        rails=rails,
        apart=tier.rail_only,
        wires=kind.wires(size),
    )


def _by_tier(
    models: list[LinkModel], messages: Messages
) -> Iterator[tuple[int, LinkModel, Indices, Messages]]:
    """For each tier in use: its number, its links, the numbers of its messages, and these from
    where they enter the tier.

    With rails that is the sender's neighbour on the receiver's rail where its group has one, else
    the sender: libraries forward inside the domain to stay on a rail. What that loads inside is not
    counted.
    """
    on_tier = tier_of(models, messages.src, messages.dst)
    for number, model in enumerate(models):
        chosen = np.flatnonzero(on_tier == number)
        if not len(chosen):
            continue
        some = messages.some(chosen)
        if model.rails > 1:
            # A member is one number: of its group, then of its rank.
            first = messages.group.astype(np.int64) * model.ranks
            members = np.unique(np.concatenate([first + messages.src, first + messages.dst]))
            neighbour = model.departures(some.src, some.dst)
            forwards = np.isin(first[chosen] + neighbour, members)
            some = some._replace(src=np.where(forwards, neighbour, some.src))
        yield number, model, chosen, some


def totals(models: list[LinkModel], messages: Messages) -> Iterator[ClassTotals]:
    """The loads of every link class in use, tier by tier."""
    for tier, model, _, some in _by_tier(models, messages):
        for use in model.uses(some.src, some.dst):
            kind = model.classes[use.number]
            links = len(kind.exists)
            share = some.size[use.message] * use.share
            group = some.group[use.message]
            order = np.lexsort((group, use.resource))
            resource = use.resource[order]
            group = group[order]
            # Where a pair of resource and group differs from the one before it.
            new = np.ones(len(order), dtype=bool)
            new[1:] = (resource[1:] != resource[:-1]) | (group[1:] != group[:-1])
            yield ClassTotals(
                tier=tier,
                class_number=use.number,
                kind=kind,
                load=np.bincount(use.resource, share, links).astype(np.float64),
                users=np.bincount(resource[new], minlength=links).astype(SMALL),
                resource=resource[new].astype(SMALL),
                group=group[new],
                pair_load=np.bincount(np.cumsum(new) - 1, share[order]).astype(np.float64),
            )


def latency(models: list[LinkModel], messages: Messages) -> tuple[Floats, Indices]:
    """Each message's α in seconds, without η, and its number of links."""
    alpha_s = np.zeros(len(messages.src))
    links = np.zeros(len(messages.src), dtype=SMALL)
    for _, model, chosen, some in _by_tier(models, messages):
        alpha_s[chosen], links[chosen] = model.latency(some.src, some.dst)
    return alpha_s, links


def ten_digits(value: float) -> float:
    """Round to ten digits, which drops the rounding of long sums."""
    return float(f"{value:.10g}")


def to_ten_digits(values: Floats) -> Floats:
    """Round every value to ten digits."""
    # Half a million groups have few different values.
    unique, at = np.unique(values, return_inverse=True)
    return np.array(list(map(ten_digits, unique.tolist())))[at]


class Baseline(NamedTuple):
    """A collective alone and packed."""

    busiest_s: float  # on its busiest resource
    endpoint_s: float  # on its busiest port or link, uplinks aside
    alpha_s: float  # mean over its messages
    links: int  # of the longest path
    tier: int  # of the busiest resource
    tiers: tuple[int, ...]  # all that carry a message


def baseline(models: list[LinkModel], traffic: Traffic, size: Floats) -> Baseline:
    """The messages alone, in those sizes, member i on endpoint i: in as few domains as possible, on
    a lattice axis by axis.

    Between ``neighbours`` on a lattice a message is one hop on a link of its own, as along the ring
    of a full axis.
    """
    messages = Messages(traffic.src, traffic.dst, size, np.zeros(len(traffic.src), dtype=np.int64))
    on_tier = tier_of(models, traffic.src, traffic.dst)
    one_hop = np.zeros(len(on_tier), dtype=bool)
    # Seconds of the busiest resource of each tier, of any kind and of endpoints alone.
    on_any = np.zeros(len(models))
    on_endpoints = np.zeros(len(models))
    alpha_s, links = latency(models, messages)
    for number, model in enumerate(models):
        here = on_tier == number
        if traffic.neighbours and model.hop_alpha_s is not None and here.any():
            one_hop |= here
            alpha_s[here] = model.hop_alpha_s
            links[here] = 1
            on_any[number] = on_endpoints[number] = float(size[here].max()) / model.capacity_Bps
    for loads in totals(models, messages.some(np.flatnonzero(~one_hop))):
        seconds = float(loads.load.max()) / loads.kind.capacity_Bps
        on_any[loads.tier] = max(on_any[loads.tier], seconds)
        if loads.kind.endpoint:
            on_endpoints[loads.tier] = max(on_endpoints[loads.tier], seconds)
    busiest = int(np.argmax(on_any))
    return Baseline(
        float(on_any[busiest]),
        float(on_endpoints[busiest]),
        float(alpha_s.mean()),
        int(links.max()),
        busiest,
        tiers=tuple(np.unique(on_tier).tolist()),
    )


HOTTEST = 10  # links in the table
CELLS = 64  # cells in a heat strip, at most


class LinkLoad(NamedTuple):
    """Load of one resource."""

    link: str
    line: str
    load: float  # in the unit of the result
    capacity_Bps: float
    over_ideal: float  # its load/capacity over the ideal of the group that it hurts most
    groups: int


class LinkClassLoad(NamedTuple):
    """Resources of one kind and direction, for a heat strip."""

    line: str
    links: int
    loaded: int
    busiest: float
    mean: float
    per_cell: int
    cells: tuple[float, ...]  # the busiest of ``per_cell`` links each; 1 is the hottest link of all


class Heat:
    """The hottest links and the heat strips, filled class by class.

    Args:
        ideal_s: the ideal of each group.
        per_link: keep every loaded resource.
    """

    def __init__(self, models: Sequence[LinkModel], ideal_s: Floats, *, per_link: bool) -> None:
        self.models = models
        self.ideal_s = ideal_s
        self.per_link = per_link
        self.loaded = 0  # resources that carry anything
        self.shared = 0  # resources that several groups load
        self.tiers: set[int] = set()  # tiers in use
        self._links: list[LinkLoad] = []
        self._hottest_s = 0.0
        self._strips: list[LinkClassLoad] = []  # cells in seconds

    def add(self, loads: ClassTotals) -> None:
        """Add the loads of a class of links."""
        seconds = loads.load / loads.kind.capacity_Bps
        used = np.flatnonzero(loads.users)
        self.tiers.add(loads.tier)
        self.loaded += len(used)
        self.shared += int(np.count_nonzero(loads.users > 1))
        self._hottest_s = max(self._hottest_s, float(seconds.max()))
        kept = used
        if not self.per_link:
            # Rounded, so that of links that are equal but for rounding the first are kept.
            hottest_first = np.argsort(-seconds[used].round(18), kind="stable")
            kept = np.sort(used[hottest_first[:HOTTEST]])
        self._links += [self._link_load(loads, resource) for resource in kept.tolist()]
        self._add_strip(loads)

    def _link_load(self, loads: ClassTotals, resource: int) -> LinkLoad:
        """The load of one resource, and how much it hurts the group that it hurts most."""
        capacity_Bps = loads.kind.capacity_Bps
        load = float(loads.load[resource])
        start = np.searchsorted(loads.resource, resource, "left")
        end = np.searchsorted(loads.resource, resource, "right")
        shortest_s = float(self.ideal_s[loads.group[start:end]].min())
        return LinkLoad(
            link=self.models[loads.tier].name(loads.class_number, resource),
            line=_line_name(loads.kind),
            load=load,
            capacity_Bps=capacity_Bps,
            over_ideal=ten_digits(load / capacity_Bps / shortest_s),
            groups=int(loads.users[resource]),
        )

    def _add_strip(self, loads: ClassTotals) -> None:
        """Add the heat strip of a class, cut into cells."""
        every = loads.load[loads.kind.exists]
        if not len(every):
            return
        per_cell = ceil_div(len(every), CELLS)
        busiest = np.maximum.reduceat(every, np.arange(0, len(every), per_cell))
        loaded = every[every > 0]
        strip = LinkClassLoad(
            line=_line_name(loads.kind),
            links=len(every),
            loaded=len(loaded),
            busiest=float(every.max()),
            mean=float(loaded.mean()) if len(loaded) else 0.0,
            per_cell=per_cell,
            cells=tuple((busiest / loads.kind.capacity_Bps).tolist()),
        )
        self._strips.append(strip)

    def hottest(self) -> tuple[LinkLoad, ...]:
        """Hottest first; equal ones in the order of the wiring."""

        def seconds(link: LinkLoad) -> float:
            return float(f"{link.load / link.capacity_Bps:.9e}")

        # sorted() keeps the order of equal ones, also in reverse.
        return tuple(sorted(self._links, key=seconds, reverse=True)[:HOTTEST])

    def every(self) -> tuple[LinkLoad, ...]:
        """Every loaded resource in the order of the wiring; empty without ``per_link``."""
        return tuple(self._links) if self.per_link else ()

    def lines(self) -> tuple[LinkClassLoad, ...]:
        """Every class of the tiers in use, cut in cells for a strip, 1 the hottest."""
        lines = []
        for strip in self._strips:
            cells = tuple(cell / self._hottest_s for cell in strip.cells)
            lines.append(strip._replace(cells=cells))
        return tuple(lines)


def _line_name(kind: LinkClass) -> str:
    return f"{kind.tier} {kind.name}"


class Flow(NamedTuple):
    """Groups that send alike."""

    traffic: Traffic  # between members of a group, in units of M
    groups: Sequence[Sequence[int]]  # the members of each, as ranks of the fabric
    bytes: Sequence[float]  # M of each
    by: int  # number of the sender, as :attr:`BusyLink.by` repeats it


class BusyLink(NamedTuple):
    """The busiest link of a kind, the worse of its two directions."""

    tier: str
    kind: str  # ``ports``, ``leaf links``, ``axis 1``
    link: str  # as ``contention`` names it
    bytes: float
    rate_Bps: float  # without contention
    over_mean: float  # its bytes over the mean of the loaded links of its kind and direction
    by: tuple[tuple[int, float], ...]  # (number of the sender, bytes), the largest first

    @property
    def busy_s(self) -> float:
        """Seconds that its bytes take at full rate."""
        return self.bytes / self.rate_Bps


def busiest_links(fabric: Fabric, flows: Sequence[Flow]) -> tuple[BusyLink, ...]:
    """The busiest link of each kind, innermost tier first."""
    models = link_models(fabric)
    sent = []
    for flow in flows:
        ends = np.asarray(flow.groups, dtype=SMALL)
        amounts = np.asarray(flow.bytes, dtype=np.float64)
        sent.append((ends, flow.traffic, amounts, np.full(len(ends), flow.by, dtype=SMALL)))
    found: dict[tuple[str, str], BusyLink] = {}
    for loads in totals(models, messages_of_batches(sent)):
        if not loads.load.any():
            continue
        link = _busiest_of(loads, models[loads.tier])
        before = found.get((link.tier, link.kind))
        # The directions of a class are one kind; of nearly equal ones the first is kept.
        if before is None or link.busy_s > before.busy_s * (1 + 1e-9):
            found[link.tier, link.kind] = link
    return tuple(found.values())


def _busiest_of(loads: ClassTotals, model: LinkModel) -> BusyLink:
    """The busiest link of a class, and who loads it."""
    # Rounded, so that of links that are equal but for rounding the first is named.
    resource = int(np.argmax(loads.load.round(3)))
    load = float(loads.load[resource])
    pairs = np.flatnonzero(loads.resource == resource)
    senders = zip(loads.group[pairs].tolist(), loads.pair_load[pairs].tolist(), strict=True)
    return BusyLink(
        tier=loads.kind.tier,
        kind=_without_way(loads.kind.name),
        link=model.name(loads.class_number, resource),
        bytes=load,
        rate_Bps=loads.kind.capacity_Bps,
        over_mean=load / float(loads.load[loads.load > 0].mean()),
        by=tuple(sorted(senders, key=lambda sender: -sender[1])),
    )


def _without_way(name: str) -> str:
    """``ports`` for ``ports out``, ``leaf links`` for ``leaf uplinks``."""
    first, _, last = name.rpartition(" ")
    if last in ("uplinks", "downlinks"):
        return f"{first} links"
    return first if last in ("out", "in", "+", "-") else name
