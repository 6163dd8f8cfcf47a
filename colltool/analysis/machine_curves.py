"""What a shipped machine should reach, on so many of its nodes, in each test of nccl-tests: the curves
of its page.

:func:`machine_groups` says on which groups of ranks a machine is shown, :func:`machine_curves` what
each reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from colltool.analysis.fitted import node_noun
from colltool.base.errors import ColltoolError
from colltool.base.formatting import counted
from colltool.base.primitives import NCCL_TESTS, Primitive
from colltool.estimate.assumptions import USUAL
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
# Ranks for which one "node" of :data:`NODES` stands on a machine without nodes.
_RANKS_OF_NODE = 8


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
        return expected(self.fabric, primitive, sizes, spec, USUAL, SHARE)


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
    them or can be given them. A machine without nodes is shown on 8 ranks for each of these nodes
    instead, and on all.
    """
    ranks_per_node = fabric.tiers[0].endpoints if _has_nodes(fabric) else _RANKS_OF_NODE
    by_ranks: dict[int, MachineGroup] = {}
    for nodes in NODES:
        group = _group_of_nodes(fabric, nodes, ranks_per_node)
        if group is not None:
            by_ranks.setdefault(group.ranks, group)
    if not _has_nodes(fabric):
        # a pod or a box is bought as a whole
        by_ranks.setdefault(fabric.ranks, MachineGroup(fabric, fabric.name, fabric.ranks, nodes=0))
    return list(by_ranks.values())


def _has_nodes(fabric: Fabric) -> bool:
    """Whether the innermost domains are equal nodes, of a machine of several tiers."""
    return len(fabric.tiers) > 1 and not fabric.domains


def _group_of_nodes(fabric: Fabric, nodes: int, ranks_per_node: int) -> MachineGroup | None:
    """A group of so many nodes, on the machine as it ships or grown to hold them. Where it cannot
    grow, the group has all its ranks; a group of a single rank is left out (None)."""
    typed = fabric.name
    ranks_wanted = nodes * ranks_per_node
    if ranks_wanted > fabric.ranks and _has_nodes(fabric) and len(fabric.tiers) == 2:
        grown = f"{typed}:nodes={nodes}"
        # an error: its switches have no ports for so many
        with suppress(ColltoolError):
            fabric, typed = load_fabric(grown), grown
    ranks = count_within(fabric, ranks_wanted, stride=1)
    if ranks is None:
        return None
    fills_nodes = _has_nodes(fabric) and ranks % ranks_per_node == 0
    return MachineGroup(fabric, typed, ranks, nodes=ranks // ranks_per_node if fills_nodes else 0)
