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

from colltool.network.arrays import Floats, Indices
from colltool.network.links import LinkUse
from colltool.network.routers import Router, Wire
from colltool.network.wires import DragonflyWires

FEW = 4096  # messages that are quicker to follow one by one than summed by switch


class _Flows(NamedTuple):
    """Bytes of a step among the n groups that send or receive."""

    groups: Indices  # their numbers, shape (n,)
    out: Floats  # from each switch to each other group, shape (n, a, n)
    into: Floats  # to each switch from each other group, shape (n, a, n)
    local: Floats  # between switches of a group, shape (n, a, a)


class _Between(NamedTuple):
    """Bytes between switches and gateways, shape (g, a, k), between groups, (g, g), and among
    gateways of a group, (g, k, k)."""

    out: Floats
    into: Floats
    far: Floats
    turned: Floats


class DragonflyRouter(Router):
    def __init__(self, wires: DragonflyWires) -> None:
        self.wired = wires
        self.groups = g = wires.met
        a, k, cables = wires.switches, wires.gateways, wires.cables
        other = (np.arange(g) - np.arange(g)[:, None]) % wires.groups  # distance to the other group
        port = (np.maximum(other, 1)[:, :, None] - 1) * cables + np.arange(cables)
        # shape (g, g, cables)
        self.gateway = np.minimum(port * k // max(1, (wires.groups - 1) * cables), k - 1)
        # share of a group's traffic to another that leaves by each gateway
        leaves = np.zeros((g, g, k))
        np.add.at(leaves, (*np.indices(self.gateway.shape)[:2], self.gateway), 1 / cables)
        self.leaves = leaves * (other > 0)[:, :, None]
        cable = np.where(other[:, :, None] > 0, wires.global_Bps, 0.0) * np.ones(cables)
        self.wires = []
        if wires.spines:
            for name in ("links up", "links down"):
                self.wires.append(Wire(name, np.full(g * a * k, wires.local_Bps)))
        else:
            self.wires.append(
                Wire(
                    "local links", np.tile(np.where(np.eye(a) > 0, 0.0, wires.local_Bps).ravel(), g)
                )
            )
        self.wires.append(Wire("global links", cable.ravel()))
        self.up, self.down, self.far = (0, 1, 2) if wires.spines else (0, 0, 1)

    def node_of(self, endpoints: Indices) -> Indices:
        return endpoints // self.wired.hosts

    def latency(self, src: Indices, dst: Indices) -> tuple[Floats, Indices]:
        """By distance: of the longest way that the routing takes."""
        wires = self.wired
        here, there = src // wires.switches, dst // wires.switches
        distance = np.where(here != there, 2, (src != dst) * 1)
        passed = np.array([(0, 0), *wires.longest])
        seconds = passed @ np.array([wires.local_alpha_s, wires.global_alpha_s])
        return seconds[distance], passed.sum(axis=1)[distance]

    def name(self, number: int, resource: int) -> str:
        """``group 3 switch 1 -> 5``, ``group 3 -> 7``, ``group 3 leaf 1 -> spine 5``."""
        wires = self.wired
        if number == self.far:
            rest, cable = divmod(resource, wires.cables)
            a, b = divmod(rest, self.groups)
            return f"group {a} -> {b}" + (f" cable {cable}" if wires.cables > 1 else "")
        rest, b = divmod(resource, wires.gateways)
        group, a = divmod(rest, wires.switches)
        if not wires.spines:
            return f"group {group} switch {a} -> {b}"
        return f"group {group} " + (
            f"leaf {a} -> spine {b}" if number == self.up else f"spine {b} -> leaf {a}"
        )

    # message by message

    def uses(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        yield from self._round(src, dst) if self._detours(src, dst) else self._straight(src, dst)

    def _straight(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        (a, i), (b, j) = self._places(src), self._places(dst)
        yield from self._inside(a, i, j, np.flatnonzero((a == b) & (i != j)))
        far = np.flatnonzero(a != b)
        share = np.full(len(far), 1 / self.wired.cables)
        for cable in range(self.wired.cables):
            yield self._leg(
                a[far], i[far], self.gateway[a[far], b[far], cable], far, share, out=True
            )
            yield LinkUse(
                self.far, (a[far] * self.groups + b[far]) * self.wired.cables + cable, far, share
            )
            yield self._leg(
                b[far], j[far], self.gateway[b[far], a[far], cable], far, share, out=False
            )

    def _round(self, src: Indices, dst: Indices) -> Iterator[LinkUse]:
        wires, (a, i), (b, j) = self.wired, self._places(src), self._places(dst)
        for by in range(wires.switches if self._turns_inside else 0):
            here = np.flatnonzero((a == b) & (i != j) & (by != i) & (by != j))
            share, other = np.full(len(here), 1 / (wires.switches - 2)), np.full(len(here), by)
            yield self._leg(a[here], i[here], other, here, share, out=True)
            yield self._leg(a[here], j[here], other, here, share, out=False)
        some = np.flatnonzero(np.where(a == b, not self._turns_inside, self.groups < 3))
        for use in self._straight(src[some], dst[some]):
            yield use._replace(message=some[use.message])
        for by in range(self.groups if self.groups > 2 else 0):
            some = np.flatnonzero((a != b) & (a != by) & (b != by))
            yield from self._by_way_of(by, a[some], i[some], b[some], j[some], some)

    def _by_way_of(
        self, by: int, a: Indices, i: Indices, b: Indices, j: Indices, message: Indices
    ) -> Iterator[LinkUse]:
        """To any gateway of another group, there to any that leads on."""
        wires = self.wired
        share = np.full(len(message), 1 / ((self.groups - 2) * wires.cables))
        for cable in range(wires.cables):
            yield self._leg(a, i, self.gateway[a, by, cable], message, share, out=True)
            yield LinkUse(self.far, (a * self.groups + by) * wires.cables + cable, message, share)
            for other in range(wires.cables):
                one, two = self.gateway[by, a, cable], self.gateway[by, b, other]
                turns = np.flatnonzero(one != two)
                here, part = np.full(len(turns), by), share[turns] / wires.cables
                if not wires.spines:
                    yield self._leg(here, one[turns], two[turns], message[turns], part, out=True)
                for leaf in range(wires.switches if wires.spines else 0):
                    yield self._leg(
                        here,
                        0 * here + leaf,
                        one[turns],
                        message[turns],
                        part / wires.switches,
                        out=False,
                    )
                    yield self._leg(
                        here,
                        0 * here + leaf,
                        two[turns],
                        message[turns],
                        part / wires.switches,
                        out=True,
                    )
            yield LinkUse(self.far, (by * self.groups + b) * wires.cables + cable, message, share)
            yield self._leg(b, j, self.gateway[b, by, cable], message, share, out=False)

    def _places(self, switch: Indices) -> tuple[Indices, Indices]:
        """Group, and number in it."""
        return switch // self.wired.switches, switch % self.wired.switches

    @property
    def _turns_inside(self) -> bool:
        """Whether a message inside a group can take a way round."""
        return self.wired.switches > 2 and not self.wired.spines

    def _inside(
        self, group: Indices, i: Indices, j: Indices, message: Indices
    ) -> Iterator[LinkUse]:
        share = np.ones(len(message))
        if not self.wired.spines:
            yield self._leg(group[message], i[message], j[message], message, share, out=True)
        for spine in range(self.wired.spines):
            for end, out in ((i, True), (j, False)):
                yield self._leg(
                    group[message],
                    end[message],
                    0 * message + spine,
                    message,
                    share / self.wired.spines,
                    out=out,
                )

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
        passed = np.flatnonzero(switch != gateway)
        start, end = (switch, gateway) if out else (gateway, switch)
        link = (group * wires.switches + start) * wires.switches + end
        return LinkUse(0, link[passed], message[passed], share[passed])

    # all at once

    def loads(self, src: Indices, dst: Indices, size: Floats) -> list[Floats]:
        if self.wired.routing == "minimal" and len(src) <= FEW:
            return super().loads(src, dst, size)
        return self._routed(self._traffic(src, dst, size))

    def to_all(self, there: Floats) -> list[Floats]:
        groups = -(-len(there) // self.wired.switches)
        at = np.append(there, np.zeros(groups * self.wired.switches - len(there))).reshape(
            groups, -1
        )
        sent = at[:, :, None] * at.sum(axis=1)
        sent[np.arange(groups), :, np.arange(groups)] = 0.0
        local = at[:, :, None] * at[:, None]
        local[:, np.arange(at.shape[1]), np.arange(at.shape[1])] = 0.0
        return self._routed(_Flows(np.arange(groups), sent, sent, local))

    def _routed(self, there: _Flows) -> list[Floats]:
        match self.wired.routing:
            case "minimal":
                return self._minimal(there)
            case "valiant":
                return self._valiant(there)
            case "adaptive":
                return self._better(there)[0]
            case _:
                assert_never(self.wired.routing)

    def _detours(self, src: Indices, dst: Indices) -> bool:
        if self.wired.routing == "adaptive":
            return self._better(self._traffic(src, dst, np.ones(len(src))))[1]
        return self.wired.routing == "valiant"

    def _better(self, there: _Flows) -> tuple[list[Floats], bool]:
        """The loads of minimal routes, or by way of others where these load the busiest link less,
        and whether they do."""
        minimal, valiant = self._minimal(there), self._valiant(there)
        detours = self._busiest_s(valiant) < self._busiest_s(minimal) * (1 - 1e-9)
        return (valiant if detours else minimal), detours

    def _busiest_s(self, loads: list[Floats]) -> float:
        rates = [float(wire.Bps.max(initial=0.0)) for wire in self.wires]
        return max(
            (float(load.max()) / rate for load, rate in zip(loads, rates, strict=True) if rate),
            default=0.0,
        )

    def _traffic(self, src: Indices, dst: Indices, size: Floats) -> _Flows:
        a = self.wired.switches
        (here, i), (there, j) = self._places(src), self._places(dst)
        groups, at = np.unique(np.concatenate([here, there]), return_inverse=True)
        here, there = np.split(at.astype(np.int64), 2)
        n, apart = len(groups), here != there
        away, near = np.where(apart, size, 0.0), np.where(apart | (i == j), 0.0, size)
        out = np.bincount((here * a + i) * n + there, away, n * a * n).reshape(n, a, n)
        into = np.bincount((there * a + j) * n + here, away, n * a * n).reshape(n, a, n)
        local = np.bincount((here * a + i) * a + j, near, n * a * a).reshape(n, a, a)
        return _Flows(groups, *(sums.astype(np.float64) for sums in (out, into, local)))

    def _minimal(self, there: _Flows, *, turns: bool = False) -> list[Floats]:
        loads, at = self._none(), there.groups
        leaves = self.leaves[np.ix_(at, at)]
        loads.out[at], loads.into[at] = there.out @ leaves, there.into @ leaves
        loads.far[np.ix_(at, at)] = there.out.sum(axis=1)
        return self._on_links(loads, there, turns=turns)

    def _valiant(self, there: _Flows) -> list[Floats]:
        """Each group X other than its own two has an equal part of what goes from a group to
        another."""
        others = self.groups - 2
        if others < 1:
            return self._minimal(there, turns=self._turns_inside)
        loads, at, between = self._none(), there.groups, there.out.sum(axis=1) / others
        for legs, sent, ways in (
            (loads.out, there.out, loads.far),
            (loads.into, there.into, loads.far.T),
        ):
            by_way = np.repeat(sent.sum(axis=2)[:, :, None] / others, self.groups, axis=2)
            by_way[:, :, at] -= sent / others
            by_way[np.arange(len(at)), :, at] = 0.0
            legs[at] = by_way @ self.leaves[at]
            ways[at] += by_way.sum(axis=1)
        ends = self.leaves[:, at]  # none at X itself
        loads.turned[:] = ends.transpose(0, 2, 1) @ (between @ ends)
        return self._on_links(loads, there, turns=self._turns_inside)

    def _none(self) -> _Between:
        g, a, k = self.groups, self.wired.switches, self.wired.gateways
        return _Between(
            np.zeros((g, a, k)), np.zeros((g, a, k)), np.zeros((g, g)), np.zeros((g, k, k))
        )

    def _on_links(self, loads: _Between, there: _Flows, *, turns: bool = False) -> list[Floats]:
        """Bytes on every link, what stays in a group included: straight, or it ``turns`` at another
        switch of the group."""
        a, at = self.wired.switches, there.groups
        far = np.repeat(loads.far.ravel() / self.wired.cables, self.wired.cables)
        sent, came = there.local.sum(axis=2, keepdims=True), there.local.sum(axis=1, keepdims=True)
        same = np.arange(self.wired.gateways)
        loads.turned[:, same, same] = 0.0
        if self.wired.spines:
            loads.out[at] += sent / self.wired.spines
            loads.into[at] += came.transpose(0, 2, 1) / self.wired.spines
            loads.out[:] += loads.turned.sum(axis=1)[:, None] / a
            loads.into[:] += loads.turned.sum(axis=2)[:, None] / a
            return [loads.out.ravel(), loads.into.ravel(), far]
        local = loads.out + loads.into.transpose(0, 2, 1) + loads.turned
        local[at] += (sent + came - 2 * there.local) / (a - 2) if turns else there.local
        local[:, same, same] = 0.0
        return [local.ravel(), far]
