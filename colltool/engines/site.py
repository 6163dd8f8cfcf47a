"""The part of a group on a fabric that kernels depend on: its GPU, nodes, hosts and NICs."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.engines.files import KernelFile
from colltool.estimate.groups import PlacedGroup, place
from colltool.estimate.placement import AnyGroup
from colltool.fabric.media import PER_HOST
from colltool.fabric.model import Fabric
from colltool.fabric.topology import capabilities_of
from colltool.fabric.uneven import check_even


class KernelSite(NamedTuple):
    """The part of a group's placement that kernels depend on.

    Args:
        placed: the group on the tiers that it spans.
        gpu: the fabric's device.
        nodes: memory domains that the group spans.
        hosts: hosts that it spans; several trays of a rack are one domain.
        nic_Bps: bandwidth of a rank on the outermost tier, in bytes/s.
        wire: the name of that tier.
    """

    fabric: Fabric
    placed: PlacedGroup
    gpu: str
    nodes: int
    hosts: int
    nic_Bps: float
    wire: str

    @property
    def ranks(self) -> int:
        return self.placed.ranks


def kernel_site(fabric: Fabric, group: AnyGroup) -> KernelSite:
    """Return the site of a group on a fabric.

    Raises:
        ColltoolError: the fabric has no ``device``.
    """
    check_even(fabric)
    if fabric.device is None:
        raise ColltoolError(
            f"{fabric.name} does not say which GPU it joins, and kernels were measured on GPUs",
            argument="fabric",
            fix="write device: h100 into it",
        )
    placed = place(fabric, group)
    inner = placed.spans[0]
    outer = placed.spans[-1].tier
    # A node is the innermost tier, where that joins accelerators; a fabric of NICs has nodes of one.
    node_ranks = 1
    if capabilities_of(inner.tier).joins == "accelerators":
        if len(fabric.tiers) == 1:
            node_ranks = placed.ranks
        elif inner.tier is not fabric.tiers[-1]:
            node_ranks = inner.endpoints
    nodes = placed.ranks // node_ranks
    hosts = nodes
    if fabric.device in PER_HOST:
        host_ranks = max(1, PER_HOST[fabric.device] // placed.placement.stride)
        hosts = max(nodes, ceil(placed.ranks / host_ranks))
    return KernelSite(
        fabric=fabric,
        placed=placed,
        gpu=fabric.device,
        nodes=nodes,
        hosts=hosts,
        nic_Bps=capabilities_of(outer).rate_Bps,
        wire=outer.name,
    )


def reaches(kernel: KernelFile, site: KernelSite) -> bool:
    """Whether a kernel runs on all ranks of a group: on one host, in one domain, or across nodes."""
    if kernel.across or site.nodes > 1:
        return kernel.across and site.nodes > 1
    return site.hosts == 1 or kernel.within == "domain"
