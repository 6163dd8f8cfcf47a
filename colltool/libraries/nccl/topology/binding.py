"""What keeps NCCL from more channels: the parts of a node that a graph's channels fill most
(:func:`binding_of`), of the loads on all its parts (:func:`loads_of`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from colltool.base.formatting import and_text, format_rate
from colltool.libraries.nccl.topology import kinds
from colltool.libraries.nccl.topology.bills import bill_of
from colltool.libraries.nccl.topology.graphs import DomainGraphs
from colltool.libraries.nccl.topology.kinds import NVLS, RING, UNLIMITED_MBps
from colltool.libraries.nccl.topology.paths import Path
from colltool.libraries.nccl.topology.requests import Channel
from colltool.libraries.nccl.topology.search import Searched
from colltool.libraries.nccl.topology.system import (
    NicPort,
    NodeLink,
    RankedGpu,
    System,
    SystemNode,
)

# a part binds as well if it is as full as this share of the fullest
_AS_FULL = 0.995
# The kind of part that a link is, by its own kind; a slot's by the type of node in it.
_LINKS = {"NVL": "nvlink", "C2C": "c2c", "SYS": "cpus", "NET": "port"}
_SLOTS = {"DEV": "gpu-slot", "NIC": "nic-slot", "PCI": "switch"}

# What text says of one part of a kind, and of several.
_WORDS = {
    "nvlink": ("the NVLinks of GPU {}", "the NVLinks of GPUs {}"),
    "c2c": ("the NVLink-C2C of GPU {}", "the NVLink-C2C of GPUs {}"),
    "gpu-slot": ("the slot of GPU {}", "the slots of GPUs {}"),
    "nic-slot": ("the slot of NIC {}", "the slots of NICs {}"),
    "port": ("NIC {}", "NICs {}"),
    "switch": ("the uplink of switch {}", "the uplinks of switches {}"),
    "cpus": ("what joins CPUs {}", "what joins CPUs {}"),
}
_FEW_NAMES = 3  # a list of more is cut


class Binding(NamedTuple):
    """The fullest parts of a kind.

    Args:
        part: nvlink, c2c, cpus, port, gpu-slot, nic-slot, switch; or path, where the search found
            nothing: the slowest path between two GPUs.
        names: of them, such as GPUs by rank or NICs by name.
        used_MBps, of_MBps: of the fullest.
    """

    part: str
    names: tuple[str, ...]
    used_MBps: float
    of_MBps: int

    @property
    def used_Bps(self) -> float:
        return self.used_MBps * 1e6

    @property
    def of_Bps(self) -> float:
        return self.of_MBps * 1e6

    @property
    def text(self) -> str:
        """``the slots of NICs mlx5_0 and mlx5_1, 48 GB/s of 48 GB/s``."""
        if self.part == "path":
            ends = and_text([f"GPU {name}" for name in self.names])
            return f"the path between {ends}, whose {format_rate(self.of_Bps)} are below what NCCL tries"
        singular, plural = _WORDS[self.part]
        wording = plural if len(self.names) > 1 else singular
        return f"{wording.format(few_of(self.names))}, {format_rate(self.used_Bps)} of {format_rate(self.of_Bps)}"


def few_of(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    if len(names) <= _FEW_NAMES:
        return and_text(names)
    return f"{', '.join(names[:_FEW_NAMES])} and {len(names) - _FEW_NAMES} more"


class Load(NamedTuple):
    """What the channels of a graph take of a part of the node, one way."""

    part: str  # its kind, as of a Binding
    name: str
    used_MBps: float
    of_MBps: int

    @property
    def share(self) -> float:
        return self.used_MBps / self.of_MBps


def binding_of(domain: DomainGraphs, result: Searched) -> Binding | None:
    """What the channels of a graph fill; None if they take nothing, as those of a GPU alone do."""
    if result.is_emergency:
        return _slowest_path(domain)
    loads = loads_of(domain, result)
    if not loads:
        return None
    # of equally full ones the last by name, so that it does not depend on their order
    fullest = max(loads, key=lambda load: (load.share, load.name))
    names = []
    for load in loads:
        if load.part == fullest.part and load.share >= fullest.share * _AS_FULL:
            names.append(load.name)
    return Binding(fullest.part, tuple(dict.fromkeys(names)), fullest.used_MBps, fullest.of_MBps)


def loads_of(domain: DomainGraphs, result: Searched) -> list[Load]:
    """What the channels of a graph take of each part that they use, one load for each direction; parts
    without a limit are left out."""
    system = domain.paths.system
    link_MBps: dict[int, float] = defaultdict(float)  # by the link's number
    # by the port's place, and 0 for what comes in, 1 for what leaves
    port_MBps: dict[tuple[int, int], float] = defaultdict(float)
    for path, MBps in taken_paths(domain, result):
        for number, charged_MBps in bill_of(path, round(MBps)):
            link_MBps[number] += charged_MBps
    for channel in result.best.channels:
        for side, place in enumerate(channel.nets):
            port_MBps[_port_of(system, place), side] += result.across_MBps
    loads = []
    for number, MBps in link_MBps.items():
        link = system.links[number]
        if link.kind not in ("LOC", "NET") and link.MBps < UNLIMITED_MBps:
            loads.append(Load(*_part_and_name(link), MBps, link.MBps))
    for (place, _), MBps in port_MBps.items():
        port = system.nets[place]
        loads.append(Load("port", port.name, MBps, port.MBps))
    return loads


def carried_MBps(
    domain: DomainGraphs, result: Searched, reached_share: Callable[[str], float]
) -> float:
    """What the channels of a graph carry together until the first part is full, at equal rates.

    ``reached_share(part)``: what a kind of part really carries, over the rate that NCCL counts for it.
    """
    channel_MBps = result.inside_MBps
    if domain.across:
        channel_MBps = min(channel_MBps, result.across_MBps)
    shares = [load.share / reached_share(load.part) for load in loads_of(domain, result)]
    return channel_MBps * result.best.channel_count / max(shares)


def _port_of(system: System, net: int) -> int:
    """The place of the first NIC that shares a port with one; that itself if its guid is unknown."""
    sharing = system.nets[net]
    for place, other in enumerate(system.nets):
        if sharing.guid and (sharing.guid, sharing.port) == (other.guid, other.port):
            return place
    return net


def taken_paths(domain: DomainGraphs, result: Searched) -> Iterator[tuple[Path, float]]:
    """The paths that a graph's channels take, each with the MB/s that a channel sends on it."""
    system = domain.paths.system
    for channel in result.best.channels:
        gpus = [system.gpus[place] for place in channel.gpus]
        pattern = result.best.request.pattern
        if channel.nets:
            yield from _to_nics(domain, result, channel, gpus)
        if pattern == NVLS:
            yield from _to_switches(domain, result.inside_MBps, gpus[0])
        elif pattern == kinds.DIRECT:
            yield from _to_peers(domain, result.inside_MBps, gpus)
        else:
            # a chain; inside a node a ring closes
            following = gpus[1:]
            if pattern == RING and not channel.nets:
                following = [*following, gpus[0]]
            for gpu, other in zip(gpus, following, strict=False):
                yield domain.paths.get(gpu, other), result.inside_MBps


def _to_nics(
    domain: DomainGraphs, result: Searched, channel: Channel, gpus: list[RankedGpu]
) -> Iterator[tuple[Path, float]]:
    """The paths of a channel into and out of the node, each at its rate.

    It comes in at the first GPU. A ring leaves from the last, a balanced tree half from each of the
    first two, another pattern from the first.
    """
    paths = domain.paths
    start, end = (paths.system.nets[place] for place in channel.nets)
    yield paths.get(start, gpus[0]), result.across_MBps
    leaving = gpus[:1]
    match result.best.request.pattern:
        case kinds.RING:
            leaving = gpus[-1:]
        case kinds.BALANCED_TREE:
            leaving = gpus[:2]
    for gpu in leaving:
        yield paths.get(gpu, end), result.across_MBps / len(leaving)


def _to_switches(
    domain: DomainGraphs, MBps: float, head: RankedGpu
) -> Iterator[tuple[Path, float]]:
    """The paths of an NVLS channel, between the switches and every GPU; its head sends and gets twice."""
    system = domain.paths.system
    assert system.nvswitch is not None, "NVLS is not searched for without"
    for gpu in system.gpus:
        taken_MBps = 2 * MBps if gpu is head else MBps
        yield domain.paths.get(system.nvswitch, gpu), taken_MBps
        yield domain.paths.get(gpu, system.nvswitch), taken_MBps


def _to_peers(
    domain: DomainGraphs, MBps: float, gpus: list[RankedGpu]
) -> Iterator[tuple[Path, float]]:
    """The paths of a CollNet direct channel, between its head and each other GPU, which share its rate."""
    head = gpus[0]
    each_MBps = MBps / max(len(gpus) - 1, 1)
    for gpu in gpus[1:]:
        yield domain.paths.get(head, gpu), each_MBps
        yield domain.paths.get(gpu, head), each_MBps


def _part_and_name(link: NodeLink) -> tuple[str, str]:
    """The kind of part that a link is, and the name of the one it belongs to."""
    if link.kind == "PCI":
        # the slot of the end that is in it
        in_slot = link.owner if link.owner.parent is link.to else link.to
        return _SLOTS[in_slot.type], _display_name(in_slot)
    ends = [link.owner, link.to]
    if link.kind == "SYS":
        return "cpus", " and ".join(sorted(node.name for node in ends))
    device = next(node for node in ends if node.type == "DEV")
    return _LINKS[link.kind], _display_name(device)


def _display_name(node: SystemNode) -> str:
    """What people call a node: a GPU by the ranks on it (``0/1``), a NIC by its first port, a switch by
    its bus id."""
    ranks = []
    for link in node.links:
        if isinstance(link.to, RankedGpu):
            ranks.append(str(link.to.rank))
        elif isinstance(link.to, NicPort):
            return link.to.name
    return "/".join(ranks) or node.name


def _slowest_path(domain: DomainGraphs) -> Binding:
    """The slowest path between GPUs, which was below all rates that are tried; without names for a GPU
    alone."""
    candidates = []
    gpus = domain.paths.system.gpus
    for gpu in gpus:
        for other in gpus:
            if gpu is not other:
                path = domain.paths.get(gpu, other)
                candidates.append((path.MBps, gpu.rank, other.rank))
    if not candidates:
        return Binding("path", (), 0, 0)
    MBps, *ranks = min(candidates)
    return Binding("path", tuple(map(str, ranks)), 0, MBps)
