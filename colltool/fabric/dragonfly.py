"""What dragonflies can do.

Source: J. Kim, W. Dally, S. Scott, D. Abts, "Technology-driven, highly-scalable dragonfly
    topology", ISCA 2008, 77-88; of
dragonfly+ A. Shpiner et al., "Dragonfly+: low cost topology for scaling datacenters", HiPINEB 2017,
1-8.
"""

from __future__ import annotations

from functools import cached_property

from colltool.fabric.capabilities import DistanceClass, LinkKind, TierCapabilities
from colltool.fabric.routed_tiers import DragonflyPlusTier, DragonflyTier
from colltool.network.wires import DragonflyWires


class DragonflyTopology(TierCapabilities[DragonflyTier | DragonflyPlusTier]):
    joins = "hosts"
    has_ports = True
    most = 0

    @cached_property
    def _wires(self) -> DragonflyWires:
        tier = self.tier
        return DragonflyWires(
            endpoints=tier.endpoints,
            hosts=tier.hosts,
            switches=tier.switches_,
            groups=tier.groups,
            spines=self.tier.spine_count,
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
        inside = LinkKind(
            "in a group", wires.spines or wires.switches - 1, wires.local_Bps, wires.local_alpha_s
        )
        between = LinkKind(
            "between groups", wires.groups - 1, wires.global_Bps, wires.global_alpha_s
        )
        return tuple(one for one in (inside, between) if one.others)

    def wires(self, endpoints: int) -> DragonflyWires:
        return self._wires._replace(endpoints=endpoints)

    def takes_stride(self, stride: int) -> bool:
        return self.tier.endpoints % stride == 0

    @property
    def extent(self) -> str:
        """Endpoints of a switch, switches of a group, groups."""
        return f"{self.tier.hosts} x {self.tier.switches_} x {self.tier.groups}"

    @property
    def classes(self) -> tuple[DistanceClass, ...]:
        """Pairs at one switch, in one group, and in two; α of the longest way that the routing
        takes."""
        tier, wires = self.tier, self._wires
        sizes = {"switch": tier.hosts, "group": tier.hosts * tier.switches_, "all": tier.endpoints}
        apart = [(0, 0), *wires.longest]
        whole = zip(sizes, sizes.values(), apart, strict=True)
        found = [
            self._class(
                name, size, tier.alpha + local * tier.local.alpha + far * tier.global_.alpha
            )
            for name, size, (local, far) in whole
        ]
        return tuple(one for k, one in enumerate(found) if k == 0 or one.group > found[k - 1].group)

    @property
    def diameter_links(self) -> int:
        """Of minimal routes, the links of both endpoints included."""
        minimal = self._wires._replace(routing="minimal")
        return (
            2 + (sum(minimal.longest[1 if self.tier.groups > 1 else 0]))
            if self.tier.endpoints > 1
            else 0
        )

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
        """Out of half of the switches, or their endpoints' ports: the links are the same for all
        planes."""
        switches = self.tier.switches_ * self.tier.groups
        ports = self.tier.endpoints // 2 * self.rate_Bps * planes
        return min(ports, self._wires.halved_Bps) if switches > 1 else ports

    def links(self, copies: int) -> int:
        """A cable for every port of an endpoint, those inside groups and those between them."""
        tier, spines = self.tier, self.tier.spine_count
        pairs = tier.switches_ * spines if spines else tier.switches_ * (tier.switches_ - 1) // 2
        between = tier.groups * (tier.groups - 1) // 2
        return (
            copies * tier.endpoints
            + tier.groups * pairs * tier.local.links
            + between * tier.global_.links
        )

    def switches(self, planes: int) -> int:  # noqa: ARG002
        """The same for all planes."""
        return self.tier.groups * (self.tier.switches_ + self.tier.spine_count)
