"""Which algorithms a library may have run: what ``calibrate --algorithm auto`` tries."""

from __future__ import annotations

from itertools import combinations

from colltool.algorithms.group import JoinedBy
from colltool.base.primitives import A2A, AG, AR, BC, P2P, REDUCE, RS, Primitive

_NCCL: dict[Primitive, tuple[str, ...]] = {
    AR: (
        "ring", "multi-rail-ring", "double-binary-tree", "hierarchical:ring/double-binary-tree", "in-network",
        "hierarchical:in-network/double-binary-tree",
        "dim-ring", "dim-ring-bidirectional", "multi-ring",
    ),
    AG: ("ring", "multi-rail-ring", "pat", "dim-ring", "multi-ring"),
    RS: ("ring", "multi-rail-ring", "pat", "dim-ring", "multi-ring"),
    A2A: ("direct", "pairwise", "shortest-path"),
    BC: ("multi-rail-chain", "chain", "dim-chain"),
    REDUCE: ("multi-rail-chain", "chain", "dim-chain"),
    P2P: ("send",),
}  # fmt: skip
_MPI: dict[Primitive, tuple[str, ...]] = {
    AR: ("ring", "recursive-doubling", "rabenseifner"),
    AG: ("ring", "recursive-doubling"),
    RS: ("ring", "recursive-halving"),
    A2A: ("pairwise", "bruck", "direct"),
    BC: ("binomial", "chain", "scatter-allgather"),
    REDUCE: ("binomial", "chain"),
    P2P: ("send",),
}
_DIRECT = {AR: ("two-shot", "ring"), AG: ("direct", "ring"), RS: ("direct", "ring"), A2A: ("direct", "pairwise")}
"""On a full mesh: a library that leaves six of seven links idle would not be kept."""

IN_SWITCH = "in-network"

ONLY_ONE = frozenset({A2A})
"""Where two algorithms differ in latency alone, their union is the faster one."""


def tried(primitive: Primitive, library: str, joined_by: JoinedBy, tiers: int) -> tuple[str, ...]:
    """Algorithms to try on a group over so many tiers, the likeliest first; ``joined_by`` is of the outermost one.

    Some may not run there.
    """
    if joined_by == "pair_links" and primitive in _DIRECT:
        return _DIRECT[primitive]
    if library == "MPI":
        return _MPI[primitive]
    if primitive is A2A and tiers > 1:  # every message to another node is sent by its host: they queue
        return ("pairwise", "direct")
    return tuple(name for name in _NCCL[primitive] if name != "ring" or tiers == 1)  # across nodes its rings use every NIC


def sets(primitive: Primitive, names: tuple[str, ...], *, told_apart: bool) -> list[tuple[str, ...]]:
    """One algorithm alone, or two that share the sizes; simplest first.

    ``told_apart``: whether two algorithms differ from one under one more protocol, as they do over several rank counts or
    tiers.
    """
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    return alone + list(combinations(names, 2)) if told_apart and primitive not in ONLY_ONE else alone
