"""What the tiers can do whose messages are routed link by link."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from math import prod

from colltool.base.formatting import shape_text
from colltool.fabric.capabilities import LinkKind, TierCapabilities
from colltool.fabric.routed_tiers import GraphTier, HyperXTier
from colltool.network.group import Axis
from colltool.network.wires import Edge, GraphWires, HyperXWires, hops_from


class GraphTopology(TierCapabilities[GraphTier]):
    joins = "accelerators"
    most = 0

    @cached_property
    def _wires(self) -> GraphWires:
        tier = self.tier
        number = {name: tier.endpoints + index for index, name in enumerate(tier.switch_names)}
        edges = []
        for one in tier.links:
            a, b = (number[end] if isinstance(end, str) else end for end in one.between)
            rate = (one.bandwidth or tier.bandwidth) * one.links * tier.ports
            alpha_s = one.alpha or tier.alpha
            edges += [Edge(a, b, rate, alpha_s), Edge(b, a, rate, alpha_s)]
        return GraphWires(tier.endpoints, tier.endpoints + len(number), tuple(edges))

    def wires(self, endpoints: int) -> GraphWires:
        return self._wires.of_first(endpoints)

    def part(self, endpoints: int, stride: int = 1) -> tuple[Axis, ...] | None:
        # the file was refused if its ranks were not joined
        whole = stride > 1 or endpoints == self.tier.endpoints
        return () if whole or not self.cut_apart(endpoints) else None

    def cut_apart(self, endpoints: int) -> bool:
        return not self._wires.of_first(endpoints).joins_all()

    @property
    def neighbours(self) -> int:
        """The most of any rank."""
        ends = Counter(
            end for one in {frozenset(one.between) for one in self.tier.links} for end in one
        )
        return max(count for end, count in ends.items() if isinstance(end, int))

    @property
    def fewest_links(self) -> int:
        ends: Counter[int | str] = Counter()
        for one in self.tier.links:
            ends.update(dict.fromkeys(one.between, one.links))
        return min(count for end, count in ends.items() if isinstance(end, int))

    @property
    def diameter_links(self) -> int:
        ends, beside = range(self.tier.endpoints), self._wires.beside
        apart = (hops_from(start, beside) for start in ends)
        return max(hops[end] for hops in apart for end in ends)

    @property
    def bisection_Bps(self) -> float:
        """Between the first half of the ranks and the rest, each switch on the side where it cuts
        less."""
        half = self.tier.endpoints // 2
        return next(
            (one.Bps for one in self._wires.cuts() if (one.first, one.after) == (0, half)), 0.0
        )

    @property
    def _injection_Bps(self) -> float:
        """The mean of all ranks."""
        ends = range(self.tier.endpoints)
        return sum(edge.Bps for edge in self._wires.edges if edge.a in ends) / len(ends)

    def links(self, copies: int) -> int:
        return (
            copies // self.tier.ports * self.tier.ports * sum(one.links for one in self.tier.links)
        )

    def switches(self, planes: int) -> int:  # noqa: ARG002
        return len(self.tier.switch_names)


class HyperXTopology(TierCapabilities[HyperXTier]):
    joins = "either"
    most = 0

    @cached_property
    def _wires(self) -> HyperXWires:
        tier = self.tier
        alone = 0.0 if tier.hosts else tier.alpha  # between switches a link adds what the file says
        return HyperXWires(
            endpoints=tier.endpoints,
            hosts=tier.hosts or 0,
            shape=tuple(tier.shape),
            Bps=tuple(
                (one.bandwidth or tier.bandwidth) * one.links * tier.ports for one in tier.each_axis
            ),
            alpha_s=tuple(alone if one.alpha is None else one.alpha for one in tier.each_axis),
        )

    @property
    def has_ports(self) -> bool:
        return self.tier.hosts is not None

    @property
    def extent(self) -> str:
        hosts = f"{self.tier.hosts} on each of " if self.tier.hosts else ""
        return hosts + shape_text(self.tier.shape)

    @property
    def link_kinds(self) -> tuple[LinkKind, ...]:
        each = zip(self._wires.shape, self._wires.Bps, self._wires.alpha_s, strict=True)
        return tuple(
            LinkKind(f"axis {axis}", size - 1, *own)
            for axis, (size, *own) in enumerate(each, start=1)
        )

    def wires(self, endpoints: int) -> HyperXWires:
        return self._wires._replace(endpoints=endpoints)

    def part(self, endpoints: int, stride: int = 1) -> tuple[Axis, ...] | None:
        """Without switches whole boxes: others forward nothing."""
        if self.tier.hosts or stride > 1:
            return ()
        left = endpoints
        for size in self.tier.shape:
            taken = min(size, left)
            if left % taken:
                return None
            left //= taken
        return ()

    @property
    def neighbours(self) -> int:
        return 1 if self.tier.hosts else sum(size - 1 for size in self.tier.shape)

    @property
    def diameter_links(self) -> int:
        return sum(size > 1 for size in self.tier.shape) + (2 if self.tier.hosts else 0)

    @property
    def bisection_Bps(self) -> float:
        return self.bisection_of(1)

    def bisection_of(self, planes: int) -> float:
        """Across the middle of the axis where that cuts least; of an odd axis between places, not
        halves.

        Of hosts at most what their ports carry; the cables between switches are the same for all
        planes.
        """
        wires, hosts = self._wires, self.tier.hosts
        nodes, axes = prod(wires.shape), zip(wires.shape, wires.Bps, strict=True)
        halves = [
            nodes // size * (size // 2) * (size - size // 2) * rate
            for size, rate in axes
            if size > 1
        ]
        if hosts:
            return min([self.tier.endpoints // 2 * self.rate_Bps * planes, *halves])
        return planes * min(halves, default=0.0)

    @property
    def _injection_Bps(self) -> float:
        wires = self._wires
        return (
            self.rate_Bps
            if self.tier.hosts
            else sum((size - 1) * rate for size, rate in zip(wires.shape, wires.Bps, strict=True))
        )

    def links(self, copies: int) -> int:
        """Ports of every copy; cables between switches are shared by all."""
        tier, nodes = self.tier, prod(self.tier.shape)
        between = sum(
            nodes * (size - 1) // 2 * one.links
            for size, one in zip(tier.shape, tier.each_axis, strict=True)
        )
        return between * tier.ports + copies * tier.endpoints if tier.hosts else between * copies

    def switches(self, planes: int) -> int:  # noqa: ARG002
        return prod(self.tier.shape) if self.tier.hosts else 0
