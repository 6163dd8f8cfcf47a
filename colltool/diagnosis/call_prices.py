"""What the calls of traces should take on a fabric, by the fabric ranks of their group.

Prices are those of a plan's groups, which lie by strides and begin at rank 0: a group that lies
otherwise has no price, and :class:`ExpectedTime` says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from colltool.base.errors import ColltoolError, localize
from colltool.base.primitives import P2P
from colltool.base.statements import NOTHING, Statement
from colltool.diagnosis.rank_map import RankMap, larger_fabric
from colltool.diagnosis.sentences import statement
from colltool.estimate.assumptions import ModelOptions
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.logs.call_metadata import CallMetadata
from colltool.network.group import sizes_of
from colltool.training.collective_cost import CollectiveCostCache
from colltool.training.parallel_config import Axes, RankGroup


class ExpectedTime(NamedTuple):
    """What a call should take; as far as known where it has no price."""

    places: tuple[int, ...] = ()  # the group's fabric ranks, ascending
    axes: Axes = ()  # how these lie
    seconds: float | None = None  # None where ``reason`` says why
    latency_s: float | None = None  # the part of ``seconds`` that does not grow with size
    algorithm: str = ""  # that is expected to run
    tiers: tuple[str, ...] = ()  # that it crosses, innermost first
    reason: Statement = NOTHING


def axes_of(ranks: Sequence[int]) -> Axes:
    """Ascending ranks as (size, stride) per axis, innermost first; empty if not evenly spaced."""
    axes: list[tuple[int, int]] = []
    # of 0, 1, 8, 9: two with stride 1, then of their firsts, 0 and 8, two with stride 8
    firsts = list(ranks)
    while len(firsts) > 1:
        stride = firsts[1] - firsts[0]
        size = 2
        while size < len(firsts) and firsts[size] - firsts[size - 1] == stride:
            size += 1
        if len(firsts) % size:
            return ()
        axes.append((size, stride))
        firsts = firsts[::size]
    # the loop looks at the first run alone: 0, 1, 4, 6 also gives (2, 1), (2, 4)
    group = RankGroup(tuple(axes))
    return group.axes if [ranks[0] + member for member in group.members] == list(ranks) else ()


class CallPrices:
    """Prices of calls on one fabric, cached for groups that lie alike."""

    def __init__(self, fabric: Fabric, readings: ModelOptions, rank_map: RankMap) -> None:
        self._fabric = fabric
        self._costs = CollectiveCostCache(fabric, readings)
        self._map = rank_map
        self._placed = cache(self._place)

    def of(self, call: CallMetadata) -> ExpectedTime:
        """The price of a call, or why it has none; ColltoolError for a rank that the fabric or the
        map does not have."""
        if not call.ranks:
            code = "no-ends" if call.primitive is P2P else "no-ranks"
            return ExpectedTime(reason=statement(code))
        placed = self._placed(call.ranks)
        if placed.reason:
            return placed
        try:
            cost = self._costs.of(call.primitive, RankGroup(placed.axes), float(call.bytes))
        except ColltoolError as error:
            return placed._replace(reason=statement("refused", error=localize(error.what)))
        return placed._replace(
            seconds=cost.each_s,
            latency_s=cost.latency_s,
            algorithm=cost.algorithm,
            tiers=cost.tiers,
        )

    def _place(self, ranks: tuple[int, ...]) -> ExpectedTime:
        """Where a group lies, without seconds; with the reason why it can have none, NOTHING where it
        can. ColltoolError for a rank that the fabric or the map does not have."""
        fabric = self._fabric
        places = self._map.place(ranks)
        if places[-1] >= fabric.ranks:
            has = f"{fabric.name} has ranks 0 to {fabric.ranks - 1}"
            raise ColltoolError(
                f"the traces have a rank {ranks[-1]}, and {has}",
                argument="fabric",
                fix=larger_fabric(fabric),
            )
        axes = axes_of(places)
        if not axes:
            return ExpectedTime(places, reason=statement("unevenly-spaced"))
        # Prices are of groups that begin at rank 0. One that fills domains in equal numbers crosses
        # the same links, wherever it begins.
        from_rank_0 = RankGroup(axes).members
        if _members_per_domain(fabric, places) != _members_per_domain(fabric, from_rank_0):
            return ExpectedTime(places, axes, reason=statement("off-domain"))
        return ExpectedTime(places, axes)


def _members_per_domain(fabric: Fabric, ranks: Sequence[int]) -> list[Counter[int]]:
    """For each kind of domain, from the inside out, how many domains hold so many of the ranks:
    ``{8: 2}`` where two nodes hold eight each."""
    inside = 1  # ranks of an endpoint
    numbers = []
    for tier in fabric.tiers:
        kind = capabilities_of(tier)
        # endpoints below a switch of each level, in a row, plane, ... of a lattice, in the tier
        parts = [level.group for level in kind.levels]
        parts += accumulate(sizes_of(kind.axes), mul)
        for part in (*parts, tier.endpoints):
            domains = Counter(rank // (inside * part) for rank in ranks)
            numbers.append(Counter(domains.values()))
        inside *= tier.endpoints
    return numbers
