"""The rules of NCCL's cost model by version: what can run, bandwidth and latency.

Read from the end: a version's data names the row of :data:`RULES` that computes with its numbers, and
a row is the functions of this module, each of which a version may replace
(``Rules(latency_terms=...)``). :mod:`colltool.libraries.nccl.model` calls them for one algorithm
under one protocol (``ll``, ``ll128``, ``simple``), both spelled as in NCCL's tuner files, on one
:class:`Hardware`; the numbers are those of :class:`Constants`, whose keys a version's file explains.

Bandwidth is bytes of the call over its time, GB/s; latency in us. P ranks on N nodes, p = P/N on
each; hop and net are the latencies of a hop inside a node and between nodes.

Of :class:`Hardware`: a :class:`Graph` is what the search found for a pattern, a number of ``channels`` and
the GB/s of each, ``inside`` a node and ``across`` nodes; an algorithm without a graph of its own has the
ring's. ``tree_levels`` is floor(log2(N)). ``column`` is the place, by the number of nodes, in rows of
limits that the file gives by GPU.

Source: NCCL 2.30.7, src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime), src/init.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from colltool.base.errors import ColltoolError
from colltool.base.primitives import AR, BC, REDUCE, Primitive
from colltool.libraries.nccl import graphs
from colltool.libraries.nccl.hardware import Constants, GpuNodes, Graph, Hardware


def why_not(hardware: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> str:
    """Why NCCL cannot run an algorithm under a protocol here. Empty if it can."""
    if algorithm not in hardware.constants.algorithms[primitive]:
        return f"NCCL has no {algorithm} for {primitive.label}"
    if protocol != "simple" and algorithm not in ("ring", "tree"):
        return "runs under Simple alone"
    if protocol == "ll128":
        reason = _why_no_ll128(hardware, algorithm)
        if reason:
            return reason
    match algorithm:
        case "nvls":
            return _why_no_nvls(hardware, primitive)
        case "nvls_tree" if hardware.nodes == 1:
            return "needs more than one node"
        case "nvls_tree":
            return _why_no_multicast(hardware)
        case "collnet_direct" if hardware.nvswitch:
            return _why_no_collnet(hardware, primitive)
        case "collnet_direct":
            return _why_no_collnet(hardware, primitive) or "needs NVSwitch"
        case "collnet_chain":
            return _why_no_collnet(hardware, primitive)
        case "pat" if hardware.ranks_per_node > 1:
            return "needs one rank per node"
    return ""


def _why_no_ll128(hardware: Hardware, algorithm: str) -> str:
    """Why LL128 cannot run for an algorithm: what the search says of its graph, else by links and
    NICs."""
    runs_ll128 = hardware.graph_of(algorithm).runs_ll128
    if runs_ll128 is not None:
        return "" if runs_ll128 else "LL128 needs NVLink, and NICs on the GPUs' switches"
    if hardware.link == "pci" and hardware.ranks_per_node > 1:
        return "LL128 needs NVLink between the GPUs of a node"
    if hardware.nodes > 1 and not hardware.gpudirect:
        return "LL128 across nodes needs GPUDirect RDMA"
    return ""


def _why_no_nvls(hardware: Hardware, primitive: Primitive) -> str:
    """Why NVLS cannot run: multicast inside a node, and SHARP between several."""
    reason = _why_no_multicast(hardware)
    if not reason and hardware.nodes > 1:
        reason = _why_no_sharp(hardware, primitive)
    most = hardware.constants.nvls["most_ranks_gather"]
    if not reason and primitive is not AR and hardware.ranks_per_node > most:
        reason = f"needs at most {most} ranks per node"
    return reason


def _why_no_multicast(hardware: Hardware) -> str:
    """Why the switches of a node cannot reduce and copy for its GPUs, which NVLS and NVLSTree need."""
    if hardware.ranks_per_node < 2:
        return "needs two GPUs of a node"
    if not hardware.nvls:
        return "needs NVSwitch with multicast (Hopper or newer), and NCCL_NVLS_ENABLE"
    least = hardware.constants.nvls["least_channels"]
    if hardware.nvls_graph is None or hardware.nvls_graph.channels < least:
        return f"needs {least} channels or more"
    return ""


def _why_no_collnet(hardware: Hardware, primitive: Primitive) -> str:
    """Why neither CollNet algorithm can run: on too few or too large nodes, or without SHARP."""
    limits = hardware.constants.collnet
    if hardware.nodes < limits["least_nodes"]:
        return f"needs {limits['least_nodes']} nodes or more"
    if hardware.collnet and hardware.ranks_per_node > limits["most_ranks_per_node"]:
        return f"needs at most {limits['most_ranks_per_node']} ranks per node"
    return _why_no_sharp(hardware, primitive)


def _why_no_sharp(hardware: Hardware, primitive: Primitive) -> str:
    """Why no switch reduces between nodes; all-gather and reduce-scatter also need a NIC for each
    GPU."""
    if not hardware.collnet or hardware.collnet_graph is None:
        return "needs SHARP: NCCL_COLLNET_ENABLE=1 and a CollNet plugin"
    if primitive is not AR and hardware.nics < hardware.ranks_per_node:
        return "needs a NIC for each GPU"
    return ""


def bandwidth_GBps(
    hardware: Hardware, primitive: Primitive, algorithm: str, protocol: str
) -> float:
    """The bandwidth of a call before corrections by size.

    The share of the channels' bandwidth: P/steps for rings and NVLS all-reduce, half for tree and
    CollNet all-reduce, all of it for an all-gather or reduce-scatter by anything but a ring.
    """
    bus = bus_GBps(hardware, primitive, algorithm, protocol)
    if algorithm == "ring" or (primitive is AR and algorithm.startswith("nvls")):
        return bus * hardware.ranks / _ring_steps(hardware, primitive)
    if primitive is AR:
        return bus * 0.5
    return bus


def bus_GBps(hardware: Hardware, primitive: Primitive, algorithm: str, protocol: str) -> float:
    """The bandwidth of the channels, less what the protocol, per-channel limits and the pattern
    cost.

    CollNet's algorithms count the rate inside a node alone; CollNet direct is slowed by ranks that share a
    channel, and for an all-gather or reduce-scatter bound by a share of the rate between nodes.
    """
    share = hardware.constants.share
    graph = hardware.graph_of(algorithm)
    match algorithm:
        case "ring":
            return _ring_GBps(hardware, protocol)
        case "tree":
            return _tree_GBps(hardware, protocol)
        case "nvls" | "nvls_tree":
            return _nvls_GBps(hardware, primitive, algorithm)
        case "pat":
            return _channels_GBps(hardware, graph, "pat") * share["pat"]
        case "collnet_chain":
            return graph.channels * graph.inside_GBps
        case "collnet_direct" if primitive is AR:
            # NCCL's own form of (ratio + 1) / 2, kept for the last digit.
            ratio = hardware.ranks_per_node / graph.channels
            slowdown = ratio - (ratio - 1) / 2
            reached = share["collnet_direct_from_hopper"] if hardware.from_hopper else 1.0
            return graph.channels * graph.inside_GBps / slowdown * reached
        case "collnet_direct":
            across = share["collnet_direct_gather_across"] * graph.across_GBps
            return hardware.ranks_per_node * min(graph.inside_GBps, across)
    raise AssertionError(algorithm)


def _ring_GBps(hardware: Hardware, protocol: str) -> float:
    """The bandwidth of the ring's channels; LL and LL128 reach a share of it, up to a limit."""
    numbers = hardware.constants
    bus = _channels_GBps(hardware, hardware.ring, "ring")
    match protocol:
        case "ll":
            return min(_ll_most_GBps(hardware), bus * numbers.share["ring_ll"])
        case "ll128":
            most = (
                hardware.ring.channels
                * numbers.ring_ll128_channel_GBps[hardware.gpu][hardware.column]
            )
            return min(bus * numbers.share["ring_ll128"], most)
    return bus


def _tree_GBps(hardware: Hardware, protocol: str) -> float:
    """The bandwidth of the tree's channels; LL and LL128 have limits and shares of their own."""
    numbers = hardware.constants
    share = numbers.share
    channels = hardware.tree.channels
    bus = min(
        _channels_GBps(hardware, hardware.tree, "tree") * share["tree"],
        channels * numbers.tree_channel_GBps[hardware.gpu][hardware.column],
    )
    match protocol:
        case "ll":
            bus = min(bus * share["tree_ll"], _ll_most_GBps(hardware))
        case "ll128":
            bus *= share["tree_ll128_one_node" if hardware.nodes == 1 else "tree_ll128"]
            bus = min(
                bus, channels * numbers.tree_ll128_channel_GBps[hardware.gpu][hardware.column]
            )
    return bus * share["tree_simple_pattern"] if hardware.simple_tree else bus


def _ll_most_GBps(hardware: Hardware) -> float:
    """The most that LL moves: by GPU inside a node, by host across nodes."""
    numbers = hardware.constants
    if hardware.nodes == 1:
        return numbers.ll_most_GBps[hardware.gpu][hardware.column]
    return numbers.ll_most_GBps[numbers.cpu[hardware.cpu].ll_row][hardware.column]


def _channels_GBps(hardware: Hardware, graph: Graph, algorithm: str) -> float:
    """Bandwidth of all channels of a graph, at the rate that the version takes for an algorithm.

    On one node that is the rate inside. On several the rule ``bandwidth_from`` says: ``across``, the rate
    between nodes; ``inside``, the rate inside on two nodes and between nodes on more; ``min``, the lower.
    """
    rule = hardware.constants.rule["bandwidth_from"][algorithm]
    rate = graph.across_GBps
    if hardware.nodes == 1 or (rule == "inside" and hardware.nodes == 2):
        rate = graph.inside_GBps
    elif rule == "min":
        rate = min(graph.inside_GBps, rate)
    return graph.channels * rate


def _nvls_GBps(hardware: Hardware, primitive: Primitive, algorithm: str) -> float:
    """The bandwidth of the channels of NVLS or NVLSTree: the lower of a channel's inside a node and
    between nodes, times their number. Inside a node one channel less counts, and NVLSTree has a limit;
    between two nodes NVLSTree counts twice: all as NCCL has it."""
    numbers = hardware.constants
    graph = hardware.nvls_graph
    # why_not refuses NVLS without
    assert graph is not None
    # NCCL counts a channel's rate twice for an all-reduce, and for the share of a rank's peers elsewhere.
    by_pattern = 2.0 if primitive is AR else (hardware.ranks_per_node - 1) / hardware.ranks_per_node
    efficiency: float = numbers.nvls["efficiency"][hardware.gpu]
    rate = graph.inside_GBps * efficiency * (graph.channels - 1) / graph.channels * by_pattern
    across = graph.across_GBps
    if algorithm == "nvls_tree":
        rate = min(rate, numbers.nvls_tree_channel_GBps[hardware.gpu][hardware.column])
        if hardware.nodes <= 2:
            across *= 2
    return graph.channels * min(rate, across)


def _ring_steps(hardware: Hardware, primitive: Primitive) -> int:
    """Consecutive messages of a ring as NCCL counts them: 2(P-1), P-1, and P for a broadcast or
    reduce."""
    if primitive in (BC, REDUCE):
        return hardware.ranks
    return 2 * (hardware.ranks - 1) if primitive is AR else hardware.ranks - 1


class LatencyTerm(NamedTuple):
    """A part of a call's latency, ``times`` of ``us`` microseconds: 14 hops inside a node of 0.6 us.
    ``name`` says in output what is counted."""

    name: str
    times: float
    us: float


def latency_terms(
    hardware: Hardware, primitive: Primitive, algorithm: str, protocol: str
) -> list[LatencyTerm]:
    """The terms of a call's latency, before the ring's :func:`plateau`.

    base is a launch by algorithm and protocol, net a hop between nodes with what the NICs add to it.
    Numbers below are 2.30's.

    - ring: base + (steps - between)·max(hop, host) + between·net; steps 2(P-1) for an all-reduce,
      else P-1; between 2(N-1) or N-1; host: what the CPU adds to a step across nodes. A broadcast
      or reduce streams: one hop if all rings visit the GPUs in the same order, else every hop
      (under Simple a tree's).
    - tree: base + 2·((p-1)·hop + log2(N)·net), the logarithm rounded down: a chain in the node, a
      tree of nodes.
    - collnet_direct: 2·(min(1, p-1)·hop + 0.4·(p-1)) + net; collnet_chain: 2·(p-1)·hop + net.
    - nvls: hop, and net across nodes; nvls_tree: base + hop + 2·log2(N)·net.
    - pat: base + log2(N)·net/3.5 + 2.8·P.
    """
    numbers = hardware.constants
    peers = hardware.ranks_per_node - 1
    base = LatencyTerm("base", 1, numbers.base_us(algorithm, protocol))
    # between nodes, with one rank on each: up to 2.30 a tree's, which hides nothing
    is_tree_hop = peers == 0 and numbers.rule["lone_rank_hop"] == "tree"
    net_us = numbers.hop_us("net", "tree" if is_tree_hop else algorithm, protocol)
    # Simple waits for a NIC twice: for the data, and for the flush behind it
    waits = 2 if protocol == "simple" else 1
    net_us += waits * hardware.graph_of(algorithm).latency_us
    inside_us = numbers.hop_us(hardware.link_of(algorithm), algorithm, protocol)
    # a hop of each kind; the algorithm says below how many
    inside = LatencyTerm("hops inside a node", 1, inside_us)
    between = LatencyTerm("hops between nodes", 1, net_us)
    match algorithm:
        case "ring" if primitive in (BC, REDUCE):
            return [base, _stream_hops(hardware, protocol)]
        case "ring":
            crossing = 2 * (hardware.nodes - 1) if primitive is AR else hardware.nodes - 1
            host_us = numbers.cpu[hardware.cpu].net_overhead_us if hardware.nodes > 1 else 0.0
            if protocol == "simple":
                host_us *= numbers.latency["simple_net_overhead"]
            steps = _ring_steps(hardware, primitive) - crossing
            inside = inside._replace(times=steps, us=max(inside.us, host_us))
            return [base, inside, between._replace(times=crossing)]
        case "tree":
            inside = inside._replace(times=2 * peers)
            return [base, inside, between._replace(times=2 * hardware.tree_levels)]
        case "collnet_direct":
            peer_us = numbers.latency["collnet_direct_peer_us"]
            peer = LatencyTerm("GPUs read directly", 2 * peers, peer_us)
            return [inside._replace(times=2 * min(1, peers)), peer, between]
        case "collnet_chain":
            return [inside._replace(times=2 * peers), between]
        case "nvls":
            return [inside, between._replace(times=int(hardware.nodes > 1))]
        case "nvls_tree":
            return [base, inside, between._replace(times=2 * hardware.tree_levels)]
        case "pat":
            rank = LatencyTerm("ranks", hardware.ranks, numbers.latency["pat_rank_us"])
            hops = hardware.tree_levels / numbers.latency["pat_hop_share"]
            return [base, between._replace(times=hops), rank]
    raise AssertionError(algorithm)


def _stream_hops(hardware: Hardware, protocol: str) -> LatencyTerm:
    """The hops of a broadcast or reduce, whose messages follow each other through the ring: one
    where all rings visit the GPUs in the same order, else one a rank."""
    numbers = hardware.constants
    wires: str = "net"
    if hardware.nodes == 1 or numbers.rule["rooted_hops"] == "inside":
        wires = hardware.link_of("ring")
    if hardware.same_channels:
        return LatencyTerm("hops of a stream", 1, numbers.hop_us(wires, "ring", protocol))
    hop_of = "tree" if protocol == "simple" else "ring"
    us = numbers.hop_us(wires, hop_of, protocol)
    return LatencyTerm("hops from rank to rank", hardware.ranks, us)


def corrections(
    hardware: Hardware, primitive: Primitive, algorithm: str, protocol: str
) -> dict[float, float]:
    """Factors on the bandwidth, by the size from which each holds; empty where it is the same at all
    sizes.

    They are for all-reduce by trees, and by NVLSTree on Blackwell with x86 hosts. From ``first_bytes``
    on there is one for each doubling of the size, and 1 after the last. An algorithm uses as many of
    the protocol's row as its ``..._steps`` say.
    """
    table = hardware.constants.size_correction
    x86_blackwell = hardware.gpu == "blackwell" and hardware.constants.cpu[hardware.cpu].x86
    corrected = algorithm == "tree" or (algorithm == "nvls_tree" and x86_blackwell)
    if primitive is not AR or not corrected:
        return {}
    steps = table[f"{algorithm}_steps"]
    first = float(table["first_bytes"])
    factors = [*table[protocol][:steps], 1.0]
    return {first * 2**step: factor for step, factor in enumerate(factors)}


def plateau(
    hardware: Hardware, primitive: Primitive, algorithm: str, protocol: str
) -> dict[float, float]:
    """The factor on the latency of a ring all-reduce under Simple across nodes, by the size from which
    it holds; empty for all else."""
    if (primitive, algorithm, protocol) != (AR, "ring", "simple") or hardware.nodes == 1:
        return {}
    limit = hardware.constants.plateau
    # ``bytes`` are those of a rank's part on one channel
    from_bytes = float(limit["bytes"] * hardware.channels * hardware.ranks)
    return {from_bytes: limit["factor"][hardware.gpu]}


BySize = Callable[[Hardware, Primitive, str, str], dict[float, float]]
"""Factors for an algorithm under a protocol, by the size in bytes from which each holds."""


class Rules(NamedTuple):
    """What a version computes: availability, latency, bandwidth, their changes with size, and
    channels per pattern (:mod:`colltool.libraries.nccl.graphs`). The defaults are 2.30's."""

    why_not: Callable[[Hardware, Primitive, str, str], str] = why_not
    latency_terms: Callable[[Hardware, Primitive, str, str], list[LatencyTerm]] = latency_terms
    bus_GBps: Callable[[Hardware, Primitive, str, str], float] = bus_GBps
    bandwidth_GBps: Callable[[Hardware, Primitive, str, str], float] = bandwidth_GBps
    corrections: BySize = corrections
    plateau: BySize = plateau
    ring_graph: Callable[[Constants, GpuNodes], Graph] = graphs.ring_graph
    tree_graph: Callable[[Constants, GpuNodes], Graph] = graphs.tree_graph
    nvls_graph: Callable[[Constants, GpuNodes], Graph | None] = graphs.nvls_graph
    collnet_graph: Callable[[Constants, GpuNodes], Graph] = graphs.collnet_graph
    communicator_channels: Callable[[Constants, GpuNodes, Graph], int] = (
        graphs.communicator_channels
    )


RULES = {"2.30": Rules()}


def rules_of(numbers: Constants) -> Rules:
    """The rules that a version's data name; a ColltoolError if they name none that exist."""
    if numbers.rules not in RULES:
        raise ColltoolError(
            f"the data of NCCL {numbers.version} names rules '{numbers.rules}', which do not exist",
            where="library.version",
            fix=f"known rules: {', '.join(RULES)}",
        )
    return RULES[numbers.rules]
