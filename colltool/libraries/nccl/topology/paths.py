"""Paths between the parts of a system: the nearest type first, then the highest rate, then the
fewest links; and what NCCL does to them where GPUs or NICs may not reach each other directly.

The entry is :func:`paths_of`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from colltool.libraries.nccl.topology.kinds import (
    C2C,
    DIS,
    LOC,
    NET,
    NVB,
    NVL,
    P2C,
    PHB,
    PIX,
    PXB,
    PXN,
    SYS,
    UNLIMITED_MBps,
)
from colltool.libraries.nccl.topology.system import (
    Cpu,
    GpuDevice,
    NicPort,
    NodeLink,
    RankedGpu,
    System,
    SystemNode,
)

# The type of a path over one link, by the link's kind; PCI's is farther through several switches or a CPU.
_TYPE_OF_LINK = {"LOC": LOC, "NET": LOC, "NVL": NVL, "C2C": C2C, "PCI": PIX, "SYS": SYS}
# Channels that NCCL looks through for the GPU that a NIC belongs to.
_MOST_CHANNELS = 64
# So few GPUs of an AMD host reach each other through the CPUs.
_FEW_DEVICES = 2
# Links of a path from GPU to GPU through a third one's NVLinks.
_RELAYED_LINKS = 4

Part = TypeVar("Part", bound=SystemNode)


class Path(NamedTuple):
    """How a node reaches another.

    Args:
        kind: its type, as a number of :mod:`~colltool.libraries.nccl.topology.kinds`.
        MBps: the least rate of its links.
        links: in order; none from a node to itself, and where there is no path.
    """

    kind: int
    MBps: int
    links: tuple[NodeLink, ...]

    @property
    def order(self) -> tuple[int, int, int]:
        """Less of a better path: nearer, else faster, else of fewer links."""
        return self.kind, -self.MBps, len(self.links)


NO_PATH = Path(DIS, 0, ())
_TO_ITSELF = Path(LOC, UNLIMITED_MBps, ())


class Paths:
    """Paths of a system from node to node; those that NCCL asks for: from anywhere to CPUs, GPUs, NICs'
    ports and NVSwitches."""

    def __init__(self, system: System) -> None:
        self.system = system
        # by the number of the end, then the number of the start
        self._towards: dict[int, list[Path]] = {}
        targets: list[SystemNode] = [*system.cpus, *system.devices, *system.gpus, *system.nets]
        if system.nvswitch is not None:
            targets.append(system.nvswitch)
        for target in targets:
            self._towards[target.number] = _paths_to(system, target)

    def get(self, start: SystemNode, end: SystemNode) -> Path:
        """The path from one node to another; ``NO_PATH`` where there is none."""
        return self._towards[end.number][start.number]

    def put(self, start: SystemNode, end: SystemNode, path: Path) -> None:
        """Replace the path from one node to another."""
        self._towards[end.number][start.number] = path

    def nearest(self, start: SystemNode, among: Sequence[Part]) -> list[Part]:
        """What NCCL calls local: the ends at the highest rate, of these the nearest by type, all of equal
        ones in their order; also ends without a path, if none has one."""
        best_key = (-1, 0)
        nearest: list[Part] = []
        for end in among:
            path = self.get(start, end)
            key = (path.MBps, -path.kind)
            if key > best_key:
                best_key = key
                nearest = []
            if key == best_key:
                nearest.append(end)
        return nearest

    def cpu_of(self, node: SystemNode) -> Cpu:
        """A GPU's own CPU, or a NIC's: the one over fewest links, in versions that take the nearest type
        first only of those that are local. The first CPU where none is reached."""
        cpus = self.system.cpus
        if self.system.version.nearest_kind_first:
            cpus = self.nearest(node, cpus)
        # a path without links is none: the CPU is on another host
        reached = [cpu for cpu in cpus if self.get(node, cpu).links]
        return min(reached, key=lambda cpu: len(self.get(node, cpu).links), default=cpus[0])

    def preferred_net(self, gpu: RankedGpu, channel: int) -> NicPort | None:
        """The NIC that a GPU takes on a channel; None without NICs.

        GPUs that are near the same NICs divide these among them, beginning apart, and each goes round its
        own from channel to channel.
        """
        nets = self.nearest(gpu, self.system.nets)
        if not nets:
            return None
        sharing_gpus = len(self.nearest(nets[0], self.system.gpus))
        nets_per_gpu = -(-len(nets) // sharing_gpus)  # rounded up
        first = gpu.dev % sharing_gpus
        is_power_of_two = len(nets) & (len(nets) - 1) == 0
        if is_power_of_two:
            # puts GPUs that follow each other far apart in the list
            first = mirrored(first, len(nets))
        return nets[(first + channel % nets_per_gpu) % len(nets)]

    def preferred_nets(self, gpu: RankedGpu) -> list[NicPort]:
        """A GPU's NICs by channel, until the first repeats."""
        preferred: list[NicPort] = []
        for channel in range(len(self.system.nets)):
            net = self.preferred_net(gpu, channel)
            if net is None or net in preferred:
                break
            preferred.append(net)
        return preferred

    def home_gpu(self, net: NicPort) -> RankedGpu | None:
        """The GPU that has a NIC as its own; None if each prefers another."""
        gpus = self.nearest(net, self.system.gpus)
        for channel in range(_MOST_CHANNELS):
            for gpu in gpus:
                if self.preferred_net(gpu, channel) is net:
                    return gpu
        return None


def mirrored(value: int, size: int) -> int:
    """The bits of a number below a power of two in reverse order.

    >>> [mirrored(value, 4) for value in range(4)]
    [0, 2, 1, 3]
    """
    reverse = 0
    bit = 1
    while bit < size:
        reverse = (reverse << 1) + bool(value & bit)
        bit <<= 1
    return reverse


def _paths_to(system: System, target: SystemNode) -> list[Path]:
    """The paths of all nodes to a target, by the nodes' numbers, found breadth first from there.

    A wave is the nodes whose paths got better in the one before: over their links, their neighbours'
    may get better.
    """
    paths = [NO_PATH] * len(system.nodes)
    paths[target.number] = _TO_ITSELF
    own_device: SystemNode = target
    most_links = 1
    if isinstance(target, RankedGpu):
        own_device = target.device
        most_links = 2
    by_kind = system.version.nearest_kind_first
    wave = [target]
    while wave:
        next_wave: dict[int, SystemNode] = {}
        for node in wave:
            for link in node.links:
                longer = _path_one_further(paths[node.number], link, own_device, most_links)
                far = link.to
                if longer is None or far is target:
                    continue
                if _is_better(longer, paths[far.number], by_kind):
                    paths[far.number] = longer
                    next_wave[far.number] = far
        wave = list(next_wave.values())
    return paths


def _path_one_further(
    path: Path, link: NodeLink, own_device: SystemNode, most_links: int
) -> Path | None:
    """The path of a link's far end to the target by way of its near end; None where nothing passes.

    A GPU relays for others only over NVLink, and only one on a path does so.

    Args:
        path: from the link's near end to the target.
        own_device: the GPU that the target is or is on, else the target itself.
        most_links: of a path that another GPU may relay; one more to a rank than to its GPU.
    """
    node = link.owner
    kind = _TYPE_OF_LINK[link.kind]
    far_type = link.to.type
    if node.type == "DEV":
        links = len(path.links)
        may_relay = kind == NVL and far_type == "DEV" and links <= most_links
        if node is not own_device and far_type != "GPU" and not may_relay:
            return None
        if kind == NVL and path.kind == NVL and links == most_links:
            kind = NVB
    if link.kind == "PCI":
        types = {node.type, far_type}
        if "CPU" in types:
            kind = PHB
        elif types == {"PCI"}:
            kind = PXB
    if link.back is None:
        return None
    kind = max(kind, path.kind)
    MBps = min(path.MBps, link.MBps)
    return Path(kind, MBps, (link.back, *path.links))


def _is_better(path: Path, known: Path, by_kind: bool) -> bool:
    """Whether a path is better than the known one. ``by_kind``: of a nearer type, else faster, else shorter;
    in other versions only one of fewer links and at a higher rate."""
    if by_kind:
        return path.order < known.order
    shorter = known is NO_PATH or len(path.links) < len(known.links)
    return shorter and path.MBps > known.MBps


def paths_of(system: System) -> Paths:
    """The paths of a system as the search uses them: the shortest, then changed in NCCL's order."""
    paths = Paths(system)
    _between_gpus(paths)
    _over_c2c(paths)
    _to_nics(paths)
    return paths


def _path_through(paths: Paths, start: SystemNode, middle: SystemNode, end: SystemNode) -> Path:
    """A path by way of a third node."""
    first = paths.get(start, middle)
    second = paths.get(middle, end)
    kind = max(first.kind, second.kind)
    if kind == PHB and C2C in (first.kind, second.kind):
        kind = P2C
    MBps = min(first.MBps, second.MBps)
    return Path(kind, MBps, first.links + second.links)


def _between_gpus(paths: Paths) -> None:
    """GPUs that may not copy to each other go through the CPU; where the network is faster, they
    are as good as on two nodes."""
    system = paths.system
    # the farthest type on which GPUs copy to each other
    farthest = PXB
    if system.is_amd and len(system.devices) <= _FEW_DEVICES:
        farthest = SYS
    if system.version.peers is not None:
        farthest = system.version.peers
    # NVSwitches over several hosts are one NVLink domain
    one_domain = len(system.hosts) == 1 or system.nvswitch is not None
    # to NICs on a GPU's own switches
    nic_MBps: dict[SystemNode, int] = {}
    for gpu in system.gpus:
        nic_MBps[gpu] = 0
        for net in system.nets:
            path = paths.get(gpu, net)
            if path.kind <= PXB:
                nic_MBps[gpu] = max(nic_MBps[gpu], path.MBps)
    for end in system.gpus:
        for start in system.gpus:
            if start is end:
                continue
            path = paths.get(start, end)
            if start.host != end.host and not one_domain:
                paths.put(start, end, path._replace(kind=NET))
                continue
            if path.kind > farthest:
                path = _path_through(paths, start, paths.cpu_of(end), end)
            slower = min(nic_MBps[start], nic_MBps[end]) > path.MBps
            if slower and not _is_relayed(path):
                path = path._replace(kind=NET)
            paths.put(start, end, path)


def _is_relayed(path: Path) -> bool:
    """Whether a path goes through the NVLinks of a third GPU."""
    if len(path.links) != _RELAYED_LINKS:
        return False
    return isinstance(path.links[1].to, GpuDevice)


def _over_c2c(paths: Paths) -> None:
    """Count a NIC on the CPU of a GPU with C2C as near (P2C), both ways."""
    system = paths.system
    if not system.version.nic_over_c2c or not system.nets:
        return
    for gpu in system.gpus:
        cpu = paths.cpu_of(gpu)
        kind_to_cpu = paths.get(gpu, cpu).kind
        for net in paths.nearest(gpu, system.nets):
            if {kind_to_cpu, paths.get(net, cpu).kind} != {PHB, C2C}:
                continue
            for start, end in ((gpu, net), (net, gpu)):
                path = paths.get(start, end)
                paths.put(start, end, path._replace(kind=min(path.kind, P2C)))


def _to_nics(paths: Paths) -> None:
    """Change paths to NICs: to a far one by way of the GPU whose own it is (PXN), and to a near one
    without GPUDirect RDMA through the CPU, both ways."""
    system = paths.system
    for net in system.nets:
        for gpu in system.gpus:
            relay = paths.home_gpu(net)
            # Of the path that decides about GPUDirect: of a relayed one its last part.
            kind = paths.get(gpu, net).kind
            if relay is not None and relay is not gpu and _relays_better(relay, paths, gpu, net):
                path = _path_through(paths, gpu, relay, net)
                paths.put(gpu, net, path._replace(kind=PXN))
                kind = paths.get(relay, net).kind
            has_gpudirect = _is_direct(gpu, net, kind, system.version.gdr)
            if paths.get(gpu, net).kind < PHB and not has_gpudirect:
                cpu = paths.cpu_of(gpu)
                paths.put(gpu, net, _path_through(paths, gpu, cpu, net))
                paths.put(net, gpu, _path_through(paths, net, cpu, gpu))


def _relays_better(relay: RankedGpu, paths: Paths, gpu: RankedGpu, net: NicPort) -> bool:
    """Whether a GPU reaches a NIC better through ``relay``, a GPU of the same host that has NVLinks to it and
    is near the NIC: at a higher rate, or where the direct path is farther than PXN."""
    version = paths.system.version
    if not version.pxn:
        return False
    farthest = PXB
    if version.nic_over_c2c:
        farthest = P2C
    near = paths.get(relay, net)
    if near.kind > farthest or not _reads_directly(paths, relay, net):
        return False
    if paths.get(gpu, relay).kind > NVL or gpu.host != relay.host:
        return False
    known = paths.get(gpu, net)
    return near.MBps > known.MBps or known.kind > PXN


def _is_direct(gpu: RankedGpu, net: NicPort, kind: int, farthest: int) -> bool:
    """Whether a NIC writes to the memory of a GPU (GPUDirect RDMA): on a path as far as ``farthest``."""
    return net.has_gdr and gpu.has_gdr and kind <= farthest


def _reads_directly(paths: Paths, gpu: RankedGpu, net: NicPort) -> bool:
    """Whether a NIC also reads the memory of a GPU; before Ampere only beside NVLink, or for a GPU
    alone."""
    system = paths.system
    if not _is_direct(gpu, net, paths.get(gpu, net).kind, system.version.gdr):
        return False
    gpus = system.gpus
    if gpu.device.sm >= 80 or len(gpus) == 1:
        return True
    return any(paths.get(gpu, other).kind == NVL for other in gpus)
