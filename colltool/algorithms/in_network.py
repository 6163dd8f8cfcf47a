"""Collectives in which other machines than the ranks compute: switches and parameter servers.

Switches reduce and multicast (NVLS, SHARP), or scatter all-to-all chunks. n_α counts passes through
a switch, each at α_switch, times the k levels of the aggregation tree. Lattices and full meshes have
no switches.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.libraries import nccl_switch, nvls_inside
from colltool.algorithms.program import (
    Batches,
    Program,
    equal_chunks,
    reversed_steps,
    schedule,
    step,
)
from colltool.algorithms.registry import (
    PARAMETER_SERVER,
    SHARP,
    Requirement,
    algorithm,
)
from colltool.base.primitives import (
    A2A,
    AG,
    AR,
    BC,
    REDUCE,
    RS,
    Primitive,
    Servers,
    Switch,
    Terms,
)
from colltool.network.arrays import np
from colltool.network.group import SWITCHED, Group


def switch_can(*capabilities: str) -> Requirement:
    """The requirement that switches have these capabilities, and room for the group."""

    def requirement(group: Group) -> str | None:
        # A missing capability is the better reason than missing room.
        missing = [capability for capability in capabilities if capability not in group.switch]
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
    """The part of M that a rank sends or receives: all but its own slice. Over domains of different
    sizes that is all of M, since some ranks of the larger domains have no slice."""
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
    """Up from the ranks to a single switch, node N, and down again, cut-through; ranks do not receive
    what they have already."""
    n = group.ranks
    rank = np.arange(n)
    if primitive is AR:
        chunks = 1
        up = step(rank, n, chunk=0, add=True)
        down = step(n, rank, chunk=0)
    elif primitive is A2A:
        chunks = n * n
        src, dst = np.nonzero(~np.eye(n, dtype=bool))
        up = step(src, n, src * n + dst)
        down = step(n, dst, src * n + dst)
    else:  # A multicast: every chunk up once from its home, and down to all other ranks.
        chunks = n if primitive in (AG, RS) else 1
        chunk = np.arange(chunks)
        dst, sent = np.nonzero(rank[:, None] != chunk)
        up = step(chunk, n, chunk)
        down = step(n, dst, sent)
    batches: Batches = iter([(up,), (down,)])
    if primitive in (RS, REDUCE):
        batches = reversed_steps(batches)
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
    """Every rank sends part p of its vector to server p, node N + p, and receives that part of the
    sum."""
    n = group.ranks
    k = group.servers
    rank, part = np.divmod(np.arange(n * k), k)
    there = step(rank, n + part, part, add=True)
    back = step(n + part, rank, part)
    batches: Batches = iter([(there,), (back,)])
    return equal_chunks(primitive, n, k, batches, nodes=n + k, streamed=True, servers=k)
