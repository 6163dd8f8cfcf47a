"""The schedules of ours behind NCCL's algorithms: what prices a pick, and what a tuner file may name."""

from __future__ import annotations

from typing import Protocol

from colltool.base.primitives import AG, AR, BC, REDUCE, RS, Primitive


class Site(Protocol):
    """A group as NCCL counts it."""

    @property
    def ranks(self) -> int:
        """All of the group."""

    @property
    def nodes(self) -> int:
        """NVLink domains, or hosts."""


def spec_of(algorithm: str, primitive: Primitive, site: Site) -> str:
    """The schedule that prices what NCCL picked, as ``--algorithm`` takes it.

    The widest of its ways: over all NICs, with a tree between nodes only. Empty where there is none: on one node NCCL's tree is a
    chain up and down, which no schedule of ours is; of NVLS and CollNet an all-gather across nodes has none.
    """
    return _SPECS.get((algorithm, _shape(site), primitive), "")


def algorithms_of(spec: str, primitive: Primitive) -> frozenset[str]:
    """NCCL's algorithms that a schedule of ours stands for, on any group."""
    return frozenset(algorithm for (algorithm, _, own), name in _SPECS.items() if (own, name) == (primitive, spec))


def _shape(site: Site) -> str:
    if site.nodes == 1:
        return "node"
    return "alone" if site.nodes == site.ranks else "across"


# Inside a node NCCL's trees and CollNetChain are a chain of its GPUs, with a share of the vector on each NIC: a ring there costs
# the same. CollNetDirect reads all peers at once. NVLS between nodes is NVLS inside with SHARP outside, NCCL's "CollNet+NVLS":
# it, and not one of the two CollNet algorithms, is what in-network / in-network prices.
_SPECS = {
    **{("ring", shape, primitive): "ring" for shape in ("node", "alone") for primitive in (AR, AG, RS)},
    **{("ring", "across", primitive): "multi-rail-ring" for primitive in (AR, AG, RS)},
    **{("ring", shape, primitive): "chain" for shape in ("node", "alone") for primitive in (BC, REDUCE)},
    **{("ring", "across", primitive): "multi-rail-chain" for primitive in (BC, REDUCE)},
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


SPOKEN = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}
"""NCCL's names as NCCL_PROTO and fabrics have them, by those of its tuner file; from least latency to most bandwidth."""

SHORT = ("short-", "shorter-", "shortest-")
"""Before a name that a segment of larger messages has: one protocol in several segments, of fewer channels below."""

SEGMENT = "segment-"
"""Begins the name of a calibrated segment whose protocol is not known."""


def protocol_of(name: str) -> str:
    """Which of NCCL's protocols a fabric's is, as its tuner file writes it; empty where its name does not say.

    Args:
        name: as a fabric lists it, capitals or not.
    """
    bare = name.lower()
    for before in SHORT:
        bare = bare.removeprefix(before)
    return bare if bare in SPOKEN else ""
