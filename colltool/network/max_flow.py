"""Maximum flow and least cut over links of whole capacities.

Dinic's algorithm, with the links kept between flows: the synthesis of trees asks for many flows over
the same links. :func:`max_flow` is for a single flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Capacities = dict[int, dict[int, int]]  # node -> next node -> capacity
ENDLESS = 1 << 60  # more than any sum of capacities


class FlowNetwork:
    """Links as numbered arcs, for many flows over the same links.

    Arcs are added in pairs of even and odd numbers: ``arc ^ 1`` is the reverse of ``arc``. Flow along one
    adds capacity to the other.
    """

    def __init__(self, capacity: Mapping[int, Mapping[int, int]]) -> None:
        self.out: dict[int, list[int]] = {node: [] for node in capacity}  # arcs that leave a node
        self.ends: list[int] = []  # the node at the end of each arc
        self.capacity: list[int] = []
        for node, neighbours in capacity.items():
            for end, units in neighbours.items():
                if units:
                    self.add(node, end, units)

    def add(self, node: int, end: int, units: int) -> int:
        """Add an arc and its reverse; returns the arc's number."""
        arc = len(self.ends)
        self.out.setdefault(node, []).append(arc)
        self.out.setdefault(end, []).append(arc + 1)
        self.ends += [end, node]
        self.capacity += [units, 0]
        return arc

    def max_flow(self, source: int, sink: int, enough: int = ENDLESS) -> tuple[int, set[int]]:
        """The maximum flow from source to sink and the nodes on the source's side of a least cut. It stops
        once the flow is ``enough``; the nodes are then no cut."""
        return self.fill(self.capacity.copy(), source, sink, enough)

    def fill(
        self, left: list[int], source: int, sink: int, enough: int = ENDLESS
    ) -> tuple[int, set[int]]:
        """Compute :meth:`max_flow` on what capacity every arc has ``left``, which is updated in place."""
        flow = 0
        while True:
            level = self._levels(left, source, sink)
            if sink not in level or flow >= enough:
                return flow, set(level)
            # Each node's arcs not yet tried in this phase.
            untried = {node: iter(self.out[node]) for node in level}
            while units := self._augment(left, level, untried, source, sink):
                flow += units

    def _levels(self, left: list[int], source: int, sink: int) -> dict[int, int]:
        """The fewest arcs with capacity from the source to each node no farther than the sink."""
        ends = self.ends
        level = {source: 0}
        queue = [source]
        for node in queue:  # which grows as it is walked
            for arc in self.out.get(node, ()):
                if left[arc]:
                    end = ends[arc]
                    if end not in level:
                        level[end] = level[node] + 1
                        queue.append(end)
            if sink in level:
                break
        return level

    def _augment(
        self,
        left: list[int],
        level: Mapping[int, int],
        untried: Mapping[int, Iterator[int]],
        source: int,
        sink: int,
    ) -> int:
        """Fill one more path along rising levels, and return its flow; 0 where there is none.

        ``untried`` is used up: an arc that led nowhere is not tried again in a phase.
        """
        ends = self.ends
        path: list[int] = []
        node = source
        while node != sink:
            next_level = level[node] + 1
            for arc in untried[node]:
                if left[arc] and level.get(ends[arc]) == next_level:
                    path.append(arc)
                    node = ends[arc]
                    break
            else:  # a dead end: back by one arc
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
    """The flow and cut of :meth:`FlowNetwork.max_flow`, for a single flow."""
    return FlowNetwork(capacity).max_flow(source, sink, enough)
