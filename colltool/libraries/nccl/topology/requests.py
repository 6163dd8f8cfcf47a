"""What is searched for: a request for a pattern, and the channels found for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.libraries.nccl.topology.domains import Totals
from colltool.libraries.nccl.topology.kinds import (
    BALANCED_TREE,
    DIRECT,
    NVL,
    NVLS,
    PIX,
    RING,
    SPLIT_TREE,
    SYS,
    TREE,
)
from colltool.libraries.nccl.topology.paths import Paths

# value of NCCL_CROSS_NIC, and of a request, where the search decides
CROSS_NIC = 2
MAX_CHANNELS = 32
MAX_DIRECT_HEADS = 8
_CROSSING = (RING, BALANCED_TREE, SPLIT_TREE)


class GraphRequest(NamedTuple):
    """What a trial builds channels for.

    Args:
        pattern: of :mod:`~colltool.libraries.nccl.topology.kinds`.
        cross_nic: not 0 if channels may leave by another NIC than they came by.
        same: all channels visit the GPUs in one order.
        inside, across: the farthest types of path that are allowed, between GPUs and to NICs.
        inside_MBps, across_MBps: the rate of a channel, between GPUs and to NICs.
        least, most: how many channels.
        collnet: only NICs with CollNet.
    """

    pattern: int
    cross_nic: int
    same: bool
    inside: int
    across: int
    inside_MBps: int
    across_MBps: int
    least: int
    most: int
    collnet: bool = False


class Channel(NamedTuple):
    """A channel: GPUs in order and the NICs that it comes and leaves by, as places in the system's
    lists; without a network no NICs."""

    gpus: tuple[int, ...]
    nets: tuple[int, ...] = ()


class FoundChannels(NamedTuple):
    """The best channels so far, and the request that found them.

    Args:
        hops: links of all paths that they take.
        latency_us: of the NIC that the last one comes by.
        trial: number of the trial; 0 of none.
    """

    request: GraphRequest
    channels: tuple[Channel, ...] = ()
    hops: int = 0
    latency_us: float = 0.0
    trial: int = 0

    @property
    def channel_count(self) -> int:
        return len(self.channels)


class Bounds(NamedTuple):
    """How far a search may go.

    Args:
        inside, inside_farthest: the nearest and the farthest type of path between GPUs.
        across, across_farthest: the same to NICs.
        speeds: the rates that are tried, falling, in MB/s.
    """

    inside: int
    inside_farthest: int
    across: int
    across_farthest: int
    speeds: Sequence[int]


def first_request(
    paths: Paths,
    totals: Totals,
    pattern: int,
    least: int,
    most: int,
    *,
    across: bool,
    collnet: bool = False,
) -> tuple[GraphRequest, Bounds]:
    """The request that a search starts with, the strictest, and how far it may be loosened.

    Args:
        totals: what a GPU moves at most, which bounds the first rate.
        least, most: how many channels.
        across: with a network.
    """
    system = paths.system
    gpus = system.gpus
    if len(gpus) == 1 and pattern != RING:
        pattern = TREE
    # Trees over two groups of GPUs need two channels, and there are as many trees as rings.
    if pattern == RING and least == 1 and most > 1 and _has_two_groups(paths):
        least = 2
    bounds = _bounds(paths, across)
    devices = len(system.devices)
    # NCCL allows patterns other than rings this much more than a GPU's links carry.
    total_MBps: float = totals.total_MBps
    if pattern != RING and devices > 1:
        total_MBps = total_MBps * devices / (devices - 1)
    # the highest rate at which the fewest channels fit, else the lowest
    fitting = (
        MBps for MBps in bounds.speeds if MBps <= totals.most_MBps and MBps * least <= total_MBps
    )
    first_MBps = next(fitting, bounds.speeds[-1])
    request = GraphRequest(
        pattern=pattern,
        cross_nic=first_cross_nic(paths, pattern),
        same=pattern != NVLS,
        inside=bounds.inside,
        across=bounds.across,
        inside_MBps=first_MBps,
        across_MBps=first_MBps,
        least=least,
        most=most,
        collnet=collnet,
    )
    return request, bounds


def may_cross_nics(paths: Paths, pattern: int) -> bool:
    """Whether channels that leave by other NICs are tried."""
    return paths.system.version.cross_nic == CROSS_NIC and _can_cross(paths, pattern)


def first_cross_nic(paths: Paths, pattern: int) -> int:
    """What the search starts with: 1 where NCCL_CROSS_NIC=1 has channels leave by other NICs."""
    return int(paths.system.version.cross_nic == 1 and _can_cross(paths, pattern))


def _can_cross(paths: Paths, pattern: int) -> bool:
    """Whether there is another NIC to leave by, and the pattern may leave by another than it came by."""
    return len(paths.system.nets) > 1 and pattern in _CROSSING


def most_channels(pattern: int, gpus: int) -> int:
    """The most channels of a pattern that are searched for on a domain of ``gpus``."""
    if pattern == DIRECT:
        return min(MAX_DIRECT_HEADS, gpus)
    if pattern == NVLS:
        return min(MAX_CHANNELS, gpus)
    return MAX_CHANNELS


def _bounds(paths: Paths, across: bool) -> Bounds:
    """The types of path that a node has, and the rates that its GPUs try; ``across``: with a network."""
    system = paths.system
    between = []
    for gpu in system.gpus:
        for other in system.gpus:
            if gpu is not other or len(system.gpus) == 1:
                between.append(paths.get(gpu, other).kind)
    # without a network NCCL takes these for its bounds, though no channel goes to a NIC
    to_nics = [PIX, SYS]
    if across:
        to_nics = []
        for gpu in system.gpus:
            to_nics += [paths.get(gpu, net).kind for net in system.nets]
    farthest = max(to_nics)
    if across and system.least_sm < 90 and system.version.farthest_before_hopper:
        farthest = SYS
    return Bounds(
        inside=min(between),
        inside_farthest=max(between),
        across=min(to_nics),
        across_farthest=farthest,
        speeds=system.version.speeds(system.least_sm, across=across),
    )


def _has_two_groups(paths: Paths) -> bool:
    """Whether NVLinks join the GPUs in exactly two groups, of two or more each."""
    gpus = paths.system.gpus
    groups: list[int] = []
    for index, gpu in enumerate(gpus):
        group = index
        for earlier in range(index):
            if paths.get(gpu, gpus[earlier]).kind == NVL:
                group = groups[earlier]
        groups.append(group)
    sizes = [groups.count(group) for group in set(groups)]
    return len(sizes) == 2 and min(sizes) >= 2
