"""What the wiring allows: all links of a full mesh at once, switches that compute, schedules over
several tiers.

Full mesh (``bandwidth`` is one link's, one direction): one ring uses one of a rank's N-1 links.
Walecki's zigzags share all links out among rings: N-1 rings for odd N, twice as many for even N,
every link in two of them. With equal shares of the payload every link carries 1/(N-1) of what a
single ring's does.

In-network: the switches reduce and replicate (NVLS, SHARP), or scatter all-to-all chunks. n_α
counts passes through a switch, each at α_switch, times the k levels of the aggregation tree. Not on
lattices or a full mesh: there is no switch.

Several tiers: baselines on a single tier, and NCCL's rings over all rails. Every byte goes at the
speed of the slowest tier on its way. The packed ring and the other any-to-any schedules are
registered with their families.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.libraries import nccl_inside, nccl_switch, nvls_inside
from colltool.algorithms.program import (
    Batches,
    Edges,
    Program,
    backwards,
    equal_chunks,
    pipelined,
    schedule,
    step,
)
from colltool.algorithms.registry import (
    CHAN,
    NCCL_RINGS,
    PARAMETER_SERVER,
    PATARASUK_YUAN,
    SHARP,
    Requirement,
    algorithm,
)
from colltool.algorithms.rings import on_rings
from colltool.algorithms.rings import rings as rings_of_mesh
from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    BC,
    REDUCE,
    RS,
    Chain,
    Peers,
    Primitive,
    Ring,
    Servers,
    Switch,
    Terms,
)
from colltool.network.arrays import np
from colltool.network.group import FULL_MESH, SEVERAL_TIERS, SWITCHED, Group, all_ports

_ALL_LINKS = (
    "RCCL, src/graph/rome_models.cc: of the 14 rings of 8 MI300X two use each link (model 79), of"
    " the 8 paths between NICs one (model 81); NCCL, issue 43: rings until all NVLinks are used"
)


def several_links(group: Group) -> str | None:
    """Two ranks have one link, and one ring over it."""
    if group.ranks < 3:
        return "two ranks have one link between them: that is ring or chain"
    return None


_over_all_links = partial(
    algorithm, on=FULL_MESH, requires=(several_links, all_ports), shipped_by=("NCCL", "RCCL")
)


@_over_all_links(
    "multi-link-ring",
    AR,
    source=f"{PATARASUK_YUAN}; {_ALL_LINKS}",
    equation="t = 2(N-1) α + 2/N M/BW",
)
def multi_link_all_reduce(group: Group) -> Terms:
    """Rings over all links of a full mesh at once, each with its share of the vector.

    A ring has a link of its own in every step (for even N half of one), and N-1 links a rank carry
    2(N-1)/N M together.

    >>> multi_link_all_reduce(Group(8, "full_mesh"))[:2]
    (14, 0.25)
    """
    return Terms(2 * (group.ranks - 1), 2 / group.ranks, Ring("links"))


@_over_all_links(
    "multi-link-ring",
    AG,
    RS,
    source=f"{PATARASUK_YUAN}; {_ALL_LINKS}",
    equation="t = (N-1) α + 1/N M/BW",
)
def multi_link_ring(group: Group) -> Terms:
    """Rings over all links of a full mesh at once, each with its share of every chunk.

    >>> multi_link_ring(Group(8, "full_mesh"))[:2]
    (7, 0.125)
    """
    return Terms(group.ranks - 1, 1 / group.ranks, Ring("links"))


@schedule("multi-link-ring", AR, AG, RS, per_pair=lambda n: 2 * n)  # about one on every ring
def _multi_link_ring(primitive: Primitive, group: Group, _segments: int) -> Program:
    return on_rings(primitive, rings_of_mesh(group.ranks))


@_over_all_links(
    "multi-link-chain",
    BC,
    REDUCE,
    source=f"{CHAN}; {_ALL_LINKS}",
    equation=(
        "t = (N-1) α + 1/(N-1) M/BW, with the filling of the pipeline left out (asymptotic"
        " reading)\nt(P) = (L+P-1) α + (F+P-1)/P M/((N-1) BW) with L = N-1 for P segments; F = N-1,"
        " for even N F = N-1 - (N-2)/4"
    ),
)
def multi_link_chain(group: Group) -> Terms:
    """Chains over all links of a full mesh at once: the rings of multi-link-ring cut at the root,
    segment behind segment.

    For even N two chains share a link, at different places of each, so that links are half idle
    while the pipeline fills:
    executed, from P = N/2 segments on it is F, below a little less.

    >>> multi_link_chain(Group(5, "full_mesh"))[:2]
    (4, 0.25)
    """
    depth = group.ranks - 1
    fill: float = depth
    if group.ranks % 2 == 0:
        fill -= (group.ranks - 2) / 4
    return Terms(depth, 1 / depth, Chain("links"), fill=fill)


@schedule("multi-link-chain", BC, REDUCE, per_pair=lambda n: 2 * n)
def _multi_link_chain(primitive: Primitive, group: Group, segments: int) -> Program:
    """The rings, cut at rank 0."""
    around = rings_of_mesh(group.ranks)
    # The rings, cut at rank 0.
    ring, place = np.divmod(np.arange(len(around) * (group.ranks - 1)), group.ranks - 1)
    child = around[ring, place + 1]
    parent = around[ring, place]
    edges = Edges(child, parent, ring, place + 1)
    return pipelined(primitive, group.ranks, segments, edges)


def switch_can(*capabilities: str) -> Requirement:
    def requirement(group: Group) -> str | None:
        # What the switches cannot do at all comes before what they have no room for.
        missing = [name for name in capabilities if name not in group.switch]
        if missing:
            return f"needs switches that do {' and '.join(missing)} (in_network in the fabric file)"
        if group.switch_room is None or group.switch_groups <= group.switch_room:
            return None
        return (
            f"the switches have room for {group.switch_room} groups, and {group.switch_groups} run"
            " at once (limits.groups)"
        )

    requirement.__doc__ = f"The tier's switches must do {' and '.join(capabilities)}."
    return requirement


_in_switch = partial(algorithm, "in-network", on=SWITCHED, source=SHARP, in_switch=True)


@_in_switch(
    AR,
    requires=(switch_can("reduce", "multicast"),),
    shipped_by=("NCCL (NVLS, CollNet)",),
    limits=(nccl_switch,),
    equation="t = 2k α_switch + M/BW",
)
def all_reduce(group: Group) -> Terms:
    """Reduced in the switch and multicast back: each rank sends M once and receives M once.

    With one port a rank the only way below 2(N-1)/N. The reduction unit has its own η_β (0.5 to 0.6
    on NVLS). The group must lie inside the switches.

    >>> all_reduce(Group(8, "clos", switch_levels=2))[:2]
    (4, 1)
    """
    return Terms(2 * group.switch_levels, 1, Switch(AR))


def _of_others(group: Group) -> float:
    """The part of M that is not a rank's own; of domains of different sizes some ranks of the
    larger ones own nothing."""
    return 1.0 if group.domains else (group.ranks - 1) / group.ranks


@_in_switch(
    RS,
    requires=(switch_can("reduce"),),
    shipped_by=("NCCL (NVLS)",),
    limits=(nccl_switch, nvls_inside),
    equation="t = 2k α_switch + (N-1)/N M/BW",
)
def reduce_scatter(group: Group) -> Terms:
    """Reduced in the switch, each rank receives its slice.

    Each rank still sends nearly all of M, so a ring moves as few bytes; a fabric may give it an η_β
    of its own.

    >>> reduce_scatter(Group(8, "clos", switch_levels=2))[:2]
    (4, 0.875)
    """
    return Terms(2 * group.switch_levels, _of_others(group), Switch(RS))


@_in_switch(
    AG,
    requires=(switch_can("multicast"),),
    shipped_by=("NCCL (NVLS)",),
    limits=(nccl_switch, nvls_inside),
    equation="t = 2k α_switch + (N-1)/N M/BW",
)
def all_gather(group: Group) -> Terms:
    """Every slice multicast by the switch.

    Each rank still receives nearly all of M, so a ring moves as few bytes; a fabric may give it an
    η_β of its own.

    >>> all_gather(Group(8, "clos", switch_levels=2))[:2]
    (4, 0.875)
    """
    return Terms(2 * group.switch_levels, _of_others(group), Switch(AG))


@_in_switch(BC, requires=(switch_can("multicast"),), equation="t = k α_switch + M/BW")
def broadcast(group: Group) -> Terms:
    """One write, replicated by the switch.

    >>> broadcast(Group(8, "clos", switch_levels=2))[:2]
    (2, 1)
    """
    return Terms(group.switch_levels, 1, Switch(BC))


@_in_switch(REDUCE, requires=(switch_can("reduce"),), equation="t = k α_switch + M/BW")
def reduce(group: Group) -> Terms:
    """Every rank's vector reduced on the way to the root.

    >>> reduce(Group(8, "clos", switch_levels=2))[:2]
    (2, 1)
    """
    return Terms(group.switch_levels, 1, Switch(REDUCE))


@_in_switch(
    A2A,
    requires=(switch_can("all_to_all"),),
    shipped_by=("Tomahawk Ultra",),
    source="Broadcom Tomahawk Ultra: scatter-gather in the crossbar",
    equation="t = 2k α_switch + (N-1)/N M/BW",
)
def all_to_all(group: Group) -> Terms:
    """One bulk transaction per rank; the crossbar routes every chunk.

    Saves α, never bytes.

    >>> all_to_all(Group(8, "star"))[:2]
    (2, 0.875)
    """
    return Terms(2 * group.switch_levels, (group.ranks - 1) / group.ranks, Switch(A2A))


@schedule("in-network", *(AR, AG, RS, BC, REDUCE, A2A))
def _in_network(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Inside one switch, node N, cut through: up from the ranks and down to them, but for what a
    rank can keep."""
    n = group.ranks
    rank = np.arange(n)
    if primitive is AR:
        chunks = 1
        up = step(rank, n, 0, add=True)
        down = step(n, rank, 0)
    elif primitive is A2A:
        chunks = n * n
        src, dst = np.nonzero(~np.eye(n, dtype=bool))
        up = step(src, n, src * n + dst)
        down = step(n, dst, src * n + dst)
    else:  # a multicast: every chunk up once from its home, and down to all other ranks
        chunks = n if primitive in (AG, RS) else 1
        chunk = np.arange(chunks)
        dst, sent = np.nonzero(rank[:, None] != chunk)
        up = step(chunk, n, chunk)
        down = step(n, dst, sent)
    batches: Batches = iter([(up,), (down,)])
    if primitive in (RS, REDUCE):
        batches = backwards(batches)
    return equal_chunks(primitive, n, chunks, batches, nodes=n + 1, streamed=True)


@algorithm(
    "parameter-server",
    AR,
    on=SWITCHED,
    shipped_by=("BytePS", "MXNet (KVStore)", "TensorFlow (ParameterServerStrategy)"),
    source=PARAMETER_SERVER,
    note="servers are machines beside the ranks, with ports like theirs",
    counts="servers",
    equation="t = 2 α + max(1, N/K) M/BW",
)
def parameter_server(group: Group) -> Terms:
    """Parameter server: gradients go to K servers, a K-th of them to each, and weights come back,
    both ways at once.

    K servers beside the N ranks: parameter-server is one, parameter-server:8 is eight. Through a
    server's port go N parts of M/K each way; send and receive overlap, as different parts are on
    their way. With as many servers as ranks it moves half of what a ring moves, on twice the ports.
    It is priced only where it is named, and listed in no table of collectives.

    >>> parameter_server(Group(1024, "star", servers=8))[:2]
    (2, 128.0)
    """
    return Terms(2, max(1.0, group.ranks / group.servers), Servers())


@schedule("parameter-server", AR)
def _through_servers(primitive: Primitive, group: Group, _segments: int) -> Program:
    """Every rank sends 1/K of its vector to each of K servers and gets that part of the sum
    back."""
    n = group.ranks
    k = group.servers
    # Server p, node N + p, adds up part p of the vector.
    rank, part = np.divmod(np.arange(n * k), k)
    there = step(rank, n + part, part, add=True)
    back = step(n + part, rank, part)
    batches: Batches = iter([(there,), (back,)])
    return equal_chunks(primitive, n, k, batches, nodes=n + k, streamed=True, servers=k)


_RAILS = f"{PATARASUK_YUAN}; one ring for every NIC of a node: {NCCL_RINGS}"
_OUTER = "baseline of ours: the outer network without the inner one"
_INNER = "baseline of ours: the inner fabric stretched over all ranks"
_STRETCHED = "no such hardware: the inner fabric joins fewer ranks"
# where a message's distance alone says what it pays
BY_CLASS = SEVERAL_TIERS - {"routed_tiers", "uneven_tiers"}
_over_rails = partial(
    algorithm, on=SEVERAL_TIERS, shipped_by=("NCCL", "RCCL"), limits=(nccl_inside,), baseline=True
)
_stretched = partial(
    algorithm, on=BY_CLASS, status="hypothetical", source=_INNER, note=_STRETCHED, baseline=True
)
_outermost = partial(algorithm, on=BY_CLASS, source=_OUTER, baseline=True)


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
    return Terms(group.ranks - 1, (group.ranks - 1) / group.ranks, Ring("rails"))


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
    return Terms(group.ranks - 1, (group.ranks - 1) / group.ranks, Ring("outermost"))


@_stretched("inner-ring", AG, RS, equation="t = (N-1) α_inner + (N-1)/N M/BW_inner")
@_stretched("inner-ring", AR, twice=True, equation="t = 2(N-1) α_inner + 2(N-1)/N M/BW_inner")
def inner_ring(group: Group) -> Terms:
    """One ring as if the innermost tier joined all ranks.

    >>> inner_ring(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return Terms(group.ranks - 1, (group.ranks - 1) / group.ranks, Ring("innermost"))


@_outermost("outer-pairwise", A2A, equation="t = (N-1) α_outer + (N-1)/N M/BW_outer")
def outer_pairwise(group: Group) -> Terms:
    """Pairwise all-to-all with every message forced over the outermost tier, at its top level.

    >>> outer_pairwise(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return Terms(group.ranks - 1, (group.ranks - 1) / group.ranks, Peers("outermost"))


@_stretched("inner-pairwise", A2A, equation="t = (N-1) α_inner + (N-1)/N M/BW_inner")
def inner_pairwise(group: Group) -> Terms:
    """Pairwise all-to-all as if the innermost tier joined all ranks.

    >>> inner_pairwise(Group(16, "tiers"))[:2]
    (15, 0.9375)
    """
    return Terms(group.ranks - 1, (group.ranks - 1) / group.ranks, Peers("innermost"))
