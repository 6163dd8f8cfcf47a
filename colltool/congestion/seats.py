"""How a group sits on its tiers: what a schedule over several tiers has to know."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from colltool.algorithms.group import Group, Topology
from colltool.base.errors import ColltoolError, given
from colltool.estimate.groups import alone_on
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.schedules.links import Indices


class TierSeats(NamedTuple):
    """A group with as many members in every domain."""

    groups: tuple[Group, ...]  # the tiers that it spans, innermost first, each seen alone
    whole: Group  # all of it seen flat
    order: Indices  # the member on each seat, innermost fastest; schedules number members by seat

    @property
    def key(self) -> tuple[object, ...]:
        return self.groups, self.whole


def tier_seats(fabric: Fabric, ends: Indices) -> TierSeats:
    """How the members of a group, at endpoints ``ends`` of shape (N,), sit on the tiers of a fabric.

    Raises:
        ColltoolError: domains that hold unlike numbers of members, or a part of a lattice that is not whole axes.
    """
    order = np.argsort(ends, kind="stable")
    units, below = ends[order].astype(np.int64), 1
    groups: list[Group] = []
    for number, tier in enumerate(fabric.tiers):
        units = np.unique(units // below)
        _, members = np.unique(units // tier.endpoints, return_counts=True)
        least, most = int(members.min()), int(members.max())
        if least != most:
            what = (
                f"its domains of {tier.name} hold {least} to {most} members; a schedule over tiers needs the same number in each"
            )
            raise ColltoolError(what, argument="algorithm", fix=_anywhere())
        if most > 1:
            inside, stride = prod(group.ranks for group in groups), _stride(tier, units.reshape(-1, most))
            groups.append(alone_on(tier, most, inside, stride, scale_out=number > 0))
        below = tier.endpoints
    return TierSeats(tuple(groups), groups[0] if len(groups) == 1 else _whole(groups), order)


def _anywhere() -> str:
    return f"{given('algorithm', 'ring')} runs on any group"


def _whole(groups: Sequence[Group]) -> Group:
    topology: Topology = "lattice_tiers" if any(group.axes for group in groups) else "tiers"
    return Group(prod(group.ranks for group in groups), topology)


def _stride(tier: Tier, units: Indices) -> int:
    """Endpoints from one member to the next on a lattice; 1 elsewhere. ``units`` has shape (domains, members)."""
    kind, count = capabilities_of(tier), units.shape[1]
    if not kind.axes:
        return 1
    steps, first = np.unique(np.diff(units, axis=1)), units[:, 0] % tier.endpoints
    stride = int(steps[0])
    aligned = len(steps) == 1 and not (first % (stride * count) >= stride).any()
    if not aligned or kind.part(count, stride) is None:
        what = f"its members on {tier.name} do not fill whole axes of it"
        raise ColltoolError(what, argument="algorithm", fix=_anywhere())
    return stride
