"""A tree of switches, or blocks of nodes, as Slurm's files list them, and the Clos that it makes:
:func:`network_of`. The files: :mod:`colltool.fabric.dumps.slurm_topology`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from statistics import median_high

from colltool.base.errors import ColltoolError, clipped, quote
from colltool.fabric.dumps.clos import ClosNetwork, SwitchLevel

TOOL = "Slurm topology"
# Limits that no cluster reaches.
MAX_NODES = 100_000
MAX_LEVELS = 8
_FIX = "give topology.conf or topology.yaml of Slurm, or what topograph wrote"
_BY_HAND = "describe it by hand: colltool fabric init, colltool guide fabrics"


@dataclass
class SlurmTree:
    """What a file lists, filled in while it is read.

    Attributes:
        file: its name, for errors.
        nodes: the names of the nodes right under each switch or block, by its name.
        above: the switch above each switch, by its name; none of the top.
        are_blocks: whether ``nodes`` are of blocks, which nothing but a network joins.
    """

    file: str
    nodes: dict[str, list[str]] = field(default_factory=dict)
    above: dict[str, str] = field(default_factory=dict)
    are_blocks: bool = False

    def add(self, name: str, children: Iterable[str], nodes: Iterable[str]) -> None:
        """Add a switch with the switches and the nodes under it, or a block; an error if one was
        listed before."""
        if name in self.nodes:
            raise self.error(f"{quote(name)} is listed twice")
        self.nodes[name] = list(nodes)
        for child in children:
            if child in self.above:
                raise self.two_above_error(child, name)
            self.above[child] = name

    def error(self, what: str, fix: str = _FIX) -> ColltoolError:
        """Return the error for this file."""
        return ColltoolError(what, where=self.file, fix=fix)

    def no_tree_error(self, what: str) -> ColltoolError:
        """Return the error for switches that make no tree."""
        return self.error(f"is no tree: {what}", _BY_HAND)

    def two_above_error(self, name: str, switch: str) -> ColltoolError:
        """Return the error for a switch that is under another one already."""
        return self.no_tree_error(
            f"{quote(name)} is under two switches: {self.above[name]} and {switch}"
        )

    def too_many_error(self) -> ColltoolError:
        """Return the error for more than ``MAX_NODES`` names."""
        return self.error(f"lists more than {MAX_NODES} nodes: no cluster is so large")


def network_of(tree: SlurmTree) -> ClosNetwork:
    """Return the network of a tree with all nodes of the file. Each level has the group of its usual
    switch; rates, ports and radix stay unknown, and nothing is oversubscribed.

    Raises:
        ColltoolError: no nodes or too many, several trees, a circle, or more than ``MAX_LEVELS``.
    """
    hosts = sum(map(len, tree.nodes.values()))
    if not hosts:
        raise tree.error("has no nodes under switches or blocks")
    if hosts > MAX_NODES:
        raise tree.too_many_error()
    if tree.are_blocks:
        counts_by_level = [[len(nodes) for nodes in tree.nodes.values() if nodes]]
    else:
        counts_by_level = _counts_by_level(tree)
    levels, notes = _levels(counts_by_level, hosts)
    return ClosNetwork(
        file=tree.file,
        tool=TOOL,
        hosts=hosts,
        ports=None,
        port_Bps=None,
        rails=1,
        levels=tuple(levels),
        radix=None,
        infiniband=False,
        reduces=None,
        notes=tuple(notes),
        assumed=("uplinks as fast as all downlinks; the file lists no cables",),
    )


def _counts_by_level(tree: SlurmTree) -> list[list[int]]:
    """How many nodes are under each switch, level by level, leaves first; an error if the tree is too
    high, runs in a circle, or is several trees. A switch is as high as the longest way down to a node."""
    nodes_under: dict[str, int] = defaultdict(int)
    height: dict[str, int] = defaultdict(int)
    for leaf, nodes in tree.nodes.items():
        if not nodes:
            continue
        # from each switch that has nodes up to the top
        switch = leaf
        for level in range(MAX_LEVELS + 1):
            nodes_under[switch] += len(nodes)
            height[switch] = max(height[switch], level)
            if switch not in tree.above:
                break
            switch = tree.above[switch]
        else:
            raise tree.error(
                f"has more than {MAX_LEVELS} levels, or switches in a circle", _BY_HAND
            )
    tops = [switch for switch in nodes_under if switch not in tree.above]
    if len(tops) > 1:
        what = f"{len(tops)} switches have none above, such as {clipped(tops[0])}"
        raise tree.no_tree_error(f"{what}, {clipped(tops[1])}")
    counts_by_level: list[list[int]] = [[] for _ in range(max(height.values()) + 1)]
    for switch, count in nodes_under.items():
        counts_by_level[height[switch]].append(count)
    return counts_by_level


def _levels(counts_by_level: list[list[int]], hosts: int) -> tuple[list[SwitchLevel], list[str]]:
    """The levels of a Clos with so many hosts, bottom up, and notes on switches that are unlike their
    level. A group has as many hosts as the median switch, rounded up to whole groups below."""
    levels: list[SwitchLevel] = []
    notes = []
    group_below = 1
    for number, counts in enumerate(counts_by_level, start=1):
        usual = median_high(counts)
        group = ceil(usual / group_below) * group_below
        # a switch over a single one below adds no level
        if levels and group <= group_below:
            continue
        unlike = sum(count != usual for count in counts)
        if unlike:
            notes.append(
                f"{unlike} of {len(counts)} switches of level {number} have not {usual} hosts"
            )
        levels.append(SwitchLevel(group, len(counts), oversubscription=1.0))
        group_below = group
    if group_below < hosts:
        # blocks, and trees whose switches are unlike: one level joins all
        whole = ceil(hosts / group_below) * group_below
        levels.append(SwitchLevel(whole, 1, oversubscription=1.0))
    return levels, notes
