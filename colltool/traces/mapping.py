"""Where a group's ranks sit on a fabric, and what a call takes there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from colltool.base.errors import ColltoolError, given, said
from colltool.base.primitives import P2P
from colltool.estimate.assumptions import Readings
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.traces.metadata import CallMetadata
from colltool.traces.rank_map import RankMap
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.parallel_config import Axes, RankGroup

UNLISTED = "the trace does not list the ranks of the group"
NO_ENDS = "the trace does not name both ends"


class ExpectedTime(NamedTuple):
    """What a call should take; ``places`` are the group's fabric ranks, ascending, ``axes`` how they lie; ``reason`` says why
    there is no price."""

    places: tuple[int, ...] = ()
    axes: Axes = ()
    seconds: float | None = None
    latency_s: float | None = None
    algorithm: str = ""
    tiers: tuple[str, ...] = ()
    reason: str = ""


def axes_of(ranks: Sequence[int]) -> Axes:
    """Ascending ranks as (size, stride) per axis, innermost first; empty if not evenly spaced."""
    axes: list[tuple[int, int]] = []
    left = list(ranks)
    while len(left) > 1:
        stride, size = left[1] - left[0], 2
        while size < len(left) and left[size] - left[size - 1] == stride:
            size += 1
        if len(left) % size:
            return ()
        axes.append((size, stride))
        left = left[::size]
    group = RankGroup(tuple(axes))
    return group.axes if [ranks[0] + member for member in group.members] == list(ranks) else ()


class CallPrices:
    """Prices of calls on one fabric, cached for groups that lie alike."""

    def __init__(self, fabric: Fabric, readings: Readings, where: RankMap) -> None:
        self._fabric, self._fares, self._map = fabric, CollectiveCostCache(fabric, readings), where
        self._where = lru_cache(maxsize=None)(self._placed)

    def of(self, call: CallMetadata) -> ExpectedTime:
        if not call.ranks:
            return ExpectedTime(reason=NO_ENDS if call.primitive is P2P else UNLISTED)
        where = self._where(call.ranks)
        if where.reason:
            return where
        try:
            fare = self._fares.of(call.primitive, RankGroup(where.axes), float(call.bytes))
        except ColltoolError as error:
            return where._replace(reason=said(error.what))
        return ExpectedTime(where.places, where.axes, fare.each_s, fare.latency_s, fare.algorithm, fare.tiers)

    def _placed(self, ranks: tuple[int, ...]) -> ExpectedTime:
        places = self._map.place(ranks)
        if places[-1] >= self._fabric.ranks:
            what = f"the traces have a rank {ranks[-1]}, and {self._fabric.name} has ranks 0 to {self._fabric.ranks - 1}"
            fix = f"a larger fabric, or {given('overrides', [f'{self._fabric.tiers[-1].name}.size=...'])}"
            raise ColltoolError(what, argument="fabric", fix=fix)
        axes = axes_of(places)
        if not axes:
            return ExpectedTime(places, reason="the ranks of the group are not evenly spaced")
        if _lie(self._fabric, places) != _lie(self._fabric, RankGroup(axes).members):
            return ExpectedTime(places, axes, reason="the group does not begin where domains of the fabric do")
        return ExpectedTime(places, axes)


def _lie(fabric: Fabric, ranks: Sequence[int]) -> list[Counter[int]]:
    inside, found = 1, []
    for tier in fabric.tiers:
        kind = capabilities_of(tier)
        parts, line = [one.group for one in kind.levels], 1
        for axis in kind.axes:
            line *= axis.size
            parts.append(line)
        for part in (*parts, tier.endpoints):
            found.append(Counter(Counter(rank // (inside * part) for rank in ranks).values()))
        inside *= tier.endpoints
    return found
