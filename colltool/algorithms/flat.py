"""Flat schedules over several tiers: baselines that know one wire, and NCCL's rings over all rails.

Every byte goes at the speed of the slowest tier on its way. The packed ring and the other any-to-any schedules are registered
with their families; these exist only where a group spans several tiers.
"""

from __future__ import annotations

from colltool.algorithms.group import SEVERAL_TIERS, Group
from colltool.algorithms.libraries import nccl_inside
from colltool.algorithms.references import CHAN, NCCL_RINGS, PATARASUK_YUAN
from colltool.algorithms.registry import algorithm
from colltool.base.cost import Chain, Peers, Ring, Terms
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS


def _ring(group: Group, passes: int, route: Ring) -> Terms:
    n = group.ranks
    return Terms(passes * (n - 1), passes * (n - 1) / n, route)


_RAILS = f"{PATARASUK_YUAN}; one ring for every NIC of a node: {NCCL_RINGS}"
_OUTER = "baseline of ours: the outer network without the inner one"
_INNER = "baseline of ours: the inner fabric stretched over all ranks"
_STRETCHED = "no such hardware: the inner fabric joins fewer ranks"


@algorithm(
    "multi-rail-ring",
    AR,
    on=SEVERAL_TIERS,
    shipped_by=("NCCL", "RCCL"),
    limits=(nccl_inside,),
    source=_RAILS,
    baseline=True,
    equation="t = 2(N-1) α + 2(N-1)/N M / min(BW_inner, R BW_outer), α averaged over the ring's hops",
)
def multi_rail_all_reduce(group: Group) -> Terms:
    """R rings in parallel, one for every NIC of an inner domain, each with M/R.

    BW_inner is a port's; of a full mesh R links', for there the rings go through a domain over links of their own.

    >>> multi_rail_all_reduce(Group(16, "tiers"))[:2]
    (30, 1.875)
    """
    return _ring(group, 2, Ring("rails"))


@algorithm(
    "multi-rail-ring",
    AG,
    RS,
    on=SEVERAL_TIERS,
    shipped_by=("NCCL", "RCCL"),
    limits=(nccl_inside,),
    source=_RAILS,
    baseline=True,
    equation="t = (N-1) α + (N-1)/N M / min(BW_inner, R BW_outer), α averaged over the ring's hops",
)
def multi_rail(group: Group) -> Terms:
    """R rings in parallel, one for every NIC of an inner domain, each with M/R.

    BW_inner is a port's; of a full mesh R links', for there the rings go through a domain over links of their own.

    >>> multi_rail(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return _ring(group, 1, Ring("rails"))


@algorithm(
    "multi-rail-chain",
    BC,
    REDUCE,
    on=SEVERAL_TIERS,
    shipped_by=("NCCL", "RCCL"),
    limits=(nccl_inside,),
    source=f"{CHAN}; one chain for every NIC of a node: {NCCL_RINGS}",
    baseline=True,
    equation="t = (N-1) α + M / min(BW_inner, R BW_outer), α averaged over the chain's hops (asymptotic)",
)
def multi_rail_chain(group: Group) -> Terms:
    """R chains in parallel, one for every NIC of an inner domain, each with M/R, segment behind segment.

    BW_inner is a port's; of a full mesh R links', for there the chains go through a domain over links of their own.

    >>> multi_rail_chain(Group(16, "tiers"))[:2]
    (15, 1)
    """
    depth = group.ranks - 1
    return Terms(depth, 1, Chain("rails"), fill=depth)


@algorithm("outer-ring", AR, on=SEVERAL_TIERS, source=_OUTER, baseline=True, equation="t = 2(N-1) α_outer + 2(N-1)/N M/BW_outer")
def outer_ring_all_reduce(group: Group) -> Terms:
    """One ring with every hop forced over the outermost tier, at its top level.

    >>> outer_ring_all_reduce(Group(16, "tiers"))[:2]
    (30, 1.875)
    """
    return _ring(group, 2, Ring("outermost"))


@algorithm(
    "outer-ring", AG, RS, on=SEVERAL_TIERS, source=_OUTER, baseline=True, equation="t = (N-1) α_outer + (N-1)/N M/BW_outer"
)
def outer_ring(group: Group) -> Terms:
    """One ring with every hop forced over the outermost tier, at its top level.

    >>> outer_ring(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return _ring(group, 1, Ring("outermost"))


@algorithm(
    "inner-ring",
    AR,
    on=SEVERAL_TIERS,
    status="hypothetical",
    source=_INNER,
    note=_STRETCHED,
    baseline=True,
    equation="t = 2(N-1) α_inner + 2(N-1)/N M/BW_inner",
)
def inner_ring_all_reduce(group: Group) -> Terms:
    """One ring as if the innermost tier joined all ranks.

    >>> inner_ring_all_reduce(Group(16, "tiers"))[:2]
    (30, 1.875)
    """
    return _ring(group, 2, Ring("innermost"))


@algorithm(
    "inner-ring",
    AG,
    RS,
    on=SEVERAL_TIERS,
    status="hypothetical",
    source=_INNER,
    note=_STRETCHED,
    baseline=True,
    equation="t = (N-1) α_inner + (N-1)/N M/BW_inner",
)
def inner_ring(group: Group) -> Terms:
    """One ring as if the innermost tier joined all ranks.

    >>> inner_ring(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return _ring(group, 1, Ring("innermost"))


@algorithm(
    "outer-pairwise", A2A, on=SEVERAL_TIERS, source=_OUTER, baseline=True, equation="t = (N-1) α_outer + (N-1)/N M/BW_outer"
)
def outer_pairwise(group: Group) -> Terms:
    """Pairwise all-to-all with every message forced over the outermost tier, at its top level.

    >>> outer_pairwise(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return Terms(group.ranks - 1, (group.ranks - 1) / group.ranks, Peers("outermost"))


@algorithm(
    "inner-pairwise",
    A2A,
    on=SEVERAL_TIERS,
    status="hypothetical",
    source=_INNER,
    note=_STRETCHED,
    baseline=True,
    equation="t = (N-1) α_inner + (N-1)/N M/BW_inner",
)
def inner_pairwise(group: Group) -> Terms:
    """Pairwise all-to-all as if the innermost tier joined all ranks.

    >>> inner_pairwise(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return Terms(group.ranks - 1, (group.ranks - 1) / group.ranks, Peers("innermost"))
