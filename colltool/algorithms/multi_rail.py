"""Flat schedules of groups over several tiers: NCCL's rings and chains over all rails, and baselines.

The baselines force all messages over the outermost tier, or stretch the innermost over all ranks.
Every byte goes at the speed of the slowest tier on its way. The packed ring and the other any-to-any
schedules are registered with their families.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.libraries import nccl_inside
from colltool.algorithms.registry import (
    CHAN,
    NCCL_RINGS,
    PATARASUK_YUAN,
    algorithm,
)
from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    BC,
    REDUCE,
    RS,
    Chain,
    Peers,
    Ring,
    Terms,
    step_a_peer,
)
from colltool.network.group import SEVERAL_TIERS, Group

_RAILS = f"{PATARASUK_YUAN}; one ring for every NIC of a node: {NCCL_RINGS}"
_OUTER = "baseline of ours: the outer network without the inner one"
_INNER = "baseline of ours: the inner fabric stretched over all ranks"
_STRETCHED = "no such hardware: the inner fabric joins fewer ranks"
# Topologies on which a message's cost follows from the distance of its ranks alone.
BY_DISTANCE = SEVERAL_TIERS - {"routed_tiers", "uneven_tiers"}
_over_rails = partial(
    algorithm, on=SEVERAL_TIERS, shipped_by=("NCCL", "RCCL"), limits=(nccl_inside,), baseline=True
)
_stretched = partial(
    algorithm, on=BY_DISTANCE, status="hypothetical", source=_INNER, note=_STRETCHED, baseline=True
)
_outermost = partial(algorithm, on=BY_DISTANCE, source=_OUTER, baseline=True)


@_over_rails(
    "multi-rail-ring",
    AG,
    RS,
    source=_RAILS,
    equation="t = (N-1) α + (N-1)/N M / min(BW_inner, R BW_outer), α averaged over the ring's hops",
)
@_over_rails(
    "multi-rail-ring",
    AR,
    source=_RAILS,
    twice=True,
    equation=(
        "t = 2(N-1) α + 2(N-1)/N M / min(BW_inner, R BW_outer), α averaged over the ring's hops"
    ),
)
def multi_rail(group: Group) -> Terms:
    """R rings in parallel, one for every NIC of an inner domain, each with M/R.

    BW_inner is one port's; on a full mesh that of R links, because the rings cross a domain over
    links of their own.

    >>> multi_rail(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return step_a_peer(group.ranks, Ring("rails"))


@_over_rails(
    "multi-rail-chain",
    BC,
    REDUCE,
    source=f"{CHAN}; one chain for every NIC of a node: {NCCL_RINGS}",
    equation=(
        "t = (N-1) α + M / min(BW_inner, R BW_outer), α averaged over the chain's hops (asymptotic)"
    ),
)
def multi_rail_chain(group: Group) -> Terms:
    """R chains in parallel, one for every NIC of an inner domain, each with M/R, segment behind
    segment.

    BW_inner is one port's; on a full mesh that of R links, because the chains cross a domain over
    links of their own.

    >>> multi_rail_chain(Group(16, "tiers"))[:2]
    (15, 1)
    """
    depth = group.ranks - 1
    return Terms(depth, 1, Chain("rails"), fill=depth)


@_outermost("outer-ring", AG, RS, equation="t = (N-1) α_outer + (N-1)/N M/BW_outer")
@_outermost("outer-ring", AR, twice=True, equation="t = 2(N-1) α_outer + 2(N-1)/N M/BW_outer")
def outer_ring(group: Group) -> Terms:
    """One ring with every hop forced over the outermost tier, at its top level.

    >>> outer_ring(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return step_a_peer(group.ranks, Ring("outermost"))


@_stretched("inner-ring", AG, RS, equation="t = (N-1) α_inner + (N-1)/N M/BW_inner")
@_stretched("inner-ring", AR, twice=True, equation="t = 2(N-1) α_inner + 2(N-1)/N M/BW_inner")
def inner_ring(group: Group) -> Terms:
    """One ring as if the innermost tier joined all ranks.

    >>> inner_ring(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return step_a_peer(group.ranks, Ring("innermost"))


@_outermost("outer-pairwise", A2A, equation="t = (N-1) α_outer + (N-1)/N M/BW_outer")
def outer_pairwise(group: Group) -> Terms:
    """Pairwise all-to-all with every message forced over the outermost tier, at its top level.

    >>> outer_pairwise(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return step_a_peer(group.ranks, Peers("outermost"))


@_stretched("inner-pairwise", A2A, equation="t = (N-1) α_inner + (N-1)/N M/BW_inner")
def inner_pairwise(group: Group) -> Terms:
    """Pairwise all-to-all as if the innermost tier joined all ranks.

    >>> inner_pairwise(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return step_a_peer(group.ranks, Peers("innermost"))
