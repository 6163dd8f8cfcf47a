"""What sizing returns: the switches and cables of a fat-tree or a Clos, as frozen records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FatTree:
    """A non-blocking k-ary fat-tree of equal k-port switches; ``links`` are cables, those to the endpoints included.

    ``paths``: equal ones between endpoints of two pods, over ``planes`` groups of core switches.
    """

    k: int
    pods: int
    endpoints: int
    edge: int
    aggregation: int
    core: int
    switches: int
    links: int
    paths: int
    planes: int


@dataclass(frozen=True)
class ClosLevel:
    """One level of switches.

    Attributes:
        name: of the level.
        switches: on all rails; ``per_rail`` on one, where its ports alone ask for ``least``.
        down_ports, up_ports: of one switch.
        oversubscription: bandwidth of its downlinks over that of its uplinks; 1 at the top.
        cables: that enter the level from below, on all rails.
        parallel: of them, between one switch and each that it reaches below.
    """

    name: str
    switches: int
    per_rail: int
    least: int
    down_ports: int
    up_ports: int
    oversubscription: float
    cables: int
    parallel: int


@dataclass(frozen=True)
class ClosPlan:
    """A Clos of equal switches: every rail its own, no cable between rails.

    Attributes:
        rails, radix: separate fabrics, and ports of a switch.
        ports: of all endpoints.
        spare_ports: that leaves have beyond them, on all rails.
        levels: bottom up; those that are not needed left out.
        switches: in all; ``cables`` between switches, without those to endpoints.
        oversubscription: of the whole against the endpoints: the product of the levels'.
        pods: groups of leaves with spines of their own, on a rail; ``planes`` groups of top switches.
        paths: top switches between two pods, or two leaves: as many ways over different switches.
        tree_levels: of switches on one way up: the height of a reduction tree over all endpoints.
        least_levels: ceil(log_r of a rail's ports), what that height would be if switches had no uplinks.
    """

    rails: int
    radix: int
    ports: int
    spare_ports: int
    levels: tuple[ClosLevel, ...]
    switches: int
    cables: int
    oversubscription: float
    pods: int
    planes: int
    paths: int
    tree_levels: int
    least_levels: int
    notes: tuple[str, ...] = ()

    def levels_over(self, ports: int) -> int:
        """Levels of switches up to where so many ports of a rail meet, leaf by leaf and pod by pod."""
        in_pod = -(-self.leaves // self.pods)
        joined = (self.down_ports, self.down_ports * in_pod)
        return 1 + sum(ports > most for most in joined[: len(self.levels) - 1])

    @property
    def leaves(self) -> int:
        """Of one rail."""
        return self.levels[0].per_rail

    @property
    def spines(self) -> int:
        """Of one rail."""
        return self.levels[1].per_rail if len(self.levels) > 1 else 0

    @property
    def down_ports(self) -> int:
        """Of a leaf."""
        return self.levels[0].down_ports

    @property
    def up_ports(self) -> int:
        """Of a leaf."""
        return self.levels[0].up_ports

    @property
    def cables_per_pair(self) -> int:
        """Between a leaf and each of its spines."""
        return self.levels[1].parallel if len(self.levels) > 1 else 0
