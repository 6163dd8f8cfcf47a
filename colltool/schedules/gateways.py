"""Rings and chains through the ranks of a dragonfly in the order of its cables."""

import numpy as np

from colltool.algorithms.program import Program, schedule
from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive
from colltool.network.arrays import Indices
from colltool.network.dragonfly import gateway_order
from colltool.network.group import Group
from colltool.network.wires import DragonflyWires
from colltool.schedules.gather_scatter import on_ring
from colltool.schedules.rooted import in_line


@schedule("gateway-ring", AR, AG, RS, per_pair=1)
def _gateway_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    return on_ring(primitive, _order(group))


@schedule("gateway-chain", BC, REDUCE)
def _gateway_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    return in_line(primitive, _order(group), segments)


def _order(group: Group) -> Indices:
    assert isinstance(group.wires, DragonflyWires)  # several_groups let nobody else in
    return np.array(gateway_order(group.wires), dtype=np.int64)
