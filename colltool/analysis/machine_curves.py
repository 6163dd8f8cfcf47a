"""What a shipped machine should reach, on so many of its nodes, in each test of nccl-tests: the curves
of its page.

:func:`machine_groups` says on which groups of ranks a machine is shown, :func:`machine_curves` what
each reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colltool.analysis.fitted import node_noun
from colltool.base.errors import ColltoolError
from colltool.base.formatting import counted
from colltool.base.primitives import NCCL_TESTS, Primitive
from colltool.estimate.assumptions import ModelOptions
from colltool.estimate.expected import SHARE, ExpectedSize, expected, test_name
from colltool.estimate.placement import GroupSpec, count_within
from colltool.fabric.load import load_fabric
from colltool.fabric.model import Fabric

NODES = (1, 2, 8, 32, 128)
"""Nodes of the groups that a machine is shown on."""
SIZES = tuple(2.0**power for power in range(10, 35, 2))
"""1 KiB to 16 GiB, as :data:`SIZE_OPTIONS` asks for them."""
SIZE_OPTIONS = "-b 1K -e 16G --factor 4"
HEADLINE_SIZES = (128 * 2.0**20, 2.0**30)
"""The sizes of the short table, as :data:`HEADLINE_OPTIONS` asks for them."""
HEADLINE_OPTIONS = "-M 128M,1G"
_RANKS_OF_NODE = 8  # of a machine of one tier, which has no nodes


class MachineGroup(NamedTuple):
    """Some nodes of a machine.

    Args:
        typed: the machine as ``--fabric`` takes it, with its nodes where it was grown.
        nodes: 0 where the ranks are within one tier, or fill no nodes.
    """

    fabric: Fabric
    typed: str
    ranks: int
    nodes: int

    @property
    def label(self) -> str:
        """``8 nodes``, or ``64 ranks``."""
        if not self.nodes:
            return counted(self.ranks, "rank")
        return counted(self.nodes, node_noun(self.ranks // self.nodes))

    def command(self, primitive: Primitive, sizes: str) -> str:
        """The command that prints what is expected of it; ``sizes`` are the options that state the
        sizes."""
        return (
            f"colltool expect -f {self.typed} -n {self.ranks} --test {test_name(primitive)} {sizes}"
        )

    def expected(self, primitive: Primitive, sizes: Sequence[float]) -> list[ExpectedSize]:
        """What the command gives."""
        spec = GroupSpec(self.ranks)
        return expected(self.fabric, primitive, sizes, spec, ModelOptions(), SHARE)


class MachineCurve(NamedTuple):
    """What a group reaches in one test, by size."""

    group: MachineGroup
    sizes: Sequence[ExpectedSize]


class MachineCurves(NamedTuple):
    """What a machine reaches: ``headline`` for an all-reduce at :data:`HEADLINE_SIZES`, and
    ``tests`` for each test of nccl-tests that has a price."""

    fabric: Fabric
    headline: Sequence[MachineCurve]
    tests: dict[Primitive, list[MachineCurve]]


def machine_curves(fabric: Fabric) -> MachineCurves:
    """The curves of a shipped machine."""
    groups = machine_groups(fabric)
    tests = {}
    for primitive in NCCL_TESTS:
        curves = [MachineCurve(group, group.expected(primitive, SIZES)) for group in groups]
        tests[primitive] = curves
    headline = []
    for group in groups:
        sizes = group.expected(Primitive.ALL_REDUCE, HEADLINE_SIZES)
        headline.append(MachineCurve(group, sizes))
    return MachineCurves(fabric, headline, tests)


def machine_groups(fabric: Fabric) -> list[MachineGroup]:
    """The groups that a shipped machine is shown on: 1, 2, 8, 32 and 128 nodes, as far as it has
    them or can be given them. A machine of one tier is shown on so many ranks instead, and on all.
    """
    tiers = fabric.tiers
    of_node = tiers[0].endpoints if len(tiers) > 1 and not fabric.domains else _RANKS_OF_NODE
    found: dict[int, MachineGroup] = {}
    for nodes in NODES:
        group = _grown(fabric, nodes, of_node)
        if group is not None:
            found.setdefault(group.ranks, group)
    if len(tiers) == 1 or fabric.domains:
        # a pod or a box is bought as a whole
        found.setdefault(fabric.ranks, MachineGroup(fabric, fabric.name, fabric.ranks, nodes=0))
    return list(found.values())


def _grown(fabric: Fabric, nodes: int, of_node: int) -> MachineGroup | None:
    """A group of so many nodes, on the machine as it ships or grown to hold them. Where it cannot
    grow, the group has all its ranks; a group of one node is left out (None)."""
    typed = fabric.name
    wanted = nodes * of_node
    if wanted > fabric.ranks and len(fabric.tiers) == 2 and not fabric.domains:
        try:
            fabric = load_fabric(f"{typed}:nodes={nodes}")
            typed += f":nodes={nodes}"
        except ColltoolError:
            # its switches have no ports for so many
            pass
    ranks = count_within(fabric, wanted, stride=1)
    if ranks is None:
        return None
    filled = 0
    if len(fabric.tiers) > 1 and not fabric.domains and ranks % of_node == 0:
        filled = ranks // of_node
    return MachineGroup(fabric, typed, ranks, filled)
