"""In-network collectives: the switches reduce and replicate (NVLS, SHARP), or scatter all-to-all chunks.

n_α counts passes through a switch, each at α_switch, times the k levels of the aggregation tree. Not on lattices or a full
mesh: there is no switch.
"""

from __future__ import annotations

from functools import partial

from colltool.algorithms.group import SWITCHED, Group
from colltool.algorithms.libraries import nccl_switch, nvls_inside
from colltool.algorithms.references import PARAMETER_SERVER, SHARP
from colltool.algorithms.registry import Requirement, algorithm
from colltool.base.primitives import A2A, AG, AR, BC, REDUCE, RS, Servers, Switch, Terms


def switch_can(*capabilities: str) -> Requirement:
    def requirement(group: Group) -> str | None:
        missing = [name for name in capabilities if name not in group.switch]
        if not missing:
            return _no_room(group)
        return f"needs switches that do {' and '.join(missing)} (in_network in the fabric file)"

    requirement.__doc__ = f"The tier's switches must do {' and '.join(capabilities)}."
    return requirement


def _no_room(group: Group) -> str | None:
    if group.switch_room is None or group.switch_groups <= group.switch_room:
        return None
    return f"the switches have room for {group.switch_room} groups, and {group.switch_groups} run at once (limits.groups)"


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

    With one port a rank the only way below 2(N-1)/N. The reduction unit has its own η_β (0.5 to 0.6 on NVLS). The group must lie
    inside the switches.

    >>> all_reduce(Group(8, "clos", switch_levels=2))[:2]
    (4, 1)
    """
    return Terms(2 * group.switch_levels, 1, Switch(AR))


@_in_switch(
    RS,
    requires=(switch_can("reduce"),),
    shipped_by=("NCCL (NVLS)",),
    limits=(nccl_switch, nvls_inside),
    equation="t = 2k α_switch + (N-1)/N M/BW",
)
def reduce_scatter(group: Group) -> Terms:
    """Reduced in the switch, each rank receives its slice.

    Each rank still sends nearly all of M, so a ring moves as few bytes; a fabric may give it an η_β of its own.

    >>> reduce_scatter(Group(8, "clos", switch_levels=2))[:2]
    (4, 0.875)
    """
    return Terms(2 * group.switch_levels, (group.ranks - 1) / group.ranks, Switch(RS))


@_in_switch(
    AG,
    requires=(switch_can("multicast"),),
    shipped_by=("NCCL (NVLS)",),
    limits=(nccl_switch, nvls_inside),
    equation="t = 2k α_switch + (N-1)/N M/BW",
)
def all_gather(group: Group) -> Terms:
    """Every slice multicast by the switch.

    Each rank still receives nearly all of M, so a ring moves as few bytes; a fabric may give it an η_β of its own.

    >>> all_gather(Group(8, "clos", switch_levels=2))[:2]
    (4, 0.875)
    """
    return Terms(2 * group.switch_levels, (group.ranks - 1) / group.ranks, Switch(AG))


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


@algorithm(
    "in-network",
    A2A,
    on=SWITCHED,
    requires=(switch_can("all_to_all"),),
    shipped_by=("Tomahawk Ultra",),
    source="Broadcom Tomahawk Ultra: scatter-gather in the crossbar",
    in_switch=True,
    equation="t = 2k α_switch + (N-1)/N M/BW",
)
def all_to_all(group: Group) -> Terms:
    """One bulk transaction per rank; the crossbar routes every chunk.

    Saves α, never bytes.

    >>> all_to_all(Group(8, "star"))[:2]
    (2, 0.875)
    """
    return Terms(2 * group.switch_levels, (group.ranks - 1) / group.ranks, Switch(A2A))


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
    """Parameter server: gradients go to K servers, a K-th of them to each, and weights come back, both ways at once.

    K servers beside the N ranks: parameter-server is one, parameter-server:8 is eight. Through a server's port go N parts
    of M/K each way; send and receive overlap, as different parts are on their way. With as many servers as ranks it moves half of
    what a ring moves, on twice the ports. It is priced only where it is named, and listed in no table of collectives.

    >>> parameter_server(Group(1024, "star", servers=8))[:2]
    (2, 128.0)
    """
    return Terms(2, max(1.0, group.ranks / group.servers), Servers())
