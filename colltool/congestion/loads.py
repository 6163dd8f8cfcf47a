"""Adds up what groups load, one link class at a time, so that only its totals are in memory; and
keeps the hottest links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, given
from colltool.congestion.traffic import Traffic
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Floats, Indices
from colltool.network.links import SMALL, LevelBoundary, LinkClass, LinkModel, tier_of
from colltool.network.tier_links import links_of


class Messages(NamedTuple):
    """Messages of all groups: endpoints, bytes (or units of M) and group number, shape (m,)
    each."""

    src: Indices
    dst: Indices
    size: Floats
    group: Indices

    def some(self, chosen: Indices) -> Messages:
        if len(chosen) == len(self.src):
            return self
        return Messages(self.src[chosen], self.dst[chosen], self.size[chosen], self.group[chosen])


class ClassTotals(NamedTuple):
    """The loads of one link class under all messages."""

    tier: int
    line: int  # number of the class in its tier
    kind: LinkClass
    load: Floats  # bytes on each resource
    users: Indices  # groups on each resource
    resource: Indices  # with ``group``, every pair that met, once, in order; shape (pairs,)
    group: Indices
    own: Floats  # bytes of each pair


def between(sent: Iterable[tuple[Indices, Traffic, Floats, Indices]]) -> Messages:
    """The messages of groups that send alike: (endpoints of shape (groups, N), traffic, bytes of
    each group, its number)."""
    parts = []
    for ends, traffic, amounts, numbers in sent:
        there = np.flatnonzero(traffic.size > 0)
        src, dst = (ends[:, nodes[there]].ravel() for nodes in (traffic.src, traffic.dst))
        size = np.multiply.outer(amounts, traffic.size[there]).ravel()
        parts.append((src, dst, size, np.repeat(numbers, len(there))))
    return Messages(*map(np.concatenate, zip(*parts, strict=True)))


def link_models(fabric: Fabric) -> list[LinkModel]:
    """The resources of every tier, innermost first; every rank has a port of its own on the outer
    tiers."""
    out: list[LinkModel] = []
    inside, ranks = 1, fabric.ranks
    for tier in fabric.tiers:
        able, size = capabilities_of(tier), tier.endpoints
        rate = able.rate_Bps
        if able.joined_by == "pair_links" and ranks * size > 2**25:
            what = f"{tier.name} has {ranks // size * size * (size - 1)} links, too many to follow"
            raise ColltoolError(
                what, argument="fabric", fix=f"a smaller full mesh, with {given('overrides')}"
            )
        levels, sizing = able.classes, able.sizing
        rails = (
            sizing.rails
            if sizing is not None and len(levels) > 1 and inside % sizing.rails == 0
            else 1
        )
        rails = inside if tier.rail_only else rails  # one for each place in a domain
        borders = [
            LevelBoundary(
                below.name,
                below.group,
                below.group * inside * rate / (above.oversubscription * rails),
            )
            for below, above in pairwise(levels)
        ]
        alphas = [level.alpha_s for level in levels]
        model = links_of(
            able.joined_by,
            ranks,
            inside,
            size,
            tier.name,
            rate,
            axes=able.axes,
            alphas_s=alphas,
            boundaries=borders,
            rails=rails,
            apart=tier.rail_only,
            wires=able.wires(size),
        )
        out.append(model)
        inside *= size
    return out


def _by_tier(
    models: list[LinkModel], messages: Messages
) -> Iterator[tuple[int, LinkModel, Indices, Messages]]:
    """Of each tier in use: its number, its links, the numbers of its messages, and these where they
    leave.

    With rails that is the sender's neighbour on the receiver's rail where its group has one, else
    the sender: libraries forward inside the domain to stay on a rail. What that loads inside is not
    counted.
    """
    tier = tier_of(models, messages.src, messages.dst)
    for number, one in enumerate(models):
        chosen = np.flatnonzero(tier == number)
        some = messages.some(chosen)
        if one.rails > 1:
            neighbour, group = (
                one.departures(some.src, some.dst),
                messages.group.astype(np.int64) * one.ranks,
            )
            members = np.unique(np.concatenate([group + messages.src, group + messages.dst]))
            there = np.isin(some.group.astype(np.int64) * one.ranks + neighbour, members)
            some = some._replace(src=np.where(there, neighbour, some.src))
        if len(chosen):
            yield number, one, chosen, some


def totals(models: list[LinkModel], messages: Messages) -> Iterator[ClassTotals]:
    for tier, model, _, some in _by_tier(models, messages):
        for use in model.uses(some.src, some.dst):
            kind = model.classes[use.number]
            share, group = some.size[use.message] * use.share, some.group[use.message]
            order = np.lexsort((group, use.resource))
            resource, group = use.resource[order], group[order]
            new = np.ones(len(order), dtype=bool)
            new[1:] = (resource[1:] != resource[:-1]) | (group[1:] != group[:-1])
            yield ClassTotals(
                tier=tier,
                line=use.number,
                kind=kind,
                load=np.asarray(
                    np.bincount(use.resource, share, len(kind.exists)), dtype=np.float64
                ),
                users=np.bincount(resource[new], minlength=len(kind.exists)).astype(SMALL),
                resource=resource[new].astype(SMALL),
                group=group[new],
                own=np.asarray(np.bincount(np.cumsum(new) - 1, share[order]), dtype=np.float64),
            )


def latency(models: list[LinkModel], messages: Messages) -> tuple[Floats, Indices]:
    """Each message's α in seconds, without η, and its number of links."""
    alpha, links = np.zeros(len(messages.src)), np.zeros(len(messages.src), dtype=SMALL)
    for _, model, chosen, some in _by_tier(models, messages):
        alpha[chosen], links[chosen] = model.latency(some.src, some.dst)
    return alpha, links


def clean(values: Floats) -> Floats:
    """Ten digits: drops the rounding of long sums."""
    unique, at = np.unique(values, return_inverse=True)
    return np.array([float(f"{value:.10g}") for value in unique.tolist()])[at]


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
    tier = tier_of(models, traffic.src, traffic.dst)
    embedded = (
        np.isin(tier, [i for i, one in enumerate(models) if one.hop_alpha_s is not None])
        & traffic.neighbours
    )
    busy = np.zeros((len(models), 2))  # of each tier: on any resource, on those of endpoints
    for line in totals(models, messages.some(np.flatnonzero(~embedded))):
        seconds = float(line.load.max()) / line.kind.capacity_Bps
        busy[line.tier] = np.maximum(
            busy[line.tier], [seconds, seconds if line.kind.endpoint else 0.0]
        )
    alpha, links = latency(models, messages)
    for number in np.unique(tier[embedded]).tolist():
        here = embedded & (tier == number)
        busy[number] = np.maximum(
            busy[number], float(size[here].max()) / models[number].capacity_Bps
        )
        alpha[here], links[here] = models[number].hop_alpha_s, 1
    worst = int(np.argmax(busy[:, 0]))
    on_any, on_endpoints = busy[worst].tolist()
    return Baseline(
        on_any,
        on_endpoints,
        float(alpha.mean()),
        int(links.max()),
        worst,
        tiers=tuple(np.unique(tier).tolist()),
    )


HOTTEST = 10

CELLS = 64


class LinkLoad(NamedTuple):
    """One resource: ``load`` in the unit of the result, and its load/capacity over the ideal of the
    group it hurts most."""

    link: str
    line: str
    load: float
    capacity_Bps: float
    over_ideal: float
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
    """Filled class by class; ``ideal_s`` is each group's, ``per_link`` keeps every loaded
    resource."""

    def __init__(self, models: Sequence[LinkModel], ideal_s: Floats, *, per_link: bool) -> None:
        self.models, self.ideal_s, self.per_link = models, ideal_s, per_link
        self._links: list[tuple[float, LinkLoad]] = []
        # resources that carry anything, and those that several groups load
        self.loaded = self.shared = 0
        self.tiers: set[int] = set()  # those in use
        self._hottest_s = 0.0
        self._strips: list[tuple[LinkClassLoad, Floats]] = []

    def add(self, line: ClassTotals) -> None:
        rate, name = line.kind.capacity_Bps, f"{line.kind.tier} {line.kind.name}"
        seconds, used = line.load / rate, np.flatnonzero(line.users)
        self.tiers.add(line.tier)
        self.loaded += len(used)
        self.shared += int(np.count_nonzero(line.users > 1))
        self._hottest_s = max(self._hottest_s, float(seconds.max()))
        kept = (
            used
            if self.per_link
            else np.sort(used[np.argsort(-seconds[used].round(18), kind="stable")[:HOTTEST]])
        )
        starts, ends = (np.searchsorted(line.resource, kept, side) for side in ("left", "right"))
        for one, start, end in zip(kept.tolist(), starts, ends, strict=True):
            load, shortest_s = (
                float(line.load[one]),
                float(self.ideal_s[line.group[start:end]].min()),
            )
            over, link = (
                float(f"{load / rate / shortest_s:.10g}"),
                self.models[line.tier].name(line.line, one),
            )
            self._links.append(
                (
                    float(seconds[one]),
                    LinkLoad(link, name, load, rate, over, groups=int(line.users[one])),
                )
            )
        every = line.load[line.kind.exists]
        if len(every):
            per_cell, loaded = -(-len(every) // CELLS), every[every > 0]
            cells = np.maximum.reduceat(every, np.arange(0, len(every), per_cell)) / rate
            mean = float(loaded.mean()) if len(loaded) else 0.0
            strip = LinkClassLoad(
                name, len(every), len(loaded), float(every.max()), mean, per_cell, cells=()
            )
            self._strips.append((strip, cells))

    def hottest(self) -> tuple[LinkLoad, ...]:
        """Hottest first; equal ones in the order of the wiring."""
        ordered = sorted(self._links, key=lambda one: -float(f"{one[0]:.9e}"))
        return tuple(link for _, link in ordered[:HOTTEST])

    def every(self) -> tuple[LinkLoad, ...]:
        """Every loaded resource in the order of the wiring, where it was asked for."""
        return tuple(link for _, link in self._links) if self.per_link else ()

    def lines(self) -> tuple[LinkClassLoad, ...]:
        """Every class of the tiers in use, cut in cells for a strip, 1 the hottest."""
        return tuple(
            one._replace(cells=tuple((cells / self._hottest_s).tolist()))
            for one, cells in self._strips
        )


class Flow(NamedTuple):
    """Groups that send alike."""

    traffic: Traffic  # between members of a group, in units of M
    groups: Sequence[Sequence[int]]  # the members of each, as ranks of the fabric
    bytes: Sequence[float]  # M of each
    by: int  # number of who sends it, to be told apart


class BusyLink(NamedTuple):
    """The busiest link of a kind, the worse of its two directions."""

    tier: str
    kind: str  # ``ports``, ``leaf links``, ``axis 1``
    link: str  # as ``contention`` names it
    bytes: float
    rate_Bps: float  # without contention
    over_mean: float  # its bytes over the mean of the loaded links of its kind and direction
    by: tuple[tuple[int, float], ...]  # (number of who sends, bytes), the largest first

    @property
    def busy_s(self) -> float:
        """At its full rate."""
        return self.bytes / self.rate_Bps


def busiest_links(fabric: Fabric, flows: Sequence[Flow]) -> tuple[BusyLink, ...]:
    """The busiest link of each kind, innermost tier first."""
    models = link_models(fabric)
    found: dict[tuple[str, str], BusyLink] = {}
    ends = (np.asarray(one.groups, dtype=SMALL) for one in flows)
    sent = [
        (
            some,
            one.traffic,
            np.asarray(one.bytes, dtype=np.float64),
            np.full(len(some), one.by, dtype=SMALL),
        )
        for one, some in zip(flows, ends, strict=True)
    ]
    for line in totals(models, between(sent)):
        if not line.load.any():
            continue
        at = int(np.argmax(line.load.round(3)))
        load, here = float(line.load[at]), np.flatnonzero(line.resource == at)
        one = BusyLink(
            tier=line.kind.tier,
            kind=_without_way(line.kind.name),
            link=models[line.tier].name(line.line, at),
            bytes=load,
            rate_Bps=line.kind.capacity_Bps,
            over_mean=load / float(line.load[line.load > 0].mean()),
            by=tuple(
                sorted(
                    zip(line.group[here].tolist(), line.own[here].tolist(), strict=True),
                    key=lambda one: -one[1],
                )
            ),
        )
        before = found.get((one.tier, one.kind))
        if before is None or one.busy_s > before.busy_s * (1 + 1e-9):
            found[one.tier, one.kind] = one
    return tuple(found.values())


def _without_way(name: str) -> str:
    """``ports`` of ``ports out``, ``leaf links`` of ``leaf uplinks``."""
    first, _, last = name.rpartition(" ")
    return (
        f"{first} links"
        if last in ("uplinks", "downlinks")
        else first
        if last in ("out", "in", "+", "-")
        else name
    )
