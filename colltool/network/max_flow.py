"""The most that nodes can send each other over links of whole units, and the cut that keeps it from
being more (Dinic)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import pairwise

Capacities = dict[int, dict[int, int]]  # node, next node -> whole units
ENDLESS = 1 << 60


def max_flow(
    capacity: Mapping[int, Mapping[int, int]], source: int, sink: int, enough: int = ENDLESS
) -> tuple[int, set[int]]:
    """The most whole units from source to sink, or ``enough``, and the nodes on the source's side
    of the least cut (Dinic)."""
    left: Capacities = {node: dict(row) for node, row in capacity.items()}
    for node, row in capacity.items():
        for to in row:
            left.setdefault(to, {}).setdefault(node, 0)
    moved = 0
    while True:
        level, waiting = {source: 0}, deque([source])
        while waiting:
            node = waiting.popleft()
            for to, units in left[node].items():
                if units and to not in level:
                    level[to] = level[node] + 1
                    waiting.append(to)
        if sink not in level or moved >= enough:
            return moved, set(level)
        ways = {node: iter(list(row)) for node, row in left.items()}
        while units := _augment(left, level, ways, source, sink):
            moved += units


def _augment(
    left: Capacities,
    level: Mapping[int, int],
    ways: Mapping[int, Iterator[int]],
    source: int,
    sink: int,
) -> int:
    """One more way along rising levels; what it carries."""
    path = [source]
    while path[-1] != sink:
        node = path[-1]
        for to in ways[node]:
            if left[node][to] and level.get(to) == level[node] + 1:
                path.append(to)
                break
        else:
            if len(path) == 1:
                return 0
            path.pop()
    steps = list(pairwise(path))
    units = min(left[a][b] for a, b in steps)
    for a, b in steps:
        left[a][b] -= units
        left[b][a] += units
    return units
