"""Fabrics that are compared, made to hold the ranks of a question: grown by nodes, or with a part
of each rack.

A shipped file describes one size of a machine, and people ask about others. :func:`fitted` finds
the smallest change with which a fabric runs all counts (no fit to measurements is meant); what no change
can run is left as it is, and :func:`counts_of_all` finds counts that every fabric can run.

A node or rack is an endpoint of the outermost tier: below, ``rack`` is either, until :func:`node_noun`
says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf
from operator import attrgetter
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.estimate.placement import GroupSpec, count_within, everybody, fits
from colltool.fabric.expression import per_rack_for, resized, with_per_rack
from colltool.fabric.model import Fabric

# An endpoint of the outermost tier with this many ranks behind it is called a rack, not a node.
_RACK = 32
# Least share of each rack that a user can mean by a part of it: 64 of 72 ranks, not 50.
_LEAST_SHARE = 0.75


class Fitted(NamedTuple):
    """What was changed so that a fabric runs the ranks.

    Args:
        nodes: how many it was grown to; None: as many as it has.
        per_rack: how many ranks of each node or rack take part; None: all of them.
        rack: ranks of a whole node or rack; 0 where nothing changes.
        overrides: the change as overrides; empty for none.
    """

    nodes: int | None = None
    per_rack: int | None = None
    rack: int = 0
    overrides: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """What ``rack`` ranks are called: node or rack. Nobody asks where nothing changes."""
        return node_noun(self.rack)


AS_IT_IS = Fitted()
"""No change."""


def node_noun(ranks: int) -> str:
    """What people call so many ranks that one tier joins: a node or a rack."""
    return "rack" if ranks >= _RACK else "node"


def noun_of(fabric: Fabric) -> str:
    """What the outermost tier of a fabric joins: ``rack`` or ``node``, and ``domain`` for a fabric of
    one tier or of domains of different sizes."""
    if len(fabric.tiers) == 1 or fabric.domains:
        return "domain"
    return node_noun(fabric.ranks // fabric.tiers[-1].endpoints)


def fitted(fabric: Fabric, groups: Sequence[GroupSpec], varied: Sequence[str] = ()) -> Fitted:
    """The change with which a fabric runs all groups; :data:`AS_IT_IS` where it needs none, or where
    none would do.

    A size that the user stated, also as a key of ``varied``, stays. A part of each rack is tried
    before more nodes; where that part needs more racks than there are, both are changed. Groups with a
    shape, which name a slice of the fabric as it is, change nothing.
    """
    # the ranks from a group's first to its last: 8 of every 4th are among 32
    extents = [group.ranks * group.stride for group in groups if group.ranks is not None]
    if len(fabric.tiers) == 1 or not extents:
        return AS_IT_IS
    if any(group.shape for group in groups):
        return AS_IT_IS
    if all(_runs(fabric, group) for group in groups):
        return AS_IT_IS
    stated = {key for key, _ in fabric.overrides} | set(varied)
    # a part of a rack changes the tier inside, more nodes the outermost
    outermost = len(fabric.tiers) - 1
    next_inner, outer = fabric.tiers[-2:]
    if _states_size(stated, outer.name, outermost):
        return AS_IT_IS
    rack = fabric.ranks // outer.endpoints
    per_rack = rack
    # of small nodes people take all ranks
    takes_parts = rack >= _RACK and not fabric.domains
    if _states_size(stated, next_inner.name, outermost - 1):
        takes_parts = False
    if takes_parts and all(group.stride == 1 for group in groups):
        # the largest part of a rack that fills whole racks at every count, of however many racks
        per_rack = per_rack_for(fabric, extents, racks=inf) or rack
    nodes = max(ceil(extent / per_rack) for extent in extents)
    try:
        return _changed_to(fabric, per_rack, rack, nodes)
    except ColltoolError:
        # a network of a fixed shape, whose reason stands where it cannot be priced
        return AS_IT_IS


def _changed_to(fabric: Fabric, per_rack: int, rack: int, nodes: int) -> Fitted:
    """The change to so many ranks of each rack, which has ``rack``, and to at least so many nodes.

    Raises:
        ColltoolError: the fabric cannot be changed so.
    """
    change = AS_IT_IS
    if per_rack < rack:
        part = with_per_rack(fabric, per_rack)
        change = Fitted(None, per_rack, rack, tuple(part))
    if nodes > fabric.tiers[-1].endpoints:
        # of the outermost tier alone: they hold beside those of the tier inside
        growth = resized(fabric, nodes)
        overrides = (*change.overrides, *growth)
        change = change._replace(nodes=nodes, rack=rack, overrides=overrides)
    return change


def most_of_each_rack(fabric: Fabric, ranks: int) -> Fitted:
    """The change that takes most of each rack, so that so many ranks fill the racks that there are.
    :data:`AS_IT_IS` where whole racks hold them, or where they would take less of each than
    :data:`_LEAST_SHARE`."""
    change = fitted(fabric, [GroupSpec(ranks)])
    if change.nodes is not None:
        return AS_IT_IS
    if change.per_rack is None:
        return AS_IT_IS
    if change.per_rack < _LEAST_SHARE * change.rack:
        return AS_IT_IS
    return change


def _runs(fabric: Fabric, group: GroupSpec) -> bool:
    """Whether a fabric holds a group as it is."""
    if group.ranks is None:
        return True
    return fits(fabric, group.ranks, group.stride)


def _states_size(stated: set[str], tier: str, position: int) -> bool:
    """Whether a user's keys state the size of a tier, by its name or its position."""
    names = tier, f"tiers.{position}"
    return any(f"{name}.size" in stated or f"{name}.shape" in stated for name in names)


def most_of_all(fabrics: Sequence[Fabric], most: int, stride: int = 1) -> int | None:
    """The largest count up to ``most`` that all fabrics can run. None without any (one rank is no
    group)."""
    # Lower the bound to the smallest of the fabrics' largest counts until all have the same. Multiples
    # of 8 and of 12: up to 47 the largest are 40 and 36, up to 36 32 and 36, up to 32 32 and 24, up to
    # 24 both 24.
    count = most
    while True:
        most_of_each = [count_within(fabric, count, stride) or 0 for fabric in fabrics]
        least = min(most_of_each)
        if least == count:
            return count
        if least <= 1:
            return None
        count = least


def counts_of_all(fabrics: Sequence[Fabric], group: GroupSpec) -> tuple[int, ...]:
    """The nearest counts below and above a group's that all fabrics can run: two, one or none. The one
    above is at most twice the group's: a larger one would be another question."""
    ranks = group.ranks or 0
    most = min(fabric.ranks for fabric in fabrics) // group.stride
    counts = []
    below = most_of_all(fabrics, min(ranks - 1, most), group.stride)
    if below is not None:
        counts.append(below)
    for count in range(ranks + 1, min(2 * ranks, most) + 1):
        if all(fits(fabric, count, group.stride) for fabric in fabrics):
            counts.append(count)
            break
    return tuple(counts)


def ranks_of_all(fabrics: Sequence[Fabric], group: GroupSpec) -> int:
    """The ranks of a group that names none: the most that all fabrics can run, else all of the
    smallest. A group with a shape has the ranks of that."""
    smallest = min(fabrics, key=attrgetter("ranks"))
    # without the stride, which divides them below
    all_ranks = everybody(smallest, group._replace(stride=1))
    if group.shape is not None:
        return all_ranks
    return most_of_all(fabrics, all_ranks // group.stride, group.stride) or all_ranks
