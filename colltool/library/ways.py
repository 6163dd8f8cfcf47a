"""The schedules of ours behind NCCL's algorithms: what prices a pick, and what a tuner file may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from colltool.primitives import AG, AR, BC, REDUCE, RS, Primitive


class Site(Protocol):
    """A group as NCCL counts it."""

    @property
    def ranks(self) -> int:
        """All of the group."""

    @property
    def nodes(self) -> int:
        """NVLink domains, or hosts."""

    @property
    def nvls(self) -> bool:
        """Whether the switch of a node reduces and multicasts."""


class Way(NamedTuple):
    """One schedule that NCCL has: its name there, ours, for which collectives, and where NCCL runs it.

    What our own registry refuses (two tiers for a composition, capable switches) is not repeated in ``where``.
    """

    algorithm: str
    name: str
    primitives: tuple[Primitive, ...]
    where: Callable[[Site], bool]


def _anywhere(_: Site) -> bool:
    return True


def _one_rank_a_node(site: Site) -> bool:
    return site.nodes == site.ranks


def _nvswitch(site: Site) -> bool:
    """NVLS: the innermost domain is a star whose switch reduces and multicasts."""
    return site.nvls and not _one_rank_a_node(site)


def _nvswitch_alone(site: Site) -> bool:
    return site.nodes == 1 and _nvswitch(site)


# Inside a node NCCL's trees and CollNetChain are a chain of its GPUs, with a share of the vector on each NIC: a ring there costs
# the same. CollNetDirect reads all peers at once. NVLS between nodes is NVLS inside with SHARP outside, NCCL's "CollNet+NVLS":
# it, and not one of the two CollNet algorithms, is what in-network / in-network prices.
WAYS = (
    Way("ring", "ring", (AR, AG, RS), _anywhere),
    Way("ring", "multi-rail-ring", (AR, AG, RS), _anywhere),
    Way("ring", "chain", (BC, REDUCE), _anywhere),
    Way("tree", "double-binary-tree", (AR,), _anywhere),
    Way("tree", "hierarchical:ring/double-binary-tree", (AR,), _anywhere),
    Way("nvls", "in-network", (AR, AG, RS), _nvswitch_alone),
    Way("nvls", "hierarchical:in-network/in-network", (AR,), _nvswitch),
    Way("nvls_tree", "hierarchical:in-network/double-binary-tree", (AR,), _nvswitch),
    Way("collnet_direct", "hierarchical:direct/in-network", (AR,), _anywhere),
    Way("collnet_chain", "hierarchical:ring/in-network", (AR,), _anywhere),
    Way("collnet_chain", "in-network", (AR,), _one_rank_a_node),
    Way("pat", "pat", (AG, RS), _one_rank_a_node),
)
"""Conditions as in NCCL's src/graph/tuning.cc."""


def spec_of(algorithm: str, primitive: Primitive, site: Site) -> str:
    """The schedule that prices what NCCL picked, as ``--algorithm`` takes it.

    The widest of its ways: over all NICs, with a tree between nodes only. Empty where there is none: on one node NCCL's tree is a
    chain up and down, which no schedule of ours is; of NVLS and CollNet an all-gather across nodes has none.
    """
    return _SPECS.get((algorithm, _shape(site), primitive), "")


def _shape(site: Site) -> str:
    if site.nodes == 1:
        return "node"
    return "alone" if _one_rank_a_node(site) else "across"


_ANY = ("node", "alone", "across")
_SPECS = {
    **{("ring", shape, primitive): "ring" for shape in ("node", "alone") for primitive in (AR, AG, RS)},
    **{("ring", "across", primitive): "multi-rail-ring" for primitive in (AR, AG, RS)},
    **{("ring", shape, primitive): "chain" for shape in _ANY for primitive in (BC, REDUCE)},
    ("tree", "alone", AR): "double-binary-tree",
    ("tree", "across", AR): "hierarchical:ring/double-binary-tree",
    **{("nvls", "node", primitive): "in-network" for primitive in (AR, AG, RS)},
    ("nvls", "across", AR): "hierarchical:in-network/in-network",
    ("nvls_tree", "across", AR): "hierarchical:in-network/double-binary-tree",
    ("collnet_direct", "across", AR): "hierarchical:direct/in-network",
    ("collnet_chain", "across", AR): "hierarchical:ring/in-network",
    ("collnet_chain", "alone", AR): "in-network",
    **{("pat", "alone", primitive): "pat" for primitive in (AG, RS)},
}
