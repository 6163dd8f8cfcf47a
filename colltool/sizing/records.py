"""Results of sizing: the switches and cables of a fat-tree or a Clos."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FatTree:
    """A non-blocking k-ary fat-tree of equal k-port switches; ``links`` include those to the endpoints.

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

    ``switches``: on all rails; ``per_rail`` on one, where ``least`` would do by ports alone. ``down_ports``, ``up_ports``: of one
    switch. ``oversubscription``: downlink over uplink bandwidth, 1 at the top. ``cables``: entering from below, on all rails;
    ``parallel``: of them between one switch and each switch below that it reaches.
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
    """A Clos of equal switches; no cable joins two rails.

    ``ports``: of all endpoints; ``spare_ports``: unused down-ports of the leaves; both on all rails. ``levels``: bottom up,
    without those that are not needed. ``cables``: between switches, without those to endpoints. ``oversubscription``: of the
    whole network, the product of the levels'. ``pods``: groups of leaves with their own spines, on a rail; ``planes``: groups of
    top switches. ``paths``: top switches between two pods (or two leaves), each a separate path. ``tree_levels``: height of a
    reduction tree over all endpoints; ``least_levels``: ceil(log_r of a rail's ports), that height if switches had no uplinks.
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
        """Switch levels up to where this many packed ports of a rail meet."""
        joined = (self.down_ports, self.down_ports * -(-self.leaves // self.pods))
        return 1 + sum(ports > most for most in joined[: len(self.levels) - 1])

    @property
    def leaves(self) -> int:
        """On one rail."""
        return self.levels[0].per_rail

    @property
    def spines(self) -> int:
        return self.levels[1].per_rail if len(self.levels) > 1 else 0

    @property
    def down_ports(self) -> int:
        return self.levels[0].down_ports

    @property
    def up_ports(self) -> int:
        return self.levels[0].up_ports

    @property
    def cables_per_pair(self) -> int:
        """Between a leaf and each of its spines."""
        return self.levels[1].parallel if len(self.levels) > 1 else 0
