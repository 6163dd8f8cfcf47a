"""What the GPUs and NICs of a node reach, as the search for channels asks for it: paths, orders of
trying and bills, which all trials share.

GPUs and NICs are places in the system's lists; rates are MB/s.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from colltool.libraries.nccl.topology.bills import Bill, bill_of, merge_charges
from colltool.libraries.nccl.topology.kinds import DIRECT, DIS
from colltool.libraries.nccl.topology.paths import Path, Paths
from colltool.libraries.nccl.topology.system import NicPort, NodeLink, RankedGpu

# stands for no GPU or no NIC where a place is asked for; places count from 0
NOWHERE = -1
# NICs that NCCL tries for a GPU, at most
_MOST_LISTED = 64

PathTable = list[list[Path]]
"""Paths by place of their start and end."""
BillTable = list[list[Bill | None]]
"""What each path of a table takes; None of those that are too far."""


class NodeReach:
    """Paths of a system; every list is by the place of a GPU or NIC.

    Attributes:
        gpus, nets: the system's, GPUs and NICs' ports.
        nvswitch: None without one.
        count: number of GPUs.
        between: paths from GPU to GPU.
        out: from GPU to NIC.
        back: from NIC to GPU.
        hops: links of each path from GPU to GPU.
        whole_GBps: rate of each path from GPU to GPU, cut to whole GB/s.
        kinds_between, kinds_out: the types of path that there are, between GPUs and to NICs.
        slots: of each GPU the numbers of its slot's links, out and in; None without one.
        home_gpus: of each NIC the GPU that takes it first, or NOWHERE.
        nearest_gpus: of each NIC.
        same_port: of each NIC those that share its port, itself among them.
        preferred_nets: of each GPU.
        orders: of each GPU all others that it reaches, in the order in which they are tried.
    """

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        system = paths.system
        self.gpus = system.gpus
        self.nets = system.nets
        self.count = len(self.gpus)
        self.nvswitch = system.nvswitch
        self.between = _path_table(paths, self.gpus, self.gpus)
        self.out = _path_table(paths, self.gpus, self.nets)
        self.back = _path_table(paths, self.nets, self.gpus)
        self.hops = [[len(path.links) for path in row] for row in self.between]
        self.whole_GBps = [[path.MBps // 1000 for path in row] for row in self.between]
        self.kinds_between = {path.kind for path in chain.from_iterable(self.between)}
        self.kinds_out = {path.kind for path in chain.from_iterable((*self.out, *self.back))}
        if self.nvswitch is not None:
            for gpu in self.gpus:
                self.kinds_between.add(paths.get(gpu, self.nvswitch).kind)
                self.kinds_between.add(paths.get(self.nvswitch, gpu).kind)
        self.slots = [_slot(gpu) for gpu in self.gpus]
        self.home_gpus: list[int] = []
        self.nearest_gpus: list[list[int]] = []
        self.same_port: list[list[int]] = []
        for net in self.nets:
            home = paths.home_gpu(net)
            home_place = self.gpus.index(home) if home else NOWHERE
            self.home_gpus.append(home_place)
            nearest = paths.nearest(net, self.gpus)
            self.nearest_gpus.append([self.gpus.index(gpu) for gpu in nearest])
            self.same_port.append(_same_port(self.nets, net))
        self.preferred_nets: list[list[int]] = []
        for gpu in self.gpus:
            preferred = paths.preferred_nets(gpu)
            self.preferred_nets.append([self.nets.index(net) for net in preferred])
        self.orders = [self._order(gpu) for gpu in range(self.count)]
        self._bills: dict[tuple[object, ...], BillTable] = {}
        self._head_bills: dict[tuple[int, ...], Bill | None] = {}
        self._listed_nets: dict[tuple[int, int], list[int]] = {}

    def _order(self, gpu: int) -> list[int]:
        """All others that a GPU reaches: the highest rate first, then the fewest links, then the next in
        number."""
        others = []
        for other in range(self.count):
            if other != gpu and self.between[gpu][other].kind < DIS:
                GBps = self.whole_GBps[gpu][other]
                hops = self.hops[gpu][other]
                distance = (other - gpu) % self.count
                key = (-GBps, hops, distance)
                others.append((key, other))
        return [other for _, other in sorted(others)]

    def any_gpu_from(self, net: int) -> bool:
        """Whether a NIC reaches any GPU."""
        return any(path.MBps for path in self.back[net])

    def listed_nets(self, gpu: int, farthest: int) -> list[int]:
        """The NICs to try for a GPU, or with NOWHERE for all GPUs: the preferred ones, then those on paths
        up to type ``farthest``, nearest first."""
        key = (gpu, farthest)
        if key not in self._listed_nets:
            gpus = list(range(self.count)) if gpu == NOWHERE else [gpu]
            self._listed_nets[key] = self._nets_for(gpus, farthest)
        return self._listed_nets[key]

    def _nets_for(self, gpus: list[int], farthest: int) -> list[int]:
        """Compute :meth:`listed_nets` of these GPUs, each of which prefers at least one NIC."""
        several_hosts = len({gpu.host for gpu in self.gpus}) > 1
        nets: list[int] = []
        if several_hosts:
            # the first of each GPU, then the second of each
            for channel in range(max(len(self.preferred_nets[gpu]) for gpu in gpus)):
                for gpu in gpus:
                    preferred = self.preferred_nets[gpu]
                    nets.append(preferred[channel % len(preferred)])
        else:
            for gpu in gpus:
                nets += self.preferred_nets[gpu]
        for kind in range(farthest + 1):
            for gpu in gpus:
                for net, path in enumerate(self.out[gpu]):
                    if path.kind == kind:
                        nets.append(net)
        return list(dict.fromkeys(nets))[:_MOST_LISTED]

    def bills(
        self, there: PathTable, back: PathTable, MBps: int, farthest: int, *, both_ways: bool
    ) -> BillTable:
        """What each path of a table takes at a rate; the table is kept for the next trial.

        Args:
            there, back: tables of this object, one the way back of the other.
            both_ways: the way back may not be farther than ``farthest`` either.
        """
        # The tables live as long as this object: their id() is theirs alone.
        key = (id(there), MBps, farthest, both_ways)
        table = self._bills.get(key)
        if table is None:
            table = []
            for start, paths in enumerate(there):
                row: list[Bill | None] = []
                for end, path in enumerate(paths):
                    is_near = path.kind <= farthest and path.kind < DIS
                    if both_ways and back[end][start].kind > farthest:
                        is_near = False
                    row.append(bill_of(path, MBps) if is_near else None)
                table.append(row)
            self._bills[key] = table
        return table

    def head_paths(self, head: int, pattern: int) -> list[Path]:
        """The paths that a head's channel takes: of CollNet direct between the head and every GPU, of NVLS
        between the NVSwitches and every GPU, the head's twice as its own stream takes them too."""
        taken = []
        if pattern == DIRECT:
            taken += self.between[head]
            for row in self.between:
                taken.append(row[head])
            return taken
        assert self.nvswitch is not None, "NVLS is not asked for without"
        for gpu in [*self.gpus, self.gpus[head]]:
            taken.append(self.paths.get(self.nvswitch, gpu))
            taken.append(self.paths.get(gpu, self.nvswitch))
        return taken

    def head_bill(self, head: int, pattern: int, MBps: int, farthest: int) -> Bill | None:
        """What all paths of a head's channel take together; None if one is too far."""
        key = (head, pattern, MBps, farthest)
        if key not in self._head_bills:
            self._head_bills[key] = self._new_head_bill(head, pattern, MBps, farthest)
        return self._head_bills[key]

    def _new_head_bill(self, head: int, pattern: int, MBps: int, farthest: int) -> Bill | None:
        """Compute :meth:`head_bill`."""
        # CollNet direct shares the head's rate among the other GPUs
        each_MBps = round(MBps / (self.count - 1)) if pattern == DIRECT else MBps
        charges: list[tuple[int, int]] = []
        for path in self.head_paths(head, pattern):
            if path.kind > farthest:
                return None
            charges += bill_of(path, each_MBps)
        return merge_charges(charges)


def _path_table(
    paths: Paths, starts: Sequence[RankedGpu | NicPort], ends: Sequence[RankedGpu | NicPort]
) -> PathTable:
    """The paths from each start to each end."""
    return [[paths.get(start, end) for end in ends] for start in starts]


def _slot(gpu: RankedGpu) -> tuple[int, int] | None:
    """The numbers of the links of a GPU's slot, out and in; None without a slot."""
    out: NodeLink | None = None
    for link in gpu.device.links:
        if link.kind == "PCI":
            out = link
    if out is None:
        return None
    for link in out.to.links:
        if link.to is gpu.device and link.kind == "PCI":
            return out.number, link.number
    return None


def _same_port(nets: Sequence[NicPort], net: NicPort) -> list[int]:
    """The NICs that share a port with one, itself among them."""
    sharing = []
    for place, other in enumerate(nets):
        same_guid = bool(net.guid) and net.guid == other.guid
        if other is net or (same_guid and net.port == other.port):
            sharing.append(place)
    return sharing
