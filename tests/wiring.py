"""A run of contention in one call, and the names of a lattice's links."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import colltool
from colltool.algorithms.executor import Network
from colltool.congestion.contention import Contention
from colltool.fabric.load import load_fabric
from colltool.network.group import Axis
from colltool.network.lattice_links import LatticeLinks
from colltool.network.links import MeshLinks, SwitchedLinks, TierRanks


def on(fabric: str, *overrides: str, **options: Any) -> Contention:
    """A run on a shipped fabric; keys of a pattern and options of the run together."""
    keys = ("kind", "group", "count", "axis", "stride", "start", "seed", "shape")
    pattern = {key: options.pop(key) for key in keys if key in options}
    return colltool.contention(load_fabric(fabric, overrides), pattern, **options)


class Ports(Network):
    """A port for each rank."""

    def __init__(self, ranks: int) -> None:
        super().__init__(SwitchedLinks(TierRanks(ranks)))
        self.ranks = ranks


class MeshNetwork(Network):
    """A link for each pair of ranks."""

    def __init__(self, ranks: int) -> None:
        super().__init__(MeshLinks(TierRanks(ranks)))


class LatticeNetwork(Network):
    """Links between neighbours."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        ranks = TierRanks(prod(axis.size for axis in axes))
        super().__init__(lattice := LatticeLinks(axes, ranks))
        self.lattice, self.ranks, self.strides = lattice, lattice.ranks, lattice.strides


def link_name(net: LatticeNetwork, link: int) -> str:
    """A link of an executed schedule's lattice: ``axis 1, (0, 2, 1) -> (1, 2, 1)``."""
    number, rank = divmod(link, net.ranks)
    return f"axis {number // 2 + 1},{net.lattice.name(number, rank)}"
