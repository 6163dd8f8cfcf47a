"""Orders a network's nodes by its links alone, so that what is found for it does not depend on the
names of nodes or the order of edges.

Nodes are told apart by what they are joined to, step by step (colour refinement). Where some stay
alike, one of those is taken whose choice tells most apart, and the rest are refined by it. Nodes
between which that makes no difference are taken as interchangeable: on all but a few strongly regular
graphs they are.

Source: McKay and Piperno, "Practical graph isomorphism, II", 2014.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from colltool.network.max_flow import Capacities

Colours = dict[int, int]
# A colour, and those around it with the units there and back.
Sight = tuple[int, tuple[tuple[int, int, int], ...]]


def canonical_order(links: Capacities, kinds: Sequence[int]) -> list[int]:
    """Return the nodes in an order that renaming does not change, but among those that are alike.

    ``links``: units from node to node; ``kinds``: what sets nodes apart from the start, such as being
    a root, a rank or a switch.
    """
    joined = _joined(links)
    colours, _ = _refined(joined, dict(enumerate(kinds)))
    while len(set(colours.values())) < len(colours):
        colours = _told_apart(joined, colours)
    return sorted(colours, key=lambda node: colours[node])


def _joined(links: Capacities) -> dict[int, list[tuple[int, int, int]]]:
    """The other end of each link of a node, with the units there and back."""
    joined: dict[int, list[tuple[int, int, int]]] = {node: [] for node in links}
    for node, neighbours in links.items():
        for other, units in neighbours.items():
            back = links[other].get(node, 0)
            joined[node].append((other, units, back))
            if not back:
                joined[other].append((node, 0, units))
    return joined


def _refined(
    joined: dict[int, list[tuple[int, int, int]]], colours: Colours
) -> tuple[Colours, list[tuple[Sight, int]]]:
    """Return colours that two nodes share only if they see the same, and what told the others
    apart. A renamed network has the same colours."""
    trace: list[tuple[Sight, int]] = []
    told_apart = len(set(colours.values()))
    while True:
        seen = {}
        for node, ends in joined.items():
            around = sorted((colours[other], there, back) for other, there, back in ends)
            seen[node] = (colours[node], tuple(around))
        ranking = sorted(set(seen.values()))
        number = {sight: place for place, sight in enumerate(ranking)}
        colours = {node: number[sight] for node, sight in seen.items()}
        sizes = Counter(colours.values())
        for place, sight in enumerate(ranking):
            trace.append((sight, sizes[place]))
        if len(ranking) == told_apart:
            return colours, trace
        told_apart = len(ranking)


def _told_apart(joined: dict[int, list[tuple[int, int, int]]], colours: Colours) -> Colours:
    """Return colours in which one node of the first colour that several have comes before the
    others."""
    cells: dict[int, list[int]] = {}
    for node, colour in colours.items():
        cells.setdefault(colour, []).append(node)
    shared = min(colour for colour, nodes in cells.items() if len(nodes) > 1)
    best: tuple[list[tuple[Sight, int]], Colours] | None = None
    for node in cells[shared]:
        # Twice the number leaves a colour free before each: 0 1 1 2 becomes 0 1 2 4, or 0 2 1 4.
        singled = {other: 2 * colour for other, colour in colours.items()}
        singled[node] -= 1
        refined, trace = _refined(joined, singled)
        if best is None or trace < best[0]:
            best = (trace, refined)
    assert best is not None
    return best[1]
