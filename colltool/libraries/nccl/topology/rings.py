"""Rings on a node that may not be the one they were found on: whether its links carry them."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from colltool.libraries.nccl.topology.bills import bill_of
from colltool.libraries.nccl.topology.graphs import DomainGraphs
from colltool.libraries.nccl.topology.kinds import KINDS
from colltool.libraries.nccl.topology.paths import Path, Paths
from colltool.libraries.nccl.topology.system import bus_number

# what halved rates are rounded by, for each channel
_ROUNDED_MBps = 2


class NamedChannel(NamedTuple):
    """A channel of a ring: GPUs by bus number, and the names of its NICs, none inside a node."""

    gpus: tuple[int, ...]
    nets: tuple[str, ...]


class NamedRing(NamedTuple):
    """A ring on a node, its parts named so that they are found again on another.

    Args:
        inside_MBps, across_MBps: of each channel, between GPUs and to NICs.
        inside, across: the farthest types of path, between GPUs and to NICs, by name (PIX, NVL).
    """

    channels: tuple[NamedChannel, ...]
    inside_MBps: float
    across_MBps: float
    inside: str
    across: str

    @property
    def total_MBps(self) -> float:
        return len(self.channels) * self.inside_MBps


def ring_of(domain: DomainGraphs) -> NamedRing:
    """The ring that was found for the GPUs of a node."""
    ring = domain.graphs["ring"]
    system = domain.paths.system
    channels = []
    for channel in ring.best.channels:
        gpus = tuple(bus_number(system.gpus[place].name) for place in channel.gpus)
        nets = tuple(system.nets[place].name for place in channel.nets)
        channels.append(NamedChannel(gpus, nets))
    return NamedRing(
        tuple(channels),
        ring.inside_MBps,
        ring.across_MBps,
        KINDS[ring.inside],
        KINDS[ring.across],
    )


def carries(paths: Paths, ring: NamedRing) -> bool:
    """Whether a node has the GPUs and NICs of a ring, on paths no farther than its types, and links
    and ports that carry all of its channels."""
    link_MBps: dict[int, float] = defaultdict(float)  # by the link's number
    port_MBps: dict[str, float] = defaultdict(float)  # by the NIC's name
    system = paths.system
    for channel in ring.channels:
        channel_paths = _channel_paths(paths, channel)
        if channel_paths is None:
            return False
        for path, crosses in channel_paths:
            farthest = ring.across if crosses else ring.inside
            if farthest not in KINDS or path.kind > KINDS.index(farthest):
                return False
            MBps = ring.across_MBps if crosses else ring.inside_MBps
            for link, charged_MBps in bill_of(path, round(MBps)):
                link_MBps[link] += charged_MBps
        # A port is counted where a channel comes in: each comes in by one, and leaves by one.
        for name in channel.nets[:1]:
            port_MBps[name] += ring.across_MBps
    slack = _ROUNDED_MBps * len(ring.channels)
    for net in system.nets:
        if port_MBps[net.name] > net.MBps + slack:
            return False
    return all(MBps <= system.links[link].MBps + slack for link, MBps in link_MBps.items())


class _ChannelPath(NamedTuple):
    """A path that a channel takes; ``crosses``: to or from a NIC."""

    path: Path
    crosses: bool


def _channel_paths(paths: Paths, channel: NamedChannel) -> list[_ChannelPath] | None:
    """The paths of a channel, which closes to a ring inside a node and else begins and ends at a NIC;
    None where a part is missing."""
    system = paths.system
    gpu_at = {bus_number(gpu.name): gpu for gpu in system.gpus}
    net_of = {net.name: net for net in system.nets}
    if not set(channel.gpus) <= gpu_at.keys() or not set(channel.nets) <= net_of.keys():
        return None
    gpus = [gpu_at[busid] for busid in channel.gpus]
    ends = [net_of[name] for name in channel.nets]
    following = gpus[1:]
    if not ends:
        following = [*following, gpus[0]]
    channel_paths = []
    for gpu, other in zip(gpus, following, strict=False):
        if gpu is not other:
            channel_paths.append(_ChannelPath(paths.get(gpu, other), crosses=False))
    if ends:
        channel_paths.append(_ChannelPath(paths.get(ends[0], gpus[0]), crosses=True))
        channel_paths.append(_ChannelPath(paths.get(gpus[-1], ends[-1]), crosses=True))
    return channel_paths
