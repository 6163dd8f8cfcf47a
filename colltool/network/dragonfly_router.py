"""Routes of a dragonfly: the local and global links of each message, or of all messages of a step.

A minimal path is local, global, local. A non-minimal (Valiant) path is minimal to a gateway of
another group X, and minimal from there. Traffic is divided evenly over the cables between two
groups, and over all groups X. Inside a group the non-minimal path is through one other switch. In a
dragonfly+ every local path passes a spine, and traffic is divided evenly over the spines.

:meth:`DragonflyRouter.uses` follows each message; :meth:`DragonflyRouter.loads` adds up traffic by
switch and group first, which is faster for many messages and for adaptive routing.

Of 9 groups of 4 switches the cables to the next two groups leave by switch 0, to the two after by
switch 1, and so on. 8 bytes from switch 1 of group 0 to switch 2 of group 5 go over switches 1 -> 2
of group 0, the cable from group 0 to 5 and switches 1 -> 2 of group 5; by Valiant's paths 8/7 bytes
over each cable from group 0 to the 7 others, and from these to group 5.

Array code names axes by single letters: g groups of a switches (without spines) with k gateways each.
A gateway is a switch where cables to other groups end: any switch, in a dragonfly+ a spine. The nodes of
the router are switches, in a dragonfly+ the leaves, numbered group by group.

A :class:`~colltool.network.links.LinkUse` is yielded for many messages at once: the index of a kind of
links in ``wires``, and arrays of the link's number in that kind, the message's number, and the share of
the message's bytes that pass the link.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from colltool.base.primitives import ceil_div
from colltool.network.arrays import Floats, Indices
from colltool.network.links import LinkUse
from colltool.network.routers import Router, Wire
from colltool.network.wires import DragonflyWires

# Up to this many messages are followed one by one, which is then faster than sums by switch.
MOST_FOLLOWED_SINGLY = 4096
# Steps whose loads are cached; the loads of a step on Frontier (74 groups) take 1 MB.
MOST_CACHED_STEPS = 128


class _RoutedMessages(NamedTuple):
    """Messages from switch i of group a to switch j of group b; arrays of shape (m,)."""

    a: Indices
    i: Indices
    b: Indices
    j: Indices
    message: Indices  # their numbers

    def where(self, mask: NDArray[np.bool_]) -> _RoutedMessages:
        """The messages for which ``mask``, of shape (m,), is true."""
        return _RoutedMessages(*(column[mask] for column in self))


class _GroupTraffic(NamedTuple):
    """Bytes that a step sends, by switch and group, for the n groups that send or receive.

    If switch 1 of group 0 sends 8 bytes to switch 2 of group 5, and nothing else is sent, ``groups``
    is (0, 5), and ``out[0, 1, 1]`` and ``into[1, 2, 0]`` are 8.
    """

    groups: Indices  # their numbers, shape (n,)
    out: Floats  # from each switch to each other group, shape (n, a, n)
    into: Floats  # to each switch from each other group, shape (n, a, n)
    local: Floats  # between switches of a group, shape (n, a, a)


class _PathLoads(NamedTuple):
    """Bytes on each part of the paths, for g groups of a switches with k gateways.

    A message from switch 1 of group 0 to switch 2 of group 5 loads ``out[0, 1, x]``, x the gateway whose
    cable leads there, ``between[0, 5]``, and ``into[5, 2, y]``, y the gateway at which the cable ends.
    """

    out: Floats  # from each switch to each gateway of its group, shape (g, a, k)
    into: Floats  # to each switch from each gateway of its group, shape (g, a, k)
    between: Floats  # between two groups, shape (g, g)
    transit: Floats  # from a gateway to another of the same group, shape (g, k, k)


class DragonflyRouter(Router):
    """Routes between the switches of a dragonfly.

    Attributes:
        groups: g, the groups that messages may pass, the first of the network.
        gateway: the switch, of the first group, at which a cable to the second ends, shape (g, g, cables).
        leaves: the share of a group's bytes for another that leaves by each gateway, shape (g, g, k); 0 for
            the group itself. As cables are the same both ways, it is also the share that enters.
        up, down, between: the places in ``wires`` of links to spines, from spines, and between groups;
            without spines ``up`` and ``down`` are one, of all links inside groups.
    """

    def __init__(self, wires: DragonflyWires) -> None:
        self.wired = wires  # the network; ``wires`` is the router's list of links
        self.groups = wires.groups_in_use
        numbers = np.arange(self.groups)
        distance = (numbers - numbers[:, None]) % wires.groups  # to the other group
        # DragonflyWires.gateway for all cables at once; a group's entries for itself mean nothing.
        cable = (np.maximum(distance, 1)[:, :, None] - 1) * wires.cables + np.arange(wires.cables)
        all_cables = max(1, (wires.groups - 1) * wires.cables)
        self.gateway = np.minimum(cable * wires.gateways // all_cables, wires.gateways - 1)
        leaves = np.zeros((self.groups, self.groups, wires.gateways))
        here, there, _ = np.indices(self.gateway.shape)
        np.add.at(leaves, (here, there, self.gateway), 1 / wires.cables)
        self.leaves = leaves * (distance > 0)[:, :, None]
        self.cached_loads: dict[tuple[bytes, bytes, bytes], list[Floats]] = {}
        self.wires = self._local_links()
        self.up = 0
        self.down = len(self.wires) - 1
        self.between = len(self.wires)
        cables = np.repeat(np.where(distance > 0, wires.global_Bps, 0.0).ravel(), wires.cables)
        self.wires.append(Wire("global links", cables))

    def _local_links(self) -> list[Wire]:
        """The links inside groups: from every leaf to every spine and back, or from switch to switch."""
        wires = self.wired
        if wires.spines:
            leaf_spine_Bps = np.full(self.groups * wires.switches * wires.gateways, wires.local_Bps)
            return [Wire("links up", leaf_spine_Bps), Wire("links down", leaf_spine_Bps)]
        itself = np.eye(wires.switches, dtype=bool).ravel()
        return [Wire("local links", np.tile(np.where(itself, 0.0, wires.local_Bps), self.groups))]

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints // self.wired.hosts

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Latency and links of the longest path that the routing takes: to the same switch, inside
        a group, or between groups."""
        wires = self.wired
        same_group = src // wires.switches == dst // wires.switches
        # the row of ``links``: 0 to the same switch, 1 inside a group, 2 between groups
        row = np.where(same_group, (src != dst) * 1, 2)
        links = np.array([(0, 0), *wires.longest_path_links])  # local and global ones
        seconds = links @ np.array([wires.local_alpha_s, wires.global_alpha_s])
        return seconds[row], links.sum(axis=1)[row]

    def name(self, number: int, resource: int) -> str:
        """``group 3 switch 1 -> 5``, ``group 3 -> 7``, ``group 3 leaf 1 -> spine 5``."""
        wires = self.wired
        if number == self.between:
            pair, cable = divmod(resource, wires.cables)
            from_group, to_group = divmod(pair, self.groups)
            of_pair = f" cable {cable}" if wires.cables > 1 else ""
            return f"group {from_group} -> {to_group}{of_pair}"
        start, gateway = divmod(resource, wires.gateways)
        group, switch = divmod(start, wires.switches)
        if not wires.spines:
            return f"group {group} switch {switch} -> {gateway}"
        if number == self.up:
            return f"group {group} leaf {switch} -> spine {gateway}"
        return f"group {group} spine {gateway} -> leaf {switch}"

    # Message by message.

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        messages = _RoutedMessages(*self._places(src), *self._places(dst), np.arange(len(src)))
        if self._takes_valiant(src, dst):
            yield from self._valiant_uses(messages)
        else:
            yield from self._minimal_uses(messages)

    def _minimal_uses(self, messages: _RoutedMessages) -> Iterator[LinkUse]:
        """Minimal paths, with bytes divided evenly over the cables between two groups."""
        a, i, b, j, _ = messages
        yield from self._inside_group(messages.where((a == b) & (i != j)))
        a, i, b, j, message = messages.where(a != b)
        share = np.full(len(message), 1 / self.wired.cables)
        for cable in range(self.wired.cables):
            yield self._leg(a, i, self.gateway[a, b, cable], message, share, out=True)
            yield self._cable(a, b, cable, message, share)
            yield self._leg(b, j, self.gateway[b, a, cable], message, share, out=False)

    def _valiant_uses(self, messages: _RoutedMessages) -> Iterator[LinkUse]:
        """Valiant's paths: an even share through every third switch of a group, or every third group."""
        a, i, b, j, _ = messages
        if self._can_detour_inside:
            for middle in range(self.wired.switches):
                near = messages.where((a == b) & (i != j) & (middle != i) & (middle != j))
                share = np.full(len(near.message), 1 / (self.wired.switches - 2))
                by_switch = np.full(len(near.message), middle)
                yield self._leg(near.a, near.i, by_switch, near.message, share, out=True)
                yield self._leg(near.a, near.j, by_switch, near.message, share, out=False)
        # Where there is no third switch or group, the path is minimal.
        is_minimal = np.where(a == b, not self._can_detour_inside, self.groups < 3)
        yield from self._minimal_uses(messages.where(is_minimal))
        if self.groups > 2:
            for middle in range(self.groups):
                far = messages.where((a != b) & (a != middle) & (b != middle))
                yield from self._through_group(middle, far)

    def _through_group(self, middle: int, messages: _RoutedMessages) -> Iterator[LinkUse]:
        """Links of the part of these messages that passes group ``middle``, which is neither end's.

        From the senders over every cable to it, through it to every gateway towards the receivers' groups,
        and on over every cable to these.
        """
        a, i, b, j, message = messages
        cables = self.wired.cables
        share = np.full(len(message), 1 / ((self.groups - 2) * cables))
        for cable in range(cables):
            yield self._leg(a, i, self.gateway[a, middle, cable], message, share, out=True)
            yield self._cable(a, np.full_like(a, middle), cable, message, share)
            enters = self.gateway[middle, a, cable]
            for onward_cable in range(cables):
                leaves = self.gateway[middle, b, onward_cable]
                changes = np.flatnonzero(enters != leaves)
                yield from self._transit(
                    middle,
                    enters[changes],
                    leaves[changes],
                    message[changes],
                    share[changes] / cables,
                )
            yield self._cable(np.full_like(b, middle), b, cable, message, share)
            yield self._leg(b, j, self.gateway[b, middle, cable], message, share, out=False)

    def _transit(
        self, group: int, start: Indices, end: Indices, message: Indices, share: Floats
    ) -> Iterator[LinkUse]:
        """Links from one gateway of a group to another: a direct one, or between spines an even part
        through each leaf."""
        here = np.full(len(message), group)
        if not self.wired.spines:
            yield self._leg(here, start, end, message, share, out=True)
            return
        part = share / self.wired.switches
        for number in range(self.wired.switches):
            leaf = np.full(len(message), number)
            yield self._leg(here, leaf, start, message, part, out=False)
            yield self._leg(here, leaf, end, message, part, out=True)

    def _places(self, switch: Indices) -> tuple[Indices, Indices]:
        """The group of each switch, and its number in the group."""
        return switch // self.wired.switches, switch % self.wired.switches

    @property
    def _can_detour_inside(self) -> bool:
        """Whether a message inside a group can pass a third switch of it instead of the direct link."""
        return self.wired.switches > 2 and not self.wired.spines

    def _inside_group(self, messages: _RoutedMessages) -> Iterator[LinkUse]:
        """Links of messages inside a group on minimal paths: a direct one, or an even part by each spine."""
        group, i, _, j, message = messages
        share = np.ones(len(message))
        if not self.wired.spines:
            yield self._leg(group, i, j, message, share, out=True)
        for number in range(self.wired.spines):
            spine = np.full(len(message), number)
            part = share / self.wired.spines
            yield self._leg(group, i, spine, message, part, out=True)
            yield self._leg(group, j, spine, message, part, out=False)

    def _cable(
        self, a: Indices, b: Indices, cable: int, message: Indices, share: Floats
    ) -> LinkUse:
        """A cable from group a to group b."""
        link = (a * self.groups + b) * self.wired.cables + cable
        return LinkUse(self.between, link, message, share)

    def _leg(
        self,
        group: Indices,
        switch: Indices,
        gateway: Indices,
        message: Indices,
        share: Floats,
        *,
        out: bool,
    ) -> LinkUse:
        """The link from a switch to a gateway of its group (``out``) or back; messages whose switch is
        that gateway use none."""
        wires = self.wired
        if wires.spines:
            link = (group * wires.switches + switch) * wires.spines + gateway
            return LinkUse(self.up if out else self.down, link, message, share)
        start, end = (switch, gateway) if out else (gateway, switch)
        link = (group * wires.switches + start) * wires.switches + end
        used = np.flatnonzero(switch != gateway)
        return LinkUse(self.up, link[used], message[used], share[used])

    # All messages of a step at once.

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        if self.wired.routing == "minimal" and len(src) <= MOST_FOLLOWED_SINGLY:
            return super().loads(src, dst, size)
        # A price asks for the same step again: for other primitives, compositions and groups.
        step = (src.tobytes(), dst.tobytes(), size.tobytes())
        if step not in self.cached_loads:
            if len(self.cached_loads) == MOST_CACHED_STEPS:
                self.cached_loads.clear()
            self.cached_loads[step] = self._route(self._traffic(src, dst, size))
        return self.cached_loads[step]

    def to_all(self, ranks: Floats) -> list[Floats]:
        switches = self.wired.switches
        groups = ceil_div(len(ranks), switches)
        padded = np.zeros(groups * switches)
        padded[: len(ranks)] = ranks
        of_switch = padded.reshape(groups, switches)  # ranks, shape (g, a)
        # A byte for every pair of ranks: (g, a, g) from switches to groups, (g, a, a) inside groups. As much
        # comes back, so ``sent`` is also what each switch receives.
        sent = of_switch[:, :, None] * of_switch.sum(axis=1)
        local = of_switch[:, :, None] * of_switch[:, None]
        group = np.arange(groups)
        switch = np.arange(switches)
        sent[group, :, group] = 0.0
        local[:, switch, switch] = 0.0
        return self._route(_GroupTraffic(group, sent, sent, local))

    def _route(self, traffic: _GroupTraffic) -> list[Floats]:
        """Bytes on every link, an array for each of :attr:`wires`, by the network's routing."""
        match self.wired.routing:
            case "minimal":
                return self._minimal_loads(traffic)
            case "valiant":
                return self._valiant_loads(traffic)
            case "adaptive":
                return self._adaptive_loads(traffic)[0]
            case _:
                assert_never(self.wired.routing)

    def _takes_valiant(self, src: Indices, dst: Indices) -> bool:
        """Whether these messages take Valiant's paths; adaptive routing decides it for all together, as if
        they were of one size."""
        if self.wired.routing == "adaptive":
            return self._adaptive_loads(self._traffic(src, dst, np.ones(len(src))))[1]
        return self.wired.routing == "valiant"

    def _adaptive_loads(self, traffic: _GroupTraffic) -> tuple[list[Floats], bool]:
        """The loads of minimal paths, or of Valiant's where the busiest link then takes less time, and
        whether they are Valiant's."""
        minimal = self._minimal_loads(traffic)
        valiant = self._valiant_loads(traffic)
        # The margin keeps rounding errors from deciding between equal loads.
        if self._busiest_s(valiant) < self._busiest_s(minimal) * (1 - 1e-9):
            return valiant, True
        return minimal, False

    def _busiest_s(self, loads: list[Floats]) -> float:
        """Seconds that the busiest link takes for these loads. All links of a kind have one rate, or 0 where
        there is none."""
        busiest = 0.0
        for wire, load in zip(self.wires, loads, strict=True):
            rate = float(wire.Bps.max(initial=0.0))
            if rate:
                busiest = max(busiest, float(load.max()) / rate)
        return busiest

    def _traffic(self, src: Indices, dst: Indices, size: Floats) -> _GroupTraffic:
        """The bytes of these messages, added up by switch and group; none for those within a switch."""
        a = self.wired.switches
        here, i = self._places(src)
        there, j = self._places(dst)
        # groups by their index among those that send or receive
        groups, index = np.unique(np.concatenate([here, there]), return_inverse=True)
        here, there = np.split(index.astype(np.int64), 2)
        n = len(groups)
        leaves_group = here != there
        far = np.where(leaves_group, size, 0.0)
        near = np.where(leaves_group | (i == j), 0.0, size)
        out = np.bincount((here * a + i) * n + there, far, n * a * n)
        into = np.bincount((there * a + j) * n + here, far, n * a * n)
        local = np.bincount((here * a + i) * a + j, near, n * a * a)
        return _GroupTraffic(
            groups,
            out.astype(np.float64).reshape(n, a, n),
            into.astype(np.float64).reshape(n, a, n),
            local.astype(np.float64).reshape(n, a, a),
        )

    def _minimal_loads(self, traffic: _GroupTraffic, *, detours: bool = False) -> list[Floats]:
        """Bytes on every link when traffic between groups takes the cables between the two; inside
        a group it may take ``detours``."""
        load = self._no_load()
        groups = traffic.groups
        # (n, a, other groups) times (n, other groups, k): what each switch sends to each gateway
        leaves = self.leaves[np.ix_(groups, groups)]
        load.out[groups] = traffic.out @ leaves
        load.into[groups] = traffic.into @ leaves
        load.between[np.ix_(groups, groups)] = traffic.out.sum(axis=1)
        return self._on_links(load, traffic, detours=detours)

    def _valiant_loads(self, traffic: _GroupTraffic) -> list[Floats]:
        """Bytes on every link when traffic between two groups is divided evenly over all other
        groups in the middle."""
        others = self.groups - 2
        if others < 1:
            return self._minimal_loads(traffic, detours=self._can_detour_inside)
        load = self._no_load()
        groups = traffic.groups
        # The way to the middle groups, and the way from them; there cables lead the other way.
        directions = (
            (load.out, traffic.out, load.between),
            (load.into, traffic.into, load.between.T),
        )
        for legs, sent, between in directions:
            # Bytes of each switch through each group: all but what goes to that group itself.
            through = np.repeat(sent.sum(axis=2)[:, :, None] / others, self.groups, axis=2)
            through[:, :, groups] -= sent / others
            # and not what would go through the switch's own group
            through[np.arange(len(groups)), :, groups] = 0.0
            legs[groups] = through @ self.leaves[groups]
            between[groups] += through.sum(axis=1)
        # Bytes between two groups by way of each other one, shape (n, n).
        through_each = traffic.out.sum(axis=1) / others
        # Of each middle group the shares of its gateways on the way to other groups, shape (g, n, k); 0
        # for its own traffic. Bytes from gateway to gateway: shares in, times bytes, times shares out.
        gateways = self.leaves[:, groups]
        load.transit[:] = gateways.transpose(0, 2, 1) @ (through_each @ gateways)
        return self._on_links(load, traffic, detours=self._can_detour_inside)

    def _no_load(self) -> _PathLoads:
        """Loads of nothing, to be filled in."""
        g = self.groups
        a = self.wired.switches
        k = self.wired.gateways
        return _PathLoads(
            out=np.zeros((g, a, k)),
            into=np.zeros((g, a, k)),
            between=np.zeros((g, g)),
            transit=np.zeros((g, k, k)),
        )

    def _on_links(self, load: _PathLoads, traffic: _GroupTraffic, *, detours: bool) -> list[Floats]:
        """Bytes on every link, an array for each of :attr:`wires`. Traffic inside groups goes over
        direct links, or by ``detours`` through another switch of the group."""
        wires = self.wired
        groups = traffic.groups
        between = np.repeat(load.between.ravel() / wires.cables, wires.cables)
        sent = traffic.local.sum(axis=2, keepdims=True)
        received = traffic.local.sum(axis=1, keepdims=True)
        itself = np.arange(wires.gateways)
        load.transit[:, itself, itself] = 0.0
        if wires.spines:
            load.out[groups] += sent / wires.spines
            load.into[groups] += received.transpose(0, 2, 1) / wires.spines
            # from one spine to another: down to every leaf and up again
            load.out[:] += load.transit.sum(axis=1)[:, None] / wires.switches
            load.into[:] += load.transit.sum(axis=2)[:, None] / wires.switches
            return [load.out.ravel(), load.into.ravel(), between]
        # Switches are gateways themselves: from switch to gateway, from gateway to switch, and between two.
        local = load.out + load.into.transpose(0, 2, 1) + load.transit
        if detours:
            # A link passes what its start sends to others than its end, and what its end gets from others
            # than its start.
            local[groups] += (sent + received - 2 * traffic.local) / (wires.switches - 2)
        else:
            local[groups] += traffic.local
        local[:, itself, itself] = 0.0
        return [local.ravel(), between]
