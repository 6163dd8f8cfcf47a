"""What NCCL's topology search finds on a node of a topology file (NCCL_TOPO_DUMP_FILE), for its
fabric file: :func:`search_node`.

The search itself is that of ``libraries.nccl.topology``. Here it is run for groups of the node's GPUs,
inside the node and across nodes, and its graphs become entries of ``library.channels``.

A search gives ``NodeGraphs``: ``domains`` are the nodes that NCCL makes of the file (``first`` is one of
them), each with its ``ranks`` and with ``graphs`` by name; ``system`` is the tree as NCCL sees it. A
``Communicator`` has the same graphs joined to channels of all nodes. Rates there are in NCCL's MB/s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from colltool.base.errors import ColltoolError, clipped
from colltool.base.formatting import counted
from colltool.base.xml_tree import Element
from colltool.fabric.dumps import pci
from colltool.fabric.dumps.node import NVLINK_5_BPS, NVLINK_BPS, NodeSearch
from colltool.fabric.dumps.sentences import sentence_of
from colltool.libraries.nccl.topology.binding import binding_of, carried_MBps
from colltool.libraries.nccl.topology.changes import MAX_VISITS
from colltool.libraries.nccl.topology.connect import Communicator, Joined, communicator_of
from colltool.libraries.nccl.topology.graphs import NodeGraphs, graphs_of_xml
from colltool.libraries.nccl.topology.kinds import KINDS, NVL, PXN
from colltool.libraries.nccl.topology.rates import TRANSFERS_COUNTED, number, nvlink_MBps
from colltool.libraries.nccl.topology.to_hardware import cpu_of, generation
from colltool.libraries.nccl.topology.versions import RELEASE, version_of

# The rate of a slot over the one that NCCL counts for it: of GPUs all that it transfers, of NICs 50 GB/s
# in one that is counted with 48.
_GPU_IN_SLOT = 1 / TRANSFERS_COUNTED
_NIC_IN_SLOT = 50 / 48
# Keys of an entry of ``library.channels``, and NCCL's graphs that they hold.
_GRAPHS = {"ring": "ring", "tree": "tree", "nvls": "nvls", "collnet": "collnet_chain"}
# Compute capability of the first GPUs with fifth-generation NVLink.
_BLACKWELL_SM = 100
# A search of a whole rack takes minutes, and NCCL's own graphs of one were never compared.
_MOST_GPUS = 16


class _TopologyFile(NamedTuple):
    """A topology file with its slots completed. ``has_collnet``: a NIC of it offers CollNet."""

    root: Element
    name: str
    has_collnet: bool

    def search(self, ranks: Sequence[int], nodes: int) -> NodeGraphs:
        """Return NCCL's graphs for these ranks of the file, on so many nodes like it."""
        return graphs_of_xml(
            self.root,
            self.name,
            nodes,
            version_of(RELEASE),
            collnet=self.has_collnet,
            ranks=ranks,
        )


def search_node(root: Element, name: str, model: str) -> NodeSearch | None:
    """Return what NCCL finds for a file's GPUs, and for the first 1, 2, 4 ... of them.

    None for a file that NCCL completes when it runs (one without ranks), for more than 16 GPUs, and for
    accelerators that are not NVIDIA's.

    Args:
        root: the file's outermost element; slots without a speed get the usual one.
        name: the file's, for errors.
        model: of the GPUs, such as ``NVIDIA H100``.

    Raises:
        ColltoolError: as :func:`colltool.libraries.nccl.topology.graphs.graphs_of`; GPUs that NCCL
            makes nodes of different size of.
    """
    ranks = _ranks(root)
    is_amd = next(root.each("xgmi"), None) is not None
    if is_amd or not 0 < len(ranks) <= _MOST_GPUS:
        return None
    # before any search: it reads the speeds
    assumed = _complete_slots(root, model)
    has_collnet = any(net.get("coll") == "1" for net in root.each("net"))
    file = _TopologyFile(root, name, has_collnet)
    # All GPUs of the host, on one host. Where a NIC is nearer to a GPU than other GPUs are, NCCL makes
    # several nodes (domains) of them, which the network joins: these graphs are then those across nodes,
    # and those inside are searched for the ranks of the first. Else two hosts give those across, if there
    # are NICs.
    of_host = file.search(ranks, 1)
    ranks_of_node = sorted(of_host.first.ranks)
    if len({len(domain.ranks) for domain in of_host.domains}) > 1:
        raise _unequal_domains(of_host, name)
    inside = of_host
    across = None
    has_domains = len(of_host.domains) > 1
    if has_domains:
        inside = file.search(ranks_of_node, 1)
        across = of_host
    elif of_host.system.nets:
        across = file.search(ranks, 2)
    entries = []
    visits = sum(domain.visits for domain in (across or of_host).domains)
    # a search that took so long is not run again for fewer ranks
    if not has_domains and visits < MAX_VISITS:
        entries = list(_entries_of_fewer(file, ranks_of_node, across is not None))
    gpus = len(ranks_of_node)
    entries.append(_entry(gpus, 1, communicator_of(inside)))
    if across is not None:
        entries.append(_entry(gpus, 2, communicator_of(across), across))
    return _node_search(inside, across, entries, assumed)


def _ranks(root: Element) -> list[int]:
    """One rank of each GPU, ascending; none of a file that several communicators wrote, in which a rank
    occurs twice."""
    rank_of: dict[int, int] = {}
    for gpu in root.each("gpu"):
        # AMD's have a ``gcn``
        if gpu.get("rank") and not gpu.get("gcn"):
            # the element around a gpu is its device; the first of several ranks on it counts
            rank_of.setdefault(id(gpu.parent), number(gpu.get("rank")))
    ranks = sorted(rank_of.values())
    if len(set(ranks)) < len(ranks):
        return []
    return ranks


def _complete_slots(root: Element, model: str) -> list[str]:
    """Give slots without ``link_speed``, which NCCL looks up where the job runs, the usual one of the
    accelerators, in the tree itself. Returns the sentences on what was assumed: one, or none."""
    unknown = [slot for slot in root.each("pci") if "link_speed" not in slot.attributes]
    usual_Bps = pci.usual_host(model).slot_Bps
    if not unknown or usual_Bps is None:
        return []
    for slot in unknown:
        slot.attributes["link_speed"] = f"{pci.lane_GTps(usual_Bps):.1f} GT/s PCIe"
    return [sentence_of("usual-slot", rate=f"{usual_Bps / 1e9:g}GB/s", model=model)]


def _unequal_domains(of_host: NodeGraphs, name: str) -> ColltoolError:
    """The error for a file whose GPUs become nodes of different size."""
    sizes = " and ".join(str(len(domain.ranks)) for domain in of_host.domains)
    ranks = ",".join(map(str, sorted(of_host.first.ranks)))
    return ColltoolError(
        f"NCCL makes nodes of {sizes} GPUs of it, which the network alone joins; those of a fabric file"
        " have one size",
        where=name,
        fix=f"dump a job on the GPUs of one: CUDA_VISIBLE_DEVICES={clipped(ranks)}",
    )


# --- the graphs as entries of ``library.channels``


def _entries_of_fewer(
    file: _TopologyFile, ranks: Sequence[int], has_network: bool
) -> Iterator[dict[str, Any]]:
    """The graphs of the first 1, 2, 4 ... of a node's ranks, fewer than all; inside before across."""
    count = 1
    while count < len(ranks):
        first_ranks = ranks[:count]
        inside = file.search(first_ranks, 1)
        # several domains are joined by the network alone: no node of so many
        if len(inside.domains) == 1:
            if count > 1:
                yield _entry(count, 1, communicator_of(inside))
            if has_network:
                across = file.search(first_ranks, 2)
                yield _entry(count, 2, communicator_of(across), across)
        count *= 2


def _entry(
    gpus: int, nodes: int, communicator: Communicator, across: NodeGraphs | None = None
) -> dict[str, Any]:
    """The graphs of a communicator as ``library.channels`` of a fabric file has them.

    Args:
        gpus: of each node.
        across: those from which ``communicator`` was made, where it spans nodes.
    """
    entry: dict[str, Any] = {"gpus": gpus, "nodes": nodes}
    graphs = communicator.graphs
    if across is not None:
        # the file has CollNet's graphs too; a price takes them only if CollNet is enabled
        graphs = communicator_of(across, collnet=True).graphs | graphs
    for key, name in _GRAPHS.items():
        if name in graphs:
            entry[key] = _graph(graphs[name], key)
    entry["total"] = communicator.channels
    return entry


def _graph(joined: Joined, key: str) -> Mapping[str, Any]:
    """A graph as an entry has it under ``key``, rates as text. A rate across that is no other than the one
    inside, and no latency, are left out."""
    graph: dict[str, Any] = {"channels": joined.channels, "inside": _rate(joined.inside_MBps)}
    if joined.across_MBps != joined.inside_MBps:
        graph["across"] = _rate(joined.across_MBps)
    graph["type"] = f"{KINDS[joined.inside]}/{KINDS[joined.across]}"
    if key == "tree":
        graph["pattern"] = joined.pattern
    if key == "ring":
        graph["same"] = joined.same
    if joined.latency_us:
        graph["latency"] = f"{joined.latency_us:.10g}us"
    return graph


def _rate(MBps: float) -> str:
    return f"{MBps / 1000:.10g}GB/s"


# --- what the rings carry


def _node_search(
    inside: NodeGraphs,
    across: NodeGraphs | None,
    entries: list[dict[str, Any]],
    assumed: list[str],
) -> NodeSearch:
    """What is read from the graphs of a node, and from those across nodes (None without NICs)."""
    system = inside.system
    link_Bps = NVLINK_BPS
    if system.least_sm >= _BLACKWELL_SM:
        link_Bps = NVLINK_5_BPS
    notes = []
    inside_Bps = None
    if len(system.gpus) > 1:
        # NCCL counts less for an NVLink than it carries
        counted_MBps = nvlink_MBps(system.least_sm, system.version)
        inside_Bps = _carried_Bps(inside, link_Bps / 1e6 / counted_MBps, _GPU_IN_SLOT)
        notes.append(_rings_note("rings-inside", inside))
    across_Bps = None
    nics: frozenset[int] = frozenset()
    domains = 1
    gpudirect = True
    if across is not None:
        domains = len(across.domains)
        nics = frozenset(_used_nics(across))
        # what NVLinks carry is another tier's: they are not to bind
        across_Bps = _carried_Bps(across, inf, _NIC_IN_SLOT)
        notes.append(_rings_note("rings-across", across))
        # types grow with the distance; a NIC farther than PXN does not reach the memory of GPUs
        gpudirect = across.first.graphs["ring"].across <= PXN
        if domains > 1:
            notes.append(sentence_of("domains", count=domains, gpus=len(across.first.ranks)))
    return NodeSearch(
        release=RELEASE,
        gpu=generation(system.least_sm),
        cpu=cpu_of(system),
        link="nvlink" if inside.first.graphs["ring"].inside == NVL else "pci",
        ranks=tuple(sorted(inside.first.ranks)),
        domains=domains,
        groups=tuple(entries),
        nics=nics,
        inside_Bps=inside_Bps,
        across_Bps=across_Bps,
        gpudirect=gpudirect,
        notes=tuple(notes),
        assumed=tuple(assumed),
    )


def _carried_Bps(node: NodeGraphs, nvlink_share: float, slot_share: float) -> float:
    """What all rings of a node carry, in bytes/s one way; of several domains the least.

    Args:
        nvlink_share: the rate of an NVLink over the one that NCCL counts for it; infinite if it is not to
            bind.
        slot_share: the same of a slot, or of a way between CPUs.
    """
    share_of_part = {"nvlink": nvlink_share, "c2c": 1.0, "port": 1.0}
    carried = []
    for domain in node.domains:
        ring = domain.graphs["ring"]
        carried.append(carried_MBps(domain, ring, lambda part: share_of_part.get(part, slot_share)))
    return round(min(carried), 3) * 1e6


def _used_nics(node: NodeGraphs) -> Iterator[int]:
    """The ids of the elements of the NICs that channels use."""
    domain = node.first
    for searched in domain.graphs.values():
        for channel in searched.best.channels:
            for place in channel.nets:
                yield id(domain.paths.system.nets[place].element)


def _rings_note(code: str, node: NodeGraphs) -> str:
    """How many rings there are, and what binds them; ``code``: of the sentence."""
    ring = node.first.graphs["ring"]
    channels = counted(ring.best.channel_count, "ring channel")
    text = sentence_of(code, release=RELEASE, channels=channels, rate=_rate(ring.inside_MBps))
    binding = binding_of(node.first, ring)
    if binding is None:
        return text
    return f"{text}; what binds: {binding.text}"
