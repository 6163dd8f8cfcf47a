"""Links matched with pieces, step by step; a reduction backwards."""

import numpy as np

from colltool.algorithms.forest import wires_between
from colltool.algorithms.program import Batches, Program, gathered, schedule, step
from colltool.algorithms.tacos import pieces_of, steps
from colltool.base.primitives import AG, AR, RS, Primitive
from colltool.network.group import Group


@schedule("tacos", AR, AG, RS, per_pair=lambda ranks: 2 * pieces_of(ranks))
def tacos(primitive: Primitive, group: Group, _segments: int) -> Program:
    wires = wires_between(group)
    assert wires is not None  # links_in_proportion let nobody else in

    def gather() -> Batches:
        for moved in steps(wires):
            src, dst, piece = np.array(moved, dtype=np.int64).T
            yield (step(src, dst, piece),)

    pieces = pieces_of(group.ranks)
    home = np.repeat(np.arange(group.ranks), pieces)
    sizes = np.full(len(home), 1 / len(home))
    return Program(
        primitive,
        group.ranks,
        group.ranks,
        sizes,
        home=home,
        target=home,
        batches=gathered(primitive, gather),
    )
