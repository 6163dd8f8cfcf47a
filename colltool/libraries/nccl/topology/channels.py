"""Building the channels of a graph: a walk over GPUs and NICs, depth first, within a budget of steps.

A step is a visit of a GPU. Visits are generators that yield the visits that follow, and take and
give back what paths need, so that walks of any depth need no recursion: :meth:`ChannelBuilder.attempt`
drives them. GPUs and NICs are places in the system's lists; rates are MB/s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from colltool.libraries.nccl.topology.bills import Bill, bill_of, merged
from colltool.libraries.nccl.topology.kinds import (
    BALANCED_TREE,
    DIRECT,
    DIS,
    NVLS,
    RING,
    SPLIT_TREE,
    TREE,
    TREES,
)
from colltool.libraries.nccl.topology.paths import Path, Paths
from colltool.libraries.nccl.topology.requests import Channel, FoundChannels, GraphRequest
from colltool.libraries.nccl.topology.system import NicPort, NodeLink, RankedGpu

# Steps of the first try, which takes the GPUs as they are numbered
FIRST_STEPS = 1024
# NICs that a list of them has at most
_MOST_LISTED = 64
# orders: the GPUs as numbered, as the last channel has them, or any
_NUMBERED, _AS_LAST, _FREE = range(3)
# a place that is no place of a channel
_NOWHERE = -1

Visit: TypeAlias = "Iterator[Visit]"
Row = list[Bill | None]


class ChannelBuilder:
    """Builds channels on a system; ``across``: to other nodes, by NICs."""

    def __init__(self, paths: Paths, *, across: bool) -> None:
        self.paths = paths
        self.across = across
        system = paths.system
        self.gpus = system.gpus
        self.nets = system.nets
        self.count = len(self.gpus)
        self.nvswitch = system.nvswitch
        between = _matrix(paths, self.gpus, self.gpus)
        out = _matrix(paths, self.gpus, self.nets)
        back = _matrix(paths, self.nets, self.gpus)
        self.between = between
        self.out = out
        self.back = back
        self.hops = [[len(path.links) for path in row] for row in between]
        self.whole = [[path.MBps // 1000 for path in row] for row in between]
        self.kinds_between = {path.kind for path in chain.from_iterable(between)}
        self.kinds_out = {path.kind for path in chain.from_iterable((*out, *back))}
        if self.nvswitch is not None:
            for gpu in self.gpus:
                self.kinds_between.add(paths.get(gpu, self.nvswitch).kind)
                self.kinds_between.add(paths.get(self.nvswitch, gpu).kind)
        self.full = [link.MBps for link in system.links]
        self.ports_full = [net.MBps for net in self.nets]
        self.slots = [_slot(gpu) for gpu in self.gpus]
        self.homes: list[int] = []
        self.near: list[list[int]] = []
        self.same_port: list[list[int]] = []
        for net in self.nets:
            home = paths.home_gpu(net)
            self.homes.append(self.gpus.index(home) if home else _NOWHERE)
            self.near.append([self.gpus.index(gpu) for gpu in paths.nearest(net, self.gpus)])
            self.same_port.append(_same_port(self.nets, net))
        self.preferred: list[list[int]] = []
        for gpu in self.gpus:
            preferred = paths.preferred_nets(gpu)
            self.preferred.append([self.nets.index(net) for net in preferred])
        self._rows: dict[tuple[object, ...], list[Row]] = {}
        self._lists: dict[tuple[int, int], list[int]] = {}
        self._heads: dict[tuple[int, ...], Bill | None] = {}
        self._orders: list[list[int]] = [self._static_order(gpu) for gpu in range(self.count)]
        self.taken_hops = 0
        self.visits = 0

    # --- a trial

    def attempt(
        self, request: GraphRequest, best: FoundChannels, steps: int, trial: int
    ) -> tuple[FoundChannels, int]:
        """Build channels for a request: the better of what was found so far and is found now, and
        the steps left; -1 if the most channels were found."""
        self.request = request
        self.best = best
        self.trial = trial
        self.perfect = False
        self.left = self.full[:]
        self.ports_left = self.ports_full[:]
        self.n = 0
        most = request.most + 1
        self.orders = [[0] * self.count for _ in range(most)]
        self.starts = [_NOWHERE] * most
        self.ends = [_NOWHERE] * most
        self.latency_us = 0.0
        pattern = request.pattern
        self.exact = pattern == DIRECT
        if not self.exact:
            self.taken_hops = 0
        self.out_step = _NOWHERE
        if self.across:
            self.out_step = {RING: self.count - 1, SPLIT_TREE: 1}.get(pattern, 0)
        inside = request.inside_MBps
        across = request.across_MBps
        # a balanced tree's NIC sends to two GPUs, half to each
        half = across // 2 if pattern == BALANCED_TREE else across
        both = pattern in TREES
        self.inside_rows = self._bills(self.between, self.between, inside, request.inside, both)
        self.out_rows = self._bills(self.out, self.back, half, request.across, both)
        self.back_rows = self._bills(self.back, self.out, across, request.across, both)
        self.port_MBps = across // 1000 * 1000
        self.leaves = [self._leaves(net) for net in range(len(self.nets))]
        left = self._run(self._start(), steps)
        self.visits += steps - max(left, 0)
        return self.best, left

    def _run(self, first: Visit, steps: int) -> int:
        """Walk from a visit on; the steps left."""
        stack = [first]
        top = first
        while True:
            following = next(top, None)
            if following is None:
                if self.perfect and not self.exact:
                    return -1
                stack.pop()
                if not stack:
                    return -1 if self.perfect else steps
                top = stack[-1]
            elif self.perfect or steps <= 0:
                # what follows is refused; only the count of links still changes
                if not self.exact:
                    return -1 if self.perfect else 0
            else:
                steps -= 1
                stack.append(following)
                top = following

    def _start(self) -> Visit:
        """The visits that a channel may begin with."""
        n = self.n
        if self.across:
            yield from self._from_nics()
        elif self.request.pattern == NVLS:
            yield self._visit(n, 0, _FREE, _NOWHERE, 1 << n)
        else:
            if n == 0:
                yield self._visit(0, 0, _NUMBERED, _NOWHERE, 1)
            else:
                first = self.orders[n - 1][0]
                yield self._visit(first, 0, _AS_LAST, _NOWHERE, 1 << first)
            if n == 0 or not self.request.same:
                for gpu in range(self.count):
                    yield self._visit(gpu, 0, _FREE, _NOWHERE, 1 << gpu)

    # --- visits

    def _visit(self, gpu: int, step: int, order: int, out: int, used: int) -> Visit:
        """A GPU at a place of the present channel; ``out``: the place that leaves for a NIC,
        ``used``: bits of the GPUs on the channel."""
        if step == self.count:
            self.n += 1
            if self._is_better():
                self._keep()
            if not self.perfect and self.n < self.request.most:
                yield from self._start()
            self.n -= 1
            return
        n = self.n
        row = self.orders[n]
        row[step] = gpu
        pattern = self.request.pattern
        left = self.left
        if step == out:
            yield from self._leave(gpu, step, order, used)
        elif pattern >= NVLS:
            yield from self._visit_head(gpu)
        elif step < self.count - 1:
            bills = self.inside_rows[gpu]
            hops = self.hops[gpu]
            step += 1
            for following in self._candidates(gpu, step, order, out, used):
                if used >> following & 1:
                    continue
                bill = bills[following]
                if bill is None:
                    continue
                for link, MBps in bill:
                    if left[link] < MBps:
                        break
                else:
                    for link, MBps in bill:
                        left[link] -= MBps
                    self.taken_hops += hops[following]
                    yield self._visit(following, step, order, out, used | 1 << following)
                    self.taken_hops -= hops[following]
                    for link, MBps in bill:
                        left[link] += MBps
        elif pattern == RING and not self.across:
            first = row[0]
            bill = self.inside_rows[gpu][first]
            if bill is not None and self._take(bill):
                self.taken_hops += self.hops[gpu][first]
                yield self._visit(first, self.count, order, out, used)
                self.taken_hops -= self.hops[gpu][first]
                self._give(bill)
        else:
            yield self._visit(gpu, self.count, order, out, used)

    def _candidates(self, gpu: int, step: int, order: int, out: int, used: int) -> Sequence[int]:
        """The GPUs that may be at the next place ``step``, in the order of trying."""
        if order == _NUMBERED:
            return (step,)
        if order == _AS_LAST:
            return (self.orders[self.n - 1][step],)
        count = self.count
        if self.nvswitch is not None:
            following = (gpu + 1) % count
            previous = (gpu - 1) % count
            pattern = self.request.pattern
            if pattern == RING:
                return (previous, following)
            if pattern in (BALANCED_TREE, SPLIT_TREE):
                return (following, previous)
            return (following,)
        if out < step:
            return self._orders[gpu]
        return self._order_to_nic(gpu, step, out, used)

    def _static_order(self, gpu: int) -> list[int]:
        """All others: the highest rate first, then the fewest links, then the next in number."""
        others = []
        for other in range(self.count):
            if other != gpu and self.between[gpu][other].kind < DIS:
                MBps = self.whole[gpu][other]
                hops = self.hops[gpu][other]
                distance = (other - gpu) % self.count
                others.append((-MBps, hops, distance, other))
        return [entry[-1] for entry in sorted(others)]

    def _order_to_nic(self, gpu: int, step: int, out: int, used: int) -> list[int]:
        """The order while a NIC is to come: those first that it reaches best and whose slots have
        most left."""
        left = self.left
        from_nic = self.back[self.starts[self.n]]
        keyed: list[tuple[tuple[int, int, int], int, int]] = []
        alike = set()
        whole = self.whole[gpu]
        hops = self.hops[gpu]
        for other in self._orders[gpu]:
            if used >> other & 1:
                continue
            path = from_nic[other]
            slot = self.slots[other]
            least = -1
            if slot is not None:
                least = min(left[slot[0]], left[slot[1]]) // 1000
            alike.add((whole[other], hops[other]))
            whole_rate = path.MBps // 1000
            key = (-whole_rate, -least, len(path.links))
            # in the static order already: equals keep it
            keyed.append((key, len(keyed), other))
        keyed.sort()
        found = [entry[-1] for entry in keyed]
        if out != step and len(alike) == 1:
            found.reverse()
        return found

    def _visit_head(self, head: int) -> Visit:
        """A channel of NVLS or CollNet direct: a head that all others send to and get from."""
        n = self.n
        bill = self._head_bill(head)
        if bill is None or not self._take(bill):
            return
        hops = [len(path.links) for path in self._head_paths(head)]
        if self.request.pattern == DIRECT:
            others = [gpu for gpu in range(self.count) if gpu != head]
            self.orders[n][:] = [head, *others]
        self._count_hops(hops, 1)
        yield self._visit(head, self.count, _FREE, _NOWHERE, 0)
        self._count_hops(hops, -1)
        self._give(bill)

    def _head_paths(self, head: int) -> list[Path]:
        """The paths that a head's channel takes, one after the other; its own stream is on NVSwitches
        twice."""
        found = []
        if self.request.pattern == DIRECT:
            found += self.between[head]
            for row in self.between:
                found.append(row[head])
            return found
        assert self.nvswitch is not None, "NVLS is not asked for without"
        for gpu in [*self.gpus, self.gpus[head]]:
            found.append(self.paths.get(self.nvswitch, gpu))
            found.append(self.paths.get(gpu, self.nvswitch))
        return found

    def _count_hops(self, hops: Sequence[int], sign: int) -> None:
        """Add what paths take to the count of links, or take it off.

        CollNet direct shares each path among the other GPUs, and NCCL cuts the sum to a whole number
        each time: it drifts.
        """
        if self.request.pattern != DIRECT:
            self.taken_hops += sign * sum(hops)
            return
        share = self.count - 1
        for links in hops:
            self.taken_hops = int(self.taken_hops + sign * links / share)

    def _head_bill(self, head: int) -> Bill | None:
        """What all paths of a head's channel take together; None if one is too far."""
        request = self.request
        key = (head, request.inside_MBps, request.inside, request.pattern)
        if key not in self._heads:
            self._heads[key] = self._new_head_bill(head)
        return self._heads[key]

    def _new_head_bill(self, head: int) -> Bill | None:
        request = self.request
        MBps = request.inside_MBps
        if request.pattern == DIRECT:
            MBps = round(MBps / (self.count - 1))
        charges: list[tuple[int, int]] = []
        for path in self._head_paths(head):
            if path.kind > request.inside:
                return None
            charges += bill_of(path, MBps)
        return merged(charges)

    # --- NICs

    def _from_nics(self) -> Visit:
        """The visits that a channel between nodes may begin with: from each NIC in turn."""
        request = self.request
        pattern = request.pattern
        n = self.n
        nets = self._listed(_NOWHERE)
        ports_left = self.ports_left
        need = self.port_MBps
        for place in range(len(nets)):
            net = nets[(n + place) % len(nets)]
            if request.collnet and not self.nets[net].has_collnet:
                continue
            if ports_left[net] < need:
                continue
            if pattern == RING and request.cross_nic == 2 and n % 2 and self.ends[n - 1] != net:
                continue
            self.starts[n] = net
            self.latency_us = self.nets[net].latency_us
            self._use_port(ports_left, net, need)
            if not self._reaches_any(net):
                # NCCL forgets to give it back, for all trials that follow
                self._use_port(self.ports_full, net, need)
                return
            if pattern >= NVLS:
                home = self.homes[net]
                heads = [order[0] for order in self.orders[:n]]
                if n < len(nets) and home != _NOWHERE and home not in heads:
                    yield from self._arrive(net, home, _FREE)
                    self._use_port(ports_left, net, -need)
                    return
            elif request.same and n > 0:
                yield from self._arrive(net, self.orders[n - 1][0], _AS_LAST)
            else:
                if n == 0 and self.nvswitch is None:
                    self._try_numbered(net)
                for gpu in self._first_gpus(net):
                    yield from self._arrive(net, gpu, _FREE)
            self._use_port(ports_left, net, -need)

    def _use_port(self, ports: list[int], net: int, MBps: int) -> None:
        """Take a rate from a NIC's port, whichever NICs share it."""
        for port in self.same_port[net]:
            ports[port] -= MBps

    def _try_numbered(self, net: int) -> None:
        """The GPUs as numbered from a NIC on, with steps of its own."""
        left = self.left[:]
        ports_left = self.ports_left[:]
        hops = self.taken_hops
        self._run(self._arrive(net, 0, _NUMBERED), FIRST_STEPS)
        self.left[:] = left
        self.ports_left[:] = ports_left
        self.n = 0
        self.taken_hops = hops

    def _reaches_any(self, net: int) -> bool:
        return any(path.MBps for path in self.back[net])

    def _first_gpus(self, net: int) -> Sequence[int]:
        """The GPU whose NIC it is, then the others next to it."""
        home = self.homes[net]
        if home == _NOWHERE:
            return self.near[net]
        return [home, *(gpu for gpu in self.near[net] if gpu != home)]

    def _arrive(self, net: int, gpu: int, order: int) -> Visit:
        """Enter the first GPU of a channel by a NIC."""
        bill = self.back_rows[net][gpu]
        if bill is not None and self._take(bill):
            hops = len(self.back[net][gpu].links)
            self.taken_hops += hops
            yield self._visit(gpu, 0, order, self.out_step, 1 << gpu)
            self.taken_hops -= hops
            self._give(bill)

    def _leave(self, gpu: int, step: int, order: int, used: int) -> Visit:
        """Leave a GPU for each NIC that it may, and go on along the channel."""
        n = self.n
        bills = self.out_rows[gpu]
        out = _NOWHERE
        pattern = self.request.pattern
        if pattern == BALANCED_TREE and step == 0:
            out = 1
        second = pattern == BALANCED_TREE and step == 1
        chosen = self.ends[n]
        allowed = self.leaves[self.starts[n]]
        if pattern == RING and self.request.cross_nic == 2 and n % 2:
            allowed = [self.starts[n - 1]]
        for net in self._listed(gpu):
            if net not in allowed or (second and net != chosen):
                continue
            bill = bills[net]
            if bill is None or not self._take(bill):
                continue
            hops = len(self.out[gpu][net].links)
            self.taken_hops += hops
            self.ends[n] = net
            yield self._visit(gpu, step, order, out, used)
            self.taken_hops -= hops
            self._give(bill)

    def _leaves(self, start: int) -> list[int]:
        """The NICs that a channel may leave by that came by one."""
        request = self.request
        came = self.nets[start]
        found = []
        for place, net in enumerate(self.nets):
            if came.plane and net.plane and came.plane != net.plane:
                continue
            if request.pattern == TREE:
                fits = place == start
            elif request.cross_nic:
                fits = True
            elif came.rail and net.rail:
                fits = came.rail == net.rail
            else:
                fits = place in self.same_port[start]
            if fits:
                found.append(place)
        return found

    def _listed(self, gpu: int) -> list[int]:
        """The NICs for a GPU, or for all: the preferred ones, then by distance."""
        farthest = self.request.across
        key = (gpu, farthest)
        if key not in self._lists:
            gpus = list(range(self.count)) if gpu == _NOWHERE else [gpu]
            self._lists[key] = self._new_list(gpus, farthest)
        return self._lists[key]

    def _new_list(self, gpus: list[int], farthest: int) -> list[int]:
        several_hosts = len({gpu.host for gpu in self.gpus}) > 1
        first: list[int] = []
        for gpu in gpus:
            first += self.preferred[gpu]
        if several_hosts:
            first = []
            for channel in range(max(len(self.preferred[gpu]) for gpu in gpus)):
                for gpu in gpus:
                    own = self.preferred[gpu]
                    first.append(own[channel % len(own)])
        for kind in range(farthest + 1):
            for gpu in gpus:
                for net, path in enumerate(self.out[gpu]):
                    if path.kind == kind:
                        first.append(net)
        return list(dict.fromkeys(first))[:_MOST_LISTED]

    # --- links

    def _take(self, bill: Bill) -> bool:
        """Take a bill from what links have left; nothing if one has too little."""
        left = self.left
        for link, MBps in bill:
            if left[link] < MBps:
                return False
        for link, MBps in bill:
            left[link] -= MBps
        return True

    def _give(self, bill: Bill) -> None:
        left = self.left
        for link, MBps in bill:
            left[link] += MBps

    def _bills(
        self,
        there: list[list[Path]],
        back: list[list[Path]],
        MBps: int,
        farthest: int,
        both: bool,
    ) -> list[Row]:
        """What each path takes at a rate; None of those that are too far. ``both``: the way back
        counts too."""
        key = (id(there), MBps, farthest, both)
        rows = self._rows.get(key)
        if rows is None:
            rows = []
            for start, paths in enumerate(there):
                row: Row = []
                for end, path in enumerate(paths):
                    near = path.kind <= farthest and path.kind < DIS
                    if both and back[end][start].kind > farthest:
                        near = False
                    row.append(bill_of(path, MBps) if near else None)
                rows.append(row)
            self._rows[key] = rows
        return rows

    # --- what was found

    def _is_better(self) -> bool:
        request = self.request
        best = self.best
        n = self.n
        if n < request.least:
            return False
        if request.pattern == NVLS:
            if best.channel_count < n <= self.count:
                return True
            rate = n * request.across_MBps
            return rate > best.channel_count * best.request.across_MBps
        rate = n * request.inside_MBps
        known = best.channel_count * best.request.inside_MBps
        if rate != known:
            return rate > known
        if best.request.pattern != request.pattern:
            return False
        if best.request.cross_nic != request.cross_nic:
            return False
        return self.taken_hops < best.hops

    def _keep(self) -> None:
        """Keep the channels built so far as the best."""
        channels = []
        heads_only = self.request.pattern == NVLS
        for n in range(self.n):
            order = self.orders[n][:1] if heads_only else self.orders[n]
            nets: tuple[int, ...] = ()
            if self.across:
                nets = (self.starts[n], self.ends[n])
            channels.append(Channel(tuple(order), nets))
        self.best = FoundChannels(
            self.request, tuple(channels), self.taken_hops, self.latency_us, self.trial
        )
        if self.n == self.request.most:
            self.perfect = True


def _matrix(
    paths: Paths, starts: Sequence[RankedGpu | NicPort], ends: Sequence[RankedGpu | NicPort]
) -> list[list[Path]]:
    return [[paths.get(start, end) for end in ends] for start in starts]


def _slot(gpu: RankedGpu) -> tuple[int, int] | None:
    """The links of a GPU's slot, out and in."""
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
    found = []
    for place, other in enumerate(nets):
        shared = bool(net.guid) and (net.guid, net.port) == (other.guid, other.port)
        if other is net or shared:
            found.append(place)
    return found
