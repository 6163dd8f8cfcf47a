"""What the tiers can do whose messages are routed link by link."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from functools import cached_property

from colltool.algorithms.group import Axis
from colltool.algorithms.wires import Edge, GraphWires
from colltool.base.formatting import Shape
from colltool.fabric.capabilities import TierCapabilities
from colltool.fabric.routed_tiers import GraphTier


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
        return () if stride > 1 or self._wires.of_first(endpoints).joins_all() else None

    def slice(self, endpoints: int, shape: Shape | None = None) -> GraphTier | None:  # noqa: ARG002
        return self.tier if self.part(endpoints) is not None else None

    @property
    def neighbours(self) -> int:
        """The most of any rank."""
        ends = Counter(end for one in {frozenset(one.between) for one in self.tier.links} for end in one)
        return max(count for end, count in ends.items() if isinstance(end, int))

    @property
    def diameter_links(self) -> int:
        return max(max(row[: self.tier.endpoints]) for row in _hops(self._wires))

    @property
    def bisection_Bps(self) -> float:
        """Between the first half of the ranks and the rest, each switch on the side where it cuts less."""
        half = self.tier.endpoints // 2
        return next((one.Bps for one in self._wires.cuts() if (one.first, one.after) == (0, half)), 0.0)

    @property
    def _injection_Bps(self) -> float:
        """The mean of all ranks."""
        ends = range(self.tier.endpoints)
        return sum(edge.Bps for edge in self._wires.edges if edge.a in ends) / len(ends)

    def links(self, copies: int) -> int:
        return copies // self.tier.ports * self.tier.ports * sum(one.links for one in self.tier.links)

    def switches(self, planes: int) -> int:  # noqa: ARG002
        return len(self.tier.switch_names)


def _hops(wires: GraphWires) -> Iterator[list[int]]:
    """Links from each endpoint to every node."""
    beside: dict[int, list[int]] = {}
    for edge in wires.edges:
        beside.setdefault(edge.a, []).append(edge.b)
    for start in range(wires.endpoints):
        apart, waiting = {start: 0}, deque([start])
        while waiting:
            here = waiting.popleft()
            for there in beside[here]:
                if there not in apart:
                    apart[there] = apart[here] + 1
                    waiting.append(there)
        yield [apart[node] for node in range(wires.nodes)]
