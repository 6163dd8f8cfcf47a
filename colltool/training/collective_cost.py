"""Prices of a job's collectives on a fabric, as its library runs them.

:class:`CollectiveCostCache` prices each (primitive, group, bytes) once. A group of several axes is
priced axis by axis, a point-to-point as its slowest pair. Where a group does not tile the fabric,
:mod:`group_fit` says what is priced in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from colltool.algorithms.registry import Choice
from colltool.base.errors import ColltoolError, argument_text, localize
from colltool.base.primitives import A2A, AG, AR, P2P, RS, Primitive
from colltool.estimate.algorithm_estimate import AlgorithmEstimate, bound_by
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.library_pick import price_of_pick, with_library_choice
from colltool.estimate.nccl_hardware import channels_of
from colltool.estimate.placement import GroupSpec
from colltool.estimate.price import price
from colltool.estimate.results import Price
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.training.group_fit import along_axes, in_strides, nearest_pair, reordered_axes
from colltool.training.parallel_config import EvenRanks, RankGroup

# (tier, seconds that its wires carry bytes) of each tier that a call crosses, innermost first
Busy = tuple[tuple[str, float], ...]
Shared = TypeVar("Shared")
# parts of steps that are remembered: a search goes through layouts in order, and what the next ones
# share was priced a moment ago
MAX_SHARED = 16384


class PricedSchedule(NamedTuple):
    """The schedule that runs on a group of evenly spaced ranks."""

    primitive: Primitive
    ranks: int
    stride: int  # distance of neighbours
    choice: Choice  # the algorithm, or one a tier
    bytes: float  # M


class CollectiveCost(NamedTuple):
    """The price of one call of a collective."""

    algorithm: str  # as users read it; those of several axes joined by " + "
    protocol: str  # the library's, such as LL128; empty without one
    latency_s: float  # all that is not bandwidth: latency, launch, software
    bandwidth_s: float
    per_domain: tuple[int, ...]  # the group's members in one domain of each tier, innermost first
    busy: Busy
    picked_by: str = ""  # the library whose own choice the algorithm is; empty: the fastest
    energy_J: float | None = None  # of a rank that sends; None where no tier says
    schedules: tuple[PricedSchedule, ...] = ()  # one for each axis of the group
    startup_s: float = 0.0  # of ``latency_s``: the host waits for it, so nothing hides it
    # thread blocks that it holds on a device, one multiprocessor each; None where not known
    channels: int | None = None

    @property
    def each_s(self) -> float:
        """Seconds of the call."""
        return self.latency_s + self.bandwidth_s

    def scaled(self, factor: float) -> CollectiveCost:
        """The cost of ``factor`` times the bytes, by the same algorithm."""
        busy = tuple((tier, factor * seconds) for tier, seconds in self.busy)
        energy_J = None if self.energy_J is None else factor * self.energy_J
        return self._replace(bandwidth_s=factor * self.bandwidth_s, busy=busy, energy_J=energy_J)

    def with_traffic_of(self, parts: Sequence[CollectiveCost]) -> CollectiveCost:
        """The cost with the bytes, the energy and the schedules of these calls in place of its own."""
        energies_J = [part.energy_J for part in parts if part.energy_J is not None]
        return self._replace(
            busy=sum_by_tier(chain.from_iterable(part.busy for part in parts)),
            energy_J=sum(energies_J) if energies_J else None,
            schedules=tuple(chain.from_iterable(part.schedules for part in parts)),
        )

    @property
    def tiers(self) -> tuple[str, ...]:
        """Tiers that it crosses, innermost first."""
        return tuple(tier for tier, _ in self.busy)

    @property
    def busiest_tier(self) -> str:
        """The tier whose wires it keeps busy longest; empty for a given time."""
        return _busiest_tier(self.busy)

    @property
    def bound(self) -> str:
        """What most of its time is, in a word."""
        return bound_by(self.latency_s, self.bandwidth_s, 0.0)


# cached, as a step asks at every pair of calls
@lru_cache(maxsize=16384)
def _busiest_tier(busy: Busy) -> str:
    """:attr:`CollectiveCost.busiest_tier`."""
    return max(busy, key=itemgetter(1))[0] if busy else ""


_Key = tuple[Primitive, RankGroup, float, bool]  # the float: bytes; the bool: a closed ring


class CollectiveCostCache:
    """Prices of a fabric's collectives, each worked out once."""

    def __init__(self, fabric: Fabric, readings: ModelOptions | None = None) -> None:
        self.fabric = fabric
        self.readings = readings or ModelOptions()
        # an error where a group cannot be placed, so that it is found once too
        self._known: dict[_Key, CollectiveCost | ColltoolError] = {}
        # by stride, the fabric that groups of it are priced on: padded where they do not tile it
        self._in_strides = cache(partial(in_strides, fabric))
        self._shared: dict[Hashable, Any] = {}

    def shared(self, key: Hashable, make: Callable[[], Shared]) -> Shared:
        """Return a part of steps that several layouts share, made once for each ``key``.

        The key holds all that the part depends on.
        """
        if key not in self._shared:
            if len(self._shared) >= MAX_SHARED:
                self._shared.clear()
            self._shared[key] = make()
        part: Shared = self._shared[key]
        return part

    def for_changed_tier(self, fabric: Fabric, tier: str) -> CollectiveCostCache:
        """Return a cache for a fabric that differs in one tier, with the prices that this one has of
        groups with no two members in a domain of that tier."""
        changed = CollectiveCostCache(fabric, self.readings)
        number = [level.name for level in self.fabric.tiers].index(tier)
        for key, cost in self._known.items():
            primitive, group, *_ = key
            # of these ``per_domain`` is that of a part: one pair, or the first axis
            if primitive is P2P or len(group.axes) > 1 or isinstance(cost, ColltoolError):
                continue
            if cost.per_domain[number] == 1:
                changed._known[key] = cost
        return changed

    def of(
        self,
        primitive: Primitive,
        group: RankGroup,
        size: float,
        dimension: str = "group",
        *,
        closed: bool = False,
    ) -> CollectiveCost:
        """Price one call of ``size`` bytes; a point-to-point as its slowest pair of neighbours,
        including last to first where ``closed``.

        Raises:
            ColltoolError: the group cannot be placed on the fabric; the message begins with its
                ``dimension``.
        """
        key = (primitive, group, size, closed)
        if key not in self._known:
            try:
                self._known[key] = self._group_cost(primitive, group, size, closed)
            except ColltoolError as error:
                self._known[key] = error
        cost = self._known[key]
        if isinstance(cost, ColltoolError):
            raise ColltoolError(
                f"{dimension} {group.ranks}: {localize(cost.what)}",
                fix=f"another layout or order{self._hint(group)}; {localize(cost.fix)}",
            ) from cost
        return cost

    def _hint(self, group: RankGroup) -> str:
        """Return the end of an error's fix: an override with which a group may fit, or "".

        It is a size of the innermost tier in whole strides (racks of 72 used as 64), or a lattice
        with its axes in another order.
        """
        tier = self.fabric.tiers[0]
        override = ""
        if capabilities_of(tier).axes:
            override = reordered_axes(self.fabric, group)
        else:
            # ranks of a domain
            whole_strides = tier.endpoints // group.stride * group.stride
            if whole_strides not in (0, tier.endpoints):
                override = f"{tier.name}.size={whole_strides}"
        return f", or {argument_text('overrides', [override])}" if override else ""

    def _group_cost(
        self, primitive: Primitive, group: RankGroup, size: float, closed: bool
    ) -> CollectiveCost:
        """Price a group: point-to-point as its slowest pair, others axis by axis."""
        if primitive is P2P:
            pairs = [EvenRanks(2, distance) for distance in self._pair_distances(group)]
            # A point-to-point over all ranks is priced from its first to its last. It comes before
            # the pairs, so that it is the one named where they cost the same.
            if closed and self._lies_open(group):
                pairs.insert(0, EvenRanks(group.ranks, group.stride))
            costs = [self._cost_of_ranks(P2P, ranks, size) for ranks in pairs]
            return max(costs, key=lambda cost: cost.each_s)
        parts = axis_by_axis(primitive, group, size)
        return _in_sequence([self._cost_of_ranks(*part) for part in parts])

    def _lies_open(self, group: RankGroup) -> bool:
        """Whether a ring of these ranks lies along a line of a lattice without closing it, so that
        its ends are the farthest pair.

        Under switches its ends cross no border that two neighbours do not cross.
        """
        axis_stride = 1
        last = group.members[-1]
        for axis in capabilities_of(self.fabric.tiers[0]).axes:
            if axis_stride == group.stride and last < axis_stride * axis.size:
                return not (axis.is_ring and group.ranks == axis.size)
            axis_stride *= axis.size
        return False

    def _pair_distances(self, group: RankGroup) -> list[int]:
        """Distances of neighbours among which the slowest pair is: inside a domain, and over the
        border of each larger one.

        8 ranks with stride 2, nodes of 8 under leaves of 4 nodes: 2, and 8 between nodes; the last
        member is rank 14, so that no pair crosses a leaf, 32 ranks on.
        """
        stride = group.stride
        last = group.members[-1]
        borders = {stride}
        ranks_inside = 1
        for tier in self.fabric.tiers:
            borders.update(ranks_inside * level.group for level in capabilities_of(tier).levels)
            ranks_inside *= tier.endpoints
            borders.add(ranks_inside)
        return [
            border
            for border in sorted(borders)
            if stride <= border <= last and border < self.fabric.ranks
        ]

    def _cost_of_ranks(self, primitive: Primitive, ranks: EvenRanks, size: float) -> CollectiveCost:
        """Price a group where it is placed; else along the axes of a lattice one after the other,
        or a pair at the nearest distance.

        Raises:
            ColltoolError: none of these is possible.
        """
        try:
            return self._placed_cost(primitive, ranks, size)
        except ColltoolError:
            parts = along_axes(self.fabric, *ranks) or nearest_pair(self.fabric, *ranks)
            if not parts:
                raise
        # By (ranks, stride) of an axis, the groups of the job that share its links: the collective on
        # it takes as long as one of that many times the bytes.
        groups_on = dict(parts)
        group = RankGroup(tuple(groups_on))
        return _in_sequence(
            [
                self._placed_cost(*collective).scaled(groups_on[collective.ranks])
                for collective in axis_by_axis(primitive, group, size)
            ]
        )

    def _placed_cost(self, primitive: Primitive, ranks: EvenRanks, size: float) -> CollectiveCost:
        """Price a group as the library of the fabric runs it; by the fastest algorithm where no
        library is known to pick."""
        fabric = self._in_strides(ranks.stride)
        # the ranks of a job are numbered along the axes of a lattice
        group = GroupSpec(ranks.ranks, ranks.stride, in_order=True)
        at_least_a_byte = max(1.0, float(size))
        # only the row that the library picks, where that is known without pricing the others
        picked = price_of_pick(fabric, primitive, at_least_a_byte, group, self.readings)
        if picked is not None:
            return _collective_cost(picked, picked.best, fabric, fabric.library_name)
        all_rows = price(fabric, primitive, at_least_a_byte, group, self.readings)
        # marks the row that the library runs, if it is known to pick one of them
        (priced,) = with_library_choice((all_rows,), fabric, self.readings, required=False)
        if priced.library is None or priced.library.runs is None:
            return _collective_cost(priced, priced.best, fabric, "")
        return _collective_cost(priced, priced.library.runs, fabric, priced.library.name)

    def padded_fabric(self, stride: int) -> Fabric | None:
        """The padded fabric that groups of a stride are priced on; None where they tile the fabric
        as it is."""
        padded = self._in_strides(stride)
        return None if padded is self.fabric else padded


class AxisCollective(NamedTuple):
    """One of the collectives that together run a collective over several axes; ``bytes`` is M."""

    primitive: Primitive
    ranks: EvenRanks
    bytes: float


def axis_by_axis(primitive: Primitive, group: RankGroup, size: float) -> list[AxisCollective]:
    """Return the collectives that run a collective axis by axis, as hierarchical schedules do.

    A reduce-scatter leaves 1/n of its bytes to the next axis, an all-gather comes back the same
    way, an all-reduce is both; an all-to-all sends everything along each axis.

    A reduce-scatter of 8 MB over axes of 2 and 4 ranks is one of 8 MB over 2, then one of 4 MB
    over 4.
    """
    axes = [EvenRanks(*axis) for axis in group.axes]
    if len(axes) == 1:
        return [AxisCollective(primitive, axes[0], size)]
    if primitive not in (AR, AG, RS, A2A):
        raise ColltoolError(
            f"{primitive.label} over {len(axes)} strides at once",
            fix="an order that sets them together",
        )
    collectives = []
    phases = (RS, AG) if primitive is AR else (primitive,)
    for phase in phases:
        bytes_left = size
        for axis in axes:
            collectives.append(AxisCollective(phase, axis, bytes_left))
            if phase is not A2A:
                bytes_left /= axis.ranks
    return collectives


def _collective_cost(
    priced: Price, row: AlgorithmEstimate, fabric: Fabric, picked_by: str
) -> CollectiveCost:
    """Return the cost of one row of a price; ``picked_by``: the library that chose it."""
    moved_s = float(row.moved_s)
    total_s = float(row.total_s)
    # links are busy all the time that they carry bytes, also below their full rate
    stretch = 1 + float(row.short_s) / moved_s if moved_s else 1.0
    # a machine with a better share of bandwidth than its library's usual one takes less than moved_s
    if stretch * moved_s > total_s:
        stretch = total_s / moved_s
    energy_J = None
    if row.energy_J is not None:
        senders = 1 if priced.primitive is P2P else priced.ranks
        energy_J = float(row.energy_J) / senders
    group = priced.group
    return CollectiveCost(
        algorithm=row.title,
        protocol=str(row.protocol),
        latency_s=max(0.0, total_s - stretch * moved_s),  # launch and software steps included
        bandwidth_s=stretch * moved_s,
        per_domain=group.per_domain,
        busy=sum_by_tier((phase.tier, stretch * float(phase.bandwidth_s)) for phase in row.phases),
        picked_by=picked_by,
        energy_J=energy_J,
        schedules=(
            PricedSchedule(
                priced.primitive, group.ranks, group.stride, row.choice, float(row.bytes)
            ),
        ),
        channels=channels_of(fabric, group.spec, priced.primitive, row.spec),
    )


def sum_by_tier(parts: Iterable[tuple[str, float]]) -> Busy:
    """Return the seconds of each tier, those of one tier added."""
    seconds_of: dict[str, float] = defaultdict(float)
    for tier, seconds in parts:
        seconds_of[tier] += seconds
    return tuple(seconds_of.items())


def _in_sequence(parts: Sequence[CollectiveCost]) -> CollectiveCost:
    """Return the cost of collectives that run one after the other."""
    if len(parts) == 1:
        return parts[0]
    together = parts[0].with_traffic_of(parts)
    return together._replace(
        algorithm=" + ".join(part.algorithm for part in parts),
        latency_s=sum(part.latency_s for part in parts),
        bandwidth_s=sum(part.bandwidth_s for part in parts),
        channels=max((part.channels for part in parts if part.channels), default=None),
    )
