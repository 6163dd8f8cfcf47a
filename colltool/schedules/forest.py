"""Trees over all links of a graph, or ways from rank to rank: segment after segment down each at
once, a reduction backwards.

Tree or way t has P chunks, t * P + s, of its share of what its root sends.
"""

from itertools import chain

import numpy as np

from colltool.algorithms.forest import Forest, forest_on, roots_of
from colltool.algorithms.mcf import flows_on
from colltool.algorithms.program import Batches, Edges, Program, backwards, fired, schedule
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, Primitive
from colltool.network.arrays import Floats
from colltool.network.group import Group
from colltool.network.wires import GraphWires


@schedule("forest", AR, AG, RS, BC, REDUCE)
def forest(primitive: Primitive, group: Group, segments: int) -> Program:
    roots = roots_of(primitive, group)
    found = forest_on(group, roots)
    up = backwards(_down(found, segments)) if primitive in (AR, RS, REDUCE) else iter(())
    root = np.repeat([tree.root for tree in found.trees], segments)
    batches = up if primitive in (RS, REDUCE) else chain(up, _down(found, segments))
    sizes = _sizes(found, len(roots), segments)
    stands = np.array([*range(group.ranks), *found.switches]) if found.switches else None
    nodes = group.ranks + len(found.switches)
    return Program(
        primitive, group.ranks, nodes, sizes, home=root, target=root, batches=batches, stands=stands
    )


@schedule("mcf", A2A)
def mcf(primitive: Primitive, group: Group, segments: int) -> Program:
    found = flows_on(group)
    start, end = (np.repeat([way.links[at][at] for way in found.trees], segments) for at in (0, -1))
    sizes = _sizes(found, group.ranks, segments)
    nodes = group.wires.nodes if isinstance(group.wires, GraphWires) else group.ranks
    stands = np.arange(nodes) if nodes > group.ranks else None
    batches = _down(found, segments)
    return Program(
        primitive, group.ranks, nodes, sizes, home=start, target=end, batches=batches, stands=stands
    )


def _sizes(found: Forest, parts: int, segments: int) -> Floats:
    """Bytes of each chunk in units of M, of which a root sends so many parts."""
    return np.repeat([float(tree.share) / parts / segments for tree in found.trees], segments)


def _down(found: Forest, segments: int) -> Batches:
    edges = _edges(found)
    for moment in range(found.depth + segments - 1):
        yield (fired(edges, edges.depth - 1, segments, moment),)


def _edges(found: Forest) -> Edges:
    rows = []
    for number, tree in enumerate(found.trees):
        depths = tree.depths
        rows += [(b, a, number, depths[b]) for a, b in tree.links]
    return Edges(*np.array(rows, dtype=np.int64).T)
