"""Trees over all links of a graph: segment after segment down each tree at once, a reduction backwards.

Tree t has P chunks, t * P + s, of its share of what its root sends.
"""

from itertools import chain

import numpy as np

from colltool.algorithms.forest import Forest, forest_of, roots_of
from colltool.algorithms.group import Group
from colltool.algorithms.wires import GraphWires
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.schedules.program import Batches, Edges, Program, backwards, fired, schedule


@schedule("forest", AR, AG, RS, BC, REDUCE)
def forest(primitive: Primitive, group: Group, segments: int) -> Program:
    assert isinstance(group.wires, GraphWires)  # links_between_ranks let nobody else in
    roots = roots_of(primitive, group)
    found = forest_of(group.wires, roots)
    edges = _edges(found)

    def down() -> Batches:
        for moment in range(found.depth + segments - 1):
            yield (fired(edges, edges.depth - 1, segments, moment),)

    up = backwards(down()) if primitive in (AR, RS, REDUCE) else iter(())
    root = np.repeat([tree.root for tree in found.trees], segments)
    size = np.repeat([float(tree.share) / len(roots) / segments for tree in found.trees], segments)
    batches = up if primitive in (RS, REDUCE) else chain(up, down())
    return Program(primitive, group.ranks, group.ranks, size, home=root, target=root, batches=batches)


def _edges(found: Forest) -> Edges:
    rows = []
    for number, tree in enumerate(found.trees):
        depths = tree.depths
        rows += [(b, a, number, depths[b]) for a, b in tree.links]
    return Edges(*np.array(rows, dtype=np.int64).T)
