"""Where the members of a group lie on the tiers that a schedule crosses.

:func:`tier_positions` is for schedules that go tier by tier, :func:`flat_positions` for those that
go from member to member.
"""

from __future__ import annotations

import numpy as np

from colltool.base.errors import ColltoolError
from colltool.congestion.traffic import TierPositions, ring_instead
from colltool.estimate.groups import alone_on
from colltool.fabric.model import Fabric, Tier
from colltool.fabric.topology import capabilities_of
from colltool.network.arrays import Indices
from colltool.network.group import Group


def flat_positions(fabric: Fabric, ends: Indices) -> TierPositions:
    """Positions for flat schedules of the members at endpoints ``ends``, shape (N,): in the group's
    order, but on a lattice, where schedules go from place to place, in that of the endpoints."""
    if any(capabilities_of(tier).axes for tier in fabric.tiers):
        return tier_positions(fabric, ends)
    order = np.arange(len(ends))
    try:
        return tier_positions(fabric, ends)._replace(order=order)
    except ColltoolError:
        # Domains of different sizes: flat schedules run all the same.
        return TierPositions((), Group(len(ends), "tiers"), order)


def tier_positions(fabric: Fabric, ends: Indices) -> TierPositions:
    """Positions on the tiers of the members at endpoints ``ends``, shape (N,).

    Raises:
        ColltoolError: domains of a tier hold different numbers of members, or members do not fill whole
            axes of a lattice.
    """
    order = np.argsort(ends, kind="stable")
    # The tier's endpoints with members behind them, numbered through the fabric, ascending.
    occupied = ends[order].astype(np.int64)
    below = 1  # endpoints of the tier below in one of its domains
    inside = 1  # members behind each occupied endpoint
    groups: list[Group] = []
    for number, tier in enumerate(fabric.tiers):
        occupied = np.unique(occupied // below)
        _, counts = np.unique(occupied // tier.endpoints, return_counts=True)
        in_domain = int(counts.max())  # occupied endpoints of each domain
        fewest = int(counts.min())
        if fewest != in_domain:
            what = f"its domains of {tier.name} hold {fewest} to {in_domain} members"
            raise ring_instead(f"{what}; a schedule over tiers needs the same number in each")
        if in_domain > 1:  # else the group does not cross this tier
            stride = _stride_on(tier, occupied.reshape(-1, in_domain))
            groups.append(alone_on(tier, in_domain, inside, stride, scale_out=number > 0))
            inside *= in_domain
        below = tier.endpoints
    if len(groups) == 1:
        return TierPositions((groups[0],), groups[0], order)
    on_lattice = any(group.axes for group in groups)
    whole = Group(inside, "lattice_tiers" if on_lattice else "tiers")
    return TierPositions(tuple(groups), whole, order)


def _stride_on(tier: Tier, places: Indices) -> int:
    """Endpoints from one member to the next on a lattice; 1 elsewhere.

    Args:
        places: the endpoints of the members, ascending, shape (domains, members).

    Raises:
        ColltoolError: they do not fill whole axes of the lattice.
    """
    kind = capabilities_of(tier)
    if not kind.axes:
        return 1
    members = places.shape[1]
    steps = np.unique(np.diff(places, axis=1))
    stride = int(steps[0])
    starts = places[:, 0] % tier.endpoints
    # Evenly apart, and begun where a block of stride x members begins: whole axes do both. Members 1, 5, 9
    # and 13 of a 4x4 torus are 4 apart, and begin among the first 4 of a block of 16.
    aligned = len(steps) == 1 and not (starts % (stride * members) >= stride).any()
    if not aligned or kind.part(members, stride) is None:
        raise ring_instead(f"its members on {tier.name} do not fill whole axes of it")
    return stride
