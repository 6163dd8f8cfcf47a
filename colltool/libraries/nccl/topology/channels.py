"""Building the channels of a graph: a walk over GPUs and NICs, depth first, within a budget of steps.

A step is a visit of a GPU. Visits are generators that yield the visits that follow, and take and
give back what paths need, so that walks of any depth need no recursion: :meth:`_ChannelTrial.run` drives
them. GPUs and NICs are places in the system's lists; rates are MB/s.

Used here without a word:

- the request (:class:`~colltool.libraries.nccl.topology.requests.GraphRequest`): the farthest types of path
  that are allowed and the rate of a channel, ``inside`` between GPUs and ``across`` to NICs; the ``least``
  and ``most`` channels; ``same``: all of them visit the GPUs in one order. Patterns are numbers: up to
  RING a channel is a walk, from NVLS on (NVLS and CollNet direct) it is a head and all other GPUs.
- the node's :class:`~colltool.libraries.nccl.topology.reach.NodeReach`: paths ``between`` GPUs, ``out`` to
  NICs and ``back`` from them, by start and end; ``hops``, links of the paths between GPUs.
- a bill: pairs of a link's number and the MB/s that a path takes of it; None where the path is farther than
  the request allows.

:meth:`ChannelBuilder.attempt` is the entry. A walk begins at :meth:`_ChannelTrial.start`; a visit
(:meth:`_ChannelTrial._visit`) tries the GPUs that may follow, and after the last GPU of a channel
begins the next channel. Source: NCCL 2.30, src/graph/search.cc, ncclTopoSearchRec.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from colltool.libraries.nccl.topology.bills import Bill
from colltool.libraries.nccl.topology.kinds import (
    BALANCED_TREE,
    DIRECT,
    NVLS,
    RING,
    SPLIT_TREE,
    TREE,
    TREES,
)
from colltool.libraries.nccl.topology.paths import Paths
from colltool.libraries.nccl.topology.reach import NOWHERE, NodeReach
from colltool.libraries.nccl.topology.requests import Channel, FoundChannels, GraphRequest

# Steps of the first try, which takes the GPUs as they are numbered
FIRST_STEPS = 1024
# Which GPU may follow: the next in number, the one that the last channel has in that place, or any.
_NUMBERED, _AS_LAST, _FREE = range(3)

Visit: TypeAlias = "Iterator[Visit]"


class ChannelBuilder:
    """Builds channels on a system.

    Args:
        paths: of the system.
        across: channels also lead to other nodes, by NICs.

    Attributes:
        links_MBps: rate of each link, by its number.
        ports_MBps: rate of each NIC's port, less what NCCL forgot to give back.
        taken_hops: the count of links with which the next trial of CollNet direct begins: what the last
            trial left, which NCCL does not set back. A search begins it at 0.
        visits: steps of all trials.
    """

    def __init__(self, paths: Paths, *, across: bool) -> None:
        self.reach = NodeReach(paths)
        self.paths = paths
        self.across = across
        self.links_MBps = [link.MBps for link in paths.system.links]
        self.ports_MBps = [net.MBps for net in paths.system.nets]
        self.taken_hops = 0
        self.visits = 0

    def attempt(
        self, request: GraphRequest, best: FoundChannels, steps: int, number: int
    ) -> tuple[FoundChannels, int]:
        """Build channels for a request.

        Args:
            best: found by the trials before; it comes back, the same object, if nothing better is found.
            steps: that the trial may take.
            number: of the trial, which its channels are marked with.

        Returns:
            The best channels now, and the steps left: 0 if all were taken, -1 if the most channels were
            found.
        """
        trial = _ChannelTrial(self, request, best, number)
        steps_left = trial.run(trial.start(), steps)
        self.visits += steps - max(steps_left, 0)
        self.taken_hops = trial.hops
        return trial.best, steps_left


class _ChannelTrial:
    """One walk for one request.

    A channel is described at its number. On a node of 4 GPUs ``orders[0] == [0, 3, 2, 1]`` is the
    ring 0-3-2-1-0; with ``starts[0] == 2`` and ``ends[0] == 2`` it comes and leaves by NIC 2.

    Attributes:
        count: how many GPUs there are.
        best: the best channels so far.
        built: how many channels are complete, so also the number of the present one.
        is_perfect: the most channels that are asked for were found.
        links_left, ports_left: the rate that is left of each link and each NIC's port.
        hops: links of all paths taken.
        latency_us: of the NIC that the last channel came by.
        orders: of each channel its GPUs in order; 0 in places that are not visited yet.
        starts, ends: of each channel the NICs that it comes and leaves by; NOWHERE without.
        out_step: the place in a channel whose GPU sends to a NIC: the last of a ring, the second of a split
            tree, else the first; NOWHERE inside a node.
        inside_bills, out_bills, back_bills: what paths take between GPUs, to and from NICs.
        port_need_MBps: what a channel takes of a NIC's port, in whole GB/s.
        ends_allowed: of each NIC that a channel comes by, those that it may leave by.
    """

    def __init__(
        self, builder: ChannelBuilder, request: GraphRequest, best: FoundChannels, number: int
    ) -> None:
        self.builder = builder
        self.reach = builder.reach
        self.count = self.reach.count
        self.request = request
        self.best = best
        self.number = number
        self.is_perfect = False
        self.links_left = builder.links_MBps[:]
        self.ports_left = builder.ports_MBps[:]
        self.built = 0
        # one more: after the last channel the number of the next is looked at
        channels = request.most + 1
        self.orders = [[0] * self.count for _ in range(channels)]
        self.starts = [NOWHERE] * channels
        self.ends = [NOWHERE] * channels
        self.latency_us = 0.0
        pattern = request.pattern
        self.hops = builder.taken_hops if pattern == DIRECT else 0
        self.out_step = NOWHERE
        if builder.across:
            self.out_step = {RING: self.count - 1, SPLIT_TREE: 1}.get(pattern, 0)
        reach = self.reach
        across_MBps = request.across_MBps
        # a balanced tree's NIC sends to two GPUs, half to each
        out_MBps = across_MBps // 2 if pattern == BALANCED_TREE else across_MBps
        both_ways = pattern in TREES
        self.inside_bills = reach.bills(
            reach.between,
            reach.between,
            request.inside_MBps,
            request.inside,
            both_ways=both_ways,
        )
        self.out_bills = reach.bills(
            reach.out, reach.back, out_MBps, request.across, both_ways=both_ways
        )
        self.back_bills = reach.bills(
            reach.back, reach.out, across_MBps, request.across, both_ways=both_ways
        )
        self.port_need_MBps = across_MBps // 1000 * 1000
        self.ends_allowed = [self._ends_allowed(net) for net in range(len(reach.nets))]

    def run(self, first: Visit, steps: int) -> int:
        """Walk from a visit on. Returns the steps left, 0 if all were taken, -1 if the most channels were
        found."""
        # CollNet direct: visits under way are finished all the same, as they change the count of links
        goes_on = self.request.pattern == DIRECT
        stack = [first]
        top = first
        while True:
            following = next(top, None)
            if following is None:
                if self.is_perfect and not goes_on:
                    return -1
                stack.pop()
                if not stack:
                    return -1 if self.is_perfect else steps
                top = stack[-1]
            elif self.is_perfect or steps <= 0:
                # the next visit is not made
                if not goes_on:
                    return -1 if self.is_perfect else 0
            else:
                steps -= 1
                stack.append(following)
                top = following

    def start(self) -> Visit:
        """The visits that the next channel may begin with.

        Across nodes they come from NICs. Inside a node channel c of NVLS has GPU c for its head; any other
        channel begins with GPU 0, or with the GPU that the last one began with, and then tries all GPUs,
        unless all channels must have one order and this is not the first.
        """
        channel = self.built
        if self.builder.across:
            yield from self._from_nics()
        elif self.request.pattern == NVLS:
            yield self._visit(channel, 0, _FREE, NOWHERE, 1 << channel)
        else:
            if channel == 0:
                yield self._visit(0, 0, _NUMBERED, NOWHERE, 1)
            else:
                gpu = self.orders[channel - 1][0]
                yield self._visit(gpu, 0, _AS_LAST, NOWHERE, 1 << gpu)
            if channel == 0 or not self.request.same:
                for gpu in range(self.count):
                    yield self._visit(gpu, 0, _FREE, NOWHERE, 1 << gpu)

    # --- visits

    def _visit(self, gpu: int, step: int, order: int, out_step: int, used: int) -> Visit:
        """Visit a GPU at place ``step`` of the present channel. Beyond the last place the channel is
        complete: it is compared with the best, and the next one begins.

        Args:
            order: which GPUs may follow: ``_NUMBERED``, ``_AS_LAST`` or ``_FREE``.
            out_step: the place whose GPU sends to a NIC; NOWHERE if none does any more.
            used: the GPUs on the channel, as bits: 0b1001 is GPUs 0 and 3.
        """
        if step == self.count:
            yield from self._complete()
            return
        channel_gpus = self.orders[self.built]
        channel_gpus[step] = gpu
        pattern = self.request.pattern
        if step == out_step:
            yield from self._leave(gpu, step, order, used)
        elif pattern >= NVLS:
            yield from self._visit_head(gpu)
        elif step < self.count - 1:
            bills = self.inside_bills[gpu]
            hops = self.reach.hops[gpu]
            links_left = self.links_left
            step += 1
            for following in self._candidates(gpu, step, order, out_step, used):
                if used >> following & 1:
                    continue
                bill = bills[following]
                if bill is None:
                    continue
                # as _take and _give, without a call each: most of the time is spent here
                for link, MBps in bill:
                    if links_left[link] < MBps:
                        break
                else:
                    for link, MBps in bill:
                        links_left[link] -= MBps
                    self.hops += hops[following]
                    yield self._visit(following, step, order, out_step, used | 1 << following)
                    self.hops -= hops[following]
                    for link, MBps in bill:
                        links_left[link] += MBps
        elif pattern == RING and not self.builder.across:
            # back to where the ring began
            first = channel_gpus[0]
            bill = self.inside_bills[gpu][first]
            if bill is not None and self._take(bill):
                self.hops += self.reach.hops[gpu][first]
                yield self._visit(first, self.count, order, out_step, used)
                self.hops -= self.reach.hops[gpu][first]
                self._give(bill)
        else:
            yield self._visit(gpu, self.count, order, out_step, used)

    def _complete(self) -> Visit:
        """Compare the channels with the best so far, the present one among them, and begin the next."""
        self.built += 1
        if self._is_better():
            self._keep_as_best()
        if not self.is_perfect and self.built < self.request.most:
            yield from self.start()
        self.built -= 1

    def _candidates(
        self, gpu: int, step: int, order: int, out_step: int, used: int
    ) -> Sequence[int]:
        """The GPUs to try at place ``step``, after ``gpu``, best first. Some may be on the channel
        already.

        With NVSwitches only neighbours in number are tried. Else the order is the static one of the GPU;
        but one that prepares the way out while a NIC is still to come.
        """
        if order == _NUMBERED:
            return (step,)
        if order == _AS_LAST:
            return (self.orders[self.built - 1][step],)
        if self.reach.nvswitch is not None:
            following = (gpu + 1) % self.count
            previous = (gpu - 1) % self.count
            pattern = self.request.pattern
            if pattern == RING:
                return (previous, following)
            if pattern in (BALANCED_TREE, SPLIT_TREE):
                return (following, previous)
            return (following,)
        if out_step < step:
            return self.reach.orders[gpu]
        return self._order_to_nic(gpu, used, reverse_equals=out_step != step)

    def _order_to_nic(self, gpu: int, used: int, *, reverse_equals: bool) -> list[int]:
        """The GPUs not yet on the channel, in the order of trying while a NIC is still to come: first
        those that the channel's NIC reaches at the highest rate, then whose slots have most left, then
        over the fewest links.

        ``reverse_equals``: the other way round where all are at one rate and distance from the GPU.
        """
        links_left = self.links_left
        from_nic = self.reach.back[self.starts[self.built]]
        GBps = self.reach.whole_GBps[gpu]
        hops = self.reach.hops[gpu]
        # the different rates and numbers of links to the others
        distances = set()
        # in the static order, which equals keep
        keys: dict[int, tuple[int, int, int]] = {}
        for other in self.reach.orders[gpu]:
            if used >> other & 1:
                continue
            path = from_nic[other]
            slot = self.reach.slots[other]
            slot_GBps = -1
            if slot is not None:
                out_link, in_link = slot
                slot_GBps = min(links_left[out_link], links_left[in_link]) // 1000
            distances.add((GBps[other], hops[other]))
            keys[other] = (-(path.MBps // 1000), -slot_GBps, len(path.links))
        order = sorted(keys, key=keys.__getitem__)
        if reverse_equals and len(distances) == 1:
            order.reverse()
        return order

    def _visit_head(self, head: int) -> Visit:
        """Visit the only place of a channel of NVLS or CollNet direct: a head that all others send to and
        get from. It takes all its paths at once, and the channel is complete."""
        request = self.request
        bill = self.reach.head_bill(head, request.pattern, request.inside_MBps, request.inside)
        if bill is None or not self._take(bill):
            return
        hops = [len(path.links) for path in self.reach.head_paths(head, request.pattern)]
        if request.pattern == DIRECT:
            others = [gpu for gpu in range(self.count) if gpu != head]
            self.orders[self.built][:] = [head, *others]
        self._count_hops(hops, 1)
        yield self._visit(head, self.count, _FREE, NOWHERE, 0)
        self._count_hops(hops, -1)
        self._give(bill)

    def _count_hops(self, hops: Sequence[int], sign: int) -> None:
        """Add what paths take to the count of links, or take it off.

        CollNet direct shares each path among the other GPUs, and NCCL cuts the sum to a whole number
        each time: it drifts.
        """
        if self.request.pattern != DIRECT:
            self.hops += sign * sum(hops)
            return
        share = self.count - 1
        for links in hops:
            self.hops = int(self.hops + sign * links / share)

    # --- NICs

    def _from_nics(self) -> Visit:
        """The visits that a channel between nodes may begin with: from each NIC in turn, channel c from
        the c-th on. The pattern decides which GPUs a NIC leads to: of NVLS and CollNet direct its own."""
        request = self.request
        reach = self.reach
        channel = self.built
        is_second_ring = self._is_second_of_crossing_rings()
        nets = reach.listed_nets(NOWHERE, request.across)
        ports_left = self.ports_left
        need_MBps = self.port_need_MBps
        for place in range(len(nets)):
            net = nets[(channel + place) % len(nets)]
            if request.collnet and not reach.nets[net].has_collnet:
                continue
            if ports_left[net] < need_MBps:
                continue
            if is_second_ring and self.ends[channel - 1] != net:
                continue
            self.starts[channel] = net
            self.latency_us = reach.nets[net].latency_us
            self._use_port(ports_left, net, need_MBps)
            if not reach.any_gpu_from(net):
                # NCCL forgets to give it back, for all trials that follow
                self._use_port(self.builder.ports_MBps, net, need_MBps)
                return
            if request.pattern >= NVLS:
                home = reach.home_gpus[net]
                heads = [order[0] for order in self.orders[:channel]]
                if channel < len(nets) and home != NOWHERE and home not in heads:
                    yield from self._arrive(net, home, _FREE)
                    self._use_port(ports_left, net, -need_MBps)
                    return
            elif request.same and channel > 0:
                yield from self._arrive(net, self.orders[channel - 1][0], _AS_LAST)
            else:
                if channel == 0 and reach.nvswitch is None:
                    self._try_numbered(net)
                for gpu in self._first_gpus(net):
                    yield from self._arrive(net, gpu, _FREE)
            self._use_port(ports_left, net, -need_MBps)

    def _is_second_of_crossing_rings(self) -> bool:
        """Whether the present ring is the second of a pair that crosses between NICs: if the first comes
        by NIC 0 and leaves by NIC 1, the second comes by 1 and leaves by 0."""
        request = self.request
        return request.pattern == RING and request.cross_nic == 2 and self.built % 2 == 1

    def _use_port(self, ports: list[int], net: int, MBps: int) -> None:
        """Take a rate from a NIC's port, whichever NICs share it; a negative one gives it back."""
        for port in self.reach.same_port[net]:
            ports[port] -= MBps

    def _try_numbered(self, net: int) -> None:
        """Walk the GPUs as numbered from a NIC on, with :data:`FIRST_STEPS` of its own, and put back what
        that took; what it found stays in ``best`` and ``is_perfect``."""
        links_left = self.links_left[:]
        ports_left = self.ports_left[:]
        hops = self.hops
        self.run(self._arrive(net, 0, _NUMBERED), FIRST_STEPS)
        self.links_left[:] = links_left
        self.ports_left[:] = ports_left
        self.built = 0
        self.hops = hops

    def _first_gpus(self, net: int) -> Sequence[int]:
        """The GPUs that a channel may enter by a NIC: the one whose own it is, then the nearest others."""
        home = self.reach.home_gpus[net]
        nearest = self.reach.nearest_gpus[net]
        if home == NOWHERE:
            return nearest
        return [home, *(gpu for gpu in nearest if gpu != home)]

    def _arrive(self, net: int, gpu: int, order: int) -> Visit:
        """Enter the first GPU of a channel by a NIC."""
        bill = self.back_bills[net][gpu]
        if bill is not None and self._take(bill):
            hops = len(self.reach.back[net][gpu].links)
            self.hops += hops
            yield self._visit(gpu, 0, order, self.out_step, 1 << gpu)
            self.hops -= hops
            self._give(bill)

    def _leave(self, gpu: int, step: int, order: int, used: int) -> Visit:
        """Send from a GPU to each NIC that it may, and visit the GPU again to go on along the channel."""
        channel = self.built
        bills = self.out_bills[gpu]
        is_balanced = self.request.pattern == BALANCED_TREE
        # a balanced tree leaves from its first two GPUs, by one NIC
        next_out_step = 1 if is_balanced and step == 0 else NOWHERE
        must_leave_by = self.ends[channel] if is_balanced and step == 1 else NOWHERE
        allowed = self.ends_allowed[self.starts[channel]]
        if self._is_second_of_crossing_rings():
            allowed = [self.starts[channel - 1]]
        for net in self.reach.listed_nets(gpu, self.request.across):
            if net not in allowed or must_leave_by not in (NOWHERE, net):
                continue
            bill = bills[net]
            if bill is None or not self._take(bill):
                continue
            hops = len(self.reach.out[gpu][net].links)
            self.hops += hops
            self.ends[channel] = net
            yield self._visit(gpu, step, order, next_out_step, used)
            self.hops -= hops
            self._give(bill)

    def _ends_allowed(self, start: int) -> list[int]:
        """The NICs that a channel may leave by if it came by NIC ``start``: none of another plane; of a
        tree the same, if channels may cross any, else those on the same rail or port. Planes and rails
        are empty where they are unknown."""
        request = self.request
        nets = self.reach.nets
        came_by = nets[start]
        allowed = []
        for place, net in enumerate(nets):
            if came_by.plane and net.plane and came_by.plane != net.plane:
                continue
            if request.pattern == TREE:
                fits = place == start
            elif request.cross_nic:
                fits = True
            elif came_by.rail and net.rail:
                fits = came_by.rail == net.rail
            else:
                fits = place in self.reach.same_port[start]
            if fits:
                allowed.append(place)
        return allowed

    # --- links

    def _take(self, bill: Bill) -> bool:
        """Take a bill from what links have left; False, and nothing taken, if one has too little."""
        links_left = self.links_left
        for link, MBps in bill:
            if links_left[link] < MBps:
                return False
        for link, MBps in bill:
            links_left[link] -= MBps
        return True

    def _give(self, bill: Bill) -> None:
        """Give back what :meth:`_take` took."""
        links_left = self.links_left
        for link, MBps in bill:
            links_left[link] += MBps

    # --- what was found

    def _is_better(self) -> bool:
        """Whether the channels built so far are better than the best.

        More MB/s in all are better, inside the node; if they are equal, fewer links, where the best has
        the same pattern and crossing. Of NVLS more heads, up to one a GPU, then more MB/s between nodes.
        Fewer than the least channels never are.
        """
        request = self.request
        best = self.best
        built = self.built
        if built < request.least:
            return False
        if request.pattern == NVLS:
            if best.channel_count < built <= self.count:
                return True
            MBps = built * request.across_MBps
            return MBps > best.channel_count * best.request.across_MBps
        MBps = built * request.inside_MBps
        best_MBps = best.channel_count * best.request.inside_MBps
        if MBps != best_MBps:
            return MBps > best_MBps
        if best.request.pattern != request.pattern:
            return False
        if best.request.cross_nic != request.cross_nic:
            return False
        return self.hops < best.hops

    def _keep_as_best(self) -> None:
        """Keep the channels built so far as the best."""
        channels = []
        heads_only = self.request.pattern == NVLS
        for channel in range(self.built):
            order = self.orders[channel][:1] if heads_only else self.orders[channel]
            nets: tuple[int, ...] = ()
            if self.builder.across:
                nets = (self.starts[channel], self.ends[channel])
            channels.append(Channel(tuple(order), nets))
        self.best = FoundChannels(
            self.request, tuple(channels), self.hops, self.latency_us, self.number
        )
        if self.built == self.request.most:
            self.is_perfect = True
