"""Adds up what groups load, one link class at a time, so that only its totals are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, assert_never

import numpy as np

from colltool.base.errors import ColltoolError, given
from colltool.congestion.traffic import Traffic
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.schedules.links import (
    SMALL,
    Floats,
    Indices,
    LatticeLinks,
    LevelBoundary,
    LinkClass,
    LinkModel,
    LinkUse,
    MeshLinks,
    SwitchedLinks,
)


class Messages(NamedTuple):
    """Messages of all groups: endpoints, bytes (or units of M) and group number, shape (m,) each."""

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


def link_models(fabric: Fabric) -> list[LinkModel]:
    """The resources of every tier, innermost first; every rank has a port of its own on the outer tiers.

    Raises:
        ColltoolError: a full mesh of too many links to follow.
    """
    out: list[LinkModel] = []
    inside = 1
    for tier in fabric.tiers:
        out.append(_link_model(tier, inside, fabric.ranks))
        inside *= tier.endpoints
    return out


def _link_model(tier: Tier, inside: int, ranks: int) -> LinkModel:
    able, rate, size = capabilities_of(tier), tier.bandwidth * tier.ports, tier.endpoints
    levels, alpha_s = able.classes, able.classes[0].alpha_s
    match able.joined_by:
        case "neighbour_links":
            return LatticeLinks(able.axes, ranks, inside, tier.name, rate, alpha_s=alpha_s)
        case "pair_links":
            if ranks * size > 2**25:
                what = f"{tier.name} has {ranks // size * size * (size - 1)} links, too many to follow"
                raise ColltoolError(what, argument="fabric", fix=f"a smaller full mesh, with {given('overrides')}")
            return MeshLinks(ranks, inside, size, tier.name, rate, alpha_s=alpha_s)
        case "switches" | "tiers":
            sizing = able.sizing
            rails = sizing.rails if sizing is not None and len(levels) > 1 and inside % sizing.rails == 0 else 1
            boundaries = [
                LevelBoundary(below.name, below.group, below.group * inside * rate / (above.oversubscription * rails))
                for below, above in pairwise(levels)
            ]
            alphas = [level.alpha_s for level in levels]
            return SwitchedLinks(ranks, inside, size, tier.name, rate, alphas_s=alphas, boundaries=boundaries, rails=rails)
        case _:
            assert_never(able.joined_by)


def tier_of(models: list[LinkModel], src: Indices, dst: Indices) -> Indices:
    """The innermost tier whose domain holds both ends of each message."""
    tier = np.zeros(len(src), dtype=np.int8)
    for one in models[:-1]:
        domain = one.inside * one.endpoints
        tier += src // domain != dst // domain
    return tier


def departures(models: LinkModel, messages: Messages, chosen: Indices) -> Messages:
    """The chosen messages, from the sender's neighbour on the receiver's rail where its group has one, else from the sender.

    Libraries forward inside the domain to stay on a rail. What that loads inside is not counted.
    """
    some = messages.some(chosen)
    if models.rails == 1:
        return some
    neighbour = models.departures(some.src, some.dst)
    group = messages.group.astype(np.int64) * models.ranks
    members = np.unique(np.concatenate([group + messages.src, group + messages.dst]))
    there = np.isin(some.group.astype(np.int64) * models.ranks + neighbour, members)
    return some._replace(src=np.where(there, neighbour, some.src))


def totals(models: list[LinkModel], messages: Messages) -> Iterator[ClassTotals]:
    tier = tier_of(models, messages.src, messages.dst)
    for number, one in enumerate(models):
        chosen = np.flatnonzero(tier == number)
        if len(chosen):
            some = departures(one, messages, chosen)
            for use in one.uses(some.src, some.dst):
                yield _line_totals(number, one.classes[use.number], use, some)


def _line_totals(tier: int, kind: LinkClass, use: LinkUse, messages: Messages) -> ClassTotals:
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
    return ClassTotals(
        tier=tier,
        line=use.number,
        kind=kind,
        load=np.asarray(load, dtype=np.float64),
        users=users,
        resource=resource.astype(SMALL),
        group=group,
        own=np.asarray(own, dtype=np.float64),
    )


def latency(models: list[LinkModel], messages: Messages) -> tuple[Floats, Indices]:
    alpha, links = np.zeros(len(messages.src)), np.zeros(len(messages.src), dtype=SMALL)
    tier = tier_of(models, messages.src, messages.dst)
    for number, one in enumerate(models):
        chosen = np.flatnonzero(tier == number)
        if len(chosen):
            some = departures(one, messages, chosen)
            alpha[chosen], links[chosen] = one.latency(some.src, some.dst)
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
    """The messages alone, in those sizes, member i on endpoint i: in as few domains as possible, on a lattice axis by axis.

    Between ``neighbours`` on a lattice a message is one hop on a link of its own, as along the ring of a full axis.
    """
    src, dst = traffic.src, traffic.dst
    tier = tier_of(models, src, dst)
    embedded = np.isin(tier, [i for i, one in enumerate(models) if one.hop_alpha_s is not None]) & traffic.neighbours
    messages = Messages(src, dst, size, np.zeros(len(src), dtype=np.int64))
    busy = np.zeros((len(models), 2))  # of each tier: on any resource, on those of endpoints
    for line in totals(models, messages.some(np.flatnonzero(~embedded))):
        seconds = float(line.load.max()) / line.kind.capacity_Bps
        busy[line.tier] = np.maximum(busy[line.tier], [seconds, seconds if line.kind.endpoint else 0.0])
    alpha, links = latency(models, messages)
    for number in np.unique(tier[embedded]).tolist():
        here = embedded & (tier == number)
        busy[number] = np.maximum(busy[number], float(size[here].max()) / models[number].capacity_Bps)
        alpha[here], links[here] = models[number].hop_alpha_s, 1
    worst = int(np.argmax(busy[:, 0]))
    return Baseline(
        busiest_s=float(busy[worst, 0]),
        endpoint_s=float(busy[worst, 1]),
        alpha_s=float(alpha.mean()),
        links=int(links.max()),
        tier=worst,
        tiers=tuple(np.unique(tier).tolist()),
    )
