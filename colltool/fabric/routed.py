"""Capabilities of tiers whose messages are routed link by link: graphs and HyperX."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import chain
from math import prod

from colltool.base.formatting import shape_text
from colltool.fabric.capabilities import LinkKind, TierCapabilities
from colltool.fabric.routed_tiers import GraphTier, HyperXTier
from colltool.network.group import Axis
from colltool.network.wires import Edge, GraphWires, HyperXWires, hops_from


class GraphTopology(TierCapabilities[GraphTier]):
    """An explicit graph; nodes are its ranks by number, then its switches in the order of the file."""

    joins = "accelerators"
    largest_size = 0

    @cached_property
    def _wires(self) -> GraphWires:
        tier = self.tier
        node_of = {name: tier.endpoints + index for index, name in enumerate(tier.switch_names)}
        edges = []
        for link in tier.links:
            src, dst = (node_of[end] if isinstance(end, str) else end for end in link.between)
            rate_Bps = (link.bandwidth or tier.bandwidth) * link.links * tier.ports
            alpha_s = link.alpha or tier.alpha
            edges += [Edge(src, dst, rate_Bps, alpha_s), Edge(dst, src, rate_Bps, alpha_s)]
        return GraphWires(tier.endpoints, tier.endpoints + len(node_of), tuple(edges))

    def wires(self, endpoints: int) -> GraphWires:
        return self._wires.restricted_to(endpoints)

    def part(self, endpoints: int, stride: int = 1) -> tuple[Axis, ...] | None:
        # the file was refused if its ranks were not joined
        if stride > 1 or endpoints == self.tier.endpoints:
            return ()
        return None if self.first_are_disconnected(endpoints) else ()

    def first_are_disconnected(self, endpoints: int) -> bool:
        return not self._wires.restricted_to(endpoints).is_connected()

    @property
    def neighbours(self) -> int:
        """The most neighbours of any rank."""
        pairs = {frozenset(link.between) for link in self.tier.links}
        counts = Counter(chain.from_iterable(pairs))
        return max(count for end, count in counts.items() if isinstance(end, int))

    @property
    def fewest_links(self) -> int:
        counts: Counter[int | str] = Counter()
        for link in self.tier.links:
            counts.update(dict.fromkeys(link.between, link.links))
        return min(count for end, count in counts.items() if isinstance(end, int))

    @property
    def diameter_links(self) -> int:
        longest = 0
        for start in range(self.tier.endpoints):
            hops = hops_from(start, self._wires.neighbours)
            longest = max(longest, *(hops[end] for end in range(self.tier.endpoints)))
        return longest

    @property
    def bisection_Bps(self) -> float:
        """The cut between the first half of the ranks (rounded down) and the rest, each switch on the side
        where it cuts less; 0 if there is no such cut. Another half of the ranks may have less."""
        half = (0, self.tier.endpoints // 2)
        return next((cut.Bps for cut in self._wires.cuts() if (cut.first, cut.after) == half), 0.0)

    @property
    def _injection_Bps(self) -> float:
        """The mean of all ranks."""
        endpoints = self.tier.endpoints
        return sum(edge.Bps for edge in self._wires.edges if edge.src < endpoints) / endpoints

    def links(self, copies: int) -> int:
        # copies come in whole sets of ports
        parallel = copies // self.tier.ports * self.tier.ports
        return parallel * sum(link.links for link in self.tier.links)

    def switches(self, planes: int) -> int:  # noqa: ARG002
        return len(self.tier.switch_names)


class HyperXTopology(TierCapabilities[HyperXTier]):
    """A HyperX, of switches with ``hosts`` endpoints each, or of endpoints alone."""

    joins = "either"
    largest_size = 0

    @cached_property
    def _wires(self) -> HyperXWires:
        tier = self.tier
        # between switches a link adds what the file says
        default_s = 0.0 if tier.hosts else tier.alpha
        rates_Bps = []
        alphas_s = []
        for axis in tier.each_axis:
            rates_Bps.append((axis.bandwidth or tier.bandwidth) * axis.links * tier.ports)
            alphas_s.append(default_s if axis.alpha is None else axis.alpha)
        return HyperXWires(
            endpoints=tier.endpoints,
            hosts=tier.hosts or 0,
            shape=tuple(tier.shape),
            Bps=tuple(rates_Bps),
            alpha_s=tuple(alphas_s),
        )

    @property
    def has_ports(self) -> bool:
        return self.tier.hosts is not None

    @property
    def extent(self) -> str:
        shape = shape_text(self.tier.shape)
        return f"{self.tier.hosts} on each of {shape}" if self.tier.hosts else shape

    @property
    def link_kinds(self) -> tuple[LinkKind, ...]:
        each = zip(self._wires.shape, self._wires.Bps, self._wires.alpha_s, strict=True)
        kinds = []
        for axis, (size, rate_Bps, alpha_s) in enumerate(each, start=1):
            kinds.append(LinkKind(f"axis {axis}", size - 1, rate_Bps, alpha_s))
        return tuple(kinds)

    def wires(self, endpoints: int) -> HyperXWires:
        return self._wires._replace(endpoints=endpoints)

    def part(self, endpoints: int, stride: int = 1) -> tuple[Axis, ...] | None:
        """Return no axes, as routes are not cut by these, or None where endpoints that are not in the group
        would have to forward its messages: without switches a group is a whole box."""
        if self.tier.hosts or stride > 1:
            return ()
        endpoints_left = endpoints
        for size in self.tier.shape:
            taken = min(size, endpoints_left)
            if endpoints_left % taken:
                return None
            endpoints_left //= taken
        return ()

    @property
    def neighbours(self) -> int:
        return 1 if self.tier.hosts else sum(size - 1 for size in self.tier.shape)

    @property
    def diameter_links(self) -> int:
        axes = sum(size > 1 for size in self.tier.shape)
        return axes + 2 if self.tier.hosts else axes

    @property
    def bisection_Bps(self) -> float:
        return self.bisection_of(1)

    def bisection_of(self, planes: int) -> float:
        """Return the cut across the middle of the axis where that cuts least; an odd axis is cut into parts
        that differ by one place, so not into halves.

        Hosts reach at most what their ports carry; the cables between switches are the same for all
        planes. Of a 4x3 the second axis is cut into 1 and 2: 1 * 2 links on each of 4 lines, the first
        into 2 and 2: 4 links on each of 3.
        """
        wires = self._wires
        nodes = prod(wires.shape)
        cuts_Bps = []
        for size, rate_Bps in zip(wires.shape, wires.Bps, strict=True):
            if size > 1:
                half = size // 2
                cuts_Bps.append(nodes // size * half * (size - half) * rate_Bps)
        if self.tier.hosts:
            return min([self.tier.endpoints // 2 * self.rate_Bps * planes, *cuts_Bps])
        return planes * min(cuts_Bps, default=0.0)

    @property
    def _injection_Bps(self) -> float:
        if self.tier.hosts:
            return self.rate_Bps
        axes = zip(self._wires.shape, self._wires.Bps, strict=True)
        return sum((size - 1) * rate_Bps for size, rate_Bps in axes)

    def links(self, copies: int) -> int:
        """Return the cables between switches once, as all copies share them, and the ports of every copy;
        without switches the links of every copy."""
        tier = self.tier
        nodes = prod(tier.shape)
        axes = zip(tier.shape, tier.each_axis, strict=True)
        between = sum(nodes * (size - 1) // 2 * axis.links for size, axis in axes)
        if tier.hosts:
            return between * tier.ports + copies * tier.endpoints
        return between * copies

    def switches(self, planes: int) -> int:  # noqa: ARG002
        return prod(self.tier.shape) if self.tier.hosts else 0
