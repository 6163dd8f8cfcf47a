"""Capabilities of dragonflies and dragonfly+.

Sources: J. Kim, W. Dally, S. Scott, D. Abts, "Technology-driven, highly-scalable dragonfly
topology", ISCA 2008, 77-88; for dragonfly+ A. Shpiner et al., "Dragonfly+: low cost topology for
scaling datacenters", HiPINEB 2017, 1-8.
"""

from __future__ import annotations

from functools import cached_property
from math import comb

from colltool.fabric.capabilities import DistanceClass, LinkKind, TierCapabilities
from colltool.fabric.routed_tiers import DragonflyPlusTier, DragonflyTier
from colltool.network.wires import DragonflyWires


class DragonflyTopology(TierCapabilities[DragonflyTier | DragonflyPlusTier]):
    joins = "hosts"
    has_ports = True
    largest_size = 0

    @cached_property
    def _wires(self) -> DragonflyWires:
        """The network of the whole tier."""
        tier = self.tier
        return DragonflyWires(
            endpoints=tier.endpoints,
            hosts=tier.hosts,
            switches=tier.switches_,
            groups=tier.groups,
            spines=tier.spine_count,
            local_Bps=tier.local.bandwidth * tier.local.links,
            local_alpha_s=tier.local.alpha,
            global_Bps=tier.global_.bandwidth,
            global_alpha_s=tier.global_.alpha,
            cables=tier.global_.links,
            routing=tier.routing,
        )

    @property
    def link_kinds(self) -> tuple[LinkKind, ...]:
        wires = self._wires
        # from a switch: to the spines of its group, or to its other switches
        near = wires.spines or wires.switches - 1
        far = wires.groups - 1
        inside = LinkKind("in a group", near, wires.local_Bps, wires.local_alpha_s)
        between = LinkKind("between groups", far, wires.global_Bps, wires.global_alpha_s)
        return tuple(kind for kind in (inside, between) if kind.others)

    def wires(self, endpoints: int) -> DragonflyWires:
        return self._wires._replace(endpoints=endpoints)

    def takes_stride(self, stride: int) -> bool:
        """Whether it divides the endpoints: messages are routed wherever these are."""
        return self.tier.endpoints % stride == 0

    @property
    def extent(self) -> str:
        """Endpoints of a switch, switches of a group, groups."""
        return f"{self.tier.hosts} x {self.tier.switches_} x {self.tier.groups}"

    @property
    def classes(self) -> tuple[DistanceClass, ...]:
        """Pairs at one switch, in one group, and in two; α of the longest way that the routing
        takes."""
        tier = self.tier
        sizes = {"switch": tier.hosts, "group": tier.hosts * tier.switches_, "all": tier.endpoints}
        # local and global links between two switches: none at one switch, then in one group, and in two
        hops = [(0, 0), *self._wires.longest_path_links]
        classes: list[DistanceClass] = []
        for (name, size), (local, far) in zip(sizes.items(), hops, strict=True):
            # one switch to a group, or one group, makes no class of its own
            if not classes or size > classes[-1].group:
                alpha_s = tier.alpha + local * tier.local.alpha + far * tier.global_.alpha
                classes.append(self._class(name, size, alpha_s))
        return tuple(classes)

    @property
    def diameter_links(self) -> int:
        """Links of the longest minimal route, those of both endpoints included."""
        if self.tier.endpoints == 1:
            return 0
        in_group, between_groups = self._wires._replace(routing="minimal").longest_path_links
        return 2 + sum(between_groups if self.tier.groups > 1 else in_group)

    @property
    def bisection_Bps(self) -> float:
        return self.bisection_of(1)

    @property
    def bisection_note(self) -> str:
        return (
            "bisection: out of half of the groups, and of a middle one its half; another half may"
            " carry less"
        )

    def bisection_of(self, planes: int) -> float:
        """The rate of the links out of half of the switches, or of their endpoints' ports where these are
        slower. All planes share the links, and each has its own ports."""
        switches = self.tier.switches_ * self.tier.groups
        ports = self.tier.endpoints // 2 * self.rate_Bps * planes
        return min(ports, self._wires.bisection_Bps) if switches > 1 else ports

    def links(self, copies: int) -> int:
        """The cables of all copies: one for every port of an endpoint and copy, and once for all the links
        inside groups and between them."""
        tier = self.tier
        pairs = comb(tier.switches_, 2)
        if tier.spine_count:
            pairs = tier.switches_ * tier.spine_count
        local = tier.groups * pairs * tier.local.links
        return copies * tier.endpoints + local + comb(tier.groups, 2) * tier.global_.links

    def switches(self, planes: int) -> int:  # noqa: ARG002
        """Switches and spines of all groups; all planes share them."""
        return self.tier.groups * (self.tier.switches_ + self.tier.spine_count)
