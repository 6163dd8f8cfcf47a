"""The most that nodes can send each other over links of whole units, and the cut that keeps it from
being more (Dinic)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Capacities = dict[int, dict[int, int]]  # node, next node -> whole units
ENDLESS = 1 << 60


class FlowNetwork:
    """Links as numbered arcs, to ask for many flows over the same ones.

    Arc ``a ^ 1`` is the way back of arc ``a``: what flows along one can flow back along the other.
    """

    def __init__(self, capacity: Mapping[int, Mapping[int, int]]) -> None:
        self.out: dict[int, list[int]] = {node: [] for node in capacity}  # arcs that leave a node
        self.ends: list[int] = []
        self.capacity: list[int] = []
        for node, row in capacity.items():
            for to, units in row.items():
                if units:
                    self.add(node, to, units)

    def add(self, node: int, to: int, units: int) -> int:
        """Add an arc; its number."""
        arc = len(self.ends)
        self.out.setdefault(node, []).append(arc)
        self.out.setdefault(to, []).append(arc + 1)
        self.ends += [to, node]
        self.capacity += [units, 0]
        return arc

    def max_flow(self, source: int, sink: int, enough: int = ENDLESS) -> tuple[int, set[int]]:
        """The most whole units from source to sink, or ``enough``, and the nodes on the source's
        side of the least cut."""
        return self.fill(self.capacity.copy(), source, sink, enough)

    def fill(
        self, left: list[int], source: int, sink: int, enough: int = ENDLESS
    ) -> tuple[int, set[int]]:
        """:meth:`max_flow` over what is ``left`` of every arc, which is updated."""
        moved = 0
        while True:
            level = self._levels(left, source, sink)
            if sink not in level or moved >= enough:
                return moved, set(level)
            ways = {node: iter(self.out[node]) for node in level}
            while units := self._augment(left, level, ways, source, sink):
                moved += units

    def _levels(self, left: list[int], source: int, sink: int) -> dict[int, int]:
        """How many arcs from the source each node is, up to the sink."""
        ends = self.ends
        level = {source: 0}
        waiting = [source]
        for node in waiting:
            for arc in self.out.get(node, ()):
                if left[arc]:
                    to = ends[arc]
                    if to not in level:
                        level[to] = level[node] + 1
                        waiting.append(to)
            if sink in level:
                break
        return level

    def _augment(
        self,
        left: list[int],
        level: Mapping[int, int],
        ways: Mapping[int, Iterator[int]],
        source: int,
        sink: int,
    ) -> int:
        """Send what one more way along rising levels carries, and return that."""
        ends = self.ends
        path: list[int] = []
        node = source
        while node != sink:
            above = level[node] + 1
            for arc in ways[node]:
                if left[arc] and level.get(ends[arc]) == above:
                    path.append(arc)
                    node = ends[arc]
                    break
            else:  # a dead end: one arc back
                if not path:
                    return 0
                node = ends[path.pop() ^ 1]
        units = min(left[arc] for arc in path)
        for arc in path:
            left[arc] -= units
            left[arc ^ 1] += units
        return units


def max_flow(
    capacity: Mapping[int, Mapping[int, int]], source: int, sink: int, enough: int = ENDLESS
) -> tuple[int, set[int]]:
    """A single flow over links, as :meth:`FlowNetwork.max_flow`."""
    return FlowNetwork(capacity).max_flow(source, sink, enough)
