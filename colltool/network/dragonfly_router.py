"""Routes of a dragonfly: local and global links that each message takes, or all the traffic of a
step at once.

A minimal way is local, global, local; by way of another group X it is minimal to X and on from
there. Traffic is spread evenly over the cables between two groups, and over all groups X. Inside a
group the way round is by one other switch; in a dragonfly+ every way goes by a spine, over all of
which it is spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, assert_never

import numpy as np

from colltool.base.primitives import ceil_div
from colltool.network.arrays import Floats, Indices
from colltool.network.links import LinkUse
from colltool.network.routers import Router, Wire
from colltool.network.wires import DragonflyWires

FEW = 4096  # messages that are quicker to follow one by one than summed by switch
MOST_KNOWN = 128  # steps whose loads are remembered: 1 MB each on Frontier


class _GroupTraffic(NamedTuple):
    """Bytes of a step among the n groups that send or receive."""

    groups: Indices  # their numbers, shape (n,)
    out: Floats  # from each switch to each other group, shape (n, a, n)
    into: Floats  # to each switch from each other group, shape (n, a, n)
    local: Floats  # between switches of a group, shape (n, a, a)


class _WayLoads(NamedTuple):
    """Bytes between switches and gateways, shape (g, a, k), between groups, (g, g), and among
    gateways of a group, (g, k, k)."""

    out: Floats
    into: Floats
    far: Floats
    turned: Floats


class DragonflyRouter(Router):
    """Routes between the switches of a dragonfly, numbered group by group."""

    def __init__(self, wires: DragonflyWires) -> None:
        self.wired = wires
        self.groups = wires.groups_in_use
        numbers = np.arange(self.groups)
        distance = (numbers - numbers[:, None]) % wires.groups  # to the other group
        # the switch at which each cable to each other group ends, shape (g, g, cables)
        port = (np.maximum(distance, 1)[:, :, None] - 1) * wires.cables + np.arange(wires.cables)
        ports = max(1, (wires.groups - 1) * wires.cables)
        self.gateway = np.minimum(port * wires.gateways // ports, wires.gateways - 1)
        # the share of a group's traffic to another that leaves by each gateway
        leaves = np.zeros((self.groups, self.groups, wires.gateways))
        here, there, _ = np.indices(self.gateway.shape)
        np.add.at(leaves, (here, there, self.gateway), 1 / wires.cables)
        self.leaves = leaves * (distance > 0)[:, :, None]
        self.known: dict[tuple[bytes, bytes, bytes], list[Floats]] = {}
        self.wires = self._local_links()
        self.up = 0
        self.down = len(self.wires) - 1
        self.far = len(self.wires)
        cables = np.repeat(np.where(distance > 0, wires.global_Bps, 0.0).ravel(), wires.cables)
        self.wires.append(Wire("global links", cables))

    def _local_links(self) -> list[Wire]:
        wires = self.wired
        if wires.spines:
            each = np.full(self.groups * wires.switches * wires.gateways, wires.local_Bps)
            return [Wire("links up", each), Wire("links down", each)]
        itself = np.eye(wires.switches, dtype=bool).ravel()
        return [Wire("local links", np.tile(np.where(itself, 0.0, wires.local_Bps), self.groups))]

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints // self.wired.hosts

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """Latency of the longest way that the routing takes at a distance."""
        wires = self.wired
        same_group = src // wires.switches == dst // wires.switches
        distance = np.where(same_group, (src != dst) * 1, 2)
        passed = np.array([(0, 0), *wires.longest_path_links])  # local and global links
        seconds = passed @ np.array([wires.local_alpha_s, wires.global_alpha_s])
        return seconds[distance], passed.sum(axis=1)[distance]

    def name(self, number: int, resource: int) -> str:
        """``group 3 switch 1 -> 5``, ``group 3 -> 7``, ``group 3 leaf 1 -> spine 5``."""
        wires = self.wired
        if number == self.far:
            pair, cable = divmod(resource, wires.cables)
            a, b = divmod(pair, self.groups)
            which = f" cable {cable}" if wires.cables > 1 else ""
            return f"group {a} -> {b}{which}"
        start, b = divmod(resource, wires.gateways)
        group, a = divmod(start, wires.switches)
        if not wires.spines:
            return f"group {group} switch {a} -> {b}"
        if number == self.up:
            return f"group {group} leaf {a} -> spine {b}"
        return f"group {group} spine {b} -> leaf {a}"

    # message by message

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        if self._detours(src, dst):
            yield from self._round(src, dst)
        else:
            yield from self._straight(src, dst)

    def _straight(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """Minimal routes, spread evenly over the cables between two groups."""
        a, i = self._places(src)
        b, j = self._places(dst)
        near = np.flatnonzero((a == b) & (i != j))
        yield from self._inside(a[near], i[near], j[near], near)
        far = np.flatnonzero(a != b)
        a = a[far]
        i = i[far]
        b = b[far]
        j = j[far]
        share = np.full(len(far), 1 / self.wired.cables)
        for cable in range(self.wired.cables):
            yield self._leg(a, i, self.gateway[a, b, cable], far, share, out=True)
            yield self._cable(a, b, cable, far, share)
            yield self._leg(b, j, self.gateway[b, a, cable], far, share, out=False)

    def _round(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        """Valiant's routes: by way of every other switch of a group, and of every other group."""
        a, i = self._places(src)
        b, j = self._places(dst)
        if self._turns_inside:
            for by in range(self.wired.switches):
                near = np.flatnonzero((a == b) & (i != j) & (by != i) & (by != j))
                share = np.full(len(near), 1 / (self.wired.switches - 2))
                other = np.full(len(near), by)
                yield self._leg(a[near], i[near], other, near, share, out=True)
                yield self._leg(a[near], j[near], other, near, share, out=False)
        # where there is no other switch or group, straight on
        straight = np.flatnonzero(np.where(a == b, not self._turns_inside, self.groups < 3))
        for use in self._straight(src[straight], dst[straight]):
            yield use._replace(message=straight[use.message])
        if self.groups > 2:
            for by in range(self.groups):
                far = np.flatnonzero((a != b) & (a != by) & (b != by))
                yield from self._by_way_of(by, a[far], i[far], b[far], j[far], far)

    def _by_way_of(
        self, by: int, a: Indices, i: Indices, b: Indices, j: Indices, message: Indices
    ) -> Iterator[LinkUse]:
        """Links to any gateway of another group, and there to any that leads on."""
        wires = self.wired
        share = np.full(len(message), 1 / ((self.groups - 2) * wires.cables))
        for cable in range(wires.cables):
            yield self._leg(a, i, self.gateway[a, by, cable], message, share, out=True)
            yield self._cable(a, np.full_like(a, by), cable, message, share)
            enters = self.gateway[by, a, cable]
            for onward in range(wires.cables):
                leaves = self.gateway[by, b, onward]
                turns = np.flatnonzero(enters != leaves)
                yield from self._turn(
                    by, enters[turns], leaves[turns], message[turns], share[turns] / wires.cables
                )
            yield self._cable(np.full_like(b, by), b, cable, message, share)
            yield self._leg(b, j, self.gateway[b, by, cable], message, share, out=False)

    def _turn(
        self, group: int, start: Indices, end: Indices, message: Indices, share: Floats
    ) -> Iterator[LinkUse]:
        """Links from one gateway of a group to another: straight, or by its leaves."""
        here = np.full(len(message), group)
        if not self.wired.spines:
            yield self._leg(here, start, end, message, share, out=True)
            return
        part = share / self.wired.switches
        for leaf in range(self.wired.switches):
            at = np.full(len(message), leaf)
            yield self._leg(here, at, start, message, part, out=False)
            yield self._leg(here, at, end, message, part, out=True)

    def _places(self, switch: Indices) -> tuple[Indices, Indices]:
        """The group of each switch, and its number there."""
        return switch // self.wired.switches, switch % self.wired.switches

    @property
    def _turns_inside(self) -> bool:
        """Whether a message inside a group can take a way round."""
        return self.wired.switches > 2 and not self.wired.spines

    def _inside(
        self, group: Indices, i: Indices, j: Indices, message: Indices
    ) -> Iterator[LinkUse]:
        """Links from one switch of a group to another."""
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
        """A cable from a group to another."""
        link = (a * self.groups + b) * self.wired.cables + cable
        return LinkUse(self.far, link, message, share)

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
        """The link from a switch to a gateway of its group, or back; none where they are one."""
        wires = self.wired
        if wires.spines:
            link = (group * wires.switches + switch) * wires.spines + gateway
            return LinkUse(self.up if out else self.down, link, message, share)
        start, end = (switch, gateway) if out else (gateway, switch)
        link = (group * wires.switches + start) * wires.switches + end
        passed = np.flatnonzero(switch != gateway)
        return LinkUse(self.up, link[passed], message[passed], share[passed])

    # all at once

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        if self.wired.routing == "minimal" and len(src) <= FEW:
            return super().loads(src, dst, size)
        # A price asks for the same step again: for other primitives, compositions and groups.
        step = (src.tobytes(), dst.tobytes(), size.tobytes())
        if step not in self.known:
            if len(self.known) == MOST_KNOWN:
                self.known.clear()
            self.known[step] = self._routed(self._traffic(src, dst, size))
        return self.known[step]

    def to_all(self, there: Floats) -> list[Floats]:
        switches = self.wired.switches
        groups = ceil_div(len(there), switches)
        ranks = np.zeros(groups * switches)
        ranks[: len(there)] = there
        at = ranks.reshape(groups, switches)
        sent = at[:, :, None] * at.sum(axis=1)
        local = at[:, :, None] * at[:, None]
        group = np.arange(groups)
        switch = np.arange(switches)
        sent[group, :, group] = 0.0
        local[:, switch, switch] = 0.0
        return self._routed(_GroupTraffic(group, sent, sent, local))

    def _routed(self, traffic: _GroupTraffic) -> list[Floats]:
        match self.wired.routing:
            case "minimal":
                return self._minimal(traffic)
            case "valiant":
                return self._valiant(traffic)
            case "adaptive":
                return self._better(traffic)[0]
            case _:
                assert_never(self.wired.routing)

    def _detours(self, src: Indices, dst: Indices) -> bool:
        """Whether these messages go by way of other groups."""
        if self.wired.routing == "adaptive":
            return self._better(self._traffic(src, dst, np.ones(len(src))))[1]
        return self.wired.routing == "valiant"

    def _better(self, traffic: _GroupTraffic) -> tuple[list[Floats], bool]:
        """The loads of minimal routes, or by way of others where these load the busiest link less,
        and whether they do."""
        minimal = self._minimal(traffic)
        valiant = self._valiant(traffic)
        if self._busiest_s(valiant) < self._busiest_s(minimal) * (1 - 1e-9):
            return valiant, True
        return minimal, False

    def _busiest_s(self, loads: list[Floats]) -> float:
        """Seconds that the busiest link takes."""
        busiest = 0.0
        for wire, load in zip(self.wires, loads, strict=True):
            rate = float(wire.Bps.max(initial=0.0))
            if rate:
                busiest = max(busiest, float(load.max()) / rate)
        return busiest

    def _traffic(self, src: Indices, dst: Indices, size: Floats) -> _GroupTraffic:
        """What each switch sends to each group and receives from it, and to its own group's."""
        a = self.wired.switches
        here, i = self._places(src)
        there, j = self._places(dst)
        groups, at = np.unique(np.concatenate([here, there]), return_inverse=True)
        here, there = np.split(at.astype(np.int64), 2)
        n = len(groups)
        apart = here != there
        away = np.where(apart, size, 0.0)
        near = np.where(apart | (i == j), 0.0, size)
        out = np.bincount((here * a + i) * n + there, away, n * a * n)
        into = np.bincount((there * a + j) * n + here, away, n * a * n)
        local = np.bincount((here * a + i) * a + j, near, n * a * a)
        return _GroupTraffic(
            groups,
            out.astype(np.float64).reshape(n, a, n),
            into.astype(np.float64).reshape(n, a, n),
            local.astype(np.float64).reshape(n, a, a),
        )

    def _minimal(self, traffic: _GroupTraffic, *, turns: bool = False) -> list[Floats]:
        load = self._no_load()
        at = traffic.groups
        leaves = self.leaves[np.ix_(at, at)]
        load.out[at] = traffic.out @ leaves
        load.into[at] = traffic.into @ leaves
        load.far[np.ix_(at, at)] = traffic.out.sum(axis=1)
        return self._on_links(load, traffic, turns=turns)

    def _valiant(self, traffic: _GroupTraffic) -> list[Floats]:
        """Each group X other than its own two has an equal part of what goes from a group to
        another."""
        others = self.groups - 2
        if others < 1:
            return self._minimal(traffic, turns=self._turns_inside)
        load = self._no_load()
        at = traffic.groups
        directions = (
            (load.out, traffic.out, load.far),
            (load.into, traffic.into, load.far.T),
        )
        for legs, sent, far in directions:
            # what each switch sends by way of each group
            by_way = np.repeat(sent.sum(axis=2)[:, :, None] / others, self.groups, axis=2)
            by_way[:, :, at] -= sent / others
            by_way[np.arange(len(at)), :, at] = 0.0
            legs[at] = by_way @ self.leaves[at]
            far[at] += by_way.sum(axis=1)
        between = traffic.out.sum(axis=1) / others
        ends = self.leaves[:, at]  # none at X itself
        load.turned[:] = ends.transpose(0, 2, 1) @ (between @ ends)
        return self._on_links(load, traffic, turns=self._turns_inside)

    def _no_load(self) -> _WayLoads:
        g = self.groups
        a = self.wired.switches
        k = self.wired.gateways
        return _WayLoads(
            out=np.zeros((g, a, k)),
            into=np.zeros((g, a, k)),
            far=np.zeros((g, g)),
            turned=np.zeros((g, k, k)),
        )

    def _on_links(self, load: _WayLoads, traffic: _GroupTraffic, *, turns: bool) -> list[Floats]:
        """Bytes on every link, what stays in a group included: straight, or it ``turns`` at another
        switch of the group."""
        wires = self.wired
        at = traffic.groups
        far = np.repeat(load.far.ravel() / wires.cables, wires.cables)
        sent = traffic.local.sum(axis=2, keepdims=True)
        came = traffic.local.sum(axis=1, keepdims=True)
        itself = np.arange(wires.gateways)
        load.turned[:, itself, itself] = 0.0
        if wires.spines:
            load.out[at] += sent / wires.spines
            load.into[at] += came.transpose(0, 2, 1) / wires.spines
            load.out[:] += load.turned.sum(axis=1)[:, None] / wires.switches
            load.into[:] += load.turned.sum(axis=2)[:, None] / wires.switches
            return [load.out.ravel(), load.into.ravel(), far]
        local = load.out + load.into.transpose(0, 2, 1) + load.turned
        if turns:
            local[at] += (sent + came - 2 * traffic.local) / (wires.switches - 2)
        else:
            local[at] += traffic.local
        local[:, itself, itself] = 0.0
        return [local.ravel(), far]
