"""The traffic of a collective's algorithm: bytes between each pair of members, summed over steps.

Bytes are in units of M, members are numbered 0 .. N-1 in group order. The sums lose timing: a
schedule whose steps load different links in turn takes longer than the busiest sum says.

Read in this order: the records here; :func:`colltool.congestion.traffic_rows.traffic_row`, the entry,
which says how an algorithm's traffic is known; :mod:`colltool.congestion.traffic_by_formula`, for
groups of a million ranks; :mod:`colltool.congestion.traffic_by_schedule`, which executes; and
:mod:`colltool.congestion.tier_positions`, where members lie on the tiers that a schedule crosses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.primitives import log2_ceil
from colltool.fabric.model import Fabric
from colltool.network.arrays import Floats, Indices
from colltool.network.group import Group

MOST_MESSAGES = 2**21  # pairs that a run follows: beyond it, minutes and gigabytes


class Traffic(NamedTuple):
    """Messages between members; arrays of shape (m,)."""

    src: Indices
    dst: Indices
    size: Floats  # in units of M
    # in the best layout each message is one hop, on a link of its own, as round a ring
    neighbours: bool = False


class TierPositions(NamedTuple):
    """Positions of a group's members on the tiers; every domain of a tier holds as many of them."""

    groups: tuple[Group, ...]  # the tiers spanned, innermost first, each as its algorithms see it
    whole: Group  # all of the group as flat algorithms see it
    order: Indices  # the member at each position, innermost fastest; schedules number positions


class SubLattice(NamedTuple):
    """A group that fills a box of a torus or mesh."""

    members: (
        Indices  # numbers of members, an array axis for each of the lattice's, the last one first
    )
    rings: tuple[bool, ...]  # whether lines along each of those axes close to a ring


class Members(NamedTuple):
    """A group as its traffic sees it."""

    ranks: int
    lattice: SubLattice | None = None  # for algorithms that go axis by axis
    positions: TierPositions | None = None  # for algorithms known by their schedule

    @property
    def key(self) -> tuple[object, ...]:
        """A hashable that is the same for groups of the same traffic."""
        key: tuple[object, ...] = (self.ranks,)
        if self.lattice is not None:
            grid = self.lattice.members
            key += (grid.shape, grid.tobytes(), self.lattice.rings)
        if self.positions is not None:
            key += (self.positions.groups, self.positions.whole)
        return key


class TrafficRow(NamedTuple):
    """An algorithm whose traffic is known."""

    make_traffic: Callable[[Members], Traffic]
    dense: bool = False  # every member sends straight to every other
    by_axes: bool = False  # ``make_traffic`` needs ``Members.lattice``
    # makes ``Members.positions`` from the members' endpoints, where ``make_traffic`` needs it
    positions: Callable[[Fabric, Indices], TierPositions] | None = None


def message_estimate(row: TrafficRow, ranks: int) -> int:
    """Estimate how many messages the row's traffic lists: to all others, or to as many as there are
    rounds of doubling."""
    return ranks * (ranks - 1 if row.dense else log2_ceil(ranks))


def ring_traffic(ranks: int, size: float) -> Traffic:
    """The traffic in which every member sends ``size``·M to the next, the last to the first."""
    src = np.arange(ranks)
    return Traffic(src, (src + 1) % ranks, np.full(ranks, size))


def all_together(parts: Sequence[Traffic]) -> Traffic:
    """All messages of several parts, one after the other; not marked as ``neighbours``."""
    return Traffic(
        np.concatenate([part.src for part in parts]),
        np.concatenate([part.dst for part in parts]),
        np.concatenate([part.size for part in parts]),
    )


def ring_instead(what: str) -> ColltoolError:
    """The error of members that lie wrong for an algorithm, to be raised; its fix is a ring, which runs
    on any group."""
    fix = f"{argument_text('algorithm', 'ring')} runs on any group"
    return ColltoolError(what, argument="algorithm", fix=fix)
