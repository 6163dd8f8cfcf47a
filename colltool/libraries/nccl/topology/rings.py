"""Rings on a node that may not be the one they were found on: whether its links carry them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from colltool.libraries.nccl.topology.bills import bill_of
from colltool.libraries.nccl.topology.graphs import DomainGraphs
from colltool.libraries.nccl.topology.kinds import KINDS
from colltool.libraries.nccl.topology.paths import Path, Paths
from colltool.libraries.nccl.topology.system import RankedGpu, bus_number

# what halved rates are rounded by, for each channel
_ROUNDED_MBps = 2


class NamedChannel(NamedTuple):
    """A channel of a ring: GPUs by bus number, and the names of its NICs, none inside a node."""

    gpus: tuple[int, ...]
    nets: tuple[str, ...]


class NamedRing(NamedTuple):
    """Channels at MB/s each; ``inside``, ``across``: the farthest types of path, by name."""

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
    found = domain.graphs["ring"]
    system = domain.paths.system
    channels = []
    for channel in found.found.channels:
        gpus = tuple(bus_number(system.gpus[place].name) for place in channel.gpus)
        nets = tuple(system.nets[place].name for place in channel.nets)
        channels.append(NamedChannel(gpus, nets))
    return NamedRing(
        tuple(channels),
        found.inside_MBps,
        found.across_MBps,
        KINDS[found.inside],
        KINDS[found.across],
    )


def carries(paths: Paths, ring: NamedRing) -> bool:
    """Whether a node has the GPUs and NICs of a ring, on paths of its types, and links with so much
    left."""
    taken: dict[int, float] = defaultdict(float)
    ports: dict[str, float] = defaultdict(float)
    system = paths.system
    for channel in ring.channels:
        steps = _steps(paths, channel)
        if steps is None:
            return False
        for path, crosses in steps:
            farthest = ring.across if crosses else ring.inside
            if farthest not in KINDS or path.kind > KINDS.index(farthest):
                return False
            MBps = ring.across_MBps if crosses else ring.inside_MBps
            for link, charged in bill_of(path, round(MBps)):
                taken[link] += charged
        for name in channel.nets[:1]:
            ports[name] += ring.across_MBps
    slack = _ROUNDED_MBps * len(ring.channels)
    for net in system.nets:
        if ports[net.name] > net.MBps + slack:
            return False
    return all(MBps <= system.links[link].MBps + slack for link, MBps in taken.items())


def _steps(paths: Paths, channel: NamedChannel) -> Iterator[tuple[Path, bool]] | None:
    """The paths of a channel, and whether each is to or from a NIC; None where a part is missing."""
    system = paths.system
    own = {bus_number(gpu.name): gpu for gpu in system.gpus}
    nets = {net.name: net for net in system.nets}
    if not set(channel.gpus) <= own.keys() or not set(channel.nets) <= nets.keys():
        return None
    gpus = [own[busid] for busid in channel.gpus]
    ends = [nets[name] for name in channel.nets]
    found: list[tuple[Path, bool]] = list(_between(paths, gpus, closed=not ends))
    if ends:
        found.append((paths.get(ends[0], gpus[0]), True))
        found.append((paths.get(gpus[-1], ends[-1]), True))
    return iter(found)


def _between(
    paths: Paths, gpus: Sequence[RankedGpu], *, closed: bool
) -> Iterator[tuple[Path, bool]]:
    following = [*gpus[1:], gpus[0]] if closed else gpus[1:]
    for gpu, other in zip(gpus, following, strict=False):
        if gpu is not other:
            yield paths.get(gpu, other), False
