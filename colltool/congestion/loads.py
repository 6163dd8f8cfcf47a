"""Loads of links under the messages of all groups (:func:`totals`), and the latency of each message
(:func:`latency`), on the links of a fabric (:func:`link_models`).

Loads are added up one link class at a time, so that only its totals are in memory. What is made of
them: the ideal of a group (:mod:`colltool.congestion.baseline`), the hottest links of a layout
(:mod:`colltool.congestion.heat`), the busiest links of a job (:mod:`colltool.congestion.busiest`).

A *resource* is a port, link or uplink of a tier, numbered within its class
(:mod:`colltool.network.links`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, argument_text
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

# Ordered pairs of endpoints in all copies of a full mesh: an array element for each.
_MOST_PAIRS = 2**25


class Messages(NamedTuple):
    """Messages of all groups, each array of shape (m,)."""

    src: Indices  # endpoints
    dst: Indices
    size: Floats  # bytes, or units of M
    group: Indices  # number of the group

    def some(self, chosen: Indices) -> Messages:
        """The messages with these numbers, which ascend; no copy is made if they are all."""
        if len(chosen) == len(self.src):
            return self
        return Messages(self.src[chosen], self.dst[chosen], self.size[chosen], self.group[chosen])


class LoadedPairs(NamedTuple):
    """Every resource of a class with each group that loads it, ordered by resource, then group; arrays
    of shape (pairs,)."""

    resource: Indices
    group: Indices
    load: Floats  # bytes


class ClassTotals(NamedTuple):
    """Loads of one link class under all messages; arrays of shape (resources,)."""

    tier: int  # its number, innermost first
    class_number: int  # in its tier
    link_class: LinkClass
    load: Floats  # bytes
    users: Indices  # how many groups
    pairs: LoadedPairs


class SendingGroups(NamedTuple):
    """Groups of one size that send alike."""

    ends: Indices  # endpoints of their members, shape (groups, N)
    traffic: Traffic  # between members, in units of M
    amounts: Floats  # M of each group, shape (groups,)
    numbers: Indices  # of each group, shape (groups,)

    def messages(self) -> Messages:
        """Their messages, group after group, without those of no bytes."""
        sending = np.flatnonzero(self.traffic.size > 0)
        return Messages(
            src=self.ends[:, self.traffic.src[sending]].ravel(),
            dst=self.ends[:, self.traffic.dst[sending]].ravel(),
            size=np.multiply.outer(self.amounts, self.traffic.size[sending]).ravel(),
            group=np.repeat(self.numbers, len(sending)),
        )


def all_messages(batches: Iterable[SendingGroups]) -> Messages:
    """The messages of all groups."""
    parts = [batch.messages() for batch in batches]
    return Messages(*map(np.concatenate, zip(*parts, strict=True)))


def link_models(fabric: Fabric) -> list[LinkModel]:
    """The resources of every tier, innermost first. On outer tiers, too, every rank has a port of its
    own: a link model has one for each rank behind an endpoint."""
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
    if kind.joined_by == "pair_links" and ranks * size > _MOST_PAIRS:
        links = ranks // size * size * (size - 1)
        raise ColltoolError(
            f"{tier.name} has {links} links, too many to follow",
            argument="fabric",
            fix=f"a smaller full mesh, with {argument_text('overrides')}",
        )
    levels = kind.classes
    rails = _rails_of(tier, inside)
    # 32 endpoints of 8 ranks at 50 GB/s under each leaf, 2:1 above, 8 rails: 800 GB/s of uplinks a rail.
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


def _rails_of(tier: Tier, inside: int) -> int:
    """Into how many rails a tier divides its uplinks, each with cables of its own.

    Rails that never meet are one for each place in a domain. Else the tier's sizing says how many, if
    ranks behind an endpoint spread evenly over them; under a single level of switches there are no
    uplinks to divide.
    """
    kind = capabilities_of(tier)
    if tier.rail_only:
        return inside
    if kind.sizing is not None and len(kind.classes) > 1 and inside % kind.sizing.rails == 0:
        return kind.sizing.rails
    return 1


class _TierMessages(NamedTuple):
    """The messages that travel on a tier, from where they enter it."""

    tier: int
    model: LinkModel
    numbers: Indices  # of these messages among all, ascending
    messages: Messages


def _by_tier(models: list[LinkModel], messages: Messages) -> Iterator[_TierMessages]:
    """The messages of each tier in use.

    With rails they enter at the sender's neighbour on the receiver's rail where its group has one,
    else at the sender: libraries forward inside the domain to stay on a rail. What that loads inside
    is not counted.
    """
    on_tier = tier_of(models, messages.src, messages.dst)
    for tier, model in enumerate(models):
        numbers = np.flatnonzero(on_tier == tier)
        if not len(numbers):
            continue
        of_tier = messages.some(numbers)
        if model.rails > 1:
            # A group's number and a rank in one: of 8 ranks, rank 3 of group 2 is 2 * 8 + 3.
            first_rank = messages.group.astype(np.int64) * model.ranks
            members = np.concatenate([first_rank + messages.src, first_rank + messages.dst])
            neighbour = model.departures(of_tier.src, of_tier.dst)
            forwards = np.isin(first_rank[numbers] + neighbour, np.unique(members))
            of_tier = of_tier._replace(src=np.where(forwards, neighbour, of_tier.src))
        yield _TierMessages(tier, model, numbers, of_tier)


def totals(models: list[LinkModel], messages: Messages) -> Iterator[ClassTotals]:
    """The loads of every link class in use, tier by tier, each class once."""
    for tier, model, _, of_tier in _by_tier(models, messages):
        loads: dict[int, Floats] = {}
        pairs: dict[int, list[LoadedPairs]] = {}
        # A use has an element for each pair of a message and a resource that it passes, with the share
        # of the message's bytes that does. Routers yield several uses of a class, such as one a cable.
        for use in model.uses(of_tier.src, of_tier.dst):
            links = len(model.classes[use.number].exists)
            bytes_on = of_tier.size[use.message] * use.share
            load = np.bincount(use.resource, bytes_on, links).astype(np.float64)
            loads[use.number] = load + loads.get(use.number, 0.0)
            of_use = _pairs(use.resource, of_tier.group[use.message], bytes_on)
            pairs.setdefault(use.number, []).append(of_use)
        for number, load in loads.items():
            merged = _merged(pairs[number])
            yield ClassTotals(
                tier=tier,
                class_number=number,
                link_class=model.classes[number],
                load=load,
                users=np.bincount(merged.resource, minlength=len(load)).astype(SMALL),
                pairs=merged,
            )


def _merged(parts: Sequence[LoadedPairs]) -> LoadedPairs:
    """The pairs of all parts, each once."""
    if len(parts) == 1:
        return parts[0]
    return _pairs(
        np.concatenate([part.resource for part in parts]),
        np.concatenate([part.group for part in parts]),
        np.concatenate([part.load for part in parts]),
    )


def _pairs(resource: Indices, group: Indices, load: Floats) -> LoadedPairs:
    """The pairs of a resource and a group, each once, with the sum of their bytes.

    Sorted by resource, then group, equal pairs are neighbours::

        resource  0  0  0  2  2
        group     1  1  4  1  1
        new       1  0  1  1  0     where a pair differs from the one before it
        pair      0  0  1  2  2     the running sum of new, from 0: which pair it is
    """
    order = np.lexsort((group, resource))
    resource = resource[order]
    group = group[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (resource[1:] != resource[:-1]) | (group[1:] != group[:-1])
    pair = np.cumsum(new) - 1
    pair_load = np.bincount(pair, load[order]).astype(np.float64)
    return LoadedPairs(resource[new].astype(SMALL), group[new], pair_load)


def latency(models: list[LinkModel], messages: Messages) -> tuple[Floats, Indices]:
    """Each message's α in seconds, without η, and its number of links; shape (m,) each, 0 for a message
    from an endpoint to itself."""
    alpha_s = np.zeros(len(messages.src))
    links = np.zeros(len(messages.src), dtype=SMALL)
    for _, model, numbers, of_tier in _by_tier(models, messages):
        alpha_s[numbers], links[numbers] = model.latency(of_tier.src, of_tier.dst)
    return alpha_s, links
