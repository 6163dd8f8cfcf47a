"""The k-ary fat-tree: its counts by formula (:func:`fat_tree`, :func:`fat_tree_for`), and the same network
as a sized Clos (:func:`fat_tree_plan`)."""

from __future__ import annotations

from dataclasses import dataclass

from colltool.base.errors import ColltoolError, argument_text
from colltool.network.sizing.size_clos import MOST_PORTS, ClosPlan, check_at_least_one, clos_plan


@dataclass(frozen=True)
class FatTree:
    """A non-blocking k-ary fat-tree of equal k-port switches."""

    k: int
    pods: int
    endpoints: int
    edge: int  # switches
    aggregation: int  # switches
    core: int  # switches
    switches: int
    links: int  # including those to the endpoints
    paths: int  # of equal length between endpoints of two pods
    planes: int  # groups of core switches


def fat_tree(k: int) -> FatTree:
    """The k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)² core, k³/4
    endpoints, 5k²/4 switches.

    Three layers of k³/4 cables each; (k/2)² equal paths between pods, in k/2 planes. Source:
    Al-Fares, Loukissas, Vahdat, "A scalable, commodity data center network architecture", SIGCOMM
    2008, 63-74, §3, doi:10.1145/1402958.1402967.

    Raises:
        ColltoolError: k is odd, below 2 or above :data:`MOST_PORTS`.
    """
    if k < 2 or k % 2 or k > MOST_PORTS:
        raise ColltoolError(
            f"a fat-tree needs an even number of ports per switch from 2 to {MOST_PORTS}, got {k}",
            argument="fat_tree",
            fix=f"write {argument_text('fat_tree', 64)}",
        )
    pod_switches = k * k // 2  # of one level, in all pods
    core = (k // 2) ** 2
    endpoints = k**3 // 4
    return FatTree(
        k=k,
        pods=k,
        endpoints=endpoints,
        edge=pod_switches,
        aggregation=pod_switches,
        core=core,
        switches=2 * pod_switches + core,
        links=3 * endpoints,
        paths=core,
        planes=k // 2,
    )


def fat_tree_plan(k: int) -> ClosPlan:
    """The k-ary fat-tree as a three-level Clos."""
    return clos_plan(fat_tree(k).endpoints, 1, k, levels=3, names=("edge", "aggregation", "core"))


def fat_tree_for(endpoints: int) -> FatTree:
    """The smallest k-ary fat-tree that holds the endpoints."""
    check_at_least_one(endpoints=endpoints)
    k = 2
    while k**3 < 4 * endpoints:
        k += 2
    return fat_tree(k)
