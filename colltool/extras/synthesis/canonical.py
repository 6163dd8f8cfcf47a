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

Colours = dict[int, int]  # by node; alike nodes have the same, a number from 0
# what a node sees: its own colour, and (colour, units there, units back) of each neighbour, sorted
Sight = tuple[int, tuple[tuple[int, int, int], ...]]


# (other end, units there, units back) of each link of a node
Neighbours = dict[int, list[tuple[int, int, int]]]


def canonical_order(links: Capacities, kinds: Sequence[int]) -> list[int]:
    """Return the nodes in an order that renaming does not change, but among those that are alike.

    ``links``: units from node to node; ``kinds``: what sets nodes apart from the start, such as being
    a root, a rank or a switch.
    """
    neighbours = _neighbours(links)
    colours, _ = _refine(neighbours, dict(enumerate(kinds)))
    while len(set(colours.values())) < len(colours):
        colours = _single_out(neighbours, colours)
    return sorted(colours, key=lambda node: colours[node])


def _neighbours(links: Capacities) -> Neighbours:
    """The other end of each link of a node, with the units there and back."""
    neighbours: Neighbours = {node: [] for node in links}
    for node, row in links.items():
        for other, units in row.items():
            back = links[other].get(node, 0)
            neighbours[node].append((other, units, back))
            if not back:
                neighbours[other].append((node, 0, units))
    return neighbours


def _refine(neighbours: Neighbours, colours: Colours) -> tuple[Colours, list[tuple[Sight, int]]]:
    """Return colours that two nodes share only if they see the same, and a trace of what was seen:
    (sight, how many nodes see it), round by round. A renamed network has the same colours and the
    same trace."""
    trace: list[tuple[Sight, int]] = []
    colour_count = len(set(colours.values()))
    while True:
        sights = {}
        for node, ends in neighbours.items():
            around = sorted((colours[other], there, back) for other, there, back in ends)
            sights[node] = (colours[node], tuple(around))
        ranking = sorted(set(sights.values()))
        colour_of = {sight: place for place, sight in enumerate(ranking)}
        colours = {node: colour_of[sight] for node, sight in sights.items()}
        sizes = Counter(colours.values())
        for place, sight in enumerate(ranking):
            trace.append((sight, sizes[place]))
        if len(ranking) == colour_count:
            return colours, trace
        colour_count = len(ranking)


def _single_out(neighbours: Neighbours, colours: Colours) -> Colours:
    """Return refined colours in which one node of the first colour that several have comes before
    the others: the one with the least trace, which no renaming changes."""
    nodes_of: dict[int, list[int]] = {}
    for node, colour in colours.items():
        nodes_of.setdefault(colour, []).append(node)
    shared = min(colour for colour, nodes in nodes_of.items() if len(nodes) > 1)
    best: tuple[list[tuple[Sight, int]], Colours] | None = None
    for node in nodes_of[shared]:
        # Twice the number leaves a colour free before each, which one node takes: 0 1 1 2 becomes 0 1 2 4, or
        # 0 2 1 4.
        singled = {other: 2 * colour for other, colour in colours.items()}
        singled[node] -= 1
        refined, trace = _refine(neighbours, singled)
        if best is None or trace < best[0]:
            best = (trace, refined)
    assert best is not None
    return best[1]
