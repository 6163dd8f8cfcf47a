"""The graphs of a node, from its topology file: ring, tree, NVLS and CollNet (:func:`graphs_of`)."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

from colltool.base.errors import ColltoolError, argument_text
from colltool.base.files import AnyPath
from colltool.base.xml_tree import Element, read_xml
from colltool.libraries.nccl.topology.channels import ChannelBuilder
from colltool.libraries.nccl.topology.domains import Totals, domains_of, totals_of, trim
from colltool.libraries.nccl.topology.kinds import BALANCED_TREE, DIRECT, KINDS, NVLS, RING, TREE
from colltool.libraries.nccl.topology.paths import Paths, paths_of
from colltool.libraries.nccl.topology.requests import first_request, most_channels
from colltool.libraries.nccl.topology.search import EMERGENCY_MBps, Searched, search
from colltool.libraries.nccl.topology.system import System
from colltool.libraries.nccl.topology.system_reader import (
    FIX,
    FORMAT,
    MAX_UNSWITCHED_GPUS,
    system_of,
)
from colltool.libraries.nccl.topology.versions import RELEASE, Version, version_of

NVLS_LEAST_SM = 90


class WantedRing(NamedTuple):
    """A ring that is looked for: the search ends where it finds another.

    Args:
        inside_MBps: of each channel, between GPUs.
        inside, across: the farthest types of path, between GPUs and to NICs, by name.
    """

    channels: int
    inside_MBps: float
    inside: str
    across: str

    @property
    def total_MBps(self) -> float:
        return self.channels * self.inside_MBps

    def fits(self, ring: Searched) -> bool:
        """Whether a ring has as many channels at this rate, to 1 MB/s; types of path are not compared."""
        same_rate = abs(ring.inside_MBps - self.inside_MBps) <= 1
        return same_rate and ring.best.channel_count == self.channels

    def may_be(self, builder: ChannelBuilder) -> bool:
        """Whether a node may have this ring: it has such paths, or the ring is the one that NCCL takes where
        it finds none, whatever its types."""
        if self.inside_MBps <= EMERGENCY_MBps:
            return True
        between_gpus = {KINDS[kind] for kind in builder.reach.kinds_between}
        to_nics = {KINDS[kind] for kind in builder.reach.kinds_out}
        if len(builder.reach.gpus) > 1 and self.inside not in between_gpus:
            return False
        return not builder.across or self.across in to_nics


class DomainGraphs(NamedTuple):
    """The graphs of the GPUs that reach each other without the network: of a host, or of an NVLink
    domain.

    Args:
        ranks: of the domain, in the order of the file.
        across: they also use the network, to other domains.
        totals: what a GPU moves at most.
        graphs: by pattern: ring, tree, nvls, collnet_chain, collnet_direct; those that NCCL has.
        visits: steps that all searches took.
    """

    ranks: tuple[int, ...]
    paths: Paths
    across: bool
    totals: Totals
    graphs: dict[str, Searched]
    visits: int


class NodeGraphs(NamedTuple):
    """What NCCL computes from a file for so many hosts, or NVLink domains, like it.

    Args:
        system: as read, before GPUs were trimmed; ``paths``: of it.
        domains: those of rank 0 first.
    """

    system: System
    paths: Paths
    nodes: int
    domains: tuple[DomainGraphs, ...]

    @property
    def across(self) -> bool:
        """Whether channels leave the node; the same for all domains."""
        return self.domains[0].across

    @property
    def first(self) -> DomainGraphs:
        return self.domains[0]


def graphs_of(
    path: AnyPath, nodes: int = 1, version: str = "", *, collnet: bool = False
) -> NodeGraphs:
    """What a release of NCCL (default: 2.30.7) computes from a file of NCCL_TOPO_DUMP_FILE.

    Raises:
        ColltoolError: not such a file, beyond its limits, or nodes without NICs.
    """
    root = read_xml(path, FORMAT)
    return graphs_of_xml(
        root, os.fsdecode(path), nodes, version_of(version or RELEASE), collnet=collnet
    )


def graphs_of_xml(
    root: Element,
    name: str,
    nodes: int,
    version: Version,
    *,
    collnet: bool = False,
    wanted: WantedRing | None = None,
    ranks: Collection[int] | None = None,
) -> NodeGraphs:
    """Compute what :func:`graphs_of` does, of a file's elements.

    Args:
        name: the file's, for errors.
        wanted: nothing else is searched where the ring is another.
        ranks: of the communicator, all by default.
    """
    system = system_of(root, name, version, ranks)
    paths = paths_of(system)
    groups = domains_of(paths)
    across = nodes > 1 or len(groups) > 1
    if across and not system.nets:
        what = "has no NIC for collectives: NCCL cannot leave the node"
        raise ColltoolError(what, where=name, fix=f"leave {argument_text('nodes')} out")
    if system.nvswitch is None and len(system.gpus) > MAX_UNSWITCHED_GPUS:
        what = f"has {len(system.gpus)} GPUs and no NVSwitch: no node is so large"
        raise ColltoolError(what, where=name, fix=FIX)
    domains = []
    for group in groups:
        domain_paths = paths
        if len(groups) > 1:
            # a domain's search sees its own GPUs only, in a system of its own
            domain_system = system_of(root, name, version, ranks)
            trim(domain_system, {gpu.rank for gpu in group})
            domain_paths = paths_of(domain_system)
        domains.append(domain_graphs(domain_paths, across=across, collnet=collnet, wanted=wanted))
    domains.sort(key=lambda domain: 0 not in domain.ranks)
    return NodeGraphs(system, paths, nodes, tuple(domains))


def domain_graphs(
    paths: Paths,
    *,
    across: bool,
    collnet: bool,
    wanted: WantedRing | None,
) -> DomainGraphs:
    """The graphs of the GPUs of a system, in NCCL's order; none at all if the ring is not the ``wanted``
    one, which None stands for where any will do."""
    system = paths.system
    totals = totals_of(paths, across)
    builder = ChannelBuilder(paths, across=across)

    def find(pattern: int, least: int, most: int, *, by_collnet: bool = False) -> Searched:
        """The channels of a pattern, from ``least`` to ``most`` of them; ``by_collnet``: by NICs with a
        CollNet plugin only."""
        request, bounds = first_request(
            paths, totals, pattern, least, most, across=across, collnet=by_collnet
        )
        most_MBps = wanted.total_MBps if wanted is not None and pattern == RING else None
        return search(builder, totals, request, bounds, most_MBps)

    ranks = tuple(gpu.rank for gpu in system.gpus)
    if wanted is not None and not wanted.may_be(builder):
        return DomainGraphs(ranks, paths, across, totals, {}, 0)
    graphs = {"ring": find(RING, 1, most_channels(RING, len(system.gpus)))}
    if wanted is not None and not wanted.fits(graphs["ring"]):
        return DomainGraphs(ranks, paths, across, totals, {}, builder.visits)
    rings = graphs["ring"].best.channel_count
    graphs["tree"] = find(BALANCED_TREE, rings, rings)
    if collnet and across:
        graphs["collnet_chain"] = find(TREE, rings, rings, by_collnet=True)
        most = most_channels(DIRECT, len(system.gpus))
        graphs["collnet_direct"] = find(DIRECT, 1, most, by_collnet=True)
    if has_nvls(system):
        most = most_channels(NVLS, len(system.gpus))
        graphs["nvls"] = find(NVLS, 1 if across else most, most)
    with_channels = {}
    for name, result in graphs.items():
        if result.best.channels:
            with_channels[name] = result
    return DomainGraphs(ranks, paths, across, totals, with_channels, builder.visits)


def has_nvls(system: System) -> bool:
    """Whether the GPUs' NVSwitches reduce: from Hopper on, for two GPUs or more."""
    return (
        system.nvswitch is not None and system.least_sm >= NVLS_LEAST_SM and len(system.gpus) >= 2
    )
