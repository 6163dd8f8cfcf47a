"""What one collective of a step takes on its group: priced once for each (primitive, group, bytes), by the library in force."""

from __future__ import annotations

from typing import NamedTuple

from colltool.algorithms.choice import Choice
from colltool.errors import ColltoolError, given, said
from colltool.fabric.model import Fabric
from colltool.fabric.topology import kind_of
from colltool.library.answer import WITH_A_MODEL, answered
from colltool.pricing.price import price
from colltool.pricing.readings import Readings
from colltool.pricing.results import Price
from colltool.pricing.row import Row, bound_by
from colltool.pricing.who import Who
from colltool.primitives import A2A, AG, AR, P2P, RS, Primitive
from colltool.workload.layout import Group

Busy = tuple[tuple[str, float], ...]


class Ran(NamedTuple):
    """A schedule that a call consists of: what runs, on every ``stride``-th of so many ranks, with M in bytes."""

    primitive: Primitive
    ranks: int
    stride: int
    choice: Choice
    bytes: float


class Fare(NamedTuple):
    """One call: seconds of latency with launch, and of bandwidth.

    ``per_domain`` are the group's members in one domain of each tier, innermost first; ``busy`` the seconds that the wires of
    each tier it crosses carry bytes; ``pick`` the library whose own choice the algorithm is, empty where it is our fastest;
    ``ran`` what was priced, one for each axis of the group.
    """

    algorithm: str
    protocol: str
    latency_s: float
    bandwidth_s: float
    per_domain: tuple[int, ...]
    busy: Busy
    pick: str = ""
    ran: tuple[Ran, ...] = ()

    @property
    def each_s(self) -> float:
        """Seconds of a call."""
        return self.latency_s + self.bandwidth_s

    @property
    def tiers(self) -> tuple[str, ...]:
        """Tiers that it crosses, innermost first."""
        return tuple(tier for tier, _ in self.busy)

    @property
    def wire(self) -> str:
        """The tier whose wires it keeps busiest: two calls of one wire share it; empty for a known time."""
        return max(self.busy, key=lambda one: one[1])[0] if self.busy else ""

    @property
    def bound(self) -> str:
        """``latency`` or ``bandwidth``."""
        return bound_by(self.latency_s, self.bandwidth_s, 0.0)


def known(seconds: float) -> Fare:
    """A call whose time was given: nothing is known of its wires."""
    return Fare("given", "", 0.0, seconds, (), ())


class Fares:
    """The prices of one fabric under one set of readings; every distinct call is priced once."""

    def __init__(self, fabric: Fabric, readings: Readings | None = None) -> None:
        self.fabric, self.readings = fabric, readings or Readings()
        self._kept: dict[tuple[Primitive, Group, float], Fare] = {}
        self._rounded: dict[int, Fabric] = {}

    def of(self, primitive: Primitive, group: Group, size: float, what: str = "") -> Fare:
        """One call; of a point-to-point that of the worst pair of neighbours in the group.

        Raises:
            ColltoolError: the group does not fit the fabric; names the dimension.
        """
        key = (primitive, group, size)
        if key not in self._kept:
            try:
                self._kept[key] = self._priced(primitive, group, size)
            except ColltoolError as error:
                words = said(error.what)
                fix = f"another layout or order{self._smaller(group)}; {said(error.fix)}"
                raise ColltoolError(f"{what or 'group'} {group.ranks}: {words}", fix=fix) from error
        return self._kept[key]

    def _smaller(self, group: Group) -> str:
        """A size of the innermost domains that holds whole strides: racks of 72 are used as 64."""
        tier = self.fabric.tiers[0]
        whole = tier.endpoints // group.stride * group.stride
        if kind_of(tier).axes or whole in (0, tier.endpoints):
            return ""
        return f", or {given('overrides', [f'{tier.name}.size={whole}'])}"

    def _priced(self, primitive: Primitive, group: Group, size: float) -> Fare:
        if primitive is P2P:
            pairs = [self._one(P2P, Who(2, apart), size) for apart in self._apart(group)]
            return max(pairs, key=lambda one: one.each_s)
        parts = [self._one(kind, Who(ranks, stride), part) for kind, (ranks, stride), part in in_axes(primitive, group, size)]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def _apart(self, group: Group) -> list[int]:
        """Distances in ranks of two neighbours that stand for all: inside a domain, and over the border of each larger one."""
        stride = group.stride
        last = group.members[-1]
        found, inside = [stride], 1
        for tier in self.fabric.tiers:
            borders = [inside * one.group for one in kind_of(tier).levels] + [inside * tier.endpoints]
            found += [border for border in borders if stride < border <= last]
            inside *= tier.endpoints
        return sorted({one for one in found if one < self.fabric.ranks})

    def _one(self, primitive: Primitive, who: Who, size: float) -> Fare:
        fabric = self._whole(who)
        found = price(fabric, primitive, max(1.0, float(size)), who, self.readings)
        if found.library is not None and found.library.name in WITH_A_MODEL:
            found = answered((found,), fabric, self.readings, asked=False)[0]
        picked = found.library.runs if found.library is not None else None
        return _fare(found, picked or found.best, found.library.name if picked is not None and found.library else "")

    def _whole(self, who: Who) -> Fabric:
        """The fabric in whole strides of a group."""
        if who.stride not in self._rounded:
            self._rounded[who.stride] = in_strides(self.fabric, who.stride)
        return self._rounded[who.stride]


def in_strides(fabric: Fabric, stride: int) -> Fabric:
    """A fabric whose outermost tier holds whole strides: 35 nodes have stages of 4 nodes too, and so have leaves of 18.

    The tier grows to the next whole stride, which changes no price of a group that ends before it. A switch's nodes shrink to
    whole strides, or to a part of one: one more pair in so many then crosses it.
    """
    tier = fabric.tiers[-1]
    kind, inside = kind_of(tier), fabric.ranks // tier.endpoints
    nodes = stride // inside
    if kind.axes or nodes < 2 or stride % inside or nodes >= tier.endpoints:
        return fabric
    size = -(-tier.endpoints // nodes) * nodes
    levels = tuple(one.model_copy(update={"group": _aligned(one.group, nodes)}) for one in kind.levels)
    if levels:
        top = levels[-1].model_copy(update={"group": max(size, kind.levels[-1].group)})
        levels = (*levels[:-1], top)
    if size == tier.endpoints and levels == kind.levels:
        return fabric
    grown = tier.model_copy(update={"size": size} | ({"levels": levels} if levels else {}))
    return fabric.model_copy(update={"tiers": (*fabric.tiers[:-1], grown)})


def _aligned(group: int, nodes: int) -> int:
    """Nodes under a switch in whole strides, or the largest that divides a stride."""
    if group >= nodes:
        return group // nodes * nodes
    return max(part for part in range(1, group + 1) if nodes % part == 0)


def in_axes(primitive: Primitive, group: Group, size: float) -> list[tuple[Primitive, tuple[int, int], float]]:
    """A group of evenly spaced ranks as it is; one of several axes axis by axis, as hierarchical schedules go.

    A reduce-scatter leaves 1/n of its bytes to the next axis, an all-gather comes back the same way, an all-reduce is both; an
    all-to-all sends everything along each axis.
    """
    if len(group.axes) == 1:
        return [(primitive, group.axes[0], size)]
    if primitive not in (AR, AG, RS, A2A):
        raise ColltoolError(f"{primitive.spoken} over {len(group.axes)} strides at once", fix="an order that sets them together")
    kinds = (RS, AG) if primitive is AR else (primitive,)
    found = []
    for kind in kinds:
        left = size
        for axis in group.axes:
            found.append((kind, axis, left))
            left = left if kind is A2A else left / axis[0]
    return found


def _fare(found: Price, row: Row, pick: str) -> Fare:
    carried: dict[str, float] = {}
    for phase in row.phases:
        carried[phase.tier] = carried.get(phase.tier, 0.0) + float(phase.bandwidth_s)
    return Fare(
        algorithm=row.title,
        protocol=str(row.protocol),
        latency_s=float(row.alpha_s) + float(row.overhead_s),
        bandwidth_s=float(row.bandwidth_s),
        per_domain=found.group.per_domain,
        busy=tuple(carried.items()),
        pick=pick,
        ran=(Ran(found.primitive, found.group.ranks, found.group.stride, row.choice, float(row.bytes)),),
    )


def _joined(parts: list[Fare]) -> Fare:
    """Phases one after the other."""
    carried: dict[str, float] = {}
    for tier, seconds in (pair for part in parts for pair in part.busy):
        carried[tier] = carried.get(tier, 0.0) + seconds
    return Fare(
        algorithm=" + ".join(part.algorithm for part in parts),
        protocol=parts[0].protocol,
        latency_s=sum(part.latency_s for part in parts),
        bandwidth_s=sum(part.bandwidth_s for part in parts),
        per_domain=parts[0].per_domain,
        busy=tuple(carried.items()),
        pick=parts[0].pick,
        ran=tuple(one for part in parts for one in part.ran),
    )
